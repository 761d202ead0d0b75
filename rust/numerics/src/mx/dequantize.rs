//! Values of quantised arrays.

use super::{BLOCK, MxView, dequantize_columns, dequantize_rows};
use crate::array::{AlignedBytes, ArrayMut, element_count};
use crate::cast::{Encoder, Overflow, Rounding};
use crate::elementwise;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::simd::active_level;

/// From what to what, as the kernels use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dequantizer {
    /// That of the elements.
    pub(crate) format: Format,
    pub(crate) encoder: Encoder,
}

/// What a scale byte stands for.
#[inline(always)]
pub(crate) fn factor(byte: u8) -> f32 {
    // The exponent field alone, but for 0, which stands for the subnormal 2^-127.
    let bits = (u32::from(byte) << 23).max(0x0040_0000);
    f32::from_bits(if byte == 255 { 0x7fc0_0000 } else { bits })
}

/// Writes element x scale of a quantised array, as float32 or rounded (nearest) from it to bfloat16 or float16.
///
/// The product is exact unless it leaves float32's range (infinity); scale byte 255 gives NaN.
///
/// # Errors
/// [`Error::Dtype`], [`Error::Shape`] and [`Error::Value`] for parts that do not make a quantised array, and for outputs of
/// another shape or format.
///
/// ```
/// use trn3_numerics::{ArrayMut, ArrayView, Format, MxView, dequantize_mx};
///
/// let (elements, scales) = ([0x38u8; 32], [128u8]); // 1.0 times 2
/// let mut values = [0.0f32; 32];
/// let view = MxView {
///     elements: ArrayView::from_codes(Format::F8E4M3Fn, &elements, &[32])?,
///     scales: ArrayView::from_codes(Format::F8E8M0Fnu, &scales, &[1])?,
///     axis: 0,
/// };
/// dequantize_mx(&view, ArrayMut::new(&mut values, &[32])?)?;
/// assert_eq!(values, [2.0; 32]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn dequantize_mx(x: &MxView<'_>, out: ArrayMut<'_>) -> Result<()> {
    let level = active_level()?;
    x.check("elements")?;
    if !matches!(out.format(), Format::F32 | Format::Bf16 | Format::F16) {
        return Err(Error::dtype("dtype", out.format(), "float32, bfloat16, float16"));
    }
    let shape = x.elements.shape();
    let inner = element_count(&shape[x.axis + 1..]);
    let length = shape[x.axis];
    let encoder = Encoder::new(out.format(), Rounding::Nearest, Overflow::Ieee).of(x.elements.len());
    let dequantizer = Dequantizer { format: x.elements.format(), encoder };
    let item = out.format().item_size();
    let source = x.elements.clone().into();
    elementwise::for_each_long_piece(&source, out, |start, elements, out| {
        let mut scratch = AlignedBytes::default();
        if inner == 1 {
            // Blocks follow each other across rows as well, and pieces begin with whole ones.
            let scales = x.scales.chunk(start / BLOCK..(start + elements.len()) / BLOCK, &mut scratch);
            return dequantize_rows(level, &dequantizer, elements, scales, out);
        }
        let mut done = 0;
        while done < elements.len() {
            let at = start + done;
            let (outer, position, column) = (at / (length * inner), at / inner % length, at % inner);
            let first_scale = (outer * (length / BLOCK) + position / BLOCK) * inner + column;
            let left = elements.len() - done;
            let columns = (inner - column).min(left);
            let rows = if columns == inner { (BLOCK - position % BLOCK).min(left / inner) } else { 1 };
            let count = rows * columns;
            let (elements, out) = (&elements[done..done + count], &mut out[done * item..(done + count) * item]);
            let scales = x.scales.chunk(first_scale..first_scale + columns, &mut scratch);
            dequantize_columns(level, &dequantizer, elements, scales, out);
            done += count;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_factors_are_the_values_of_scale_codes() {
        for byte in 0..=255 {
            let (ours, theirs) = (factor(byte), Format::F8E8M0Fnu.decode_code(u32::from(byte)));
            assert_eq!(ours.to_bits(), theirs.to_bits(), "{byte}");
        }
    }
}
