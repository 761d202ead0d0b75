//! A guard for the floating-point environment: results never depend on the modes a host has set.
//!
//! Hosts set flush-to-zero, denormals-are-zero or another rounding mode per thread (any library linked with fast-math
//! flags may do it at load time). Each public entry and each worker runs inside [`with_default_environment`].
#![allow(unsafe_code)]

/// Runs `work` in the IEEE default environment (nearest even, subnormals kept, exceptions masked) and restores the
/// caller's afterwards, also when `work` unwinds. Every operation of this crate does so itself; it is public for
/// arithmetic that other crates put around them.
///
/// ```
/// let tiny = f32::from_bits(1);
/// assert_eq!(trn3_numerics::with_default_environment(|| std::hint::black_box(tiny) * 2.0), f32::from_bits(2));
/// ```
#[inline(never)]
pub fn with_default_environment<R>(work: impl FnOnce() -> R) -> R {
    let caller = control::read();
    let _restore = Restore(caller);
    // Writing the register costs more than a short operation; nearly every caller has the modes already.
    if !control::has_default_modes(caller) {
        control::write(control::DEFAULT);
    }
    work()
}

struct Restore(control::Word);

impl Drop for Restore {
    fn drop(&mut self) {
        if control::read() != self.0 {
            control::write(self.0);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    pub(super) type Word = u32;
    /// All exceptions masked, nearest even, no flushing, no sticky flags.
    pub(super) const DEFAULT: Word = 0x1f80;
    /// The flags of exceptions that have happened, which are no mode.
    const FLAGS: Word = 0x3f;

    pub(super) fn has_default_modes(word: Word) -> bool {
        word & !FLAGS == DEFAULT
    }

    pub(super) fn read() -> Word {
        let mut word: Word = 0;
        // SAFETY: stmxcsr writes four bytes to the address of a live local.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: Word) {
        // SAFETY: ldmxcsr reads four bytes of a live local; the word is the default or one read from this register, so
        // no reserved bit is set.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    pub(super) type Word = u64;
    pub(super) const DEFAULT: Word = 0;

    pub(super) fn has_default_modes(word: Word) -> bool {
        word == DEFAULT
    }

    pub(super) fn read() -> Word {
        let word: Word;
        // SAFETY: reading FPCR has no side effect.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: Word) {
        // SAFETY: the word is the architectural default or one read from this register.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub(super) type Word = ();
    pub(super) const DEFAULT: Word = ();
    pub(super) fn has_default_modes(_: Word) -> bool {
        true
    }
    pub(super) fn read() -> Word {}
    pub(super) fn write(_: Word) {}
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn test_environment_is_default_inside_and_restored_after() {
        let before = control::read();
        let flushing_toward_zero = 0x1f80 | 0x8040 | 0x6000;
        control::write(flushing_toward_zero);
        let inside = with_default_environment(control::read);
        let after = control::read();
        control::write(before);
        assert_eq!(inside, 0x1f80);
        assert_eq!(after & !0x3f, flushing_toward_zero);
    }

    #[test]
    fn test_flags_of_exceptions_are_the_callers() {
        let before = control::read();
        for flags in [0, 0x20, 0x3f] {
            control::write(0x1f80 | flags);
            let inside = with_default_environment(|| {
                let third = std::hint::black_box(1.0f32) / std::hint::black_box(3.0);
                std::hint::black_box(third);
                control::read()
            });
            let after = control::read();
            control::write(before);
            assert_eq!(inside & !0x3f, 0x1f80);
            assert_eq!(after, 0x1f80 | flags);
        }
    }
}
