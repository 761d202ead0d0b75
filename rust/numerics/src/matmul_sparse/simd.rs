//! Chains that skip zeros: for each column a list of its nonzeros in ascending k, walked across rows of the left operand.
//!
//! Vectors run down the rows of `a`, so that every column may have its nonzeros where it likes: a step is one broadcast
//! value times vectors of a packed panel ([`crate::matmul::simd::pack`]) that stays in L1.
#![allow(unsafe_code)]

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use crate::error::Result;
use crate::matmul::simd::chain::{Accumulators, Fused, Step};
use crate::par;
use crate::simd::lanes::{LANES, Lanes};

/// Columns whose lists are built together.
pub(crate) const COLUMNS: usize = 64;

/// One step of a list.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    /// Where the panel's vectors for the step's k begin, in bytes.
    offset: u32,
    /// The stored value; with two k a word, the earlier one in the high half.
    word: u32,
}

/// The nonzeros of some columns, tile by tile.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// [tile, column, step]; entries beyond a list's count are unspecified.
    entries: Vec<Entry>,
    /// [tile, column].
    counts: Vec<u8>,
    /// Columns, rounded up to whole blocks.
    columns: usize,
    /// Entries there is room for in a list.
    capacity: usize,
    /// k of all tiles.
    k: usize,
    form: Form,
}

/// The panels that lists are made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// Consecutive k in a packed word.
    pub(crate) depth: usize,
    /// Rows of a panel.
    pub(crate) width: usize,
    /// k of a tile.
    pub(crate) tile: usize,
}

impl Form {
    /// Wraps for words that no panel has, which no counted entry names.
    fn offset(self, word: u32) -> u32 {
        word.wrapping_mul((self.width * 4) as u32)
    }
}

impl Lists {
    /// Makes the lists of `k` k, cut into tiles, and `columns` columns: `fill(tile, columns, block)` pushes the stored
    /// values of a block of columns. Each list has at most `capacity` stored values, zeros included.
    pub(crate) fn build(
        &mut self,
        form: Form,
        k: usize,
        columns: usize,
        capacity: usize,
        fill: impl Fn(usize, Range<usize>, &mut Filler<'_>) + Sync,
    ) -> Result<()> {
        self.form = form;
        self.k = k;
        self.columns = columns.next_multiple_of(COLUMNS);
        self.capacity = capacity;
        let lists = k.div_ceil(form.tile) * self.columns;
        if self.counts.len() < lists {
            self.counts.resize(lists, 0);
        }
        if self.entries.len() < lists * capacity {
            self.entries.resize(lists * capacity, Entry::default());
        }
        let blocks = self.columns / COLUMNS;
        let entries = self.entries[..lists * capacity].chunks_mut(COLUMNS * capacity);
        let counts = self.counts[..lists].chunks_mut(COLUMNS);
        par::for_each(entries.zip(counts).enumerate(), |(index, (entries, counts))| {
            counts.fill(0);
            let (tile, first) = (index / blocks, index % blocks * COLUMNS);
            let mut filler = Filler { entries, counts, capacity, k: form.tile.min(k - tile * form.tile) as u32, form };
            fill(tile, first..columns.min(first + COLUMNS), &mut filler);
        })
    }

    /// The lists of some columns in one tile.
    pub(crate) fn tile(&self, tile: usize, columns: Range<usize>) -> TileLists<'_> {
        let lists = tile * self.columns + columns.start..tile * self.columns + columns.end;
        TileLists {
            entries: &self.entries[lists.start * self.capacity..lists.end * self.capacity],
            counts: &self.counts[lists],
            capacity: self.capacity,
            k: self.form.tile.min(self.k - tile * self.form.tile),
            form: self.form,
        }
    }
}

/// The lists of up to [`COLUMNS`] columns while they are made.
pub(crate) struct Filler<'a> {
    entries: &'a mut [Entry],
    counts: &'a mut [u8],
    capacity: usize,
    /// k of the tile.
    k: u32,
    form: Form,
}

/// Stored values of a block of columns on their way into lists: slots in ascending k, each a row of columns.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// k in the tile of each slot's group; below the tile it wraps.
    bases: Vec<u32>,
    indices: Vec<[u8; COLUMNS]>,
    values: Vec<[f32; COLUMNS]>,
}

impl Slots {
    /// Appends a slot of a group that begins at k `base` of the tile; returns the room for its values.
    pub(crate) fn push(&mut self, base: u32, indices: &[u8]) -> &mut [f32] {
        let mut row = [0; COLUMNS];
        row[..indices.len()].copy_from_slice(indices);
        self.bases.push(base);
        self.indices.push(row);
        self.values.push([0.0; COLUMNS]);
        let last = self.values.len() - 1;
        &mut self.values[last][..indices.len()]
    }
}

impl Filler<'_> {
    /// Makes the lists: of each column the nonzeros that lie in the tile, in the order of the slots. There are at most as
    /// many slots as there is room for.
    pub(crate) fn fill(&mut self, slots: &Slots) {
        let lists = self.entries.chunks_exact_mut(self.capacity).zip(self.counts.iter_mut()).enumerate();
        for (column, (list, count)) in lists {
            let stored = slots.bases.iter().zip(&slots.indices).zip(&slots.values);
            let stored =
                stored.map(|((base, indices), values)| (base.wrapping_add(indices[column].into()), values[column]));
            *count = if self.form.depth == 1 {
                single_words(self.form, self.k, stored, list)
            } else {
                paired_words(self.form, self.k, stored, list)
            };
        }
    }
}

fn single_words(form: Form, k: u32, stored: impl Iterator<Item = (u32, f32)>, list: &mut [Entry]) -> u8 {
    let mut count = 0;
    for (at, value) in stored {
        // Written in any case, counted if it is to stay: no branch to guess.
        list[count] = Entry { offset: form.offset(at), word: value.to_bits() };
        count += usize::from(at < k && value != 0.0);
    }
    count as u8
}

fn paired_words(form: Form, k: u32, stored: impl Iterator<Item = (u32, f32)>, list: &mut [Entry]) -> u8 {
    let mut count = 0;
    for (at, value) in stored.filter(|&(at, value)| at < k && value != 0.0) {
        // The value is a bfloat16: all it has is in the upper half.
        let entry = Entry { offset: form.offset(at / 2), word: value.to_bits() >> (at % 2 * 16) };
        match list[..count].last_mut() {
            Some(last) if last.offset == entry.offset => last.word |= entry.word,
            _ => {
                list[count] = entry;
                count += 1;
            }
        }
    }
    count as u8
}

/// Some columns' lists in one tile. Offsets of counted entries lie within a panel of the tile.
pub(crate) struct TileLists<'a> {
    entries: &'a [Entry],
    counts: &'a [u8],
    capacity: usize,
    /// k of the tile.
    k: usize,
    form: Form,
}

/// Rows of a panel and the kernel for it.
pub(crate) struct ListChain {
    /// Rows of a panel.
    pub(crate) width: usize,
    /// See [`multiply`].
    pub(crate) multiply: fn(&TileLists<'_>, &[u32], usize, bool, &mut [f32]),
}

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
    token: crate::simd::avx512::Avx512Bf16,
    lists: &TileLists<'_>,
    panel: &[u32],
    rows: usize,
    first: bool,
    sums: &mut [f32],
) {
    multiply::<_, DOT_VECTORS, AT_ONCE>(crate::matmul::simd::chain::Bf16Dot(token), lists, panel, rows, first, sums);
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

/// Gives `work` the rectangle `[row, column, rows, columns]` of `out`.
///
/// Rectangles in use at the same time must not overlap.
pub(crate) fn with_rectangle(
    out: &Accumulators<'_>,
    [row, column, rows, columns]: [usize; 4],
    work: impl FnOnce(&mut Accumulators<'_>),
) {
    // SAFETY: rectangles in use are disjoint, by the caller's promise.
    work(&mut unsafe { out.part(row, column, rows, columns) });
}
