//! One side of a product: its values line by line, and packed into panels for the chains.

use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};

use super::kernels::Chains;
use crate::array::{AlignedBytes, ArrayView};
use crate::cast::{Encoder, Overflow, Rounding, decode, encode};
use crate::error::Result;
use crate::format::Format;
use crate::mx::{BLOCK, scale_blocks, scale_each};
use crate::par;
use crate::simd::ActiveLevel;

/// A matrix of [outer positions, k], with a scale for every 32 k where it is quantised.
#[derive(Clone, Debug)]
pub(crate) struct Operand<'a> {
    codes: ArrayView<'a>,
    scales: Option<ArrayView<'a>>,
    runs_along_k: bool,
    runs_along_outer: bool,
}

/// Buffers of one packing task, reused from line to line.
#[derive(Debug, Default)]
struct Lines {
    codes: AlignedBytes,
    scale_codes: AlignedBytes,
    scales: AlignedBytes,
    values: AlignedBytes,
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

    fn format(&self) -> Format {
        self.codes.format()
    }

    /// The values of one outer position at some k (from a multiple of 32 on), exact but for products of element and
    /// scale beyond float32.
    pub(crate) fn values(&self, level: ActiveLevel, outer: usize, k: Range<usize>, out: &mut [f32]) {
        self.line(level, &mut Lines::default(), outer, k, out);
    }

    fn line(&self, level: ActiveLevel, lines: &mut Lines, outer: usize, k: Range<usize>, out: &mut [f32]) {
        let codes = self.codes.line(&[outer, k.start], 1, self.runs_along_k, k.len(), &mut lines.codes);
        decode(level, self.format(), codes, out);
        if let Some(scales) = &self.scales {
            let first = k.start / BLOCK;
            let count = k.end.div_ceil(BLOCK) - first;
            let codes = scales.line(&[outer, first], 1, false, count, &mut lines.scale_codes);
            let factors = lines.scales.slice_mut(count);
            decode(level, Format::F8E8M0Fnu, codes, factors);
            scale_blocks(level, out, factors);
        }
    }

    /// The values of consecutive outer positions at one k.
    fn cross_line(&self, level: ActiveLevel, lines: &mut Lines, outer: Range<usize>, k: usize, out: &mut [f32]) {
        let codes = self.codes.line(&[outer.start, k], 0, self.runs_along_outer, outer.len(), &mut lines.codes);
        decode(level, self.format(), codes, out);
        if let Some(scales) = &self.scales {
            let codes = scales.line(&[outer.start, k / BLOCK], 0, false, outer.len(), &mut lines.scale_codes);
            let factors = lines.scales.slice_mut(outer.len());
            decode(level, Format::F8E8M0Fnu, codes, factors);
            scale_each(level, out, factors);
        }
    }

    /// Packs the outer positions `outer` at the k of `k` into `panels`, each `width` positions
    /// wide, `depth` k a word.
    pub(crate) fn pack(
        &self,
        level: ActiveLevel,
        chains: &Chains,
        depth: usize,
        width: usize,
        outer: Range<usize>,
        k: Range<usize>,
        panels: &mut [u32],
    ) -> Result<()> {
        let words = k.len().div_ceil(depth);
        // Enough positions that a line is worth fetching across them, and a task worth handing out.
        let group =
            if self.runs_along_outer && !self.runs_along_k { (512 / width).max(1) } else { (64 / width).max(1) };
        let packer = Packer { operand: self, level, chains, pairs: depth == 2, width, k, words };
        par::for_each(panels.chunks_mut(group * words * width).enumerate(), |(task, panels)| {
            let first = outer.start + task * group * width;
            let outer = first..outer.end.min(first + group * width);
            if self.runs_along_outer && !self.runs_along_k {
                packer.across(outer, panels);
            } else {
                packer.along(outer, panels);
            }
        })
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

/// Packs groups of panels of one operand.
struct Packer<'a> {
    operand: &'a Operand<'a>,
    level: ActiveLevel,
    chains: &'a Chains,
    pairs: bool,
    width: usize,
    k: Range<usize>,
    words: usize,
}

impl Packer<'_> {
    fn item(&self) -> usize {
        if self.pairs { 2 } else { 4 }
    }

    /// Writes values as what a word is made of: bfloat16 codes (which hold them exactly) or float32.
    fn store(&self, values: &[f32], out: &mut [u8]) {
        if self.pairs {
            let exact = Encoder::new(Format::Bf16, Rounding::Zero, Overflow::Ieee);
            encode(self.level, &exact, values, &[], out);
        } else {
            out.copy_from_slice(bytemuck::cast_slice(values));
        }
    }

    /// Whether codes are what words are made of already.
    fn is_native(&self) -> bool {
        self.operand.scales.is_none()
            && match self.operand.format() {
                Format::Bf16 => self.pairs,
                Format::F32 | Format::Tf32 => !self.pairs,
                _ => false,
            }
    }

    /// Lines along k: each outer position's words are found in one go, then transposed into the panel.
    fn along(&self, outer: Range<usize>, panels: &mut [u32]) {
        let (operand, k) = (self.operand, &self.k);
        let row_bytes = k.len() * self.item();
        let native = self.is_native();
        let mut staged = AlignedBytes::default();
        let mut lines = Lines::default();
        for (panel, out) in panels.chunks_mut(self.words * self.width).enumerate() {
            let first = outer.start + panel * self.width;
            let count = outer.end.saturating_sub(first).min(self.width);
            let mut rows: Vec<&[u8]> = vec![&[]; self.width];
            if native && operand.runs_along_k {
                for (row, slot) in rows[..count].iter_mut().enumerate() {
                    *slot = operand.codes.borrowed_line(&[first + row, k.start], k.len());
                }
                self.pack_rows(&rows, out);
            } else {
                let stage = staged.bytes_mut(row_bytes * count);
                let mut values = std::mem::take(&mut lines.values);
                for (row, bytes) in stage.chunks_mut(row_bytes.max(1)).enumerate().take(count) {
                    let values = values.slice_mut(k.len());
                    operand.line(self.level, &mut lines, first + row, k.clone(), values);
                    self.store(values, bytes);
                }
                lines.values = values;
                for (slot, bytes) in rows.iter_mut().zip(stage.chunks(row_bytes.max(1))) {
                    *slot = bytes;
                }
                self.pack_rows(&rows, out);
            }
        }
    }

    fn pack_rows(&self, rows: &[&[u8]], panel: &mut [u32]) {
        let pack = if self.pairs { self.chains.pack_pair_rows } else { self.chains.pack_word_rows };
        pack(rows, self.width, panel);
    }

    /// Lines across outer positions: one (or two) k at a time for all panels of the group.
    fn across(&self, outer: Range<usize>, panels: &mut [u32]) {
        let panel_words = self.words * self.width;
        let count = panels.len() / panel_words * self.width;
        let mut first = AlignedBytes::default();
        let mut second = AlignedBytes::default();
        let mut lines = Lines::default();
        let depth = if self.pairs { 2 } else { 1 };
        for word in 0..self.words {
            let k = self.k.start + word * depth;
            let high = self.cross_line(&mut lines, &outer, k, count, &mut first);
            let low = if self.pairs { self.cross_line(&mut lines, &outer, k + 1, count, &mut second) } else { high };
            for (panel, out) in panels.chunks_mut(panel_words).enumerate() {
                let span = panel * self.width..(panel + 1) * self.width;
                let out = &mut out[word * self.width..][..self.width];
                if self.pairs {
                    let (high, low): (&[u16], &[u16]) = (bytemuck::cast_slice(high), bytemuck::cast_slice(low));
                    (self.chains.pack_pair)(&high[span.clone()], &low[span], out);
                } else {
                    out.copy_from_slice(&bytemuck::cast_slice::<u8, u32>(high)[span]);
                }
            }
        }
    }

    /// `count` items at one k, zero beyond the operand's edges; borrowed where codes are whole and native.
    fn cross_line<'s>(
        &self,
        lines: &mut Lines,
        outer: &Range<usize>,
        k: usize,
        count: usize,
        out: &'s mut AlignedBytes,
    ) -> &'s [u8]
    where
        Self: 's,
    {
        let bytes = out.bytes_mut(count * self.item());
        let present = if k < self.k.end { outer.len() * self.item() } else { 0 };
        bytes[present..].fill(0);
        if present > 0 {
            if self.is_native() {
                bytes[..present].copy_from_slice(self.operand.codes.borrowed_line(&[outer.start, k], outer.len()));
            } else {
                let mut values = std::mem::take(&mut lines.values);
                let line = values.slice_mut(outer.len());
                self.operand.cross_line(self.level, lines, outer.clone(), k, line);
                self.store(line, &mut bytes[..present]);
                lines.values = values;
            }
        }
        bytes
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
