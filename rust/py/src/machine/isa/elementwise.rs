//! tensor_tensor, scalar_tensor_tensor and reciprocal.
#![allow(clippy::too_many_arguments)] // One for each argument of the instruction.

use pyo3::prelude::*;
use trn3_machine::isa::elementwise::{Reciprocal, ScalarTensorTensor, TensorTensor};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{self, op, scalar, tensor};

#[pyfunction]
fn tensor_tensor(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data1: &Bound<'_, PyAny>,
    data2: &Bound<'_, PyAny>,
    op: &str,
    engine: Option<&str>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = TensorTensor {
        dst: tensor("tensor_tensor", "dst", dst)?.clone(),
        data1: tensor("tensor_tensor", "data1", data1)?.clone(),
        data2: tensor("tensor_tensor", "data2", data2)?.clone(),
        op: self::op(op)?,
        engine: operand::engine(engine)?,
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn scalar_tensor_tensor(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    op0: &str,
    operand0: &Bound<'_, PyAny>,
    op1: &str,
    operand1: &Bound<'_, PyAny>,
    reverse0: bool,
    reverse1: bool,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = ScalarTensorTensor {
        dst: tensor("scalar_tensor_tensor", "dst", dst)?.clone(),
        data: tensor("scalar_tensor_tensor", "data", data)?.clone(),
        op0: op(op0)?,
        operand0: scalar("scalar_tensor_tensor", "operand0", operand0)?,
        op1: op(op1)?,
        operand1: tensor("scalar_tensor_tensor", "operand1", operand1)?.clone(),
        reverse0,
        reverse1,
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn reciprocal(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = Reciprocal {
        dst: tensor("reciprocal", "dst", dst)?.clone(),
        data: tensor("reciprocal", "data", data)?.clone(),
    };
    issue(core, &instruction, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(tensor_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(scalar_tensor_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(reciprocal, module)?)?;
    Ok(())
}
