//! The C interface of trn3: what `include/trn3.h` declares, for simulators that take the arithmetic and the device into
//! an event loop of their own, with no Python in the process.
//!
//! Every export returns a [`trn3_status`] and gives results through pointers ([`trn3_abi_version`] alone returns a
//! number), runs inside one guard (`guard.rs`), which turns panics into a status and restores the caller's floating-point
//! environment, and checks each pointer before it touches anything. What a host may rely on stands at the head of the
//! header and in `docs/how-to/embedding.md`.
//!
//! `unsafe` is the matter of this crate; it is kept to the reading of what hosts point to (`pointers.rs`, `array.rs`) and
//! to the exports' calls of that.
#![allow(non_camel_case_types)]

mod array;
mod device;
mod dtype;
mod errors;
mod guard;
mod handles;
mod identity;
mod numerics;
mod output;
mod pointers;
mod status;

pub use array::{TRN3_MAX_AXES, trn3_array, trn3_array_mut};
pub use device::*;
pub use dtype::*;
pub use errors::{trn3_last_error, trn3_last_error_size, trn3_status_name};
pub use identity::{trn3_abi_version, trn3_num_threads, trn3_set_num_threads, trn3_simd_level, trn3_version};
pub use numerics::*;
pub use status::*;
