//! Writing past the caches.
#![allow(unsafe_code)]

/// Bytes from which on an output is taken to outgrow what caches keep until it is read.
const STREAMED: usize = 1 << 24;

/// Whether an output of so many bytes is written past the caches: a store reads the line that it overwrites, which a
/// streamed line is not, but whoever reads it next waits for memory.
pub(crate) fn is_streamed(bytes: usize) -> bool {
    cfg!(target_arch = "x86_64") && bytes >= STREAMED
}

/// Has what was streamed seen in order with what follows, as another thread must have it.
pub(crate) fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
