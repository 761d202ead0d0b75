//! Instructions whose edges are known, run once more: what they wait for is said, not looked for.

use super::running::Ran;
use super::{Stream, Timeline, sequencer};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::issue::TimedInstruction;
use crate::timing::ports::PortUse;
use crate::timing::record::{Cause, Finished, NO_INSTRUCTION};
use crate::timing::tensor_array::{Bound, Pass};
use crate::timing::work::Work;

/// What the instruction under way waits for.
#[derive(Clone, Copy, Debug)]
pub(in crate::timing) struct GivenBounds {
    pub(super) stationary: Bound,
    pub(super) dependencies: Bound,
    pub(super) ports: PortUse,
}

/// An instruction that is run once more.
pub(in crate::timing) struct ReplayedStep<'a> {
    pub(in crate::timing) work: &'a Work,
    pub(in crate::timing) engine: Engine,
    pub(in crate::timing) dynamic: bool,
    pub(in crate::timing) ports: PortUse,
    /// When what it uses is free, the engine whose it was, and whether the load of its stationary operand waits alone.
    pub(in crate::timing) uses: &'a [(u64, Engine, bool)],
    /// Numbers of those that it comes after, where transfers have classes.
    pub(in crate::timing) after: &'a [u32],
    /// It starts no sooner.
    pub(in crate::timing) floor: u64,
    /// Where cores met: the last of the others, and the hop.
    pub(in crate::timing) meeting: Option<(u64, Picos)>,
}

/// When it ran.
#[derive(Clone, Copy, Debug)]
pub(in crate::timing) struct ReplayedSpan {
    pub(in crate::timing) start: u64,
    pub(in crate::timing) ready: u64,
    pub(in crate::timing) slot_end: u64,
    pub(in crate::timing) end: u64,
    pub(in crate::timing) stationary_end: u64,
}

impl Timeline {
    /// Runs an instruction of a run once more.
    pub(in crate::timing) fn replay(&mut self, step: &ReplayedStep<'_>) -> ReplayedSpan {
        let (span, engine) = self.rerun(step);
        self.replayed(span.end, engine);
        span
    }

    /// As [`Timeline::replay`], for a caller who keeps the ends: no number is given.
    pub(in crate::timing) fn rerun(&mut self, step: &ReplayedStep<'_>) -> (ReplayedSpan, Engine) {
        let id = self.next_id();
        let consumer = match step.work {
            Work::Compute { .. } => step.engine,
            Work::Matmul { .. } => Engine::Tensor,
            Work::Dma(transfer) if transfer.trigger.is_some() => sequencer(transfer),
            Work::Dma(_) | Work::Collective(_) => Engine::Dma,
        };
        let mut bounds = [Bound::START; 2];
        for &(end, engine, stationary) in step.uses {
            let at = end.saturating_add(self.hops.from(engine, consumer));
            bounds[usize::from(stationary)].raise(at, Cause::DependsOn, NO_INSTRUCTION);
        }
        bounds[0].raise(step.floor, Cause::DependsOn, NO_INSTRUCTION);
        let [dependencies, stationary] = bounds;
        self.given = Some(GivenBounds { stationary, dependencies, ports: step.ports });
        let ready = dependencies.at.max(stationary.at);
        let floor = step.meeting.map_or(Bound::START, |(latest, hop)| Bound {
            at: latest.saturating_add(hop.0),
            cause: Cause::DependsOn,
            on: NO_INSTRUCTION,
        });
        let issue = TimedInstruction {
            opcode: 0,
            engine: step.engine,
            site: Default::default(),
            label: 0,
            work: Work::Compute { interval: Picos::ZERO, latency: Picos::ZERO, table: None },
            reads: &[],
            stationary_reads: &[],
            writes: &[],
            after: step.after,
            dynamic: step.dynamic,
            macs: 0,
            peak_macs_per_cycle: 0,
        };
        let ran = match step.work {
            Work::Compute { interval, latency, table } => {
                self.compute(id, &issue, interval.0, latency.0, *table, floor)
            }
            Work::Matmul { load, load_latency, multiply, multiply_latency, blocks, accumulates } => {
                let dynamic = if step.dynamic { self.hops.dynamic[Engine::Tensor as usize] } else { 0 };
                let pass = Pass {
                    load: load.0,
                    load_latency: load_latency.0.max(load.0),
                    multiply: multiply.0.max(dynamic),
                    multiply_latency: multiply_latency.0.max(multiply.0).max(dynamic),
                    blocks: *blocks,
                };
                self.matmul(id, &issue, pass, *accumulates)
            }
            Work::Dma(transfer) => self.transfer(id, &issue, transfer, floor),
            Work::Collective(part) => self.collective(id, &issue, part, floor),
        };
        let Ran { start, slot_end, end, stationary_end, engine, .. } = ran;
        (ReplayedSpan { start, ready, slot_end, end, stationary_end }, engine)
    }

    pub(in crate::timing) fn next_number(&self) -> u32 {
        self.next_id()
    }

    /// What comes after an instruction that takes no time, and holds nothing, may start then.
    pub(in crate::timing) fn replayed(&mut self, end: u64, engine: Engine) {
        self.finished.push(Finished { end, engine });
        self.lasts_until(end);
    }

    /// Until all had done their part where cores met, this core's instruction goes on.
    pub(in crate::timing) fn replayed_until(&mut self, end: u64) {
        if let Some(last) = self.finished.len().checked_sub(1) {
            self.finished.change(last, |last| last.end = last.end.max(end));
            self.lasts_until(end);
        }
    }

    /// Lets transfers stand that one of these comes after.
    pub(in crate::timing) fn stand_before(&mut self, after: &[u32]) {
        if self.overtaking.as_ref().is_some_and(|overtaking| overtaking.asked_after(after)) {
            self.stand();
        }
    }

    /// When an instruction was done that ran again, and on what.
    pub(in crate::timing) fn replayed_end(&self, id: u32) -> (u64, Engine) {
        let Finished { end, engine } = self.finished.at(id as usize);
        (end, engine)
    }

    /// Lets an engine begin what comes next as if nothing had come before.
    pub(in crate::timing) fn forget_queue(&mut self, engine: Engine) {
        self.streams[engine as usize] = Stream { free: 0, last: NO_INSTRUCTION };
        if engine == Engine::Tensor {
            self.tensor.forget();
        }
    }

    /// Lets its queues issue transfers as fast as engines move them.
    pub(in crate::timing) fn without_dma_floor(&mut self) {
        self.dma.without_floor();
    }
}
