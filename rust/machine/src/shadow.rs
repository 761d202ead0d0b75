//! How much precision each instruction loses: two runs beside the real one, in float64.
//!
//! Both keep float64 values for every floating-point type, and take integers from the real run, so that they follow its
//! control flow, addresses and predicates. One carries its own values from instruction to instruction: what the kernel
//! would give if nothing were ever rounded. The other starts every instruction from what the real run really read: the
//! difference of its results from the real ones is what this very instruction added.
//!
//! Instructions that have an [`Instruction::execute_wide`] compute in float64, all others in float32 on float64 values
//! **(choice)**. What both cannot compute (functions of the kernel's own, collectives) they take from the real run:
//! earlier error ends there **(choice)**.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::arch::ArchSpec;
use crate::dtype::DType;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole};
use crate::memory::{Memory, Moved};
use crate::site::SiteId;
use crate::state::State;
use crate::storage::{Buffer, Placement};
use crate::view::View;

/// Distance of values from exact ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// Largest difference.
    pub absolute: f64,
    /// Largest difference as part of the largest exact magnitude of the operand **(choice)**: small elements beside
    /// large ones do not count as if they stood alone.
    pub relative: f64,
}

impl Distance {
    fn of(values: &[f64], exact: &[f64]) -> Distance {
        let (mut absolute, mut scale) = (0.0f64, 0.0f64);
        for (value, exact) in values.iter().zip(exact) {
            if value.is_finite() && exact.is_finite() {
                absolute = absolute.max((value - exact).abs());
                scale = scale.max(exact.abs());
            }
        }
        let relative = if absolute == 0.0 { 0.0 } else { absolute / scale.max(f64::MIN_POSITIVE) };
        Distance { absolute, relative }
    }

    fn worst(self, other: Distance) -> Distance {
        Distance { absolute: self.absolute.max(other.absolute), relative: self.relative.max(other.relative) }
    }
}

/// The precision that one instruction of one line lost, over all its runs: the worst of each figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Line of the kernel.
    pub site: SiteId,
    /// The instruction.
    pub instruction: &'static str,
    /// Name of the tensor written, in the worst run.
    pub tensor: String,
    /// Its type.
    pub dtype: DType,
    /// How often it ran.
    pub count: u64,
    /// Number of the run with the largest relative error, among the core's instructions.
    pub worst: u64,
    /// Error of the result, against the run that never rounded.
    pub total: Distance,
    /// Error that the inputs had already, each against its own largest magnitude.
    pub inputs: Distance,
    /// Error that this instruction added: its result against what its real inputs give in float64.
    pub added: Distance,
}

/// The two runs, and what they found.
pub struct Shadow {
    /// Carries its own values.
    carried: State,
    /// Starts every instruction from real values.
    fresh: State,
    losses: BTreeMap<(SiteId, &'static str, usize), Loss>,
}

/// What was known before an instruction ran.
#[derive(Default)]
pub(super) struct Before {
    inputs: Distance,
    is_followed: bool,
}

impl Shadow {
    /// Two runs that have computed nothing yet.
    pub(super) fn new(arch: &Arc<ArchSpec>, unlimited: bool) -> Self {
        let state = |second: bool| State::new(arch, Memory::shadow(arch, second, unlimited));
        Self { carried: state(false), fresh: state(true), losses: BTreeMap::new() }
    }

    /// What was lost, by line.
    pub fn losses(&self) -> Vec<Loss> {
        self.losses.values().cloned().collect()
    }

    /// Makes room up to a place on chip, where places have no limit.
    pub(super) fn reach(&mut self, buffer: Buffer, place: Placement) -> Result<()> {
        self.carried.memory.reach(buffer, place)?;
        self.fresh.memory.reach(buffer, place)
    }

    /// A tensor was placed where nothing lived.
    pub(super) fn forget(&mut self, buffer: Buffer, place: Placement) -> Result<()> {
        for state in [&mut self.carried, &mut self.fresh] {
            state.memory.reach(buffer, place)?;
            state.memory.forget_place(buffer, place);
        }
        Ok(())
    }

    /// Takes what the host or another core put into a tensor.
    pub(super) fn take(&mut self, real: &mut State, view: &View) -> Result<()> {
        self.carried.memory.mirror(&mut real.memory, view)?;
        self.fresh.memory.mirror(&mut real.memory, view)
    }

    /// Elements for another core's run.
    pub(super) fn export(&mut self, view: &View, site: SiteId) -> Result<Vec<Moved>> {
        self.carried.memory.export(view, site)
    }

    /// Elements of another core's run.
    pub(super) fn import(&mut self, real: &mut State, view: &View, elements: &[Moved]) -> Result<()> {
        self.carried.memory.import(view, elements)?;
        self.fresh.memory.mirror(&mut real.memory, view)
    }

    /// Before the real run computes an instruction: its inputs as they are, and how far off they are.
    pub(super) fn before(&mut self, instruction: &dyn Instruction, real: &mut State) -> Before {
        let mut before = Before { is_followed: !instruction.is_opaque(), ..Before::default() };
        instruction.registers(&mut |role, _| before.is_followed &= role == OperandRole::Read);
        let mut reads = Vec::new();
        instruction.operands(&mut |role, view| {
            for memory in [&self.carried.memory, &self.fresh.memory] {
                before.is_followed &= memory.touch(&view.storage).is_ok();
            }
            if role != OperandRole::Write {
                reads.push(view.clone());
            }
        });
        for view in reads {
            // A view that cannot be had fails the real run too, which says so.
            if self.fresh.memory.mirror(&mut real.memory, &view).is_err() {
                before.is_followed = false;
            }
            if let Some((values, exact)) = real.memory.peek_f64(&view).zip(self.carried.memory.peek_f64(&view)) {
                before.inputs = before.inputs.worst(Distance::of(&values, &exact));
            }
        }
        before
    }

    /// After the real run has computed an instruction: computes it too, and notes what was lost.
    pub(super) fn after(&mut self, instruction: &dyn Instruction, real: &mut State, before: &Before, id: u64) {
        let mut writes = Vec::new();
        instruction.operands(&mut |role, view| {
            if matches!(role, OperandRole::Write | OperandRole::Update) {
                writes.push(view.clone());
            }
        });
        for state in [&mut self.carried, &mut self.fresh] {
            state.site = real.site;
            state.memory.set_site(real.site);
            let is_done = before.is_followed && instruction.execute_wide(state).is_ok();
            for view in &writes {
                if !is_done || !view.dtype.is_float() {
                    // The instruction is done: what it could reach then it can be reached now.
                    let _ = state.memory.mirror(&mut real.memory, view);
                }
            }
            state.memory.findings().clear();
        }
        for (number, view) in writes.iter().enumerate() {
            let Some(values) = real.memory.peek_f64(view) else { continue };
            let carried = self.carried.memory.peek_f64(view);
            let fresh = self.fresh.memory.peek_f64(view);
            let (Some(carried), Some(fresh)) = (carried, fresh) else { continue };
            let total = Distance::of(&values, &carried);
            let added = Distance::of(&values, &fresh);
            let key = (real.site, instruction.name(), number);
            let loss = self.losses.entry(key).or_insert_with(|| Loss {
                site: real.site,
                instruction: instruction.name(),
                tensor: view.storage.name.clone(),
                dtype: view.dtype,
                count: 0,
                worst: id,
                total: Distance::default(),
                inputs: Distance::default(),
                added: Distance::default(),
            });
            loss.count += 1;
            if total.relative > loss.total.relative {
                loss.worst = id;
                loss.tensor.clone_from(&view.storage.name);
                loss.dtype = view.dtype;
            }
            loss.total = loss.total.worst(total);
            loss.inputs = loss.inputs.worst(before.inputs);
            loss.added = loss.added.worst(added);
        }
    }
}
