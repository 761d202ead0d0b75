//! Block scales and elements against them, sixteen at a time.

mod dequantize;
mod quantize;
mod scale;

pub(super) use dequantize::{dequantize_columns, dequantize_rows};
pub(super) use quantize::{quantize_columns, quantize_rows};
pub(super) use scale::{scale_blocks, scale_each};
