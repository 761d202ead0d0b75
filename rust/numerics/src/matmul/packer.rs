//! One side of a product packed into panels for the chains.

use std::ops::Range;

use super::kernels::Chains;
use super::operand::{Lines, Operand};
use super::simd::pack::Form;
use crate::array::AlignedBytes;
use crate::error::Result;
use crate::format::Format;
use crate::par;
use crate::simd::{ActiveLevel, prefetch};

/// k that lines across outer positions are asked for ahead.
const LINES_AHEAD: usize = 2;

impl Operand<'_> {
    /// What packs the k of `k` into panels of `width` outer positions, `depth` k a word.
    pub(crate) fn packer<'a>(
        &'a self,
        level: ActiveLevel,
        chains: &'a Chains,
        depth: usize,
        width: usize,
        k: Range<usize>,
    ) -> Packer<'a> {
        let (form, is_native) = self.form(depth);
        let words = k.len().div_ceil(depth);
        Packer { operand: self, level, chains, depth, form, is_native, width, k, words }
    }

    /// What words of so many k are made from, and whether codes are that already; else values are found first.
    fn form(&self, depth: usize) -> (Form, bool) {
        match (self.format(), depth, &self.scales) {
            (Format::F32 | Format::Tf32, 1, None) => (Form::Words, true),
            (Format::Bf16, 1, None) => (Form::Widened, true),
            (Format::Bf16, 2, None) => (Form::Pairs, true),
            (_, 1, _) => (Form::Words, false),
            _ => (Form::Pairs, false),
        }
    }
}

/// A task of packing: some outer positions and the panels they go to.
pub(crate) struct Piece<'a> {
    packer: &'a Packer<'a>,
    outer: Range<usize>,
    panels: &'a mut [u32],
}

/// Packs operands, each piece on any thread.
pub(crate) fn pack(pieces: Vec<Piece<'_>>) -> Result<()> {
    par::for_each(pieces.into_iter(), |piece| piece.packer.pack(piece.outer, piece.panels))
}

/// Packs outer positions of one operand, all at the same k.
pub(crate) struct Packer<'a> {
    operand: &'a Operand<'a>,
    level: ActiveLevel,
    chains: &'a Chains,
    depth: usize,
    form: Form,
    is_native: bool,
    width: usize,
    k: Range<usize>,
    words: usize,
}

impl Packer<'_> {
    /// Words of the panels of some spans of outer positions. Each span begins with a panel of its own.
    pub(crate) fn words_of(&self, spans: &[Range<usize>]) -> usize {
        spans.iter().map(|span| span.len().next_multiple_of(self.width) * self.words).sum()
    }

    /// Tasks that pack the outer positions of `spans` into `panels`, one span after the other.
    pub(crate) fn pieces<'a>(&'a self, spans: &[Range<usize>], mut panels: &'a mut [u32]) -> Vec<Piece<'a>> {
        // Enough positions that a line is worth fetching across them, and a task worth handing out.
        let most = ((if self.is_across() { 512 } else { 64 }) / self.width).max(1);
        let mut pieces = Vec::new();
        for span in spans {
            let group = par::share(span.len().div_ceil(self.width), most, 1) * self.width;
            for first in span.clone().step_by(group) {
                let outer = first..span.end.min(first + group);
                let (own, rest) = panels.split_at_mut(outer.len().next_multiple_of(self.width) * self.words);
                pieces.push(Piece { packer: self, outer, panels: own });
                panels = rest;
            }
        }
        pieces
    }

    fn is_across(&self) -> bool {
        self.operand.runs_along_outer && !self.operand.runs_along_k
    }

    /// Packs some outer positions into `panels`, whose last one may have room beyond them.
    pub(crate) fn pack(&self, outer: Range<usize>, panels: &mut [u32]) {
        if self.is_across() {
            self.across(outer, panels);
        } else {
            self.along(outer, panels);
        }
    }

    /// Lets `find` write `count` values, as what the form takes, to `bytes`.
    fn stage(&self, count: usize, scratch: &mut AlignedBytes, bytes: &mut [u8], find: impl FnOnce(&mut [f32])) {
        if self.depth == 1 {
            find(bytemuck::cast_slice_mut(bytes));
        } else {
            let values = scratch.slice_mut(count);
            find(values);
            (self.chains.high_halves)(values, bytemuck::cast_slice_mut(bytes));
        }
    }

    /// Lines along k: each outer position's words are found in one go, then transposed into the panel.
    fn along(&self, outer: Range<usize>, panels: &mut [u32]) {
        let (operand, k) = (self.operand, &self.k);
        let borrowed = self.is_native && operand.runs_along_k;
        let row_bytes = k.len() * self.form.item();
        // Rows keep apart in cache lines, so that values can be written where they are staged.
        let room = row_bytes.next_multiple_of(64);
        let (mut staged, mut scratch, mut lines) = (AlignedBytes::default(), AlignedBytes::default(), Lines::default());
        for (panel, out) in panels.chunks_mut(self.words * self.width).enumerate() {
            let first = outer.start + panel * self.width;
            let count = outer.end.saturating_sub(first).min(self.width);
            let mut rows: Vec<&[u8]> = vec![&[]; self.width];
            if borrowed {
                for (row, slot) in rows[..count].iter_mut().enumerate() {
                    *slot = operand.codes.borrowed_line(&[first + row, k.start], k.len());
                }
            } else {
                let stage = staged.bytes_mut(room * count);
                for (row, bytes) in stage.chunks_mut(room.max(1)).enumerate() {
                    let (position, bytes) = (first + row, &mut bytes[..row_bytes]);
                    if self.is_native {
                        bytes.copy_from_slice(operand.codes.line(
                            &[position, k.start],
                            1,
                            false,
                            k.len(),
                            &mut scratch,
                        ));
                    } else {
                        self.stage(k.len(), &mut scratch, bytes, |values| {
                            operand.line(self.level, &mut lines, position, k.clone(), values);
                        });
                    }
                }
                for (slot, bytes) in rows.iter_mut().zip(stage.chunks(room.max(1))) {
                    *slot = &bytes[..row_bytes];
                }
            }
            (self.chains.pack_rows)(self.form, &rows, self.width, out);
        }
    }

    /// Lines across outer positions: one (or two) k at a time for all panels of the group.
    fn across(&self, outer: Range<usize>, panels: &mut [u32]) {
        let operand = self.operand;
        let bytes = outer.len() * self.form.item();
        let (mut staged, mut scratch, mut lines) =
            ([AlignedBytes::default(), AlignedBytes::default()], AlignedBytes::default(), Lines::default());
        let last = self.k.end.saturating_sub(1);
        for word in 0..self.words {
            let mut codes: [&[u8]; 2] = [&[]; 2];
            for (place, (slot, staged)) in codes.iter_mut().zip(&mut staged).enumerate().take(self.depth) {
                let k = self.k.start + word * self.depth + place;
                if k >= self.k.end {
                    let zeros = staged.bytes_mut(bytes);
                    zeros.fill(0);
                    *slot = zeros;
                } else if self.is_native {
                    *slot = operand.codes.borrowed_line(&[outer.start, k], outer.len());
                    // Lines lie on pages of their own, where hardware does not look ahead.
                    let ahead = operand.codes.borrowed_line(&[outer.start, (k + LINES_AHEAD).min(last)], outer.len());
                    ahead.chunks(64).for_each(|line| prefetch(line.as_ptr(), 0));
                } else {
                    let bytes = staged.bytes_mut(bytes);
                    self.stage(outer.len(), &mut scratch, bytes, |values| {
                        operand.cross_line(self.level, &mut lines, outer.clone(), k, values);
                    });
                    *slot = bytes;
                }
            }
            let place = [word, self.width, self.words * self.width];
            (self.chains.pack_line)(self.form, codes, place, panels);
        }
    }
}
