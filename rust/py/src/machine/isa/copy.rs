//! tensor_copy and memset.

use pyo3::prelude::*;
use trn3_machine::isa::copy::{Memset, TensorCopy};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{engine, tensor};

#[pyfunction]
#[pyo3(signature = (core, dst, src, engine, name))]
fn tensor_copy(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    engine: Option<&str>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let (dst, src) = (tensor("tensor_copy", "dst", dst)?.clone(), tensor("tensor_copy", "src", src)?.clone());
    issue(core, &TensorCopy { dst, src, engine: self::engine(engine)? }, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, value, engine, name))]
fn memset(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    value: f64,
    engine: Option<&str>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let dst = tensor("memset", "dst", dst)?.clone();
    issue(core, &Memset { dst, value, engine: self::engine(engine)? }, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(tensor_copy, module)?)?;
    module.add_function(wrap_pyfunction!(memset, module)?)
}
