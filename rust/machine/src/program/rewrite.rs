//! Steps written anew: the same instructions over other tensors and on other engines, for a compiler that writes back what it
//! made of a program.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::words::Names;
use super::{Loaded, Program, joining, operands, table};
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::isa::exchange::SendRecv;
use crate::isa::table::{on_engine, rebound};
use crate::isa::{Instruction, OperandRole};
use crate::joint::Joint;
use crate::storage::Storage;
use crate::view::{Dynamic, Register, ScalarIndex, View};

/// Another tensor in the place of an operand's.
#[derive(Clone, Debug)]
pub struct Relocated {
    /// The tensor.
    pub storage: Arc<Storage>,
    /// First element of the view, in elements of its type.
    pub offset: i64,
}

impl Relocated {
    /// The view in that tensor, whose partitions may be of another length.
    pub fn view(&self, view: &View) -> View {
        let mut made = View { storage: Arc::clone(&self.storage), offset: self.offset, ..view.clone() };
        let pitch = |storage: &Storage| (storage.free_bytes() / view.dtype.size()) as i64;
        let (before, now) = (pitch(&view.storage), pitch(&self.storage));
        if view.is_on_chip()
            && before > 0
            && before != now
            && let Some(stride) = made.strides.first_mut()
        {
            *stride = *stride / before * now;
        }
        made
    }
}

/// Writes steps over the tensors of a laid program, and over new ones.
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::Program;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::engine::Engine;
/// use trn3_machine::memory::{Memory, MemoryOptions};
/// use trn3_machine::program::{Bound, Limits, Relocated, StepWriter};
///
/// let text = br#"{"format": "trn3-program", "version": 1, "name": "copy", "tensors": [
///   {"name": "a", "space": "sbuf", "shape": [128, 4], "dtype": "float32", "address": [0, 0]},
///   {"name": "b", "space": "sbuf", "shape": [128, 8], "dtype": "float32", "address": [0, 64]}],
///   "steps": [{"op": "tensor_copy", "dst": "a", "src": "a"}]}"#;
/// let arch = Arc::new(ArchSpec::load("trn3")?);
/// let program = Program::from_json(text, &Limits::default())?;
/// let memory = Memory::new(&arch, MemoryOptions::default());
/// let loaded = program.lay(&arch, &memory, &mut (), &Limits::default())?;
/// let Bound::Issue { instruction, .. } = &loaded.steps[0] else { panic!("an instruction") };
///
/// let writer = StepWriter::new(&program, &loaded);
/// let b = loaded.tensors[1].clone();
/// let step = writer.write(&**instruction, &arch, Some(Engine::GpSimd), &mut |operand| {
///     (operand == 0).then(|| Relocated { storage: b.clone(), offset: 4 }) // What it reads.
/// })?;
/// assert_eq!((&step["dst"], &step["engine"]), (&"a".into(), &"gpsimd".into()));
/// assert_eq!((&step["src"]["tensor"], &step["src"]["strides"]), (&"b".into(), &serde_json::json!([8, 1])));
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StepWriter {
    names: HashMap<u64, String>,
    /// Numbers of registers that are others' now.
    registers: HashMap<u64, u32>,
}

/// Names as a program gave them.
struct Given<'a>(&'a StepWriter);

impl Names for Given<'_> {
    fn tensor(&mut self, storage: &Arc<Storage>) -> Result<String> {
        let name = self.0.names.get(&storage.id).cloned();
        name.ok_or_else(|| Error::Value(format!("tensor `{}` is not one of the program's", storage.name)))
    }

    fn register(&mut self, register: &Arc<Register>) -> Result<u32> {
        let own = u32::try_from(register.id).unwrap_or(u32::MAX);
        Ok(self.0.registers.get(&register.id).copied().unwrap_or(own))
    }
}

impl StepWriter {
    /// One that knows the tensors of a program.
    pub fn new(program: &Program, loaded: &Loaded) -> Self {
        let named = program.tensors.iter().zip(&loaded.tensors);
        Self {
            names: named.map(|(declared, storage)| (storage.id, declared.name.clone())).collect(),
            registers: HashMap::new(),
        }
    }

    /// A tensor has this name from here on.
    pub fn name(&mut self, storage: &Storage, name: &str) {
        self.names.insert(storage.id, name.to_owned());
    }

    /// The name of a tensor; empty for one that it does not know.
    pub fn name_of(&self, storage: &Storage) -> &str {
        self.names.get(&storage.id).map_or("", String::as_str)
    }

    /// Register `number` stands for the program's register `id` from here on; None: it is itself again.
    pub fn rename_register(&mut self, id: u64, number: Option<u32>) {
        match number {
            Some(number) => self.registers.insert(id, number),
            None => self.registers.remove(&id),
        };
    }

    /// The words for a view.
    ///
    /// # Errors
    /// [`Error::Value`] for one of a tensor that it does not know.
    pub fn view(&self, view: &View) -> Result<Value> {
        operands::encode(view, &mut Given(self))
    }

    /// The step of an instruction: on an engine, where one is given, and with operands in other tensors; `instead` is called
    /// with the number of each, counted as [`TraceStep::operands`](crate::trace::TraceStep::operands) counts them.
    ///
    /// # Errors
    /// [`Error::NotModelled`] for an instruction that has no such engine or is not in the table; [`Error::Value`] for a tensor
    /// that it does not know; those of the instruction.
    pub fn write(
        &self,
        instruction: &dyn Instruction,
        arch: &ArchSpec,
        engine: Option<Engine>,
        instead: &mut dyn FnMut(usize) -> Option<Relocated>,
    ) -> Result<Map<String, Value>> {
        let cannot = |what: &str| Error::NotModelled(format!("{}: {what}", instruction.name()));
        let moved;
        let instruction = match engine.filter(|engine| *engine != instruction.engine(arch)) {
            None => instruction,
            Some(engine) => {
                let made = on_engine(instruction, arch, engine);
                moved = made.ok_or_else(|| cannot(&format!("cannot move to {engine}")))?;
                &*moved
            }
        };
        let changes = Changes::of(instruction, instead);
        if changes.changed.is_empty() {
            return table::encode(instruction, &mut Given(self));
        }
        let made = rebound(instruction, arch, &mut |view| changes.instead_of(view))?;
        let made = made.ok_or_else(|| cannot("cannot be given other operands"))?;
        table::encode(&*made, &mut Given(self))
    }

    /// As [`StepWriter::write`], of a core's part of what the cores of a logical core do together.
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor that it does not know.
    pub fn write_part(
        &self,
        part: &Joint,
        instead: &mut dyn FnMut(usize) -> Option<Relocated>,
    ) -> Result<Map<String, Value>> {
        let changes = Changes::of(part.instruction(), instead);
        let moved = |view: &View| changes.instead_of(view).unwrap_or_else(|| view.clone());
        let made = match part {
            Joint::Barrier(barrier) => Joint::barrier(moved(&barrier.data), Some(barrier.engine)),
            Joint::Exchange(SendRecv { src, dst, by_gpsimd }) => {
                Joint::Exchange(SendRecv { src: moved(src), dst: moved(dst), by_gpsimd: *by_gpsimd })
            }
        };
        joining::encode(&made, &mut Given(self))
    }
}

/// Views of an instruction that lie elsewhere.
struct Changes<'a> {
    /// As they were, as they are, and what they lie in where that is another tensor.
    changed: Vec<(&'a View, View, Option<Relocated>)>,
    kept: Vec<&'a View>,
}

impl<'a> Changes<'a> {
    fn of(instruction: &'a dyn Instruction, instead: &mut dyn FnMut(usize) -> Option<Relocated>) -> Self {
        let mut found = Self { changed: Vec::new(), kept: Vec::new() };
        let mut number = 0;
        let mut next = || {
            number += 1;
            instead(number - 1)
        };
        instruction.operands(&mut |role, view| {
            let index = view.dynamic.as_ref().and_then(|dynamic| Some((dynamic, next()?)));
            let place = next();
            if role == OperandRole::Update {
                next();
            }
            if index.is_none() && place.is_none() {
                return found.kept.push(view);
            }
            let mut made = place.as_ref().map_or_else(|| view.clone(), |place| place.view(view));
            if let Some((dynamic, place)) = index {
                made.dynamic = Some(Arc::new(with_index(dynamic, &place)));
            }
            found.changed.push((view, made, place));
        });
        found
    }

    fn instead_of(&self, view: &View) -> Option<View> {
        if let Some((_, made, _)) = self.changed.iter().find(|(known, ..)| std::ptr::eq(*known, view)) {
            return Some(made.clone());
        }
        // An operand may be cut from what the instruction holds.
        let is_cut = |known: &View| {
            known.storage.id == view.storage.id && known.offset == view.offset && known.dtype == view.dtype
        };
        let is_kept = self.kept.iter().any(|known| std::ptr::eq(*known, view));
        let (_, _, place) = self.changed.iter().find(|(known, ..)| !is_kept && is_cut(known))?;
        place.as_ref().map(|place| place.view(view))
    }
}

fn with_index(dynamic: &Dynamic, place: &Relocated) -> Dynamic {
    match dynamic {
        Dynamic::Scalar { index: ScalarIndex::Element(index), stride, bound } => {
            Dynamic::Scalar { index: ScalarIndex::Element(place.view(index)), stride: *stride, bound: *bound }
        }
        Dynamic::Rows { index, stride, bound } => {
            Dynamic::Rows { index: place.view(index), stride: *stride, bound: *bound }
        }
        Dynamic::Columns { index, bound } => Dynamic::Columns { index: place.view(index), bound: *bound },
        register @ Dynamic::Scalar { .. } => register.clone(),
    }
}
