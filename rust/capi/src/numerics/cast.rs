//! Rounding between formats.

use std::ffi::c_void;

use trn3_numerics::{CastOptions, cast, cast_one};

use crate::array::{Layout, trn3_array, trn3_array_mut};
use crate::dtype::{self, trn3_dtype};
use crate::guard::guard;
use crate::numerics::rounding::{Rules, overflow, rounding, trn3_rounding};
use crate::output::{Scratch, Target, scratch_size, source};
use crate::pointers::Place;
use crate::status::{Result, trn3_status};

/// Bytes of scratch memory that trn3_cast with these arguments needs: 0 where out is C-contiguous.
///
/// # Safety
/// Pointers are null or point to what this describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_cast_scratch_size(
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

/// Answers a `*_scratch_size` call.
///
/// # Safety
/// As the exports that call it.
pub(crate) unsafe fn scratch_of(outputs: &[(*const trn3_array_mut, &str)], size: *mut usize) -> Result<()> {
    // SAFETY: the caller's promise.
    let size = unsafe { Place::new(size, "size") }?;
    let mut needed = 0usize;
    for (output, argument) in outputs {
        // SAFETY: the caller's promise.
        let layout = unsafe { Layout::of_mut(*output, argument) }?;
        needed = needed.saturating_add(scratch_size(&[&layout]));
    }
    size.put(needed);
    Ok(())
}

/// Rounds every element of x to the format of out, which has its shape. out may be exactly x where their elements
/// have one size.
///
/// TYPE: out holds block scales. SHAPE: the shapes differ. VALUE: arrays that overlap otherwise, draws that do not fit.
/// CAPACITY: the scratch memory is too small.
///
/// # Safety
/// Pointers are null or point to what this describes; scratch has scratch_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_cast(
    x: *const trn3_array,
    out: *const trn3_array_mut,
    rounding: *const trn3_rounding,
    scratch: *mut c_void,
    scratch_size: usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (x, out) = (Layout::of(x, "x")?, Layout::of_mut(out, "out")?);
        let rules = Rules::read(rounding)?;
        let mut scratch = Scratch::new(scratch, scratch_size, &[&out])?;
        let source = source(&x, &out, &scratch)?;
        let mut target = Target::new(&out, &mut scratch)?;
        rules.with_draws(|draws| Ok(cast(&source, target.array()?, rules.options, draws)?))?;
        target.finish();
        Ok(())
    })
}

/// Rounds one element: bits of dtype from to out of dtype to, both in the low bits. draw is used with stochastic
/// rounding.
///
/// # Safety
/// out is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_cast_one(
    from: trn3_dtype,
    bits: u32,
    to: trn3_dtype,
    rounding_mode: u32,
    overflow_mode: u32,
    draw: u32,
    out: *mut u32,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Place::new(out, "out") }?;
        let (from, to) = (dtype::format("from", from)?, dtype::format("to", to)?);
        let options = CastOptions { rounding: rounding(rounding_mode)?, overflow: overflow(overflow_mode)? };
        out.put(cast_one(from, bits, to, options, draw)?);
        Ok(())
    })
}
