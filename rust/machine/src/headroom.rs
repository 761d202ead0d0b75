//! Room in the host's memory, looked for before an instruction begins.
//!
//! What users' data sizes is asked for fallibly where it is made. What an instruction makes on its way (values of its tiles,
//! its records, the lists that these grow) is small beside it and made at many places, none of which could go on without:
//! so the room for it is looked for here. A mapping that nobody writes to takes no memory of the host; that it cannot be had
//! says that soon nothing can.

use crate::error::Result;
use crate::storage::Shortage;

/// Elements from which an instruction is looked at by itself.
const LONG: usize = 1 << 16;

/// Short instructions between two looks: a mapping takes as long as some instructions do.
const EVERY: u64 = 256;

/// Bytes that so many short instructions need at most, and messages after them.
const LEAST: usize = 16 << 20;

/// Bytes an element of a long instruction: its values as float32 or float64, its codes, a mask, operands and results.
const EACH: usize = 32;

/// Bytes an instruction issued so far: its records, in lists that double.
const RECORDS: u64 = 512;

/// Looks for what an instruction of so many elements may need after so many others.
///
/// # Errors
/// [`crate::Error::HostMemory`] where there is no such room.
pub(crate) fn check(name: &str, elements: usize, issued: u64) -> Result<()> {
    if elements < LONG && !issued.is_multiple_of(EVERY) {
        return Ok(());
    }
    let records = usize::try_from(issued.saturating_mul(RECORDS)).unwrap_or(usize::MAX);
    let bytes = elements.saturating_mul(EACH).saturating_add(LEAST).max(records);
    look(bytes).map_err(|shortage| shortage.of(format_args!("{name}, instruction {} of the run", issued + 1)))
}

#[cfg(any(unix, windows))]
fn look(bytes: usize) -> std::result::Result<(), Shortage> {
    let mapped = memmap2::MmapOptions::new().len(bytes).no_reserve_swap().map_anon();
    mapped.map(drop).map_err(|_| Shortage::Host { bytes: bytes as u64 })
}

/// Elsewhere nothing tells.
#[cfg(not(any(unix, windows)))]
fn look(_bytes: usize) -> std::result::Result<(), Shortage> {
    Ok(())
}
