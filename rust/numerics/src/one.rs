//! One element at a time, by the definitions: for hosts whose own loop has one number in hand.
//!
//! The bits are those of the functions of arrays. Nothing is looked up, allocated or handed to another thread; the
//! caller's floating-point environment is taken as the default one ([`with_default_environment`](crate::with_default_environment)
//! makes it so).

use crate::activation::Activation;
use crate::cast::CastOptions;
use crate::error::{Error, Result};
use crate::exp::FORMATS;
use crate::format::Format;
use crate::{activation, cast, exp};

/// [`cast`](crate::cast) of one code; `draw` is read by stochastic rounding alone.
///
/// # Errors
/// [`Error::Dtype`] where `to` holds block scales.
///
/// ```
/// use trn3_numerics::{CastOptions, Format, cast_one};
///
/// let code = cast_one(Format::F32, 3.1415927f32.to_bits(), Format::Bf16, CastOptions::default(), 0)?;
/// assert_eq!(code, 0x4049);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
#[inline]
pub fn cast_one(from: Format, code: u32, to: Format, options: CastOptions, draw: u32) -> Result<u32> {
    if to == Format::F8E8M0Fnu {
        let allowed = "every other format; a block scale is an exponent, which quantize_mx chooses";
        return Err(Error::dtype("dtype", to, allowed));
    }
    Ok(stored(value_of(from, code), to, options, draw))
}

/// [`exp`](crate::exp) of one code: e^(x - bias).
///
/// # Errors
/// [`Error::Dtype`] for formats that the exponent unit does not take.
#[inline]
pub fn exp_one(from: Format, code: u32, bias: f32, to: Format) -> Result<u32> {
    for (argument, format) in [("x", from), ("out_dtype", to)] {
        if !FORMATS.contains(&format) {
            return Err(Error::dtype(argument, format, FORMATS.map(|format| format.to_string()).join(", ")));
        }
    }
    let difference = value_of(from, code) - bias;
    let is_narrow = from.item_size() == 2 && to.item_size() == 2;
    let value = if is_narrow { exp::scalar::exp_odd(difference) } else { exp::scalar::exp_f32(difference) };
    Ok(stored(value, to, CastOptions::default(), 0))
}

/// [`activation`](crate::activation) of one code.
///
/// # Errors
/// [`Error::Dtype`] for block scales.
#[inline]
pub fn activation_one(from: Format, code: u32, function: Activation, parameter: f32, to: Format) -> Result<u32> {
    for (argument, format) in [("x", from), ("out_dtype", to)] {
        if format == Format::F8E8M0Fnu {
            return Err(Error::dtype(argument, format, "every other format, block scales are no numbers of their own"));
        }
    }
    let mut value = [value_of(from, code)];
    activation::scalar::activate(function, parameter, &mut value);
    Ok(stored(value[0], to, CastOptions::default(), 0))
}

/// Bits that an array has below those of a format: tfloat32 is stored as float32.
fn padding(format: Format) -> u32 {
    if format == Format::Tf32 { 13 } else { 0 }
}

/// The value of an element as an array holds it.
#[inline]
fn value_of(format: Format, code: u32) -> f32 {
    match format {
        Format::F32 | Format::Tf32 => f32::from_bits(code),
        _ => format.decode_code(code),
    }
}

/// An element as an array holds it.
#[inline]
fn stored(value: f32, format: Format, options: CastOptions, draw: u32) -> u32 {
    cast::scalar::encode(value, format, options.rounding, options.overflow, draw) << padding(format)
}
