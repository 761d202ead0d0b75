//! Chains that skip zeros: for each column a list of its nonzeros in ascending k, walked across rows of the left operand.
//!
//! Vectors run down the rows of `a`, so that every column may have its nonzeros where it likes: a step is one broadcast
//! value times vectors of a packed panel that stays in L1.
#![allow(unsafe_code)]

use crate::matmul_sparse::lists::{Entry, PANEL_ROWS, TileLists};
use crate::simd::{LANES, Lanes};

/// Vectors of a panel's rows.
const PANEL_VECTORS: usize = PANEL_ROWS / LANES;

/// Runs one tile's chain of every column on the tile's panel, of which `rows` rows matter, and lets the results join `sums`
/// ([column, row]), or start them if they are the `first`. `AT_ONCE` columns are worked together.
#[inline(always)]
pub(crate) fn multiply<L: Lanes, const AT_ONCE: usize>(
    l: L,
    lists: &TileLists<'_>,
    panel: &[f32],
    rows: usize,
    first: bool,
    sums: &mut [f32],
) {
    assert!(panel.len() >= lists.k * PANEL_ROWS, "a panel of the lists' tile");
    let columns = lists.counts.len();
    assert!(sums.len() >= columns * PANEL_ROWS && lists.entries.len() >= columns * lists.capacity);
    match rows.div_ceil(LANES) {
        0 => {}
        // SAFETY: the sums and the panel have the sizes just checked.
        1 => unsafe { columns_of::<L, 1, AT_ONCE>(l, lists, panel, first, sums) },
        // SAFETY: as above.
        2 => unsafe { columns_of::<L, 2, AT_ONCE>(l, lists, panel, first, sums) },
        // SAFETY: as above.
        _ => unsafe { columns_of::<L, PANEL_VECTORS, AT_ONCE>(l, lists, panel, first, sums) },
    }
}

/// # Safety
/// The panel holds a whole tile; `sums` and the lists' entries all of their columns.
#[inline(always)]
unsafe fn columns_of<L: Lanes, const VECTORS: usize, const AT_ONCE: usize>(
    l: L,
    lists: &TileLists<'_>,
    panel: &[f32],
    first: bool,
    sums: &mut [f32],
) {
    let whole = lists.counts.len() / AT_ONCE * AT_ONCE;
    for column in (0..whole).step_by(AT_ONCE) {
        // SAFETY: columns of the lists, by the loop's bounds; the rest is the caller's promise.
        unsafe { chains::<L, VECTORS, AT_ONCE>(l, lists, panel, first, column, sums) };
    }
    for column in whole..lists.counts.len() {
        // SAFETY: as above.
        unsafe { chains::<L, VECTORS, 1>(l, lists, panel, first, column, sums) };
    }
}

/// # Safety
/// As [`columns_of`], for `AT_ONCE` columns from `column` on.
#[inline(always)]
unsafe fn chains<L: Lanes, const VECTORS: usize, const AT_ONCE: usize>(
    l: L,
    lists: &TileLists<'_>,
    panel: &[f32],
    first: bool,
    column: usize,
    sums: &mut [f32],
) {
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
            unsafe { extend(l, panel, entries[at].add(step), &mut chains[at]) };
        }
    }
    for at in 0..AT_ONCE {
        for step in together..counts[at] {
            // SAFETY: as above.
            unsafe { extend(l, panel, entries[at].add(step), &mut chains[at]) };
        }
    }
    for (at, chains) in chains.iter().enumerate() {
        // SAFETY: `sums` holds all columns.
        let sums = unsafe { sums.as_mut_ptr().add((column + at) * PANEL_ROWS) };
        for (vector, chain) in chains.iter().enumerate() {
            // SAFETY: within the column's sums, as VECTORS is at most PANEL_VECTORS.
            let slot = unsafe { &mut *sums.add(vector * LANES).cast::<[f32; LANES]>() };
            l.store_f(if first { *chain } else { l.add_f(l.load_f(slot), *chain) }, slot);
        }
    }
}

/// # Safety
/// `entry` must be readable, and its offset lie within the panel.
#[inline(always)]
unsafe fn extend<L: Lanes, const VECTORS: usize>(
    l: L,
    panel: *const u8,
    entry: *const Entry,
    chains: &mut [L::F; VECTORS],
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let left = panel.add((*entry).offset as usize);
        let value = l.splat_f((*entry).value);
        for (vector, chain) in chains.iter_mut().enumerate() {
            *chain = l.fma(l.load_f(&*left.add(vector * LANES * 4).cast::<[f32; LANES]>()), value, *chain);
        }
    }
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
