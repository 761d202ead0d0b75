//! Kernels: each algorithm once over [`lanes::Lanes`], instantiated per level, chosen once at run time.

pub(crate) mod activation;
pub(crate) mod cast;
pub(crate) mod chain;
pub(crate) mod dispatch;
pub(crate) mod exp;
pub(crate) mod lanes;
pub(crate) mod mx;
mod pack;
mod portable;
pub(crate) mod prefetch;
mod scalar;
pub(crate) mod sparse;
pub(crate) mod xorwow;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
