//! The graph of a run: what each instruction cost, and which earlier ones it came after and why. Any change of it is timed
//! by the machine's own [`Timeline`](super::timeline::Timeline), which takes edges in place of regions.

mod flat;
mod rerun;
mod retime;
mod skipping;
mod variant;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::issue::TimedInstruction;
use super::ports::PortUse;
use super::record::Cause;
use super::work::Work;
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::packed::{PackedIter, PackedRow, PackedRows};
use crate::site::SiteId;
use crate::time::Picos;

pub use variant::{Retimed, Variant};

/// Why an instruction comes after an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EdgeKind {
    /// It reads what the other wrote.
    Result,
    /// It writes bytes on chip that the other wrote or read: with another buffer it would not wait.
    Reuse,
    /// It writes bytes of HBM, or a register, that the other wrote or read.
    Overwrite,
    /// `depends_on`.
    Asked,
    /// A matmul that adds to what the other one wrote: TensorE keeps their order, nothing waits.
    Sum,
}

impl EdgeKind {
    /// Every one, in the order of their numbers.
    pub const ALL: [EdgeKind; 5] =
        [EdgeKind::Result, EdgeKind::Reuse, EdgeKind::Overwrite, EdgeKind::Asked, EdgeKind::Sum];

    /// In words; what [`BoundBy`] has too is called the same.
    pub const fn name(self) -> &'static str {
        match self {
            EdgeKind::Result => BoundBy::Result.name(),
            EdgeKind::Reuse => BoundBy::Reuse.name(),
            EdgeKind::Overwrite => BoundBy::Overwrite.name(),
            EdgeKind::Asked => BoundBy::Asked.name(),
            EdgeKind::Sum => "accumulation",
        }
    }
}

/// An edge to an earlier instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GraphEdge {
    /// The earlier one.
    pub on: u32,
    /// Why.
    pub kind: EdgeKind,
    /// The load of a stationary operand waits, the pass does not.
    pub(crate) stationary: bool,
    /// The other one's stationary operand is what was used: it is free once that is loaded.
    pub(crate) released: bool,
}

/// What bound the start of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BoundBy {
    /// Nothing: the first of its queue, at the start of the run.
    #[default]
    Nothing,
    /// What it reads was written.
    Result,
    /// Bytes on chip that it writes were in use.
    Reuse,
    /// Bytes of HBM, or a register, that it writes were in use.
    Overwrite,
    /// Its engine's queue: those ahead of it.
    Order,
    /// A bank of PSUM, or the port of SBUF, that another engine used.
    Bank,
    /// A function table was loaded.
    TableLoad,
    /// `depends_on`.
    Asked,
    /// Its DMA queue: those ahead of it, their issue, a descriptor generator.
    Queue,
    /// DMA engines, or HBM, that others used.
    Bandwidth,
    /// Another core or rank that came later.
    Meeting,
}

impl BoundBy {
    /// Every one, in the order of their numbers.
    pub const ALL: [BoundBy; 11] = [
        BoundBy::Nothing,
        BoundBy::Result,
        BoundBy::Reuse,
        BoundBy::Overwrite,
        BoundBy::Order,
        BoundBy::Bank,
        BoundBy::TableLoad,
        BoundBy::Asked,
        BoundBy::Queue,
        BoundBy::Bandwidth,
        BoundBy::Meeting,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            BoundBy::Nothing => "nothing",
            BoundBy::Result => "read after write",
            BoundBy::Reuse => "buffer reuse",
            BoundBy::Overwrite => "write after use",
            BoundBy::Order => "queue order",
            BoundBy::Bank => "bank",
            BoundBy::TableLoad => "table load",
            BoundBy::Asked => "depends_on",
            BoundBy::Queue => "DMA queue",
            BoundBy::Bandwidth => "bandwidth",
            BoundBy::Meeting => "meeting",
        }
    }
}

/// An instruction of a run.
#[derive(Clone, Copy, Debug)]
pub struct GraphStep {
    /// Name, as an index of the caller's table.
    pub opcode: u16,
    /// The engine that ran it.
    pub engine: Engine,
    /// What bound its start.
    pub bound: BoundBy,
    /// Line of the kernel.
    pub site: SiteId,
    /// What it cost, by number.
    pub work: u32,
    /// When all that it waits for but its queue and what others hold was there.
    pub ready: Picos,
    pub(super) dynamic: bool,
    /// Whether it touched what a transfer made that others could overtake until then. Edges need not say so: they are what
    /// it waited for, not all that it touched.
    pub(super) stands: bool,
    pub(super) ports: PortUse,
}

impl PackedRow for GraphStep {
    type Words = [u64; 8];

    fn words(&self, _: u64) -> [u64; 8] {
        [
            u64::from(self.opcode),
            self.engine as u64,
            self.bound as u64,
            u64::from(self.site.0),
            u64::from(self.work),
            self.ready.0,
            u64::from(self.dynamic) | u64::from(self.stands) << 1,
            self.ports.bits(),
        ]
    }

    fn of_words([opcode, engine, bound, site, work, ready, flags, ports]: [u64; 8], _: u64) -> Self {
        Self {
            opcode: opcode as u16,
            engine: Engine::ALL[engine as usize],
            bound: BoundBy::ALL[bound as usize],
            site: SiteId(site as u32),
            work: work as u32,
            ready: Picos(ready),
            dynamic: flags & 1 != 0,
            stands: flags & 2 != 0,
            ports: PortUse::of_bits(ports),
        }
    }
}

impl PackedRow for GraphEdge {
    type Words = [u64; 1];

    fn words(&self, _: u64) -> [u64; 1] {
        [u64::from(self.on) << 5 | (self.kind as u64) << 2 | u64::from(self.stationary) << 1 | u64::from(self.released)]
    }

    fn of_words([word]: [u64; 1], _: u64) -> Self {
        Self {
            on: (word >> 5) as u32,
            kind: EdgeKind::ALL[(word >> 2 & 7) as usize],
            stationary: word & 2 != 0,
            released: word & 1 != 0,
        }
    }
}

/// A core's part in what cores ran together, as the others had it.
#[derive(Clone, Copy, Debug)]
pub(super) struct GraphMeeting {
    pub(super) step: u32,
    pub(super) hop: Picos,
    /// When the last of the others came.
    pub(super) latest: u64,
    /// Whether this core came last of all.
    pub(super) is_last: bool,
    /// When it had done its own part, and when all had.
    pub(super) ends: (u64, u64),
}

impl GraphMeeting {
    /// When all are done if this core has done its own part at a moment.
    fn until(&self, end: u64) -> u64 {
        let (own, all) = self.ends;
        if self.is_last { end.saturating_add(all.saturating_sub(own)) } else { all }
    }
}

/// What a run was made of.
#[derive(Clone, Debug)]
pub struct RunGraph {
    pub(super) arch: Arc<ArchSpec>,
    pub(super) throttle: bool,
    works: Vec<Work>,
    numbers: HashMap<u64, SmallVec<[u32; 1]>>,
    /// The last work of each name: loops repeat them.
    last: Vec<u32>,
    steps: PackedRows<GraphStep>,
    edges: PackedRows<GraphEdge>,
    /// Where the edges of each instruction end; those of the next one begin there.
    ends: PackedRows<u32>,
    pub(super) meetings: Vec<GraphMeeting>,
    /// Instructions that start no sooner than a moment, for what another core did.
    floors: Vec<(u32, u64)>,
    pub(super) latency: Picos,
    /// Edges of the instruction under way.
    noted: SmallVec<[GraphEdge; 8]>,
    pub(super) ready: u64,
    /// Whether the instruction under way lets transfers stand.
    pub(super) stands: bool,
}

/// Edges of one instruction that are kept one by one: beyond, of those of one kind to one engine the last alone.
const MOST_EDGES: usize = 64;

impl RunGraph {
    pub(super) fn new(arch: Arc<ArchSpec>, throttle: bool) -> Self {
        Self {
            arch,
            throttle,
            works: Vec::new(),
            numbers: HashMap::new(),
            last: Vec::new(),
            steps: PackedRows::default(),
            edges: PackedRows::default(),
            ends: PackedRows::default(),
            meetings: Vec::new(),
            floors: Vec::new(),
            latency: Picos::ZERO,
            noted: SmallVec::new(),
            ready: 0,
            stands: false,
        }
    }

    /// The instructions, in program order.
    pub fn steps(&self) -> &PackedRows<GraphStep> {
        &self.steps
    }

    /// How many kinds of work there are.
    pub fn works(&self) -> &[Work] {
        &self.works
    }

    /// What an instruction cost.
    pub fn work(&self, step: usize) -> &Work {
        &self.works[self.steps.at(step).work as usize]
    }

    /// What an instruction comes after.
    pub fn edges(&self, step: usize) -> PackedIter<'_, GraphEdge> {
        let first = step.checked_sub(1).map_or(0, |before| self.ends.at(before));
        self.edges.range(first as usize..self.ends.at(step) as usize)
    }

    /// The meeting of cores that an instruction was part of.
    fn meeting(&self, step: u32) -> Option<&GraphMeeting> {
        let place = self.meetings.binary_search_by_key(&step, |meeting| meeting.step).ok()?;
        self.meetings.get(place)
    }

    fn floor(&self, step: u32) -> u64 {
        let first = self.floors.partition_point(|(other, _)| *other < step);
        let own = self.floors[first..].iter().take_while(|(other, _)| *other == step);
        own.map(|(_, at)| *at).max().unwrap_or(0)
    }

    /// When what it ran was done.
    pub fn latency(&self) -> Picos {
        self.latency
    }

    /// Bytes of the host's memory that it takes.
    pub fn kept_bytes(&self) -> usize {
        let works = self.works.capacity() * size_of::<Work>();
        let numbers = self.numbers.capacity() * size_of::<(u64, SmallVec<[u32; 1]>)>();
        self.steps.kept_bytes() + self.edges.kept_bytes() + self.ends.kept_bytes() + works + numbers
    }

    /// The same with its rows as they came, for those who go through it again and again.
    pub fn opened(&self) -> Self {
        let (steps, edges, ends) = (self.steps.opened(), self.edges.opened(), self.ends.opened());
        Self { steps, edges, ends, ..self.clone() }
    }

    /// Notes an edge of the instruction under way.
    pub(super) fn note(&mut self, edge: GraphEdge) {
        if self.noted.last() != Some(&edge) {
            self.noted.push(edge);
        }
    }

    /// The instruction under way starts no sooner.
    pub(super) fn note_floor(&mut self, at: u64) {
        self.floors.push((self.steps.len() as u32, at));
    }

    /// Keeps an instruction whose edges were noted; `why`: what it waited for, on which one, and whether for bandwidth.
    pub(super) fn push(
        &mut self,
        issue: &TimedInstruction<'_>,
        engine: Engine,
        ports: PortUse,
        why: (Cause, u32, bool),
    ) {
        self.noted.sort_unstable();
        self.noted.dedup();
        if self.noted.len() > MOST_EDGES {
            self.thin();
        }
        let (cause, on, is_late) = why;
        let to = |kind| self.noted.iter().any(|edge| edge.on == on && edge.kind == kind);
        let bound = match cause {
            Cause::None => BoundBy::Nothing,
            Cause::Engine(_) | Cause::Dma if to(EdgeKind::Result) => BoundBy::Result,
            Cause::Engine(_) | Cause::Dma if to(EdgeKind::Reuse) => BoundBy::Reuse,
            Cause::Engine(_) | Cause::Dma if to(EdgeKind::Overwrite) => BoundBy::Overwrite,
            // The port of SBUF.
            Cause::Engine(_) | Cause::Dma | Cause::PsumBank => BoundBy::Bank,
            Cause::Order => BoundBy::Order,
            Cause::TableLoad => BoundBy::TableLoad,
            Cause::DependsOn => BoundBy::Asked,
            Cause::Queue if is_late => BoundBy::Bandwidth,
            Cause::Queue => BoundBy::Queue,
            Cause::Core | Cause::Rank => BoundBy::Meeting,
        };
        let work = self.number(issue.opcode, &issue.work);
        self.noted.drain(..).for_each(|edge| self.edges.push(edge));
        self.steps.push(GraphStep {
            opcode: issue.opcode,
            engine,
            bound,
            site: issue.site,
            work,
            ready: Picos(self.ready),
            dynamic: issue.dynamic,
            stands: std::mem::take(&mut self.stands),
            ports,
        });
        self.ends.push(u32::try_from(self.edges.len()).unwrap_or(u32::MAX));
        self.ready = 0;
    }

    /// Of those of one kind to one engine keeps the last.
    fn thin(&mut self) {
        let mut kept: SmallVec<[GraphEdge; 8]> = SmallVec::new();
        for edge in self.noted.drain(..).rev() {
            let engine = |edge: &GraphEdge| self.steps.get(edge.on as usize).map(|step| step.engine);
            let alike = |other: &GraphEdge| {
                (other.kind, other.stationary, other.released, engine(other))
                    == (edge.kind, edge.stationary, edge.released, engine(&edge))
            };
            if !kept.iter().any(alike) {
                kept.push(edge);
            }
        }
        self.noted = kept;
    }

    fn number(&mut self, opcode: u16, work: &Work) -> u32 {
        let place = usize::from(opcode);
        if self.last.len() <= place {
            self.last.resize(place + 1, u32::MAX);
        }
        let last = self.last[place];
        if self.works.get(last as usize) == Some(work) {
            return last;
        }
        let known = self.numbers.entry(hash_of(work)).or_default();
        let found = known.iter().copied().find(|&number| self.works[number as usize] == *work);
        let number = found.unwrap_or_else(|| {
            let number = self.works.len() as u32;
            known.push(number);
            self.works.push(work.clone());
            number
        });
        self.last[place] = number;
        number
    }
}

fn hash_of(work: &Work) -> u64 {
    let mut hasher = DefaultHasher::new();
    match work {
        Work::Compute { interval, latency, table } => (interval, latency, table).hash(&mut hasher),
        Work::Matmul { load, multiply, multiply_latency, blocks, accumulates, .. } => {
            (load, multiply, multiply_latency, blocks, accumulates).hash(&mut hasher);
        }
        Work::Dma(transfer) => {
            (transfer.trigger, transfer.mode, transfer.route, transfer.first_row, transfer.rows).hash(&mut hasher);
            (transfer.row_bytes, transfer.row_descriptors, transfer.rate_share.to_bits()).hash(&mut hasher);
            (transfer.hbm_read, transfer.hbm_write, transfer.priority, transfer.ring).hash(&mut hasher);
        }
        Work::Collective(part) => {
            (part.duration, part.priority, part.bytes, part.hbm_read, part.hbm_write).hash(&mut hasher);
        }
    }
    hasher.finish()
}
