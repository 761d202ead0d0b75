//! The activation functions that the scalar engine computes.

pub(crate) mod constants;
pub(crate) mod scalar;
pub(crate) mod simd;

use std::fmt;
use std::str::FromStr;

use crate::array::{AlignedBytes, ArrayMut, Source};
use crate::cast::simd::Encoder;
use crate::cast::{Overflow, Rounding};
use crate::elementwise::{self, TASK};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::simd::dispatch;
use crate::{fpenv, par};

/// A function of the scalar engine, of one float32.
///
/// Phi is the normal distribution's cumulative function, s(x) = 1 / (1 + e^-x).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Activation {
    /// x.
    Copy,
    /// x^2.
    Square,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// x where it is positive, else +0.
    Relu,
    /// x where it is at least 0 (-0 too), else x times the parameter.
    Prelu,
    /// x * Phi(x).
    Gelu,
    /// The derivative of gelu: Phi(x) + x * Phi'(x).
    GeluDx,
    /// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
    GeluApprxTanh,
    /// x * s(1.702 x).
    GeluApprxSigmoid,
    /// The derivative of that: s + 1.702 x s (1 - s), s taken of 1.702 x.
    GeluApprxSigmoidDx,
    /// x * s(x).
    Silu,
    /// The derivative of silu: s (1 + x (1 - s)).
    SiluDx,
    /// tanh x.
    Tanh,
    /// ln(1 + e^x).
    Softplus,
    /// x * tanh(ln(1 + e^x)).
    Mish,
    /// erf x.
    Erf,
    /// The derivative of erf: 2 / sqrt(pi) * e^(-x^2).
    ErfDx,
    /// e^x: the bits of [`crate::exp`] without bias.
    Exp,
    /// ln x.
    Log,
    /// sin x from -pi to pi; beyond, see [`activation`].
    Sin,
    /// arctan x.
    Arctan,
    /// The square root.
    Sqrt,
    /// 1 over the square root.
    Rsqrt,
    /// 1 / x.
    Reciprocal,
    /// -1, +0 or 1.
    Sign,
    /// The magnitude.
    Abs,
}

impl Activation {
    /// Every function.
    pub const ALL: [Activation; 26] = [
        Activation::Copy,
        Activation::Square,
        Activation::Sigmoid,
        Activation::Relu,
        Activation::Prelu,
        Activation::Gelu,
        Activation::GeluDx,
        Activation::GeluApprxTanh,
        Activation::GeluApprxSigmoid,
        Activation::GeluApprxSigmoidDx,
        Activation::Silu,
        Activation::SiluDx,
        Activation::Tanh,
        Activation::Softplus,
        Activation::Mish,
        Activation::Erf,
        Activation::ErfDx,
        Activation::Exp,
        Activation::Log,
        Activation::Sin,
        Activation::Arctan,
        Activation::Sqrt,
        Activation::Rsqrt,
        Activation::Reciprocal,
        Activation::Sign,
        Activation::Abs,
    ];

    /// The name, as `nki.language` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Activation::Copy => "copy",
            Activation::Square => "square",
            Activation::Sigmoid => "sigmoid",
            Activation::Relu => "relu",
            Activation::Prelu => "prelu",
            Activation::Gelu => "gelu",
            Activation::GeluDx => "gelu_dx",
            Activation::GeluApprxTanh => "gelu_apprx_tanh",
            Activation::GeluApprxSigmoid => "gelu_apprx_sigmoid",
            Activation::GeluApprxSigmoidDx => "gelu_apprx_sigmoid_dx",
            Activation::Silu => "silu",
            Activation::SiluDx => "silu_dx",
            Activation::Tanh => "tanh",
            Activation::Softplus => "softplus",
            Activation::Mish => "mish",
            Activation::Erf => "erf",
            Activation::ErfDx => "erf_dx",
            Activation::Exp => "exp",
            Activation::Log => "log",
            Activation::Sin => "sin",
            Activation::Arctan => "arctan",
            Activation::Sqrt => "sqrt",
            Activation::Rsqrt => "rsqrt",
            Activation::Reciprocal => "reciprocal",
            Activation::Sign => "sign",
            Activation::Abs => "abs",
        }
    }

    /// The smallest and the largest magnitude for which the hardware's result is documented to be valid; `None` where
    /// that is every number. Results of this crate are right outside as well, but for `sin`.
    ///
    /// ```
    /// use trn3_numerics::Activation;
    ///
    /// assert_eq!(Activation::Sin.valid_range(), Some((0.0, std::f32::consts::PI)));
    /// assert_eq!(Activation::Tanh.valid_range(), None);
    /// ```
    pub const fn valid_range(self) -> Option<(f32, f32)> {
        match self {
            Activation::Log => Some((power_of_two(-64), power_of_two(64))),
            Activation::Sin => Some((0.0, std::f32::consts::PI)),
            Activation::Arctan => Some((0.0, std::f32::consts::FRAC_PI_2)),
            Activation::Sqrt => Some((power_of_two(-116), power_of_two(118))),
            Activation::Rsqrt => Some((power_of_two(-87), power_of_two(97))),
            Activation::Reciprocal => Some((power_of_two(-42), power_of_two(42))),
            _ => None,
        }
    }
}

const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Activation {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Activation::ALL.into_iter().find(|function| function.name() == name).ok_or_else(|| {
            let names = Activation::ALL.map(Activation::name).join(", ");
            Error::value("function", format!("{name:?}"), format!("allowed: {names}"))
        })
    }
}

/// Writes a function of every element of `source`, computed as float32 and rounded to nearest in the format of `out`.
///
/// Any format but block scales comes in and goes out. `parameter` is the slope of [`Activation::Prelu`]; the other
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
/// use trn3_numerics::{Activation, ArrayMut, ArrayView, activation};
///
/// let x = [-1.0f32, 0.0, 3.0];
/// let mut y = [bf16::ZERO; 3];
/// activation(&ArrayView::new(&x, &[3])?.into(), Activation::Gelu, 0.0, ArrayMut::new(&mut y, &[3])?)?;
/// assert_eq!(y.map(f32::from), [-0.15820313, 0.0, 3.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn activation(source: &Source<'_>, function: Activation, parameter: f32, out: ArrayMut<'_>) -> Result<()> {
    let kernels = dispatch::active()?;
    let (from, to) = (source.format(), out.format());
    for (argument, format) in [("x", from), ("out_dtype", to)] {
        if format == Format::F8E8M0Fnu {
            return Err(Error::dtype(argument, format, "every other format, block scales are no numbers of their own"));
        }
    }
    let encoder = Encoder::new(to, Rounding::Nearest, Overflow::Ieee);
    elementwise::for_each_piece(source, out, |_, codes, out, values: &mut AlignedBytes| {
        if to == Format::F32 {
            let values = bytemuck::cast_slice_mut(out);
            (kernels.decode)(from, codes, values);
            (kernels.activate)(function, parameter, values);
        } else {
            let values = values.slice_mut(codes.len() / from.item_size());
            (kernels.decode)(from, codes, values);
            (kernels.activate)(function, parameter, values);
            (kernels.encode)(&encoder, values, &[], out);
        }
    })
}

/// Replaces float32 values by a function of them, as [`activation`] does.
///
/// Made to be called often: nothing is allocated, and up to 65,536 values are worked on by the calling thread alone.
///
/// # Errors
/// [`Error::Value`] when `TRN3_SIMD` or `TRN3_NUM_THREADS` is wrong; [`Error::Interrupted`].
///
/// ```
/// use trn3_numerics::{Activation, activate};
///
/// let mut values = [-2.0, 0.0, 5.0];
/// activate(&mut values, Activation::Prelu, 0.25)?;
/// assert_eq!(values, [-0.5, 0.0, 5.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn activate(values: &mut [f32], function: Activation, parameter: f32) -> Result<()> {
    let kernels = dispatch::active()?;
    if values.len() <= TASK {
        fpenv::with_default_environment(|| (kernels.activate)(function, parameter, values));
        return Ok(());
    }
    par::for_each(values.chunks_mut(TASK), |piece| (kernels.activate)(function, parameter, piece))
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
    let kernels = dispatch::active()?;
    let rows = values.len().checked_div(columns).unwrap_or(0);
    for (argument, given) in [("scales", scales), ("addends", addends)] {
        if columns > 0 && (given.len() != rows || rows * columns != values.len()) {
            let needed = format!("one value for each row of {columns} is needed, of {} values", values.len());
            return Err(Error::shape(argument, &[given.len()], needed));
        }
    }
    if !values.is_empty() {
        fpenv::with_default_environment(|| (kernels.multiply_add)(columns, scales, addends, values));
    }
    Ok(())
}
