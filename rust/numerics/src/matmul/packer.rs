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
        let across = self.runs_along_outer && !self.runs_along_k;
        // Enough positions that a line is worth fetching across them, and a task worth handing out.
        let group = ((if across { 512 } else { 64 }) / width).max(1);
        let (form, is_native) = self.form(depth);
        let packer = Packer { operand: self, level, chains, depth, form, is_native, width, k, words };
        par::for_each(panels.chunks_mut(group * words * width).enumerate(), |(task, panels)| {
            let first = outer.start + task * group * width;
            let outer = first..outer.end.min(first + group * width);
            if across {
                packer.across(outer, panels);
            } else {
                packer.along(outer, panels);
            }
        })
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

/// Packs groups of panels of one operand.
struct Packer<'a> {
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
