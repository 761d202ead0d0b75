//! What each kind of engine makes of an instruction: when it starts, what it waited for, how long it holds what it runs on.

use super::{Stream, Timeline, sequencer};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::hazard::Waits;
use crate::timing::issue::TimedInstruction;
use crate::timing::ports::PortUse;
use crate::timing::record::{Cause, NO_QUEUE, TriggerRecord};
use crate::timing::tensor_array::{Bound, Pass};
use crate::timing::work::{CollectivePart, DescriptorMode, Transfer};

/// What the engine's own model says of an instruction.
pub(super) struct Ran {
    pub(super) engine: Engine,
    pub(super) queue: u16,
    pub(super) issued: u64,
    pub(super) start: u64,
    pub(super) slot_end: u64,
    pub(super) end: u64,
    /// End of the reads of a stationary operand.
    pub(super) stationary_end: u64,
    pub(super) wait: u64,
    pub(super) cause: Cause,
    pub(super) waited_on: u32,
    pub(super) dma_bytes: u64,
    /// What bound it: the cause, the instruction behind it, and whether that is bandwidth.
    pub(super) bound: (Cause, u32, bool),
    pub(super) ports: PortUse,
}

impl Timeline {
    pub(super) fn compute(
        &mut self,
        id: u32,
        issue: &TimedInstruction,
        interval: u64,
        latency: u64,
        table: Option<u16>,
        floor: Bound,
    ) -> Ran {
        let engine = issue.engine;
        let free = self.free(engine);
        let mut bound = free;
        if engine == Engine::Scalar && table.is_some() && table != self.table {
            self.table = table;
            bound.raise(free.at.saturating_add(self.hops.table_load), Cause::TableLoad, free.on);
        }
        bound.latest(self.dependencies(issue, engine, false));
        let ports = self.given.as_ref().map_or_else(|| self.ports.used(issue), |given| given.ports);
        self.ports.wait(engine, ports, &mut bound);
        bound.latest(floor);
        let dynamic = if issue.dynamic { self.hops.dynamic[engine as usize] } else { 0 };
        let start = bound.at;
        let slot_end = start.saturating_add(interval.max(dynamic));
        let end = start.saturating_add(latency).max(slot_end);
        self.ports.hold(engine, ports, slot_end, id);
        if engine == Engine::Tensor {
            self.tensor.hold(id, slot_end);
        }
        self.streams[engine as usize] = Stream { free: slot_end, last: id };
        Ran {
            engine,
            queue: NO_QUEUE,
            issued: start,
            start,
            slot_end,
            end,
            stationary_end: end,
            wait: start - free.at,
            cause: bound.cause,
            waited_on: bound.on,
            dma_bytes: 0,
            bound: (bound.cause, bound.on, false),
            ports,
        }
    }

    /// What the load of a stationary operand waits for.
    fn stationary(&mut self, issue: &TimedInstruction) -> Bound {
        if let Some(given) = &self.given {
            return given.stationary;
        }
        let mut waits = Waits::keeping(self.graph.is_some());
        for region in issue.stationary_reads {
            self.hazards.before_read(region, None, &mut waits);
        }
        let mut bound = self.hops.bound(&waits, Engine::Tensor);
        bound.latest(self.edges(issue, Engine::Tensor));
        self.note_waits(issue, &waits, bound, true);
        bound
    }

    pub(super) fn matmul(&mut self, id: u32, issue: &TimedInstruction, pass: Pass, accumulates: bool) -> Ran {
        let stationary = self.stationary(issue);
        let moving = self.dependencies(issue, Engine::Tensor, accumulates);
        let placed = self.tensor.run(id, pass, stationary, moving);
        Ran {
            engine: Engine::Tensor,
            queue: NO_QUEUE,
            issued: placed.load_start,
            start: placed.start.at,
            slot_end: placed.slot_end,
            end: placed.end,
            stationary_end: placed.load_end,
            wait: placed.wait,
            cause: placed.start.cause,
            waited_on: placed.start.on,
            dma_bytes: 0,
            bound: (placed.start.cause, placed.start.on, false),
            ports: PortUse::default(),
        }
    }

    pub(super) fn transfer(&mut self, id: u32, issue: &TimedInstruction, transfer: &Transfer, floor: Bound) -> Ran {
        let software = transfer.mode == DescriptorMode::Software;
        let sequencer = sequencer(transfer);
        let free = self.free(sequencer);
        let mut trigger = free;
        let consumer = if transfer.trigger.is_some() { sequencer } else { Engine::Dma };
        let dependencies = self.dependencies(issue, consumer, false);
        if transfer.trigger.is_some() {
            trigger.latest(dependencies);
        }
        let quick = software || sequencer == Engine::GpSimd;
        let mut interval = if quick { self.hops.trigger_gpsimd } else { self.hops.trigger };
        if issue.dynamic {
            interval = interval.max(self.hops.dynamic[sequencer as usize]);
        }
        let slot_end = trigger.at.saturating_add(interval);
        self.streams[sequencer as usize] = Stream { free: slot_end, last: id };
        if sequencer == Engine::Tensor {
            self.tensor.hold(id, slot_end);
        }
        let mut ready = trigger;
        ready.latest(dependencies);
        ready.latest(floor);
        let ready = self.dma.generate(id, transfer, ready);
        let moved = self.serve(id, issue, transfer, ready, slot_end);
        if self.options.keep_records {
            self.triggers.push(TriggerRecord {
                id,
                engine: sequencer,
                start: Picos(trigger.at),
                slot_end: Picos(slot_end),
                wait: Picos(trigger.at - free.at),
                cause: trigger.cause,
            });
        }
        let end = moved.end.max(slot_end);
        Ran {
            engine: Engine::Dma,
            queue: moved.queue,
            issued: trigger.at,
            start: moved.start,
            slot_end: end,
            end,
            stationary_end: end,
            wait: moved.wait,
            cause: moved.cause,
            waited_on: moved.waited_on,
            dma_bytes: moved.bytes,
            bound: moved.bound,
            ports: PortUse::default(),
        }
    }

    pub(super) fn collective(&mut self, id: u32, issue: &TimedInstruction, part: &CollectivePart, floor: Bound) -> Ran {
        self.stand();
        let free = self.collectives.free(part.priority);
        let mut bound = free;
        bound.latest(self.dependencies(issue, Engine::Dma, false));
        bound.latest(floor);
        let mut end = bound.at.saturating_add(part.duration.0);
        if let Some(shared) = &mut self.dma.shared {
            let bytes = part.hbm_read.saturating_add(part.hbm_write);
            end = shared.draw(bound.at, end, bytes, bytes as f64 / part.duration.0.max(1) as f64);
        }
        self.collectives.hold(part.priority, bound.at, end - bound.at, id);
        Ran {
            engine: Engine::Dma,
            queue: self.collective_queue(part.priority),
            issued: bound.at,
            start: bound.at,
            slot_end: end,
            end,
            stationary_end: end,
            wait: bound.at - free.at,
            cause: bound.cause,
            waited_on: bound.on,
            dma_bytes: part.bytes,
            bound: (bound.cause, bound.on, false),
            ports: PortUse::default(),
        }
    }
}
