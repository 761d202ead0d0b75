//! Recording: what a core is given, as a program.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use serde_json::{Map, Value, json};

use super::declaration::{Place, digits};
use super::marks::{Mark, Nesting};
use super::meeting;
use super::words::Names;
use super::{Declaration, Output, Program, Role, joining, operands, table};
use crate::error::{Error, Result};
use crate::isa::Instruction;
use crate::isa::rank_call::RankCall;
use crate::joint::Joint;
use crate::storage::{Buffer, Storage};
use crate::view::{Register, View};

/// Writes down what one core is given: its tensors as they come, its instructions as they are issued.
///
/// A replay of the program on a core of the same machine, with the same inputs, gives the same bits at the same times. What
/// the kernel's own control flow decided is decided: registers that a loop sets are set by steps of their own.
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::core::{At, CoreOptions, NeuronCore};
/// use trn3_machine::dtype::DType;
/// use trn3_machine::isa::copy::Memset;
/// use trn3_machine::memory::Request;
/// use trn3_machine::storage::Buffer;
/// use trn3_machine::view::View;
/// use trn3_machine::program::Recorder;
///
/// let mut core = NeuronCore::new(Arc::new(ArchSpec::load("trn3")?), CoreOptions::default())?;
/// let mut recorder = Recorder::new("ones", "trn3");
/// let tile = core.allocate(&Request::unsited("tile", &[128, 4], DType::Float32, Buffer::Sbuf))?;
/// recorder.allocated(&tile, true)?;
/// let memset = Memset { dst: View::whole(tile), value: 1.0, engine: None };
/// let step = recorder.encode(&memset, None, &[])?;
/// core.issue(&memset, At::default())?;
/// recorder.commit(step);
/// let program = recorder.finish(&[])?;
/// assert_eq!(program.steps.len(), 2); // The tensor comes, and is set.
/// # Ok::<(), trn3_machine::Error>(())
/// ```
pub struct Recorder {
    program: Program,
    names: Naming,
    /// Steps of instructions, by number.
    issued: Vec<usize>,
    /// What inputs hold when they come.
    contents: HashMap<usize, Vec<u8>>,
    /// Loops and stretches that keep their order, where they are noted; None where they are not, or did not nest.
    nesting: Option<Nesting>,
}

/// A step on its way into the program: its instruction has still to be taken.
pub struct Step {
    before: Vec<Map<String, Value>>,
    step: Map<String, Value>,
    used: Vec<Arc<Register>>,
}

#[derive(Default)]
struct Naming {
    tensors: Vec<Declaration>,
    numbers: HashMap<u64, usize>,
    taken: HashSet<String>,
    /// Number and value, as a replay has it, of each register.
    registers: HashMap<u64, (u32, Option<i64>)>,
    used: Vec<Arc<Register>>,
    /// Tensors on chip that the author gave no address have none.
    leaves_open: bool,
}

impl Naming {
    fn declare(&mut self, storage: &Storage, role: Role) -> Result<usize> {
        if let Some(&known) = self.numbers.get(&storage.id) {
            return Ok(known);
        }
        let number = self.tensors.len();
        let base = if storage.name.is_empty() { format!("t{number}") } else { storage.name.clone() };
        let mut name = base.clone();
        let mut copy = 1;
        while !self.taken.insert(name.clone()) {
            name = format!("{base}.{copy}");
            copy += 1;
        }
        let space = match storage.buffer {
            Buffer::Sbuf => "sbuf",
            Buffer::Psum => "psum",
            Buffer::PrivateHbm => "hbm",
            Buffer::SharedHbm => "shared_hbm",
        };
        self.tensors.push(Declaration {
            name,
            space: space.to_owned(),
            shape: storage.shape.to_vec(),
            dtype: storage.dtype.name().to_owned(),
            address: storage
                .place
                .filter(|_| storage.addressed || !self.leaves_open)
                .map(|place| Place::OnChip([place.partition, place.byte])),
            role,
            data: None,
        });
        self.numbers.insert(storage.id, number);
        Ok(number)
    }
}

impl Names for Naming {
    fn tensor(&mut self, storage: &Arc<Storage>) -> Result<String> {
        if storage.tenancy.moved.load(Ordering::Relaxed) != 0 {
            let name = &storage.name;
            return Err(Error::NotModelled(format!(
                "tensor `{name}` gave way to one with an address; a program has tensors that stay: give it an address too"
            )));
        }
        let number = self.declare(storage, Role::Internal)?;
        Ok(self.tensors[number].name.clone())
    }

    fn register(&mut self, register: &Arc<Register>) -> Result<u32> {
        let next = u32::try_from(self.registers.len())
            .map_err(|_| Error::NotModelled("a program has no room for so many registers".to_owned()))?;
        self.used.push(Arc::clone(register));
        Ok(self.registers.entry(register.id).or_insert((next, None)).0)
    }
}

fn value_of(register: &Register) -> Option<i64> {
    *register.value.lock().unwrap_or_else(PoisonError::into_inner)
}

fn step(op: &str, arguments: Value) -> Map<String, Value> {
    let mut step = Map::new();
    step.insert("op".to_owned(), op.into());
    if let Value::Object(arguments) = arguments {
        step.extend(arguments);
    }
    step
}

impl Recorder {
    /// An empty recording of what is called `name` and runs on `arch`.
    pub fn new(name: &str, arch: &str) -> Self {
        let program = Program { arch: arch.to_owned(), ..Program::new(name) };
        Self { program, names: Naming::default(), issued: Vec::new(), contents: HashMap::new(), nesting: None }
    }

    /// Tensors on chip that the author gave no address have none in the program either.
    pub fn leave_places_open(&mut self) {
        self.names.leaves_open = true;
    }

    /// Loops and stretches that keep their order are written down from here on.
    pub fn note_marks(&mut self) {
        self.nesting = Some(Nesting::default());
    }

    /// Whether they are.
    pub fn notes_marks(&self) -> bool {
        self.nesting.is_some()
    }

    /// A loop, or what keeps its order, begins, goes on or ends. Of a run whose loops do not lie in one another, as those of
    /// iterators that are taken in turn, none is written down.
    pub fn mark(&mut self, mark: Mark) {
        let Some(nesting) = &mut self.nesting else { return };
        if nesting.take(self.program.steps.len(), mark).is_ok() {
            self.program.steps.push(mark.encode());
        } else {
            self.nesting = None;
        }
    }

    /// The core has a new tensor; `fresh`: of bytes of its own, so that they are uninitialised.
    ///
    /// # Errors
    /// None yet.
    pub fn allocated(&mut self, storage: &Storage, fresh: bool) -> Result<()> {
        let number = self.names.declare(storage, Role::Internal)?;
        if fresh && storage.buffer.is_on_chip() {
            let tensor = self.names.tensors[number].name.clone();
            self.program.steps.push(step("fresh", json!({ "tensor": tensor })));
        }
        Ok(())
    }

    /// The core has a new tensor in HBM that the host filled.
    ///
    /// # Errors
    /// None yet.
    pub fn input(&mut self, storage: &Storage, bytes: Option<&[u8]>) -> Result<()> {
        let number = self.names.declare(storage, Role::Input)?;
        if let Some(bytes) = bytes {
            self.contents.insert(number, bytes.to_vec());
        }
        Ok(())
    }

    /// Results are rounded stochastically from here on, or to nearest again; `place` as of
    /// [`NeuronCore::set_stochastic_rounding`](crate::core::NeuronCore::set_stochastic_rounding).
    pub fn stochastic_rounding(&mut self, seed: Option<u64>, place: usize) {
        let words = if place == 0 { json!({ "seed": seed }) } else { json!({ "seed": seed, "place": place }) };
        self.program.steps.push(step("stochastic_rounding", words));
    }

    /// Words for an instruction that is about to be issued; [`Recorder::commit`] takes them once it was.
    ///
    /// # Errors
    /// [`Error::NotModelled`] for what programs cannot hold.
    pub fn encode(&mut self, instruction: &dyn Instruction, label: Option<&str>, after: &[u32]) -> Result<Step> {
        self.names.used.clear();
        let words = table::encode(instruction, &mut self.names)?;
        Ok(self.step(words, label, after))
    }

    /// As [`Recorder::encode`], for a collective at which the core meets others; the program then has
    /// [`super::MEETING_VERSION`].
    ///
    /// # Errors
    /// As [`Recorder::encode`].
    pub fn encode_call(&mut self, call: &RankCall, label: Option<&str>, after: &[u32]) -> Result<Step> {
        self.names.used.clear();
        let words = meeting::encode(call, &mut self.names)?;
        Ok(self.step(words, label, after))
    }

    /// As [`Recorder::encode`], for the core's part of what the cores of a logical core do together.
    ///
    /// # Errors
    /// As [`Recorder::encode`].
    pub fn encode_part(&mut self, part: &Joint, label: Option<&str>, after: &[u32]) -> Result<Step> {
        self.names.used.clear();
        let words = joining::encode(part, &mut self.names)?;
        Ok(self.step(words, label, after))
    }

    fn step(&mut self, mut words: Map<String, Value>, label: Option<&str>, after: &[u32]) -> Step {
        if let Some(label) = label {
            words.insert("label".to_owned(), label.into());
        }
        if !after.is_empty() {
            words.insert("after".to_owned(), json!(after));
        }
        let used = std::mem::take(&mut self.names.used);
        let mut before = Vec::new();
        for register in &used {
            let Some((number, known)) = self.names.registers.get_mut(&register.id) else { continue };
            let value = value_of(register);
            if value.is_some() && value != *known {
                *known = value;
                before.push(step("set_register", json!({"register": number, "value": value})));
            }
        }
        Step { before, step: words, used }
    }

    /// The instruction was issued.
    pub fn commit(&mut self, Step { before, step, used }: Step) {
        self.program.steps.extend(before);
        self.issued.push(self.program.steps.len());
        self.program.steps.push(step);
        for register in used {
            if let Some((_, known)) = self.names.registers.get_mut(&register.id) {
                *known = value_of(&register);
            }
        }
    }

    /// Instruction `consumer` waits for `producer` too.
    pub fn order(&mut self, consumer: u32, producer: u32) {
        let step = self.issued.get(consumer as usize).and_then(|&step| self.program.steps.get_mut(step));
        if let Some(step) = step {
            let after = step.entry("after").or_insert_with(|| Value::Array(Vec::new()));
            if let Some(after) = after.as_array_mut() {
                after.push(producer.into());
            }
        }
    }

    /// The program. `results` are what the kernel returned; `arguments` the tensors that the host fills anew for each run,
    /// by storage number, and whether the kernel writes to them: what else the host filled is constant.
    ///
    /// # Errors
    /// None yet.
    pub fn finish_with(self, arguments: &[(u64, bool)], results: &[(String, View)]) -> Result<Program> {
        self.finish_parts(arguments, results).map(|(program, _)| program)
    }

    /// As [`Recorder::finish_with`], with the number of each tensor by that of its storage.
    pub(super) fn finish_parts(
        mut self,
        arguments: &[(u64, bool)],
        results: &[(String, View)],
    ) -> Result<(Program, HashMap<u64, usize>)> {
        for (number, bytes) in &self.contents {
            let tensor = &mut self.names.tensors[*number];
            tensor.role = Role::Constant;
            tensor.data = Some(digits(bytes));
        }
        for (storage, written) in arguments {
            if let Some(tensor) = self.names.numbers.get(storage).and_then(|&number| self.names.tensors.get_mut(number))
            {
                tensor.role = if *written { Role::Inout } else { Role::Input };
                tensor.data = None;
            }
        }
        for (name, view) in results {
            let number = self.names.declare(&view.storage, Role::Output)?;
            let tensor = &mut self.names.tensors[number];
            tensor.role = match tensor.role {
                Role::Internal => Role::Output,
                Role::Input => Role::Inout,
                other => other,
            };
            let view = operands::encode(view, &mut self.names)?;
            self.program.outputs.push(Output { name: name.clone(), view });
        }
        self.end_marks();
        self.program.tensors = self.names.tensors;
        self.program.registers = u32::try_from(self.names.registers.len()).unwrap_or(u32::MAX);
        self.program.set_version();
        Ok((self.program, self.names.numbers))
    }

    /// Ends the loops that nothing ended, or takes out all marks where some did not fit.
    fn end_marks(&mut self) {
        match self.nesting.take() {
            Some(nesting) => self.program.steps.extend(nesting.ends().map(Mark::encode)),
            None => self.program.steps.retain(|step| {
                let op = step.get("op").and_then(Value::as_str).unwrap_or_default();
                !Mark::is_one(op)
            }),
        }
    }

    /// As [`Recorder::finish_with`] where everything that the host filled is its to fill anew.
    ///
    /// # Errors
    /// As [`Recorder::finish_with`].
    pub fn finish(self, results: &[(String, View)]) -> Result<Program> {
        let inputs = self.contents.keys().copied().collect::<HashSet<_>>();
        let of_inputs = |(id, number): (&u64, &usize)| inputs.contains(number).then_some((*id, false));
        let arguments: Vec<(u64, bool)> = self.names.numbers.iter().filter_map(of_inputs).collect();
        self.finish_with(&arguments, results)
    }
}
