//! Kernels: each algorithm once over [`lanes::Lanes`], instantiated per level, chosen once at run time.

pub(crate) mod dispatch;
pub(crate) mod lanes;
mod portable;
pub(crate) mod prefetch;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
