//! Chains over pairs of stored values: each takes its two left values out of 32 k by a permutation.
//!
//! Vectors run across columns. For each 32 k, sixteen columns and two of their slots a right panel holds where in the 32 k
//! each column's slots stand, and their values; a left panel holds the 32 k of each row. A step is one permutation and one
//! dot product for sixteen outputs, where lists of nonzeros ([`super::lists`]) load a vector for each multiply-add.
#![allow(unsafe_code)]

use std::arch::x86_64::{__m512, __m512i};

use crate::matmul::{Accumulators, Block, Tile, join, on_part};
use crate::matmul_sparse::spans::{PAIR_WORDS, ROW_WORDS, SPAN};
use crate::simd::{Avx512, Avx512Bf16, LANES, Lanes, prefetch};

/// Multiplies the panels of `left` ([span, row, k]) and `right` ([span, vector of columns, pair of slots, places then values])
/// into `out`, with `pairs` pairs a span.
#[inline(always)]
pub(crate) fn multiply<const ROWS: usize, const VECTORS: usize>(
    token: Avx512Bf16,
    block: &Block,
    pairs: usize,
    left: &[u32],
    right: &[u32],
    out: &Accumulators<'_>,
) {
    let spans = block.k.div_ceil(SPAN);
    assert!(block.k <= block.tile || block.tile.is_multiple_of(SPAN), "chains of whole spans");
    let (row_words, column_words) = (spans * ROWS * ROW_WORDS, spans * VECTORS * pairs * PAIR_WORDS * LANES);
    for (j, right) in right.chunks_exact(column_words).enumerate() {
        for (i, left) in left.chunks_exact(row_words).enumerate() {
            let (rows, columns) = (ROWS, VECTORS * LANES);
            // SAFETY: the register tiles of one call do not overlap and run one after the other.
            let Some(part) = (unsafe { out.tile(i * rows, j * columns, rows, columns) }) else { continue };
            let tile = SelectionTile::<ROWS, VECTORS> { token, block, pairs, left, right };
            on_part::<ROWS, VECTORS>(tile, block.accumulate, part);
        }
    }
}

/// A register tile's panels, of all of the block's spans.
#[derive(Clone, Copy)]
struct SelectionTile<'a, const ROWS: usize, const VECTORS: usize> {
    token: Avx512Bf16,
    block: &'a Block,
    pairs: usize,
    left: &'a [u32],
    right: &'a [u32],
}

impl<const ROWS: usize, const VECTORS: usize> Tile for SelectionTile<'_, ROWS, VECTORS> {
    #[inline(always)]
    unsafe fn run(self, out: *mut f32, row_stride: usize) {
        let (left, right) = (self.left.as_ptr(), self.right.as_ptr());
        // SAFETY: the panels are whole; the rest is the caller's promise.
        unsafe { tile::<ROWS, VECTORS>(self.token, self.block, self.pairs, left, right, out, row_stride) };
    }
}

/// # Safety
/// `left` and `right` must be panels of all of the block's spans, `out` point to `ROWS` rows of `16 * VECTORS` floats,
/// `row_stride` apart.
#[inline(always)]
unsafe fn tile<const ROWS: usize, const VECTORS: usize>(
    token: Avx512Bf16,
    block: &Block,
    pairs: usize,
    mut left: *const u32,
    mut right: *const u32,
    out: *mut f32,
    row_stride: usize,
) {
    let l = token.lanes();
    // SAFETY: inside the output tile, by the caller's promise and the bounds of the loops below.
    let slot = |row: usize, vector: usize| unsafe { out.add(row * row_stride + vector * LANES) };
    let mut accumulate = block.accumulate;
    let mut rest = block.k;
    while rest > 0 {
        let length = rest.min(block.tile);
        rest -= length;
        let mut sums = [[l.splat_f(0.0); VECTORS]; ROWS];
        let spans = length.div_ceil(SPAN);
        for span in 0..spans {
            // The accumulators are asked for some rows at a time, as by the dense chain.
            for row in span * ROWS / spans..(span + 1) * ROWS / spans {
                for vector in 0..VECTORS {
                    prefetch(slot(row, vector), 0);
                }
            }
            let mut rows = [l.splat_i(0); ROWS];
            for row in 0..ROWS {
                // SAFETY: inside the left panel: the spans of all chains are its own.
                rows[row] = unsafe { vector_at(l, left.add(row * ROW_WORDS)) };
            }
            for vector in 0..VECTORS {
                for _ in 0..pairs {
                    // SAFETY: inside the right panel, as above.
                    let (places, values) = unsafe { (vector_at(l, right), l.float(vector_at(l, right.add(LANES)))) };
                    for row in 0..ROWS {
                        sums[row][vector] = step(token, sums[row][vector], rows[row], places, values);
                    }
                    // SAFETY: at most one past the panel's end.
                    right = unsafe { right.add(PAIR_WORDS * LANES) };
                }
            }
            // SAFETY: at most one past the panel's end.
            left = unsafe { left.add(ROWS * ROW_WORDS) };
        }
        // SAFETY: inside the output tile.
        unsafe { join(l, &sums, slot, accumulate, block.last && rest == 0) };
        accumulate = true;
    }
}

/// # Safety
/// Sixteen words must be readable at `from`.
#[inline(always)]
unsafe fn vector_at(l: Avx512, from: *const u32) -> __m512i {
    // SAFETY: by the caller's promise.
    l.load_i(unsafe { &*from.cast::<[u32; LANES]>() })
}

#[inline(always)]
fn step(token: Avx512Bf16, sum: __m512, row: __m512i, places: __m512i, values: __m512) -> __m512 {
    let selected = token.select_halves(row, places);
    token.dot(sum, token.lanes().float(selected), values)
}

/// Writes two slots of columns, each as its place in the span and its float32 value (a bfloat16 one), to the vector of pairs
/// that they are in: that of column vector v begins at `first + v / VECTORS * panel + v % VECTORS * vector` words.
#[inline(always)]
pub(crate) fn write_pair<const VECTORS: usize>(
    token: Avx512Bf16,
    places: [&[u32]; 2],
    values: [&[f32]; 2],
    [first, vector, panel]: [usize; 3],
    words: &mut [u32],
) {
    let l = token.lanes();
    let [(a, _), (b, _)] = places.map(|places| places.as_chunks::<LANES>());
    let [(high, _), (low, _)] = values.map(|values| values.as_chunks::<LANES>());
    for at in 0..a.len() {
        let start = first + at / VECTORS * panel + at % VECTORS * vector;
        let (pair, _) = words[start..start + PAIR_WORDS * LANES].as_chunks_mut::<LANES>();
        l.store_i(l.or(l.shl(l.load_i(&a[at]), 16), l.load_i(&b[at])), &mut pair[0]);
        // A bfloat16 has all of it in the upper half.
        let low = l.shr(l.bits(l.load_f(&low[at])), 16);
        l.store_i(l.or(l.bits(l.load_f(&high[at])), low), &mut pair[1]);
    }
}
