//! The instructions, one binding file a family.

pub(crate) mod copy;
pub(crate) mod custom;

use pyo3::prelude::*;
use trn3::machine::isa::Instruction;

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
    copy::register(module)?;
    custom::register(module)
}
