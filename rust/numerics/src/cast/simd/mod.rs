//! Decoding to and encoding from float32, sixteen at a time.

mod decode;
mod encode_streams;
mod round;
mod storage;

pub(crate) use decode::{Canonical, Decoder, Exponent, Finish, Narrow};
pub(super) use decode::{decode, recode};
pub(super) use encode_streams::encode_streams;
pub(crate) use round::{NEAREST, OVERFLOWING, REBIASED, STOCHASTIC, ZERO, encode_vector, store_finite};
pub(crate) use storage::{Codes, encode};
