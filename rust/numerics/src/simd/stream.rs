//! What the caches are left to do, and writing past them.
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

/// How a loop reads and writes that does little else, by where its arrays are likely to lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// In a cache that is read as fast as hardware runs ahead: what is asked for besides only comes in its way.
    Near,
    /// Lines are asked for ahead.
    Asked,
    /// The same, and what is written goes past the caches.
    Streamed,
}

impl Traffic {
    /// That of an operation with so many bytes of output.
    pub(crate) fn of(bytes: usize) -> Self {
        if is_streamed(bytes) { Traffic::Streamed } else { Traffic::kept() }
    }

    /// That of one which leaves its output to the caches.
    pub(crate) fn kept() -> Self {
        if runs_ahead() { Traffic::Near } else { Traffic::Asked }
    }
}

/// Whether a core of this make runs far enough ahead of a loop by itself, as long as a cache holds its arrays: on AMD's
/// Zen 4 lines that are asked for cost a fifth of the speed of its third cache, on Intel's servers they gain a quarter.
fn runs_ahead() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::sync::OnceLock;
        static AMD: OnceLock<bool> = OnceLock::new();
        *AMD.get_or_init(|| {
            let leaf = std::arch::x86_64::__cpuid(0);
            [leaf.ebx, leaf.edx, leaf.ecx] == [*b"Auth", *b"enti", *b"cAMD"].map(u32::from_le_bytes)
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
