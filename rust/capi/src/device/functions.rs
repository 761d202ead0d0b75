//! Functions of the host's on GpSimdE, which programs call by name.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use trn3_embed::{GpSimdFunction, TileBytes};

use super::{exclusive, trn3_device};
use crate::guard::guard;
use crate::pointers::text;
use crate::status::{Fault, Status, trn3_status};

/// A tile: partitions times elements, in C order and little-endian.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_gpsimd_tile {
    /// Its elements. Those of inputs are not to be written.
    pub bytes: *mut c_void,
    /// Bytes of them.
    pub length: usize,
    /// Partitions: the lanes, 16 to each of the eight processors.
    pub partitions: usize,
    /// Elements in each partition.
    pub elements: usize,
    /// Name of the element type, as nki.language spells it, without a NUL.
    pub dtype: *const c_char,
    /// Bytes of that.
    pub dtype_length: usize,
}

/// Fills output tiles, which come zeroed, from input tiles. It is called inside the calls that run a program, on their
/// thread, and must return (no exception, no longjmp); calls on the device from within are BUSY. The tiles are the host's for
/// the call alone. What is not TRN3_OK fails the step.
pub type trn3_gpsimd_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        inputs: *const trn3_gpsimd_tile,
        input_count: usize,
        outputs: *mut trn3_gpsimd_tile,
        output_count: usize,
    ) -> trn3_status,
>;

/// A host's function.
struct HostFunction {
    name: String,
    function:
        unsafe extern "C" fn(*mut c_void, *const trn3_gpsimd_tile, usize, *mut trn3_gpsimd_tile, usize) -> trn3_status,
    user: *mut c_void,
}

// SAFETY: the pointer is the host's and only handed back to its function, on the thread that uses the device alone.
unsafe impl Send for HostFunction {}
// SAFETY: as above: calls that share a device run no program.
unsafe impl Sync for HostFunction {}

fn tile(tile: &TileBytes, bytes: *mut c_void) -> trn3_gpsimd_tile {
    let dtype = tile.dtype.name();
    trn3_gpsimd_tile {
        bytes,
        length: tile.bytes.len(),
        partitions: tile.partitions,
        elements: tile.elements,
        dtype: dtype.as_ptr().cast(),
        dtype_length: dtype.len(),
    }
}

impl GpSimdFunction for HostFunction {
    fn call(&self, inputs: &[TileBytes], outputs: &mut [TileBytes]) -> Result<(), String> {
        let given: Vec<_> = inputs.iter().map(|input| tile(input, input.bytes.as_ptr().cast_mut().cast())).collect();
        let mut wanted = Vec::with_capacity(outputs.len());
        for output in outputs {
            let bytes = output.bytes.as_mut_ptr().cast();
            wanted.push(tile(output, bytes));
        }
        // SAFETY: the host's function with its own pointer; tiles and their bytes live for the call.
        let status =
            unsafe { (self.function)(self.user, given.as_ptr(), given.len(), wanted.as_mut_ptr(), wanted.len()) };
        if status == Status::Ok as trn3_status {
            return Ok(());
        }
        Err(format!("the host's function {} returned status {status}", self.name))
    }
}

/// Makes a function one that programs loaded from here on may call by that name, a text of 1 to 256 bytes; another one of the
/// name is forgotten, but not by programs that were loaded before and ran. Without one, loading a program that calls it is
/// UNSUPPORTED, and the text names it.
///
/// # Safety
/// name is null or has length bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_register_function(
    device: *mut trn3_device,
    name: *const c_char,
    length: usize,
    function: trn3_gpsimd_fn,
    user: *mut c_void,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name, length, "name") }?;
        let function = function.ok_or_else(|| Fault::value("function is null".to_owned()))?;
        let held = HostFunction { name: name.to_owned(), function, user };
        Ok(exclusive(device)?.device.register_function(name, Arc::new(held))?)
    })
}
