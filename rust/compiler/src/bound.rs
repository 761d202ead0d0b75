//! What no order of a trace's steps and no places of its tensors could beat.

use trn3_machine::engine::Engine;
use trn3_machine::time::Picos;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Trace, TraceStep};

use crate::dependences::{DependenceKind, Dependences};

/// The longer of the busiest engine and the longest chain of steps each of which needs a result of the one before.
pub(crate) fn lower_bound(trace: &Trace) -> Picos {
    let mut busy = [0u64; Engine::ALL.len()];
    for step in &trace.steps {
        busy[step.engine as usize] += slot(step).0;
    }
    let dependences = Dependences::of(trace);
    let mut ready = vec![0u64; trace.steps.len()];
    let mut longest = 0;
    for (number, step) in trace.steps.iter().enumerate() {
        let needed = dependences.before(number).iter().filter(|edge| edge.kind == DependenceKind::True);
        let start = needed.map(|edge| ready[edge.step as usize]).max().unwrap_or(0);
        ready[number] = start + latency(step).0;
        longest = longest.max(ready[number]);
    }
    Picos(busy.into_iter().max().unwrap_or(0).max(longest))
}

/// How long a step holds its engine.
pub(crate) fn slot(step: &TraceStep) -> Picos {
    match &step.work {
        Work::Compute { interval, .. } => *interval,
        Work::Matmul { multiply, .. } => *multiply,
        Work::Dma(_) | Work::Collective(_) => Picos(0),
    }
}

/// How long it takes until a step's result is there.
pub(crate) fn latency(step: &TraceStep) -> Picos {
    match &step.work {
        Work::Compute { latency, .. } => *latency,
        Work::Matmul { multiply_latency, .. } => *multiply_latency,
        Work::Dma(_) => Picos(0),
        Work::Collective(part) => part.duration,
    }
}
