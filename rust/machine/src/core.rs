//! One core: takes instructions in program order, checks them, computes their values and gives them their time.

pub(crate) mod again;
mod aside;
mod choices;
mod issue;
mod kept_trace;
mod options;
mod pending;
mod rank_groups;
mod rests;
mod tensor_log;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::arch::ArchSpec;
use crate::cost_model::{ArchCost, CostModel};
use crate::error::{Error, Result};
use crate::isa::NOTHING;
use crate::memory::{Memory, MemoryOptions, Moved, Request, Sharing};
use crate::opcode::Opcodes;
use crate::packed::{PackedRow, PackedRows};
use crate::shadow::{Loss, Shadow};
use crate::site::{SiteId, Sites};
pub use crate::state::State;
use crate::stochastic::StochasticRounding;
use crate::storage::{Buffer, Storage};
use crate::time::Picos;
use crate::timing::basis::Basis;
use crate::timing::record::Record;
use crate::timing::timeline::{Timeline, TimelineOptions};
use crate::trace::TraceBuilder;
use crate::view::{Register, View};
use again::Timed;
use aside::Aside;
pub use choices::{Choice, Choices};
use issue::traced;
pub use options::CoreOptions;
use pending::Pending;
pub use pending::instruction_issue;
pub use rank_groups::RankGroups;
pub use tensor_log::{TensorLog, TensorRecord, TensorUse};

/// Names of an instruction in one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct At<'a> {
    /// Line of the kernel.
    pub site: SiteId,
    /// `name=` of the call.
    pub label: Option<&'a str>,
    /// `depends_on`: instructions that must have finished.
    pub after: &'a [u32],
}

/// One NeuronCore.
pub struct NeuronCore {
    /// Memories and engine registers.
    pub state: State,
    /// When everything runs, once the core is [settled](NeuronCore::settle).
    pub timeline: Timeline,
    /// Lines of the kernel.
    pub sites: Sites,
    /// Names of instructions and labels.
    pub opcodes: Opcodes,
    /// How the core runs.
    pub options: CoreOptions,
    issued: u64,
    live: OccupancyPoint,
    occupancy: PackedRows<LivePoint>,
    /// Its tensors, and which instructions use them.
    tensors: TensorLog,
    ranks: RankGroups,
    /// What its run takes in the kernel's own order and places, where a compiler changed that.
    as_written: Option<Arc<RunAsWritten>>,
    /// Issued but not yet timed: the last few wait for edges that the kernel may still add.
    pending: VecDeque<Box<Pending>>,
    /// The place of one that got its time.
    timed_last: Option<Box<Pending>>,
    aside: Aside,
    number: usize,
    /// Whether other cores have the same HBM.
    is_shared: bool,
    cost: Box<dyn CostModel>,
    /// What its time was made of, where that is kept.
    timed: Option<Vec<Timed>>,
    basis: Basis,
    /// What its instructions could be instead, where no compiler changes them.
    choices: Option<Box<Choices>>,
    /// What it ran, for a compiler, where places have no limit.
    trace: Option<Box<TraceBuilder>>,
    /// Runs of more precision beside this one.
    shadow: Option<Box<Shadow>>,
}

/// Live bytes from one moment on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OccupancyPoint {
    /// From when.
    pub time: Picos,
    /// SBUF bytes of a partition.
    pub sbuf: u64,
    /// PSUM bytes of a partition.
    pub psum: u64,
}

impl PackedRow for OccupancyPoint {
    type Words = [u64; 3];

    fn words(&self, _: u64) -> [u64; 3] {
        [self.time.0, self.sbuf, self.psum]
    }

    fn of_words([time, sbuf, psum]: [u64; 3], _: u64) -> Self {
        Self { time: Picos(time), sbuf, psum }
    }
}

/// Live bytes from an instruction on; when that is reached, the run's timeline says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LivePoint(pub(crate) u64, pub(crate) OccupancyPoint);

impl PackedRow for LivePoint {
    type Words = [u64; 3];

    fn words(&self, _: u64) -> [u64; 3] {
        [self.0, self.1.sbuf, self.1.psum]
    }

    fn of_words([instruction, sbuf, psum]: [u64; 3], _: u64) -> Self {
        Self(instruction, OccupancyPoint { time: Picos::ZERO, sbuf, psum })
    }
}

/// The run of a kernel in its own order and places, beside the one that was compiled.
#[derive(Clone, Debug)]
pub struct RunAsWritten {
    /// When everything ran.
    pub timeline: Timeline,
    /// Which instructions used which tensors.
    pub tensors: TensorLog,
    occupancy: PackedRows<LivePoint>,
}

impl RunAsWritten {
    /// Live bytes of a partition over time.
    pub fn occupancy(&self) -> Vec<OccupancyPoint> {
        over_time(self.occupancy.iter(), self.timeline.records()).collect()
    }
}

/// How many instructions back `depends_on` may still add an edge **(choice)**.
const WINDOW: usize = 1024;

impl NeuronCore {
    /// A core with empty memories.
    ///
    /// # Errors
    /// None that a description which was read leads to.
    pub fn new(arch: Arc<ArchSpec>, options: CoreOptions) -> Result<Self> {
        let sites = Sites::default();
        let mut memory = Memory::new(
            &arch,
            MemoryOptions {
                strict: options.strict,
                values: options.values,
                precision: options.precision,
                unlimited: options.unlimited,
            },
        );
        memory.name_sites(sites.namer());
        memory.limit_host(options.max_host_bytes);
        memory.follow_nonfinite(options.nan_origin);
        let state = State::new(&arch, memory);
        let shadow = options.shadow.then(|| Box::new(Shadow::new(&arch, options.unlimited)));
        let keeps_trace = options.unlimited && options.timing;
        let trace = keeps_trace.then(|| Box::new(TraceBuilder::new(Arc::clone(&arch))));
        let timeline_options = TimelineOptions { throttle: options.throttle, keep_records: options.timing };
        Ok(Self {
            state,
            timeline: Timeline::new(arch, timeline_options),
            sites,
            opcodes: Opcodes::default(),
            options,
            issued: 0,
            live: OccupancyPoint::default(),
            occupancy: PackedRows::default(),
            tensors: TensorLog::default(),
            ranks: RankGroups::default(),
            as_written: None,
            pending: VecDeque::new(),
            timed_last: None,
            aside: Aside::default(),
            number: 0,
            is_shared: false,
            cost: Box::new(ArchCost),
            timed: None,
            basis: Basis::default(),
            choices: (options.timing && !options.unlimited).then(Box::default),
            trace,
            shadow,
        })
    }

    /// The hardware.
    pub fn arch(&self) -> &ArchSpec {
        &self.state.arch
    }

    /// Instructions issued so far.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Takes what instructions cost from another model from here on.
    pub fn use_cost_model(&mut self, cost: Box<dyn CostModel>) {
        self.cost = cost;
    }

    /// Starts a new run on what the memories and generators hold: time is zero, engines are idle, nothing is issued and
    /// nothing found.
    pub fn restart(&mut self) {
        let options = TimelineOptions { throttle: self.options.throttle, keep_records: self.options.timing };
        self.aside.away = None;
        self.timeline = Timeline::new(Arc::clone(&self.state.arch), options);
        self.basis.restart();
        self.pending.clear();
        self.choices = self.choices.take().map(|_| Box::default());
        self.timed = self.timed.take().map(|_| Vec::new());
        self.trace = self.trace.take().map(|_| Box::new(TraceBuilder::new(Arc::clone(&self.state.arch))));
        self.occupancy.clear();
        self.tensors = TensorLog::default();
        self.ranks = RankGroups::default();
        self.as_written = None;
        self.issued = 0;
        self.state.memory.restart();
        self.state.memory.follow_nonfinite(self.options.nan_origin);
    }

    /// A core beside another one: the two share HBM, and the lines of the kernel.
    ///
    /// # Errors
    /// As [`NeuronCore::new`].
    pub fn beside(first: &mut NeuronCore, number: usize) -> Result<Self> {
        let mut core = Self::new(Arc::clone(&first.state.arch), first.options)?;
        core.sites = first.sites.clone();
        core.state.memory.name_sites(core.sites.namer());
        core.state.memory.share(Sharing { core: number, epoch: 0 }, Some(&first.state.memory));
        first.state.memory.share(Sharing { core: 0, epoch: 0 }, None);
        core.number = number;
        first.come_home();
        (core.is_shared, first.is_shared) = (true, true);
        Ok(core)
    }

    /// Whether instructions get their time: of what several cores write to shared HBM it decides what stays.
    fn is_timed(&self) -> bool {
        self.options.timing || self.is_shared
    }

    /// When an instruction's result is visible, on the clock of the cores that it meets; zero while that is open.
    pub(super) fn ended(&self, id: u32) -> Picos {
        self.timeline.ended(id)
    }

    /// Its number among the cores that share its HBM.
    pub fn number(&self) -> usize {
        self.number
    }

    /// A new tensor, on chip or in HBM.
    ///
    /// # Errors
    /// What [`Memory::allocate`] refuses.
    pub fn allocate(&mut self, request: &Request<'_>) -> Result<Arc<Storage>> {
        let storage = self.state.memory.allocate(request)?;
        self.log_tensor(&storage);
        if let Some(trace) = &mut self.trace {
            // What went before it came made room for it.
            self.state.memory.take_gone().into_iter().for_each(|id| trace.released(id));
            trace.allocated(&storage);
        }
        if let (Some(shadow), Some((buffer, place))) = (&mut self.shadow, self.state.memory.last_fresh()) {
            shadow.forget(buffer, place)?;
        }
        Ok(storage)
    }

    /// Sets the elements of any tensor, in C order, without an instruction.
    ///
    /// # Errors
    /// As [`State::write_bytes`].
    pub fn write_bytes(&mut self, view: &View, bytes: &[u8]) -> Result<()> {
        if self.shadow.is_some() {
            self.state.memory.touch(&view.storage)?;
        }
        self.state.write_bytes(view, bytes)?;
        match &mut self.shadow {
            Some(shadow) => shadow.take(&mut self.state, view),
            None => Ok(()),
        }
    }

    /// The precision that each instruction lost, by line; empty without a shadow.
    pub fn losses(&self) -> Vec<Loss> {
        self.shadow.as_ref().map(|shadow| shadow.losses()).unwrap_or_default()
    }

    /// Elements of the run beside this one, for another core; None without one.
    pub(super) fn export_shadow(&mut self, view: &View) -> Result<Option<Vec<Moved>>> {
        let site = self.state.site;
        self.shadow.as_mut().map(|shadow| shadow.export(view, site)).transpose()
    }

    /// Takes elements of the run beside another core.
    pub(super) fn import_shadow(&mut self, view: &View, elements: Option<&[Moved]>) -> Result<()> {
        match (&mut self.shadow, elements) {
            (Some(shadow), Some(elements)) => shadow.import(&mut self.state, view, elements),
            (Some(shadow), None) => shadow.take(&mut self.state, view),
            (None, _) => Ok(()),
        }
    }

    /// Lets instruction `consumer` wait until `producer` has finished, beyond what data demands.
    ///
    /// # Errors
    /// [`Error::Value`] when the producer is no earlier instruction, or the consumer was issued too long ago.
    pub fn order(&mut self, consumer: u32, producer: u32) -> Result<()> {
        if consumer == NOTHING || producer == NOTHING {
            return Ok(());
        }
        if producer >= consumer {
            return Err(Error::Value(format!(
                "instruction {consumer} cannot depend on {producer}, which comes no earlier"
            )));
        }
        let first = self.issued - self.pending.len() as u64;
        match u64::from(consumer).checked_sub(first).and_then(|place| self.pending.get_mut(place as usize)) {
            Some(pending) => pending.after.push(producer),
            None if !self.options.timing => {}
            None => {
                let text = format!(
                    "depends_on comes {} instructions late; allowed: {WINDOW}",
                    self.issued - u64::from(consumer)
                );
                return Err(Error::Value(text));
            }
        }
        Ok(())
    }

    /// Rounds engine results of 16 and 8 bits stochastically from here on, or to nearest again; `place` is the core's
    /// among those of a launch, each of which draws differently.
    ///
    /// # Errors
    /// [`Error::Numerics`] if the generators cannot be seeded.
    pub fn set_stochastic_rounding(&mut self, seed: Option<u64>, place: usize) -> Result<()> {
        let lanes = self.arch().partitions as usize;
        let seeded = seed.map(|seed| StochasticRounding::seed(seed, place, lanes));
        self.state.stochastic_rounding = seeded.transpose()?;
        if let Some(trace) = &mut self.trace {
            trace.trace.draws |= seed.is_some();
        }
        Ok(())
    }

    /// Time from the first start to the last result.
    pub fn makespan(&mut self) -> Picos {
        self.settle(0);
        if self.options.timing { self.timeline.makespan() } else { Picos::ZERO }
    }

    /// Gives every instruction but the last `keep` its time; no edge can be added to those.
    pub fn settle(&mut self, keep: usize) {
        if keep == 0 {
            self.come_home();
        }
        while self.pending.len() > keep {
            let Some(pending) = self.pending.pop_front() else { return };
            let here = if keep == 0 { Some(pending) } else { self.put_aside(pending) };
            let Some(mut pending) = here else { continue };
            if self.trace.is_none() || self.is_shared {
                self.timeline.issue(&pending.issue());
            }
            if let Some(trace) = &mut self.trace {
                traced(trace, &mut pending, None);
            }
            if let Some(timed) = &mut self.timed {
                timed.push(Timed::of(&pending.issue(), None));
            }
            self.timed_last = Some(pending);
        }
    }

    /// What each of its instructions could be instead; None where time is not kept, and of a run that was compiled.
    pub fn choices(&self) -> Option<&Choices> {
        self.choices.as_deref()
    }

    /// Tensors that came or went since the instruction before.
    fn note_occupancy(&mut self) {
        for change in self.state.memory.take_changes() {
            match change.buffer {
                Buffer::Sbuf => self.live.sbuf = change.live,
                Buffer::Psum => self.live.psum = change.live,
                Buffer::PrivateHbm | Buffer::SharedHbm => continue,
            }
            self.occupancy.push(LivePoint(self.issued, self.live));
        }
        for storage in self.state.memory.take_went() {
            self.tensors.went(storage, self.issued);
        }
    }

    /// Live bytes of a partition over time **(choice)**: a tensor comes when the instruction stream reaches the
    /// instruction after its creation, and goes when it reaches the one after its last reference went.
    pub fn occupancy(&mut self) -> Vec<OccupancyPoint> {
        self.note_occupancy();
        self.settle(0);
        self.timeline.schedule();
        over_time(self.occupancy.iter(), self.timeline.records()).collect()
    }
}

/// Live bytes from each instruction on, as bytes over time.
fn over_time(
    points: impl Iterator<Item = LivePoint>,
    records: &PackedRows<Record>,
) -> impl Iterator<Item = OccupancyPoint> {
    let (mut reached, mut next) = (Picos::ZERO, 0);
    points.map(move |LivePoint(instruction, live)| {
        while next < records.len() && next as u64 <= instruction {
            reached = reached.max(records.at(next).start);
            next += 1;
        }
        OccupancyPoint { time: reached, ..live }
    })
}

/// Registers are numbered by the process, so that cores never mistake another's for their own.
pub fn new_register(frozen: bool, value: Option<i64>) -> Arc<Register> {
    Arc::new(Register::numbered(frozen, value))
}
