//! Programs laid over memories: tensors with places, steps as instructions that a core takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::{FunctionRegistry, Refusal};
use super::declaration::Place;
use super::laid_step::Bound;
use super::lifetimes::{self, Tenants};
use super::meeting::MEETING_VERSION;
use super::steps::StepReader;
use super::words::Scope;
use super::{Limits, Output, Program, Role, operands};
use crate::arch::ArchSpec;
use crate::error::{Error, Result};
use crate::memory::{Contents, Memory, MemoryOptions, Request};
use crate::storage::Storage;
use crate::view::{Register, View};

/// Where the tensors of a program lie, and what it calls: what [`Program::lay`] asks for.
pub trait Laid {
    /// The bytes that HBM tensor `number` of the program lies on.
    ///
    /// # Errors
    /// When it has no place.
    fn hbm(&mut self, number: usize, bytes: u64) -> Result<Contents>;

    /// First partition, and first byte in each, of a tensor on chip that the program gives no address; None: a place is
    /// found for it. Tensors that are not needed at the same time may share bytes.
    fn on_chip(&mut self, _number: usize) -> Option<(usize, usize)> {
        None
    }

    /// The number of the storage that the tensor was laid as before, whose uses a core's time remembers; None: a new one.
    fn storage(&self, _number: usize) -> Option<u64> {
        None
    }

    /// The functions that the program calls by name; None: it is only looked at, and any will do.
    fn functions(&self) -> Option<&dyn FunctionRegistry> {
        Some(&())
    }
}

/// HBM tensors with contents of their own, empty at first, and any function: enough to look at a program.
impl Laid for () {
    fn hbm(&mut self, _number: usize, _bytes: u64) -> Result<Contents> {
        Ok(Contents::default())
    }

    fn functions(&self) -> Option<&dyn FunctionRegistry> {
        None
    }
}

/// As `()`, of a host that has these functions.
struct Looking<'a>(&'a dyn FunctionRegistry);

impl Laid for Looking<'_> {
    fn hbm(&mut self, number: usize, bytes: u64) -> Result<Contents> {
        ().hbm(number, bytes)
    }

    fn functions(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.0)
    }
}

/// What runs of a laid program leave behind beside the memories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// What registers hold, by number.
    pub registers: Vec<Option<i64>>,
    /// Of PSUM tensors that matmuls have written to, by number, which bytes.
    pub products: Vec<(usize, Vec<u64>)>,
}

/// A program laid over memories.
pub struct Loaded {
    /// Name of the program.
    pub name: String,
    /// Tensors, in the order of their declarations.
    pub tensors: Vec<Arc<Storage>>,
    /// Steps.
    pub steps: Vec<Bound>,
    /// What the kernel returned.
    pub outputs: Vec<(String, View)>,
    pub(super) registers: Vec<Arc<Register>>,
    /// HBM tensors that each run starts with uninitialised.
    pub(super) renewed: Vec<Arc<Storage>>,
    /// When tensors without an address come and go.
    pub(super) tenants: Tenants,
}

impl Program {
    /// Refuses a program that the machine would refuse, as far as that is known before it runs.
    ///
    /// # Errors
    /// [`Error::Value`] names the tensor, or the step and the field; [`Error::SbufCapacity`] and [`Error::PsumCapacity`] name
    /// the tensor and the step where those without an address do not fit.
    pub fn check(&self, arch: &Arc<ArchSpec>, limits: &Limits) -> Result<()> {
        let memory = Memory::new(arch, MemoryOptions::default());
        self.lay(arch, &memory, &mut (), limits).map(|_| ())
    }

    /// As [`Program::check`], and refuses functions that are not among these; returns the place of each tensor on chip: first
    /// partition and first byte in each.
    ///
    /// # Errors
    /// As [`Program::check`]; [`Error::NotModelled`] names the step and the function.
    pub fn places(
        &self,
        arch: &Arc<ArchSpec>,
        functions: &dyn FunctionRegistry,
        limits: &Limits,
    ) -> Result<Vec<Option<(usize, usize)>>> {
        let memory = Memory::new(arch, MemoryOptions::default());
        let laid = self.lay(arch, &memory, &mut Looking(functions), limits)?;
        let place = |storage: &Arc<Storage>| storage.place.map(|place| (place.partition, place.byte));
        Ok(laid.tensors.iter().map(place).collect())
    }

    /// The program over the memories of a core.
    ///
    /// A tensor on chip without an address lies where `places` says, else where the machine's allocator would put it if it
    /// came at the first step that names it and went after the last.
    ///
    /// # Errors
    /// As [`Program::check`]; those of the places; [`Error::NotModelled`] for a function that `places` has not.
    pub fn lay(&self, arch: &Arc<ArchSpec>, memory: &Memory, places: &mut dyn Laid, limits: &Limits) -> Result<Loaded> {
        let tensors = self.lay_tensors(arch, memory, places)?;
        let by_name: HashMap<&str, Arc<Storage>> =
            self.tensors.iter().map(|tensor| tensor.name.as_str()).zip(tensors.iter().cloned()).collect();
        // Numbered by the program, so that messages are the same in every process.
        let register = |id: u32| {
            Arc::new(Register { id: u64::from(id), frozen: false, value: Mutex::new(None), owner: Default::default() })
        };
        let registers: Vec<_> = (0..self.registers).map(register).collect();
        let scope = Scope { tensors: &by_name, registers: &registers, elements: limits.elements };
        if let Some(place) = self.logical_core {
            let refuse = |text: String| self.refuse("logical_core", &text);
            if self.version < MEETING_VERSION {
                return Err(refuse(format!("needs version {MEETING_VERSION}; the program has {}", self.version)));
            }
            place.check(arch).map_err(refuse)?;
        }
        let mut reader = StepReader::new(self.version, &scope, arch);
        (reader.functions, reader.logical_core) = (places.functions(), self.logical_core);
        let mut steps = Vec::with_capacity(self.steps.len());
        for (number, step) in self.steps.iter().enumerate() {
            let op = step.get("op").and_then(Value::as_str).unwrap_or_default();
            let place = || format!("step {number} ({op})");
            steps.push(reader.read(number, op, step).map_err(|refusal| match refusal {
                Refusal::Wrong(text) => self.refuse(&place(), &text),
                Refusal::Unsupported(text) => Error::NotModelled(self.told(&place(), &text)),
            })?);
        }
        if let Some((number, op)) = reader.unended() {
            return Err(self.refuse(&format!("step {number} ({op})"), &format!("begins what no end_{op} ends")));
        }
        let output = |output: &Output| {
            let view = operands::decode(&output.view, &scope);
            Ok((output.name.clone(), view.map_err(|text| self.refuse(&format!("output {:?}", output.name), &text))?))
        };
        let outputs = self.outputs.iter().map(output).collect::<Result<Vec<_>>>()?;
        let declared = || self.tensors.iter().zip(&tensors);
        let is_renewed = |role| matches!(role, Role::Output | Role::Internal);
        let renewed = declared().filter(|(tensor, storage)| !storage.buffer.is_on_chip() && is_renewed(tensor.role));
        let renewed = renewed.map(|(_, storage)| Arc::clone(storage)).collect();
        let tenants = self.tenants(&tensors);
        Ok(Loaded { name: self.name.clone(), tensors, steps, outputs, registers, renewed, tenants })
    }

    /// A storage for each tensor.
    fn lay_tensors(&self, arch: &ArchSpec, memory: &Memory, places: &mut dyn Laid) -> Result<Vec<Arc<Storage>>> {
        let mut names = HashMap::with_capacity(self.tensors.len());
        let mut requests = Vec::with_capacity(self.tensors.len());
        let mut given = Vec::with_capacity(self.tensors.len());
        for (number, declared) in self.tensors.iter().enumerate() {
            let refuse = |text: String| self.refuse(&format!("tensor {:?}", declared.name), &text);
            let (buffer, dtype) = (declared.buffer().map_err(refuse)?, declared.element().map_err(refuse)?);
            let request = Request::unsited(&declared.name, &declared.shape, dtype, buffer);
            let laid = match (buffer.is_on_chip(), declared.address) {
                (true, Some(Place::OnChip([partition, byte]))) => Some(memory.lay_on_chip(&request, (partition, byte))),
                (true, None) if self.version >= MEETING_VERSION => None,
                (true, None) => return Err(refuse("address is missing; on chip it is [partition, byte]".to_owned())),
                (true, Some(Place::Hbm(_))) => {
                    return Err(refuse("address is a number; on chip it is [partition, byte]".to_owned()));
                }
                (false, Some(Place::OnChip(_))) => {
                    return Err(refuse("address is a pair; in HBM it is one number".to_owned()));
                }
                (false, _) => {
                    let shaped = Memory::lay_in_hbm(&request, Contents::default());
                    Some(shaped.and_then(|shaped| {
                        Memory::lay_in_hbm(&request, places.hbm(number, shaped.byte_size() as u64)?)
                    }))
                }
            };
            if names.insert(declared.name.as_str(), number).is_some() {
                return Err(refuse("is declared twice".to_owned()));
            }
            requests.push(request);
            given.push(laid.transpose().map_err(|error| refuse(error.to_string()))?);
        }
        if given.iter().any(Option::is_none) {
            lifetimes::place(self, arch, memory, places, &requests, &mut given)?;
        }
        let mut tensors = Vec::with_capacity(given.len());
        for (number, storage) in given.into_iter().enumerate() {
            let lost = || self.refuse(&format!("tensor {:?}", self.tensors[number].name), "has no place");
            let mut storage = storage.ok_or_else(lost)?;
            if let (Some(id), Some(storage)) = (places.storage(number), Arc::get_mut(&mut storage)) {
                storage.id = id;
            }
            tensors.push(storage);
        }
        Ok(tensors)
    }

    /// Contents of tensor `number` that the program has: of constants, and of inputs recorded with theirs.
    ///
    /// # Errors
    /// [`Error::Value`] for data that is none.
    pub fn contents(&self, number: usize) -> Result<Option<Vec<u8>>> {
        let Some(declared) = self.tensors.get(number) else { return Ok(None) };
        let place = format!("tensor {:?}", declared.name);
        declared.contents().map_err(|text| self.refuse(&place, &text))
    }

    pub(super) fn refuse(&self, place: &str, text: &str) -> Error {
        Error::Value(self.told(place, text))
    }

    fn told(&self, place: &str, text: &str) -> String {
        format!("program {}: {place}: {text}", self.name)
    }

    /// The refusal with its place, which stays one for lack of room.
    pub(super) fn refuse_for(&self, place: &str, error: &Error) -> Error {
        let text = self.told(place, &error.to_string());
        match error {
            Error::SbufCapacity(_) => Error::SbufCapacity(text),
            Error::PsumCapacity(_) => Error::PsumCapacity(text),
            _ => Error::Value(text),
        }
    }
}
