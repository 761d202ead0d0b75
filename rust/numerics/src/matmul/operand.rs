//! One side of a product: its values line by line.

use std::ops::Range;

use crate::array::{AlignedBytes, ArrayView};
use crate::cast::decode;
use crate::format::Format;
use crate::mx::{BLOCK, scale_blocks, scale_each};
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
}
