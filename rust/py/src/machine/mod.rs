//! Bindings of the machine: one core, its tensors and registers, and the instructions.

mod chip;
pub(crate) mod core;
pub(crate) mod description;
pub(crate) mod error;
pub(crate) mod grid;
pub(crate) mod handle;
mod hooks;
pub(crate) mod instruction;
pub(crate) mod isa;
pub(crate) mod kinds;
pub(crate) mod lines;
pub(crate) mod operand;
mod options;
pub(crate) mod profile;
pub(crate) mod programs;
pub(crate) mod ranks;
pub(crate) mod register;
pub(crate) mod replay;
pub(crate) mod spelling;
pub(crate) mod tensor;

use pyo3::prelude::*;

use crate::machine::core::PyCore;
use crate::machine::description::PyDescription;
use crate::machine::handle::PyTensor;
use crate::machine::instruction::PyInstruction;
use crate::machine::register::PyRegister;
use crate::machine::tensor::DynamicSlice;

/// Adds the submodules `machine` and `machine.isa`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "machine")?;
    module.add_class::<PyCore>()?;
    module.add_class::<PyDescription>()?;
    module.add_class::<PyTensor>()?;
    module.add_class::<PyRegister>()?;
    module.add_class::<PyInstruction>()?;
    module.add_class::<DynamicSlice>()?;
    module.add_function(wrap_pyfunction!(hooks::hooks, &module)?)?;
    module.add_function(wrap_pyfunction!(isa::dropped_keywords, &module)?)?;
    module.add_function(wrap_pyfunction!(isa::family_of, &module)?)?;
    module.add_function(wrap_pyfunction!(isa::instruction_table, &module)?)?;
    module.add_function(wrap_pyfunction!(replay::replay, &module)?)?;
    error::register(&module)?;
    chip::register(&module)?;
    grid::register(&module)?;
    programs::register(&module)?;
    ranks::register(&module)?;
    let instructions = PyModule::new(py, "isa")?;
    isa::register(&instructions)?;
    module.add_submodule(&instructions)?;
    parent.add_submodule(&module)?;
    // Submodules made in code are importable by name only once the interpreter knows them.
    let modules = py.import("sys")?.getattr("modules")?;
    modules.set_item("trn3._trn3.machine", &module)?;
    modules.set_item("trn3._trn3.machine.isa", &instructions)
}
