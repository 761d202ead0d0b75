//! Which level runs: detected once, overridden by `TRN3_SIMD`; whole kernels are dispatched, not instructions.

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::{Avx512, Avx512Bf16};
use crate::error::{Error, Result};

/// A set of kernels; all give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SimdLevel {
    /// The definitions, one element at a time: the slow twin every other level is compared with.
    Scalar,
    /// Plain loops that the compiler vectorises for the baseline target.
    Portable,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// The same with the BF16 dot product for systolic chains.
    Avx512Bf16,
}

impl SimdLevel {
    /// Every level, slowest first.
    pub const ALL: [SimdLevel; 5] =
        [SimdLevel::Scalar, SimdLevel::Portable, SimdLevel::Avx2, SimdLevel::Avx512, SimdLevel::Avx512Bf16];

    /// The name `TRN3_SIMD` takes.
    pub const fn name(self) -> &'static str {
        match self {
            SimdLevel::Scalar => "scalar",
            SimdLevel::Portable => "portable",
            SimdLevel::Avx2 => "avx2",
            SimdLevel::Avx512 => "avx512",
            SimdLevel::Avx512Bf16 => "avx512bf16",
        }
    }

    /// Whether this machine can run the level.
    pub fn is_available(self) -> bool {
        self.checked().is_some()
    }

    /// Whether the level, where available, beats the one below it.
    fn is_worthwhile(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512Bf16 => Avx512Bf16::is_faster(),
            _ => true,
        }
    }

    /// The level, where the machine has its instructions.
    fn checked(self) -> Option<ActiveLevel> {
        let built = match self {
            SimdLevel::Scalar => Some(Built::Scalar),
            SimdLevel::Portable => Some(Built::Portable),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => Avx2::is_available().then_some(Built::Avx2),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => Avx512::is_available().then_some(Built::Avx512),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512Bf16 => Avx512Bf16::is_available().then_some(Built::Avx512Bf16),
            #[cfg(not(target_arch = "x86_64"))]
            _ => None,
        };
        built.map(ActiveLevel)
    }

    fn available_names() -> String {
        let names = SimdLevel::ALL.into_iter().filter(|level| level.is_available()).map(SimdLevel::name);
        names.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for SimdLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The levels that kernels are built for on this target.
#[derive(Clone, Copy, Debug)]
enum Built {
    Scalar,
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
}

/// The level of an operation at work: proof that this machine has its instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActiveLevel(Built);

/// What each level has of something; [`per_level`](super::per_level) makes one.
pub(crate) struct PerLevel<T> {
    pub(crate) scalar: T,
    pub(crate) portable: T,
    #[cfg(target_arch = "x86_64")]
    pub(crate) avx2: T,
    #[cfg(target_arch = "x86_64")]
    pub(crate) avx512: T,
    #[cfg(target_arch = "x86_64")]
    pub(crate) avx512bf16: T,
}

impl<T> PerLevel<T> {
    /// What a level has.
    #[inline]
    pub(crate) fn at(&self, level: ActiveLevel) -> &T {
        match level.0 {
            Built::Scalar => &self.scalar,
            Built::Portable => &self.portable,
            #[cfg(target_arch = "x86_64")]
            Built::Avx2 => &self.avx2,
            #[cfg(target_arch = "x86_64")]
            Built::Avx512 => &self.avx512,
            #[cfg(target_arch = "x86_64")]
            Built::Avx512Bf16 => &self.avx512bf16,
        }
    }
}

thread_local! {
    static FORCED: Cell<Option<SimdLevel>> = const { Cell::new(None) };
}

/// Runs `work` with the operations that this thread starts forced to one level; for comparing levels in one process.
///
/// # Errors
/// [`Error::Value`] when the machine cannot run the level.
pub fn with_level<R>(level: SimdLevel, work: impl FnOnce() -> R) -> Result<R> {
    struct Reset(Option<SimdLevel>);
    impl Drop for Reset {
        fn drop(&mut self) {
            FORCED.set(self.0);
        }
    }
    if !level.is_available() {
        return Err(unavailable("level", level.name()));
    }
    let _reset = Reset(FORCED.replace(Some(level)));
    Ok(work())
}

fn unavailable(argument: &'static str, name: &str) -> Error {
    Error::value(argument, format!("{name:?}"), format!("this machine can run: {}", SimdLevel::available_names()))
}

fn choose() -> Result<SimdLevel> {
    match std::env::var("TRN3_SIMD") {
        Ok(name) => SimdLevel::ALL
            .into_iter()
            .find(|level| level.name() == name && level.is_available())
            .ok_or_else(|| unavailable("TRN3_SIMD", &name)),
        Err(_) => {
            let best = SimdLevel::ALL.into_iter().rev().find(|level| level.is_available() && level.is_worthwhile());
            Ok(best.unwrap_or(SimdLevel::Scalar))
        }
    }
}

/// The level operations run at: the fastest the machine has, or the one `TRN3_SIMD` names.
///
/// # Errors
/// [`Error::Value`] when `TRN3_SIMD` names no level or one this machine cannot run.
pub fn simd_level() -> Result<SimdLevel> {
    static CHOSEN: OnceLock<Result<SimdLevel>> = OnceLock::new();
    match FORCED.get() {
        Some(level) => Ok(level),
        None => CHOSEN.get_or_init(choose).clone(),
    }
}

/// The level of an operation that starts now on this thread.
pub(crate) fn active_level() -> Result<ActiveLevel> {
    let level = simd_level()?;
    level.checked().ok_or_else(|| unavailable("TRN3_SIMD", level.name()))
}
