//! Kernels of skip-zero products.

pub(super) mod lists;
#[cfg(target_arch = "x86_64")]
pub(super) mod selection;
