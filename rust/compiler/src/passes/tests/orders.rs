//! The order in which steps start while what they hold fits, step by step from what the rule says, and found by the scheduler.

use proptest::prelude::*;
use trn3_machine::timing::work::{Transfer, Work};
use trn3_machine::trace::{StepTimer, Trace};

use super::kernels::{kernels, trace};
use crate::costs::{Costs, consumer, producer, sequencer};
use crate::dependences::Dependences;
use crate::passes::held::Held;
use crate::passes::schedule::order_within;
use crate::webs::Webs;

/// What one of each can run at a time: an engine, a queue, or whatever queue the machine chooses.
fn stream(trace: &Trace, step: usize) -> usize {
    match &trace.steps[step].work {
        Work::Dma(Transfer { trigger: None, .. }) => usize::MAX,
        Work::Dma(transfer) => sequencer(transfer) as usize,
        _ => producer(&trace.steps[step]) as usize,
    }
}

/// Of all steps that need nothing more and have room, or are the oldest, the one whose stream can start one first; of that
/// stream's the oldest.
fn plain(trace: &Trace, webs: &Webs, parts: u64) -> Vec<u32> {
    let (dependences, costs) = (Dependences::placed(trace), Costs::new(&trace.arch));
    let (mut held, mut timer) = (Held::new(trace, webs, parts), StepTimer::new(trace));
    let steps = trace.steps.len();
    let (mut ends, mut order) = (vec![None; steps], Vec::new());
    let mut free = std::collections::BTreeMap::<usize, u64>::new();
    while order.len() < steps {
        let left: Vec<usize> = (0..steps).filter(|&step| ends[step].is_none()).collect();
        let (oldest, segment) = (left[0], dependences.segment(left[0]));
        let can = |&&step: &&usize| {
            dependences.segment(step) == segment
                && dependences.before(step).iter().all(|edge| ends[edge.step as usize].is_some())
                && (step == oldest || held.lacking(step as u32).is_none())
        };
        let ready = |step: usize| {
            let waited = dependences.before(step).iter().filter(|edge| edge.kind.waits());
            let there = waited.map(|edge| {
                let earlier = edge.step as usize;
                ends[earlier].unwrap_or(0) + costs.hop(producer(&trace.steps[earlier]), consumer(&trace.steps[step]))
            });
            there.max().unwrap_or(0)
        };
        let start = |step: usize| free.get(&stream(trace, step)).copied().unwrap_or(0).max(ready(step));
        // The machine's order of the streams decides between those that can start at the same time.
        let first = left.iter().filter(can).map(|&step| (start(step), stream(trace, step))).min();
        let (now, chosen) = first.expect("the oldest step can always go");
        let of_it = |step: &&usize| stream(trace, **step) == chosen && start(**step) == now;
        let step = *left.iter().filter(can).find(of_it).expect("the one that starts then");
        let span = timer.issue(step);
        let frees = match &trace.steps[step].work {
            Work::Dma(transfer) if transfer.trigger.is_none() => now + costs.pace(transfer),
            Work::Dma(_) => now + costs.slot(&trace.steps[step]),
            _ => span.slot_end.0,
        };
        free.insert(chosen, frees);
        held.take(step as u32);
        ends[step] = Some(span.end.0);
        order.push(step as u32);
    }
    order
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn test_steps_that_wait_for_room_go_in_the_order_of_the_rule(kernel in kernels(), parts in 1u64..5) {
        let trace = trace(&kernel);
        let webs = Webs::of(&trace);
        prop_assert_eq!(order_within(&trace, &webs, parts), plain(&trace, &webs, parts));
    }
}
