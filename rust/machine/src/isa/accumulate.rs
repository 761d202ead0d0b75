//! Reductions beside elementwise work: the running values that ScalarE and VectorE keep, one a partition.

use std::fmt;
use std::str::FromStr;

use crate::arch::ArchSpec;
use crate::check::Check;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::isa::ScalarOperand;
use crate::isa::alu::AluOp;
use crate::isa::steps;
use crate::state::State;
use crate::view::View;

/// What an instruction does with the running values (`nki.isa.reduce_cmd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceCommand {
    /// Leaves them alone.
    Idle,
    /// Sets them to the operator's identity and adds nothing.
    Reset,
    /// Goes on from them.
    Reduce,
    /// Starts from the operator's identity.
    ResetReduce,
    /// Starts from given values.
    LoadReduce,
}

use ReduceCommand::*;

impl ReduceCommand {
    /// Every command.
    pub const ALL: [ReduceCommand; 5] = [Idle, Reset, Reduce, ResetReduce, LoadReduce];

    /// The `nki.isa.reduce_cmd` name.
    pub const fn name(self) -> &'static str {
        match self {
            Idle => "idle",
            Reset => "reset",
            Reduce => "reduce",
            ResetReduce => "reset_reduce",
            LoadReduce => "load_reduce",
        }
    }

    /// Whether the instruction's own values join.
    pub const fn accumulates(self) -> bool {
        matches!(self, Reduce | ResetReduce | LoadReduce)
    }
}

impl fmt::Display for ReduceCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for ReduceCommand {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        ReduceCommand::ALL.into_iter().find(|command| command.name() == name).ok_or_else(|| {
            let allowed = ReduceCommand::ALL.map(ReduceCommand::name).join(", ");
            Error::Type(format!("reduce_cmd is {name}; allowed: {allowed}"))
        })
    }
}

/// Whose running values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// ScalarE's: activation, activation_reduce, activate2.
    Scalar,
    /// VectorE's.
    Vector,
}

impl Registers {
    fn of(self, state: &mut State) -> &mut Vec<f32> {
        match self {
            Registers::Scalar => &mut state.scalar_reduce,
            Registers::Vector => &mut state.vector_accumulator,
        }
    }
}

/// How an instruction reduces beside its elementwise work.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The operator.
    pub op: AluOp,
    /// What becomes of the running values.
    pub command: ReduceCommand,
    /// Where load_reduce starts.
    pub initial: ScalarOperand,
    /// Where the running values are written afterwards: [P, 1].
    pub result: Option<View>,
    /// Whether what is written is negated; the running values are not.
    pub negate: bool,
}

impl Reduction {
    /// Reduces by one of the commands that start from no given values.
    pub fn new(op: AluOp, command: ReduceCommand, result: Option<View>) -> Self {
        Self { op, command, initial: ScalarOperand::None, result, negate: false }
    }

    /// Cycles that reading the running values adds.
    pub fn read_cycles(&self, arch: &ArchSpec) -> u64 {
        if self.result.is_some() { arch.accumulator_read_cycles } else { 0 }
    }

    /// Refuses commands, operators and results that the instruction does not take.
    ///
    /// # Errors
    /// [`Error::Validation`].
    pub fn check(&self, check: &Check<'_>, dst: &View, commands: &[ReduceCommand], ops: &[AluOp]) -> Result<()> {
        if !commands.contains(&self.command) {
            let names: Vec<&str> = commands.iter().map(|command| command.name()).collect();
            return Err(check.refuse("reduce_cmd", format!("is {}", self.command), names.join(", ")));
        }
        if !ops.contains(&self.op) {
            let names: Vec<&str> = ops.iter().map(|op| op.name()).collect();
            return Err(check.refuse("reduce_op", format!("is {}", self.op), names.join(", ")));
        }
        if let Some(result) = &self.result {
            check.vector("reduce_res", result, dst)?;
            check.no_columns("reduce_res", result)?;
            check.arithmetic("reduce_res", result)?;
        }
        Ok(())
    }

    /// The written result is of a floating-point type.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn check_float_result(&self, check: &Check<'_>) -> Result<()> {
        self.result.as_ref().map_or(Ok(()), |result| check.float("reduce_res", result))
    }

    /// load_reduce names where it starts; no other command does.
    ///
    /// # Errors
    /// [`Error::Validation`] otherwise.
    pub fn check_initial(&self, check: &Check<'_>, operand: &'static str, dst: &View) -> Result<()> {
        match (self.command, &self.initial) {
            (LoadReduce, ScalarOperand::None) => Err(check.refuse(operand, "is None", "load_reduce needs it")),
            (LoadReduce, initial) => check.float32_scalar(operand, initial, dst),
            (_, ScalarOperand::None) => Ok(()),
            (command, _) => {
                Err(check.refuse(operand, format!("is given with {command}"), "load_reduce alone takes it"))
            }
        }
    }

    /// The running values that a row of `dst` each starts from.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn start(&self, state: &mut State, registers: Registers, dst: &View) -> Result<Vec<f32>> {
        let (first, count) = (dst.start_partition(), dst.partitions());
        Ok(match self.command {
            Idle | Reduce => registers.of(state)[first..first + count].to_vec(),
            Reset | ResetReduce => vec![self.op.identity(); count],
            LoadReduce => self.initial.values(state, count, self.op.identity())?,
        })
    }

    /// Takes `values`, rows of as many elements as `dst` has, into the running values of the partitions that `dst` lies
    /// on **(choice)**, in ascending order; keeps them, and writes them where they are asked for.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn join(
        &self,
        state: &mut State,
        registers: Registers,
        dst: &View,
        values: &[f32],
        mut running: Vec<f32>,
    ) -> Result<()> {
        if self.command.accumulates() {
            steps::fold(self.op, &mut running, values, dst.free_size())?;
        }
        let (first, count) = (dst.start_partition(), dst.partitions());
        if self.command != Idle {
            registers.of(state)[first..first + count].copy_from_slice(&running);
        }
        if let Some(result) = &self.result {
            if self.negate {
                running.iter_mut().for_each(|value| *value = -*value);
            }
            state.write(result, &running)?;
        }
        Ok(())
    }

    /// Sets the running values of the partitions that `dst` lies on.
    pub(super) fn set(&self, state: &mut State, registers: Registers, dst: &View, running: impl Iterator<Item = f32>) {
        let slots = registers.of(state).iter_mut().skip(dst.start_partition());
        slots.zip(running).for_each(|(slot, value)| *slot = value);
    }

    /// As [`Reduction::join`] with the values as `dst` now holds them, after the cast to its type.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn join_written(
        &self,
        state: &mut State,
        registers: Registers,
        dst: &View,
        values: &[f32],
        running: Vec<f32>,
    ) -> Result<()> {
        if !self.command.accumulates() || dst.dtype == DType::Float32 {
            return self.join(state, registers, dst, values, running);
        }
        let written = state.read(dst)?;
        let outcome = self.join(state, registers, dst, &written, running);
        state.keep(written);
        outcome
    }
}
