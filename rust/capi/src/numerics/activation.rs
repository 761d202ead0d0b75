//! The functions of the scalar engine.

use std::ffi::{c_char, c_void};

use trn3_numerics::{Activation, activation, activation_one};

use crate::array::{Layout, trn3_array, trn3_array_mut};
use crate::dtype::{self, trn3_dtype};
use crate::guard::guard;
use crate::numerics::cast::scratch_of;
use crate::output::{Scratch, Target, source};
use crate::pointers::{Place, put_text};
use crate::status::{Fault, Result, trn3_status};

/// x.
pub const TRN3_ACTIVATION_COPY: u32 = 0;
/// x^2.
pub const TRN3_ACTIVATION_SQUARE: u32 = 1;
/// 1 / (1 + e^-x).
pub const TRN3_ACTIVATION_SIGMOID: u32 = 2;
/// x where it is positive, else +0.
pub const TRN3_ACTIVATION_RELU: u32 = 3;
/// x where it is at least 0 (-0 too), else x times the parameter.
pub const TRN3_ACTIVATION_PRELU: u32 = 4;
/// x * Phi(x).
pub const TRN3_ACTIVATION_GELU: u32 = 5;
/// The derivative of gelu: Phi(x) + x * Phi'(x).
pub const TRN3_ACTIVATION_GELU_DX: u32 = 6;
/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
pub const TRN3_ACTIVATION_GELU_APPRX_TANH: u32 = 7;
/// x * s(1.702 x).
pub const TRN3_ACTIVATION_GELU_APPRX_SIGMOID: u32 = 8;
/// The derivative of that: s + 1.702 x s (1 - s), s taken of 1.702 x.
pub const TRN3_ACTIVATION_GELU_APPRX_SIGMOID_DX: u32 = 9;
/// x * s(x).
pub const TRN3_ACTIVATION_SILU: u32 = 10;
/// The derivative of silu: s (1 + x (1 - s)).
pub const TRN3_ACTIVATION_SILU_DX: u32 = 11;
/// tanh x.
pub const TRN3_ACTIVATION_TANH: u32 = 12;
/// ln(1 + e^x).
pub const TRN3_ACTIVATION_SOFTPLUS: u32 = 13;
/// x * tanh(ln(1 + e^x)).
pub const TRN3_ACTIVATION_MISH: u32 = 14;
/// erf x.
pub const TRN3_ACTIVATION_ERF: u32 = 15;
/// The derivative of erf: 2 / sqrt(pi) * e^(-x^2).
pub const TRN3_ACTIVATION_ERF_DX: u32 = 16;
/// e^x: the bits of trn3_exp without bias.
pub const TRN3_ACTIVATION_EXP: u32 = 17;
/// ln x.
pub const TRN3_ACTIVATION_LOG: u32 = 18;
/// sin x from -pi to pi; beyond, a third-order polynomial about pi.
pub const TRN3_ACTIVATION_SIN: u32 = 19;
/// arctan x.
pub const TRN3_ACTIVATION_ARCTAN: u32 = 20;
/// The square root.
pub const TRN3_ACTIVATION_SQRT: u32 = 21;
/// 1 over the square root.
pub const TRN3_ACTIVATION_RSQRT: u32 = 22;
/// 1 / x.
pub const TRN3_ACTIVATION_RECIPROCAL: u32 = 23;
/// -1, +0 or 1.
pub const TRN3_ACTIVATION_SIGN: u32 = 24;
/// The magnitude.
pub const TRN3_ACTIVATION_ABS: u32 = 25;

/// Functions by number: a constant's value is its place here.
fn function(number: u32) -> Result<Activation> {
    Activation::ALL.get(number as usize).copied().ok_or_else(|| {
        let last = Activation::ALL.len() - 1;
        Fault::value(format!("function is {number}; allowed: TRN3_ACTIVATION_... from 0 to {last}"))
    })
}

/// Writes the name of an activation function, as nki.language spells it, with a NUL after it. 32 bytes hold every name.
///
/// VALUE: there is no such function.
///
/// # Safety
/// buffer is null or points to capacity bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_activation_name(
    function_number: u32,
    buffer: *mut c_char,
    capacity: usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { put_text(function(function_number)?.name(), buffer, capacity) })
}

/// Bytes of scratch memory that trn3_activation with these arguments needs: 0 where out is C-contiguous.
///
/// # Safety
/// Pointers are null or point to what this describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_activation_scratch_size(
    x: *const trn3_array,
    out: *const trn3_array_mut,
    size: *mut usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        Layout::of(x, "x")?;
        scratch_of(&[(out, "out")], size)
    })
}

/// A function of every element, computed as float32 and rounded to nearest in the format of out; parameter is the
/// float32 bits of the slope of prelu and used by no other. out may be exactly x where their elements have one size.
///
/// # Safety
/// Pointers are null or point to what this describes; scratch has scratch_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_activation(
    x: *const trn3_array,
    function_number: u32,
    parameter: u32,
    out: *const trn3_array_mut,
    scratch: *mut c_void,
    scratch_size: usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (x, out) = (Layout::of(x, "x")?, Layout::of_mut(out, "out")?);
        let function = function(function_number)?;
        let mut scratch = Scratch::new(scratch, scratch_size, &[&out])?;
        let source = source(&x, &out, &scratch)?;
        let mut target = Target::new(&out, &mut scratch)?;
        activation(&source, function, f32::from_bits(parameter), target.array()?)?;
        target.finish();
        Ok(())
    })
}

/// A function of one element: bits of dtype from to out of dtype to, both in the low bits.
///
/// # Safety
/// out is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_activation_one(
    from: trn3_dtype,
    bits: u32,
    function_number: u32,
    parameter: u32,
    to: trn3_dtype,
    out: *mut u32,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Place::new(out, "out") }?;
        let (from, to) = (dtype::format("from", from)?, dtype::format("to", to)?);
        let (function, parameter) = (function(function_number)?, f32::from_bits(parameter));
        out.put(activation_one(from, bits, function, parameter, to)?);
        Ok(())
    })
}
