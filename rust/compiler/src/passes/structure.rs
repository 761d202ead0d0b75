//! Regular repetition is found, and ordered as bodies: what comes before, a few of them and what comes after are scheduled,
//! and the order of one in the middle is that of all that were left out.
//!
//! Every step stays after those that it depends on: the order of the bodies only says which of the steps that could be issued
//! comes first. The machine's own timeline takes the whole in both orders, and the one it got stays unless the other one is
//! faster. Nothing is repeated that the text does not have: the steps of all bodies are there, with places of their own.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use trn3_machine::Result;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{NONE, Trace, TraceStep};

use super::Pass;
use super::schedule::{as_it_is, best_order};
use crate::dependences::Dependences;
use crate::level::CompileLevel;
use crate::report::PassReport;

/// Finds repetition and orders it.
pub(super) struct StructurePass;

/// Bodies that are scheduled of a run of them.
const KEPT: usize = 16;
/// Bodies are left out by multiples of this: places that take turns by two, three, four, six or eight are then where they were.
const TURNS: usize = 24;
/// Steps that have to be left out for it to be worth while; fewer are scheduled as well one by one.
const WORTH: usize = 20_000;
/// How many steps that look like one are tried as its next one.
const GUESSES: usize = 64;

/// The same steps again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The first step.
    pub(super) first: usize,
    /// Steps of a body.
    pub(super) body: usize,
    /// How many bodies.
    pub(super) trips: usize,
}

impl Run {
    fn left_out(self) -> usize {
        self.trips.saturating_sub(KEPT) / TURNS * TURNS
    }

    /// The first step that is left out, behind half of the bodies that stay.
    fn cut(self) -> usize {
        self.first + self.body * (KEPT / 2)
    }
}

impl Pass for StructurePass {
    fn name(&self) -> &'static str {
        "structure"
    }

    fn levels(&self) -> &'static [CompileLevel] {
        &[CompileLevel::Nki, CompileLevel::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        let runs = runs(&trace.steps.iter().map(likeness).collect::<Vec<_>>(), 3);
        report.add("bodies", runs.len() as u64);
        report.add("trips", runs.iter().map(|run| run.trips as u64).sum());
        report.add("repeated_steps", runs.iter().map(|run| (run.body * run.trips) as u64).sum());
        let left_out = |run: &Run| run.left_out() * run.body;
        let runs: Vec<Run> = runs.into_iter().filter(|run| left_out(run) >= WORTH).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let order = order(trace, &runs);
        let before = as_it_is(trace);
        let backup: Vec<u32> = inverse(&order);
        trace.reorder(&order);
        let after = as_it_is(trace);
        if after < before {
            report.add("left_out_steps", runs.iter().map(|run| left_out(run) as u64).sum());
            report.add("saved_ps", before.0 - after.0);
        } else {
            trace.reorder(&backup);
        }
        Ok(())
    }
}

fn inverse(order: &[u32]) -> Vec<u32> {
    let mut inverse = vec![0; order.len()];
    for (now, &before) in order.iter().enumerate() {
        inverse[before as usize] = now as u32;
    }
    inverse
}

/// A number that steps share which do alike, wherever their operands are.
fn likeness(step: &TraceStep) -> u64 {
    let mut hasher = DefaultHasher::new();
    (step.opcode, step.engine, step.site, step.marks.is_fence).hash(&mut hasher);
    match &step.work {
        Work::Compute { interval, latency, table } => (interval, latency, table).hash(&mut hasher),
        Work::Matmul { multiply, blocks, accumulates, .. } => (multiply, blocks, accumulates).hash(&mut hasher),
        Work::Dma(transfer) => (transfer.trigger, transfer.route, transfer.rows, transfer.row_bytes).hash(&mut hasher),
        Work::Collective(part) => part.duration.hash(&mut hasher),
    }
    for operand in &step.operands {
        (operand.usage, operand.rects.len()).hash(&mut hasher);
    }
    hasher.finish()
}

/// Runs of so many bodies at least, from first to last; of nested ones the innermost that is long enough.
pub(super) fn runs(likeness: &[u64], trips: usize) -> Vec<Run> {
    let mut next = vec![NONE; likeness.len()];
    let mut seen: HashMap<u64, u32> = HashMap::new();
    for (at, &like) in likeness.iter().enumerate().rev() {
        next[at] = seen.insert(like, at as u32).unwrap_or(NONE);
    }
    let mut runs = Vec::new();
    let mut first = 0;
    while first < likeness.len() {
        let (mut best, mut farthest) = (None::<Run>, 0);
        let mut again = next[first];
        for _ in 0..GUESSES {
            if again == NONE {
                break;
            }
            let body = again as usize - first;
            let same =
                likeness[first..].iter().zip(&likeness[again as usize..]).take_while(|(one, other)| one == other);
            let alike = same.count();
            farthest = farthest.max(alike);
            let run = Run { first, body, trips: alike / body + 1 };
            if run.trips >= trips && best.is_none_or(|best| run.trips * run.body > 2 * best.trips * best.body) {
                best = Some(run);
                if run.left_out() * run.body >= WORTH {
                    break;
                }
            }
            again = next[again as usize];
        }
        match best {
            Some(run) => {
                runs.push(run);
                first += run.body * run.trips;
            }
            // What begins inside of what is alike for a while is alike for less.
            None => first += 1 + farthest / 8,
        }
    }
    runs
}

/// An order of all steps, of which bodies that are left out take that of one in the middle.
fn order(trace: &Trace, runs: &[Run]) -> Vec<u32> {
    let mut kept = Vec::new();
    let mut from = 0;
    for run in runs {
        kept.extend(from as u32..run.cut() as u32);
        from = run.cut() + run.left_out() * run.body;
    }
    kept.extend(from as u32..trace.steps.len() as u32);
    let part = part(trace, &kept);
    let chosen = best_order(&part, &Dependences::placed(&part)).order;
    let turns = inverse(&chosen);

    // A body more takes as many turns as it has steps.
    let mut turn = vec![0u64; trace.steps.len()];
    let (mut at, mut later, mut from) = (0usize, 0u64, 0usize);
    for run in runs {
        for step in from..run.cut() {
            turn[step] = later + u64::from(turns[at]);
            at += 1;
        }
        let left_out = run.left_out() * run.body;
        for step in 0..left_out {
            let (body, offset) = (step / run.body + 1, step % run.body);
            turn[run.cut() + step] = later + u64::from(turns[at - run.body + offset]) + (body * run.body) as u64;
        }
        later += left_out as u64;
        from = run.cut() + left_out;
    }
    for step in from..trace.steps.len() {
        turn[step] = later + u64::from(turns[at]);
        at += 1;
    }
    by_turn(&Dependences::placed(trace), &turn)
}

/// Some steps of a trace, as one of their own.
fn part(trace: &Trace, kept: &[u32]) -> Trace {
    let mut part = Trace::new(std::sync::Arc::clone(&trace.arch));
    part.tensors.clone_from(&trace.tensors);
    part.places.clone_from(&trace.places);
    part.draws = trace.draws;
    part.steps = kept.iter().map(|&step| trace.steps[step as usize].clone()).collect();
    for step in &mut part.steps {
        step.after.retain(|producer| match kept.binary_search(producer) {
            Ok(place) => {
                *producer = place as u32;
                true
            }
            Err(_) => false,
        });
    }
    part
}

/// The steps by their turns, each after those that it depends on.
fn by_turn(dependences: &Dependences, turn: &[u64]) -> Vec<u32> {
    let followers = dependences.followers();
    let mut missing: Vec<u32> = (0..turn.len()).map(|step| dependences.before(step).len() as u32).collect();
    let key = |step: usize| Reverse((dependences.segment(step), turn[step], step as u32));
    let mut free: BinaryHeap<_> = (0..turn.len()).filter(|&step| missing[step] == 0).map(key).collect();
    let mut order = Vec::with_capacity(turn.len());
    while let Some(Reverse((.., step))) = free.pop() {
        order.push(step);
        for edge in followers.after(step as usize) {
            let next = edge.step as usize;
            missing[next] -= 1;
            if missing[next] == 0 {
                free.push(key(next));
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn test_runs_are_found_where_they_are(
            head in prop::collection::vec(100u64..200, 0..9),
            body in 1usize..9,
            trips in 3usize..9,
            tail in prop::collection::vec(200u64..300, 0..9),
        ) {
            let bodies = (0..trips).flat_map(|_| 0..body as u64);
            let mut likeness: Vec<u64> = head.iter().copied().zip(1000..).map(|(one, turn)| one * turn).collect();
            likeness.extend(bodies);
            likeness.extend(tail.iter().copied().zip(5000..).map(|(one, turn)| one * turn));
            prop_assert_eq!(runs(&likeness, 3), [Run { first: head.len(), body, trips }]);
        }

        #[test]
        fn test_what_is_found_repeats(likeness in prop::collection::vec(0u64..3, 0..200)) {
            let mut end = 0;
            for run in runs(&likeness, 3) {
                prop_assert!(run.first >= end && run.trips >= 3);
                end = run.first + run.body * run.trips;
                prop_assert!((run.first..end - run.body).all(|at| likeness[at] == likeness[at + run.body]));
            }
        }
    }
}
