//! Lists of nonzeros: for each column and tile the stored values in ascending k, as the kernels walk them.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use crate::error::Result;
use crate::matmul::TILE;
use crate::par;
use crate::simd::LANES;

/// Rows of a panel that lists are made for: with the 128 k of a tile it takes 32 KiB of L1.
pub(super) const PANEL_ROWS: usize = 4 * LANES;
/// Columns whose lists are built together.
pub(crate) const COLUMNS: usize = 64;

/// One step of a list.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Entry {
    /// Where the panel's vectors for the step's k begin, in bytes.
    pub(super) offset: u32,
    /// The stored value.
    pub(super) value: f32,
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
}

impl Lists {
    /// Makes the lists of `k` k, cut into tiles, and `columns` columns: `fill(tile, columns, block)` pushes the stored
    /// values of a block of columns. Each list has at most `capacity` stored values, zeros included.
    pub(crate) fn build(
        &mut self,
        k: usize,
        columns: usize,
        capacity: usize,
        fill: impl Fn(usize, Range<usize>, &mut Filler<'_>) + Sync,
    ) -> Result<()> {
        self.k = k;
        self.columns = columns.next_multiple_of(COLUMNS);
        self.capacity = capacity;
        let lists = k.div_ceil(TILE) * self.columns;
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
            let mut filler = Filler { entries, counts, capacity, k: TILE.min(k - tile * TILE) as u32 };
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
            k: TILE.min(self.k - tile * TILE),
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
            let mut length = 0;
            for (at, value) in stored {
                // Written in any case, counted if it is to stay: no branch to guess.
                // The offset of a k that no panel has wraps; no counted entry has it.
                list[length] = Entry { offset: at.wrapping_mul((PANEL_ROWS * size_of::<f32>()) as u32), value };
                length += usize::from(at < self.k && value != 0.0);
            }
            *count = length as u8;
        }
    }
}

/// Some columns' lists in one tile. Offsets of counted entries lie within a panel of the tile.
pub(crate) struct TileLists<'a> {
    pub(super) entries: &'a [Entry],
    pub(super) counts: &'a [u8],
    pub(super) capacity: usize,
    /// k of the tile.
    pub(super) k: usize,
}
