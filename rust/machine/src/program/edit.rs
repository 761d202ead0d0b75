//! Programs changed: for a compiler that writes back what it made of one. `after` counts instructions, so that whoever moves
//! one renumbers those that wait for it.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::meeting::MEETING_VERSION;
use super::references::{visit_names_mut, visit_value_names_mut};
use super::steps::{is_instruction, is_of_version_2};
use super::{Declaration, Mark, Place, Program};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::isa::table::{Kind, describe};

fn op_of(step: &Map<String, Value>) -> &str {
    step.get("op").and_then(Value::as_str).unwrap_or_default()
}

impl Program {
    /// The step of each instruction, by its number.
    pub fn instruction_steps(&self) -> Vec<usize> {
        let steps = self.steps.iter().enumerate();
        steps.filter(|(_, step)| is_instruction(op_of(step))).map(|(number, _)| number).collect()
    }

    /// Puts the steps into another order; `order` names each by its number now, and those that it does not name go, with the
    /// edges to them. Data, registers and marks are the caller's to keep in order.
    ///
    /// ```
    /// use trn3_machine::Program;
    /// use trn3_machine::program::Limits;
    ///
    /// let text = br#"{"format": "trn3-program", "version": 1, "name": "three", "tensors":
    ///   [{"name": "t", "space": "sbuf", "shape": [128, 4], "dtype": "float32", "address": [0, 0]}],
    ///   "steps": [{"op": "fresh", "tensor": "t"}, {"op": "memset", "dst": "t", "value": 0.0},
    ///             {"op": "memset", "dst": "t", "value": 1.0}, {"op": "memset", "dst": "t", "value": 2.0, "after": [0, 1]}]}"#;
    /// let mut program = Program::from_json(text, &Limits::default())?;
    /// program.reorder(&[0, 2, 1, 3])?;
    /// assert_eq!(program.steps[3]["after"], serde_json::json!([1, 0]));
    /// program.reorder(&[1, 3])?;
    /// assert_eq!(program.steps[1]["after"], serde_json::json!([0]));
    /// # Ok::<(), trn3_machine::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`] for a step that there is not, one that is named twice, and one that would come before an instruction
    /// that it waits for; nothing is changed then.
    pub fn reorder(&mut self, order: &[usize]) -> Result<()> {
        let mut new_places = vec![None; self.steps.len()];
        for (now, &before) in order.iter().enumerate() {
            match new_places.get_mut(before) {
                Some(place @ None) => *place = Some(now),
                Some(_) => return Err(self.wrong("order", &format!("names step {before} twice"))),
                None => {
                    return Err(self.wrong("order", &format!("names step {before}; there are {}", self.steps.len())));
                }
            }
        }
        let mut numbers = Vec::with_capacity(order.len());
        let mut counted = 0u64;
        for &before in order {
            numbers.push(counted);
            counted += u64::from(self.steps.get(before).is_some_and(|step| is_instruction(op_of(step))));
        }
        let moved: Vec<Option<u64>> = self
            .instruction_steps()
            .into_iter()
            .map(|step| new_places.get(step).copied().flatten().and_then(|place| numbers.get(place).copied()))
            .collect();
        self.renumber(order, &numbers, &|number| moved.get(number).copied())
    }

    /// Puts a step in front of another one, or at the end. Instructions that wait for others go on to wait for the same;
    /// `after` of the new step counts as it does in the program now.
    ///
    /// # Errors
    /// [`Error::Value`] for a place that there is not; nothing is changed then.
    pub fn insert(&mut self, at: usize, step: Map<String, Value>) -> Result<()> {
        if at > self.steps.len() {
            return Err(self.wrong("place", &format!("is {at}; the program has {} steps", self.steps.len())));
        }
        if is_instruction(op_of(&step)) {
            let before = self.steps[..at].iter().filter(|step| is_instruction(op_of(step))).count() as u64;
            for step in &mut self.steps[at..] {
                let Some(after) = step.get_mut("after").and_then(Value::as_array_mut) else { continue };
                for number in after {
                    if let Some(own) = number.as_u64().filter(|own| *own >= before) {
                        *number = own.saturating_add(1).into();
                    }
                }
            }
        }
        if is_of_version_2(op_of(&step)) {
            self.version = MEETING_VERSION;
        }
        self.steps.insert(at, step);
        Ok(())
    }

    /// Puts a transfer in front of a step, as [`Program::insert`] does; operands are names of tensors or views.
    ///
    /// # Errors
    /// As [`Program::insert`].
    pub fn insert_dma_copy(&mut self, at: usize, dst: &Value, src: &Value) -> Result<()> {
        self.insert(at, copy("dma_copy", dst, src))
    }

    /// As [`Program::insert_dma_copy`], a copy on chip, by an engine or by the one that the machine chooses.
    ///
    /// # Errors
    /// As [`Program::insert`].
    pub fn insert_tensor_copy(&mut self, at: usize, dst: &Value, src: &Value, engine: Option<Engine>) -> Result<()> {
        let mut step = copy("tensor_copy", dst, src);
        if let Some(engine) = engine {
            step.insert("engine".to_owned(), engine.name().into());
        }
        self.insert(at, step)
    }

    /// Puts a mark in front of a step.
    ///
    /// # Errors
    /// As [`Program::insert`].
    pub fn insert_mark(&mut self, at: usize, mark: Mark) -> Result<()> {
        self.insert(at, mark.encode())
    }

    /// Takes all marks out.
    pub fn remove_marks(&mut self) {
        self.steps.retain(|step| !Mark::is_one(op_of(step)));
    }

    /// Declares a tensor; its number.
    ///
    /// # Errors
    /// [`Error::Value`] for a name that another one has.
    pub fn add_tensor(&mut self, tensor: Declaration) -> Result<usize> {
        if self.tensors.iter().any(|other| other.name == tensor.name) {
            return Err(self.wrong(&format!("tensor {:?}", tensor.name), "is there already"));
        }
        if tensor.address.is_none() && tensor.buffer().is_ok_and(crate::storage::Buffer::is_on_chip) {
            self.version = MEETING_VERSION;
        }
        self.tensors.push(tensor);
        Ok(self.tensors.len() - 1)
    }

    /// A name that no tensor has: this one, or one with a number behind it.
    pub fn free_name(&self, base: &str) -> String {
        let taken: HashSet<&str> = self.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let numbered = (1..).map(|number| format!("{base}.{number}"));
        let mut names = std::iter::once(base.to_owned()).chain(numbered);
        names.find(|name| !taken.contains(name.as_str())).unwrap_or_default()
    }

    /// Gives a tensor another name, wherever it is named.
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor that there is not, and a name that another one has.
    pub fn rename_tensor(&mut self, from: &str, to: &str) -> Result<()> {
        let number = self.number_of(from)?;
        if from != to && self.tensors.iter().any(|other| other.name == to) {
            return Err(self.wrong(&format!("tensor {to:?}"), "is there already"));
        }
        self.rename(&mut |name| (name == from).then(|| to.to_owned()));
        to.clone_into(&mut self.tensors[number].name);
        Ok(())
    }

    /// Gives names of tensors in steps and outputs other ones.
    pub(super) fn rename(&mut self, other: &mut dyn FnMut(&str) -> Option<String>) {
        let mut put = |name: &mut String| {
            if let Some(other) = other(name) {
                *name = other;
            }
        };
        self.steps.iter_mut().for_each(|step| visit_names_mut(step, &mut put));
        self.outputs.iter_mut().for_each(|output| visit_value_names_mut(&mut output.view, &mut put));
    }

    /// Lets one step use another tensor of the same shape and type in the place of one.
    ///
    /// # Errors
    /// [`Error::Value`] for a step or a tensor that there is not, and a step that does not name it.
    pub fn redirect(&mut self, step: usize, from: &str, to: &str) -> Result<()> {
        self.number_of(to)?;
        let steps = self.steps.len();
        let Some(words) = self.steps.get_mut(step) else {
            return Err(self.wrong("step", &format!("is {step}; the program has {steps}")));
        };
        let mut is_named = false;
        visit_names_mut(words, &mut |name| {
            if name == from {
                is_named = true;
                to.clone_into(name);
            }
        });
        if is_named { Ok(()) } else { Err(self.wrong(&format!("step {step}"), &format!("does not name {from:?}"))) }
    }

    /// Gives a tensor an address, or takes its own.
    ///
    /// # Errors
    /// [`Error::Value`] for a tensor that there is not, and an address of another memory than its own.
    pub fn set_address(&mut self, tensor: &str, address: Option<Place>) -> Result<()> {
        let number = self.number_of(tensor)?;
        let refuse = |text: &str| self.wrong(&format!("tensor {tensor:?}"), text);
        let is_on_chip = self.tensors[number].buffer().map_err(|text| refuse(&text))?.is_on_chip();
        match (is_on_chip, address) {
            (true, Some(Place::Hbm(_))) => return Err(refuse("lies on chip; its address is a partition and a byte")),
            (false, Some(Place::OnChip(_))) => return Err(refuse("lies in HBM; its address is one number")),
            (true, None) => self.version = MEETING_VERSION,
            _ => {}
        }
        self.tensors[number].address = address;
        Ok(())
    }

    /// Names the engine of a step, or leaves it open.
    ///
    /// # Errors
    /// [`Error::Value`] for a step that there is not, one whose engine nobody chooses, and an engine that cannot run it.
    pub fn set_engine(&mut self, step: usize, engine: Option<Engine>) -> Result<()> {
        let steps = self.steps.len();
        let Some(words) = self.steps.get_mut(step) else {
            return Err(self.wrong("step", &format!("is {step}; the program has {steps}")));
        };
        let op = op_of(words).to_owned();
        let place = format!("step {step} ({op})");
        let chooses = |row: &&crate::isa::table::Description| {
            row.arguments.iter().any(|argument| matches!(argument.kind, Kind::MaybeEngine))
        };
        let Some(row) = describe(&op).filter(chooses) else {
            return Err(self.wrong(&place, "engine is not to be chosen: the instruction has one"));
        };
        match engine {
            None => {
                words.remove("engine");
            }
            Some(engine) if row.engines.contains(&engine) || op == "dma_copy" => {
                words.insert("engine".to_owned(), engine.name().into());
            }
            Some(engine) => {
                let known: Vec<&str> = row.engines.iter().map(|engine| engine.name()).collect();
                return Err(self.wrong(&place, &format!("engine is {engine}; allowed: {}", known.join(", "))));
            }
        }
        Ok(())
    }

    fn number_of(&self, tensor: &str) -> Result<usize> {
        let found = self.tensors.iter().position(|other| other.name == tensor);
        found.ok_or_else(|| self.wrong(&format!("tensor {tensor:?}"), "is not declared"))
    }

    fn wrong(&self, place: &str, text: &str) -> Error {
        self.refuse(place, text)
    }

    /// Takes the steps in an order, with edges as `moved` renumbers them: None, an instruction that there is not; Some of
    /// None, one that goes.
    fn renumber(
        &mut self,
        order: &[usize],
        numbers: &[u64],
        moved: &dyn Fn(usize) -> Option<Option<u64>>,
    ) -> Result<()> {
        let mut edges = Vec::with_capacity(order.len());
        for (&before, &own) in order.iter().zip(numbers) {
            let step = &self.steps[before];
            let refuse = |text: String| self.wrong(&format!("step {before} ({})", op_of(step)), &text);
            let Some(after) = step.get("after").and_then(Value::as_array) else {
                edges.push(None);
                continue;
            };
            let mut others = Vec::with_capacity(after.len());
            for number in after {
                let old = number.as_u64().and_then(|number| usize::try_from(number).ok());
                match old.and_then(moved) {
                    None => return Err(refuse(format!("after names {number}, which is no instruction"))),
                    Some(None) => {}
                    Some(Some(other)) if other >= own => {
                        return Err(refuse(format!("after names instruction {number}, which would come no earlier")));
                    }
                    Some(Some(other)) => others.push(Value::from(other)),
                }
            }
            edges.push(Some(others));
        }
        let mut steps: Vec<Option<Map<String, Value>>> =
            std::mem::take(&mut self.steps).into_iter().map(Some).collect();
        for (&before, edges) in order.iter().zip(edges) {
            let Some(mut step) = steps.get_mut(before).and_then(Option::take) else { continue };
            match edges {
                Some(edges) if edges.is_empty() => {
                    step.remove("after");
                }
                Some(edges) => {
                    step.insert("after".to_owned(), edges.into());
                }
                None => {}
            }
            self.steps.push(step);
        }
        Ok(())
    }
}

fn copy(op: &str, dst: &Value, src: &Value) -> Map<String, Value> {
    let words = json!({"op": op, "dst": dst, "src": src});
    if let Value::Object(step) = words { step } else { Map::new() }
}
