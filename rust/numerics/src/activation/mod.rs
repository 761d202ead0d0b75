//! The activation functions that the scalar engine computes.

mod constants;
#[cfg(target_arch = "x86_64")]
mod doubtful;
mod function;
#[cfg(target_arch = "x86_64")]
mod moving;
mod scalar;
mod simd;
#[cfg(target_arch = "x86_64")]
mod tables;

pub use function::ActivationFunction;

use crate::array::{AlignedBytes, ArrayMut, ElementSource, element_count};
use crate::cast::scalar::{stored, value_of};
use crate::cast::{Encoder, Overflow, Rounding, decode, encode};
use crate::elementwise::{self, TASK};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::simd::{Traffic, active_level, dispatch};
use crate::{fpenv, par};

#[cfg(not(target_arch = "x86_64"))]
use activate_exactly as activate_slice;
#[cfg(target_arch = "x86_64")]
use doubtful::activate as activate_slice;

dispatch! {
    /// One function of a source as long as the values, or of the values themselves, in the definition's float64;
    /// `parameter` is prelu's slope.
    fn activate_exactly(
        function: ActivationFunction,
        parameter: f32,
        source: Option<&[f32]>,
        values: &mut [f32],
        traffic: Traffic,
    )
        = scalar::activate, simd::activate;

    /// x * scale + addend, rounded once, in rows of `columns` with a scale and an addend each.
    fn multiply_add_rows(columns: usize, scales: &[f32], addends: &[f32], values: &mut [f32])
        = scalar::multiply_add, simd::multiply_add;
}

/// Writes a function of every element of `source`, computed as float32 and rounded to nearest in the format of `out`.
///
/// Any format but block scales comes in and goes out. `parameter` is the slope of [`ActivationFunction::Prelu`]; the other
/// functions do not use it.
///
/// Float32 results are within 0.51 ulp of the true value over all of float32, subnormal arguments and results, tails and
/// the neighbourhoods of zeros included (`exp` within 0.9); `copy`, `square`, `relu`, `prelu`, `sqrt`, `reciprocal`,
/// `sign` and `abs` are correctly rounded. The hardware's tables are not published: that it computes the true function
/// is a model choice **(choice)**, and so are these:
/// - NaN, and functions of what is outside their domain, give the canonical NaN; log(+-0) = -inf, reciprocal(+-0) and
///   rsqrt(+-0) are infinite with that sign, and limits at infinity are taken with the sign from which they are reached.
/// - sign(-0) and relu(-0) are +0; prelu(-0) is -0.
/// - sin reduces no range: beyond pi it is the third-order Taylor polynomial about pi, -(x - pi) + (x - pi)^3 / 6,
///   below -pi its odd mirror. That gives 27.65 for 9, as documented.
///
/// # Errors
/// [`Error::Dtype`] for block scales; [`Error::Shape`] when the shapes differ; [`Error::Interrupted`].
///
/// ```
/// use half::bf16;
/// use trn3_numerics::{ActivationFunction, ArrayMut, ArrayView, activation};
///
/// let x = [-1.0f32, 0.0, 3.0];
/// let mut y = [bf16::ZERO; 3];
/// activation(&ArrayView::new(&x, &[3])?.into(), ActivationFunction::Gelu, 0.0, ArrayMut::new(&mut y, &[3])?)?;
/// assert_eq!(y.map(f32::from), [-0.15820313, 0.0, 3.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn activation(
    source: &ElementSource<'_>,
    function: ActivationFunction,
    parameter: f32,
    out: ArrayMut<'_>,
) -> Result<()> {
    let level = active_level()?;
    let (from, to) = (source.format(), out.format());
    check_formats(from, to)?;
    let encoder = Encoder::new(to, Rounding::Nearest, Overflow::Ieee);
    if from == Format::F32 && to == Format::F32 {
        let traffic = Traffic::of(element_count(out.shape()) * to.item_size());
        return elementwise::for_each_long_piece(source, out, |_, codes, out| {
            let values = bytemuck::cast_slice_mut(out);
            activate_slice(level, function, parameter, Some(bytemuck::cast_slice(codes)), values, traffic);
        });
    }
    elementwise::for_each_piece(source, out, |_, codes, out, values: &mut AlignedBytes| {
        if to == Format::F32 {
            let values = bytemuck::cast_slice_mut(out);
            decode(level, from, codes, values);
            activate_slice(level, function, parameter, None, values, Traffic::Near);
        } else {
            let values = values.slice_mut(codes.len() / from.item_size());
            decode(level, from, codes, values);
            activate_slice(level, function, parameter, None, values, Traffic::Near);
            encode(level, &encoder, values, &[], out);
        }
    })
}

/// [`activation`] of one code, by the definition. What [`crate::cast_one`] says of one code holds.
///
/// # Errors
/// [`Error::Dtype`] for block scales.
#[inline]
pub fn activation_one(
    from: Format,
    code: u32,
    function: ActivationFunction,
    parameter: f32,
    to: Format,
) -> Result<u32> {
    check_formats(from, to)?;
    let mut value = [value_of(from, code)];
    scalar::activate(function, parameter, None, &mut value, Traffic::Near);
    Ok(stored(value[0], to, Rounding::Nearest, Overflow::Ieee, 0))
}

#[inline]
fn check_formats(from: Format, to: Format) -> Result<()> {
    for (argument, format) in [("x", from), ("out_dtype", to)] {
        if format == Format::F8E8M0Fnu {
            return Err(Error::dtype(argument, format, "every other format, block scales are no numbers of their own"));
        }
    }
    Ok(())
}

/// Replaces float32 values by a function of them, as [`activation`] does.
///
/// Made to be called often: nothing is allocated, and up to 65,536 values are worked on by the calling thread alone.
///
/// # Errors
/// [`Error::Value`] when `TRN3_SIMD` or `TRN3_NUM_THREADS` is wrong; [`Error::Interrupted`].
///
/// ```
/// use trn3_numerics::{ActivationFunction, activate};
///
/// let mut values = [-2.0, 0.0, 5.0];
/// activate(&mut values, ActivationFunction::Prelu, 0.25)?;
/// assert_eq!(values, [-0.5, 0.0, 5.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn activate(values: &mut [f32], function: ActivationFunction, parameter: f32) -> Result<()> {
    let level = active_level()?;
    if values.len() <= TASK {
        fpenv::with_default_environment(|| activate_slice(level, function, parameter, None, values, Traffic::kept()));
        return Ok(());
    }
    par::for_each(values.chunks_mut(TASK), |piece| {
        activate_slice(level, function, parameter, None, piece, Traffic::kept())
    })
}

/// Replaces float32 values by `x * scale + addend`, rounded once: what the scalar engine feeds its functions with.
///
/// `values` are rows of `columns`, `scales` and `addends` one value a row. NaN results are canonical. Made to be called
/// often, as [`activate`].
///
/// # Errors
/// [`Error::Shape`] when the numbers of rows differ; [`Error::Value`] when `TRN3_SIMD` is wrong.
///
/// ```
/// use trn3_numerics::multiply_add;
///
/// let mut values = [1.0, 2.0, 3.0, 4.0];
/// multiply_add(&mut values, 2, &[2.0, 0.5], &[0.0, -1.0])?;
/// assert_eq!(values, [2.0, 4.0, 0.5, 1.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn multiply_add(values: &mut [f32], columns: usize, scales: &[f32], addends: &[f32]) -> Result<()> {
    let level = active_level()?;
    let rows = values.len().checked_div(columns).unwrap_or(0);
    for (argument, given) in [("scales", scales), ("addends", addends)] {
        if columns > 0 && (given.len() != rows || rows * columns != values.len()) {
            let needed = format!("one value for each row of {columns} is needed, of {} values", values.len());
            return Err(Error::shape(argument, &[given.len()], needed));
        }
    }
    if !values.is_empty() {
        fpenv::with_default_environment(|| multiply_add_rows(level, columns, scales, addends, values));
    }
    Ok(())
}
