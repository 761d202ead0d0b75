//! One side of a product packed into panels for the chains.

use std::ops::Range;

use super::kernels::Chains;
use super::operand::{Lines, Operand};
use super::simd::pack::Form;
use crate::array::AlignedBytes;
use crate::format::Format;
use crate::simd::{ActiveLevel, prefetch};

/// k that lines across outer positions are asked for ahead.
const LINES_AHEAD: usize = 2;

impl Operand<'_> {
    /// Outer positions that a task packs at most: enough that a line is worth fetching across them, and a task worth handing
    /// out.
    pub(crate) fn most_packed(&self) -> usize {
        if self.is_across() { 512 } else { 64 }
    }

    /// Whether lines are read across outer positions rather than along k.
    fn is_across(&self) -> bool {
        self.runs_along_outer && !self.runs_along_k
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

/// Packs outer positions of one operand, all at the same k.
pub(crate) struct Packer<'a> {
    operand: &'a Operand<'a>,
    level: ActiveLevel,
    chains: &'a Chains,
    depth: usize,
    form: Form,
    is_native: bool,
    k: Range<usize>,
}

impl<'a> Packer<'a> {
    /// What packs the k of `k`, `depth` of them a word.
    pub(crate) fn new(
        operand: &'a Operand<'a>,
        level: ActiveLevel,
        chains: &'a Chains,
        depth: usize,
        k: Range<usize>,
    ) -> Self {
        let (form, is_native) = operand.form(depth);
        Self { operand, level, chains, depth, form, is_native, k }
    }

    /// Packs some outer positions into panels, each `width` positions wide; the last one may have room beyond them.
    pub(crate) fn pack(&self, width: usize, outer: Range<usize>, panels: &mut [u32]) {
        let words = self.k.len().div_ceil(self.depth);
        if self.operand.is_across() {
            self.across(width, words, outer, panels);
        } else {
            self.along(width, words, outer, panels, |rows, panel| {
                (self.chains.pack_rows)(self.form, rows, width, panel);
            });
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

    /// Lines along k, found for a panel's outer positions in one go, as codes of the form: `write` makes the panel, of `words`
    /// words a position, of them. There is one for every position, empty ones for the room beyond them.
    pub(crate) fn along(
        &self,
        width: usize,
        words: usize,
        outer: Range<usize>,
        panels: &mut [u32],
        write: impl Fn(&[&[u8]], &mut [u32]),
    ) {
        let (operand, k) = (self.operand, &self.k);
        let borrowed = self.is_native && operand.runs_along_k;
        let row_bytes = k.len() * self.form.item();
        // Rows keep apart in cache lines, so that values can be written where they are staged.
        let room = row_bytes.next_multiple_of(64);
        let (mut staged, mut scratch, mut lines) = (AlignedBytes::default(), AlignedBytes::default(), Lines::default());
        for (panel, out) in panels.chunks_mut(words * width).enumerate() {
            let first = outer.start + panel * width;
            let count = outer.end.saturating_sub(first).min(width);
            let mut rows: Vec<&[u8]> = vec![&[]; width];
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
            write(&rows, out);
        }
    }

    /// Lines across outer positions: one (or two) k at a time for all panels of the group.
    fn across(&self, width: usize, words: usize, outer: Range<usize>, panels: &mut [u32]) {
        let operand = self.operand;
        let bytes = outer.len() * self.form.item();
        let (mut staged, mut scratch, mut lines) =
            ([AlignedBytes::default(), AlignedBytes::default()], AlignedBytes::default(), Lines::default());
        let last = self.k.end.saturating_sub(1);
        for word in 0..words {
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
            let place = [word, width, words * width];
            (self.chains.pack_line)(self.form, codes, place, panels);
        }
    }
}
