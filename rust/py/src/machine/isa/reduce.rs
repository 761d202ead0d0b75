//! tensor_reduce and the scans.
#![allow(clippy::too_many_arguments)] // One for each argument of the instruction.

use pyo3::prelude::*;
use trn3_machine::isa::reduce::TensorReduce;
use trn3_machine::isa::scan::{TensorScalarCumulative, TensorTensorScan};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{op, reduce_command, scalar, tensor};

#[pyfunction]
fn tensor_reduce(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    op: &str,
    data: &Bound<'_, PyAny>,
    axis: Vec<i64>,
    negate: bool,
    keepdims: bool,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = TensorReduce {
        dst: tensor("tensor_reduce", "dst", dst)?.clone(),
        op: self::op(op)?,
        data: tensor("tensor_reduce", "data", data)?.clone(),
        axes: axis.into(),
        negate,
        keepdims,
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn tensor_tensor_scan(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data0: &Bound<'_, PyAny>,
    data1: &Bound<'_, PyAny>,
    initial: &Bound<'_, PyAny>,
    op0: &str,
    op1: &str,
    reverse0: bool,
    reverse1: bool,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = TensorTensorScan {
        dst: tensor("tensor_tensor_scan", "dst", dst)?.clone(),
        data0: tensor("tensor_tensor_scan", "data0", data0)?.clone(),
        data1: tensor("tensor_tensor_scan", "data1", data1)?.clone(),
        initial: scalar("tensor_tensor_scan", "initial", initial)?,
        op0: op(op0)?,
        op1: op(op1)?,
        reverse0,
        reverse1,
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn tensor_scalar_cumulative(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    op0: &str,
    op1: &str,
    imm0: &Bound<'_, PyAny>,
    imm1: &Bound<'_, PyAny>,
    reduce_cmd: &str,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = TensorScalarCumulative {
        dst: tensor("tensor_scalar_cumulative", "dst", dst)?.clone(),
        src: tensor("tensor_scalar_cumulative", "src", src)?.clone(),
        op0: op(op0)?,
        op1: op(op1)?,
        imm0: scalar("tensor_scalar_cumulative", "imm0", imm0)?,
        imm1: scalar("tensor_scalar_cumulative", "imm1", imm1)?,
        command: reduce_command(reduce_cmd)?,
    };
    issue(core, &instruction, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(tensor_reduce, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_tensor_scan, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_scalar_cumulative, module)?)?;
    Ok(())
}
