//! Programs laid over memories: tensors with places, steps as instructions that a core takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::declaration::Place;
use super::meeting::{self, MEETING_VERSION};
use super::table;
use super::words::{Field, Scope};
use super::{Limits, Program, Role, operands};
use crate::arch::ArchSpec;
use crate::core::{At, NeuronCore};
use crate::error::{Error, Result};
use crate::host::InstructionSink;
use crate::isa::Instruction;
use crate::isa::rank_call::RankCall;
use crate::memory::{Contents, Memory, MemoryOptions, Request};
use crate::stochastic::MOST_PLACES;
use crate::storage::Storage;
use crate::view::{Register, View};

/// A step, ready to be taken.
pub enum Bound {
    /// An instruction.
    Issue {
        /// The instruction.
        instruction: Box<dyn Instruction + Send + Sync>,
        /// Its label.
        label: Option<String>,
        /// Numbers of instructions that have to have finished.
        after: Vec<u32>,
    },
    /// A collective, at which the core meets others.
    Meet {
        /// What it calls.
        call: Box<RankCall>,
        /// Its label.
        label: Option<String>,
        /// Numbers of instructions that have to have finished.
        after: Vec<u32>,
    },
    /// The tensor's bytes become uninitialised.
    Fresh(Arc<Storage>),
    /// A register gets a value without an instruction.
    SetRegister(Arc<Register>, i64),
    /// Results are rounded stochastically from here on, or to nearest again: the seed, and the core's place.
    StochasticRounding(Option<u64>, usize),
}

/// Where the tensors of a program lie: what [`Program::lay`] asks for.
pub trait Laid {
    /// The bytes that HBM tensor `number` of the program lies on.
    ///
    /// # Errors
    /// When it has no place.
    fn hbm(&mut self, number: usize, bytes: u64) -> Result<Contents>;

    /// The number of the storage that the tensor was laid as before, whose uses a core's time remembers; None: a new one.
    fn storage(&self, _number: usize) -> Option<u64> {
        None
    }
}

/// HBM tensors with contents of their own, empty at first: enough to look at a program.
impl Laid for () {
    fn hbm(&mut self, _number: usize, _bytes: u64) -> Result<Contents> {
        Ok(Contents::default())
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
    registers: Vec<Arc<Register>>,
    /// HBM tensors that each run starts with uninitialised.
    renewed: Vec<Arc<Storage>>,
}

impl Program {
    /// Refuses a program that the machine would refuse, as far as that is known before it runs.
    ///
    /// # Errors
    /// [`Error::Value`] names the tensor, or the step and the field.
    pub fn check(&self, arch: &Arc<ArchSpec>, limits: &Limits) -> Result<()> {
        let memory = Memory::new(arch, MemoryOptions::default());
        self.lay(arch, &memory, &mut (), limits).map(|_| ())
    }

    /// The program over the memories of a core.
    ///
    /// # Errors
    /// As [`Program::check`]; those of the places.
    pub fn lay(&self, arch: &Arc<ArchSpec>, memory: &Memory, places: &mut dyn Laid, limits: &Limits) -> Result<Loaded> {
        let mut tensors = Vec::with_capacity(self.tensors.len());
        let mut by_name = HashMap::with_capacity(self.tensors.len());
        let mut renewed = Vec::new();
        for (number, declared) in self.tensors.iter().enumerate() {
            let refuse = |text: String| self.refuse(&format!("tensor {:?}", declared.name), &text);
            let (buffer, dtype) = (declared.buffer().map_err(refuse)?, declared.element().map_err(refuse)?);
            let request = Request::unsited(&declared.name, &declared.shape, dtype, buffer);
            let laid = match (buffer.is_on_chip(), declared.address) {
                (true, Some(Place::OnChip([partition, byte]))) => memory.lay_on_chip(&request, (partition, byte)),
                (true, _) => return Err(refuse("address is missing; on chip it is [partition, byte]".to_owned())),
                (false, Some(Place::OnChip(_))) => {
                    return Err(refuse("address is a pair; in HBM it is one number".to_owned()));
                }
                (false, _) => {
                    let shaped = Memory::lay_in_hbm(&request, Contents::default());
                    shaped
                        .and_then(|shaped| Memory::lay_in_hbm(&request, places.hbm(number, shaped.byte_size() as u64)?))
                }
            };
            let mut storage = laid.map_err(|error| refuse(error.to_string()))?;
            if let (Some(id), Some(storage)) = (places.storage(number), Arc::get_mut(&mut storage)) {
                storage.id = id;
            }
            if !buffer.is_on_chip() && matches!(declared.role, Role::Output | Role::Internal) {
                renewed.push(Arc::clone(&storage));
            }
            if by_name.insert(declared.name.as_str(), Arc::clone(&storage)).is_some() {
                return Err(refuse("is declared twice".to_owned()));
            }
            tensors.push(storage);
        }
        // Numbered by the program, so that messages are the same in every process.
        let register = |id: u32| {
            Arc::new(Register { id: u64::from(id), frozen: false, value: Mutex::new(None), owner: Default::default() })
        };
        let registers: Vec<_> = (0..self.registers).map(register).collect();
        let scope = Scope { tensors: &by_name, registers: &registers, elements: limits.elements };
        let mut steps = Vec::with_capacity(self.steps.len());
        let mut issued = 0;
        for (number, step) in self.steps.iter().enumerate() {
            let op = step.get("op").and_then(Value::as_str).unwrap_or_default();
            let refuse = |text: String| self.refuse(&format!("step {number} ({op})"), &text);
            let bound = bind(op, step, &scope, arch, issued).map_err(refuse)?;
            match &bound {
                Bound::Issue { instruction, .. } => {
                    instruction.check(arch).map_err(|error| refuse(error.to_string()))?;
                    issued += 1;
                }
                Bound::Meet { .. } if self.version < MEETING_VERSION => {
                    let version = self.version;
                    return Err(refuse(format!("needs version {MEETING_VERSION}; the program has {version}")));
                }
                Bound::Meet { .. } => issued += 1,
                _ => {}
            }
            steps.push(bound);
        }
        let output = |output: &super::Output| {
            let view = operands::decode(&output.view, &scope);
            Ok((output.name.clone(), view.map_err(|text| self.refuse(&format!("output {:?}", output.name), &text))?))
        };
        let outputs = self.outputs.iter().map(output).collect::<Result<Vec<_>>>()?;
        Ok(Loaded { name: self.name.clone(), tensors, steps, outputs, registers, renewed })
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

    fn refuse(&self, place: &str, text: &str) -> Error {
        Error::Value(format!("program {}: {place}: {text}", self.name))
    }
}

fn bind(
    op: &str,
    step: &Map<String, Value>,
    scope: &Scope<'_>,
    arch: &ArchSpec,
    issued: u32,
) -> std::result::Result<Bound, String> {
    let only = |known: &[&str]| match step.keys().find(|key| *key != "op" && !known.contains(&key.as_str())) {
        Some(key) => Err(format!("has argument {key:?}; it takes {}", known.join(", "))),
        None => Ok(()),
    };
    let text = |key: &str| step.get(key).and_then(Value::as_str).ok_or_else(|| format!("{key} is no text"));
    match op {
        "fresh" => {
            only(&["tensor"])?;
            Ok(Bound::Fresh(Arc::clone(scope.tensor(text("tensor")?)?)))
        }
        "set_register" => {
            only(&["register", "value"])?;
            let register = Arc::<Register>::decode(step.get("register"), scope)?;
            let value = i64::decode(step.get("value"), scope).map_err(|text| format!("value {text}"))?;
            Ok(Bound::SetRegister(register, value))
        }
        "stochastic_rounding" => {
            only(&["seed", "place"])?;
            let whole = |key: &str| {
                let number = step.get(key).filter(|number| !number.is_null());
                let number = number.map(|number| {
                    number.as_u64().ok_or_else(|| format!("{key} is {number}; a whole number is needed"))
                });
                number.transpose()
            };
            let place = whole("place")?.unwrap_or(0);
            let place = usize::try_from(place).ok().filter(|&place| place < MOST_PLACES);
            let place = place.ok_or_else(|| format!("place is not below {MOST_PLACES}"))?;
            Ok(Bound::StochasticRounding(whole("seed")?, place))
        }
        _ => {
            let call = meeting::decode(op, step, scope)?;
            let label = match step.get("label").filter(|label| !label.is_null()) {
                None => None,
                Some(_) => Some(text("label")?.to_owned()),
            };
            let after = match step.get("after").filter(|after| !after.is_null()) {
                None => Vec::new(),
                after => Vec::<usize>::decode(after, scope).map_err(|text| format!("after {text}"))?,
            };
            let earlier = |number: usize| u32::try_from(number).ok().filter(|number| *number < issued);
            let after: Option<Vec<u32>> = after.into_iter().map(earlier).collect();
            let after =
                after.ok_or_else(|| format!("after names an instruction that comes no earlier than {issued}"))?;
            match call {
                Some(call) => Ok(Bound::Meet { call: Box::new(call), label, after }),
                None => Ok(Bound::Issue { instruction: table::decode(op, step, scope, arch)?, label, after }),
            }
        }
    }
}

impl Loaded {
    /// Takes every step on a core whose memories the program is laid over, from a new start of its time.
    ///
    /// # Errors
    /// Those of the instructions; the text names the step. [`Error::NotModelled`] where the core meets others.
    pub fn run(&self, core: &mut NeuronCore) -> Result<()> {
        self.begin(core);
        match self.advance(core, 0)?.map(|number| (number, self.meeting(number))) {
            Some((number, Some(step))) => Err(self.alone(number, step.call)),
            _ => Ok(()),
        }
    }

    /// A new start of a core's time, for [`Loaded::advance`] from the first step on.
    pub fn begin(&self, core: &mut NeuronCore) {
        core.restart();
        for tensor in &self.tensors {
            core.state.memory.forget_products(tensor);
        }
        for storage in &self.renewed {
            core.state.memory.renew(storage);
        }
        for register in &self.registers {
            *register.value.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// What runs on a core with this memory left behind beside its bytes.
    pub fn kept(&self, memory: &Memory) -> Kept {
        let value = |register: &Arc<Register>| *register.value.lock().unwrap_or_else(PoisonError::into_inner);
        let products = |(number, tensor): (usize, &Arc<Storage>)| Some((number, memory.products(tensor)?));
        Kept {
            registers: self.registers.iter().map(value).collect(),
            products: self.tensors.iter().enumerate().filter_map(products).collect(),
        }
    }

    /// Goes on from what another laying of the program left; what it says nothing of stays as it is.
    ///
    /// # Errors
    /// [`Error::Value`] where it does not fit the tensors.
    pub fn keep(&self, memory: &mut Memory, kept: &Kept) -> Result<()> {
        for (register, value) in self.registers.iter().zip(&kept.registers) {
            *register.value.lock().unwrap_or_else(PoisonError::into_inner) = *value;
        }
        for (number, words) in &kept.products {
            if let Some(tensor) = self.tensors.get(*number) {
                memory.set_products(tensor, words)?;
            }
        }
        Ok(())
    }

    /// Gives the instructions to any engine: for their values alone, their time alone, or to a host's own. Registers are set
    /// on the way; what makes bytes uninitialised, labels and extra edges are a core's, and passed over.
    ///
    /// # Errors
    /// Those of the instructions; [`Error::NotModelled`] for a program that turns stochastic rounding on.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trn3_machine::host::{ArchCost, Timed};
    /// use trn3_machine::arch::ArchSpec;
    /// use trn3_machine::core::{CoreOptions, NeuronCore};
    /// use trn3_machine::program::Limits;
    /// use trn3_machine::Program;
    ///
    /// let text = br#"{"format": "trn3-program", "version": 1, "name": "zero",
    ///   "tensors": [{"name": "t", "space": "sbuf", "shape": [128, 4], "dtype": "float32", "address": [0, 64]}],
    ///   "steps": [{"op": "memset", "dst": "t", "value": 0.0}, {"op": "reciprocal", "dst": "t", "data": "t"}]}"#;
    /// let arch = Arc::new(ArchSpec::load("trn3")?);
    /// let mut core = NeuronCore::new(arch.clone(), CoreOptions::default())?;
    /// let limits = Limits::default();
    /// let loaded = Program::from_json(text, &limits)?.lay(&arch, &core.state.memory, &mut (), &limits)?;
    ///
    /// let mut timed = Timed::new(arch, Box::new(ArchCost));
    /// loaded.issue_on(&mut timed)?;
    /// loaded.run(&mut core)?;
    /// assert_eq!(timed.timeline.makespan(), core.makespan());
    /// # Ok::<(), trn3_machine::Error>(())
    /// ```
    pub fn issue_on(&self, engine: &mut dyn InstructionSink) -> Result<()> {
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                Bound::Issue { instruction, .. } => {
                    let issued = engine.issue(instruction.as_ref());
                    issued.map_err(|error| self.located(number, instruction.name(), error))?;
                }
                Bound::SetRegister(register, value) => {
                    *register.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(*value);
                }
                Bound::Meet { call, .. } => return Err(self.alone(number, call)),
                Bound::Fresh(_) | Bound::StochasticRounding(None, _) => {}
                Bound::StochasticRounding(Some(_), _) => {
                    let text = format!("program {}: step {number} rounds stochastically, as a core does", self.name);
                    return Err(Error::NotModelled(text));
                }
            }
        }
        Ok(())
    }

    /// Takes one step.
    ///
    /// # Errors
    /// As [`Loaded::run`]; [`Error::Value`] for a step that there is not.
    pub fn take(&self, core: &mut NeuronCore, number: usize) -> Result<()> {
        let step = self.steps.get(number).ok_or_else(|| {
            Error::Value(format!("program {}: step is {number}; it has {}", self.name, self.steps.len()))
        })?;
        match step {
            Bound::Issue { instruction, label, after } => {
                let at = At { label: label.as_deref(), after, ..At::default() };
                core.issue(instruction.as_ref(), at)
                    .map_err(|error| self.located(number, instruction.name(), error))?;
            }
            Bound::Meet { call, .. } => return Err(self.alone(number, call)),
            Bound::Fresh(storage) => core.state.memory.renew(storage),
            Bound::SetRegister(register, value) => {
                *register.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(*value);
            }
            Bound::StochasticRounding(seed, place) => core.set_stochastic_rounding(*seed, *place)?,
        }
        Ok(())
    }

    /// Adds the step to errors that do not say more than their text.
    fn located(&self, number: usize, op: &str, error: Error) -> Error {
        let text = |text: String| format!("program {}: step {number} ({op}): {text}", self.name);
        match error {
            Error::Value(words) => Error::Value(text(words)),
            Error::OutOfBounds(words) => Error::OutOfBounds(text(words)),
            Error::Type(words) => Error::Type(text(words)),
            Error::SkippedValue(words) => Error::SkippedValue(text(words)),
            Error::Uninitialised { message, allocated } => Error::Uninitialised { message: text(message), allocated },
            Error::Validation { .. } => Error::Value(text(error.to_string())),
            other => other,
        }
    }
}
