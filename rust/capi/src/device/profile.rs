//! What a core's last command cost, and why: figures by name, and files.

use std::ffi::{c_char, c_void};

use trn3_embed::Profile;

use super::{DEVICES, Entry, trn3_device};
use crate::guard::guard;
use crate::pointers::{Place, slice_mut, text};
use crate::status::{Fault, Result, Status, trn3_status};

/// A file of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Json,
    Perfetto,
}

/// What a core did last, and the file of it that was asked for last.
pub(crate) struct Profiled {
    core: u32,
    profile: Profile,
    file: Option<(File, Vec<u8>)>,
}

/// What a core did last, formed once until a call that may change it.
fn formed(entry: &mut Entry, core: u32) -> Result<&mut Profiled> {
    let kept = entry.profiled.take().filter(|kept| kept.core == core);
    let kept = match kept {
        Some(kept) => kept,
        None => Profiled { core, profile: entry.device.profile(core)?, file: None },
    };
    Ok(entry.profiled.insert(kept))
}

fn made(entry: &mut Entry, file: File, core: u32) -> Result<&[u8]> {
    let Profiled { profile, file: kept, .. } = formed(entry, core)?;
    let bytes = match kept.take().filter(|kept| kept.0 == file) {
        Some((_, bytes)) => bytes,
        None if file == File::Perfetto => profile.to_perfetto(),
        None => profile.to_json().map_err(|error| Fault::new(Status::Internal, error.to_string()))?.into_bytes(),
    };
    Ok(&kept.insert((file, bytes)).1)
}

/// # Safety
/// As the functions that call it.
unsafe fn put(
    device: *mut trn3_device,
    (file, core): (File, u32),
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let (place, out) = unsafe { (Place::new(size, "size")?, slice_mut(buffer.cast::<u8>(), capacity, "buffer")?) };
    let mut entry = DEVICES.exclusive(device.addr())?;
    let bytes = made(&mut entry, file, core)?;
    place.put(bytes.len());
    let Some(out) = out.get_mut(..bytes.len()) else {
        let message = format!("capacity is {capacity}; the file has {} bytes", bytes.len());
        return Err(Fault::new(Status::Capacity, message));
    };
    out.copy_from_slice(bytes);
    Ok(())
}

/// A figure of the last command that a core began, by its name in profile.json: "latency_us", "mfu", "roofline.ridge",
/// "engines.tensor.busy_share", "lines.0.critical_us". value is the bits of a double.
///
/// VALUE: the core has run nothing, or there is no such number.
///
/// # Safety
/// name is null or has length bytes; value is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_profile_figure(
    device: *mut trn3_device,
    core: u32,
    name: *const c_char,
    length: usize,
    value: *mut u64,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (place, name) = unsafe { (Place::new(value, "value")?, text(name, length, "name")?) };
        let figure = formed(&mut *DEVICES.exclusive(device.addr())?, core)?.profile.figure(name);
        place.put(
            figure.ok_or_else(|| Fault::value(format!("name is {name:?}, of no number in profile.json")))?.to_bits(),
        );
        Ok(())
    })
}

/// Writes the text of profile.json of the last command that a core began, without a NUL, and says how many bytes that is:
/// every figure, and what the machine recorded of each instruction.
///
/// CAPACITY: the buffer is too small; size is written all the same. VALUE: the core has run nothing.
///
/// # Safety
/// buffer is null or has capacity bytes; size is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_profile_json(
    device: *mut trn3_device,
    core: u32,
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { put(device, (File::Json, core), buffer, capacity, size) })
}

/// Writes a native Perfetto trace of the last command that a core began, and says how many bytes that is.
///
/// As trn3_profile_json.
///
/// # Safety
/// As trn3_profile_json.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_profile_perfetto(
    device: *mut trn3_device,
    core: u32,
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { put(device, (File::Perfetto, core), buffer, capacity, size) })
}
