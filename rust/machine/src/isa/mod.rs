//! The instructions: for each, in one place and apart from one another, its checks, its values and its cost.

use std::any::Any;

use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::error::Result;
use crate::memory::OutOfBounds;
use crate::state::State;
use crate::timing::work::Work;
use crate::view::{Register, View};

pub mod accumulate;
pub mod activation;
pub mod alu;
pub mod collective;
pub mod copy;
pub mod custom;
pub mod dma;
pub mod dropout;
pub mod elementwise;
#[cfg(feature = "example-instruction")]
pub mod example;
pub mod exchange;
pub mod exponential;
pub mod gpsimd;
mod operators;
pub mod quantize;
pub mod random;
pub mod rank_call;
pub mod reduce;
pub mod register;
pub mod scan;
pub mod search;
pub mod select;
pub mod shuffle;
pub mod statistics;
mod steps;
pub mod table;
pub mod tensor;
pub mod tensor_scalar;
mod turn;
mod wide;

pub use exchange as cores;

/// The name of 0.1.0.
#[deprecated(note = "it is `OperandRole`")]
pub type Role = OperandRole;

/// What an instruction does with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandRole {
    /// Read when the instruction starts.
    Read,
    /// TensorE: read by the load of the stationary operand.
    Stationary,
    /// Written.
    Write,
    /// Read and written.
    Update,
}

/// An operand that is the same for all elements of a partition.
#[derive(Clone, Debug)]
pub enum ScalarOperand {
    /// Not given.
    None,
    /// One value for all partitions.
    Constant(f64),
    /// One value a partition: a tile of shape [P, 1].
    Vector(View),
}

impl ScalarOperand {
    /// The tile, where there is one.
    pub fn view(&self) -> Option<&View> {
        if let ScalarOperand::Vector(view) = self { Some(view) } else { None }
    }

    /// Whether it is an infinite number.
    pub fn is_infinite(&self) -> bool {
        matches!(self, ScalarOperand::Constant(value) if value.is_infinite())
    }

    /// One float32 value for each of `partitions`; `missing` where not given.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn values(&self, state: &mut State, partitions: usize, missing: f32) -> Result<Vec<f32>> {
        match self {
            ScalarOperand::None => Ok(vec![missing; partitions]),
            ScalarOperand::Constant(value) => Ok(vec![*value as f32; partitions]),
            ScalarOperand::Vector(view) => state.read(view),
        }
    }
}

/// One instruction with its operands. Checks, values and cost do not know of one another, so that runs with values
/// only, with time only and with both are compositions of them. [`Any`] lets a recorder find out which one it is.
pub trait Instruction: Any {
    /// Name, as `nki.isa` spells it.
    fn name(&self) -> &'static str;

    /// The engine that runs it on this hardware.
    fn engine(&self, arch: &ArchSpec) -> Engine;

    /// Calls `visit` with every tensor operand.
    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View));

    /// Works out what depends on the machine; called once, before the instruction is checked.
    ///
    /// # Errors
    /// Those of cutting views.
    fn prepare(&mut self, _arch: &ArchSpec) -> Result<()> {
        Ok(())
    }

    /// Refuses what the hardware would not run.
    ///
    /// # Errors
    /// [`crate::Error::Validation`] names the operand, what came and what is allowed.
    fn check(&self, arch: &ArchSpec) -> Result<()>;

    /// What it costs.
    fn work(&self, arch: &ArchSpec) -> Work;

    /// What it computes.
    ///
    /// # Errors
    /// Those of the memories: bounds of dynamic addresses, uninitialised reads in strict runs.
    fn execute(&self, state: &mut State) -> Result<()>;

    /// What it computes, in float64 where the memories keep that: for runs beside the real one. By default what
    /// [`Instruction::execute`] does in float32.
    ///
    /// # Errors
    /// As [`Instruction::execute`].
    fn execute_wide(&self, state: &mut State) -> Result<()> {
        self.execute(state)
    }

    /// Whether it may be computed once alone: a function of the kernel's own.
    fn is_opaque(&self) -> bool {
        false
    }

    /// Whether it takes or sets random numbers: the same one again gives something else.
    fn draws(&self) -> bool {
        false
    }

    /// Whether all engines that may run it give the same bits.
    fn is_same_on_engines(&self) -> bool {
        true
    }

    /// Multiplications of the systolic array, and how many it could have done in a cycle at the operands' types.
    fn macs(&self, _arch: &ArchSpec) -> (u64, u64) {
        (0, 0)
    }

    /// Registers that the instruction reads (beyond those in views' addresses) and writes.
    fn registers(&self, _visit: &mut dyn FnMut(OperandRole, &Register)) {}

    /// Whether the kernel itself names an infinity among the operands: what fills masks.
    fn has_infinite_constant(&self) -> bool {
        false
    }

    /// What dynamic addresses outside their tensors mean to it.
    fn out_of_bounds(&self) -> OutOfBounds {
        OutOfBounds::Error
    }

    /// Whether timing-only runs compute it although a result is no integer tile: register moves and the like.
    fn is_control(&self) -> bool {
        false
    }
}

/// The number of an instruction that has nothing to do, and is never issued: nobody waits for it.
pub const NOTHING: u32 = u32::MAX;
