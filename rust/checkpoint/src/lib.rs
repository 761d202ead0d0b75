//! Safetensors files that may come from anywhere.
//!
//! [`parse`] believes nothing of a header: it is bounded before it is looked at, walked once without being built in
//! memory (no name twice in any object, at any depth; sizes and offsets whole numbers that fit together; no byte of
//! the data unclaimed or claimed twice), and only then handed to the crate `safetensors`, whose description of the
//! tensors is what callers get. What is refused is refused with the tensor and the numbers that are wrong, in a
//! [`Problem`]. [`CheckpointFile`] reads the tensors of a file by range.
//!
//! Tensors are read and not mapped: a file that somebody shortens while it is mapped ends the process.
//!
//! The crate knows nothing of formats' values, of devices, or of Python; it stands below the doors alone.

mod file;
mod header;
mod limits;
mod place;
mod problem;
mod strict;

pub use crate::file::CheckpointFile;
pub use crate::header::{Header, TensorEntry, parse};
pub use crate::limits::{MAX_AXES, MAX_HEADER_BYTES};
pub use crate::problem::{Error, Problem, quoted};
