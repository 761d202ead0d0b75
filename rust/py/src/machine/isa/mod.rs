//! The instructions, one binding file a family.

// A binding has the arguments that its instruction has.
#![allow(clippy::too_many_arguments)]

pub(crate) mod activation;
pub(crate) mod copy;
pub(crate) mod cores;
pub(crate) mod custom;
pub(crate) mod dma;
pub(crate) mod elementwise;
pub(crate) mod gpsimd;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod register;
pub(crate) mod search;
pub(crate) mod select;
pub(crate) mod tensor;
pub(crate) mod tensor_scalar;

use pyo3::prelude::*;
use trn3_machine::isa::Instruction;

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;

/// Issues an instruction on the line of the kernel that is calling.
pub(crate) fn issue(
    core: &Bound<'_, PyCore>,
    instruction: &(dyn Instruction + Sync),
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let id = core.get().issue(core.py(), instruction, name)?;
    Ok(PyInstruction { core: core.clone().unbind(), id })
}

/// Adds every instruction to the submodule.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    activation::register(module)?;
    copy::register(module)?;
    cores::register(module)?;
    custom::register(module)?;
    dma::register(module)?;
    elementwise::register(module)?;
    gpsimd::register(module)?;
    random::register(module)?;
    reduce::register(module)?;
    register::add(module)?;
    search::register(module)?;
    select::register(module)?;
    tensor::register(module)?;
    tensor_scalar::register(module)
}
