//! What no order of a trace's steps and no places of its tensors could beat.

use trn3_machine::engine::Engine;
use trn3_machine::time::Picos;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::Trace;

use crate::costs::{Costs, consumer, producer, sequencer};
use crate::dependences::{DependenceKind, Dependences};

/// The longest of the busiest engine, what transfers take of the DMA engines together and of HBM, and the longest chain of
/// steps each of which needs a result of the one before.
pub fn lower_bound(trace: &Trace) -> Picos {
    let mut costs = Costs::new(&trace.arch);
    let mut busy = [0u64; Engine::ALL.len()];
    let mut array = [0u64; u16::BITS as usize];
    let (mut engines, mut hbm) = (0.0f64, 0.0f64);
    for step in &trace.steps {
        let engine = match &step.work {
            Work::Compute { .. } => step.engine,
            Work::Dma(transfer) => {
                let (share, drawn) = costs.bandwidth(transfer);
                (engines, hbm) = (engines + share, hbm + drawn);
                sequencer(transfer)
            }
            // Passes over blocks of their own overlap.
            Work::Matmul { multiply, blocks, .. } => {
                let held = array.iter_mut().enumerate().filter(|(block, _)| blocks >> block & 1 == 1);
                held.for_each(|(_, busy)| *busy += multiply.0);
                continue;
            }
            // A more urgent one overtakes.
            Work::Collective(_) => continue,
        };
        busy[engine as usize] += costs.slot(step);
    }
    let dependences = Dependences::of(trace);
    let mut ends = vec![0u64; trace.steps.len()];
    let mut longest = 0;
    for (number, step) in trace.steps.iter().enumerate() {
        let needed = dependences.before(number).iter();
        let needed = needed.filter(|edge| matches!(edge.kind, DependenceKind::True | DependenceKind::Order));
        let there = |earlier: usize| {
            let hop = costs.hop(producer(&trace.steps[earlier]), consumer(step));
            ends[earlier] + hop
        };
        let start = needed.map(|edge| there(edge.step as usize)).max().unwrap_or(0);
        ends[number] = start + costs.latency(step);
        longest = longest.max(ends[number]);
    }
    let moved = Picos::from_nanoseconds(engines.max(hbm)).0;
    Picos(busy.into_iter().chain(array).max().unwrap_or(0).max(moved).max(longest))
}
