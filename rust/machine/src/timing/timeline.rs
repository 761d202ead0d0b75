//! When each instruction runs: every engine in program order, hazards and resources as the machine has them.

mod noting;
mod overtaking;
mod rendezvous;
mod repeating;
mod replaying;
mod running;

use std::sync::{Arc, OnceLock};

use overtaking::Overtaking;
use rendezvous::Shared;
pub(super) use repeating::Constants;
pub(super) use replaying::{GivenBounds, ReplayedStep};
use running::Ran;

use super::ceiling::{HbmCeiling, HbmDraw};
use super::dma::{DmaEngines, Queue};
use super::graph::RunGraph;
use super::hazard::{Access, Hazards, Waits};
use super::hops::Hops;
pub use super::issue::{Span, TimedInstruction, TimelineOptions};
use super::ports::SharedPorts;
use super::record::{Cause, Finished, NO_INSTRUCTION, Record, TransferRecord, TriggerRecord};
use super::region::Space;
use super::schedule::{Share, pieces, set_starts};
use super::service::Collectives;
use super::tensor_array::{Bound, Pass, TensorArray};
use super::work::{DescriptorMode, Transfer, Work};
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::packed::PackedRows;
use crate::time::Picos;

/// The name of 0.1.0.
#[deprecated(note = "it is `TimedInstruction`")]
pub type Issue<'a> = TimedInstruction<'a>;

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
/// use trn3_machine::timing::timeline::{TimedInstruction, Timeline, TimelineOptions};
/// use trn3_machine::timing::work::Work;
///
/// let mut timeline = Timeline::new(Arc::new(ArchSpec::load("trn3")?), TimelineOptions::default());
/// let work = Work::Compute { interval: Picos(60_000), latency: Picos(180_000), table: None };
/// let issue = TimedInstruction {
///     opcode: 0, engine: Engine::Vector, site: SiteId(0), label: 0, work, reads: &[], stationary_reads: &[],
///     writes: &[], after: &[], dynamic: false, macs: 0, peak_macs_per_cycle: 0,
/// };
/// timeline.issue(&issue);
/// assert_eq!(timeline.issue(&issue).start, Picos(60_000));
/// assert_eq!(timeline.makespan(), Picos(240_000));
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    options: TimelineOptions,
    hops: Hops,
    hazards: Hazards,
    streams: [Stream; ENGINES],
    table: Option<u16>,
    tensor: TensorArray,
    dma: DmaEngines,
    /// Transfers that others can overtake; None until one names a class.
    overtaking: Option<Overtaking>,
    collectives: Collectives,
    ports: SharedPorts,
    /// End and engine of every instruction: what `after` refers to.
    finished: PackedRows<Finished>,
    records: PackedRows<Record>,
    shares: Vec<Share>,
    transfers: Vec<TransferRecord>,
    /// How many shares the transfers are of.
    scheduled: usize,
    /// Records and transfers as they are, where they were asked for before [`Timeline::schedule`].
    asked: OnceLock<(PackedRows<Record>, Vec<TransferRecord>)>,
    triggers: Vec<TriggerRecord>,
    makespan: u64,
    last_to_end: u32,
    /// What other cores have to know when they meet this one; None on a core of its own.
    shared: Option<Shared>,
    /// When it began, after the start that cores which meet count from.
    origin: u64,
    /// What it ran, where records are kept.
    graph: Option<Box<RunGraph>>,
    /// What the instruction under way waits for, where that is no question of its bytes: in a replay.
    given: Option<GivenBounds>,
    /// Whether shares are kept for those who watch a loop, though records are not.
    is_watched: bool,
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

impl Timeline {
    /// An empty timeline of a machine.
    pub fn new(arch: Arc<ArchSpec>, options: TimelineOptions) -> Self {
        let graph = options.keep_records.then(|| Box::new(RunGraph::new(Arc::clone(&arch), options.throttle)));
        Self {
            options,
            hops: Hops::new(&arch),
            hazards: Hazards::default(),
            streams: [Stream { free: 0, last: NO_INSTRUCTION }; ENGINES],
            table: None,
            tensor: TensorArray::new(&arch, options.throttle),
            dma: DmaEngines::new(&arch),
            overtaking: None,
            collectives: Collectives::default(),
            ports: SharedPorts::new(&arch),
            finished: PackedRows::default(),
            records: PackedRows::default(),
            shares: Vec::new(),
            transfers: Vec::new(),
            scheduled: 0,
            asked: OnceLock::new(),
            triggers: Vec::new(),
            makespan: 0,
            last_to_end: NO_INSTRUCTION,
            shared: None,
            origin: 0,
            graph,
            given: None,
            is_watched: false,
        }
    }

    /// An empty timeline of the same core.
    pub(crate) fn emptied(&self, arch: Arc<ArchSpec>, options: TimelineOptions) -> Self {
        let shared = self.shared.as_ref().map(Shared::emptied);
        Self { origin: self.origin, shared, ..Self::new(arch, options) }
    }

    /// What it was made with.
    pub(crate) fn options(&self) -> TimelineOptions {
        self.options
    }

    /// An empty timeline of the same core, whose transfers share a ceiling of HBM bandwidth with those of others.
    pub(crate) fn again(&self, arch: Arc<ArchSpec>, ceiling: &HbmCeiling) -> Self {
        let mut timeline = self.emptied(arch, self.options);
        timeline.dma.shared = Some(HbmDraw::of(ceiling, self.origin));
        timeline
    }

    /// As it is, drawing from a copy of its ceiling: what it goes on with changes nothing here.
    pub(crate) fn fork(&self, ceiling: &HbmCeiling) -> Self {
        let mut fork = self.clone();
        let own = self.dma.shared.as_ref().map(|shared| shared.fork(ceiling));
        if let Some(overtaking) = &mut fork.overtaking {
            overtaking.fork(own.as_ref());
        }
        fork.dma.shared = own;
        fork
    }

    /// What it draws of a ceiling that cores share, if it does.
    pub(crate) fn draw_mut(&mut self) -> Option<&mut HbmDraw> {
        self.dma.shared.as_mut()
    }

    /// How long after that of others its time begins.
    pub(crate) fn origin(&self) -> u64 {
        self.origin
    }

    /// Says how long after that of others this core's time begins: those that it meets count from another start.
    pub fn begin_after(&mut self, origin: Picos) {
        self.origin = origin.0;
    }

    /// Runs the next instruction of the program.
    pub fn issue(&mut self, issue: &TimedInstruction) -> Span {
        self.stand_if_asked(issue);
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

    fn next_id(&self) -> u32 {
        u32::try_from(self.finished.len()).unwrap_or(NO_INSTRUCTION - 1)
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

    /// When an instruction's result is visible, counted from the start that cores which meet have in common.
    pub(crate) fn ended(&self, id: u32) -> Picos {
        let end = self.finished.get(id as usize).map_or(0, |finished| finished.end);
        Picos(end.saturating_add(self.origin))
    }

    /// Works out when each DMA engine moved what, so that [`Timeline::records`] and [`Timeline::transfers`] need no copy.
    pub fn schedule(&mut self) {
        if self.scheduled < self.shares.len() {
            self.transfers = pieces(&self.shares);
            set_starts(&mut self.records, &self.triggers, &self.transfers);
            self.scheduled = self.shares.len();
            self.asked.take();
        }
    }

    fn as_scheduled(&self) -> (&PackedRows<Record>, &[TransferRecord]) {
        if self.scheduled == self.shares.len() {
            return (&self.records, &self.transfers);
        }
        let (records, transfers) = self.asked.get_or_init(|| {
            let (mut records, transfers) = (self.records.clone(), pieces(&self.shares));
            set_starts(&mut records, &self.triggers, &transfers);
            (records, transfers)
        });
        (records, transfers)
    }

    /// All instructions, by number; none if records are not kept.
    pub fn records(&self) -> &PackedRows<Record> {
        self.as_scheduled().0
    }

    /// What each DMA engine moved, in program order; nothing if records are not kept.
    pub fn transfers(&self) -> &[TransferRecord] {
        self.as_scheduled().1
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
        super::stall::critical_path(self.records(), self.last_to_end)
    }

    /// Bytes of the host's memory that what is kept of its instructions takes.
    pub fn kept_bytes(&self) -> usize {
        let transfers = self.shares.capacity() * size_of::<Share>()
            + self.transfers.capacity() * size_of::<TransferRecord>()
            + self.triggers.capacity() * size_of::<TriggerRecord>();
        let graph = self.graph.as_ref().map_or(0, |graph| graph.kept_bytes());
        self.finished.kept_bytes() + self.records.kept_bytes() + transfers + graph
    }

    /// Drops what is known of a memory that nothing will touch again: an HBM tensor that is gone, a register. SBUF and
    /// PSUM bytes that are freed must not be dropped: their next owner still waits for their last users.
    pub fn forget(&mut self, space: Space) {
        self.hazards.forget(space);
    }

    fn waits(&self, issue: &TimedInstruction, accumulates: bool, keeps: bool) -> Waits {
        let mut waits = Waits::keeping(keeps);
        for region in issue.reads {
            let own = (accumulates && region.space == Space::Psum).then_some(Engine::Tensor);
            self.hazards.before_read(region, own, &mut waits);
        }
        for region in issue.writes {
            let own = (accumulates && region.space == Space::Psum).then_some(Engine::Tensor);
            self.hazards.before_write(region, own, &mut waits);
        }
        waits
    }

    /// What an instruction's bytes and edges wait for.
    fn dependencies(&mut self, issue: &TimedInstruction, consumer: Engine, accumulates: bool) -> Bound {
        if let Some(given) = &self.given {
            return given.dependencies;
        }
        let waits = self.waits(issue, accumulates, self.graph.is_some());
        let mut bound = self.hops.bound(&waits, consumer);
        bound.latest(self.edges(issue, consumer));
        self.note_waits(issue, &waits, bound, false);
        bound
    }

    fn edges(&self, issue: &TimedInstruction, consumer: Engine) -> Bound {
        let mut bound = Bound::START;
        for &producer in issue.after {
            if let Some(Finished { end, engine }) = self.finished.get(producer as usize) {
                bound.raise(end.saturating_add(self.hops.from(engine, consumer)), Cause::DependsOn, producer);
            }
        }
        bound
    }

    fn finish(&mut self, id: u32, issue: &TimedInstruction, ran: &Ran, accumulates: bool) {
        let access = Access { end: ran.end, id, engine: ran.engine };
        self.note_ran(issue, ran);
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
        if let Some(shared) = &mut self.shared {
            shared.note(issue.reads, issue.writes, ran.end);
        }
        self.finished.push(Finished { end: ran.end, engine: ran.engine });
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
        self.asked.take();
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
