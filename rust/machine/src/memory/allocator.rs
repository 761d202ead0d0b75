//! Where on-chip tensors lie: places given, places found, and what is said when there is none.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use smallvec::SmallVec;

use crate::by_number::ByNumber;
use crate::storage::{Buffer, Release, Storage};

/// A storage that is gone: its number, its memory, and whether it had an address.
type Gone = (u64, Buffer, bool);

/// Storages gone since somebody last looked.
#[derive(Debug, Default)]
pub(super) struct Released {
    any: AtomicBool,
    list: Mutex<Vec<Gone>>,
}

impl Release for Released {
    fn release(&self, id: u64, buffer: Buffer, addressed: bool) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push((id, buffer, addressed));
        self.any.store(true, Ordering::Release);
    }
}

impl Released {
    /// Those gone, in the order in which they went.
    pub(super) fn take(&self) -> Vec<Gone> {
        if !self.any.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Neighbouring bytes of a partition with one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    start: usize,
    end: usize,
    /// Live tensors that hold it; more than one where given addresses overlap.
    users: u32,
    /// When it was last released; 0 before the first use and while it is used.
    stamp: u64,
}

/// The bytes of one on-chip memory, all partitions alike: a tensor takes its bytes in every partition **(choice)**, so
/// that every automatic tensor starts on partition 0 and can meet any other one in any instruction.
#[derive(Debug)]
pub(super) struct Allocator {
    segments: Vec<Segment>,
    /// The free ones by stamp and start, ascending: places are taken at the front, and released at the back.
    ages: VecDeque<(u64, usize)>,
    /// Whether a given address cut the bytes within a unit.
    is_ragged: bool,
    /// The age of the last place that was found for so many bytes.
    oldest: RefCell<Vec<(usize, u64)>>,
    /// Bytes of a partition that tensors without an address may use.
    usable: usize,
    /// What such tensors start on and take multiples of.
    unit: usize,
    /// Tensors smaller than this are put at the far end of places of one age: small tensors tend to live long, and
    /// among large ones they would break up the space **(choice)**.
    small: usize,
    clock: u64,
    live: usize,
    peak: usize,
    /// Bytes of a partition that live tensors without an address hold.
    automatic: usize,
    /// Live tensors by number, with the bytes of a partition they hold.
    tensors: HashMap<u64, (Weak<Storage>, Range<usize>), ByNumber>,
    /// The numbers of those without an address, ascending; kernels that place tensors themselves have few of them.
    tenants: Vec<u64>,
}

/// Sizes of tensors whose last place's age is kept **(choice)**: kernels have a few.
const SIZES: usize = 32;

/// Bytes of a partition without end.
pub(super) const ENDLESS: usize = 1 << 48;

/// Share of the usable bytes below which a tensor counts as small.
const SMALL_SHARE: usize = 64;

impl Allocator {
    pub(super) fn new(partition_bytes: usize, usable: usize, unit: usize) -> Self {
        let free = Segment { start: 0, end: partition_bytes, users: 0, stamp: 0 };
        Self {
            segments: vec![free],
            ages: VecDeque::from([(0, 0)]),
            is_ragged: false,
            oldest: RefCell::default(),
            usable,
            unit,
            small: usable / SMALL_SHARE,
            clock: 0,
            live: 0,
            peak: 0,
            automatic: 0,
            tensors: HashMap::default(),
            tenants: Vec::new(),
        }
    }

    pub(super) fn usable(&self) -> usize {
        self.usable
    }

    /// Bytes of a partition that live tensors hold.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// The most that were ever live.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    /// Bytes of a partition that live tensors without an address hold.
    pub(super) fn automatic(&self) -> usize {
        self.automatic
    }

    /// Whether this tensor holds bytes here.
    pub(super) fn holds(&self, id: u64) -> bool {
        self.tensors.contains_key(&id)
    }

    /// Bytes of a partition that this tensor holds.
    pub(super) fn held(&self, id: u64) -> usize {
        self.tensors.get(&id).map_or(0, |(_, held)| held.len())
    }

    /// The extent a tensor without an address holds.
    pub(super) fn extent(&self, bytes: usize) -> usize {
        bytes.next_multiple_of(self.unit)
    }

    /// Whether a live tensor holds any of these bytes.
    pub(super) fn is_used(&self, start: usize, end: usize) -> bool {
        self.covering(start, end).iter().any(|segment| segment.users > 0)
    }

    fn covering(&self, start: usize, end: usize) -> &[Segment] {
        let first = self.segments.partition_point(|segment| segment.end <= start);
        let last = self.segments.partition_point(|segment| segment.start < end);
        &self.segments[first..last]
    }

    /// The free place whose youngest byte was released longest ago; among equals the nearest, for small tensors the
    /// farthest.
    pub(super) fn find(&self, bytes: usize) -> Option<usize> {
        let bytes = self.extent(bytes);
        // What is released is younger than all that is free: places for as many bytes are never older than the last was.
        let mut oldest = self.oldest.borrow_mut();
        let known = oldest.iter().position(|(size, _)| *size == bytes);
        let least = known.filter(|_| !self.is_ragged).map_or(0, |place| oldest[place].1);
        let (age, start) = self.find_from(bytes, least)?;
        match known {
            Some(place) => oldest[place].1 = age,
            None if oldest.len() < SIZES => oldest.push((bytes, age)),
            None => {}
        }
        Some(start)
    }

    /// As [`Allocator::find`], and its age, where no place is older than one age.
    fn find_from(&self, bytes: usize, oldest: u64) -> Option<(u64, usize)> {
        // The best window contains a segment of its age and none younger. Tensors of one size come and go in turn, so
        // that one of the oldest segments nearly always is the place.
        let mut best: Option<(u64, usize)> = None;
        let first = self.ages.partition_point(|(age, _)| *age < oldest);
        for &(age, start) in self.ages.range(first..) {
            if best.is_some_and(|(found, _)| found < age) {
                break;
            }
            let index = self.segments.partition_point(|segment| segment.start < start);
            self.find_in(&self.segments[self.run_around(index)], bytes, &mut best);
        }
        best
    }

    /// The smallest of the free places, whatever its age, that hold so many bytes.
    pub(super) fn find_tight(&self, bytes: usize) -> Option<usize> {
        let bytes = self.extent(bytes);
        let mut best: Option<(usize, usize)> = None;
        let mut at = 0;
        while at < self.segments.len() {
            let free = self.segments[at..].iter().take_while(|segment| segment.users == 0).count();
            if let Some(last) = free.checked_sub(1) {
                let low = self.segments[at].start.next_multiple_of(self.unit);
                let high = self.segments[at + last].end.min(self.usable) / self.unit * self.unit;
                let room = high.saturating_sub(low);
                if room >= bytes && best.is_none_or(|(least, _)| room < least) {
                    best = Some((room, if bytes < self.small { high - bytes } else { low }));
                }
            }
            at += free.max(1);
        }
        best.map(|(_, start)| start)
    }

    /// The free segments around this one that are no younger than it, itself included.
    fn run_around(&self, index: usize) -> Range<usize> {
        let age = self.segments[index].stamp;
        let belongs = |segment: &&Segment| segment.users == 0 && segment.stamp <= age;
        let before = self.segments[..index].iter().rev().take_while(belongs).count();
        let after = self.segments[index..].iter().take_while(belongs).count();
        index - before..index + after
    }

    /// Looks at a run of free segments: the best window starts or ends where a segment does.
    fn find_in(&self, run: &[Segment], bytes: usize, best: &mut Option<(u64, usize)>) {
        let low = run[0].start.next_multiple_of(self.unit);
        let high = run[run.len() - 1].end.min(self.usable);
        if low.saturating_add(bytes) > high {
            return;
        }
        let mut consider = |start: usize| {
            if start < low || start + bytes > high {
                return;
            }
            let first = run.partition_point(|segment| segment.end <= start);
            let covered = run[first..].iter().take_while(|segment| segment.start < start + bytes);
            let age = covered.map(|segment| segment.stamp).max().unwrap_or(0);
            let is_better = best.is_none_or(|(stamp, at)| {
                age < stamp || (age == stamp && if bytes < self.small { start > at } else { start < at })
            });
            if is_better {
                *best = Some((age, start));
            }
        };
        for segment in run {
            consider(segment.start.next_multiple_of(self.unit));
            if let Some(start) = segment.end.min(high).checked_sub(bytes) {
                consider(start / self.unit * self.unit);
            }
        }
    }

    /// The largest tensor that would fit now.
    pub(super) fn largest_free(&self) -> usize {
        let mut largest = 0;
        let mut start = None;
        for segment in &self.segments {
            if segment.users > 0 {
                start = None;
                continue;
            }
            let low = *start.get_or_insert(segment.start.next_multiple_of(self.unit));
            largest = largest.max(segment.end.min(self.usable).saturating_sub(low));
        }
        largest
    }

    /// Bytes of a partition that are free, in whatever pieces.
    pub(super) fn free(&self) -> usize {
        let free = self.segments.iter().filter(|segment| segment.users == 0);
        free.map(|segment| segment.end.min(self.usable).saturating_sub(segment.start)).sum()
    }

    /// The nearest free place, whatever its age: where there is no end, the bytes used last are at hand.
    pub(super) fn find_nearest(&self, bytes: usize) -> Option<usize> {
        let bytes = self.extent(bytes);
        let mut start = 0;
        for segment in &self.segments {
            if segment.users > 0 {
                start = segment.end.next_multiple_of(self.unit);
            } else if segment.end.min(self.usable) >= start.saturating_add(bytes) {
                return Some(start);
            }
        }
        None
    }

    /// A tensor now holds these bytes.
    pub(super) fn take(&mut self, start: usize, end: usize, storage: &Arc<Storage>) {
        self.hold_as((storage.id, storage.addressed), start, end, Arc::downgrade(storage));
    }

    /// As [`Allocator::take`], for a tensor without an address that there is no storage of.
    pub(super) fn hold(&mut self, start: usize, end: usize, id: u64) {
        self.hold_as((id, false), start, end, Weak::new());
    }

    fn hold_as(&mut self, (id, addressed): (u64, bool), start: usize, end: usize, storage: Weak<Storage>) {
        self.tensors.insert(id, (storage, start..end));
        if !addressed {
            self.automatic += end - start;
            // Numbers rise, but for tensors that are moved.
            let place = self.tenants.partition_point(|tenant| *tenant < id);
            self.tenants.insert(place, id);
        }
        self.is_ragged |= !(start.is_multiple_of(self.unit) && end.is_multiple_of(self.unit));
        self.change(start, end, true, |segment, live, _| {
            if segment.users == 0 {
                *live += segment.end - segment.start;
            }
            segment.users += 1;
            segment.stamp = 0;
        });
        self.peak = self.peak.max(self.live);
    }

    /// A tensor is gone, and holds its bytes no longer.
    pub(super) fn give_back(&mut self, id: u64, addressed: bool) {
        let Some((_, Range { start, end })) = self.tensors.remove(&id) else { return };
        if !addressed {
            self.automatic -= end - start;
            if let Ok(place) = self.tenants.binary_search(&id) {
                self.tenants.remove(place);
            }
        }
        self.clock += 1;
        self.change(start, end, false, |segment, live, clock| {
            segment.users = segment.users.saturating_sub(1);
            if segment.users == 0 {
                segment.stamp = clock;
                *live -= segment.end - segment.start;
            }
        });
    }

    /// Changes the segments of some bytes. `comes`: a tensor comes there, and what it lies beside stays a segment of its
    /// own while both are used: whoever goes first would cut them again, and thousands of segments move for each cut.
    fn change(&mut self, start: usize, end: usize, comes: bool, apply: impl Fn(&mut Segment, &mut usize, u64)) {
        if start >= end {
            return;
        }
        // Those that hold any of these bytes or lie beside them: all that can be cut or joined.
        let first = self.segments.partition_point(|segment| segment.end < start);
        let touched = self.segments[first..].iter().take_while(|segment| segment.start <= end).count();
        let old = &self.segments[first..first + touched];
        let mut new: SmallVec<[Segment; 8]> = SmallVec::new();
        for segment in old {
            let (low, high) = (segment.start.clamp(start, end), segment.end.clamp(start, end));
            for (from, to) in
                [(segment.start, low.min(segment.end)), (low, high), (high.max(segment.start), segment.end)]
            {
                if from >= to {
                    continue;
                }
                let mut part = Segment { start: from, end: to, ..*segment };
                if from >= start && to <= end {
                    apply(&mut part, &mut self.live, self.clock);
                }
                let stays_cut = comes && part.users > 0 && (from == start || from == end) && self.usable < ENDLESS;
                match new.last_mut() {
                    Some(last) if (last.users, last.stamp) == (part.users, part.stamp) && !stays_cut => last.end = to,
                    _ => new.push(part),
                }
            }
        }
        let age = |segment: &Segment| (segment.users == 0).then_some((segment.stamp, segment.start));
        for gone in old.iter().filter_map(age).filter(|&gone| !new.iter().any(|segment| age(segment) == Some(gone))) {
            if let Ok(place) = self.ages.binary_search(&gone) {
                self.ages.remove(place);
            }
        }
        for come in new.iter().filter_map(age).filter(|&come| !old.iter().any(|segment| age(segment) == Some(come))) {
            let place = self.ages.partition_point(|other| *other < come);
            self.ages.insert(place, come);
        }
        // There may be thousands behind: as many as before are written in their places.
        if new.len() == touched {
            self.segments[first..first + touched].copy_from_slice(&new);
        } else {
            self.segments.splice(first..first + touched, new);
        }
    }

    /// The live tensors without an address, in the order in which they were made.
    pub(super) fn tenants(&self) -> Vec<(Arc<Storage>, Range<usize>)> {
        let held = self.tenants.iter().filter_map(|id| self.tensors.get(id));
        held.filter_map(|(storage, bytes)| Some((storage.upgrade()?, bytes.clone()))).collect()
    }

    /// The live tensors, largest first.
    pub(super) fn largest(&self) -> Vec<Arc<Storage>> {
        let mut live: Vec<Arc<Storage>> = self.tensors.values().filter_map(|(storage, _)| storage.upgrade()).collect();
        live.sort_by_key(|storage| (std::cmp::Reverse(storage.place.map_or(0, |place| place.bytes)), storage.id));
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn test_no_place_is_older_than_the_last_for_as_many_bytes(
            usable in 900usize..1024,
            sizes in prop::collection::vec((1usize..300, 0usize..3), 1..120),
        ) {
            let mut places = Allocator::new(1024, usable, 32);
            places.small = 100;
            let mut live = Vec::new();
            for (id, (bytes, goes)) in sizes.into_iter().enumerate() {
                let all = places.find_from(places.extent(bytes), 0).map(|(_, start)| start);
                let found = places.find(bytes);
                prop_assert_eq!(found, all);
                if let Some(start) = found {
                    places.hold(start, start + places.extent(bytes), id as u64);
                    live.push(id as u64);
                }
                for _ in 0..goes.min(live.len()) {
                    places.give_back(live.remove(bytes % live.len()), false);
                }
            }
        }
    }
}
