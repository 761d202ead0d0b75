//! What work costs without running it.

use std::ffi::c_char;
use std::mem::offset_of;

use trn3_embed::Kernel;

use super::command::operation;
use super::{exclusive, shared, trn3_device};
use crate::guard::guard;
use crate::pointers::{Place, Record, read, text};
use crate::status::{Fault, Result, trn3_status};

/// [m, k] by [k, n], operands from HBM, the result to it.
pub const TRN3_KERNEL_MATMUL: u32 = 0;
/// One result an element, of so many operands, from HBM and to it.
pub const TRN3_KERNEL_ELEMENTWISE: u32 = 1;
/// A transfer between HBM and SBUF.
pub const TRN3_KERNEL_DMA: u32 = 2;
/// A collective, by the fastest algorithm.
pub const TRN3_KERNEL_COLLECTIVE: u32 = 3;

/// A piece of work by its shape. Set size to sizeof(trn3_kernel) and the fields that its kind does not use to 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_kernel {
    /// sizeof this structure.
    pub size: usize,
    /// TRN3_KERNEL_...
    pub kind: u32,
    /// ELEMENTWISE: operands.
    pub operands: u32,
    /// MATMUL: rows of the result.
    pub m: u64,
    /// MATMUL: contraction.
    pub k: u64,
    /// MATMUL: columns of the result.
    pub n: u64,
    /// ELEMENTWISE: elements.
    pub elements: u64,
    /// DMA, COLLECTIVE: bytes; of all_gather those of the gathered buffer, else of one rank's input.
    pub bytes: u64,
    /// MATMUL, ELEMENTWISE: bf16, fp16, fp8, mxfp8, mxfp4, tf32, fp32.
    pub dtype: *const c_char,
    /// Bytes of that.
    pub dtype_length: usize,
    /// COLLECTIVE: TRN3_OPERATION_...
    pub operation: u32,
    /// COLLECTIVE: ranks (cores), the first ones of the system.
    pub ranks: u32,
}

// SAFETY: repr(C), `size` first, plain numbers and a pointer that is checked before use.
unsafe impl Record for trn3_kernel {
    const MINIMUM: usize = offset_of!(Self, operation);
    const NAME: &'static str = "trn3_kernel";
}

/// # Safety
/// As [`read`]; what the kernel points to is readable.
unsafe fn kernel(pointer: *const trn3_kernel) -> Result<Kernel> {
    // SAFETY: the caller's promise.
    let (given, dtype) = unsafe {
        let given = read(pointer, "kernel")?;
        (given, text(given.dtype, given.dtype_length, "kernel.dtype")?.to_owned())
    };
    let trn3_kernel { m, k, n, elements, operands, bytes, ranks, .. } = given;
    Ok(match given.kind {
        TRN3_KERNEL_MATMUL => Kernel::Matmul { m, k, n, dtype },
        TRN3_KERNEL_ELEMENTWISE => Kernel::Elementwise { elements, operands, dtype },
        TRN3_KERNEL_DMA => Kernel::Dma { bytes },
        TRN3_KERNEL_COLLECTIVE => Kernel::Collective { operation: operation(given.operation)?, ranks, bytes },
        other => {
            let allowed = "0 matmul, 1 elementwise, 2 dma, 3 collective";
            return Err(Fault::value(format!("kernel.kind is {other}; allowed: {allowed}")));
        }
    })
}

/// What a piece of work takes on this device, all its cores sharing it: picoseconds, and picojoules (energy_pj may be
/// null). The energy is 0 where no power of the chip is published.
///
/// # Safety
/// kernel is null or points to one; the results are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_estimate(
    device: *mut trn3_device,
    work: *const trn3_kernel,
    ps: *mut u64,
    energy_pj: *mut u64,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (time, energy, kernel) =
            unsafe { (Place::new(ps, "ps")?, Place::optional(energy_pj, "energy_pj")?, kernel(work)?) };
        let estimate = exclusive(device)?.device.estimate(&kernel)?;
        time.put(estimate.time.0);
        if let Some(energy) = energy {
            energy.put(estimate.energy_pj.round() as u64);
        }
        Ok(())
    })
}

/// The least time in picoseconds that so many operations and bytes of HBM take on this device: the longer of the two at
/// their peaks. dtype is text, as in trn3_kernel.
///
/// # Safety
/// dtype is null or has dtype_length bytes; ps is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_roofline(
    device: *const trn3_device,
    flops: u64,
    bytes: u64,
    dtype: *const c_char,
    dtype_length: usize,
    ps: *mut u64,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (place, dtype) = unsafe { (Place::new(ps, "ps")?, text(dtype, dtype_length, "dtype")?) };
        place.put(shared(device)?.device.roofline(flops as f64, bytes as f64, dtype)?.0);
        Ok(())
    })
}
