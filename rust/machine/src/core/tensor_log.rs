//! Which tensors a run had: where each lay, between which instructions, and which instructions used it.

use std::collections::HashMap;

use super::{NeuronCore, RunAsWritten};
use crate::by_number::ByNumber;
use crate::dtype::DType;
use crate::isa::{Instruction, OperandRole};
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
    tensors: Vec<TensorRecord>,
    uses: Vec<TensorUse>,
    names: Numbered<Box<str>>,
    shapes: Numbered<Shape>,
    numbers: HashMap<u64, u32, ByNumber>,
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
    pub fn tensors(&self) -> &[TensorRecord] {
        &self.tensors
    }

    /// Uses of tensors, by rising instruction.
    pub fn uses(&self) -> &[TensorUse] {
        &self.uses
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

    /// The number of a tensor, which came no later than now.
    fn number(&mut self, storage: &Storage, issued: u64) -> u32 {
        if let Some(&known) = self.numbers.get(&storage.id) {
            return known;
        }
        let (name, shape) = self.named(&storage.name, &storage.shape);
        let whole = Placement { partition: 0, byte: 0, partitions: 1, bytes: storage.byte_size() };
        let number = self.tensors.len() as u32;
        self.tensors.push(TensorRecord {
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
            self.tensors[number as usize].went = instruction(issued);
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
            let own = self.uses[first..].iter().take_while(|each| each.instruction == step.source);
            for each in own.filter(|each| has_addresses && self.tensors[each.tensor as usize].addressed) {
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
        self.tensors[tensor as usize].went = instruction + 1;
        self.uses.push(TensorUse { instruction, tensor, role });
    }

    fn add_addressed(&mut self, from: &Self, tensor: u32, came: u32) -> u32 {
        let known = from.tensors[tensor as usize];
        let (name, shape) = self.named(&from.names.list[known.name as usize], &from.shapes.list[known.shape as usize]);
        self.tensors.push(TensorRecord { name, shape, came, ..known });
        (self.tensors.len() - 1) as u32
    }

    fn add_traced(
        &mut self,
        from: &Self,
        tensor: &TraceTensor,
        (_, partition, byte): (crate::timing::region::Space, u64, u64),
        came: u32,
    ) -> u32 {
        let known = from.numbers.get(&tensor.storage).map(|&number| from.tensors[number as usize]);
        let shape = known.map(|known| from.shapes.list[known.shape as usize].clone()).unwrap_or_default();
        let (name, shape) = self.named(&tensor.name, &shape);
        let buffer = match tensor.home {
            Home::Open(buffer) | Home::Addressed(buffer) => buffer,
            _ => known.map_or(Buffer::PrivateHbm, |known| known.buffer),
        };
        let partitions = if buffer.is_on_chip() { tensor.partitions as usize } else { 1 };
        self.tensors.push(TensorRecord {
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
        });
        (self.tensors.len() - 1) as u32
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
    pub fn run_as_written(&self) -> Option<&RunAsWritten> {
        self.as_written.as_deref()
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
