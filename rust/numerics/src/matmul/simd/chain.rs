//! The systolic chain on registers: a tile of outputs, each summed in ascending k, one rounding a step.
//!
//! Vectors run across outputs, never along k, so that a chain stays a chain. Operands come packed ([`super::pack`]):
//! panels of `ROWS` (left) and `16 * VECTORS` (right) outer positions, one 32-bit word each for every step.
#![allow(unsafe_code)]

use crate::matmul::accumulators::Accumulators;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx512, Avx512Bf16};
use crate::simd::{LANES, Lanes, prefetch};

/// How one word of each operand extends sixteen chains.
pub(crate) trait Step: Copy {
    type L: Lanes;
    /// Consecutive k in a packed word.
    const DEPTH: usize;

    fn lanes(self) -> Self::L;
    /// `sum + left * right`, the word's k in ascending order, each step fused and rounded once.
    fn step(self, sum: F<Self>, left: F<Self>, right: F<Self>) -> F<Self>;
}

type F<S> = <<S as Step>::L as Lanes>::F;

/// One float32 a word, one fused multiply-add.
#[derive(Clone, Copy)]
pub(crate) struct Fused<L>(pub(crate) L);

impl<L: Lanes> Step for Fused<L> {
    type L = L;
    const DEPTH: usize = 1;

    #[inline(always)]
    fn lanes(self) -> L {
        self.0
    }
    #[inline(always)]
    fn step(self, sum: L::F, left: L::F, right: L::F) -> L::F {
        self.0.fma(left, right, sum)
    }
}

/// Two bfloat16 a word, k in the high half: the BF16 dot product is two sequential fused steps, high half first. It
/// flushes subnormals, so callers prove first that none can arise.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Bf16Dot(pub(crate) Avx512Bf16);

#[cfg(target_arch = "x86_64")]
impl Step for Bf16Dot {
    type L = Avx512;
    const DEPTH: usize = 2;

    #[inline(always)]
    fn lanes(self) -> Self::L {
        self.0.lanes()
    }
    #[inline(always)]
    fn step(self, sum: F<Self>, left: F<Self>, right: F<Self>) -> F<Self> {
        self.0.dot(sum, left, right)
    }
}

/// What a block of packed operands is to do to its accumulators.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// k in the block.
    pub(crate) k: usize,
    /// k of a chain; the block's last one may be shorter.
    pub(crate) tile: usize,
    /// Whether the first chain joins what is there rather than starting the accumulator.
    pub(crate) accumulate: bool,
    /// Whether this is the last block, which leaves NaN canonical.
    pub(crate) last: bool,
}

/// A register tile at work on accumulators. No closure: those do not have a kernel's target features.
pub(crate) trait Tile: Copy {
    /// # Safety
    /// `out` must point to a whole tile of accumulators, rows `row_stride` apart.
    unsafe fn run(self, out: *mut f32, row_stride: usize);
}

/// Runs a tile of `ROWS` x `16 * VECTORS` accumulators on its part of them. Those of a tile that hangs over the edge are
/// worked in a buffer of full size, where the padding may do as it likes.
#[inline(always)]
pub(crate) fn on_part<const ROWS: usize, const VECTORS: usize>(
    tile: impl Tile,
    accumulate: bool,
    mut part: Accumulators<'_>,
) {
    if part.rows == ROWS && part.columns == VECTORS * LANES {
        // SAFETY: all of these accumulators are valid.
        unsafe { tile.run(part.first, part.row_stride) };
        return;
    }
    let mut buffer = [[[0.0f32; LANES]; VECTORS]; ROWS];
    if accumulate {
        part.for_each_row(|row, values| buffer[row].as_flattened_mut()[..values.len()].copy_from_slice(values));
    }
    let first = buffer.as_flattened_mut().as_flattened_mut().as_mut_ptr();
    // SAFETY: the buffer is a whole tile.
    unsafe { tile.run(first, VECTORS * LANES) };
    part.for_each_row(|row, values| values.copy_from_slice(&buffer[row].as_flattened()[..values.len()]));
}

/// Multiplies the panels of `left` and `right` into `out`.
#[inline(always)]
fn multiply<S: Step, const ROWS: usize, const VECTORS: usize>(
    s: S,
    block: &Block,
    left: &[u32],
    right: &[u32],
    out: &Accumulators<'_>,
) {
    let columns = VECTORS * LANES;
    let words = block.k.div_ceil(S::DEPTH);
    assert!(block.k <= block.tile || block.tile.is_multiple_of(S::DEPTH), "chains of whole words");
    for (j, right) in right.chunks_exact(words * columns).enumerate() {
        for (i, left) in left.chunks_exact(words * ROWS).enumerate() {
            // SAFETY: the register tiles of one call do not overlap and run one after the other.
            let Some(part) = (unsafe { out.tile(i * ROWS, j * columns, ROWS, columns) }) else { continue };
            let panels = Panels { left, right, words };
            match part.columns.div_ceil(LANES) {
                // What hangs over the edge by whole vectors is left out.
                1 if VECTORS > 1 => ChainTile::<S, ROWS, VECTORS, 1> { s, block, panels }.on(part),
                2 if VECTORS > 2 => ChainTile::<S, ROWS, VECTORS, 2> { s, block, panels }.on(part),
                _ => ChainTile::<S, ROWS, VECTORS, VECTORS> { s, block, panels }.on(part),
            }
        }
    }
}

/// The packed operands of a register tile.
#[derive(Clone, Copy)]
struct Panels<'a> {
    left: &'a [u32],
    right: &'a [u32],
    /// Steps of either.
    words: usize,
}

/// The first `VECTORS` of the `WIDTH` vectors of a tile.
#[derive(Clone, Copy)]
struct ChainTile<'a, S, const ROWS: usize, const WIDTH: usize, const VECTORS: usize> {
    s: S,
    block: &'a Block,
    panels: Panels<'a>,
}

impl<S: Step, const ROWS: usize, const WIDTH: usize, const VECTORS: usize> ChainTile<'_, S, ROWS, WIDTH, VECTORS> {
    #[inline(always)]
    fn on(self, part: Accumulators<'_>) {
        on_part::<ROWS, VECTORS>(self, self.block.accumulate, part);
    }
}

impl<S: Step, const ROWS: usize, const WIDTH: usize, const VECTORS: usize> Tile
    for ChainTile<'_, S, ROWS, WIDTH, VECTORS>
{
    #[inline(always)]
    unsafe fn run(self, out: *mut f32, row_stride: usize) {
        // SAFETY: by the caller's promise.
        unsafe { tile::<S, ROWS, WIDTH, VECTORS>(self.s, self.block, self.panels, out, row_stride) };
    }
}

/// [`multiply`] by fused multiply-adds.
#[inline(always)]
pub(crate) fn fused<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    l: L,
    block: &Block,
    left: &[u32],
    right: &[u32],
    out: &Accumulators<'_>,
) {
    multiply::<_, ROWS, VECTORS>(Fused(l), block, left, right, out);
}

/// [`multiply`] by BF16 dot products.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn dot<const ROWS: usize, const VECTORS: usize>(
    token: Avx512Bf16,
    block: &Block,
    left: &[u32],
    right: &[u32],
    out: &Accumulators<'_>,
) {
    multiply::<_, ROWS, VECTORS>(Bf16Dot(token), block, left, right, out);
}

/// Steps that the right panel is asked for ahead. It is wider than L1 keeps beside the rest, so every left panel finds it in
/// L2 again.
const RIGHT_AHEAD: usize = 16;

/// # Safety
/// `out` must point to `ROWS` rows of `16 * VECTORS` floats, `row_stride` apart.
#[inline(always)]
unsafe fn tile<S: Step, const ROWS: usize, const WIDTH: usize, const VECTORS: usize>(
    s: S,
    block: &Block,
    panels: Panels<'_>,
    out: *mut f32,
    row_stride: usize,
) {
    let l = s.lanes();
    assert!(panels.left.len() >= panels.words * ROWS && panels.right.len() >= panels.words * WIDTH * LANES);
    let (mut left, mut right) = (panels.left.as_ptr(), panels.right.as_ptr());
    // SAFETY: inside the output tile, by the caller's promise and the bounds of the loops below.
    let slot = |row: usize, vector: usize| unsafe { out.add(row * row_stride + vector * LANES) };
    let mut accumulate = block.accumulate;
    let mut rest = block.k;
    while rest > 0 {
        let length = rest.min(block.tile);
        rest -= length;
        let canonical = block.last && rest == 0;
        let mut sums = [[l.splat_f(0.0); VECTORS]; ROWS];
        let mut steps = length.div_ceil(S::DEPTH);
        let share = steps.div_ceil(ROWS);
        for row in 0..ROWS {
            // The accumulators are asked for row by row: all at once, they fill the buffers that the panels' lines need.
            for vector in 0..VECTORS {
                prefetch(slot(row, vector), 0);
            }
            let now = share.min(steps);
            steps -= now;
            for _ in 0..now {
                let mut columns = [l.splat_f(0.0); VECTORS];
                for vector in 0..VECTORS {
                    let words = right.wrapping_add(vector * LANES);
                    prefetch(words, RIGHT_AHEAD * WIDTH * LANES * 4);
                    // SAFETY: inside the right panel: the steps of all chains are its words.
                    columns[vector] = l.load_f(unsafe { &*words.cast::<[f32; LANES]>() });
                }
                // The next left panel comes from beyond L2.
                prefetch(left, panels.words * ROWS * 4);
                for row in 0..ROWS {
                    // SAFETY: inside the left panel, as above.
                    let value = l.splat_f(unsafe { *left.add(row).cast::<f32>() });
                    for vector in 0..VECTORS {
                        sums[row][vector] = s.step(sums[row][vector], value, columns[vector]);
                    }
                }
                // SAFETY: at most one past the end of each panel.
                unsafe {
                    left = left.add(ROWS);
                    right = right.add(WIDTH * LANES);
                }
            }
        }
        // SAFETY: inside the output tile.
        unsafe { join(l, &sums, slot, accumulate, canonical) };
        accumulate = true;
    }
}

/// Lets chains join their accumulators, or start them; NaN as the canonical one if asked for.
///
/// # Safety
/// `slot(row, vector)` must point to sixteen accumulators.
#[inline(always)]
pub(crate) unsafe fn join<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    l: L,
    sums: &[[L::F; VECTORS]; ROWS],
    slot: impl Fn(usize, usize) -> *mut f32,
    accumulate: bool,
    canonical: bool,
) {
    for row in 0..ROWS {
        for vector in 0..VECTORS {
            let sum = sums[row][vector];
            // SAFETY: by the caller's promise.
            let slot = unsafe { &mut *slot(row, vector).cast::<[f32; LANES]>() };
            let mut value = if accumulate { l.add_f(l.load_f(slot), sum) } else { sum };
            if canonical {
                let magnitude = l.and(l.bits(value), l.splat_i(0x7fff_ffff));
                let is_nan = l.lt_u(l.splat_i(0x7f80_0000), magnitude);
                value = l.float(l.select(is_nan, l.splat_i(0x7fc0_0000), l.bits(value)));
            }
            l.store_f(value, slot);
        }
    }
}
