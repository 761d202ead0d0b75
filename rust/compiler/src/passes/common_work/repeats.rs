//! Which steps give what an earlier one gave, and may be asked for it: those of the same loop.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Home, Trace, TraceOperand, Use};

use super::loops::Loops;
use crate::producers::{Producers, finds};

/// In the place of a home: bytes that nobody wrote, which the step does not look at.
const NOTHING: u64 = u64::MAX;

/// For every step the earlier one that gives the same.
pub(super) struct Repeats<'a> {
    trace: &'a Trace,
    producers: &'a Producers,
    /// The step itself where there is none.
    earlier: Vec<u32>,
    /// How many fences came before each step.
    fences: Vec<u32>,
}

/// What was found in a run of a loop.
struct Seen {
    step: u32,
    /// The last iteration in which it came, and in how many.
    last: u32,
    iterations: u32,
}

impl<'a> Repeats<'a> {
    pub(super) fn of(trace: &'a Trace, producers: &'a Producers) -> Self {
        let fences = trace.steps.iter().scan(0, |fences, step| {
            *fences += u32::from(step.marks.is_fence);
            Some(*fences)
        });
        let earlier = (0..trace.steps.len() as u32).collect();
        let mut found = Self { trace, producers, earlier, fences: fences.collect() };
        let loops = Loops::of(&trace.scopes);
        let mut at: Vec<u32> = Vec::new();
        let mut by_depth: Vec<Vec<u32>> = vec![Vec::new()];
        for (number, step) in trace.steps.iter().enumerate() {
            at.push(loops.within(step.scope));
            let depth = loops.depth(at[number]) as usize;
            if found.may_repeat(number) {
                by_depth.resize(by_depth.len().max(depth + 1), Vec::new());
                by_depth[depth].push(number as u32);
            }
        }
        let mut outside: Vec<u32> = Vec::new();
        for mut steps in by_depth.into_iter().rev() {
            steps.append(&mut outside);
            steps.sort_unstable();
            outside = found.look(&steps, &at, &loops);
            outside.iter().for_each(|&step| at[step as usize] = loops.around(at[step as usize]));
        }
        found
    }

    /// Looks for what repeats among the steps of loops that are equally deep; returns those that are the same in all
    /// iterations of their loop, of each the first one.
    fn look(&mut self, steps: &[u32], at: &[u32], loops: &Loops) -> Vec<u32> {
        let mut seen: HashMap<(u32, u64), Seen> = HashMap::with_capacity(steps.len());
        let mut past: Vec<(u32, Seen)> = Vec::new();
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for &step in steps {
            let (run, iteration) = loops.of_run(at[step as usize]);
            self.describe(step, &mut own);
            let mut hasher = DefaultHasher::new();
            own.iter().for_each(|word| hasher.write_u64(*word));
            let key = (run, hasher.finish());
            if let Some(known) = seen.get_mut(&key)
                && iteration <= known.last + 1
            {
                self.describe(known.step, &mut other);
                if own == other {
                    self.earlier[step as usize] = known.step;
                    known.iterations += u32::from(iteration > known.last);
                    known.last = known.last.max(iteration);
                    continue;
                }
            }
            if let Some(before) = seen.insert(key, Seen { step, last: iteration, iterations: 1 }) {
                past.push((run, before));
            }
        }
        let all = seen.into_iter().map(|((run, _), seen)| (run, seen)).chain(past);
        all.filter(|(run, seen)| *run != u32::MAX && seen.iterations == loops.trips(*run))
            .map(|(_, seen)| seen.step)
            .collect()
    }

    /// Whether a step always gives the same from the same, on chip alone, and reads nothing that was never written.
    fn may_repeat(&self, number: usize) -> bool {
        let step = &self.trace.steps[number];
        let home = |operand: &TraceOperand| self.trace.tensors[operand.tensor as usize].home;
        let is_on_chip = |operand: &TraceOperand| matches!(home(operand), Home::Open(_) | Home::Addressed(_));
        let marks = step.marks;
        let is_plain = !(marks.is_fence || marks.is_ordered || marks.is_dynamic || marks.draws || step.meets());
        let is_written = |(at, operand): (usize, &TraceOperand)| {
            !is_on_chip(operand)
                || operand.usage == Use::Write
                || !self.producers.behind(number, at).is_empty()
                || (marks.joins_products && writes(step.writes(), operand))
        };
        let is_product = |write: &u32| {
            let writer = &self.trace.steps[self.producers.writer(*write) as usize];
            matches!(writer.work, Work::Matmul { .. })
        };
        // Whether it adds to what no product made depends on what products made before that.
        let joins_alone = |(at, operand): (usize, &TraceOperand)| {
            let joins = operand.usage == Use::Read && writes(step.writes(), operand);
            !joins || self.producers.behind(number, at).iter().all(is_product)
        };
        step.fingerprint.is_some()
            && is_plain
            && step.writes().next().is_some()
            && step.writes().all(is_on_chip)
            && step.operands.iter().enumerate().all(is_written)
            && (!marks.joins_products || step.operands.iter().enumerate().all(joins_alone))
    }

    /// All that a step's results depend on, which are alike where that is.
    fn describe(&self, step: u32, words: &mut Vec<u64>) {
        words.clear();
        let (number, step) = (step as usize, &self.trace.steps[step as usize]);
        let accumulates = matches!(step.work, Work::Matmul { accumulates: true, .. });
        words.push(u64::from(step.opcode) << 16 | (step.engine as u64) << 8 | u64::from(accumulates));
        words.push(step.fingerprint.unwrap_or(0));
        for (at, operand) in step.operands.iter().enumerate() {
            words.push(operand.usage as u64);
            words.push(operand.offset as u64);
            for rect in &operand.rects {
                words.extend([rect.rows.start, rect.rows.end, rect.columns.start, rect.columns.end]);
            }
            let behind = self.producers.behind(number, at);
            let tensor = &self.trace.tensors[operand.tensor as usize];
            match tensor.open() {
                Some(buffer) if operand.usage == Use::Write => {
                    words.extend([buffer as u64, u64::from(tensor.partitions), tensor.bytes]);
                }
                // What is in a tile does not depend on which one it is.
                Some(_) if !behind.is_empty() => {}
                Some(_) => words.push(NOTHING),
                // Other cores may have written to HBM between fences.
                None => words.extend([operand.tensor, self.fences[number]].map(u64::from)),
            }
            if finds(self.trace, number, operand) {
                words.push(behind.len() as u64);
                words.extend(behind.iter().map(|write| u64::from(self.first_of(*write))));
            }
        }
    }

    /// The first step that gives what one gives.
    pub(super) fn first(&self, step: u32) -> u32 {
        let mut first = step;
        while self.earlier[first as usize] != first {
            first = self.earlier[first as usize];
        }
        first
    }

    /// The first write of what one writes.
    pub(super) fn first_of(&self, write: u32) -> u32 {
        let step = self.producers.writer(write);
        self.producers.first_write(self.first(step)) + write - self.producers.first_write(step)
    }

    /// Whether an earlier step gives the same.
    pub(super) fn repeats(&self, step: u32) -> bool {
        self.earlier[step as usize] != step
    }
}

fn writes<'a>(mut written: impl Iterator<Item = &'a TraceOperand>, operand: &TraceOperand) -> bool {
    written.any(|other| other.tensor == operand.tensor && other.rects == operand.rects)
}
