//! Errors in words.

use std::ffi::c_char;

use crate::guard::{guard, with_last_error};
use crate::pointers::{Place, put_text};
use crate::status::{Fault, Status, trn3_status};

/// Writes the name of a status ("OK", "TYPE", ...) with a NUL after it. 16 bytes hold every name.
///
/// VALUE: there is no such status. CAPACITY: the buffer holds only the start of it.
///
/// # Safety
/// buffer is null or points to capacity bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_status_name(status: trn3_status, buffer: *mut c_char, capacity: usize) -> trn3_status {
    guard(|| {
        let Some(known) = Status::ALL.into_iter().find(|known| *known as trn3_status == status) else {
            return Err(Fault::value(format!("status is {status}; allowed: 0 to {}", Status::ALL.len() - 1)));
        };
        // SAFETY: the caller's promise.
        unsafe { put_text(known.name(), buffer, capacity) }
    })
}

/// Writes the text of the calling thread's last failure with a NUL after it; empty before the first one. Calls that
/// succeed leave it as it is, and so does this one, also when it fails.
///
/// CAPACITY: the buffer holds only the start of it; trn3_last_error_size says how much it takes.
///
/// # Safety
/// buffer is null or points to capacity bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_last_error(buffer: *mut c_char, capacity: usize) -> trn3_status {
    let mut status = Status::Ok;
    let outcome = guard(|| {
        // SAFETY: the caller's promise.
        if let Err(fault) = with_last_error(|text| unsafe { put_text(text, buffer, capacity) }) {
            status = fault.status;
        }
        Ok(())
    });
    if outcome == Status::Ok as trn3_status { status as trn3_status } else { outcome }
}

/// Bytes that trn3_last_error needs, the NUL included.
///
/// # Safety
/// size is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_last_error_size(size: *mut usize) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let size = unsafe { Place::new(size, "size") }?;
        size.put(with_last_error(str::len) + 1);
        Ok(())
    })
}
