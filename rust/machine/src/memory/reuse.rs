//! Tensors at addresses that overlap: reads of bytes that another one of them has overwritten.
//!
//! Sharing bytes is legal, and kernels that place tensors themselves rely on it. What none of them means is to read what
//! it wrote to one tensor after another has taken the bytes. Only tensors with addresses of their own are followed, and
//! only writes of whole runs, so that nothing is reported that did not happen **(choice)**.
//!
//! Kept is who wrote which bytes last, and only of bytes where such tensors have met: what a write or a read costs does
//! not grow with the number of tensors that ever lay there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use super::resolve::Resolved;
use super::{Finding, Memory, lines};
use crate::site::SiteId;
use crate::storage::{Buffer, Placement, Storage};

/// Partitions, and bytes of each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rectangle {
    rows: Range<usize>,
    bytes: Range<usize>,
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
}

/// Partitions of some bytes, and who wrote them last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    rows: Range<usize>,
    tensor: u64,
    name: String,
    line: SiteId,
    when: u64,
}

/// Neighbouring bytes of a partition with one history.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    end: usize,
    /// By partitions, none of them twice.
    writers: Vec<Written>,
}

/// The bytes of one memory where tensors with addresses have met, by their first.
#[derive(Debug, Default)]
struct Shared {
    stretches: BTreeMap<usize, Stretch>,
}

impl Shared {
    /// Bytes that are followed from here on.
    fn follow(&mut self, bytes: &Range<usize>) {
        let mut next = bytes.start;
        if let Some((_, stretch)) = self.stretches.range(..bytes.start).next_back() {
            next = next.max(stretch.end);
        }
        let there: Vec<(usize, usize)> =
            self.stretches.range(bytes.clone()).map(|(start, stretch)| (*start, stretch.end)).collect();
        for (start, end) in there.into_iter().chain([(bytes.end, bytes.end)]) {
            if next < start.min(bytes.end) {
                self.stretches.insert(next, Stretch { end: start, writers: Vec::new() });
            }
            next = next.max(end);
        }
    }

    /// Lets a stretch begin at a byte, where one goes across it.
    fn split(&mut self, at: usize) {
        if let Some((_, stretch)) = self.stretches.range_mut(..at).next_back()
            && stretch.end > at
        {
            let tail = stretch.clone();
            stretch.end = at;
            self.stretches.insert(at, tail);
        }
    }

    fn write(&mut self, area: &Rectangle, written: &Written) {
        self.split(area.bytes.start);
        self.split(area.bytes.end);
        for (_, stretch) in self.stretches.range_mut(area.bytes.clone()) {
            let before = std::mem::take(&mut stretch.writers);
            for Written { rows, tensor, name, line, when } in before {
                for left in [rows.start..rows.end.min(area.rows.start), rows.start.max(area.rows.end)..rows.end] {
                    if !left.is_empty() {
                        stretch.writers.push(Written { rows: left, name: name.clone(), tensor, line, when });
                    }
                }
            }
            stretch.writers.push(written.clone());
        }
        self.join(&area.bytes);
    }

    /// Makes one of stretches of these bytes that have the same history.
    fn join(&mut self, bytes: &Range<usize>) {
        let starts: Vec<usize> = self.stretches.range(bytes.clone()).map(|(start, _)| *start).collect();
        let mut kept = bytes.start;
        for start in starts.into_iter().skip(1) {
            let alike = match (self.stretches.get(&kept), self.stretches.get(&start)) {
                (Some(one), Some(other)) => one.end == start && one.writers == other.writers,
                _ => false,
            };
            if !alike {
                kept = start;
            } else if let Some(gone) = self.stretches.remove(&start)
                && let Some(stretch) = self.stretches.get_mut(&kept)
            {
                stretch.end = gone.end;
            }
        }
    }

    /// The stretches that hold any of these bytes.
    fn meeting(&self, bytes: &Range<usize>) -> impl Iterator<Item = &Stretch> {
        let before = self.stretches.range(..bytes.start).next_back();
        let across = before.map(|(_, stretch)| stretch).filter(|stretch| stretch.end > bytes.start);
        across.into_iter().chain(self.stretches.range(bytes.clone()).map(|(_, stretch)| stretch))
    }

    /// Who wrote any of these bytes after a tensor that has written to its own at a time.
    fn taken(&self, area: &Rectangle, tensor: u64, since: u64) -> Option<&Written> {
        self.meeting(&area.bytes).flat_map(|stretch| &stretch.writers).find(|written| {
            written.tensor != tensor
                && written.when > since
                && written.rows.start < area.rows.end
                && area.rows.start < written.rows.end
        })
    }
}

/// What is known of tensors with addresses.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    sbuf: Shared,
    psum: Shared,
    /// Counts writes.
    clock: u64,
    /// When this run began.
    start: u64,
}

impl Reuse {
    /// A new run begins on what is there.
    pub(super) fn restart(&mut self) {
        *self = Self { clock: self.clock, start: self.clock, ..Self::default() };
    }

    fn shared(&mut self, buffer: Buffer) -> &mut Shared {
        if buffer == Buffer::Psum { &mut self.psum } else { &mut self.sbuf }
    }

    /// A tensor was placed over live ones.
    pub(super) fn overlap(&mut self, storage: &Storage) {
        if let Some(place) = storage.place.as_ref().map(Rectangle::of) {
            self.shared(storage.buffer).follow(&place.bytes);
        }
    }

    /// Something was written to a tensor with an address.
    pub(super) fn write(&mut self, storage: &Storage, place: &Resolved, site: SiteId) {
        self.touch(storage);
        let when = self.clock;
        let shared = self.shared(storage.buffer);
        if shared.stretches.is_empty() {
            return;
        }
        let Some(area) = Rectangle::of_operand(place) else { return };
        // Nearly all writes are to bytes that nobody shares, and need no name written down.
        if shared.meeting(&area.bytes).next().is_none() {
            return;
        }
        let (rows, name) = (area.rows.clone(), storage.name.clone());
        shared.write(&area, &Written { rows, tensor: storage.id, name, line: site, when });
    }

    /// Parts of a tensor with an address were written.
    pub(super) fn touch(&mut self, storage: &Storage) {
        self.clock += 1;
        let written = &storage.tenancy.written;
        if written.load(Ordering::Relaxed) <= self.start {
            written.store(self.clock, Ordering::Relaxed);
        }
    }

    /// Who has overwritten some of the bytes read.
    fn taken(&self, storage: &Storage, place: &Resolved) -> Option<(String, SiteId)> {
        let shared = if storage.buffer == Buffer::Psum { &self.psum } else { &self.sbuf };
        let since = storage.tenancy.written.load(Ordering::Relaxed);
        if shared.stretches.is_empty() || since <= self.start {
            return None;
        }
        let mut found = None;
        if let Some(area) = Rectangle::of_operand(place) {
            found = shared.taken(&area, storage.id, since);
        } else {
            lines::each_run(place, |_, range| {
                let (partition, byte) = place.position(range.start);
                let area = Rectangle { rows: partition..partition + 1, bytes: byte..byte + range.len() };
                found = found.or_else(|| shared.taken(&area, storage.id, since));
            });
        }
        found.map(|written| (written.name.clone(), written.line))
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

    const ROWS: usize = 6;
    const BYTES: usize = 12;

    fn span(most: usize) -> impl Strategy<Value = Range<usize>> {
        (0..most, 1..=most).prop_map(move |(start, count)| start..(start + count).min(most))
    }

    fn rectangle() -> impl Strategy<Value = Rectangle> {
        (span(ROWS), span(BYTES)).prop_map(|(rows, bytes)| Rectangle { rows, bytes })
    }

    proptest! {
        /// Byte by byte: followed bytes know their last writer, the others none, and no two stretches meet.
        #[test]
        fn test_each_followed_byte_knows_its_last_writer(
            steps in prop::collection::vec((any::<bool>(), rectangle(), 0u64..4), 1..40),
            asked in rectangle(),
            tensor in 0u64..4,
            since in 0u64..40,
        ) {
            let mut shared = Shared::default();
            let mut plain: Vec<Vec<Option<Option<(u64, u64)>>>> = vec![vec![None; BYTES]; ROWS];
            for (when, (follows, area, writer)) in steps.into_iter().enumerate() {
                let when = when as u64 + 1;
                if follows {
                    shared.follow(&area.bytes);
                    plain.iter_mut().for_each(|row| {
                        row[area.bytes.clone()].iter_mut().for_each(|byte| *byte = byte.or(Some(None)));
                    });
                } else {
                    let rows = area.rows.clone();
                    shared.write(&area, &Written { rows, tensor: writer, name: String::new(), line: SiteId(0), when });
                    for row in &mut plain[area.rows.clone()] {
                        row[area.bytes.clone()].iter_mut().flatten().for_each(|byte| *byte = Some((writer, when)));
                    }
                }
                let ends: Vec<(usize, usize)> = shared.stretches.iter().map(|(start, each)| (*start, each.end)).collect();
                prop_assert!(ends.iter().all(|(start, end)| start < end));
                prop_assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            }
            let found = shared.taken(&asked, tensor, since).is_some();
            let expected = plain[asked.rows.clone()].iter().flat_map(|row| &row[asked.bytes.clone()]).any(|byte| {
                byte.flatten().is_some_and(|(writer, when)| writer != tensor && when > since)
            });
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn test_stretches_of_one_history_are_one() {
        let mut shared = Shared::default();
        shared.follow(&(0..8));
        let written = |bytes: Range<usize>, when| {
            let area = Rectangle { rows: 0..4, bytes };
            (area, Written { rows: 0..4, tensor: 1, name: String::new(), line: SiteId(0), when })
        };
        for (when, byte) in (0..8).enumerate() {
            let (area, one) = written(byte..byte + 1, when as u64);
            shared.write(&area, &one);
        }
        assert_eq!(shared.stretches.len(), 8);
        let (area, all) = written(0..8, 9);
        shared.write(&area, &all);
        assert_eq!(shared.stretches.len(), 1);
    }
}
