//! Which tiles are others, and which steps therefore go: as far as what lives longer then fits.

use std::collections::{HashMap, HashSet};

use trn3_machine::storage::Buffer;
use trn3_machine::trace::{NONE, Trace, Use};

use super::repeats::Repeats;
use crate::live_bytes::{LiveBytes, spans};
use crate::producers::Producers;

/// What takes the place of what.
pub(super) struct Sharing {
    /// For each step itself where it stays, else the earlier one that did the same.
    pub(super) instead: Vec<u32>,
    /// For each tensor the one that holds the same; itself where there is none.
    pub(super) tensors: Vec<u32>,
}

/// What is known of a tensor that has no address.
#[derive(Clone, Copy)]
struct Tile {
    /// Last step that writes it, and the first one that reads it and does not write it as well.
    last_write: u32,
    first_read: u32,
    /// The last step that reads it, of those that stay if all is shared that may be.
    last_read: u32,
    /// Whether all steps that write it may go.
    may_go: bool,
}

struct Sharer<'a> {
    trace: &'a Trace,
    producers: &'a Producers,
    repeats: &'a Repeats<'a>,
    sharing: Sharing,
    tiles: Vec<Tile>,
    /// Writes of each tensor that are not redundant.
    writes: Vec<Vec<u32>>,
    /// Steps that go if all is shared that may be.
    may_go: Vec<bool>,
    /// The last step that uses each tensor.
    ends: Vec<u32>,
    starts: Vec<u32>,
    live: LiveBytes,
    /// How much more than SBUF holds may be live: what has to leave then comes back.
    room: f64,
    /// By what its first write gives the tensor that holds it.
    kept: HashMap<u32, u32>,
}

impl Sharing {
    pub(super) fn of(trace: &Trace, producers: &Producers, repeats: &Repeats<'_>, room: f64) -> Self {
        let spans = spans(trace);
        let none = Tile { last_write: 0, first_read: NONE, last_read: 0, may_go: true };
        let mut sharer = Sharer {
            trace,
            producers,
            repeats,
            sharing: Sharing {
                instead: (0..trace.steps.len() as u32).collect(),
                tensors: (0..trace.tensors.len() as u32).collect(),
            },
            tiles: vec![none; trace.tensors.len()],
            writes: vec![Vec::new(); trace.tensors.len()],
            may_go: (0..trace.steps.len() as u32).map(|step| repeats.repeats(step)).collect(),
            ends: spans.iter().map(|span| span.1).collect(),
            starts: spans.iter().map(|span| span.0).collect(),
            live: LiveBytes::of(trace, &spans),
            room,
            kept: HashMap::new(),
        };
        sharer.leave_rewrites();
        sharer.note_uses();
        sharer.keep_together();
        sharer.note_last_reads();
        sharer.share();
        sharer.sharing
    }
}

impl Sharer<'_> {
    fn open(&self, tensor: u32) -> Option<Buffer> {
        self.trace.tensors[tensor as usize].open()
    }

    fn goes(&self, step: usize) -> bool {
        self.sharing.instead[step] != step as u32
    }

    /// A step that puts into bytes what an earlier one put there is redundant.
    fn leave_rewrites(&mut self) {
        for (number, step) in self.trace.steps.iter().enumerate() {
            if !self.may_go[number] || !step.marks.overwrites {
                continue;
            }
            let first = self.producers.first_write(number as u32);
            let mut other = None;
            let operands = step.operands.iter().enumerate().filter(|(_, operand)| operand.usage == Use::Write);
            for (write, (at, operand)) in (first..).zip(operands) {
                let &[before] = self.producers.behind(number, at) else {
                    other = None;
                    break;
                };
                let writer = self.producers.writer(before);
                let earlier = &self.trace.steps[writer as usize];
                let output = (before - self.producers.first_write(writer)) as usize;
                let is_same = self.repeats.first_of(before) == self.repeats.first_of(write)
                    && earlier.marks.overwrites
                    && earlier.writes().nth(output).is_some_and(|output| output.rects == operand.rects);
                other = is_same.then_some(writer);
                if other.is_none() {
                    break;
                }
            }
            if let Some(writer) = other {
                self.sharing.instead[number] = writer;
            }
        }
    }

    fn note_uses(&mut self) {
        for (number, step) in self.trace.steps.iter().enumerate() {
            if self.goes(number) {
                continue;
            }
            // What cores do together, and functions of the host, keep their own tiles.
            for operand in step.operands.iter().filter(|_| step.marks.is_fence) {
                self.tiles[operand.tensor as usize].may_go = false;
            }
            let first = self.producers.first_write(number as u32);
            for (write, operand) in (first..).zip(step.writes()) {
                let tile = &mut self.tiles[operand.tensor as usize];
                tile.last_write = number as u32;
                tile.may_go &= self.may_go[number];
                if self.trace.tensors[operand.tensor as usize].open().is_some() {
                    self.writes[operand.tensor as usize].push(write);
                } else {
                    tile.may_go = false;
                }
            }
            for operand in step.reads() {
                if !step.writes().any(|other| other.tensor == operand.tensor) {
                    let tile = &mut self.tiles[operand.tensor as usize];
                    tile.first_read = tile.first_read.min(number as u32);
                }
            }
        }
    }

    /// A step goes with all tiles that it writes, or stays; a tile that is read before it is whole stays.
    fn keep_together(&mut self) {
        for tile in &mut self.tiles {
            tile.may_go &= tile.first_read > tile.last_write;
        }
        loop {
            let mut is_done = true;
            for (number, step) in self.trace.steps.iter().enumerate() {
                if self.goes(number) || !self.may_go[number] {
                    continue;
                }
                if !step.writes().all(|operand| self.tiles[operand.tensor as usize].may_go) {
                    self.may_go[number] = false;
                    for operand in step.writes() {
                        let tile = &mut self.tiles[operand.tensor as usize];
                        is_done &= !std::mem::take(&mut tile.may_go);
                    }
                }
            }
            if is_done {
                return;
            }
        }
    }

    fn note_last_reads(&mut self) {
        for (number, step) in self.trace.steps.iter().enumerate() {
            if !self.may_go[number] && !self.goes(number) {
                for operand in step.reads() {
                    self.tiles[operand.tensor as usize].last_read = number as u32;
                }
            }
        }
    }

    fn share(&mut self) {
        let mut decided = vec![false; self.trace.tensors.len()];
        for (number, step) in self.trace.steps.iter().enumerate() {
            if self.goes(number) {
                continue;
            }
            for operand in step.writes() {
                if self.open(operand.tensor).is_none() || decided[operand.tensor as usize] {
                    continue;
                }
                if !self.tiles[operand.tensor as usize].may_go {
                    decided[operand.tensor as usize] = true;
                    self.keep(operand.tensor);
                    continue;
                }
                let together = self.together(operand.tensor);
                together.iter().for_each(|&tensor| decided[tensor as usize] = true);
                if !self.share_together(&together) {
                    together.iter().for_each(|&tensor| self.keep(tensor));
                }
            }
            if !self.goes(number) {
                self.use_shared(number);
            }
        }
    }

    /// Tiles that steps write together with one, itself included.
    fn together(&self, tensor: u32) -> Vec<u32> {
        let mut found = vec![tensor];
        let mut known = HashSet::from([tensor]);
        let mut next = 0;
        while next < found.len() {
            for &write in &self.writes[found[next] as usize] {
                let step = &self.trace.steps[self.producers.writer(write) as usize];
                for operand in step.writes() {
                    if self.open(operand.tensor).is_some() && known.insert(operand.tensor) {
                        found.push(operand.tensor);
                    }
                }
            }
            next += 1;
        }
        found
    }

    /// Tiles become the ones that hold the same, if those exist and may live on.
    fn share_together(&mut self, tensors: &[u32]) -> bool {
        let mut pairs = Vec::with_capacity(tensors.len());
        for &tensor in tensors {
            let class = self.writes[tensor as usize].first().map(|write| self.repeats.first_of(*write));
            let Some(&kept) = class.and_then(|class| self.kept.get(&class)) else { return false };
            if !self.is_same(tensor, kept) {
                return false;
            }
            pairs.push((tensor, kept));
        }
        for &(tensor, kept) in &pairs {
            self.extend(tensor, kept, true);
        }
        let fits = pairs.iter().all(|&(tensor, kept)| self.fits(tensor, kept));
        if !fits {
            for &(tensor, kept) in &pairs {
                self.extend(tensor, kept, false);
            }
            return false;
        }
        for &(tensor, kept) in &pairs {
            self.sharing.tensors[tensor as usize] = kept;
            self.ends[kept as usize] = self.ends[kept as usize].max(self.tiles[tensor as usize].last_read);
            for (own, other) in self.writes[tensor as usize].iter().zip(&self.writes[kept as usize]) {
                let step = self.producers.writer(*own);
                self.sharing.instead[step as usize] = self.producers.writer(*other);
            }
        }
        true
    }

    fn is_same(&self, tensor: u32, kept: u32) -> bool {
        let (own, other) = (&self.writes[tensor as usize], &self.writes[kept as usize]);
        let same = |own: &u32, other: &u32| self.repeats.first_of(*own) == self.repeats.first_of(*other);
        tensor != kept
            && own.len() == other.len()
            && own.iter().zip(other).all(|(own, other)| same(own, other))
            && self.tiles[kept as usize].last_write < self.tiles[tensor as usize].first_read
    }

    /// Where a kept tile lives beyond its end if it is to be another one too.
    fn extension(&self, tensor: u32, kept: u32) -> std::ops::Range<u32> {
        let end = self.ends[kept as usize] + 1;
        end..end.max(self.tiles[tensor as usize].last_read + 1)
    }

    /// A tile is another one, or is none after all.
    fn extend(&mut self, tensor: u32, kept: u32, is_shared: bool) {
        let Some(buffer) = self.open(tensor) else { return };
        let bytes = self.trace.tensors[tensor as usize].bytes;
        let own = self.starts[tensor as usize]..self.ends[tensor as usize] + 1;
        let further = self.extension(tensor, kept);
        self.live.add(buffer, bytes, own, !is_shared);
        self.live.add(buffer, bytes, further, is_shared);
    }

    fn fits(&mut self, tensor: u32, kept: u32) -> bool {
        let Some(buffer) = self.open(tensor) else { return false };
        let further = self.extension(tensor, kept);
        let is_small = self.live.is_small(buffer, self.trace.tensors[tensor as usize].bytes);
        is_small || self.live.nearly_fits(buffer, further, if buffer == Buffer::Psum { 1.0 } else { self.room })
    }

    /// A tile stays what it is, and others may be it.
    fn keep(&mut self, tensor: u32) {
        if let Some(write) = self.writes[tensor as usize].first() {
            self.kept.insert(self.repeats.first_of(*write), tensor);
        }
    }

    /// A step that might have gone stays: the tiles that it reads live at least until then.
    fn use_shared(&mut self, number: usize) {
        for operand in self.trace.steps[number].reads() {
            let kept = self.sharing.tensors[operand.tensor as usize];
            if kept != operand.tensor
                && let Some(buffer) = self.open(kept)
                && self.ends[kept as usize] < number as u32
            {
                let further = self.ends[kept as usize] + 1..number as u32 + 1;
                self.live.add(buffer, self.trace.tensors[kept as usize].bytes, further, true);
                self.ends[kept as usize] = number as u32;
            }
        }
    }
}
