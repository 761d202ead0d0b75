//! A hint to the memory system.
#![allow(unsafe_code)]

/// How many bytes ahead input and output are asked for.
pub(crate) const READ_AHEAD: usize = 4096;
pub(crate) const WRITE_AHEAD: usize = 2048;

/// Asks for the cache line `bytes` behind a place. That line may lie outside any array: nothing is read.
///
/// Hardware runs ahead of a loop by itself, but not far enough for one that reads and writes at full speed: an array
/// that no cache holds takes a quarter less time with both sides asked for.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T, bytes: usize) {
    let address = place.cast::<i8>().wrapping_add(bytes);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a prefetch of any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
