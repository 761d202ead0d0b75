//! When each instruction runs: every engine in program order, hazards and resources as the machine has them.

use std::collections::HashSet;
use std::sync::Arc;

use super::dma::{DmaEngines, Queue};
use super::hazard::{Access, Hazards, Waits};
use super::hops::Hops;
pub use super::issue::{Issue, Span, TimelineOptions};
use super::ports::SharedPorts;
use super::record::{Cause, NO_INSTRUCTION, NO_QUEUE, Record, TransferRecord, TriggerRecord};
use super::region::{Region, Space};
use super::service::Collectives;
use super::tensor_array::{Bound, Pass, TensorArray};
use super::work::{CollectivePart, DescriptorMode, Transfer, Work};
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::time::Picos;

const ENGINES: usize = Engine::ALL.len();

/// The machine's time: takes instructions in program order and says when each runs.
///
/// **(choice)** ScalarE's table loads are instructions of their own, issued just before the one that needs the table:
/// they take the issue slot and wait for nothing. The first instruction that needs a table loads it.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::engine::Engine;
/// use trn3_machine::site::SiteId;
/// use trn3_machine::time::Picos;
/// use trn3_machine::timing::timeline::{Issue, Timeline, TimelineOptions};
/// use trn3_machine::timing::work::Work;
///
/// let mut timeline = Timeline::new(Arc::new(ArchSpec::load("trn3")?), TimelineOptions::default());
/// let work = Work::Compute { interval: Picos(60_000), latency: Picos(180_000), table: None };
/// let issue = Issue {
///     opcode: 0, engine: Engine::Vector, site: SiteId(0), label: 0, work, reads: &[], stationary_reads: &[],
///     writes: &[], after: &[], dynamic: false, macs: 0, peak_macs_per_cycle: 0,
/// };
/// timeline.issue(&issue);
/// assert_eq!(timeline.issue(&issue).start, Picos(60_000));
/// assert_eq!(timeline.makespan(), Picos(240_000));
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Debug)]
pub struct Timeline {
    options: TimelineOptions,
    hops: Hops,
    hazards: Hazards,
    streams: [Stream; ENGINES],
    table: Option<u16>,
    tensor: TensorArray,
    dma: DmaEngines,
    collectives: Collectives,
    ports: SharedPorts,
    /// End and engine of every instruction: what `after` refers to.
    finished: Vec<(u64, Engine)>,
    records: Vec<Record>,
    transfers: Vec<TransferRecord>,
    triggers: Vec<TriggerRecord>,
    makespan: u64,
    last_to_end: u32,
    /// What other cores have to know when they meet this one; None on a core of its own.
    shared: Option<Shared>,
    /// When it began, after the start that cores which meet count from.
    origin: u64,
}

/// Uses of HBM that several cores reach.
#[derive(Debug, Default)]
struct Shared {
    /// Numbers of the storages.
    tensors: HashSet<u64>,
    /// Uses since the cores last met: of what, until when, and whether it was written.
    uses: Vec<(Region, u64, bool)>,
}

/// An engine's issue slot.
#[derive(Clone, Copy, Debug)]
struct Stream {
    free: u64,
    last: u32,
}

/// The engine whose issue slot triggers a transfer.
fn sequencer(transfer: &Transfer) -> Engine {
    match transfer.trigger {
        Some(Engine::Dma) => Engine::Sync,
        Some(engine) => engine,
        None if transfer.mode == DescriptorMode::Software => Engine::GpSimd,
        None => Engine::Sync,
    }
}

/// What the engine's own model says of an instruction.
struct Ran {
    engine: Engine,
    queue: u16,
    issued: u64,
    start: u64,
    slot_end: u64,
    end: u64,
    /// End of the reads of a stationary operand.
    stationary_end: u64,
    wait: u64,
    cause: Cause,
    waited_on: u32,
    dma_bytes: u64,
}

impl Timeline {
    /// An empty timeline of a machine.
    pub fn new(arch: Arc<ArchSpec>, options: TimelineOptions) -> Self {
        Self {
            options,
            hops: Hops::new(&arch),
            hazards: Hazards::default(),
            streams: [Stream { free: 0, last: NO_INSTRUCTION }; ENGINES],
            table: None,
            tensor: TensorArray::new(&arch, options.throttle),
            dma: DmaEngines::new(&arch),
            collectives: Collectives::default(),
            ports: SharedPorts::new(&arch),
            finished: Vec::new(),
            records: Vec::new(),
            transfers: Vec::new(),
            triggers: Vec::new(),
            makespan: 0,
            last_to_end: NO_INSTRUCTION,
            shared: None,
            origin: 0,
        }
    }

    /// Says how long after that of others this core's time begins: those that it meets count from another start.
    pub fn begin_after(&mut self, origin: Picos) {
        self.origin = origin.0;
    }

    /// Runs the next instruction of the program.
    pub fn issue(&mut self, issue: &Issue) -> Span {
        let id = self.next_id();
        let ran = match &issue.work {
            Work::Compute { interval, latency, table } => {
                self.compute(id, issue, interval.0, latency.0, *table, Bound::START)
            }
            Work::Matmul { load, load_latency, multiply, multiply_latency, blocks, accumulates } => {
                let dynamic = if issue.dynamic { self.hops.dynamic[Engine::Tensor as usize] } else { 0 };
                let pass = Pass {
                    load: load.0,
                    load_latency: load_latency.0.max(load.0),
                    multiply: multiply.0.max(dynamic),
                    multiply_latency: multiply_latency.0.max(multiply.0).max(dynamic),
                    blocks: *blocks,
                };
                self.matmul(id, issue, pass, *accumulates)
            }
            Work::Dma(transfer) => self.transfer(id, issue, transfer, Bound::START),
            Work::Collective(part) => self.collective(id, issue, part, Bound::START),
        };
        let accumulates = matches!(issue.work, Work::Matmul { accumulates: true, .. });
        self.finish(id, issue, &ran, accumulates);
        Span { id, start: Picos(ran.start), slot_end: Picos(ran.slot_end), end: Picos(ran.end) }
    }

    /// Lets this core know an HBM tensor that other cores reach too: uses of it are ordered where the cores meet.
    pub fn share(&mut self, storage: u64) {
        self.shared.get_or_insert_default().tensors.insert(storage);
    }

    /// Runs an instruction that cores run together: on each, it starts no sooner than `hop` after it could start on every
    /// other, and its result is visible when the last of them is done. What a core did to HBM before, the others wait for
    /// from here on where they use the same bytes.
    ///
    /// Work is what a core does itself: computing, or its half of an exchange.
    pub fn meet(cores: &mut [(&mut Timeline, Issue<'_>)], hop: Picos) -> Vec<Span> {
        let spans = Self::rendezvous(cores, hop, Cause::Core);
        Self::order_shared(cores, &spans);
        spans
    }

    /// Runs an instruction that cores run together, as [`Timeline::meet`], and orders nothing else: cores that share no
    /// HBM. Those that came sooner wait for `cause`.
    pub fn rendezvous(cores: &mut [(&mut Timeline, Issue<'_>)], hop: Picos, cause: Cause) -> Vec<Span> {
        let arrivals: Vec<Bound> = cores.iter().map(|(timeline, issue)| timeline.arrival(issue)).collect();
        let origins: Vec<u64> = cores.iter().map(|(timeline, _)| timeline.origin).collect();
        let mut ran = Vec::with_capacity(cores.len());
        for (number, (timeline, issue)) in cores.iter_mut().enumerate() {
            let others = arrivals.iter().enumerate().filter(|(other, _)| *other != number);
            let latest = others.map(|(other, arrival)| arrival.at.saturating_add(origins[other])).max().unwrap_or(0);
            let latest = latest.saturating_sub(timeline.origin);
            let own = arrivals[number];
            // Of cores that come at one moment, each one's own past is as good a reason.
            let (cause, on) = if own.at >= latest { (own.cause, own.on) } else { (cause, NO_INSTRUCTION) };
            let floor = Bound { at: latest.saturating_add(hop.0), cause, on };
            let id = timeline.next_id();
            ran.push(match &issue.work {
                Work::Compute { interval, latency, table } => {
                    timeline.compute(id, issue, interval.0, latency.0, *table, floor)
                }
                Work::Dma(transfer) => timeline.transfer(id, issue, transfer, floor),
                Work::Collective(part) => timeline.collective(id, issue, part, floor),
                // No instruction that cores run together is a matmul.
                Work::Matmul { multiply, .. } => timeline.compute(id, issue, multiply.0, multiply.0, None, floor),
            });
        }
        let ends = ran.iter().zip(&origins).map(|(ran, origin)| ran.end.saturating_add(*origin));
        let end = ends.max().unwrap_or(0);
        let mut spans = Vec::with_capacity(cores.len());
        for ((timeline, issue), ran) in cores.iter_mut().zip(&mut ran) {
            let end = end.saturating_sub(timeline.origin);
            ran.end = end;
            let id = timeline.next_id();
            timeline.finish(id, issue, ran, false);
            spans.push(Span { id, start: Picos(ran.start), slot_end: Picos(ran.slot_end), end: Picos(end) });
        }
        spans
    }

    /// Makes what each core did to HBM before come before what the others do to the same bytes from here on.
    pub fn order_shared(cores: &mut [(&mut Timeline, Issue<'_>)], spans: &[Span]) {
        let uses: Vec<_> = cores
            .iter_mut()
            .map(|(timeline, _)| timeline.shared.as_mut().map(|shared| std::mem::take(&mut shared.uses)))
            .collect();
        for (number, (timeline, _)) in cores.iter_mut().enumerate() {
            let others = uses.iter().enumerate().filter(|(other, _)| *other != number);
            for (region, end, writes) in others.filter_map(|(_, uses)| uses.as_ref()).flatten() {
                let access = Access { end: *end, id: spans[number].id, engine: Engine::Dma };
                if *writes {
                    timeline.hazards.write(region, access, false);
                } else {
                    timeline.hazards.read(region, access);
                }
            }
        }
    }

    fn next_id(&self) -> u32 {
        u32::try_from(self.finished.len()).unwrap_or(NO_INSTRUCTION - 1)
    }

    /// When an instruction could start by what its own core knows.
    fn arrival(&self, issue: &Issue) -> Bound {
        let (mut bound, consumer) = match &issue.work {
            Work::Dma(transfer) => (self.free(sequencer(transfer)), transfer.trigger.unwrap_or(Engine::Dma)),
            Work::Collective(part) => (self.collectives.free(part.priority), Engine::Dma),
            _ => (self.free(issue.engine), issue.engine),
        };
        bound.latest(self.dependencies(issue, consumer, false));
        bound
    }

    /// When an engine's issue slot is free.
    fn free(&self, engine: Engine) -> Bound {
        match engine {
            Engine::Tensor => self.tensor.free(),
            _ => Bound::order(self.streams[engine as usize].free, self.streams[engine as usize].last),
        }
    }

    /// When the last result is visible.
    pub fn makespan(&self) -> Picos {
        Picos(self.makespan)
    }

    /// All instructions, by number; none if records are not kept.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// What each DMA engine moved, in program order; nothing if records are not kept.
    pub fn transfers(&self) -> &[TransferRecord] {
        &self.transfers
    }

    /// The issue slots that triggering transfers took, in program order; nothing if records are not kept.
    pub fn triggers(&self) -> &[TriggerRecord] {
        &self.triggers
    }

    /// The DMA queues used so far; [`Record::queue`] is an index into them.
    pub fn queues(&self) -> &[Queue] {
        self.dma.queues()
    }

    /// The instructions that set the makespan, first to last, each having waited on the one before; empty if records
    /// are not kept.
    pub fn critical_path(&self) -> Vec<u32> {
        super::stall::critical_path(&self.records, self.last_to_end)
    }

    /// Drops what is known of a memory that nothing will touch again: an HBM tensor that is gone, a register. SBUF and
    /// PSUM bytes that are freed must not be dropped: their next owner still waits for their last users.
    pub fn forget(&mut self, space: Space) {
        self.hazards.forget(space);
    }

    /// What an instruction's bytes and edges wait for.
    fn dependencies(&self, issue: &Issue, consumer: Engine, accumulates: bool) -> Bound {
        let mut waits = Waits::default();
        for region in issue.reads {
            let own = (accumulates && region.space == Space::Psum).then_some(Engine::Tensor);
            self.hazards.before_read(region, own, &mut waits);
        }
        for region in issue.writes {
            let own = (accumulates && region.space == Space::Psum).then_some(Engine::Tensor);
            self.hazards.before_write(region, own, &mut waits);
        }
        let mut bound = self.hops.bound(&waits, consumer);
        bound.latest(self.edges(issue, consumer));
        bound
    }

    fn edges(&self, issue: &Issue, consumer: Engine) -> Bound {
        let mut bound = Bound::START;
        for &producer in issue.after {
            if let Some(&(end, engine)) = self.finished.get(producer as usize) {
                bound.raise(end.saturating_add(self.hops.from(engine, consumer)), Cause::DependsOn, producer);
            }
        }
        bound
    }

    fn compute(
        &mut self,
        id: u32,
        issue: &Issue,
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
        self.ports.wait(engine, issue, &mut bound);
        bound.latest(floor);
        let dynamic = if issue.dynamic { self.hops.dynamic[engine as usize] } else { 0 };
        let start = bound.at;
        let slot_end = start.saturating_add(interval.max(dynamic));
        let end = start.saturating_add(latency).max(slot_end);
        self.ports.hold(engine, issue, slot_end, id);
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
        }
    }

    fn matmul(&mut self, id: u32, issue: &Issue, pass: Pass, accumulates: bool) -> Ran {
        let mut waits = Waits::default();
        for region in issue.stationary_reads {
            self.hazards.before_read(region, None, &mut waits);
        }
        let mut stationary = self.hops.bound(&waits, Engine::Tensor);
        stationary.latest(self.edges(issue, Engine::Tensor));
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
        }
    }

    fn transfer(&mut self, id: u32, issue: &Issue, transfer: &Transfer, floor: Bound) -> Ran {
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
        let keep = self.options.keep_records.then_some(&mut self.transfers);
        let moved = self.dma.run(id, transfer, ready, keep);
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
        }
    }

    fn collective(&mut self, id: u32, issue: &Issue, part: &CollectivePart, floor: Bound) -> Ran {
        let free = self.collectives.free(part.priority);
        let mut bound = free;
        bound.latest(self.dependencies(issue, Engine::Dma, false));
        bound.latest(floor);
        let end = bound.at.saturating_add(part.duration.0);
        self.collectives.hold(part.priority, bound.at, part.duration.0, id);
        Ran {
            engine: Engine::Dma,
            queue: self.dma.collectives(part.priority),
            issued: bound.at,
            start: bound.at,
            slot_end: end,
            end,
            stationary_end: end,
            wait: bound.at - free.at,
            cause: bound.cause,
            waited_on: bound.on,
            dma_bytes: part.bytes,
        }
    }

    fn finish(&mut self, id: u32, issue: &Issue, ran: &Ran, accumulates: bool) {
        let access = Access { end: ran.end, id, engine: ran.engine };
        for region in issue.reads {
            self.hazards.read(region, access);
        }
        let stationary = Access { end: ran.stationary_end, ..access };
        for region in issue.stationary_reads {
            self.hazards.read(region, stationary);
        }
        for region in issue.writes {
            self.hazards.write(region, access, accumulates && region.space == Space::Psum);
        }
        if let Some(Shared { tensors, uses }) = &mut self.shared {
            let reads = issue.reads.iter().map(|region| (region, false));
            for (region, writes) in reads.chain(issue.writes.iter().map(|region| (region, true))) {
                if matches!(region.space, Space::Hbm(storage) if tensors.contains(&storage)) {
                    uses.push((region.clone(), ran.end, writes));
                }
            }
        }
        self.finished.push((ran.end, ran.engine));
        if ran.end >= self.makespan {
            self.makespan = ran.end;
            self.last_to_end = id;
        }
        if !self.options.keep_records {
            return;
        }
        let (hbm_read, hbm_write) = match &issue.work {
            Work::Dma(transfer) => (transfer.hbm_read, transfer.hbm_write),
            Work::Collective(part) => (part.hbm_read, part.hbm_write),
            _ => (0, 0),
        };
        self.records.push(Record {
            id,
            opcode: issue.opcode,
            engine: ran.engine,
            queue: ran.queue,
            site: issue.site,
            label: issue.label,
            issued: Picos(ran.issued),
            start: Picos(ran.start),
            slot_end: Picos(ran.slot_end),
            end: Picos(ran.end),
            wait: Picos(ran.wait),
            cause: ran.cause,
            waited_on: ran.waited_on,
            dma_bytes: ran.dma_bytes,
            hbm_read,
            hbm_write,
            macs: issue.macs,
            peak_macs_per_cycle: issue.peak_macs_per_cycle,
        });
    }
}
