//! Tensors at addresses that overlap: reads of bytes that another one of them has overwritten.
//!
//! Sharing bytes is legal, and kernels that place tensors themselves rely on it. What none of them means is to read what
//! it wrote to one tensor after another has taken the bytes. Only tensors with addresses of their own are followed, and
//! only writes of whole runs, so that nothing is reported that did not happen **(choice)**.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Weak};

use super::resolve::Resolved;
use super::{Finding, Memory, lines};
use crate::site::SiteId;
use crate::storage::{Placement, Storage};

/// Partitions, and bytes of each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rectangle {
    rows: Range<usize>,
    bytes: Range<usize>,
}

fn meet(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    one.start.max(other.start)..one.end.min(other.end)
}

impl Rectangle {
    fn of(place: &Placement) -> Self {
        Self { rows: place.partition..place.partition + place.partitions, bytes: place.byte..place.byte + place.bytes }
    }

    /// The rectangle of an operand whose rows are one run each and follow one another.
    fn of_operand(place: &Resolved) -> Option<Self> {
        let (first, count, stride, bytes) = place.runs()?;
        let (partition, byte) = place.position(first);
        let follows = count <= 1 || stride == place.pitch as isize;
        (follows && place.pitch > 0).then(|| Self { rows: partition..partition + count, bytes: byte..byte + bytes })
    }

    fn meet(&self, other: &Rectangle) -> Option<Rectangle> {
        let both = Rectangle { rows: meet(&self.rows, &other.rows), bytes: meet(&self.bytes, &other.bytes) };
        (!both.rows.is_empty() && !both.bytes.is_empty()).then_some(both)
    }

    /// What is left without another one: at most four pieces.
    fn without(&self, other: &Rectangle) -> Vec<Rectangle> {
        let Some(gone) = self.meet(other) else { return vec![self.clone()] };
        let piece = |rows: Range<usize>, bytes: Range<usize>| Rectangle { rows, bytes };
        let mut left = vec![
            piece(self.rows.start..gone.rows.start, self.bytes.clone()),
            piece(gone.rows.end..self.rows.end, self.bytes.clone()),
            piece(gone.rows.clone(), self.bytes.start..gone.bytes.start),
            piece(gone.rows.clone(), gone.bytes.end..self.bytes.end),
        ];
        left.retain(|piece| !piece.rows.is_empty() && !piece.bytes.is_empty());
        left
    }
}

/// Bytes that a tensor no longer has to itself.
#[derive(Debug)]
struct Lost {
    place: Rectangle,
    other: String,
    line: SiteId,
}

/// What is known of tensors with addresses.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    /// Who else has bytes of a tensor, by number.
    others: HashMap<u64, Vec<Weak<Storage>>>,
    /// Those that something was written to.
    written: HashSet<u64>,
    lost: HashMap<u64, Vec<Lost>>,
}

impl Reuse {
    /// A tensor was placed over live ones.
    pub(super) fn overlap(&mut self, storage: &Arc<Storage>, live: &[Arc<Storage>]) {
        let Some(place) = storage.place.as_ref().map(Rectangle::of) else { return };
        for other in live.iter().filter(|other| other.id != storage.id && other.addressed) {
            if other.place.as_ref().is_some_and(|of| place.meet(&Rectangle::of(of)).is_some()) {
                self.others.entry(storage.id).or_default().push(Arc::downgrade(other));
                self.others.entry(other.id).or_default().push(Arc::downgrade(storage));
            }
        }
        if self.others.len() > 1024 {
            self.others.values_mut().for_each(|others| others.retain(|other| other.strong_count() > 0));
            self.others.retain(|_, others| !others.is_empty());
            let (others, written) = (&self.others, &mut self.written);
            self.lost.retain(|id, _| others.contains_key(id));
            written.retain(|id| others.contains_key(id));
        }
    }

    /// Something was written to a tensor with an address.
    pub(super) fn write(&mut self, storage: &Storage, place: &Resolved, site: SiteId) {
        self.written.insert(storage.id);
        let Some(others) = self.others.get(&storage.id) else { return };
        let Some(area) = Rectangle::of_operand(place) else { return };
        if let Some(lost) = self.lost.get_mut(&storage.id) {
            let pieces = std::mem::take(lost);
            for Lost { place, other, line } in pieces {
                lost.extend(place.without(&area).into_iter().map(|place| Lost { place, other: other.clone(), line }));
            }
        }
        for other in others.iter().filter_map(Weak::upgrade).filter(|other| self.written.contains(&other.id)) {
            let whole = other.place.as_ref().map(Rectangle::of);
            if let Some(place) = whole.and_then(|whole| whole.meet(&area)) {
                let lost = self.lost.entry(other.id).or_default();
                lost.retain(|known| !known.place.without(&place).is_empty());
                lost.push(Lost { place, other: storage.name.clone(), line: site });
            }
        }
    }

    /// Parts of a tensor with an address were written.
    pub(super) fn touch(&mut self, storage: &Storage) {
        self.written.insert(storage.id);
    }

    /// Who has overwritten some of the bytes read.
    fn taken(&self, storage: &Storage, place: &Resolved) -> Option<(String, SiteId)> {
        let lost = self.lost.get(&storage.id).filter(|lost| !lost.is_empty())?;
        let mut found = None;
        lines::each_run(place, |_, range| {
            let (partition, byte) = place.position(range.start);
            let area = Rectangle { rows: partition..partition + 1, bytes: byte..byte + range.len() };
            if found.is_none() {
                found = lost.iter().find(|lost| lost.place.meet(&area).is_some());
            }
        });
        found.map(|lost| (lost.other.clone(), lost.line))
    }
}

impl Memory {
    /// Notes a read of bytes that another tensor at the same address has overwritten.
    pub(super) fn check_reuse(&mut self, place: &Resolved, storage: &Storage, reader: SiteId) {
        if !storage.addressed {
            return;
        }
        if let Some((other, other_line)) = self.reuse.taken(storage, place) {
            let (tensor, allocated) = (storage.name.clone(), storage.site);
            self.note(storage, Finding::UseAfterReuse { tensor, reader, allocated, other, other_line });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rectangle() -> impl Strategy<Value = Rectangle> {
        (0usize..6, 1usize..6, 0usize..6, 1usize..6)
            .prop_map(|(row, rows, byte, bytes)| Rectangle { rows: row..row + rows, bytes: byte..byte + bytes })
    }

    fn has(rectangle: &Rectangle, row: usize, byte: usize) -> bool {
        rectangle.rows.contains(&row) && rectangle.bytes.contains(&byte)
    }

    proptest! {
        #[test]
        fn test_without_leaves_each_other_point_once(one in rectangle(), other in rectangle()) {
            let left = one.without(&other);
            for row in 0..12 {
                for byte in 0..12 {
                    let count = left.iter().filter(|piece| has(piece, row, byte)).count();
                    prop_assert_eq!(count, usize::from(has(&one, row, byte) && !has(&other, row, byte)));
                }
            }
        }
    }
}
