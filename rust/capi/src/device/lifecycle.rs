//! Devices come and go, and take programs.

use std::ffi::c_char;
use std::mem::offset_of;

use trn3_embed::{Device, DeviceSpec};

use super::memory::space_number;
use super::{DEVICES, Entry, exclusive, shared, trn3_device};
use crate::array::TRN3_MAX_AXES;
use crate::guard::guard;
use crate::pointers::{Place, Record, fill, slice, text, write};
use crate::status::{Fault, Status, trn3_status};

/// Creates a device from the JSON text of its description; of no length, the description is the default: one core of
/// trn3. Entries: arch, arch_toml, overrides, cores, values, timing, share_hbm_bandwidth, strict, throttle, seed,
/// max_instructions, queue_depth, host_memory_bytes, rank, system, tdp. No file is read.
///
/// VALUE: an entry there is not, or with a value that is not allowed. CAPACITY: too many devices exist.
///
/// # Safety
/// config is null or has length bytes; device is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_device_create(
    config: *const c_char,
    length: usize,
    device: *mut *mut trn3_device,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (place, config) = unsafe { (Place::new(device, "device")?, text(config, length, "config")?) };
        let device = Device::new(DeviceSpec::from_json(config)?)?;
        let token = DEVICES.insert(Entry { device, on_complete: None, saved: None, profiled: None, compiled: None })?;
        place.put(std::ptr::without_provenance_mut(token));
        Ok(())
    })
}

/// Destroys a device. Its handle, and pointers into its memories, are worth nothing from then on.
///
/// VALUE: there is no such device, any more. BUSY: a call uses it.
#[unsafe(no_mangle)]
pub extern "C" fn trn3_device_destroy(device: *mut trn3_device) -> trn3_status {
    guard(|| DEVICES.remove(device.addr()).map(drop))
}

/// Makes a device what it was when it was created: no programs, no contents, time 0. Network, trace, functions and listener stay.
#[unsafe(no_mangle)]
pub extern "C" fn trn3_device_reset(device: *mut trn3_device) -> trn3_status {
    guard(|| Ok(exclusive(device)?.device.reset()?))
}

/// Loads a program, the JSON text that trn3 writes of a kernel (format "trn3-program"), and gives its number.
///
/// VALUE: the text names the step and the field that is wrong. CAPACITY: its tensors do not fit. UNSUPPORTED: it calls a
/// function that was not registered; the text names it.
///
/// # Safety
/// program is null or has length bytes; number is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_device_load(
    device: *mut trn3_device,
    program: *const c_char,
    length: usize,
    number: *mut u64,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (place, json) = unsafe { (Place::new(number, "number")?, slice(program.cast::<u8>(), length, "program")?) };
        place.put(exclusive(device)?.device.load(json)?);
        Ok(())
    })
}

/// Forgets a program. BUSY: commands that wait need it.
#[unsafe(no_mangle)]
pub extern "C" fn trn3_device_unload(device: *mut trn3_device, program: u64) -> trn3_status {
    guard(|| Ok(exclusive(device)?.device.unload(program)?))
}

/// Bytes of the name of a dtype, its NUL included.
pub const TRN3_DTYPE_NAME_BYTES: usize = 32;

/// Where a tensor of a loaded program lies. Set size to sizeof(trn3_tensor) before the call that fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_tensor {
    /// sizeof this structure.
    pub size: usize,
    /// TRN3_SPACE_...
    pub space: u32,
    /// Number of axes.
    pub ndim: u32,
    /// First byte: in HBM its address; on chip partition * bytes of a partition + byte.
    pub address: u64,
    /// Bytes: in HBM of the whole tensor, which lie in C order; on chip of each partition.
    pub bytes: u64,
    /// Length of each axis.
    pub shape: [i64; TRN3_MAX_AXES],
    /// Name of the element type, with a NUL after it.
    pub dtype: [c_char; TRN3_DTYPE_NAME_BYTES],
}

// SAFETY: repr(C), `size` first, plain numbers.
unsafe impl Record for trn3_tensor {
    const MINIMUM: usize = offset_of!(Self, shape);
    const NAME: &'static str = "trn3_tensor";
}

/// Where a tensor of a loaded program lies.
///
/// VALUE: there is no such program or tensor.
///
/// # Safety
/// name is null or has length bytes; tensor is null or points to a structure with its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_device_tensor(
    device: *const trn3_device,
    program: u64,
    name: *const c_char,
    length: usize,
    tensor: *mut trn3_tensor,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name, length, "name") }?;
        let placed = shared(device)?.device.tensor(program, name)?;
        if placed.shape.len() > TRN3_MAX_AXES {
            let message = format!("tensor {name:?} has {} axes; {TRN3_MAX_AXES} fit here", placed.shape.len());
            return Err(Fault::new(Status::Unsupported, message));
        }
        let mut shape = [0; TRN3_MAX_AXES];
        for (slot, &length) in shape.iter_mut().zip(&placed.shape) {
            *slot = length as i64;
        }
        let value = trn3_tensor {
            size: size_of::<trn3_tensor>(),
            space: space_number(placed.space),
            ndim: placed.shape.len() as u32,
            address: placed.address,
            bytes: placed.bytes,
            shape,
            dtype: fill(&placed.dtype),
        };
        // SAFETY: the caller's promise.
        unsafe { write(tensor, value, "tensor") }
    })
}
