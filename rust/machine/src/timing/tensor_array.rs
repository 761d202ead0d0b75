//! TensorE: a slot that loads stationary operands, and an array of 4 x 4 blocks through which moving operands pass.
//!
//! Weights are double-buffered: the load of a matmul runs while the pass before it does, and no earlier. **(choice)**
//! What a load's latency has beyond its stream is the fetch of the operand: it runs ahead of the load slot as soon as
//! the operand is there, so that a stream of matmuls hides it and a matmul that waited for its operand shows it.

use std::collections::VecDeque;

use super::record::{Cause, NO_INSTRUCTION};
use crate::arch::ArchSpec;
use crate::time::Picos;

const BLOCKS: usize = 16;

/// The latest of several moments, and what set it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) at: u64,
    pub(crate) cause: Cause,
    pub(crate) on: u32,
}

impl Bound {
    pub(crate) const START: Bound = Bound { at: 0, cause: Cause::None, on: NO_INSTRUCTION };

    /// The slot of an in-order stream, free at a moment after its last instruction.
    pub(crate) fn order(at: u64, last: u32) -> Bound {
        Bound { at, cause: if last == NO_INSTRUCTION { Cause::None } else { Cause::Order }, on: last }
    }

    pub(crate) fn raise(&mut self, at: u64, cause: Cause, on: u32) {
        if at > self.at {
            *self = Bound { at, cause, on };
        }
    }

    pub(crate) fn latest(&mut self, other: Bound) {
        self.raise(other.at, other.cause, other.on);
    }

    pub(crate) fn delayed(self, by: u64) -> Bound {
        Bound { at: self.at.saturating_add(by), ..self }
    }
}

/// What a matmul asks of the array, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) load: u64,
    pub(crate) load_latency: u64,
    pub(crate) multiply: u64,
    pub(crate) multiply_latency: u64,
    pub(crate) blocks: u16,
}

/// When a matmul runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) load_start: u64,
    pub(crate) load_end: u64,
    pub(crate) start: Bound,
    pub(crate) slot_end: u64,
    pub(crate) end: u64,
    pub(crate) wait: u64,
}

/// The array and its slots.
#[derive(Clone, Debug)]
pub(crate) struct TensorArray {
    tile_gap: u64,
    load_free: u64,
    load_last: u32,
    last: u32,
    last_start: u64,
    last_multiply: u64,
    last_blocks: u16,
    blocks: [(u64, u32); BLOCKS],
    /// End of the last slot of any pass.
    busy_until: u64,
    throttle: Option<Throttle>,
}

impl TensorArray {
    pub(crate) fn new(arch: &ArchSpec, throttle: bool) -> Self {
        Self {
            tile_gap: arch.tensor_clock().cycles(arch.tile_issue_cycles).0,
            load_free: 0,
            load_last: NO_INSTRUCTION,
            last: NO_INSTRUCTION,
            last_start: 0,
            last_multiply: 0,
            last_blocks: 0,
            blocks: [(0, NO_INSTRUCTION); BLOCKS],
            busy_until: 0,
            throttle: throttle.then(|| Throttle::new(arch)),
        }
    }

    /// Runs a load and a pass. `stationary` and `moving`: when what each of them waits for is there.
    pub(crate) fn run(&mut self, id: u32, pass: Pass, stationary: Bound, moving: Bound) -> Placed {
        let fetch = pass.load_latency.saturating_sub(pass.load);
        let mut load = Bound::order(self.load_free, self.load_last);
        load.raise(self.last_start, Cause::Order, self.last);
        load.latest(stationary.delayed(fetch));
        let load_end = load.at.saturating_add(pass.load);

        let (multiply, pass_start) = self.place(pass, load.delayed(pass.load), moving);
        let start = pass_start.at;
        let slot_end = start.saturating_add(multiply);
        let stretch = multiply - pass.multiply;
        let end = start.saturating_add(pass.multiply_latency.saturating_add(stretch)).max(slot_end);
        let wait = start.saturating_sub(self.busy_until);

        self.load_free = load_end;
        self.load_last = id;
        self.last = id;
        self.last_start = start;
        self.last_multiply = multiply;
        self.last_blocks = pass.blocks;
        for (index, block) in self.blocks.iter_mut().enumerate() {
            if pass.blocks >> index & 1 == 1 {
                *block = (slot_end, id);
            }
        }
        self.busy_until = self.busy_until.max(slot_end);
        let load_start = load.at.saturating_sub(fetch);
        Placed { load_start, load_end, start: pass_start, slot_end, end, wait }
    }

    fn place(&mut self, pass: Pass, load: Bound, moving: Bound) -> (u64, Bound) {
        let gap = if pass.blocks & self.last_blocks == 0 { self.tile_gap } else { self.last_multiply };
        let mut bound = if self.last == NO_INSTRUCTION {
            Bound::START
        } else {
            Bound::order(self.last_start.saturating_add(gap.min(self.last_multiply)), self.last)
        };
        for (index, &(free, owner)) in self.blocks.iter().enumerate() {
            if pass.blocks >> index & 1 == 1 {
                bound.raise(free, Cause::Order, owner);
            }
        }
        bound.latest(load);
        bound.latest(moving);
        let multiply = match &mut self.throttle {
            Some(throttle) => throttle.stretch(bound.at, pass.multiply),
            None => pass.multiply,
        };
        (multiply, bound)
    }

    /// Nothing has come before, but for the current-step limit.
    pub(crate) fn forget(&mut self) {
        (self.load_free, self.last_start, self.last_multiply, self.last_blocks, self.busy_until) = (0, 0, 0, 0, 0);
        (self.load_last, self.last) = (NO_INSTRUCTION, NO_INSTRUCTION);
        self.blocks = [(0, NO_INSTRUCTION); BLOCKS];
    }

    /// Calls with each moment that what runs later may depend on; without the current-step limit.
    pub(super) fn each_moment(&mut self, visit: &mut impl FnMut(&mut u64)) {
        [&mut self.load_free, &mut self.last_start, &mut self.busy_until].into_iter().for_each(&mut *visit);
        self.blocks.iter_mut().for_each(|(free, _)| visit(free));
    }

    /// What runs later depends on of the last pass, but for its moments.
    pub(super) fn last_pass(&self) -> (u64, u16) {
        (self.last_multiply, self.last_blocks)
    }

    /// When the sequencer is free for an instruction that is no matmul: after every pass before it.
    pub(crate) fn free(&self) -> Bound {
        Bound::order(self.busy_until.max(self.load_free), self.last)
    }

    /// Holds the sequencer for an instruction that is no matmul: no load and no pass starts before its slot ends.
    pub(crate) fn hold(&mut self, id: u32, slot_end: u64) {
        self.load_free = self.load_free.max(slot_end);
        self.load_last = id;
        self.last = id;
        self.last_start = slot_end;
        self.last_multiply = 0;
        self.last_blocks = 0;
        self.busy_until = self.busy_until.max(slot_end);
    }
}

/// The current-step limit: after a pause the array works at part of its rate and comes back to the whole of it over a
/// span of work.
///
/// **(choice)** The limit rises in proportion to the work done since the last window of low use; use is the share of
/// the window in which a pass held the array. A pause can reset the limit, so that under it, and under it alone, a
/// delay may make what follows faster.
#[derive(Clone, Debug)]
struct Throttle {
    start: f64,
    ramp: u64,
    /// Array time since the limit was last at its start.
    worked: u64,
    since: u64,
    window: VecDeque<(u64, u64)>,
    /// Array time of the slots in the window, whole slots.
    held: u64,
}

impl Throttle {
    fn new(arch: &ArchSpec) -> Self {
        Self {
            start: arch.throttle_start,
            ramp: Picos::from_nanoseconds(arch.throttle_ramp_ns).0,
            worked: 0,
            since: 0,
            window: VecDeque::new(),
            held: 0,
        }
    }

    /// The array time that a pass of some array time at full rate takes when it starts at a moment.
    fn stretch(&mut self, start: u64, multiply: u64) -> u64 {
        let opens = start.saturating_sub(self.ramp);
        while let Some(&(begin, end)) = self.window.front()
            && end <= opens
        {
            self.held -= end - begin;
            self.window.pop_front();
        }
        let outside = self.window.front().map_or(0, |&(begin, _)| opens.saturating_sub(begin));
        let used = (self.held - outside) as f64;
        if start.saturating_sub(self.since) >= self.ramp && used < self.start * self.ramp as f64 {
            self.worked = 0;
            self.since = start;
        }
        let risen = if self.ramp == 0 { 1.0 } else { (self.worked as f64 / self.ramp as f64).min(1.0) };
        let share = self.start + (1.0 - self.start) * risen;
        let held = ((multiply as f64 / share).round() as u64).max(multiply);
        self.worked = self.worked.saturating_add(held);
        let begin = self.window.back().map_or(start, |&(_, end)| end.max(start));
        let end = start.saturating_add(held);
        if end > begin {
            self.window.push_back((begin, end));
            self.held += end - begin;
        }
        held
    }
}
