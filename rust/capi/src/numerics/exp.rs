//! The fast exponent unit.

use std::ffi::c_void;
use std::mem::offset_of;

use trn3_numerics::{Bias, exp, exp_one};

use crate::array::{Layout, trn3_array, trn3_array_mut};
use crate::dtype::{self, trn3_dtype};
use crate::guard::guard;
use crate::numerics::cast::scratch_of;
use crate::output::{Scratch, Target, check_overlap, source};
use crate::pointers::{Place, Record, read_or_default, slice, slice_mut, span};
use crate::status::trn3_status;

/// What trn3_exp subtracts and adds up; null stands for neither. float32 values are bit patterns. Set size to
/// sizeof(trn3_exp_options).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_exp_options {
    /// sizeof this structure.
    pub size: usize,
    /// float32 bits of the bias of all elements, where row_biases is null.
    pub bias: u32,
    /// 0.
    pub reserved: u32,
    /// float32 bits of one bias for each row along the last axis, or null.
    pub row_biases: *const u32,
    /// Number of those.
    pub row_bias_count: usize,
    /// Receives the float32 bits of the sum of each row, or null.
    pub sums: *mut u32,
    /// Number of those: one for each row.
    pub sum_count: usize,
}

// SAFETY: repr(C), `size` first, plain numbers and pointers that are checked before use.
unsafe impl Record for trn3_exp_options {
    const MINIMUM: usize = offset_of!(Self, row_biases);
    const NAME: &'static str = "trn3_exp_options";
}

/// Bytes of scratch memory that trn3_exp with these arguments needs: 0 where out is C-contiguous.
///
/// # Safety
/// Pointers are null or point to what this describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_exp_scratch_size(
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

/// e^(x - bias) for every element, the difference rounded to float32; within 1 ulp in float32, correctly rounded between
/// 16-bit formats. x and out are float32, bfloat16 or float16. Sums add the elements of a row as out holds them, in
/// ascending order, each addition rounded to float32. out may be exactly x where their elements have one size.
///
/// # Safety
/// Pointers are null or point to what this describes; scratch has scratch_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_exp(
    x: *const trn3_array,
    out: *const trn3_array_mut,
    options: *const trn3_exp_options,
    scratch: *mut c_void,
    scratch_size: usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (x, out) = (Layout::of(x, "x")?, Layout::of_mut(out, "out")?);
        let options = read_or_default(options, "options")?;
        let mut scratch = Scratch::new(scratch, scratch_size, &[&out])?;
        let biases_span = ("options.row_biases", span(options.row_biases, options.row_bias_count));
        let sums_span = ("options.sums", span(options.sums.cast_const(), options.sum_count));
        check_overlap(&[("out", out.span()), sums_span.clone()], &[biases_span])?;
        check_overlap(&[sums_span], &[("x", x.span()), ("scratch", scratch.span())])?;
        let bias = if options.row_biases.is_null() {
            Bias::Scalar(f32::from_bits(options.bias))
        } else {
            let biases = slice(options.row_biases, options.row_bias_count, "options.row_biases")?;
            Bias::PerRow(bytemuck::cast_slice(biases))
        };
        let sums = match options.sums.is_null() {
            true => None,
            false => Some(slice_mut(options.sums, options.sum_count, "options.sums")?),
        };
        let sums = sums.map(bytemuck::cast_slice_mut);
        let source = source(&x, &out, &scratch)?;
        let mut target = Target::new(&out, &mut scratch)?;
        exp(&source, bias, target.array()?, sums)?;
        target.finish();
        Ok(())
    })
}

/// e^(x - bias) for one element: bits of dtype from to out of dtype to, both in the low bits; bias is the bits
/// of a float32.
///
/// # Safety
/// out is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_exp_one(
    from: trn3_dtype,
    bits: u32,
    bias: u32,
    to: trn3_dtype,
    out: *mut u32,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Place::new(out, "out") }?;
        let (from, to) = (dtype::format("from", from)?, dtype::format("to", to)?);
        out.put(exp_one(from, bits, f32::from_bits(bias), to)?);
        Ok(())
    })
}
