//! Kernels of the user's own inside a graph: what runs them is the caller's.

use std::fmt::Debug;

use trn3_machine::arch::ArchSpec;
use trn3_machine::engine::Engine;
use trn3_machine::isa::{Instruction, OperandRole};
use trn3_machine::state::State;
use trn3_machine::time::Picos;
use trn3_machine::timing::work::Work;
use trn3_machine::view::View;

use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// A kernel that stays itself: it has a run of its own, on cores of its own.
pub trait GraphKernel: Debug + Send + Sync {
    /// What it is called.
    fn name(&self) -> &str;

    /// What it computes, of operands of the types that it was written down with; results of the types given.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn call(&self, operands: &[&Tensor], results: &[TensorType]) -> Result<Vec<Tensor>>;

    /// How long its own run takes, of operands of these types.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn time(&self, operands: &[TensorType]) -> Result<Picos>;
}

/// A kernel's own run in the timeline of a graph: its operands are there before, its results after.
///
/// It stands on GpSimdE, for as long as the kernel's own run takes from an empty core to an empty core **(choice)**: the
/// engines that it uses within are not told apart, and what does not depend on it may run beside it.
#[derive(Clone)]
pub(crate) struct KernelCall {
    pub(crate) name: &'static str,
    pub(crate) inputs: Vec<View>,
    pub(crate) outputs: Vec<View>,
    pub(crate) time: Picos,
    pub(crate) compute: std::sync::Arc<dyn Fn(&[Vec<u8>]) -> Result<Vec<Tensor>> + Send + Sync>,
}

impl Instruction for KernelCall {
    fn name(&self) -> &'static str {
        self.name
    }

    fn engine(&self, _: &ArchSpec) -> Engine {
        Engine::GpSimd
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        self.inputs.iter().for_each(|view| visit(OperandRole::Read, view));
        self.outputs.iter().for_each(|view| visit(OperandRole::Write, view));
    }

    /// The kernel checks what it is given itself.
    fn check(&self, _: &ArchSpec) -> trn3_machine::Result<()> {
        Ok(())
    }

    fn work(&self, _: &ArchSpec) -> Work {
        Work::Compute { interval: self.time, latency: self.time, table: None }
    }

    fn is_opaque(&self) -> bool {
        true
    }

    fn execute(&self, state: &mut State) -> trn3_machine::Result<()> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for view in &self.inputs {
            inputs.push(state.read_bytes(view)?);
        }
        let made = (self.compute)(&inputs).map_err(|error| match error {
            crate::error::GraphError::Numerics(error) => trn3_machine::Error::Numerics(error),
            crate::error::GraphError::Machine(error) => error,
            other => trn3_machine::Error::Value(other.to_string()),
        })?;
        for (view, tensor) in self.outputs.iter().zip(&made) {
            state.write_bytes(view, tensor.bytes())?;
        }
        Ok(())
    }
}
