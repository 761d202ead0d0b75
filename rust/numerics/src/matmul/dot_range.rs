//! Whether the BF16 dot product has a product's chains: how small the operands' values are.

use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};

use super::kernels::Chains;
use super::operand::Operand;
use crate::array::{AlignedBytes, ArrayView};
use crate::cast::decode;
use crate::error::Result;
use crate::format::Format;
use crate::mx::BLOCK;
use crate::par;
use crate::simd::ActiveLevel;

/// Whether the BF16 dot product gives the chains of two operands bit for bit: their values are bfloat16 ones, and leave it
/// nothing to flush.
pub(crate) fn is_dot_exact(level: ActiveLevel, chains: &Chains, a: &Operand<'_>, b: &Operand<'_>) -> Result<bool> {
    let operands = [a, b];
    if operands.iter().any(|operand| matches!(operand.format(), Format::F16 | Format::F32 | Format::Tf32)) {
        return Ok(false);
    }
    let found = operands.map(|operand| AtomicI32::new(if operand.is_scanned() { i32::MAX } else { 0 }));
    // Both in one go: on small ones, handing out work takes as long as the work.
    let pieces: Vec<_> = operands
        .iter()
        .zip(&found)
        .flat_map(|(side, found)| side.pieces().map(move |piece| (side, piece, found)))
        .collect();
    par::for_each(pieces.into_iter(), |(side, piece, found)| {
        found.fetch_min(side.least_exponent(level, chains, piece), Ordering::Relaxed);
    })?;
    let [a, b] =
        [0, 1].map(|side| operands[side].least_of_elements().saturating_add(found[side].load(Ordering::Relaxed)));
    Ok(is_in_range(a, b))
}

/// Whether operands of these smallest exponents leave the dot product nothing to flush: no operand lies below the normal
/// range of float32, and every product is a multiple of its smallest number, 2^-126.
fn is_in_range(a: i32, b: i32) -> bool {
    const SMALLEST_NORMAL: i32 = -126;
    const PRODUCT_FRACTION_BITS: i32 = 14;
    a >= SMALLEST_NORMAL
        && b >= SMALLEST_NORMAL
        && a.saturating_add(b).saturating_sub(PRODUCT_FRACTION_BITS) >= SMALLEST_NORMAL
}

/// Lines of an operand, and which of their elements.
type Piece = (Range<usize>, Range<usize>);

/// Cuts lines of some length into tasks: several short lines, or part of a long one.
fn pieces(lines: usize, length: usize) -> impl Iterator<Item = Piece> {
    const PIECE: usize = 1 << 16;
    let cuts = length.div_ceil(PIECE).max(1);
    let group = (PIECE / length.max(1)).max(1);
    (0..lines.div_ceil(group) * cuts).map(move |task| {
        let (first, cut) = (task / cuts * group, task % cuts * PIECE);
        (first..lines.min(first + group), cut..length.min(cut + PIECE))
    })
}

impl Operand<'_> {
    /// Whether how small the values are is to be looked for; else the format says it.
    fn is_scanned(&self) -> bool {
        self.format() == Format::Bf16 || self.scales.is_some()
    }

    /// The exponent below which no element of a narrow format lies; what is found of bfloat16 ones is their own.
    fn least_of_elements(&self) -> i32 {
        let spec = self.format().spec();
        if self.format() == Format::Bf16 { 0 } else { spec.min_exponent() - spec.mantissa_bits as i32 }
    }

    /// The axis that bfloat16 codes are looked through along.
    fn scanned_axis(&self) -> usize {
        usize::from(self.runs_along_k || !self.runs_along_outer)
    }

    fn pieces(&self) -> impl Iterator<Item = Piece> + use<> {
        let (lines, length) = match (self.format(), &self.scales) {
            (Format::Bf16, _) if self.scanned_axis() == 1 => (self.outer(), self.k()),
            (Format::Bf16, _) => (self.k(), self.outer()),
            (_, Some(_)) => (self.outer(), self.k() / BLOCK),
            (_, None) => (0, 0),
        };
        pieces(lines, length)
    }

    /// The smallest exponent, or a bound below it, among a piece's nonzero bfloat16 values, or among its scales.
    fn least_exponent(&self, level: ActiveLevel, chains: &Chains, piece: Piece) -> i32 {
        match &self.scales {
            Some(scales) => self.least_scale(level, scales, piece),
            None => self.least_value(chains, piece),
        }
    }

    fn least_value(&self, chains: &Chains, (lines, span): Piece) -> i32 {
        let axis = self.scanned_axis();
        let runs = if axis == 1 { self.runs_along_k } else { self.runs_along_outer };
        let mut scratch = AlignedBytes::default();
        let mut smallest = u16::MAX;
        for line in lines {
            let position = if axis == 1 { [line, span.start] } else { [span.start, line] };
            let codes = self.codes.line(&position, axis, runs, span.len(), &mut scratch);
            smallest = smallest.min((chains.min_magnitude)(bytemuck::cast_slice(codes)));
        }
        // A subnormal's own exponent is below the field's: its bound is the smallest subnormal.
        let field = i32::from(smallest >> 7);
        if field == 0 { -133 } else { field - 127 }
    }

    /// Blocks that are all zero count for nothing.
    fn least_scale(&self, level: ActiveLevel, scales: &ArrayView<'_>, (lines, span): Piece) -> i32 {
        // Two scales from here on keep products of any elements in the dot product's range: only smaller ones are worth
        // a look at what they scale, and blocks of zeros mostly have the smallest.
        const LOW: u8 = 127 - 40;
        let (mut codes, mut element_codes) = (AlignedBytes::default(), AlignedBytes::default());
        let mut values = [0.0; BLOCK];
        let mut smallest = u8::MAX;
        for outer in lines {
            let bytes = scales.line(&[outer, span.start], 1, false, span.len(), &mut codes);
            let own = bytes.iter().copied().fold(u8::MAX, u8::min);
            if own >= LOW {
                smallest = smallest.min(own);
                continue;
            }
            for (block, &byte) in span.clone().zip(bytes) {
                if byte < LOW.min(smallest) {
                    let position = [outer, block * BLOCK];
                    let elements = self.codes.line(&position, 1, self.runs_along_k, BLOCK, &mut element_codes);
                    decode(level, self.format(), elements, &mut values);
                    if values.iter().all(|&value| value == 0.0) {
                        continue;
                    }
                }
                smallest = smallest.min(byte);
            }
        }
        i32::from(smallest) - 127
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{SimdLevel, with_level};

    /// Whether a product of two operands with these scales, a block for each, may take the dot product.
    fn may_dot(scales: &[u8], code: impl Fn(usize) -> u8) -> bool {
        let codes: Vec<u8> = (0..scales.len() * BLOCK).map(|index| code(index / BLOCK)).collect();
        let codes = ArrayView::from_codes(Format::F8E4M3Fn, &codes, &[1, codes.len()]).expect("fits");
        let scales = ArrayView::from_codes(Format::F8E8M0Fnu, scales, &[1, scales.len()]).expect("fits");
        let level = with_level(SimdLevel::Portable, crate::simd::active_level).expect("available").expect("valid");
        let chains = Chains::at(level).expect("has kernels");
        let operand = Operand::new(codes, Some(scales));
        is_dot_exact(level, chains, &operand, &operand).expect("not interrupted")
    }

    #[test]
    fn test_ordinary_scales_leave_the_dot_product() {
        assert!(may_dot(&[110, 127, 90], |_| 0x38));
    }

    #[test]
    fn test_blocks_of_zeros_bound_nothing_and_others_do() {
        assert!(may_dot(&[127, 0], |block| if block == 0 { 0x38 } else { 0x80 }));
        assert!(!may_dot(&[127, 0], |_| 0x38));
    }
}
