//! Where the bytes that operands find come from: the last writes of each of them before the step.

use smallvec::SmallVec;
use trn3_machine::trace::{Trace, TraceOperand, Use};

use crate::dependences::cells::Uses;
use crate::dependences::homes;

/// The last write of every byte so far; writes have numbers of the caller's.
pub(crate) struct LastWrites {
    homes: Vec<u32>,
    uses: Uses,
}

impl LastWrites {
    pub(crate) fn of(trace: &Trace) -> Self {
        let homes: Vec<u32> = homes(trace, false).into_iter().map(|(home, ..)| home).collect();
        let uses = Uses::new(homes.iter().max().map_or(0, |last| *last as usize + 1));
        Self { homes, uses }
    }

    /// The writes that an operand's bytes are of, in their order, each once.
    pub(crate) fn behind(&mut self, operand: &TraceOperand) -> SmallVec<[u32; 4]> {
        let mut found: SmallVec<[u32; 4]> = SmallVec::new();
        let home = self.homes[operand.tensor as usize] as usize;
        self.uses.visit(home, &operand.rects, 0, false, &mut |write, _| {
            if found.last() != Some(&write) {
                found.push(write);
            }
        });
        if found.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// An operand is written.
    pub(crate) fn note(&mut self, operand: &TraceOperand, write: u32) {
        self.uses.note(self.homes[operand.tensor as usize] as usize, &operand.rects, write, true);
    }
}

/// For every operand of every step the writes that its bytes were of before the step; those of what is written too: what
/// a step that [leaves gaps](trn3_machine::trace::StepMarks::overwrites) leaves.
///
/// Writes are numbered in program order, the outputs of a step one after the other.
pub(crate) struct Producers {
    /// First write of each step, and how many there are.
    first_write: Vec<u32>,
    /// The step of each write.
    writers: Vec<u32>,
    /// First operand of each step, and how many there are.
    first_operand: Vec<u32>,
    /// Where those of each operand begin, and how many there are.
    offsets: Vec<u32>,
    writes: Vec<u32>,
}

impl Producers {
    pub(crate) fn of(trace: &Trace) -> Self {
        let steps = trace.steps.len();
        let mut found = Self {
            first_write: Vec::with_capacity(steps + 1),
            writers: Vec::with_capacity(steps),
            first_operand: Vec::with_capacity(steps + 1),
            offsets: Vec::with_capacity(3 * steps),
            writes: Vec::with_capacity(2 * steps),
        };
        let mut last = LastWrites::of(trace);
        for (number, step) in trace.steps.iter().enumerate() {
            found.first_write.push(found.writers.len() as u32);
            found.first_operand.push(found.offsets.len() as u32);
            for operand in &step.operands {
                found.offsets.push(found.writes.len() as u32);
                found.writes.extend(last.behind(operand));
            }
            for operand in step.writes() {
                last.note(operand, found.writers.len() as u32);
                found.writers.push(number as u32);
            }
        }
        found.first_write.push(found.writers.len() as u32);
        found.first_operand.push(found.offsets.len() as u32);
        found.offsets.push(found.writes.len() as u32);
        found
    }

    /// The writes that the bytes of a step's operand were of.
    pub(crate) fn behind(&self, step: usize, operand: usize) -> &[u32] {
        let at = self.first_operand[step] as usize + operand;
        &self.writes[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    /// Those behind all that a step needs of what was there: its inputs, and its outputs where it leaves gaps in them.
    pub(crate) fn needed<'a>(&'a self, trace: &'a Trace, step: usize) -> impl Iterator<Item = u32> + 'a {
        let operands = trace.steps[step].operands.iter().enumerate();
        let needed = operands.filter(move |(_, operand)| finds(trace, step, operand));
        needed.flat_map(move |(operand, _)| self.behind(step, operand).iter().copied())
    }

    /// The step of a write.
    pub(crate) fn writer(&self, write: u32) -> u32 {
        self.writers[write as usize]
    }

    /// The number of a step's first write.
    pub(crate) fn first_write(&self, step: u32) -> u32 {
        self.first_write[step as usize]
    }
}

/// Whether what an operand's bytes were before the step plays a part.
pub(crate) fn finds(trace: &Trace, step: usize, operand: &TraceOperand) -> bool {
    operand.usage != Use::Write || !trace.steps[step].marks.overwrites
}
