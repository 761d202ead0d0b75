//! The skip-zero product by selection: for each two stored values of a column, their left values come out of a register.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Job;
use super::kernels::{Kernels, Selection};
use super::spans::{PAIR_WORDS, ROW_WORDS, SPAN};
use crate::array::{AlignedBytes, ArrayView};
use crate::cast::decode;
use crate::error::Result;
use crate::format::Format;
use crate::matmul::{Accumulators, Block, Factors, Operand, Packer, Side, is_dot_exact};
use crate::par;
use crate::simd::LANES;
use crate::sparse::magnitude_mask;

/// Words of a right panel: 16 KiB, half of a small L1.
const PANEL_WORDS: usize = 1 << 12;

/// Dense rows and compressed columns.
pub(super) struct Selected<'a> {
    job: &'a Job<'a>,
    kernels: Kernels,
    selection: &'static Selection,
}

impl<'a> Selected<'a> {
    /// The factors of a product, where selection gives its bits: the dot product has to be exact, and as a slot that is zero
    /// multiplies some left value by it, all left values finite. Groups have to lie in spans whole.
    pub(super) fn of(job: &'a Job<'a>, kernels: Kernels) -> Result<Option<Self>> {
        let Some(selection) = kernels.selection else { return Ok(None) };
        if !SPAN.is_multiple_of(job.w.pattern().group()) {
            return Ok(None);
        }
        let values = Operand::new(job.w.values().transposed(), None);
        if !is_dot_exact(job.level, kernels.chains, &job.a, &values)? || !is_finite(&job.codes)? {
            return Ok(None);
        }
        Ok(Some(Self { job, kernels, selection }))
    }

    /// Slots of a span.
    fn slots(&self) -> usize {
        SPAN / self.job.w.pattern().group() * self.job.w.pattern().keep()
    }

    fn pairs(&self) -> usize {
        self.slots().div_ceil(2)
    }

    fn pack_rows(&self, outer: Range<usize>, k: Range<usize>, panels: &mut [u32]) {
        let (width, words) = (self.panel(Side::Left), self.words(Side::Left, k.len()));
        let packer = Packer::new(&self.job.a, self.job.level, self.kernels.chains, 2, k);
        packer.along(width, words, outer, panels, |rows, panel| {
            let spans: &mut [[u8; 2 * SPAN]] = bytemuck::cast_slice_mut(panel);
            for (row, codes) in rows.iter().enumerate() {
                let (whole, tail) = codes.as_chunks();
                for (at, span) in spans[row..].iter_mut().step_by(width).enumerate() {
                    match whole.get(at) {
                        Some(codes) => *span = *codes,
                        None => {
                            *span = [0; 2 * SPAN];
                            if at == whole.len() {
                                span[..tail.len()].copy_from_slice(tail);
                            }
                        }
                    }
                }
            }
        });
    }

    fn pack_columns(&self, columns: Range<usize>, k: Range<usize>, panels: &mut [u32]) {
        let (values, indices) = (self.job.w.values(), self.job.w.indices());
        let (keep, group) = (self.job.w.pattern().keep(), self.job.w.pattern().group());
        let runs = values.runs_along(1);
        let width = self.panel(Side::Right);
        let (slots, pairs) = (self.slots(), self.pairs());
        let room = columns.len().next_multiple_of(width);
        let panel_words = self.words(Side::Right, k.len()) * width;
        let vector_words = pairs * PAIR_WORDS * LANES;
        let span_words = vector_words * (width / LANES);
        let mut codes = AlignedBytes::default();
        let (mut places, mut decoded) = ([vec![0; room], vec![0; room]], [vec![0.0; room], vec![0.0; room]]);
        let end = k.end / group * keep;
        for span in 0..k.len().div_ceil(SPAN) {
            let first = k.start / group * keep + span * slots;
            for pair in 0..pairs {
                for half in 0..2 {
                    let slot = 2 * pair + half;
                    let (places, decoded) = (&mut places[half][..columns.len()], &mut decoded[half][..columns.len()]);
                    if slot >= slots || first + slot >= end {
                        decoded.fill(0.0);
                        continue;
                    }
                    let line = values.line(&[first + slot, columns.start], 1, runs, columns.len(), &mut codes);
                    decode(self.job.level, values.format(), line, decoded);
                    let base = (slot / keep * group) as u32;
                    let indices = &indices[(first + slot) * self.job.n + columns.start..][..columns.len()];
                    for (place, index) in places.iter_mut().zip(indices) {
                        *place = base + u32::from(*index);
                    }
                }
                let at = span * span_words + pair * PAIR_WORDS * LANES;
                (self.selection.write_pair)(
                    [&places[0], &places[1]],
                    [&decoded[0], &decoded[1]],
                    [at, vector_words, panel_words],
                    panels,
                );
            }
        }
    }
}

impl Factors for Selected<'_> {
    fn k(&self) -> usize {
        self.job.k
    }

    fn k_at_once(&self) -> usize {
        PANEL_WORDS / (self.panel(Side::Right) * self.words(Side::Right, SPAN)) * SPAN
    }

    fn outer(&self, side: Side) -> usize {
        match side {
            Side::Left => self.job.a.outer(),
            Side::Right => self.job.n,
        }
    }

    fn panel(&self, side: Side) -> usize {
        self.selection.panels[side as usize]
    }

    fn most_packed(&self, side: Side) -> usize {
        match side {
            Side::Left => 64,
            Side::Right => 512,
        }
    }

    fn words(&self, side: Side, k: usize) -> usize {
        let span = match side {
            Side::Left => ROW_WORDS,
            Side::Right => self.pairs() * PAIR_WORDS,
        };
        k.div_ceil(SPAN) * span
    }

    fn pack(&self, side: Side, outer: Range<usize>, k: Range<usize>, panels: &mut [u32]) {
        match side {
            Side::Left => self.pack_rows(outer, k, panels),
            Side::Right => self.pack_columns(outer, k, panels),
        }
    }

    fn multiply(&self, block: &Block, left: &[u32], right: &[u32], out: &Accumulators<'_>) {
        (self.selection.multiply)(block, self.pairs(), left, right, out);
    }
}

fn is_finite(codes: &ArrayView<'_>) -> Result<bool> {
    const CHUNK: usize = 1 << 16;
    let format = codes.format();
    let (magnitude, largest) = (magnitude_mask(format), format.spec().max_code);
    let finite = AtomicBool::new(true);
    par::for_each(0..codes.len().div_ceil(CHUNK), |chunk| {
        let mut scratch = AlignedBytes::default();
        let bytes = codes.chunk(chunk * CHUNK..codes.len().min((chunk + 1) * CHUNK), &mut scratch);
        let most = if format == Format::Bf16 {
            let codes: &[u16] = bytemuck::cast_slice(bytes);
            u32::from(codes.iter().fold(0, |most, code| most.max(code & magnitude as u16)))
        } else {
            u32::from(bytes.iter().fold(0, |most, code| most.max(code & magnitude as u8)))
        };
        if most > largest {
            finite.store(false, Ordering::Relaxed);
        }
    })?;
    Ok(finite.into_inner())
}
