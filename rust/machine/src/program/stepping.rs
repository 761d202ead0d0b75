//! Runs of laid programs, whole, step by step, and up to where the core meets others.

use std::sync::{Arc, PoisonError};

use super::bind::{Kept, Loaded};
use super::laid_step::Bound;
use crate::core::{At, NeuronCore};
use crate::error::{Error, Result};
use crate::host::InstructionSink;
use crate::isa::rank_call::RankCall;
use crate::joint::Joint;
use crate::memory::Memory;
use crate::storage::Storage;
use crate::view::Register;

/// A step at which a core meets others.
#[derive(Clone, Copy, Debug)]
pub struct MeetingStep<'a> {
    /// What it calls.
    pub call: &'a RankCall,
    /// Its label.
    pub label: Option<&'a str>,
    /// Numbers of instructions that have to have finished.
    pub after: &'a [u32],
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
                Bound::Join { part, .. } => return Err(self.apart(number, part)),
                Bound::Fresh(_) | Bound::Mark { .. } | Bound::StochasticRounding(None, _) => {}
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
        self.tenants.come(core, number)?;
        self.step(core, number, step)?;
        self.tenants.go(core, number);
        Ok(())
    }

    fn step(&self, core: &mut NeuronCore, number: usize, step: &Bound) -> Result<()> {
        match step {
            Bound::Issue { instruction, label, after } => {
                let at = At { label: label.as_deref(), after, ..At::default() };
                core.issue(instruction.as_ref(), at)
                    .map_err(|error| self.located(number, instruction.name(), error))?;
            }
            Bound::Meet { call, .. } => return Err(self.alone(number, call)),
            Bound::Join { part, .. } => return Err(self.apart(number, part)),
            Bound::Mark { mark, is_ordered } => mark.take(core, *is_ordered),
            Bound::Fresh(storage) => core.renew(storage),
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

    /// What a core calls at a step, where it meets others there.
    pub fn meeting(&self, number: usize) -> Option<MeetingStep<'_>> {
        match self.steps.get(number)? {
            Bound::Meet { call, label, after } => Some(MeetingStep { call, label: label.as_deref(), after }),
            _ => None,
        }
    }

    /// Takes steps from `number` on up to the next one at which the core meets others, which is returned, or to the end.
    ///
    /// # Errors
    /// As [`Loaded::run`].
    pub fn advance(&self, core: &mut NeuronCore, number: usize) -> Result<Option<usize>> {
        self.advance_until(core, number, |step| matches!(step, Bound::Meet { .. }))
    }

    /// As [`Loaded::advance`], up to the next step that the cores of a logical core take together.
    pub(super) fn advance_to_joint(&self, core: &mut NeuronCore, number: usize) -> Result<Option<usize>> {
        self.advance_until(core, number, |step| matches!(step, Bound::Join { .. }))
    }

    fn advance_until(
        &self,
        core: &mut NeuronCore,
        number: usize,
        stops: impl Fn(&Bound) -> bool,
    ) -> Result<Option<usize>> {
        if number == 0 {
            self.tenants.begin(core, self.steps.len())?;
        }
        for (number, step) in self.steps.iter().enumerate().skip(number) {
            if stops(step) {
                return Ok(Some(number));
            }
            trn3_numerics::check_interrupt()?;
            self.take(core, number)?;
        }
        Ok(None)
    }

    /// Why a core cannot take a step of several cores of a logical core.
    pub(super) fn apart(&self, number: usize, part: &Joint) -> Error {
        let (name, op) = (&self.name, part.instruction().name());
        Error::NotModelled(format!(
            "program {name}: step {number} ({op}) is one that the cores of a logical core take together, which cores alone \
             and those of a device do not; run_together (Rust) and trn3.nki.replay_cores (Python) run their programs"
        ))
    }

    /// Why a core cannot take such a step alone.
    pub(super) fn alone(&self, number: usize, call: &RankCall) -> Error {
        let (name, op) = (&self.name, call.operation);
        Error::NotModelled(format!(
            "program {name}: step {number} ({op}) meets other ranks, which a core alone has not; a device runs it"
        ))
    }
}
