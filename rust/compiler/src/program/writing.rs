//! A compiled trace as a program: its steps in their order over its tensors in their places.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use smallvec::SmallVec;
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_machine::engine::Engine;
use trn3_machine::isa::Instruction;
use trn3_machine::memory::{Memory, MemoryOptions, Request};
use trn3_machine::program::{Bound, Declaration, Loaded, Place, Program, Relocated, Role, StepWriter};
use trn3_machine::storage::{Buffer, Storage};
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Home, NONE, Trace, TraceOperand, TraceStep, Use};
use trn3_machine::{Error, Result};

use super::products::{Products, Written, product};
use super::registers::{Registers, registers_written};
use crate::passes::copies::fills::begin_sum;

/// Words of a step.
type Words = Map<String, Value>;

/// A compiled program, and what its instructions were.
pub(super) struct Compiled {
    pub(super) program: Program,
    /// Of each instruction its number as written; [`NONE`] for one that the compiler made.
    pub(super) sources: Vec<u32>,
}

/// What is known of an instruction as written.
struct Origin {
    step: usize,
    engine: Engine,
    /// Tensor and offset of each operand.
    operands: SmallVec<[(u32, i64); 3]>,
    /// The operand that a sum which is added to is read by.
    addend: Option<usize>,
    /// How many times the rounding of results was set before.
    roundings: u32,
    /// Whether it adds where an earlier matmul wrote, and which of its elements that is.
    sums: Option<Written>,
}

/// A program on its way through the compiler.
pub(super) struct Writing<'a> {
    program: &'a Program,
    loaded: &'a Loaded,
    issued: Vec<Origin>,
    roundings: Vec<usize>,
    registers: Registers,
}

fn bound_of(loaded: &Loaded, step: usize) -> Option<&dyn Instruction> {
    match loaded.steps.get(step)? {
        Bound::Issue { instruction, .. } => Some(&**instruction),
        _ => None,
    }
}

/// Whether a matmul leaves it open whether it adds.
fn is_open_sum(words: &Words) -> bool {
    let op = words.get("op").and_then(Value::as_str).unwrap_or_default();
    let is = |key: &str| words.get(key).is_some_and(|value| value.as_bool() == Some(true));
    let is_matmul = matches!(op, "nc_matmul" | "nc_matmul_mx" | "nc_matmul_sparse");
    is_matmul && words.get("accumulate").is_none_or(Value::is_null) && !is("is_transpose")
}

impl<'a> Writing<'a> {
    /// What has to be known of a program before its trace is changed.
    ///
    /// What a compiled program says otherwise, the trace says so from here on: registers that are two, and sums at an address
    /// of the author's that begin anew.
    pub(super) fn new(program: &'a Program, loaded: &'a Loaded, trace: &mut Trace) -> Result<Self> {
        let registers = Registers::new(program.registers, loaded, trace);
        let mut issued = Vec::with_capacity(trace.steps.len());
        let mut roundings = Vec::new();
        let mut products = Products::default();
        let (mut renewed, mut beginning) = (HashSet::new(), Vec::new());
        let mut steps = trace.steps.iter();
        for (number, step) in loaded.steps.iter().enumerate() {
            match step {
                Bound::Fresh(storage) => {
                    let was_written = products.forget(storage.id);
                    if was_written && storage.addressed {
                        renewed.insert(storage.id);
                    }
                }
                Bound::StochasticRounding(..) => roundings.push(number),
                Bound::Issue { .. } | Bound::Meet { .. } | Bound::Join { .. } => {
                    let step = steps.next().ok_or_else(|| lost(program, "an instruction is not in the trace"))?;
                    let is_addend = |operand: &TraceOperand| {
                        let of = |other: &TraceOperand| other.usage == Use::Write && other.tensor == operand.tensor;
                        operand.usage == Use::Read && step.operands.iter().any(of)
                    };
                    let mut sums = None;
                    if let Some(view) = bound_of(loaded, number).and_then(|held| product(held, step.engine)) {
                        if is_open_sum(&program.steps[number]) && view.dynamic.is_none() {
                            sums = Some(products.written(view));
                            if sums == Some(Written::Nothing) && renewed.contains(&view.storage.id) {
                                beginning.push(issued.len());
                            }
                        }
                        products.mark(view);
                    }
                    issued.push(Origin {
                        step: number,
                        engine: step.engine,
                        operands: step.operands.iter().map(|operand| (operand.tensor, operand.offset)).collect(),
                        addend: step.operands.iter().position(is_addend).filter(|_| sums.is_some()),
                        roundings: roundings.len() as u32,
                        sums,
                    });
                }
                _ => {}
            }
        }
        let is_wanted = |name: &str| {
            let declared = program.tensors.iter().find(|tensor| tensor.name == name);
            declared.is_some_and(|tensor| !matches!(tensor.space.as_str(), "hbm" | "private_hbm" | "shared_hbm"))
        };
        let on_chip = loaded.outputs.iter().find(|(_, view)| is_wanted(&view.storage.name));
        if let Some((name, _)) = on_chip {
            let text =
                format!("output {name:?} of program {} lies on chip, where a compiler places tensors", program.name);
            return Err(Error::NotModelled(text));
        }
        beginning.into_iter().for_each(|step| begin_sum(trace, step));
        Ok(Self { program, loaded, issued, roundings, registers })
    }

    /// The program that a compiled trace is.
    pub(super) fn write(mut self, trace: &Trace) -> Result<Compiled> {
        let mut compiled = self.program.clone();
        compiled.steps.clear();
        let mut tensors = Tensors::new(self.program, self.loaded, trace, &mut compiled)?;
        let mut products = Products::default();
        let mut roundings = 0;
        let mut sources = Vec::with_capacity(trace.steps.len());
        for step in &trace.steps {
            let words = if step.source == NONE {
                tensors.made(trace, step)?
            } else {
                let known = &self.issued[step.source as usize];
                if known.roundings < roundings {
                    return Err(lost(self.program, "results rounded by random numbers have changed their order"));
                }
                for number in roundings..known.roundings {
                    compiled.steps.push(self.program.steps[self.roundings[number as usize]].clone());
                }
                roundings = known.roundings;
                let writes = registers_written(trace, step);
                let (before, renamed) = self.registers.before(step.source, &writes);
                compiled.steps.extend(before);
                renamed.iter().for_each(|to| tensors.writer.rename_register(to.register, Some(to.number)));
                let words = self.rewritten(trace, step, &tensors, &mut products, !renamed.is_empty())?;
                renamed.iter().for_each(|to| tensors.writer.rename_register(to.register, None));
                words
            };
            compiled.steps.push(finished(words, step));
            sources.push(step.source);
        }
        compiled.registers = self.registers.count;
        compiled.set_version();
        Ok(Compiled { program: compiled, sources })
    }

    /// The words of a step that was there as written.
    fn rewritten(
        &self,
        trace: &Trace,
        step: &TraceStep,
        tensors: &Tensors,
        products: &mut Products,
        is_renamed: bool,
    ) -> Result<Words> {
        let known = &self.issued[step.source as usize];
        let own = &self.program.steps[known.step];
        // A sum that is known to begin is not read any more.
        let begins = known.addend.filter(|_| known.operands.len() == step.operands.len() + 1);
        if begins.is_none() && known.operands.len() != step.operands.len() {
            return Err(lost(self.program, "an instruction has other operands"));
        }
        let now = |number: usize| match begins {
            Some(addend) if number == addend => None,
            Some(addend) => step.operands.get(number - usize::from(number > addend)),
            None => step.operands.get(number),
        };
        let is_moved = |number: usize| {
            now(number).is_some_and(|is| known.operands[number] != (is.tensor, is.offset) || tensors.is_new(is.tensor))
        };
        let instruction = bound_of(self.loaded, known.step);
        let ring = instruction.and_then(|instruction| other_queue(instruction, &trace.arch, step));
        let is_same = known.engine == step.engine && !is_renamed && ring.is_none();
        let mut missing = None;
        let mut instead = |number: usize| {
            let operand = now(number).filter(|_| is_moved(number))?;
            let place = tensors.place(operand);
            missing = missing.take().or(place.is_none().then_some(operand.tensor));
            place
        };
        let mut words = if is_same && !(0..known.operands.len()).any(is_moved) {
            own.clone()
        } else {
            let engine = (known.engine != step.engine).then_some(step.engine);
            match &self.loaded.steps[known.step] {
                Bound::Issue { instruction, .. } => {
                    tensors.writer.write(&**instruction, &trace.arch, engine, &mut instead)?
                }
                Bound::Join { part, .. } => tensors.writer.write_part(part, &mut instead)?,
                _ => {
                    let text = "a collective cannot be given other operands";
                    return Err(Error::NotModelled(format!("program {}: {text}", self.program.name)));
                }
            }
        };
        if let Some(tensor) = missing {
            let name = &trace.tensors[tensor as usize].name;
            return Err(lost(self.program, &format!("tensor `{name}` has no place that a step can name")));
        }
        if let Some((ring, priority)) = ring {
            let options = words.entry("options").or_insert_with(|| json!({}));
            options["ring"] = ring.into();
            options["priority"] = json!(priority);
        }
        if let Some(label) = own.get("label") {
            words.insert("label".to_owned(), label.clone());
        }
        if let Some(view) = instruction.and_then(|instruction| product(instruction, step.engine)) {
            let written =
                (0..known.operands.len()).find(|&number| now(number).is_some_and(|own| own.usage == Use::Write));
            let place = written.filter(|&number| is_moved(number)).and_then(now);
            let moved = place.and_then(|operand| tensors.place(operand)).map(|place| place.view(view));
            let view = moved.as_ref().unwrap_or(view);
            if let Some(sums) = known.sums {
                let written = products.written(view);
                match sums {
                    _ if begins.is_some() => drop(words.insert("accumulate".to_owned(), false.into())),
                    _ if written == sums => {}
                    Written::Nothing => drop(words.insert("accumulate".to_owned(), false.into())),
                    Written::All => drop(words.insert("accumulate".to_owned(), true.into())),
                    Written::Some => {
                        let text = "a matmul adds to some of its elements and overwrites others";
                        let (name, step) = (&self.program.name, known.step);
                        return Err(Error::NotModelled(format!("program {name}: step {step}: {text}")));
                    }
                }
            }
            products.mark(view);
        }
        Ok(words)
    }
}

/// Ring and class of a transfer, where a compiler chose others.
fn other_queue(instruction: &dyn Instruction, arch: &ArchSpec, step: &TraceStep) -> Option<(u8, Option<u8>)> {
    let Work::Dma(now) = &step.work else { return None };
    let Work::Dma(own) = instruction.work(arch) else { return None };
    ((own.ring, own.priority) != (now.ring, now.priority)).then_some((now.ring, now.priority))
}

/// Words with the edges of a step.
fn finished(mut words: Words, step: &TraceStep) -> Words {
    words.remove("after");
    if !step.after.is_empty() {
        let mut after = step.after.to_vec();
        after.sort_unstable();
        after.dedup();
        words.insert("after".to_owned(), json!(after));
    }
    words
}

/// The element type of a step that moves so many bytes and looks at none.
fn word_of(bytes: usize) -> DType {
    if bytes.is_multiple_of(DType::Float32.size()) { DType::Float32 } else { DType::UInt8 }
}

fn lost(program: &Program, what: &str) -> Error {
    Error::Value(format!("program {} cannot be written back: {what}", program.name))
}

/// Tensors of a trace as those of a program.
struct Tensors {
    /// By number in the trace.
    storages: Vec<Option<Arc<Storage>>>,
    /// Whether the program as written has it not.
    is_new: Vec<bool>,
    writer: StepWriter,
}

impl Tensors {
    fn new(program: &Program, loaded: &Loaded, trace: &Trace, compiled: &mut Program) -> Result<Self> {
        let memory = Memory::new(&trace.arch, MemoryOptions::default());
        let known: HashMap<u64, usize> = loaded.tensors.iter().map(|storage| storage.id).zip(0..).collect();
        let mut taken: HashSet<String> = program.tensors.iter().map(|tensor| tensor.name.clone()).collect();
        let mut places: Vec<Option<Place>> = program.tensors.iter().map(|tensor| tensor.address).collect();
        let mut added = Vec::new();
        let mut writer = StepWriter::new(program, loaded);
        let mut is_used = vec![false; trace.tensors.len()];
        for operand in trace.steps.iter().flat_map(|step| &step.operands) {
            is_used[operand.tensor as usize] = true;
        }
        let (mut storages, mut is_new) = (vec![None; trace.tensors.len()], vec![false; trace.tensors.len()]);
        for (number, tensor) in trace.tensors.iter().enumerate().filter(|(number, _)| is_used[*number]) {
            let declared = known.get(&tensor.storage).copied();
            let (buffer, address) = match tensor.home {
                Home::Addressed(_) | Home::Register(_) => continue,
                Home::Hbm(id) => match known.get(&id) {
                    Some(&own) => {
                        storages[number] = Some(Arc::clone(&loaded.tensors[own]));
                        continue;
                    }
                    None => (Buffer::PrivateHbm, None),
                },
                Home::Open(buffer) => {
                    let place = trace.places[number];
                    let (partition, byte) = place.ok_or_else(|| {
                        lost(program, &format!("tensor `{}` has no place; allocate is one of the passes", tensor.name))
                    })?;
                    let address = Place::OnChip([partition as usize, byte as usize]);
                    if let Some(own) = declared.filter(|&own| places[own].is_none()) {
                        places[own] = Some(address);
                        storages[number] = Some(Arc::clone(&loaded.tensors[own]));
                        continue;
                    }
                    (buffer, Some(address))
                }
            };
            // One more of a tensor that comes back, or one that holds what does not fit on chip.
            let own = declared
                .map(|own| &program.tensors[own])
                .filter(|own| own.shape.first() == Some(&(tensor.partitions as usize)));
            let own =
                own.filter(|_| declared.is_some_and(|own| loaded.tensors[own].free_bytes() as u64 == tensor.bytes));
            let (shape, dtype) = match own {
                Some(own) => (own.shape.clone(), own.dtype.clone()),
                None => {
                    let rows = tensor.partitions.max(1) as usize;
                    let bytes = tensor.bytes as usize / if buffer.is_on_chip() { 1 } else { rows };
                    let dtype = word_of(bytes);
                    (vec![rows, bytes / dtype.size()], dtype.name().to_owned())
                }
            };
            let mut name = if tensor.name.is_empty() { format!("t{number}") } else { tensor.name.to_string() };
            let base = name.clone();
            let mut copy = 1;
            while !taken.insert(name.clone()) {
                name = format!("{base}.{copy}");
                copy += 1;
            }
            let element = dtype.parse::<DType>()?;
            let request = Request::unsited(&name, &shape, element, buffer);
            let storage = match address {
                Some(Place::OnChip([partition, byte])) => memory.lay_on_chip(&request, (partition, byte))?,
                _ => Memory::lay_in_hbm(&request, Default::default())?,
            };
            writer.name(&storage, &name);
            storages[number] = Some(storage);
            is_new[number] = true;
            let space = match buffer {
                Buffer::Sbuf => "sbuf",
                Buffer::Psum => "psum",
                Buffer::PrivateHbm | Buffer::SharedHbm => "hbm",
            };
            let space = space.to_owned();
            added.push(Declaration { name, space, shape, dtype, address, role: Role::Internal, data: None });
        }
        compiled.tensors = Vec::with_capacity(program.tensors.len() + added.len());
        for ((declared, storage), place) in program.tensors.iter().zip(&loaded.tensors).zip(places) {
            if place.is_some() || !storage.buffer.is_on_chip() {
                compiled.tensors.push(Declaration { address: place, ..declared.clone() });
            }
        }
        compiled.tensors.extend(added);
        Ok(Self { storages, is_new, writer })
    }

    /// Whether the program as written has it not.
    fn is_new(&self, tensor: u32) -> bool {
        self.is_new[tensor as usize]
    }

    fn place(&self, operand: &TraceOperand) -> Option<Relocated> {
        let storage = self.storages[operand.tensor as usize].clone()?;
        Some(Relocated { storage, offset: operand.offset })
    }

    /// The words of a step that the compiler made.
    fn made(&self, trace: &Trace, step: &TraceStep) -> Result<Words> {
        let op = trace.names.opcodes().get(usize::from(step.opcode)).copied().unwrap_or_default();
        let cannot = || Error::Value(format!("a step that a pass made cannot be written: {op}"));
        let view = |operand: Option<&TraceOperand>| {
            let operand = operand.ok_or_else(cannot)?;
            let storage = self.storages[operand.tensor as usize].as_ref().ok_or_else(cannot)?;
            let [rect] = &operand.rects[..] else { return Err(cannot()) };
            let row = storage.byte_size() / storage.shape.first().map_or(1, |&rows| rows.max(1));
            let (start, end) = (rect.columns.start as usize, rect.columns.end as usize);
            let dtype = [start, end, row].into_iter().map(word_of).min_by_key(|dtype| dtype.size());
            let dtype = dtype.unwrap_or(DType::UInt8);
            let (size, first) = (dtype.size(), rect.rows.start as usize);
            Ok(json!({
                "tensor": self.writer.name_of(storage),
                "shape": [rect.rows.end as usize - first, (end - start) / size],
                "strides": [row / size, 1],
                "offset": first * (row / size) + start / size,
                "dtype": dtype.name(),
            }))
        };
        let (dst, src) = (view(step.writes().next())?, view(step.reads().next()));
        let mut words = Words::new();
        words.insert("op".to_owned(), op.into());
        words.insert("dst".to_owned(), dst);
        match op {
            "dma_copy" => {
                words.insert("src".to_owned(), src?);
                if let Work::Dma(transfer) = &step.work
                    && transfer.ring != 0
                {
                    let options =
                        json!({"priority": transfer.priority, "skip_out_of_bounds": false, "ring": transfer.ring});
                    words.insert("options".to_owned(), options);
                }
            }
            "tensor_copy" => {
                words.insert("src".to_owned(), src?);
                words.insert("engine".to_owned(), step.engine.name().into());
            }
            "memset" => {
                words.insert("value".to_owned(), 0.0.into());
                words.insert("engine".to_owned(), step.engine.name().into());
            }
            _ => return Err(cannot()),
        }
        Ok(words)
    }
}
