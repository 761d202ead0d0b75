//! Which tensors a run had: where each lay, between which instructions, and which instructions used it.

use std::collections::HashMap;
use std::sync::Arc;

use super::{NeuronCore, RunAsWritten};
use crate::by_number::ByNumber;
use crate::dtype::DType;
use crate::isa::{Instruction, OperandRole};
use crate::packed::{PackedRow, PackedRows};
use crate::site::SiteId;
use crate::storage::{Buffer, Placement, Shape, Storage};
use crate::timing::record::NO_INSTRUCTION;
use crate::trace::{Home, NONE, Trace, TraceTensor, Use};

/// A tensor of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorRecord {
    /// Its name, by its place in [`TensorLog::names`].
    pub name: u32,
    /// Its shape, by its place in [`TensorLog::shapes`].
    pub shape: u32,
    /// Its element type; None of a tensor that a compiler made.
    pub dtype: Option<DType>,
    /// Where it was.
    pub buffer: Buffer,
    /// Whether the kernel gave the address.
    pub addressed: bool,
    /// Which bytes it had; in HBM, from byte 0 on.
    pub place: Placement,
    /// Line that made it.
    pub site: SiteId,
    /// How many instructions were issued before it came.
    pub came: u32,
    /// How many were issued before it went; [`NO_INSTRUCTION`] if it never did.
    pub went: u32,
}

/// What stays of a tensor from when it came.
#[derive(Clone, Copy, Debug)]
struct CameRow(TensorRecord);

impl PackedRow for CameRow {
    type Words = [u64; 11];

    fn words(&self, _: u64) -> [u64; 11] {
        let TensorRecord { name, shape, dtype, buffer, addressed, place, site, came, went } = self.0;
        let dtype = dtype.and_then(|dtype| DType::ALL.iter().position(|of| *of == dtype));
        [
            u64::from(name),
            u64::from(shape),
            dtype.map_or(0, |dtype| dtype as u64 + 1),
            BUFFERS.iter().position(|of| *of == buffer).unwrap_or_default() as u64 | u64::from(addressed) << 2,
            place.partition as u64,
            place.byte as u64,
            place.partitions as u64,
            place.bytes as u64,
            u64::from(site.0),
            u64::from(came),
            u64::from(went),
        ]
    }

    fn of_words(words: [u64; 11], _: u64) -> Self {
        let [name, shape, dtype, buffer, partition, byte, partitions, bytes, site, came, went] = words;
        let [partition, byte, partitions, bytes] = [partition, byte, partitions, bytes].map(|word| word as usize);
        Self(TensorRecord {
            name: name as u32,
            shape: shape as u32,
            dtype: (dtype as usize).checked_sub(1).map(|dtype| DType::ALL[dtype]),
            buffer: BUFFERS[(buffer & 3) as usize],
            addressed: buffer & 4 != 0,
            place: Placement { partition, byte, partitions, bytes },
            site: SiteId(site as u32),
            came: came as u32,
            went: went as u32,
        })
    }
}

const BUFFERS: [Buffer; 4] = [Buffer::Sbuf, Buffer::Psum, Buffer::PrivateHbm, Buffer::SharedHbm];
const ROLES: [OperandRole; 4] = [OperandRole::Read, OperandRole::Stationary, OperandRole::Write, OperandRole::Update];

impl PackedRow for TensorUse {
    type Words = [u64; 2];

    fn words(&self, _: u64) -> [u64; 2] {
        let role = ROLES.iter().position(|of| *of == self.role).unwrap_or_default();
        [u64::from(self.instruction), u64::from(self.tensor) << 2 | role as u64]
    }

    fn of_words([instruction, used]: [u64; 2], _: u64) -> Self {
        Self { instruction: instruction as u32, tensor: (used >> 2) as u32, role: ROLES[(used & 3) as usize] }
    }
}

/// A use of a tensor by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorUse {
    /// The instruction.
    pub instruction: u32,
    /// The tensor, by its place in [`TensorLog::tensors`].
    pub tensor: u32,
    /// What is done with it.
    pub role: OperandRole,
}

/// The tensors of a run, in the order in which they came, and their uses, in the order of instructions.
#[derive(Clone, Debug, Default)]
pub struct TensorLog {
    tensors: PackedRows<CameRow>,
    /// How many instructions were issued before each went.
    went: Vec<u32>,
    uses: PackedRows<TensorUse>,
    names: Numbered<Box<str>>,
    shapes: Numbered<Shape>,
    numbers: HashMap<u64, u32, ByNumber>,
    /// Name and shape of the last tensor that each line made: the next one's, as a rule.
    of_lines: HashMap<u32, (u32, u32), ByNumber>,
}

#[derive(Clone, Debug)]
struct Numbered<T> {
    list: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { list: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T> Numbered<T> {
    /// What the values themselves hold is left out: there are few.
    fn kept_bytes(&self) -> usize {
        self.list.capacity() * size_of::<T>() + self.numbers.capacity() * size_of::<(T, u32)>()
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn number<Q: ?Sized + Eq + std::hash::Hash>(&mut self, value: &Q, own: impl FnOnce() -> T) -> u32
    where
        T: std::borrow::Borrow<Q>,
    {
        if let Some(&known) = self.numbers.get(value) {
            return known;
        }
        let (value, number) = (own(), self.list.len() as u32);
        self.list.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}

impl TensorLog {
    /// The tensors.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorRecord> + '_ {
        self.tensors.iter().zip(&self.went).map(|(CameRow(tensor), &went)| TensorRecord { went, ..tensor })
    }

    fn tensor(&self, number: u32) -> TensorRecord {
        TensorRecord { went: self.went[number as usize], ..self.tensors.at(number as usize).0 }
    }

    /// Adds a tensor; its number.
    fn add(&mut self, tensor: TensorRecord) -> u32 {
        // When it goes is written beside it.
        self.tensors.push(CameRow(TensorRecord { went: 0, ..tensor }));
        self.went.push(tensor.went);
        (self.went.len() - 1) as u32
    }

    /// The same, but for what tells tensors that come or are used later.
    pub fn without_numbers(&self) -> Self {
        Self {
            tensors: self.tensors.clone(),
            went: self.went.clone(),
            uses: self.uses.clone(),
            names: Numbered { list: self.names.list.clone(), numbers: HashMap::new() },
            shapes: Numbered { list: self.shapes.list.clone(), numbers: HashMap::new() },
            numbers: HashMap::default(),
            of_lines: HashMap::default(),
        }
    }

    /// Uses of tensors, by rising instruction.
    pub fn uses(&self) -> &PackedRows<TensorUse> {
        &self.uses
    }

    /// Bytes of the host's memory that it takes.
    pub fn kept_bytes(&self) -> usize {
        let tensors = self.tensors.kept_bytes() + self.went.capacity() * size_of::<u32>();
        let numbers = self.numbers.capacity() * size_of::<(u64, u32)>()
            + self.of_lines.capacity() * size_of::<(u32, (u32, u32))>();
        let names = self.names.kept_bytes() + self.shapes.kept_bytes();
        tensors + self.uses.kept_bytes() + numbers + names
    }

    /// Names of tensors.
    pub fn names(&self) -> &[Box<str>] {
        &self.names.list
    }

    /// Shapes of tensors.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes.list
    }

    fn named(&mut self, name: &str, shape: &[usize]) -> (u32, u32) {
        let shape = self.shapes.number(&Shape::from_slice(shape), || Shape::from_slice(shape));
        (self.names.number(name, || name.into()), shape)
    }

    /// As [`TensorLog::named`], of a tensor that a line made.
    fn named_there(&mut self, line: SiteId, name: &str, shape: &[usize]) -> (u32, u32) {
        let known = self.of_lines.get(&line.0).copied().filter(|&(known, length)| {
            *self.names.list[known as usize] == *name && self.shapes.list[length as usize][..] == *shape
        });
        known.unwrap_or_else(|| {
            let named = self.named(name, shape);
            self.of_lines.insert(line.0, named);
            named
        })
    }

    /// The number of a tensor, which came no later than now.
    fn number(&mut self, storage: &Storage, issued: u64) -> u32 {
        if let Some(&known) = self.numbers.get(&storage.id) {
            return known;
        }
        let (name, shape) = self.named_there(storage.site, &storage.name, &storage.shape);
        let whole = Placement { partition: 0, byte: 0, partitions: 1, bytes: storage.byte_size() };
        let number = self.add(TensorRecord {
            name,
            shape,
            dtype: Some(storage.dtype),
            buffer: storage.buffer,
            addressed: storage.addressed,
            place: storage.place.unwrap_or(whole),
            site: storage.site,
            came: instruction(issued),
            went: NO_INSTRUCTION,
        });
        self.numbers.insert(storage.id, number);
        number
    }

    /// A tensor went.
    pub(super) fn went(&mut self, storage: u64, issued: u64) {
        if let Some(&number) = self.numbers.get(&storage) {
            self.went[number as usize] = instruction(issued);
        }
    }

    /// The same run as a trace has it: tensors come with their first use and go after their last one.
    pub(super) fn of_trace(&self, trace: &Trace) -> Self {
        let mut made = Self::default();
        let mut open = vec![NONE; trace.tensors.len()];
        let mut addressed = vec![NONE; self.tensors.len()];
        for (step, number) in trace.steps.iter().zip(0u32..) {
            let mut has_addresses = false;
            for operand in &step.operands {
                let tensor = &trace.tensors[operand.tensor as usize];
                match tensor.home {
                    Home::Addressed(_) => has_addresses = true,
                    Home::Register(_) => {}
                    Home::Open(_) | Home::Hbm(_) => {
                        let known = &mut open[operand.tensor as usize];
                        if *known == NONE {
                            *known = made.add_traced(self, tensor, trace.origin(operand.tensor), number);
                        }
                        let role = match operand.usage {
                            Use::Read => OperandRole::Read,
                            Use::Stationary => OperandRole::Stationary,
                            Use::Write => OperandRole::Write,
                        };
                        made.used(number, *known, role);
                    }
                }
            }
            // A trace has all that lies at the author's addresses as one tensor; the log tells them apart.
            let first = self.uses.partition_point(|each| each.instruction < step.source);
            let own = self.uses.range(first..self.uses.len()).take_while(|each| each.instruction == step.source);
            for each in own.filter(|each| has_addresses && self.tensor(each.tensor).addressed) {
                let known = &mut addressed[each.tensor as usize];
                if *known == NONE {
                    *known = made.add_addressed(self, each.tensor, number);
                }
                made.used(number, *known, each.role);
            }
        }
        made
    }

    fn used(&mut self, instruction: u32, tensor: u32, role: OperandRole) {
        self.went[tensor as usize] = instruction + 1;
        self.uses.push(TensorUse { instruction, tensor, role });
    }

    fn add_addressed(&mut self, from: &Self, tensor: u32, came: u32) -> u32 {
        let known = from.tensor(tensor);
        let (name, shape) = self.named(&from.names.list[known.name as usize], &from.shapes.list[known.shape as usize]);
        self.add(TensorRecord { name, shape, came, ..known })
    }

    fn add_traced(
        &mut self,
        from: &Self,
        tensor: &TraceTensor,
        (_, partition, byte): (crate::timing::region::Space, u64, u64),
        came: u32,
    ) -> u32 {
        let known = from.numbers.get(&tensor.storage).map(|&number| from.tensor(number));
        let shape = known.map(|known| from.shapes.list[known.shape as usize].clone()).unwrap_or_default();
        let (name, shape) = self.named(&tensor.name, &shape);
        let buffer = match tensor.home {
            Home::Open(buffer) | Home::Addressed(buffer) => buffer,
            _ => known.map_or(Buffer::PrivateHbm, |known| known.buffer),
        };
        let partitions = if buffer.is_on_chip() { tensor.partitions as usize } else { 1 };
        self.add(TensorRecord {
            name,
            shape,
            dtype: known.and_then(|known| known.dtype),
            buffer,
            addressed: false,
            place: Placement {
                partition: partition as usize,
                byte: byte as usize,
                partitions,
                bytes: tensor.bytes as usize,
            },
            site: tensor.site,
            came,
            went: NO_INSTRUCTION,
        })
    }
}

fn instruction(issued: u64) -> u32 {
    u32::try_from(issued).unwrap_or(NO_INSTRUCTION)
}

impl NeuronCore {
    /// Its tensors, and which instructions use them; nothing where instructions get no time.
    pub fn tensor_log(&mut self) -> &TensorLog {
        self.note_occupancy();
        &self.tensors
    }

    /// What its run took as written, where it was compiled and fits on chip as written.
    pub fn run_as_written(&self) -> Option<&Arc<RunAsWritten>> {
        self.as_written.as_ref()
    }

    pub(super) fn log_tensor(&mut self, storage: &Storage) {
        if self.options.timing {
            self.tensors.number(storage, self.issued);
        }
    }

    /// Notes what the instruction uses that was counted last.
    pub(super) fn log_uses(&mut self, by: &dyn Instruction) {
        if !self.options.timing {
            return;
        }
        let (log, issued) = (&mut self.tensors, self.issued.saturating_sub(1));
        by.operands(&mut |role, view| {
            let tensor = log.number(&view.storage, issued);
            log.uses.push(TensorUse { instruction: instruction(issued), tensor, role });
        });
    }
}
