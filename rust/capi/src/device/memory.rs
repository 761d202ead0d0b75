//! Memories of a device by address.

use std::ffi::c_void;

use trn3_embed::MemorySpace;

use super::{exclusive, shared, trn3_device};
use crate::guard::guard;
use crate::pointers::{Place, slice, slice_mut};
use crate::status::{Fault, Result, Status, trn3_status};

/// HBM, one for all cores of the device.
pub const TRN3_SPACE_HBM: u32 = 0;
/// A core's SBUF: address partition * bytes of a partition + byte.
pub const TRN3_SPACE_SBUF: u32 = 1;
/// A core's PSUM, addressed as SBUF is.
pub const TRN3_SPACE_PSUM: u32 = 2;

pub(crate) fn space(number: u32) -> Result<MemorySpace> {
    match number {
        TRN3_SPACE_HBM => Ok(MemorySpace::Hbm),
        TRN3_SPACE_SBUF => Ok(MemorySpace::Sbuf),
        TRN3_SPACE_PSUM => Ok(MemorySpace::Psum),
        _ => Err(Fault::value(format!("space is {number}; allowed: 0 HBM, 1 SBUF, 2 PSUM"))),
    }
}

pub(crate) fn space_number(space: MemorySpace) -> u32 {
    match space {
        MemorySpace::Hbm => TRN3_SPACE_HBM,
        MemorySpace::Sbuf => TRN3_SPACE_SBUF,
        MemorySpace::Psum => TRN3_SPACE_PSUM,
    }
}

/// Bytes of a memory.
///
/// # Safety
/// size is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_memory_size(
    device: *const trn3_device,
    space_number: u32,
    size: *mut u64,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(size, "size") }?;
        place.put(shared(device)?.device.size_of(space(space_number)?));
        Ok(())
    })
}

/// Reads bytes as they are now, and says how many picoseconds it takes (delay_ps may be null); time does not move. What
/// nothing wrote is 0. core is not used for HBM, but must be one.
///
/// VALUE: beyond the memory, or a core that there is not.
///
/// # Safety
/// buffer is null or has length bytes; delay_ps is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_memory_read(
    device: *mut trn3_device,
    space_number: u32,
    core: u32,
    address: u64,
    buffer: *mut c_void,
    length: usize,
    delay_ps: *mut u64,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (out, delay) =
            unsafe { (slice_mut(buffer.cast::<u8>(), length, "buffer")?, Place::optional(delay_ps, "delay_ps")?) };
        let took = exclusive(device)?.device.read(space(space_number)?, core, address, out)?;
        if let Some(delay) = delay {
            delay.put(took.0);
        }
        Ok(())
    })
}

/// Writes bytes now, and says how many picoseconds it takes (delay_ps may be null); time does not move.
///
/// VALUE: beyond the memory, or a core that there is not. CAPACITY: the host may keep no more of HBM (host_memory_bytes).
///
/// # Safety
/// As trn3_memory_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_memory_write(
    device: *mut trn3_device,
    space_number: u32,
    core: u32,
    address: u64,
    buffer: *const c_void,
    length: usize,
    delay_ps: *mut u64,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (bytes, delay) =
            unsafe { (slice(buffer.cast::<u8>(), length, "buffer")?, Place::optional(delay_ps, "delay_ps")?) };
        let took = exclusive(device)?.device.write(space(space_number)?, core, address, bytes)?;
        if let Some(delay) = delay {
            delay.put(took.0);
        }
        Ok(())
    })
}

/// A pointer to bytes of HBM for the host to read and write between calls. It stays until trn3_memory_release of them,
/// and until the device is reset, destroyed or goes on from a snapshot. The bytes count as initialised.
///
/// UNSUPPORTED: SBUF and PSUM, whose partitions are not one run of bytes.
///
/// # Safety
/// pointer is null or may be written. The host uses the bytes only while no call on the device runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_memory_direct(
    device: *mut trn3_device,
    space_number: u32,
    core: u32,
    address: u64,
    length: u64,
    pointer: *mut *mut c_void,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(pointer, "pointer") }?;
        let mut entry = exclusive(device)?;
        if space(space_number)? != MemorySpace::Hbm {
            let message = "space is on chip; HBM alone has direct pointers, read and write the others";
            return Err(Fault::new(Status::Unsupported, message));
        }
        // HBM is every core's; one that there is not is a mistake all the same.
        entry.device.can_submit(core)?;
        let direct = entry.device.memory_direct(address, length)?;
        place.put(direct.with(|bytes| bytes.as_mut_ptr().cast()));
        Ok(())
    })
}

/// Lets bytes of HBM move again that trn3_memory_direct gave a pointer to.
#[unsafe(no_mangle)]
pub extern "C" fn trn3_memory_release(device: *mut trn3_device, address: u64, length: u64) -> trn3_status {
    guard(|| Ok(exclusive(device)?.device.release_direct(address, length)?))
}
