//! One side of a product: its values line by line, and how small they are.

use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};

use super::kernels::Chains;
use crate::array::{AlignedBytes, ArrayView};
use crate::cast::decode;
use crate::error::Result;
use crate::format::Format;
use crate::mx::{BLOCK, scale_blocks, scale_each};
use crate::par;
use crate::simd::ActiveLevel;

/// A matrix of [outer positions, k], with a scale for every 32 k where it is quantised.
#[derive(Clone, Debug)]
pub(crate) struct Operand<'a> {
    pub(super) codes: ArrayView<'a>,
    pub(super) scales: Option<ArrayView<'a>>,
    pub(super) runs_along_k: bool,
    pub(super) runs_along_outer: bool,
}

/// Buffers of one packing task, reused from line to line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    codes: AlignedBytes,
    scale_codes: AlignedBytes,
    /// The scales of the last line's outer positions, if it lay across them, and the block of k that they are of.
    scales: AlignedBytes,
    scaled: Option<(Range<usize>, usize)>,
}

impl<'a> Operand<'a> {
    pub(crate) fn new(codes: ArrayView<'a>, scales: Option<ArrayView<'a>>) -> Self {
        let (runs_along_k, runs_along_outer) = (codes.runs_along(1), codes.runs_along(0));
        Self { codes, scales, runs_along_k, runs_along_outer }
    }

    pub(crate) fn outer(&self) -> usize {
        self.codes.shape()[0]
    }

    pub(crate) fn k(&self) -> usize {
        self.codes.shape()[1]
    }

    pub(super) fn format(&self) -> Format {
        self.codes.format()
    }

    /// The values of one outer position at some k (from a multiple of 32 on), exact but for products of element and
    /// scale beyond float32.
    pub(crate) fn values(&self, level: ActiveLevel, outer: usize, k: Range<usize>, out: &mut [f32]) {
        self.line(level, &mut Lines::default(), outer, k, out);
    }

    pub(super) fn line(&self, level: ActiveLevel, lines: &mut Lines, outer: usize, k: Range<usize>, out: &mut [f32]) {
        let codes = self.codes.line(&[outer, k.start], 1, self.runs_along_k, k.len(), &mut lines.codes);
        decode(level, self.format(), codes, out);
        if let Some(scales) = &self.scales {
            let first = k.start / BLOCK;
            let count = k.end.div_ceil(BLOCK) - first;
            let codes = scales.line(&[outer, first], 1, false, count, &mut lines.scale_codes);
            let factors = lines.scales.slice_mut(count);
            lines.scaled = None;
            decode(level, Format::F8E8M0Fnu, codes, factors);
            scale_blocks(level, out, factors);
        }
    }

    /// The values of consecutive outer positions at one k.
    pub(super) fn cross_line(
        &self,
        level: ActiveLevel,
        lines: &mut Lines,
        outer: Range<usize>,
        k: usize,
        out: &mut [f32],
    ) {
        let codes = self.codes.line(&[outer.start, k], 0, self.runs_along_outer, outer.len(), &mut lines.codes);
        decode(level, self.format(), codes, out);
        if let Some(scales) = &self.scales {
            let factors = lines.scales.slice_mut(outer.len());
            let scaled = Some((outer.clone(), k / BLOCK));
            if lines.scaled != scaled {
                let codes = scales.line(&[outer.start, k / BLOCK], 0, false, outer.len(), &mut lines.scale_codes);
                decode(level, Format::F8E8M0Fnu, codes, factors);
                lines.scaled = scaled;
            }
            scale_each(level, out, factors);
        }
    }

    /// The smallest exponent among the nonzero values, or a bound below it; `None` where the values do not fit bfloat16.
    pub(crate) fn min_exponent(&self, level: ActiveLevel, chains: &Chains) -> Result<Option<i32>> {
        let spec = self.format().spec();
        let smallest = spec.min_exponent() - spec.mantissa_bits as i32;
        match (self.format(), &self.scales) {
            (Format::Bf16, _) => self.scan_bf16(chains).map(Some),
            (Format::F16 | Format::F32 | Format::Tf32, _) => Ok(None),
            (_, None) => Ok(Some(smallest)),
            (_, Some(scales)) => self.scan_scales(level, scales).map(|scale| Some(scale.saturating_add(smallest))),
        }
    }

    fn scan_bf16(&self, chains: &Chains) -> Result<i32> {
        let axis = usize::from(self.runs_along_k || !self.runs_along_outer);
        let runs = if axis == 1 { self.runs_along_k } else { self.runs_along_outer };
        let (lines, length) = if axis == 1 { (self.outer(), self.k()) } else { (self.k(), self.outer()) };
        let least = AtomicI32::new(i32::MAX);
        par::for_each(pieces(lines, length), |(lines, span)| {
            let mut scratch = AlignedBytes::default();
            let mut smallest = u16::MAX;
            for line in lines {
                let position = if axis == 1 { [line, span.start] } else { [span.start, line] };
                let codes = self.codes.line(&position, axis, runs, span.len(), &mut scratch);
                smallest = smallest.min((chains.min_magnitude)(bytemuck::cast_slice(codes)));
            }
            // A subnormal's own exponent is below the field's: its bound is the smallest subnormal.
            let field = i32::from(smallest >> 7);
            least.fetch_min(if field == 0 { -133 } else { field - 127 }, Ordering::Relaxed);
        })?;
        Ok(least.into_inner())
    }

    /// The smallest scale exponent among blocks that are not all zero, or a bound below it.
    fn scan_scales(&self, level: ActiveLevel, scales: &ArrayView<'_>) -> Result<i32> {
        // Two scales from here on keep products of any elements in the dot product's range: only smaller ones are worth
        // a look at what they scale, and blocks of zeros mostly have the smallest.
        const LOW: u8 = 127 - 40;
        let least = AtomicI32::new(i32::MAX);
        let blocks = self.k() / BLOCK;
        par::for_each(pieces(self.outer(), blocks), |(lines, span)| {
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
            least.fetch_min(i32::from(smallest) - 127, Ordering::Relaxed);
        })?;
        Ok(least.into_inner())
    }
}

/// Whether operands of these smallest exponents leave the BF16 dot product nothing to flush: no operand lies below the
/// normal range of float32, and every product is a multiple of its smallest number, 2^-126.
pub(crate) fn is_dot_exact(a: i32, b: i32) -> bool {
    const SMALLEST_NORMAL: i32 = -126;
    const PRODUCT_FRACTION_BITS: i32 = 14;
    a >= SMALLEST_NORMAL
        && b >= SMALLEST_NORMAL
        && a.saturating_add(b).saturating_sub(PRODUCT_FRACTION_BITS) >= SMALLEST_NORMAL
}

/// Cuts lines of some length into tasks: several short lines, or part of a long one.
fn pieces(lines: usize, length: usize) -> impl ExactSizeIterator<Item = (Range<usize>, Range<usize>)> + Send {
    const PIECE: usize = 1 << 16;
    let cuts = length.div_ceil(PIECE).max(1);
    let group = (PIECE / length.max(1)).max(1);
    (0..lines.div_ceil(group) * cuts).map(move |task| {
        let (first, cut) = (task / cuts * group, task % cuts * PIECE);
        (first..lines.min(first + group), cut..length.min(cut + PIECE))
    })
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
        let bound = Operand::new(codes, Some(scales)).min_exponent(level, chains).expect("scans").expect("narrow");
        is_dot_exact(bound, bound)
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
