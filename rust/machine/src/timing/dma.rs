//! The DMA engines: queues in order, transfers dealt to engines by rows, bandwidth shared in program order.
//!
//! How transfers share an engine is undocumented; every rule here is a latest-of and a plus, which processor sharing
//! and gap filling are not.
//!
//! - **(choice)** Queues: one for each sequencer that triggers, or for each route where the model chooses the trigger;
//!   one more for each way of making descriptors, each priority and each ring that a compiler spreads transfers over. A queue
//!   starts a transfer when its dependencies are there plus the start latency, and one no sooner after another than
//!   the issue floor: what moving `dma_row_floor_bytes` for each row of a full share would take; with descriptors made
//!   in hardware, whose time per transfer is documented, `dma_hardware_dge_ns`.
//! - A transfer without a trigger of its own is triggered by the Sync engine (by GpSimdE where that makes the
//!   descriptors) as soon as the issue slot is free; the queue itself waits for the transfer's dependencies.
//! - **(choice)** Hardware descriptor generators: Sync has the first, ScalarE the second, others share them; one is held
//!   for `dma_hardware_dge_ns` from the trigger on, or from the dependencies where the queue waits for them.
//! - Rows go to engines by partition, neighbours together; between HBM addresses, part by part. Engines start one
//!   `dma_engine_stagger_ns` after another. A share takes `dma_descriptor_ns` a descriptor and its bytes at the
//!   engine's rate, or `dma_descriptor_floor_ns` a descriptor where that is longer. **(choice)** `dma_share_fixed_ns`
//!   passes after a share before its queue goes on at that engine or its transfer counts as complete; other queues may
//!   use the engine meanwhile.
//! - **(choice)** Bandwidth of an engine: counted from any moment, a share is done no sooner than all shares up to it in
//!   the program that start at that moment or later. Queues overlap and none waits for another that stalls; but what
//!   stands earlier in the program is paid for first, even if it runs later. The bandwidth of HBM is shared the same way, and
//!   no engine draws more of it than its part, so that those at work never pass it together.

use smallvec::SmallVec;

use super::ceiling::HbmDraw;
use super::record::{Cause, NO_INSTRUCTION};
use super::schedule::Share;
use super::server::Server;
use super::tensor_array::Bound;
use super::work::{DescriptorMode, Route, Transfer};
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::time::Picos;

/// Which transfers are in one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// The sequencer that triggers them; None: the model's choice, a queue for each route.
    pub trigger: Option<Engine>,
    /// Their route, where the model chooses the trigger; None beside no trigger: collectives.
    pub route: Option<Route>,
    /// How their descriptors come about.
    pub mode: DescriptorMode,
    /// Their class of service.
    pub priority: Option<u8>,
    /// Which ring of these it is.
    pub ring: u8,
}

/// Where a queue stands.
#[derive(Clone, Debug)]
struct Line {
    /// Start of its last transfer, and when the next may issue.
    issue_free: u64,
    last: u32,
    last_end: u64,
    /// When it goes on at each engine.
    engines: Vec<u64>,
}

/// When a transfer runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) queue: u16,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) wait: u64,
    pub(crate) cause: Cause,
    pub(crate) waited_on: u32,
    pub(crate) bytes: u64,
    /// What held it up longest before it began, or that others used the engines, or HBM, where that did longer.
    pub(crate) bound: (Cause, u32, bool),
}

impl Moved {
    /// Nothing moved.
    pub(crate) fn none(ready: Bound) -> Self {
        let Bound { at, cause, on } = ready;
        Self { queue: 0, start: at, end: at, wait: 0, cause, waited_on: on, bytes: 0, bound: (cause, on, false) }
    }
}

/// All DMA engines and queues of the core.
#[derive(Clone, Debug)]
pub(crate) struct DmaEngines {
    /// The first partition of each engine, and how many partitions there are.
    edges: Vec<u64>,
    rate: f64,
    descriptor: f64,
    descriptor_floor: f64,
    issue_floor: u64,
    share_fixed: u64,
    stagger: u64,
    start_static: u64,
    start_generated: u64,
    generator_hold: u64,
    hbm_rate: f64,
    hbm_part: f64,
    generators: Vec<(u64, u32)>,
    queues: Vec<Queue>,
    lines: Vec<Line>,
    engines: Vec<Server>,
    hbm: Server,
    /// When the last transfer could begin.
    begun: u64,
    /// What cores of a chip share, where several are timed together.
    pub(crate) shared: Option<HbmDraw>,
}

impl DmaEngines {
    pub(crate) fn new(arch: &ArchSpec) -> Self {
        let nanoseconds = |figure: f64| Picos::from_nanoseconds(figure).0;
        let rows = arch.partitions.div_ceil(arch.dma_engines);
        // Row r belongs to engine r * engines / partitions: engine e has the rows from ceil(e * partitions / engines).
        let edge = |engine: u64| (engine * arch.partitions).div_ceil(arch.dma_engines);
        Self {
            edges: (0..=arch.dma_engines).map(edge).collect(),
            rate: arch.dma_engine_bytes_per_ns,
            descriptor: arch.dma_descriptor_ns,
            descriptor_floor: arch.dma_descriptor_floor_ns,
            issue_floor: nanoseconds(arch.dma_row_floor_bytes * rows as f64 / arch.dma_engine_bytes_per_ns),
            share_fixed: nanoseconds(arch.dma_share_fixed_ns),
            stagger: nanoseconds(arch.dma_engine_stagger_ns),
            start_static: nanoseconds(arch.dma_start_static_ns),
            start_generated: nanoseconds(arch.dma_start_generated_ns),
            generator_hold: nanoseconds(arch.dma_hardware_dge_ns),
            hbm_rate: arch.hbm_gbps,
            hbm_part: arch.hbm_gbps / arch.dma_engines as f64,
            generators: vec![(0, NO_INSTRUCTION); arch.hardware_dge as usize],
            queues: Vec::new(),
            lines: Vec::new(),
            engines: (0..arch.dma_engines).map(|_| Server::default()).collect(),
            hbm: Server::default(),
            begun: 0,
            shared: None,
        }
    }

    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    fn queue(&mut self, transfer: &Transfer) -> usize {
        let route = if transfer.trigger.is_none() { Some(transfer.route) } else { None };
        let queue = Queue {
            trigger: transfer.trigger,
            route,
            mode: transfer.mode,
            priority: transfer.priority,
            ring: transfer.ring,
        };
        self.place(queue)
    }

    fn place(&mut self, queue: Queue) -> usize {
        if let Some(known) = self.queues.iter().position(|other| *other == queue) {
            return known;
        }
        self.queues.push(queue);
        let engines = vec![0; self.engines.len()];
        self.lines.push(Line { issue_free: 0, last: NO_INSTRUCTION, last_end: 0, engines });
        self.queues.len() - 1
    }

    /// The queue of collectives of a class, which no transfer is in.
    pub(crate) fn collectives(&mut self, priority: Option<u8>) -> u16 {
        let queue = Queue { trigger: None, route: None, mode: DescriptorMode::Static, priority, ring: 0 };
        u16::try_from(self.place(queue)).unwrap_or(u16::MAX)
    }

    /// When the descriptors of a transfer are there whose trigger and dependencies are: each transfer takes its generator
    /// once, in program order.
    pub(crate) fn generate(&mut self, id: u32, transfer: &Transfer, mut ready: Bound) -> Bound {
        if transfer.mode == DescriptorMode::Hardware && !self.generators.is_empty() {
            let index = generator(transfer.trigger) % self.generators.len();
            let (free, last) = self.generators[index];
            ready.raise(free, Cause::Queue, last);
            self.generators[index] = (ready.at.saturating_add(self.generator_hold), id);
        }
        ready
    }

    fn latency(&self, transfer: &Transfer) -> u64 {
        match transfer.mode {
            DescriptorMode::Static => self.start_static,
            DescriptorMode::Hardware | DescriptorMode::Software => self.start_generated,
        }
    }

    /// When a transfer would start if it were alone.
    pub(crate) fn earliest(&self, transfer: &Transfer, ready: Bound) -> u64 {
        ready.at.saturating_add(self.latency(transfer))
    }

    /// Goes back to what engines and queues were; generators have done what they did.
    pub(crate) fn reset(&mut self, to: &DmaEngines) {
        self.queues.clone_from(&to.queues);
        self.lines.clone_from(&to.lines);
        self.engines.clone_from(&to.engines);
        self.hbm.clone_from(&to.hbm);
        if let (Some(shared), Some(to)) = (&mut self.shared, &to.shared) {
            shared.go_back(to);
        }
    }

    /// Calls with each moment that what runs later may depend on, but for those of servers.
    pub(super) fn each_moment(&mut self, visit: &mut impl FnMut(&mut u64)) {
        self.generators.iter_mut().for_each(|(free, _)| visit(free));
        for line in &mut self.lines {
            visit(&mut line.issue_free);
            visit(&mut line.last_end);
            line.engines.iter_mut().for_each(&mut *visit);
        }
    }

    /// What shares the rate of each engine, in their order, and that of HBM.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.engines.iter().chain([&self.hbm])
    }

    /// As [`DmaEngines::servers`].
    pub(super) fn servers_mut(&mut self) -> impl Iterator<Item = &mut Server> {
        self.engines.iter_mut().chain([&mut self.hbm])
    }

    /// When the last transfer could begin: from then on it drew of HBM.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Lets queues issue transfers as fast as their engines move them.
    pub(crate) fn without_floor(&mut self) {
        (self.issue_floor, self.generator_hold) = (0, 0);
    }

    /// Runs a transfer whose trigger, dependencies and descriptors are there at a moment.
    pub(crate) fn run(
        &mut self,
        id: u32,
        transfer: &Transfer,
        ready: Bound,
        mut keep: Option<&mut Vec<Share>>,
    ) -> Moved {
        let queue = self.queue(transfer);
        let latency = self.latency(transfer);
        let line = &mut self.lines[queue];
        let mut begin = ready.delayed(latency);
        let free = line.issue_free;
        begin.raise(line.issue_free, Cause::Queue, line.last);
        let floor = match transfer.mode {
            DescriptorMode::Hardware => self.generator_hold,
            DescriptorMode::Static | DescriptorMode::Software => self.issue_floor,
        };
        line.issue_free = begin.at.saturating_add(floor);
        self.begun = begin.at;

        let mut start = u64::MAX;
        let (mut finish, mut undisturbed) = (begin.at, begin.at);
        let mut bytes = 0u64;
        let mut late = false;
        let rate = self.rate * transfer.rate_share;
        let hbm_bytes = transfer.hbm_read.saturating_add(transfer.hbm_write);
        let drawn = hbm_bytes as f64 / transfer.rows.saturating_mul(transfer.row_bytes).max(1) as f64 / self.hbm_part;
        let takes = |rows: u64| {
            let share_bytes = rows.saturating_mul(transfer.row_bytes);
            let descriptors = rows.saturating_mul(transfer.row_descriptors);
            let streamed = descriptors as f64 * self.descriptor + share_bytes as f64 / rate;
            let least = (descriptors as f64 * self.descriptor_floor).max(share_bytes as f64 * drawn);
            (rows, share_bytes, Picos::from_nanoseconds(streamed.max(least)).0)
        };
        // Engines mostly have as many rows each.
        let mut share = takes(0);
        for (position, (engine, rows)) in shares(transfer, self.engines.len() as u64, &self.edges).enumerate() {
            if share.0 != rows {
                share = takes(rows);
            }
            let (_, share_bytes, work) = share;
            let mut issue = begin.at.saturating_add(self.stagger.saturating_mul(position as u64));
            let alone = issue.saturating_add(work);
            undisturbed = undisturbed.max(alone);
            issue = issue.max(line.engines[engine]);
            let done = self.engines[engine].admit(issue, work);
            line.engines[engine] = done.saturating_add(self.share_fixed);
            start = start.min(done - work);
            if done > finish {
                finish = done;
                late = done > alone;
            }
            bytes = bytes.saturating_add(share_bytes);
            if let Some(kept) = keep.as_deref_mut() {
                kept.push(Share { id, dma_engine: engine as u16, ready: issue, due: done, work, bytes: share_bytes });
            }
        }
        let start = if start == u64::MAX { begin.at } else { start };
        if hbm_bytes > 0 {
            let work = Picos::from_nanoseconds(hbm_bytes as f64 / self.hbm_rate).0;
            let done = self.hbm.admit(begin.at, work);
            if done > finish {
                finish = done;
                late = late || done > begin.at.saturating_add(work);
            }
        }
        if let Some(shared) = &mut self.shared {
            let pace = hbm_bytes as f64 / bytes.max(1) as f64 * rate * self.engines.len() as f64 / 1e3;
            let done = shared.draw(begin.at, finish, hbm_bytes, pace);
            late = late || done > finish;
            finish = done;
        }
        let end = finish.saturating_add(self.share_fixed);
        let wait = start.saturating_sub(line.last_end);
        let is_late = late && line.last != NO_INSTRUCTION;
        let (cause, waited_on) = if is_late { (Cause::Queue, line.last) } else { (begin.cause, begin.on) };
        let is_bandwidth = is_late && finish - undisturbed.min(finish) > begin.at - free.min(begin.at);
        let bound = if is_bandwidth { (cause, waited_on, true) } else { (begin.cause, begin.on, false) };
        line.last = id;
        line.last_end = line.last_end.max(end);
        Moved { queue: u16::try_from(queue).unwrap_or(u16::MAX), start, end, wait, cause, waited_on, bytes, bound }
    }
}

fn generator(trigger: Option<Engine>) -> usize {
    match trigger {
        None | Some(Engine::Sync | Engine::Dma) => 0,
        Some(Engine::Scalar) => 1,
        Some(engine) => engine as usize,
    }
}

/// The engines that move a transfer and how many of its rows each one has; `edges`: which partitions are whose.
fn shares(transfer: &Transfer, engines: u64, edges: &[u64]) -> impl Iterator<Item = (usize, u64)> + use<> {
    let (rows, first_row) = (transfer.rows, transfer.first_row);
    let mut dealt: SmallVec<[u64; 16]> = SmallVec::from_elem(0, engines as usize);
    if transfer.route == Route::Hbm {
        let (each, more) = (rows / engines, rows % engines);
        for (engine, share) in (0..).zip(&mut dealt) {
            *share = each + u64::from(engine < more);
        }
    } else {
        let partitions = edges.last().copied().unwrap_or(1);
        let from = first_row % partitions;
        let (rounds, until) = (rows / partitions, from + rows % partitions);
        for (share, edges) in dealt.iter_mut().zip(edges.windows(2)) {
            let (low, high) = (edges[0], edges[1]);
            let within = |low: u64, high: u64| until.min(high).saturating_sub(from.max(low));
            *share = rounds * (high - low) + within(low, high) + within(low + partitions, high + partitions);
        }
    }
    dealt.into_iter().enumerate().filter(|(_, rows)| *rows > 0)
}
