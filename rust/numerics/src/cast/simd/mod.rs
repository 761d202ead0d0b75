//! Decoding to and encoding from float32, sixteen at a time.

mod decode;
mod round;
mod storage;
mod streams;

pub(crate) use decode::{Canonical, Decoder, Exponent, Finish, Narrow};
pub(super) use decode::{decode, recode};
pub(crate) use round::{NEAREST, OVERFLOWING, REBIASED, STOCHASTIC, ZERO, encode_vector, store_finite};
pub(crate) use storage::{Codes, encode};
pub(super) use streams::encode_streams;
