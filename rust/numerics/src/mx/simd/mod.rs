//! Block scales and elements against them, sixteen at a time.

mod blocks;
mod dequantize;
mod scale;
mod shifted;

pub(super) use blocks::{quantize_columns, quantize_rows};
pub(super) use dequantize::{dequantize_columns, dequantize_rows};
pub(super) use scale::{scale_blocks, scale_each};
