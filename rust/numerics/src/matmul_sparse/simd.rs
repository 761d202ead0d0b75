//! Chains that skip zeros: for each column a list of its nonzeros in ascending k, walked across rows of the left operand.
//!
//! Vectors run down the rows of `a`, so that every column may have its nonzeros where it likes: a step is one broadcast
//! value times vectors of a packed panel that stays in L1.
#![allow(unsafe_code)]

use super::lists::{Entry, TileLists};
#[cfg(target_arch = "x86_64")]
use crate::matmul::Bf16Dot;
use crate::matmul::{Fused, Step};
#[cfg(target_arch = "x86_64")]
use crate::simd::Avx512Bf16;
use crate::simd::{LANES, Lanes};

/// Runs one tile's chain of every column on the tile's panel, of which `rows` rows matter, and lets the results join `sums`
/// ([column, row]), or start them if they are the `first`. A panel is `MAX` vectors wide; `AT_ONCE` columns are worked
/// together.
#[inline(always)]
fn multiply<S: Step, const MAX: usize, const AT_ONCE: usize>(
    s: S,
    lists: &TileLists<'_>,
    panel: &[u32],
    rows: usize,
    first: bool,
    sums: &mut [f32],
) {
    let form = lists.form;
    assert_eq!((form.depth, form.width), (S::DEPTH, MAX * LANES), "lists made for another kernel");
    assert!(panel.len() >= lists.k.div_ceil(form.depth) * form.width, "a panel of the lists' tile");
    let columns = lists.counts.len();
    assert!(sums.len() >= columns * form.width && lists.entries.len() >= columns * lists.capacity);
    match rows.div_ceil(LANES) {
        0 => {}
        // SAFETY: the sums and the panel have the sizes just checked.
        1 => unsafe { columns_of::<S, MAX, 1, AT_ONCE>(s, lists, panel, first, sums) },
        // SAFETY: as above.
        2 => unsafe { columns_of::<S, MAX, 2, AT_ONCE>(s, lists, panel, first, sums) },
        // SAFETY: as above.
        3 | 4 => unsafe { columns_of::<S, MAX, 4, AT_ONCE>(s, lists, panel, first, sums) },
        // SAFETY: as above.
        _ => unsafe { columns_of::<S, MAX, MAX, AT_ONCE>(s, lists, panel, first, sums) },
    }
}

/// # Safety
/// The panel holds a whole tile of the lists' form; `sums` and the lists' entries all of their columns.
#[inline(always)]
unsafe fn columns_of<S: Step, const MAX: usize, const VECTORS: usize, const AT_ONCE: usize>(
    s: S,
    lists: &TileLists<'_>,
    panel: &[u32],
    first: bool,
    sums: &mut [f32],
) {
    let whole = lists.counts.len() / AT_ONCE * AT_ONCE;
    for column in (0..whole).step_by(AT_ONCE) {
        // SAFETY: columns of the lists, by the loop's bounds; the rest is the caller's promise.
        unsafe { chains::<S, MAX, VECTORS, AT_ONCE>(s, lists, panel, first, column, sums) };
    }
    for column in whole..lists.counts.len() {
        // SAFETY: as above.
        unsafe { chains::<S, MAX, VECTORS, 1>(s, lists, panel, first, column, sums) };
    }
}

/// # Safety
/// As [`columns_of`], for `AT_ONCE` columns from `column` on.
#[inline(always)]
unsafe fn chains<S: Step, const MAX: usize, const VECTORS: usize, const AT_ONCE: usize>(
    s: S,
    lists: &TileLists<'_>,
    panel: &[u32],
    first: bool,
    column: usize,
    sums: &mut [f32],
) {
    let l = s.lanes();
    let panel = panel.as_ptr().cast::<u8>();
    let mut chains = [[l.splat_f(0.0); VECTORS]; AT_ONCE];
    let mut entries = [lists.entries.as_ptr(); AT_ONCE];
    let mut counts = [0; AT_ONCE];
    let mut together = usize::MAX;
    for at in 0..AT_ONCE {
        // SAFETY: the columns are the lists'.
        unsafe {
            entries[at] = entries[at].add((column + at) * lists.capacity);
            counts[at] = usize::from(*lists.counts.get_unchecked(column + at));
        }
        together = together.min(counts[at]);
    }
    for step in 0..together {
        for at in 0..AT_ONCE {
            // SAFETY: a counted entry; its offset lies within the panel.
            unsafe { extend(s, panel, entries[at].add(step), &mut chains[at]) };
        }
    }
    for at in 0..AT_ONCE {
        for step in together..counts[at] {
            // SAFETY: as above.
            unsafe { extend(s, panel, entries[at].add(step), &mut chains[at]) };
        }
    }
    for (at, chains) in chains.iter().enumerate() {
        // SAFETY: `sums` holds all columns.
        let sums = unsafe { sums.as_mut_ptr().add((column + at) * MAX * LANES) };
        for (vector, chain) in chains.iter().enumerate() {
            // SAFETY: within the column's sums, as VECTORS is at most MAX.
            let slot = unsafe { &mut *sums.add(vector * LANES).cast::<[f32; LANES]>() };
            l.store_f(if first { *chain } else { l.add_f(l.load_f(slot), *chain) }, slot);
        }
    }
}

/// # Safety
/// `entry` must be readable, and its offset lie within the panel.
#[inline(always)]
unsafe fn extend<S: Step, const VECTORS: usize>(
    s: S,
    panel: *const u8,
    entry: *const Entry,
    chains: &mut [<S::L as Lanes>::F; VECTORS],
) {
    let l = s.lanes();
    // SAFETY: by the caller's promise.
    unsafe {
        let left = panel.add((*entry).offset as usize);
        let value = l.splat_f(f32::from_bits((*entry).word));
        for (vector, chain) in chains.iter_mut().enumerate() {
            *chain = s.step(*chain, l.load_f(&*left.add(vector * LANES * 4).cast::<[f32; LANES]>()), value);
        }
    }
}

/// Rows of a panel of the fused kernels: with 128 k it takes 32 KiB of L1.
pub(crate) const FUSED_VECTORS: usize = 4;
/// Rows of a panel of the dot kernel, whose words hold two k: 32 KiB again.
#[cfg(target_arch = "x86_64")]
pub(crate) const DOT_VECTORS: usize = 8;

/// [`multiply`] by fused multiply-adds.
#[inline(always)]
pub(crate) fn fused<L: Lanes, const AT_ONCE: usize>(
    l: L,
    lists: &TileLists<'_>,
    panel: &[u32],
    rows: usize,
    first: bool,
    sums: &mut [f32],
) {
    multiply::<_, FUSED_VECTORS, AT_ONCE>(Fused(l), lists, panel, rows, first, sums);
}

/// [`multiply`] by BF16 dot products.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn dot<const AT_ONCE: usize>(
    token: Avx512Bf16,
    lists: &TileLists<'_>,
    panel: &[u32],
    rows: usize,
    first: bool,
    sums: &mut [f32],
) {
    multiply::<_, DOT_VECTORS, AT_ONCE>(Bf16Dot(token), lists, panel, rows, first, sums);
}

/// Writes the transpose of a matrix of `rows` rows (`from_stride` apart) and `columns` columns, both multiples of 16, to
/// rows `to_stride` apart; NaN as the canonical one if asked for.
#[inline(always)]
pub(crate) fn transpose<L: Lanes>(
    l: L,
    [rows, columns]: [usize; 2],
    from: &[f32],
    from_stride: usize,
    to: &mut [f32],
    to_stride: usize,
    canonical: bool,
) {
    for row in (0..rows).step_by(LANES) {
        for column in (0..columns).step_by(LANES) {
            let mut block = [l.splat_i(0); LANES];
            for (step, slot) in block.iter_mut().enumerate() {
                *slot = l.bits(l.load_f(&from[(row + step) * from_stride + column..].as_chunks().0[0]));
            }
            l.transpose(&mut block);
            for (step, bits) in block.iter().enumerate() {
                let mut bits = *bits;
                if canonical {
                    let is_nan = l.lt_u(l.splat_i(0x7f80_0000), l.and(bits, l.splat_i(0x7fff_ffff)));
                    bits = l.select(is_nan, l.splat_i(0x7fc0_0000), bits);
                }
                l.store_f(l.float(bits), &mut to[(column + step) * to_stride + row..].as_chunks_mut().0[0]);
            }
        }
    }
}

/// Packs sixteen rows of bfloat16 codes, a multiple of 32 each, as float32: value k of row i goes to
/// `panel[k * width + i]`.
#[inline(always)]
pub(crate) fn widen_rows<L: Lanes>(l: L, rows: &[&[u8]; LANES], width: usize, panel: &mut [f32]) {
    const WORD_BYTES: usize = 4 * LANES;
    for first in (0..rows[0].len()).step_by(WORD_BYTES) {
        let mut block = [l.splat_i(0); LANES];
        for (slot, row) in block.iter_mut().zip(rows) {
            *slot = l.load_words(&row[first..].as_chunks().0[0]);
        }
        l.transpose(&mut block);
        for (word, bits) in block.iter().enumerate() {
            let (even, odd) = (l.shl(*bits, 16), l.and(*bits, l.splat_i(0xffff_0000)));
            let at = (first / 2 + 2 * word) * width;
            l.store_f(l.float(even), &mut panel[at..].as_chunks_mut().0[0]);
            l.store_f(l.float(odd), &mut panel[at + width..].as_chunks_mut().0[0]);
        }
    }
}
