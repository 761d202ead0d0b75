//! Saving a device whole, and going on from there.

use std::ffi::c_void;

use super::{DEVICES, Entry, exclusive, trn3_device};
use crate::guard::guard;
use crate::pointers::{Place, slice, slice_mut};
use crate::status::{Fault, Result, Status, trn3_status};

/// The saved state, made once until a call that may change it.
fn saved(entry: &mut Entry) -> Result<&[u8]> {
    let saved = match entry.saved.take() {
        Some(saved) => saved,
        None => entry.device.save_snapshot()?,
    };
    Ok(entry.saved.insert(saved))
}

/// Bytes that trn3_snapshot_save writes if nothing is done with the device before.
///
/// # Safety
/// size is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_snapshot_size(device: *mut trn3_device, size: *mut usize) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(size, "size") }?;
        place.put(saved(&mut *DEVICES.exclusive(device.addr())?)?.len());
        Ok(())
    })
}

/// Writes the whole state, and says how many bytes that is: what is done after trn3_snapshot_load of them is what would
/// have been done without, bit for bit and picosecond for picosecond. What the host put in place of parts (network,
/// trace, listener) is the host's to save.
///
/// CAPACITY: the buffer is too small; size is written all the same.
///
/// # Safety
/// buffer is null or has capacity bytes; size is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_snapshot_save(
    device: *mut trn3_device,
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (place, out) = unsafe { (Place::new(size, "size")?, slice_mut(buffer.cast::<u8>(), capacity, "buffer")?) };
        let mut entry = DEVICES.exclusive(device.addr())?;
        let bytes = saved(&mut entry)?;
        place.put(bytes.len());
        let Some(out) = out.get_mut(..bytes.len()) else {
            let message = format!("capacity is {capacity}; the snapshot has {} bytes", bytes.len());
            return Err(Fault::new(Status::Capacity, message));
        };
        out.copy_from_slice(bytes);
        Ok(())
    })
}

/// Goes on from a saved state, of a device of the same description. When it is refused, the device is as it was.
///
/// VALUE: another version, another description, or damage.
///
/// # Safety
/// buffer is null or has length bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_snapshot_load(
    device: *mut trn3_device,
    buffer: *const c_void,
    length: usize,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let bytes = unsafe { slice(buffer.cast::<u8>(), length, "buffer") }?;
        Ok(exclusive(device)?.device.load_snapshot(bytes)?)
    })
}
