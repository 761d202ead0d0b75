//! What else the instructions of a run could be, with the same values: asked once of each kind of instruction of a line, for
//! those who look for what would make it faster.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::arch::ArchSpec;
use crate::cost_model::CostModel;
use crate::dtype::DType;
use crate::engine::Engine;
use crate::isa::copy::{Memset, TensorCopy};
use crate::isa::dma::copy::DmaCopy;
use crate::isa::table::{on_engine, rebound, running_values};
use crate::isa::{Instruction, OperandRole};
use crate::packed::{PackedRow, PackedRows, unzigzag, zigzag};
use crate::site::SiteId;
use crate::storage::{Buffer, Storage};
use crate::timing::work::{DescriptorMode, Work};
use crate::view::View;

/// Instructions of one line, name and cost.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Other engines that give the same bits, where nobody named one, and what it costs there.
    pub engines: SmallVec<[(Engine, Work); 2]>,
    /// Other DMA queues, with descriptors made in hardware.
    pub queues: SmallVec<[Work; 2]>,
    /// What it costs with the 32-bit tiles whose values are those of a 16-bit type in that type.
    pub narrow: Option<Work>,
    /// The lines that made its 32-bit tiles on chip.
    wide: SmallVec<[SiteId; 2]>,
    /// Memory on chip that it fills and bytes of a partition of that tensor.
    pub fills: Option<(Buffer, u64)>,
    /// Elements that a load reads of each row of HBM, one after the other; 0 where there are gaps, and of all else.
    pub run: i64,
    /// Whether nothing but its result tells that it ran.
    pub is_pure: bool,
    work: Work,
    engine: Engine,
}

/// Which 16-bit type all values of a line's 32-bit tiles are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wide {
    Values(DType),
    Any,
}

/// Of every instruction of a run what it could be instead.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    kinds: Vec<Choice>,
    numbers: HashMap<(SiteId, u16), SmallVec<[u32; 2]>>,
    rows: PackedRows<ChoiceRow>,
    /// Loads, in the order of instructions.
    loads: PackedRows<LoadRow>,
    /// Numbers of what loads read and where to, from 1 on.
    sources: HashMap<u64, u32>,
    wide: HashMap<SiteId, Wide>,
}

/// What is kept of each instruction.
#[derive(Clone, Copy, Debug)]
struct ChoiceRow {
    kind: u32,
    filled: u64,
    source: u32,
}

impl PackedRow for ChoiceRow {
    type Words = [u64; 3];

    fn words(&self, _: u64) -> [u64; 3] {
        [u64::from(self.kind), self.filled, u64::from(self.source)]
    }

    fn of_words([kind, filled, source]: [u64; 3], _: u64) -> Self {
        Self { kind: kind as u32, filled, source: source as u32 }
    }
}

/// What is kept of a load.
#[derive(Clone, Copy, Debug)]
struct LoadRow {
    step: u32,
    offset: i64,
}

impl PackedRow for LoadRow {
    type Words = [u64; 2];

    fn words(&self, _: u64) -> [u64; 2] {
        [u64::from(self.step), zigzag(self.offset as u64)]
    }

    fn of_words([step, offset]: [u64; 2], _: u64) -> Self {
        Self { step: step as u32, offset: unzigzag(offset) as i64 }
    }
}

impl Choices {
    /// How many instructions it knows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of the host's memory that it takes.
    pub fn kept_bytes(&self) -> usize {
        let kinds = self.kinds.capacity() * size_of::<Choice>();
        let numbers = self.numbers.capacity() * size_of::<((SiteId, u16), SmallVec<[u32; 2]>)>();
        let loads = self.loads.kept_bytes() + self.sources.capacity() * size_of::<(u64, u32)>();
        self.rows.kept_bytes() + kinds + numbers + loads
    }

    /// The same with its rows as they came, for those who go through it again and again.
    pub fn opened(&self) -> Self {
        Self { rows: self.rows.opened(), loads: self.loads.opened(), ..self.clone() }
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What an instruction could be.
    pub fn of(&self, step: usize) -> &Choice {
        &self.kinds[self.rows.at(step).kind as usize]
    }

    /// Number of the tensor on chip that an instruction writes, or of the HBM tensor; 0: several, or none.
    pub fn filled(&self, step: usize) -> u64 {
        self.rows.at(step).filled
    }

    /// The same of two loads that read the same elements of HBM to tensors of one shape; 0 of all else.
    pub fn source(&self, step: usize) -> u64 {
        u64::from(self.rows.at(step).source)
    }

    /// First element of HBM that a load reads.
    pub fn offset(&self, step: usize) -> i64 {
        let place = self.loads.partition_point(|load| (load.step as usize) < step);
        self.loads.get(place).filter(|load| load.step as usize == step).map_or(0, |load| load.offset)
    }

    /// Lines that make tiles whose 32-bit values are those of a 16-bit type, which every instruction that uses them takes,
    /// and the type's name.
    pub fn narrow_tiles(&self) -> Vec<(SiteId, &'static str)> {
        let mut tiles: Vec<(SiteId, DType)> = self.wide.iter().filter_map(|(&site, &wide)| wide.values(site)).collect();
        // What one instruction cannot take keeps all its tiles wide, and those that others narrow with them.
        loop {
            let before = tiles.len();
            for kind in self.kinds.iter().filter(|kind| !kind.wide.is_empty()) {
                let is_known = |site: &SiteId| tiles.iter().any(|(tile, _)| tile == site);
                if kind.narrow.is_none() || !kind.wide.iter().all(is_known) {
                    tiles.retain(|(tile, _)| !kind.wide.contains(tile));
                }
            }
            if tiles.len() == before {
                break;
            }
        }
        tiles.sort_unstable_by_key(|(site, _)| *site);
        tiles.into_iter().map(|(site, dtype)| (site, dtype.name())).collect()
    }

    /// Whether an instruction uses tiles that these lines make.
    pub fn uses(&self, step: usize, tiles: &[(SiteId, &'static str)]) -> bool {
        self.of(step).wide.iter().any(|site| tiles.iter().any(|(tile, _)| tile == site))
    }

    pub(super) fn note(
        &mut self,
        instruction: &dyn Instruction,
        (site, opcode, engine): (SiteId, u16, Engine),
        work: &Work,
        arch: &ArchSpec,
        cost: &dyn CostModel,
    ) {
        self.follow(instruction);
        let (mut filled, mut outputs) = (0, 0);
        instruction.operands(&mut |role, view| {
            if matches!(role, OperandRole::Write | OperandRole::Update) {
                (filled, outputs) = (view.storage.id, outputs + 1);
            }
        });
        let filled = if outputs == 1 { filled } else { 0 };
        let (load, offset, run) = source(instruction);
        let mut source = 0;
        if load != 0 {
            let next = self.sources.len() as u32 + 1;
            source = *self.sources.entry(load).or_insert(next);
            self.loads.push(LoadRow { step: self.rows.len() as u32, offset });
        }
        let known = self.numbers.entry((site, opcode)).or_default();
        let same = |&number: &u32| {
            let kind = &self.kinds[number as usize];
            kind.engine == engine && kind.work == *work
        };
        let number = match known.iter().copied().find(same) {
            Some(number) => number,
            None => {
                known.push(self.kinds.len() as u32);
                let choice = self.choice(instruction, engine, work, arch, cost);
                self.kinds.push(Choice { run, ..choice });
                (self.kinds.len() - 1) as u32
            }
        };
        self.rows.push(ChoiceRow { kind: number, filled, source });
    }

    fn choice(
        &self,
        instruction: &dyn Instruction,
        engine: Engine,
        work: &Work,
        arch: &ArchSpec,
        cost: &dyn CostModel,
    ) -> Choice {
        let others = [Engine::Vector, Engine::Scalar, Engine::GpSimd].into_iter().filter(|other| *other != engine);
        let moved = |other| Some((other, cost.work(&*on_engine(instruction, arch, other)?, arch)));
        let is_compute = matches!(work, Work::Compute { .. });
        let mut wide = SmallVec::new();
        let mut fills = None;
        let mut has_registers = false;
        instruction.registers(&mut |_, _| has_registers = true);
        instruction.operands(&mut |role, view| {
            let (storage, buffer) = (&view.storage, view.storage.buffer);
            if is_wide(storage) && !wide.contains(&storage.site) {
                wide.push(storage.site);
            }
            if matches!(role, OperandRole::Write | OperandRole::Update) && buffer.is_on_chip() {
                fills = Some((buffer, storage.free_bytes() as u64));
            }
        });
        let is_pure = !instruction.is_control() && !instruction.is_opaque() && !instruction.draws() && !has_registers;
        Choice {
            engines: if is_compute { others.filter_map(moved).collect() } else { SmallVec::new() },
            queues: queues(instruction, arch, cost),
            narrow: self.narrow(instruction, engine, arch, cost),
            wide,
            fills,
            run: 0,
            is_pure: is_pure && running_values(instruction).is_none(),
            work: work.clone(),
            engine,
        }
    }

    /// What it costs with all tiles narrow that can be.
    fn narrow(
        &self,
        instruction: &dyn Instruction,
        engine: Engine,
        arch: &ArchSpec,
        cost: &dyn CostModel,
    ) -> Option<Work> {
        let mut changed = false;
        let made = rebound(instruction, arch, &mut |view| {
            let wide = self.wide.get(&view.storage.site).filter(|_| is_wide(&view.storage))?;
            let (_, dtype) = wide.values(view.storage.site)?;
            changed = true;
            let mut outline = view.storage.outline();
            outline.dtype = dtype;
            Some(View { storage: Arc::new(outline), dtype, ..view.clone() })
        });
        let made = made.ok().flatten().filter(|_| changed)?;
        (made.check(arch).is_ok() && made.engine(arch) == engine).then(|| cost.work(&*made, arch))
    }

    /// Notes of which type the values are that an instruction writes to 32-bit tiles on chip.
    fn follow(&mut self, instruction: &dyn Instruction) {
        let any: &dyn std::any::Any = instruction;
        let copied = match (any.downcast_ref::<TensorCopy>(), any.downcast_ref::<DmaCopy>()) {
            (Some(copy), _) => Some(&copy.src),
            (_, Some(copy)) => Some(&copy.src),
            _ => None,
        };
        let is_zero = any.downcast_ref::<Memset>().is_some_and(|memset| memset.value == 0.0);
        let values = copied.map(|src| match src.dtype {
            dtype @ (DType::BFloat16 | DType::Float16) => Wide::Values(dtype),
            DType::Float32 => {
                self.wide.get(&src.storage.site).copied().filter(|_| is_wide(&src.storage)).unwrap_or(Wide::Any)
            }
            _ => Wide::Any,
        });
        instruction.operands(&mut |role, view| {
            let written = matches!(role, OperandRole::Write | OperandRole::Update);
            if !is_wide(&view.storage) || view.dtype != DType::Float32 {
                // Bits of a tile that are looked at as another type are of the type that it has.
                if view.storage.dtype == DType::Float32 && view.dtype != DType::Float32 {
                    self.wide.insert(view.storage.site, Wide::Any);
                }
                return;
            }
            if written && !is_zero {
                let new = values.unwrap_or(Wide::Any);
                let known = self.wide.entry(view.storage.site).or_insert(new);
                if *known != new {
                    *known = Wide::Any;
                }
            }
        });
    }
}

impl Wide {
    fn values(self, site: SiteId) -> Option<(SiteId, DType)> {
        if let Wide::Values(dtype) = self { Some((site, dtype)) } else { None }
    }
}

/// Whether it is a tile of 32-bit floating-point values that the kernel gave no address.
fn is_wide(storage: &Storage) -> bool {
    storage.dtype == DType::Float32 && storage.buffer == Buffer::Sbuf && !storage.addressed
}

/// The same transfer through queues with descriptors made in hardware.
fn queues(instruction: &dyn Instruction, arch: &ArchSpec, cost: &dyn CostModel) -> SmallVec<[Work; 2]> {
    let any: &dyn std::any::Any = instruction;
    let Some(copy) = any.downcast_ref::<DmaCopy>() else { return SmallVec::new() };
    let through = |engine| {
        let mut options = copy.options;
        options.mode = Some(DescriptorMode::Hardware);
        let other = DmaCopy { dst: copy.dst.clone(), src: copy.src.clone(), options, engine: Some(engine) };
        (other.check(arch).is_ok() && copy.engine != Some(engine)).then(|| cost.work(&other, arch))
    };
    [Engine::Scalar, Engine::Sync].into_iter().filter_map(through).collect()
}

/// What tells loads of the same elements of HBM, the first of these, and how many of a row follow one another.
fn source(instruction: &dyn Instruction) -> (u64, i64, i64) {
    let any: &dyn std::any::Any = instruction;
    let Some(DmaCopy { dst, src, .. }) = any.downcast_ref::<DmaCopy>() else { return (0, 0, 0) };
    let is_load = !src.storage.buffer.is_on_chip() && dst.storage.buffer.is_on_chip();
    if !is_load || src.dynamic.is_some() || dst.dynamic.is_some() {
        return (0, 0, 0);
    }
    let mut hasher = DefaultHasher::new();
    (src.storage.id, src.offset, &src.shape[..], &src.strides[..]).hash(&mut hasher);
    (dst.dtype, dst.offset, &dst.shape[..], &dst.strides[..], &dst.storage.shape[..]).hash(&mut hasher);
    let mut run = 1;
    for (&extent, &stride) in src.shape.iter().zip(&src.strides).skip(1).rev() {
        if extent > 1 && stride != run {
            return (hasher.finish() | 1, src.offset, 0);
        }
        run *= extent as i64;
    }
    (hasher.finish() | 1, src.offset, run)
}
