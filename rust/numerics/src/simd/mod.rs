//! Lanes and levels: what kernels are written in, and which of them run.
//!
//! An algorithm is one text over [`Lanes`], instantiated per level, chosen at run time. The algorithms themselves stand
//! with their operations.

mod dispatch;
mod doubles;
mod halves;
mod lanes;
mod levels;
mod portable;
mod prefetch;
mod stream;
mod sums;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod shuffles;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::{Avx512, Avx512Bf16};
#[cfg(target_arch = "x86_64")]
pub(crate) use dispatch::array_of;
pub(crate) use dispatch::{dispatch, kernel, per_level};
pub(crate) use doubles::Doubles;
pub(crate) use halves::{HALVES, Halves};
#[cfg(target_arch = "x86_64")]
pub(crate) use lanes::Tables;
pub(crate) use lanes::{LANES, Lanes};
pub(crate) use levels::{ActiveLevel, PerLevel, active_level};
pub use levels::{SimdLevel, simd_level, with_level};
pub(crate) use portable::Portable;
pub(crate) use prefetch::{
    READ_AHEAD, STREAM_READ_AHEAD, STREAM_WRITE_AHEAD, WRITE_AHEAD, before_line, prefetch, prefetch_all,
    prefetch_second,
};
pub(crate) use stream::{Traffic, is_streamed, settle};
pub(crate) use sums::Sums;
