//! An instruction on its way: looked at, checked, computed and given its time.

use std::ops::Range;
use std::sync::Arc;

use trn3_numerics::with_default_environment;

use super::again::{Meeting, Met, Timed};
use super::pending::{Pending, regions_of};
use super::{At, NeuronCore, WINDOW};
use crate::arch::ArchSpec;
use crate::error::{Error, Result};
use crate::headroom;
use crate::isa::{Instruction, NOTHING, OperandRole};
use crate::memory::{Examined, Operand, OutOfBounds};
use crate::storage::Buffer;
use crate::time::Picos;
use crate::timing::record::Cause;
use crate::trace::{DraftTime, TraceBuilder};

/// Adds an instruction to a trace; what only that needed is gone then.
pub(super) fn traced(trace: &mut TraceBuilder, pending: &mut Pending, met: Option<Met>) {
    if let Some(draft) = pending.draft.take() {
        let &mut Pending { opcode, engine, site, label, macs, .. } = pending;
        let (work, after) = (pending.work.clone(), pending.after.clone());
        trace.push(*draft, DraftTime { opcode, engine, site, label, work, after, macs, met });
    }
}

impl NeuronCore {
    /// Runs one instruction: checks, values, time. What fails leaves no trace on the timeline; what has an empty operand
    /// does nothing, and its number is [`NOTHING`].
    ///
    /// # Errors
    /// What the checks refuse, what the memories report, and the run's instruction limit.
    pub fn issue(&mut self, instruction: &dyn Instruction, at: At<'_>) -> Result<u32> {
        if self.examine(instruction)?.is_idle {
            return Ok(NOTHING);
        }
        self.issue_examined(instruction, at)
    }

    /// Looks at the operands of an instruction before it is issued.
    ///
    /// # Errors
    /// [`Error::Value`] names a tensor on chip of another launch or another core.
    pub fn examine(&self, instruction: &dyn Instruction) -> Result<Examined> {
        let examined = self.state.memory.examine(instruction)?;
        let elements = if self.options.values { examined.elements } else { 0 };
        headroom::check(instruction.name(), elements, self.issued)?;
        Ok(examined)
    }

    /// As [`NeuronCore::issue`], for what [`NeuronCore::examine`] has found to have something to do.
    pub(crate) fn issue_examined(&mut self, instruction: &dyn Instruction, at: At<'_>) -> Result<u32> {
        let arch = Arc::clone(&self.state.arch);
        self.begin(instruction, &arch, at)?;
        if self.options.values || self.is_known(instruction)? {
            // A host that flushes subnormals would change what the machine's own loops compute.
            with_default_environment(|| {
                let before = self.shadow.as_mut().map(|shadow| shadow.before(instruction, &mut self.state));
                self.state.memory.watch(instruction);
                instruction.execute(&mut self.state)?;
                if let Some((shadow, before)) = self.shadow.as_mut().zip(before) {
                    shadow.after(instruction, &mut self.state, &before, self.issued);
                }
                self.state.memory.trace(instruction)
            })?;
        } else {
            self.forget_results(instruction)?;
        }
        let id = self.count(instruction)?;
        if self.is_timed() {
            let pending = self.pending_of(instruction, &arch, at);
            self.pending.push_back(pending);
            self.settle(WINDOW);
        }
        Ok(id)
    }

    /// Checks and numbers this core's part of an instruction that cores run together; its time comes with
    /// [`NeuronCore::meet`].
    pub(crate) fn join(&mut self, instruction: &dyn Instruction, at: At<'_>) -> Result<u32> {
        self.examine(instruction)?;
        let arch = Arc::clone(&self.state.arch);
        self.begin(instruction, &arch, at)?;
        self.count(instruction)
    }

    /// Gives instructions that cores have [joined](NeuronCore::join) their time. Cores at the places of each range share
    /// HBM, whose uses are ordered there; those that came sooner wait for `cause`.
    pub(crate) fn meet(
        parts: Vec<(&mut NeuronCore, &dyn Instruction, At<'_>)>,
        hop: Picos,
        sharing: &[Range<usize>],
        cause: Cause,
    ) {
        let meeting = Arc::new(Meeting { cores: parts.len(), hop, sharing: sharing.to_vec(), cause });
        let mut cores = Vec::with_capacity(parts.len());
        for (core, instruction, at) in parts {
            if !core.is_timed() {
                return;
            }
            core.settle(0);
            let arch = Arc::clone(&core.state.arch);
            let pending = core.pending_of(instruction, &arch, at);
            cores.push((&mut core.timeline, pending, &mut core.timed, &mut core.trace));
        }
        let mut issues: Vec<_> =
            cores.iter_mut().map(|(timeline, pending, ..)| (&mut **timeline, pending.issue())).collect();
        meeting.run(&mut issues);
        for (place, (_, mut pending, timed, trace)) in cores.into_iter().enumerate() {
            let met = Met { meeting: Arc::clone(&meeting), place };
            if let Some(trace) = trace {
                traced(trace, &mut pending, Some(met.clone()));
            }
            if let Some(timed) = timed {
                timed.push(Timed::of(&pending.issue(), Some(met)));
            }
        }
    }

    fn begin(&mut self, instruction: &dyn Instruction, arch: &ArchSpec, at: At<'_>) -> Result<()> {
        self.state.site = at.site;
        self.state.memory.set_site(at.site);
        self.state.memory.set_instruction(u32::try_from(self.issued).unwrap_or(u32::MAX));
        self.state.start(instruction.engine(arch));
        self.note_occupancy();
        if self.options.max_instructions.is_some_and(|most| self.issued >= most) {
            let text = format!(
                "{}: instruction {} exceeds max_instructions = {}",
                instruction.name(),
                self.issued + 1,
                self.issued
            );
            return Err(Error::InstructionLimit(text));
        }
        instruction.check(arch)
    }

    fn count(&mut self, instruction: &dyn Instruction) -> Result<u32> {
        let id = u32::try_from(self.issued).map_err(|_| {
            Error::InstructionLimit(format!("{}: more than {} instructions in one run", instruction.name(), u32::MAX))
        })?;
        self.issued += 1;
        Ok(id)
    }

    /// Timing-only: whether the instruction's results are among the values that control flow and addresses may need
    /// (integer tiles and control instructions) and everything it reads is known.
    fn is_known(&mut self, instruction: &dyn Instruction) -> Result<bool> {
        let mut wanted = true;
        instruction.operands(&mut |role, view| {
            if matches!(role, OperandRole::Write | OperandRole::Update) {
                wanted &= view.dtype.is_integer();
            }
        });
        if instruction.is_control() {
            return Ok(true);
        }
        let mut known = Ok(wanted);
        let memory = &mut self.state.memory;
        let mode = instruction.out_of_bounds();
        instruction.operands(&mut |role, view| {
            if role != OperandRole::Write && matches!(known, Ok(true)) {
                known = memory.is_initialised(Operand::from(view).out_of_bounds(mode));
            }
        });
        match known {
            // A transfer that is left out needs no values.
            Err(Error::OutOfBounds(_)) if mode == OutOfBounds::Skip => Ok(true),
            known => known,
        }
    }

    fn forget_results(&mut self, instruction: &dyn Instruction) -> Result<()> {
        let mut outcome = Ok(());
        let memory = &mut self.state.memory;
        let mode = instruction.out_of_bounds();
        // What is written is used last, as where values are computed.
        instruction.operands(&mut |role, view| {
            if role != OperandRole::Write && outcome.is_ok() {
                outcome = memory.skip_read(view);
            }
        });
        instruction.operands(&mut |role, view| {
            if matches!(role, OperandRole::Write | OperandRole::Update) && outcome.is_ok() {
                outcome = match memory.forget(Operand::from(view).out_of_bounds(mode)) {
                    // The transfer is left out.
                    Err(Error::OutOfBounds(_)) if mode == OutOfBounds::Skip => Ok(()),
                    forgotten => forgotten,
                };
            }
        });
        outcome
    }

    fn pending_of(&mut self, instruction: &dyn Instruction, arch: &ArchSpec, at: At<'_>) -> Box<Pending> {
        // It is large: what was timed gives its place to the next.
        let spare = self.timed_last.take().or_else(|| self.aside.away.as_mut()?.spare());
        let mut pending = spare.unwrap_or_else(Pending::empty);
        let Pending { reads, stationary, writes, .. } = &mut *pending;
        for regions in [&mut *reads, &mut *stationary, &mut *writes] {
            regions.clear();
        }
        pending.dynamic = regions_of(instruction, reads, stationary, writes);
        if self.is_shared {
            instruction.operands(&mut |_, view| {
                if view.storage.buffer == Buffer::SharedHbm {
                    self.timeline.share(view.storage.id);
                }
            });
        }
        self.log_uses(instruction);
        let (opcode, engine) = (self.opcodes.opcode(instruction.name()), instruction.engine(arch));
        let work = self.cost.work(instruction, arch);
        let draft = self.trace.as_mut().map(|trace| Box::new(trace.draft(instruction, &*self.cost)));
        self.basis.note(arch, (opcode, engine), &work, |arch| self.cost.work(instruction, arch));
        if let Some(choices) = &mut self.choices {
            choices.note(instruction, (at.site, opcode, engine), &work, arch, &*self.cost);
        }
        (pending.opcode, pending.engine, pending.work) = (opcode, engine, work);
        (pending.site, pending.macs, pending.draft) = (at.site, instruction.macs(arch), draft);
        pending.label = at.label.map_or(0, |label| self.opcodes.label(label));
        pending.after.clear();
        pending.after.extend_from_slice(at.after);
        pending
    }
}
