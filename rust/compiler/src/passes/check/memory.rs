//! What the bytes of a memory hold, symbolically.

use std::collections::BTreeMap;
use std::num::Wrapping;

use trn3_machine::timing::region::Rect;
use trn3_machine::trace::NONE;

/// What a byte holds: the byte of a value that is so many rows and bytes further than the byte itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) value: u64,
    pub(super) row: i64,
    pub(super) byte: i64,
    /// The tensor that it is a product in, by its number: only to such a one, and there, products are added.
    pub(super) product: u32,
}

impl Content {
    /// Of bytes that nobody wrote.
    pub(super) const NOTHING: Content = Content { value: 0, row: 0, byte: 0, product: NONE };

    /// A value by its number; a product in a tensor.
    pub(super) fn new(value: u64, product: u32) -> Self {
        Self { value: value | 1, product, ..Self::NOTHING }
    }

    /// What a step makes of bytes that nobody wrote: nothing, though it may be a product.
    pub(super) fn of_nothing(self) -> Self {
        Self { product: self.product, ..Self::NOTHING }
    }

    /// Whether it may be anything.
    pub(super) fn is_nothing(self) -> bool {
        self.value == Self::NOTHING.value
    }

    /// The same value, begun at a row and byte.
    pub(super) fn seen_from(self, row: u64, byte: u64) -> Self {
        Self { row: self.row - row as i64, byte: self.byte - byte as i64, ..self }
    }

    fn number(self) -> u64 {
        mixed(self.value ^ mixed(self.row as u64) ^ mixed(self.byte as u64).rotate_left(17)) | 1
    }
}

/// A number that looks like no other's.
pub(super) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A number of a rectangle that is the sum of those of its parts, however it is cut.
fn measure(rect: &Rect, row: u64, byte: u64) -> u64 {
    let span = |from: u64, to: u64, salt: u64| mixed(to ^ salt).wrapping_sub(mixed(from ^ salt));
    span(rect.rows.start - row, rect.rows.end - row, 0).wrapping_mul(span(
        rect.columns.start - byte,
        rect.columns.end - byte,
        1 << 63,
    ))
}

/// Columns up to `end`, with what disjoint rows of them hold, in order.
#[derive(Clone, Debug)]
struct Slab {
    end: u64,
    rows: Vec<(u64, u64, Content)>,
}

impl Slab {
    /// The first rows that end below one.
    fn first(&self, row: u64) -> usize {
        self.rows.partition_point(|held| held.1 <= row)
    }
}

/// A memory.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    initial: Option<u64>,
    slabs: BTreeMap<u64, Slab>,
}

impl Memory {
    /// One that holds a value, or nothing.
    pub(super) fn new(initial: Option<u64>) -> Self {
        Self { initial, slabs: BTreeMap::new() }
    }

    fn cut(&mut self, column: u64) {
        if let Some((&start, slab)) = self.slabs.range_mut(..column).next_back()
            && start < column
            && slab.end > column
        {
            let right = slab.clone();
            slab.end = column;
            self.slabs.insert(column, right);
        }
    }

    /// Makes a rectangle hold something.
    pub(super) fn write(&mut self, rect: &Rect, content: Content) {
        if rect.rows.is_empty() || rect.columns.is_empty() {
            return;
        }
        self.cut(rect.columns.start);
        self.cut(rect.columns.end);
        let (top, bottom) = (rect.rows.start, rect.rows.end);
        let mut column = rect.columns.start;
        let mut gaps = Vec::new();
        for (&start, slab) in self.slabs.range_mut(rect.columns.clone()) {
            if start > column {
                gaps.push((column, start));
            }
            column = slab.end;
            let first = slab.first(top);
            let last = first + slab.rows[first..].partition_point(|row| row.0 < bottom);
            let above = slab.rows[first..last].first().filter(|row| row.0 < top).map(|row| (row.0, top, row.2));
            let below = slab.rows[first..last].last().filter(|row| row.1 > bottom).map(|row| (bottom, row.1, row.2));
            let rows = [above, Some((top, bottom, content)), below].into_iter().flatten();
            slab.rows.splice(first..last, rows);
        }
        if column < rect.columns.end {
            gaps.push((column, rect.columns.end));
        }
        for (start, end) in gaps {
            self.slabs.insert(start, Slab { end, rows: vec![(top, bottom, content)] });
        }
    }

    /// What the parts of a rectangle hold.
    pub(super) fn pieces(&self, rect: &Rect) -> Vec<(Rect, Content)> {
        let initial = self.initial.map_or(Content::NOTHING, |value| Content::new(value, NONE));
        let mut pieces = Vec::new();
        let mut fill = |rows: std::ops::Range<u64>, columns: std::ops::Range<u64>| {
            if !rows.is_empty() && !columns.is_empty() {
                pieces.push((Rect { rows, columns }, initial));
            }
        };
        let mut held = Vec::new();
        let first = self.slabs.range(..=rect.columns.start).next_back().map_or(rect.columns.start, |(&start, _)| start);
        let mut column = rect.columns.start;
        for (&start, slab) in self.slabs.range(first..rect.columns.end) {
            let columns = start.max(rect.columns.start)..slab.end.min(rect.columns.end);
            if columns.is_empty() {
                continue;
            }
            fill(rect.rows.clone(), column..columns.start);
            column = columns.end;
            let mut row = rect.rows.start;
            let within = slab.rows[slab.first(row)..].iter().take_while(|held| held.0 < rect.rows.end);
            for &(from, to, content) in within {
                let rows = from.max(rect.rows.start)..to.min(rect.rows.end);
                if !rows.is_empty() {
                    fill(row..rows.start, columns.clone());
                    row = rows.end;
                    held.push((Rect { rows, columns: columns.clone() }, content));
                }
            }
            fill(row..rect.rows.end, columns);
        }
        fill(rect.rows.clone(), column..rect.columns.end);
        pieces.extend(held);
        pieces
    }

    /// A number of what some rectangles hold, counted from their first row and byte; None where some hold nothing.
    pub(super) fn signature(&self, rects: &[Rect]) -> Option<u64> {
        self.number(rects, |_| true)
    }

    /// A number of a tensor's products in some rectangles, as for [`Memory::signature`]; 0 where there is none, None where
    /// one may be anything.
    pub(super) fn products(&self, rects: &[Rect], tensor: u32) -> Option<u64> {
        self.number(rects, |content| content.product == tensor)
    }

    fn number(&self, rects: &[Rect], counts: impl Fn(&Content) -> bool) -> Option<u64> {
        let (row, byte) = super::corner(rects);
        let pieces = rects.iter().flat_map(|rect| self.pieces(rect)).filter(|(_, content)| counts(content));
        let numbers = pieces.map(|(rect, content)| {
            // How far the value is ahead of where it is looked at.
            let ahead = Content { row: content.row + row as i64, byte: content.byte + byte as i64, ..content };
            (!content.is_nothing()).then(|| Wrapping(ahead.number().wrapping_mul(measure(&rect, row, byte))))
        });
        numbers.sum::<Option<Wrapping<u64>>>().map(|sum| sum.0)
    }

    /// Whether another one holds what this one does, wherever that is somebody's.
    pub(super) fn is_kept_in(&self, other: &Memory) -> bool {
        self.slabs.iter().all(|(&start, slab)| {
            slab.rows.iter().filter(|row| !row.2.is_nothing()).all(|&(from, to, content)| {
                let pieces = other.pieces(&Rect { rows: from..to, columns: start..slab.end });
                pieces.into_iter().all(|(_, held)| held == content)
            })
        })
    }
}
