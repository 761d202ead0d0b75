//! A trace as it is written: what each instruction is to those who may change it.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::as_written::Event;
use super::{Alternatives, Forwarded, Home, Met, StepMarks, Trace, TraceOperand, TraceStep, TraceTensor, Use};
use crate::arch::ArchSpec;
use crate::cost_model::CostModel;
use crate::engine::Engine;
use crate::isa::copy::{Memset, TensorCopy};
use crate::isa::dma::copy::DmaCopy;
use crate::isa::table::{fingerprint, is_open, on_engine, rebound, running_values};
use crate::isa::tensor::matmul::NcMatmul;
use crate::isa::{Instruction, OperandRole};
use crate::opcode::Opcodes;
use crate::site::SiteId;
use crate::storage::{Buffer, Storage};
use crate::timing::region::Rect;
use crate::timing::work::Work;
use crate::view::{Dynamic, Register, ScalarIndex, View};

/// Engines that an instruction without one may go to; which of them may run it is its own to say.
const COMPUTE: [Engine; 3] = [Engine::Vector, Engine::Scalar, Engine::GpSimd];

/// Instructions without a part of their output that may stay as it is.
const OVERWRITING: [&str; 22] = [
    "activation",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "dma_copy",
    "dma_transpose",
    "dropout",
    "exponential",
    "iota",
    "max8",
    "memset",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_transpose",
    "reciprocal",
    "scalar_tensor_tensor",
    "tensor_copy",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_tensor",
    "tensor_tensor_scan",
];

/// What is kept of an instruction until it is certain which others it waits for.
pub(crate) struct Draft {
    pub(crate) operands: SmallVec<[TraceOperand; 3]>,
    pub(crate) fingerprint: Option<u64>,
    pub(crate) marks: StepMarks,
    pub(crate) alternatives: Option<Box<Alternatives>>,
    pub(crate) scope: u32,
}

/// Writes a trace.
pub(crate) struct TraceBuilder {
    pub(crate) trace: Trace,
    tensors: HashMap<Home, u32>,
    /// Tensors on chip without an address, by storage.
    open: HashMap<u64, u32>,
    /// Of tensors that are copies, bit for bit, where they were copied from.
    copies: HashMap<u32, Copied>,
    /// Steps that use the running values of their engine, and whether they go on from them.
    running: Vec<(u32, Engine, bool)>,
    is_ordered: bool,
    drafted: u32,
}

/// Where all of a tensor was copied from.
struct Copied {
    /// Its number, and what views of it are made of: it may be gone where its copy still is read.
    tensor: u32,
    storage: Arc<Storage>,
    /// First partition and first element of a partition, and elements between partitions.
    partition: usize,
    element: usize,
    pitch: usize,
    /// Elements of a partition of the copy.
    columns: usize,
}

impl TraceBuilder {
    pub(crate) fn new(arch: Arc<ArchSpec>) -> Self {
        Self {
            trace: Trace::new(arch),
            tensors: HashMap::new(),
            open: HashMap::new(),
            copies: HashMap::new(),
            running: Vec::new(),
            is_ordered: false,
            drafted: 0,
        }
    }

    /// The author orders what follows, or no longer.
    pub(crate) fn set_ordered(&mut self, is_ordered: bool) {
        self.is_ordered = is_ordered;
    }

    /// A tensor on chip was made.
    pub(crate) fn allocated(&mut self, storage: &Storage) {
        if storage.buffer.is_on_chip() && !storage.addressed {
            let number = self.tensor(storage);
            self.trace.events.push(Event::made(self.drafted, number));
        }
    }

    /// The last view of a tensor on chip went.
    pub(crate) fn released(&mut self, storage: u64) {
        if let Some(number) = self.open.remove(&storage) {
            let first = self.trace.renewed.get(&number).copied().unwrap_or(number);
            self.trace.events.push(Event::gone(self.drafted, first));
            self.copies.remove(&number);
        }
    }

    /// A tensor on chip is made anew in its place: nothing that was done with it before matters to what is done from here on.
    pub(crate) fn renewed(&mut self, storage: &Storage) {
        let Some(&before) = self.open.get(&storage.id) else { return };
        let made = Event::made(self.drafted, before);
        if self.trace.events.iter().rev().take_while(|event| event.step == self.drafted).any(|event| *event == made) {
            return;
        }
        let first = self.trace.renewed.get(&before).copied().unwrap_or(before);
        self.open.remove(&storage.id);
        self.copies.remove(&before);
        let number = self.tensor(storage);
        self.trace.renewed.insert(number, first);
    }

    fn tensor(&mut self, storage: &Storage) -> u32 {
        let home = match (storage.place, storage.buffer) {
            (Some(_), buffer) if storage.addressed => Home::Addressed(buffer),
            (_, buffer) if buffer.is_on_chip() => Home::Open(buffer),
            _ => Home::Hbm(storage.id),
        };
        let is_open = matches!(home, Home::Open(_));
        let known = if is_open { self.open.get(&storage.id) } else { self.tensors.get(&home) };
        if let Some(&known) = known {
            return known;
        }
        let (partitions, bytes) = match home {
            Home::Addressed(Buffer::Psum) => {
                (self.trace.arch.partitions as u32, self.trace.arch.psum_partition_bytes())
            }
            Home::Addressed(_) => (self.trace.arch.partitions as u32, self.trace.arch.sbuf_partition_bytes),
            _ => (storage.shape.first().copied().unwrap_or(1) as u32, storage.free_bytes() as u64),
        };
        let (name, site) = if matches!(home, Home::Addressed(_)) {
            (Box::default(), SiteId::default())
        } else {
            (storage.name.as_str().into(), storage.site)
        };
        let number = self.trace.add_tensor(TraceTensor { home, name, site, partitions, bytes, storage: storage.id });
        if is_open {
            self.open.insert(storage.id, number);
        } else {
            self.tensors.insert(home, number);
        }
        number
    }

    fn register(&mut self, id: u64) -> u32 {
        let home = Home::Register(id);
        if let Some(&known) = self.tensors.get(&home) {
            return known;
        }
        let (name, site) = (Box::default(), SiteId::default());
        let number = self.trace.add_tensor(TraceTensor { home, name, site, partitions: 1, bytes: 4, storage: 0 });
        self.tensors.insert(home, number);
        number
    }

    fn operand(&mut self, view: &View, usage: Use) -> TraceOperand {
        let storage = &*view.storage;
        let tensor = self.tensor(storage);
        let region = view.regions();
        let (row, byte) = match storage.place {
            Some(place) if !storage.addressed => (place.partition as u64, place.byte as u64),
            _ => (0, 0),
        };
        let moved = |rect: &Rect| Rect {
            rows: rect.rows.start - row..rect.rows.end - row,
            columns: rect.columns.start - byte..rect.columns.end - byte,
        };
        TraceOperand { tensor, usage, offset: view.offset, rects: region.rects.iter().map(moved).collect() }
    }

    fn register_operand(&mut self, register: &Register, usage: Use) -> TraceOperand {
        let tensor = self.register(register.id);
        let whole = Rect { rows: 0..1, columns: 0..1 };
        TraceOperand { tensor, usage, offset: 0, rects: SmallVec::from_buf([whole]) }
    }

    /// What is known of an instruction before it is timed.
    pub(crate) fn draft(&mut self, instruction: &dyn Instruction, cost: &dyn CostModel) -> Draft {
        self.drafted += 1;
        let arch = Arc::clone(&self.trace.arch);
        let mut marks = StepMarks {
            is_ordered: self.is_ordered,
            is_fence: instruction.is_opaque(),
            draws: instruction.draws(),
            ..Default::default()
        };
        let mut operands = SmallVec::new();
        let mut reads: SmallVec<[(u8, View); 3]> = SmallVec::new();
        instruction.operands(&mut |role, view| {
            if let Some(dynamic) = &view.dynamic {
                marks.is_dynamic |= matches!(&**dynamic, Dynamic::Scalar { .. });
                operands.push(match &**dynamic {
                    Dynamic::Scalar { index: ScalarIndex::Register(register), .. } => {
                        self.register_operand(register, Use::Read)
                    }
                    Dynamic::Scalar { index: ScalarIndex::Element(index), .. }
                    | Dynamic::Rows { index, .. }
                    | Dynamic::Columns { index, .. } => self.operand(index, Use::Read),
                });
            }
            match role {
                OperandRole::Read => {
                    if view.dynamic.is_none() && view.storage.buffer == Buffer::Sbuf {
                        reads.push((operands.len() as u8, view.clone()));
                    }
                    operands.push(self.operand(view, Use::Read));
                }
                OperandRole::Stationary => operands.push(self.operand(view, Use::Stationary)),
                OperandRole::Write => operands.push(self.operand(view, Use::Write)),
                OperandRole::Update => {
                    let read = self.operand(view, Use::Read);
                    operands.push(TraceOperand { usage: Use::Write, ..read.clone() });
                    operands.push(read);
                }
            }
        });
        marks.overwrites = OVERWRITING.contains(&instruction.name()) && sets_all(instruction, &operands);
        marks.yields = yields(instruction, &reads);
        instruction.registers(&mut |role, register| {
            let usage = if role == OperandRole::Read { Use::Read } else { Use::Write };
            operands.push(self.register_operand(register, usage));
        });
        let fingerprint = fingerprint(instruction);
        if let Some(continues) = running_values(instruction) {
            self.running.push((self.drafted - 1, instruction.engine(&arch), continues));
        }
        let overwritten = |view: &View| {
            let own = self.open.get(&view.storage.id);
            operands.iter().any(|other: &TraceOperand| other.usage == Use::Write && Some(&other.tensor) == own)
        };
        reads.retain(|(_, view)| !overwritten(view));
        let alternatives = self.alternatives(instruction, &arch, cost, &reads);
        let any: &dyn std::any::Any = instruction;
        if let Some(fill) = any.downcast_ref::<Memset>() {
            marks.fills_zero = fill.value == 0.0 && !fill.value.is_sign_negative();
        }
        if let Some(copy) = any.downcast_ref::<TensorCopy>() {
            marks.copies = copy.dst.dtype == copy.src.dtype;
        }
        marks.takes_trigger = any.downcast_ref::<DmaCopy>().is_some_and(|copy| copy.takes_trigger(&arch));
        if let Some(product) = any.downcast_ref::<NcMatmul>() {
            let joins = product.accumulate.is_none() && !product.is_transpose;
            marks.joins_products = joins && area(&operands) == (product.dst.len() * product.dst.dtype.size()) as u64;
        }
        self.note_copies(instruction, &operands, marks.copies);
        Draft { operands, fingerprint, marks, alternatives, scope: self.trace.scopes.now() }
    }

    /// The trace goes on with a drafted instruction, whose place in it is known now.
    pub(crate) fn push(&mut self, draft: Draft, timed: DraftTime) {
        let Draft { operands, fingerprint, marks, alternatives, scope } = draft;
        let DraftTime { opcode, engine, site, label, work, after, macs, met } = timed;
        let marks = StepMarks { is_fence: marks.is_fence || met.is_some(), ..marks };
        self.trace.steps.push(TraceStep {
            source: self.trace.steps.len() as u32,
            opcode,
            engine,
            site,
            label,
            scope,
            work,
            operands,
            after,
            fingerprint,
            macs,
            marks,
            alternatives,
            met,
        });
    }

    fn alternatives(
        &self,
        instruction: &dyn Instruction,
        arch: &ArchSpec,
        cost: &dyn CostModel,
        reads: &[(u8, View)],
    ) -> Option<Box<Alternatives>> {
        let computes = !matches!(instruction.engine(arch), Engine::Tensor | Engine::Dma);
        let is_open = computes && is_open(instruction);
        let mut found = Alternatives::default();
        if is_open {
            found.engines = other_engines(instruction, arch, cost);
        } else if computes {
            found.renamed = other_engines(instruction, arch, cost).into_vec();
        }
        for (operand, view) in reads {
            let Some((tensor, instead)) = self.copied_from(view) else { continue };
            let id = view.storage.id;
            let made = rebound(instruction, arch, &mut |other| {
                let same = other.storage.id == id && other.offset == view.offset && other.dtype == view.dtype;
                (same && other.shape == view.shape && other.strides == view.strides).then(|| instead.clone())
            });
            let Ok(Some(made)) = made else { continue };
            if made.check(arch).is_err() || made.engine(arch) != instruction.engine(arch) {
                continue;
            }
            let engines = if is_open { other_engines(&*made, arch, cost) } else { SmallVec::new() };
            let region = instead.regions();
            let place = instead.storage.place;
            let (row, byte) = place.map_or((0, 0), |place| (place.partition as u64, place.byte as u64));
            let moved = |rect: &Rect| Rect {
                rows: rect.rows.start - row..rect.rows.end - row,
                columns: rect.columns.start - byte..rect.columns.end - byte,
            };
            let rects = region.rects.iter().map(moved).collect();
            let instead = TraceOperand { tensor, usage: Use::Read, offset: instead.offset, rects };
            let work = cost.work(&*made, arch);
            found.forwarded.push(Forwarded { operand: *operand, instead, work, engines });
        }
        found.renamed.shrink_to_fit();
        found.forwarded.shrink_to_fit();
        let any = !found.engines.is_empty() || !found.renamed.is_empty() || !found.forwarded.is_empty();
        any.then(|| Box::new(found))
    }

    /// The view of what another one's elements were copied from, if they all were, and the number of that tensor.
    fn copied_from(&self, view: &View) -> Option<(u32, View)> {
        let copied = self.copies.get(self.open.get(&view.storage.id)?)?;
        let storage = Arc::clone(&copied.storage);
        if view.dtype != storage.dtype || view.strides.is_empty() {
            return None;
        }
        let columns = copied.columns as i64;
        if view.strides[0] % columns != 0 && view.shape[0] > 1 {
            return None;
        }
        let (pitch, first) = (copied.pitch as i64, (copied.partition * copied.pitch + copied.element) as i64);
        let mut instead = View { storage, ..view.clone() };
        instead.strides[0] = view.strides[0] / columns * pitch;
        instead.offset = view.offset / columns * pitch + view.offset % columns + first;
        Some((copied.tensor, instead))
    }

    /// Remembers what all of a tensor was copied from, and forgets it where either changes.
    fn note_copies(&mut self, instruction: &dyn Instruction, operands: &[TraceOperand], copies: bool) {
        for written in operands.iter().filter(|operand| operand.usage == Use::Write) {
            self.copies.remove(&written.tensor);
        }
        let any: &dyn std::any::Any = instruction;
        let Some(copy) = any.downcast_ref::<TensorCopy>().filter(|_| copies) else { return };
        let (dst, src) = (&copy.dst, &copy.src);
        let plain = |view: &View| view.dynamic.is_none() && view.free_is_contiguous() && !view.storage.addressed;
        let is_whole = dst.len() == dst.storage.elements() && dst.dtype == dst.storage.dtype;
        if !plain(dst) || !plain(src) || !is_whole || src.dtype != src.storage.dtype || dst.partition_step() != 1 {
            return;
        }
        if src.partition_step() != 1 || src.storage.free_elements() == 0 {
            return;
        }
        let (Some(&number), Some(&tensor)) = (self.open.get(&dst.storage.id), self.open.get(&src.storage.id)) else {
            return;
        };
        let pitch = src.storage.free_elements();
        let offset = src.offset as usize;
        let copied = Copied {
            tensor,
            storage: Arc::new(src.storage.outline()),
            partition: offset / pitch,
            element: offset % pitch,
            pitch,
            columns: dst.storage.free_elements(),
        };
        self.copies.insert(number, copied);
    }

    pub(crate) fn finish(mut self, names: &Opcodes, draws: bool) -> Trace {
        self.keep_running_values();
        self.trace.names = names.clone();
        self.trace.draws |= draws;
        self.trace.shrink();
        self.trace
    }
}

impl TraceBuilder {
    /// Where an engine's running values go from step to step, which no operand shows, those steps stay, in their order.
    fn keep_running_values(&mut self) {
        for engine in COMPUTE {
            let own = || self.running.iter().filter(|(_, user, _)| *user == engine);
            if !own().any(|(.., continues)| *continues) {
                continue;
            }
            for &(step, ..) in own() {
                if let Some(step) = self.trace.steps.get_mut(step as usize) {
                    step.marks.is_ordered = true;
                    step.fingerprint = None;
                }
            }
        }
    }
}

/// What the timeline takes of a drafted instruction.
pub(crate) struct DraftTime {
    pub(crate) opcode: u16,
    pub(crate) engine: Engine,
    pub(crate) site: SiteId,
    pub(crate) label: u32,
    pub(crate) work: Work,
    pub(crate) after: SmallVec<[u32; 2]>,
    pub(crate) macs: (u64, u64),
    pub(crate) met: Option<Met>,
}

/// Whether an instruction has one output, which is neither an input as well nor found at run time, and sets all that its
/// rectangles cover: gaps may count as covered.
fn sets_all(instruction: &dyn Instruction, operands: &[TraceOperand]) -> bool {
    let (mut outputs, mut bytes) = (0, 0);
    instruction.operands(&mut |role, view| match role {
        _ if view.dynamic.is_some() => outputs += 2,
        OperandRole::Read | OperandRole::Stationary => {}
        OperandRole::Update => outputs += 2,
        OperandRole::Write => {
            outputs += 1;
            bytes += (view.len() * view.dtype.size()) as u64;
        }
    });
    outputs == 1 && area(operands) == bytes
}

/// Bytes of what operands write.
fn area(operands: &[TraceOperand]) -> u64 {
    let written = operands.iter().filter(|operand| operand.usage == Use::Write);
    let area = |rect: &Rect| (rect.rows.end - rect.rows.start) * (rect.columns.end - rect.columns.start);
    written.flat_map(|operand| &operand.rects).map(area).sum()
}

/// Instructions that read each element before they write the one in its place.
const IN_PLACE: [&str; 8] = [
    "activation",
    "exponential",
    "reciprocal",
    "scalar_tensor_tensor",
    "tensor_copy",
    "tensor_scalar",
    "tensor_tensor",
    "tensor_tensor_scan",
];

/// Operands, by bit, whose elements lie as those of the first output do.
fn yields(instruction: &dyn Instruction, reads: &[(u8, View)]) -> u8 {
    let mut output: Option<View> = None;
    instruction.operands(&mut |role, view| {
        if role == OperandRole::Write && output.is_none() {
            output = Some(view.clone());
        }
    });
    let Some(output) = output.filter(|output| IN_PLACE.contains(&instruction.name()) && output.dynamic.is_none())
    else {
        return 0;
    };
    let alike = |view: &View| {
        let sizes =
            view.dtype.size() == output.dtype.size() && view.storage.free_bytes() == output.storage.free_bytes();
        sizes && view.shape == output.shape && view.strides == output.strides && view.offset == output.offset
    };
    let alike = reads.iter().filter(|(place, view)| *place < 8 && alike(view));
    alike.fold(0, |bits, (place, _)| bits | 1 << place)
}

fn other_engines(
    instruction: &dyn Instruction,
    arch: &ArchSpec,
    cost: &dyn CostModel,
) -> SmallVec<[(Engine, Work); 2]> {
    let own = instruction.engine(arch);
    let others = COMPUTE.into_iter().filter(|engine| *engine != own);
    others.filter_map(|engine| Some((engine, cost.work(&*on_engine(instruction, arch, engine)?, arch)))).collect()
}
