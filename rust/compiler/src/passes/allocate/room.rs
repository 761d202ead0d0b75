//! The bytes of one memory while a trace is walked: who holds which, who gives way.

use std::collections::BTreeMap;
use std::ops::Range;

use trn3_machine::memory::Placer;
use trn3_machine::storage::Buffer;
use trn3_machine::trace::{NONE, Trace};

use super::reserved::{Reserved, reserved};

/// Which of the free places a value takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The one that was given back longest ago: what comes next waits for nobody.
    Oldest,
    /// The smallest: large ones stay whole.
    Tightest,
}

/// One memory.
#[derive(Debug)]
pub(super) struct Room {
    placer: Placer,
    choice: Choice,
    /// First byte, end and number of the values in it.
    values: BTreeMap<u64, (u64, u32)>,
    held: u64,
    reserved: Vec<Reserved>,
    /// The first of them that is not used yet, and those in use.
    next: usize,
    in_use: Vec<usize>,
}

impl Room {
    pub(super) fn new(trace: &Trace, buffer: Buffer, choice: Choice) -> Self {
        let placer = Placer::new(&trace.arch, buffer);
        let reserved = reserved(trace, buffer, placer.unit());
        Self { choice, values: BTreeMap::new(), held: 0, reserved, next: 0, in_use: Vec::new(), placer }
    }

    /// Bytes that values hold.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn usable(&self) -> u64 {
        self.placer.usable()
    }

    pub(super) fn extent(&self, bytes: u64) -> u64 {
        self.placer.extent(bytes)
    }

    /// Goes on to a step: the author takes the bytes that he uses from there on. Values that lie in them have to leave.
    pub(super) fn advance(&mut self, step: u32) -> Vec<u32> {
        let mut leaving = Vec::new();
        let over = |at: &usize| self.reserved[*at].last < step;
        let gone: Vec<usize> = self.in_use.iter().copied().filter(over).collect();
        self.in_use.retain(|at| !gone.contains(at));
        gone.into_iter().for_each(|at| self.placer.give_back(held(at)));
        while let Some(begun) = self.reserved.get(self.next).filter(|reserved| reserved.first <= step) {
            let within =
                self.values.range(..begun.bytes.end).rev().take_while(|(_, value)| value.0 > begun.bytes.start);
            leaving.extend(within.map(|(_, value)| value.1));
            self.placer.hold(held(self.next), begun.bytes.start, begun.bytes.end - begun.bytes.start);
            self.in_use.push(self.next);
            self.next += 1;
        }
        leaving
    }

    /// The author's bytes that he begins to use no later than a step.
    fn coming(&self, until: u32) -> impl Iterator<Item = (usize, &Reserved)> {
        let coming = self.reserved.iter().enumerate().skip(self.next);
        coming.take_while(move |(_, reserved)| reserved.first <= until)
    }

    /// A free place for a value that is used until a step: none that the author needs before, if there is such.
    pub(super) fn find(&mut self, bytes: u64, until: u32) -> Option<u64> {
        let found = self.search(bytes)?;
        let taken = found..found + self.extent(bytes);
        if self.coming(until).all(|(_, reserved)| !reserved.meets(&taken)) {
            return Some(found);
        }
        let coming: Vec<(usize, Range<u64>)> = self.coming(until).map(|(at, one)| (at, one.bytes.clone())).collect();
        for (at, bytes) in &coming {
            self.placer.hold(held(*at), bytes.start, bytes.end - bytes.start);
        }
        let better = self.search(bytes);
        coming.iter().for_each(|(at, _)| self.placer.give_back(held(*at)));
        better.or(Some(found))
    }

    fn search(&self, bytes: u64) -> Option<u64> {
        match self.choice {
            Choice::Oldest => self.placer.find(bytes),
            Choice::Tightest => self.placer.find_tight(bytes),
        }
    }

    pub(super) fn hold(&mut self, value: u32, start: u64, bytes: u64) {
        let extent = self.extent(bytes);
        self.placer.hold(value, start, extent);
        self.held += extent;
        self.values.insert(start, (start + extent, value));
    }

    pub(super) fn give_back(&mut self, value: u32, start: u64) {
        self.placer.give_back(value);
        self.held -= self.values.remove(&start).map_or(0, |(end, _)| end - start);
    }

    /// All values in it.
    pub(super) fn values(&self) -> Vec<u32> {
        self.values.values().map(|value| value.1).collect()
    }

    /// The place whose values can best leave: those whose next use is furthest; then those that cost least. `leaves` gives
    /// the next use of a value and what it costs that it leaves, None where it has to stay.
    pub(super) fn give_way(&self, bytes: u64, leaves: impl Fn(u32) -> Option<(u32, u64)>) -> Option<(u64, Vec<u32>)> {
        let extent = self.extent(bytes);
        let in_use = |bytes: &Range<u64>| {
            self.in_use.iter().map(|at| &self.reserved[*at]).find(|reserved| reserved.meets(bytes)).is_some()
        };
        let ends = self.values.values().map(|value| value.0);
        let reserved = self.in_use.iter().map(|at| self.reserved[*at].bytes.end);
        let unit = self.placer.unit();
        let mut best: Option<((u32, u64), u64)> = None;
        for start in std::iter::once(0).chain(ends).chain(reserved.map(|end| end.next_multiple_of(unit))) {
            let taken = start..start.saturating_add(extent);
            if taken.end > self.usable() || in_use(&taken) {
                continue;
            }
            let mut worth = (NONE, 0u64);
            let mut stays = false;
            for value in self.within(&taken) {
                match leaves(value) {
                    Some((next, cost)) => worth = (worth.0.min(next), worth.1 + cost),
                    None => {
                        stays = true;
                        break;
                    }
                }
            }
            let is_better =
                |&((next, cost), _): &((u32, u64), u64)| worth.0 > next || (worth.0 == next && worth.1 < cost);
            if !stays && best.as_ref().is_none_or(is_better) {
                best = Some((worth, start));
            }
        }
        best.map(|(_, start)| (start, self.within(&(start..start + extent)).collect()))
    }

    /// The values that hold any of these bytes.
    fn within(&self, bytes: &Range<u64>) -> impl Iterator<Item = u32> {
        let start = bytes.start;
        let before = self.values.range(..bytes.end).rev();
        before.take_while(move |(_, value)| value.0 > start).map(|(_, value)| value.1)
    }
}

/// Under which number the author's bytes are held.
fn held(at: usize) -> u32 {
    NONE - 1 - at as u32
}
