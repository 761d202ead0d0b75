//! What this library is, and what of the process it may use.

use std::ffi::c_char;

use crate::guard::guard;
use crate::pointers::{Place, put_text};
use crate::status::trn3_status;

/// A part of the version in the manifest.
const fn number(text: &str) -> u32 {
    let (bytes, mut value, mut at) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        value = value * 10 + (bytes[at] - b'0') as u32;
        at += 1;
    }
    value
}

pub(crate) const ABI_VERSION: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
    | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
    | number(env!("CARGO_PKG_VERSION_PATCH"));

/// The version of the interface that the library was built with: major << 16 | minor << 8 | patch. A program built with
/// TRN3_ABI_VERSION runs with every library of the same major version (of the same minor version while the major one
/// is 0) that is not older.
#[unsafe(no_mangle)]
pub extern "C" fn trn3_abi_version() -> u32 {
    ABI_VERSION
}

/// Writes the version ("1.2.3") with a NUL after it. 32 bytes hold it.
///
/// # Safety
/// `buffer` is null or points to `capacity` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_version(buffer: *mut c_char, capacity: usize) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { put_text(env!("CARGO_PKG_VERSION"), buffer, capacity) })
}

/// Writes the name of the kernels in use ("scalar", "portable", "avx2", "avx512", "avx512bf16") with a NUL after it. 32
/// bytes hold it. Results do not depend on it. The environment variable TRN3_SIMD, where it is set, chooses it.
///
/// # Safety
/// `buffer` is null or points to `capacity` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_simd_level(buffer: *mut c_char, capacity: usize) -> trn3_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe { put_text(trn3_numerics::simd_level()?.name(), buffer, capacity) })
}

/// Lets operations use so many threads, the calling one included. It is 1 until this is called: nothing starts a thread
/// unasked. Results do not depend on it.
///
/// VALUE: 0, more than 512 where there are not as many cores, or the system refuses the threads.
#[unsafe(no_mangle)]
pub extern "C" fn trn3_set_num_threads(threads: usize) -> trn3_status {
    guard(|| Ok(trn3_numerics::set_num_threads(threads)?))
}

/// How many threads operations use.
///
/// # Safety
/// `threads` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_num_threads(threads: *mut usize) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(threads, "threads") }?;
        place.put(trn3_numerics::num_threads()?);
        Ok(())
    })
}
