//! The kernels of products: packing operands, and chains on registers.

pub(crate) mod chain;
pub(crate) mod pack;
