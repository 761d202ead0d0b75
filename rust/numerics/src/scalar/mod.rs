//! The definitions: plain Rust that reads like the contract, one file an operation.
//!
//! They are what every SIMD level must equal bit for bit, and what `TRN3_SIMD=scalar` runs.

pub(crate) mod activation;
pub(crate) mod cast;
pub(crate) mod exp;
pub(crate) mod matmul;
pub(crate) mod mx;
pub(crate) mod sparse;
pub(crate) mod xorwow;
