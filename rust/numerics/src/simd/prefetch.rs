//! A hint to the memory system.
#![allow(unsafe_code)]

/// How many bytes ahead input and output are asked for.
pub(crate) const READ_AHEAD: usize = 4096;
pub(crate) const WRITE_AHEAD: usize = 2048;

/// How many bytes ahead a kernel reads and writes that does little else than move them.
pub(crate) const STREAM_READ_AHEAD: usize = 8192;
pub(crate) const STREAM_WRITE_AHEAD: usize = 4096;

/// Asks for the cache line `bytes` behind a place. That line may lie outside any array: nothing is read.
///
/// Hardware runs ahead of a loop by itself, but not far enough for one that reads and writes at full speed: an array
/// that no cache holds takes a quarter less time with both sides asked for.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T, bytes: usize) {
    ask::<false>(place.cast::<i8>().wrapping_add(bytes));
}

/// As [`prefetch`] for a place that will be written, into the second cache: in the first one lines that come that early
/// take the place of those at work, which costs a quarter of the speed where whole lines are written.
#[inline(always)]
pub(crate) fn prefetch_second<T>(place: &T, bytes: usize) {
    ask::<true>(std::ptr::from_ref(place).cast::<i8>().wrapping_add(bytes));
}

/// Asks for a line into the first cache, or the second one only.
#[inline(always)]
fn ask<const SECOND: bool>(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a prefetch of any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        if SECOND { _mm_prefetch::<_MM_HINT_T1>(address) } else { _mm_prefetch::<_MM_HINT_T0>(address) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// [`prefetch_second`] of every cache line of a place.
#[inline(always)]
pub(crate) fn prefetch_all<T>(place: &T, bytes: usize) {
    const CACHE_LINE: usize = 64;
    for line in 0..size_of::<T>() / CACHE_LINE {
        prefetch_second(place, bytes + line * CACHE_LINE);
    }
}

/// Elements before the first whole cache line of an output, where it is long enough for that to matter: stores that each
/// cross into the next line take a tenth off the speed of memory.
#[inline(always)]
pub(crate) fn before_line<T>(output: &[T]) -> usize {
    const CACHE_LINE: usize = 64;
    const SHORTEST: usize = 16 * CACHE_LINE;
    if size_of_val(output) < SHORTEST { 0 } else { output.as_ptr().align_offset(CACHE_LINE) }
}
