//! register_move, register_load and register_store.

use pyo3::prelude::*;
use trn3_machine::isa::register::{RegisterLoad, RegisterMove, RegisterStore};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{register, register_value, tensor};

#[pyfunction]
#[pyo3(signature = (core, dst, src, name))]
fn register_move(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let dst = register("register_move", "dst", dst)?;
    issue(core, &RegisterMove { dst, src: register_value("register_move", "src", src)? }, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, src, name))]
fn register_load(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let dst = register("register_load", "dst", dst)?;
    issue(core, &RegisterLoad { dst, src: tensor("register_load", "src", src)?.clone() }, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, src, name))]
fn register_store(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let src = register("register_store", "src", src)?;
    issue(core, &RegisterStore { dst: tensor("register_store", "dst", dst)?.clone(), src }, name)
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(register_move, module)?)?;
    module.add_function(wrap_pyfunction!(register_load, module)?)?;
    module.add_function(wrap_pyfunction!(register_store, module)?)
}
