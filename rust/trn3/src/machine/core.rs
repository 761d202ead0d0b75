//! One core: takes instructions in program order, checks them, computes their values and gives them their time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use trn3_numerics::{CastOptions, Xorwow, with_default_environment};

use crate::embed::{ArchCost, CostModel};
use crate::error::{Error, Result};
use crate::machine::arch::ArchSpec;
use crate::machine::engine::Engine;
use crate::machine::generator::Generator;
use crate::machine::isa::{Instruction, Role};
use crate::machine::memory::{Memory, MemoryOptions, Moved, Operand, OutOfBounds, Precision, Request, Sharing};
use crate::machine::opcode::Opcodes;
use crate::machine::shadow::{Loss, Shadow};
use crate::machine::site::{SiteId, Sites};
use crate::machine::storage::{Buffer, Storage};
use crate::machine::time::Picos;
use crate::machine::timing::record::Cause;
use crate::machine::timing::region::{Rect, Region, Space};
use crate::machine::timing::timeline::{Issue, Timeline, TimelineOptions};
use crate::machine::timing::work::Work;
use crate::machine::view::{Dynamic, Register, ScalarIndex, View};

/// How a core runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreOptions {
    /// Whether values are computed; without, only what control flow and addresses depend on.
    pub values: bool,
    /// Whether time is kept.
    pub timing: bool,
    /// Whether reading uninitialised memory is an error instead of a finding.
    pub strict: bool,
    /// Most instructions that a run may issue.
    pub max_instructions: Option<u64>,
    /// Whether the current-step limit of TensorE is modelled.
    pub throttle: bool,
    /// What elements of floating-point types hold.
    pub precision: Precision,
    /// Whether NaN and infinities are followed to the instruction that wrote the first ones.
    pub nan_origin: bool,
    /// Whether a run of more precision goes along, to tell how much each instruction loses.
    pub shadow: bool,
}

impl Default for CoreOptions {
    fn default() -> Self {
        Self {
            values: true,
            timing: true,
            strict: false,
            max_instructions: None,
            throttle: false,
            precision: Precision::Declared,
            nan_origin: true,
            shadow: false,
        }
    }
}

/// What instructions compute with: memories and the registers inside engines.
pub struct State {
    /// The hardware.
    pub arch: Arc<ArchSpec>,
    /// SBUF, PSUM and HBM.
    pub memory: Memory,
    /// ScalarE's running sums, one a partition.
    pub scalar_reduce: Vec<f32>,
    /// VectorE's accumulators, one a partition.
    pub vector_accumulator: Vec<f32>,
    /// VectorE's generator.
    pub vector_random: Generator,
    /// GpSimdE's generator.
    pub gpsimd_random: Generator,
    /// Generator of stochastic rounding; None: results are rounded to nearest.
    pub stochastic_rounding: Option<Xorwow>,
    /// Line of the instruction at work.
    pub site: SiteId,
    scratch: Vec<Vec<f32>>,
}

impl State {
    /// Engine registers and generators as they are at power-on, beside these memories.
    ///
    /// # Errors
    /// [`Error::Numerics`] if a generator cannot be seeded.
    pub(super) fn new(arch: &Arc<ArchSpec>, memory: Memory) -> Result<Self> {
        let lanes = arch.partitions as usize;
        let vector_generators = if arch.generation >= 4 { 4 } else { 1 };
        Ok(State {
            memory,
            scalar_reduce: vec![0.0; lanes],
            vector_accumulator: vec![0.0; lanes],
            vector_random: Generator::new(Xorwow::seed(0, lanes, vector_generators)?),
            gpsimd_random: Generator::new(Xorwow::seed(1, lanes, 1)?),
            stochastic_rounding: None,
            site: SiteId::default(),
            scratch: Vec::new(),
            arch: arch.clone(),
        })
    }

    /// A float32 buffer to read a tile into; give it back with [`State::keep`].
    pub fn buffer(&mut self) -> Vec<f32> {
        self.scratch.pop().unwrap_or_default()
    }

    /// Takes a buffer back for the next instruction.
    pub fn keep(&mut self, buffer: Vec<f32>) {
        if self.scratch.len() < 8 {
            self.scratch.push(buffer);
        }
    }

    /// The tile as float32, in C order of [partitions, elements per partition].
    ///
    /// # Errors
    /// Those of the memories.
    pub fn read(&mut self, view: &View) -> Result<Vec<f32>> {
        let mut values = self.buffer();
        self.memory.read_f32(view, &mut values, self.site)?;
        Ok(values)
    }

    /// The elements of a tile that are moved and not looked at: [`Memory::read_words`].
    ///
    /// # Errors
    /// Those of the memories.
    pub fn read_words(&mut self, view: &View) -> Result<Vec<u32>> {
        let mut words = Vec::new();
        self.memory.read_words(view, &mut words, self.site)?;
        Ok(words)
    }

    /// Bit patterns of the tile, zero-extended.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn read_bits(&mut self, view: &View) -> Result<Vec<u32>> {
        let mut bits = Vec::new();
        self.memory.read_bits(view, &mut bits, self.site)?;
        Ok(bits)
    }

    /// The elements of any tensor in C order, as bytes of its type.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn read_bytes(&mut self, view: &View) -> Result<Vec<u8>> {
        self.memory.read_bytes(view, self.site)
    }

    /// As [`State::read_bytes`] for the host, who looks at what the cores hold: no use that could be a race.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn peek_bytes(&mut self, view: &View) -> Result<Vec<u8>> {
        let sharing = self.memory.stop_sharing();
        let bytes = self.read_bytes(view);
        if let Some(sharing) = sharing {
            self.memory.share(sharing, None);
        }
        bytes
    }

    /// Sets the elements of any tensor, in C order, from bytes of its type.
    ///
    /// # Errors
    /// [`Error::Value`] for another number of bytes; those of the memories.
    pub fn write_bytes(&mut self, view: &View, bytes: &[u8]) -> Result<()> {
        self.memory.write_bytes(view, bytes)
    }

    /// Writes an engine's float32 results, rounded to the tile's type: to nearest even, or stochastically where the core
    /// is set so (16-bit and 8-bit floats).
    ///
    /// # Errors
    /// Those of the memories.
    pub fn write(&mut self, view: &View, values: &[f32]) -> Result<()> {
        if let Some(draws) =
            self.stochastic_rounding.as_mut().filter(|_| view.dtype.is_float() && view.dtype.size() < 4)
        {
            return self.memory.write_f32_stochastic(view, values, draws);
        }
        self.memory.write_f32(view, values, CastOptions::default())
    }

    /// `src` through float32 into `dst`.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn convert(&mut self, dst: &View, src: &View) -> Result<()> {
        let values = self.read(src)?;
        self.write(dst, &values)?;
        self.keep(values);
        Ok(())
    }
}

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
    /// When everything runs.
    pub timeline: Timeline,
    /// Lines of the kernel.
    pub sites: Sites,
    /// Names of instructions and labels.
    pub opcodes: Opcodes,
    /// How the core runs.
    pub options: CoreOptions,
    issued: u64,
    live: OccupancyPoint,
    occupancy: Vec<(u64, OccupancyPoint)>,
    /// Issued but not yet timed: the last few wait for edges that the kernel may still add.
    pending: VecDeque<Pending>,
    number: usize,
    /// Whether other cores have the same HBM.
    is_shared: bool,
    cost: Box<dyn CostModel>,
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

/// How many instructions back `depends_on` may still add an edge **(choice)**.
const WINDOW: usize = 1024;

/// What the timeline needs of an issued instruction.
struct Pending {
    opcode: u16,
    engine: Engine,
    site: SiteId,
    label: u32,
    work: Work,
    reads: Regions,
    stationary: Regions,
    writes: Regions,
    after: SmallVec<[u32; 2]>,
    dynamic: bool,
    macs: (u64, u64),
}

impl Pending {
    fn issue(&self) -> Issue<'_> {
        Issue {
            opcode: self.opcode,
            engine: self.engine,
            site: self.site,
            label: self.label,
            work: self.work.clone(),
            reads: &self.reads,
            stationary_reads: &self.stationary,
            writes: &self.writes,
            after: &self.after,
            dynamic: self.dynamic,
            macs: self.macs.0,
            peak_macs_per_cycle: self.macs.1,
        }
    }
}

type Regions = SmallVec<[Region; 3]>;

impl NeuronCore {
    /// A core with empty memories.
    ///
    /// # Errors
    /// [`Error::Numerics`] if a generator cannot be seeded.
    pub fn new(arch: Arc<ArchSpec>, options: CoreOptions) -> Result<Self> {
        let sites = Sites::default();
        let mut memory = Memory::new(
            &arch,
            MemoryOptions { strict: options.strict, values: options.values, precision: options.precision },
        );
        memory.name_sites(sites.namer());
        memory.follow_nonfinite(options.nan_origin);
        let state = State::new(&arch, memory)?;
        let shadow = if options.shadow { Some(Box::new(Shadow::new(&arch)?)) } else { None };
        let timeline_options = TimelineOptions { throttle: options.throttle, keep_records: true };
        Ok(Self {
            state,
            timeline: Timeline::new(arch, timeline_options),
            sites,
            opcodes: Opcodes::default(),
            options,
            issued: 0,
            live: OccupancyPoint::default(),
            occupancy: Vec::new(),
            pending: VecDeque::new(),
            number: 0,
            is_shared: false,
            cost: Box::new(ArchCost),
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
        let options = TimelineOptions { throttle: self.options.throttle, keep_records: true };
        self.timeline = Timeline::new(Arc::clone(&self.state.arch), options);
        self.pending.clear();
        self.occupancy.clear();
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
        (core.is_shared, first.is_shared) = (true, true);
        Ok(core)
    }

    /// Its number among the cores that share its HBM.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Runs one instruction: checks, values, time. What fails leaves no trace on the timeline.
    ///
    /// # Errors
    /// What the checks refuse, what the memories report, and the run's instruction limit.
    pub fn issue(&mut self, instruction: &dyn Instruction, at: At<'_>) -> Result<u32> {
        let arch = Arc::clone(&self.state.arch);
        self.begin(instruction, &arch, at)?;
        if self.options.values || self.is_known(instruction)? {
            // A host that flushes subnormals would change what the machine's own loops compute.
            with_default_environment(|| {
                let before = self.shadow.as_mut().map(|shadow| shadow.before(instruction, &mut self.state));
                self.state.memory.watch(instruction);
                instruction.execute(&mut self.state)?;
                if let Some((shadow, before)) = self.shadow.as_mut().zip(before) {
                    shadow.after(instruction, &mut self.state, &before, self.issued);
                }
                self.state.memory.trace(instruction)
            })?;
        } else {
            self.forget_results(instruction)?;
        }
        let id = self.count(instruction)?;
        if self.options.timing {
            let pending = self.pending_of(instruction, &arch, at);
            self.pending.push_back(pending);
            self.settle(WINDOW);
        }
        Ok(id)
    }

    /// Checks and numbers this core's part of an instruction that cores run together; its time comes with
    /// [`NeuronCore::meet`].
    pub(super) fn join(&mut self, instruction: &dyn Instruction, at: At<'_>) -> Result<u32> {
        let arch = Arc::clone(&self.state.arch);
        self.begin(instruction, &arch, at)?;
        self.count(instruction)
    }

    /// Gives instructions that cores have [joined](NeuronCore::join) their time. Cores at the places of each range share
    /// HBM, whose uses are ordered there; those that came sooner wait for `cause`.
    pub(super) fn meet(
        parts: Vec<(&mut NeuronCore, &dyn Instruction, At<'_>)>,
        hop: Picos,
        sharing: &[Range<usize>],
        cause: Cause,
    ) {
        let mut cores = Vec::with_capacity(parts.len());
        for (core, instruction, at) in parts {
            if !core.options.timing {
                return;
            }
            core.settle(0);
            let arch = Arc::clone(&core.state.arch);
            let pending = core.pending_of(instruction, &arch, at);
            cores.push((&mut core.timeline, pending));
        }
        let mut issues: Vec<_> =
            cores.iter_mut().map(|(timeline, pending)| (&mut **timeline, pending.issue())).collect();
        let spans = Timeline::rendezvous(&mut issues, hop, cause);
        for range in sharing {
            if let (Some(cores), Some(spans)) = (issues.get_mut(range.clone()), spans.get(range.clone())) {
                Timeline::order_shared(cores, spans);
            }
        }
    }

    fn begin(&mut self, instruction: &dyn Instruction, arch: &ArchSpec, at: At<'_>) -> Result<()> {
        self.state.site = at.site;
        self.state.memory.set_site(at.site);
        self.note_occupancy();
        if self.options.max_instructions.is_some_and(|most| self.issued >= most) {
            let text = format!(
                "{}: instruction {} exceeds max_instructions = {}",
                instruction.name(),
                self.issued + 1,
                self.issued
            );
            return Err(Error::InstructionLimit(text));
        }
        instruction.check(arch)
    }

    fn count(&mut self, instruction: &dyn Instruction) -> Result<u32> {
        let id = u32::try_from(self.issued).map_err(|_| {
            Error::InstructionLimit(format!("{}: more than {} instructions in one run", instruction.name(), u32::MAX))
        })?;
        self.issued += 1;
        Ok(id)
    }

    /// A new tensor, on chip or in HBM.
    ///
    /// # Errors
    /// What [`Memory::allocate`] refuses.
    pub fn allocate(&mut self, request: &Request<'_>) -> Result<Arc<Storage>> {
        let storage = self.state.memory.allocate(request)?;
        if let (Some(shadow), Some((buffer, place))) = (&mut self.shadow, self.state.memory.last_fresh()) {
            shadow.forget(buffer, place);
        }
        Ok(storage)
    }

    /// Sets the elements of any tensor, in C order, without an instruction.
    ///
    /// # Errors
    /// As [`State::write_bytes`].
    pub fn write_bytes(&mut self, view: &View, bytes: &[u8]) -> Result<()> {
        if self.shadow.is_some() {
            self.state.memory.touch(&view.storage);
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

    /// Rounds engine results of 16 and 8 bits stochastically from here on, or to nearest again.
    ///
    /// # Errors
    /// [`Error::Numerics`] if the generator cannot be seeded.
    pub fn set_stochastic_rounding(&mut self, seed: Option<u64>) -> Result<()> {
        let lanes = self.arch().partitions as usize;
        self.state.stochastic_rounding = seed.map(|seed| Xorwow::seed(seed, lanes, 1)).transpose()?;
        Ok(())
    }

    /// Time from the first start to the last result.
    pub fn makespan(&mut self) -> Picos {
        self.settle(0);
        self.timeline.makespan()
    }

    /// Gives every instruction but the last `keep` its time; no edge can be added to those.
    pub fn settle(&mut self, keep: usize) {
        while self.pending.len() > keep {
            let Some(pending) = self.pending.pop_front() else { return };
            self.timeline.issue(&pending.issue());
        }
    }

    /// Timing-only: whether the instruction's results are among the values that control flow and addresses may need
    /// (integer tiles and control instructions) and everything it reads is known.
    fn is_known(&mut self, instruction: &dyn Instruction) -> Result<bool> {
        let mut wanted = true;
        instruction.operands(&mut |role, view| {
            if matches!(role, Role::Write | Role::Update) {
                wanted &= view.dtype.is_integer();
            }
        });
        if instruction.is_control() {
            return Ok(true);
        }
        let mut known = Ok(wanted);
        let memory = &mut self.state.memory;
        let mode = instruction.out_of_bounds();
        instruction.operands(&mut |role, view| {
            if role != Role::Write && matches!(known, Ok(true)) {
                known = memory.is_initialised(Operand::from(view).out_of_bounds(mode));
            }
        });
        match known {
            // A transfer that is left out needs no values.
            Err(Error::OutOfBounds(_)) if mode == OutOfBounds::Skip => Ok(true),
            known => known,
        }
    }

    /// Tensors that came or went since the instruction before.
    fn note_occupancy(&mut self) {
        for change in self.state.memory.take_changes() {
            match change.buffer {
                Buffer::Sbuf => self.live.sbuf = change.live,
                Buffer::Psum => self.live.psum = change.live,
                Buffer::PrivateHbm | Buffer::SharedHbm => continue,
            }
            self.occupancy.push((self.issued, self.live));
        }
    }

    /// Live bytes of a partition over time **(choice)**: a tensor comes when the instruction stream reaches the
    /// instruction after its creation, and goes when it reaches the one after its last reference went.
    pub fn occupancy(&mut self) -> Vec<OccupancyPoint> {
        self.note_occupancy();
        self.settle(0);
        let records = self.timeline.records();
        let (mut reached, mut next) = (Picos::ZERO, 0);
        let mut points = Vec::with_capacity(self.occupancy.len());
        for &(instruction, live) in &self.occupancy {
            while next < records.len() && next as u64 <= instruction {
                reached = reached.max(records[next].start);
                next += 1;
            }
            points.push(OccupancyPoint { time: reached, ..live });
        }
        points
    }

    fn forget_results(&mut self, instruction: &dyn Instruction) -> Result<()> {
        let mut outcome = Ok(());
        let memory = &mut self.state.memory;
        let mode = instruction.out_of_bounds();
        instruction.operands(&mut |role, view| {
            if role != Role::Write && outcome.is_ok() {
                outcome = memory.skip_read(view);
            }
            if matches!(role, Role::Write | Role::Update) && outcome.is_ok() {
                outcome = match memory.forget(Operand::from(view).out_of_bounds(mode)) {
                    // The transfer is left out.
                    Err(Error::OutOfBounds(_)) if mode == OutOfBounds::Skip => Ok(()),
                    forgotten => forgotten,
                };
            }
        });
        outcome
    }

    fn pending_of(&mut self, instruction: &dyn Instruction, arch: &ArchSpec, at: At<'_>) -> Pending {
        let (mut reads, mut stationary, mut writes) = (Regions::new(), Regions::new(), Regions::new());
        let dynamic = regions_of(instruction, &mut reads, &mut stationary, &mut writes);
        if self.is_shared {
            instruction.operands(&mut |_, view| {
                if view.storage.buffer == Buffer::SharedHbm {
                    self.timeline.share(view.storage.id);
                }
            });
        }
        Pending {
            opcode: self.opcodes.opcode(instruction.name()),
            engine: instruction.engine(arch),
            site: at.site,
            label: at.label.map_or(0, |label| self.opcodes.label(label)),
            work: self.cost.work(instruction, arch),
            reads,
            stationary,
            writes,
            after: SmallVec::from_slice(at.after),
            dynamic,
            macs: instruction.macs(arch),
        }
    }
}

/// What the timeline needs of an instruction that costs `work`, from its operands alone.
pub fn instruction_issue<R>(
    instruction: &dyn Instruction,
    arch: &ArchSpec,
    work: Work,
    take: impl FnOnce(&Issue<'_>) -> R,
) -> R {
    let (mut reads, mut stationary, mut writes) = (Regions::new(), Regions::new(), Regions::new());
    let dynamic = regions_of(instruction, &mut reads, &mut stationary, &mut writes);
    let (macs, peak_macs_per_cycle) = instruction.macs(arch);
    take(&Issue {
        opcode: 0,
        engine: instruction.engine(arch),
        site: SiteId::default(),
        label: 0,
        work,
        reads: &reads,
        stationary_reads: &stationary,
        writes: &writes,
        after: &[],
        dynamic,
        macs,
        peak_macs_per_cycle,
    })
}

/// What an instruction reads and writes; true if one of its addresses is known only when it executes.
fn regions_of(
    instruction: &dyn Instruction,
    reads: &mut Regions,
    stationary: &mut Regions,
    writes: &mut Regions,
) -> bool {
    let mut dynamic = false;
    instruction.operands(&mut |role, view| {
        let region = view.regions();
        dynamic |= address_regions(view, reads);
        match role {
            Role::Read => reads.push(region),
            Role::Stationary => stationary.push(region),
            Role::Write => writes.push(region),
            Role::Update => {
                reads.push(region.clone());
                writes.push(region);
            }
        }
    });
    instruction.registers(&mut |role, id| {
        let region = register_region(id);
        if role == Role::Read { reads.push(region) } else { writes.push(region) }
    });
    dynamic
}

/// Adds what a view's address is read from; true if there is anything.
fn address_regions(view: &View, reads: &mut Regions) -> bool {
    let Some(dynamic) = &view.dynamic else { return false };
    match &**dynamic {
        Dynamic::Scalar { index: ScalarIndex::Element(index), .. }
        | Dynamic::Rows { index, .. }
        | Dynamic::Columns { index, .. } => {
            reads.push(index.regions());
        }
        Dynamic::Scalar { index: ScalarIndex::Register(register), .. } => reads.push(register_region(register.id)),
    }
    matches!(&**dynamic, Dynamic::Scalar { .. })
}

fn register_region(id: u64) -> Region {
    let mut rects = SmallVec::new();
    rects.push(Rect { rows: 0..1, columns: 0..1 });
    Region { space: Space::Register(id), rects }
}

/// Registers are numbered by the process, so that cores never mistake another's for their own.
pub fn new_register(frozen: bool, value: Option<i64>) -> Arc<Register> {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Arc::new(Register { id: NEXT.fetch_add(1, Ordering::Relaxed), frozen, value: Mutex::new(value) })
}
