//! tensor_scalar and tensor_scalar_reduce.
#![allow(clippy::too_many_arguments)] // One for each argument of the instruction.

use pyo3::prelude::*;
use trn3_machine::isa::accumulate::Reduction;
use trn3_machine::isa::tensor_scalar::{TensorScalar, TensorScalarReduce};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{self, op, optional_op, optional_tensor, reduce_command, scalar, tensor};

#[pyfunction]
fn tensor_scalar(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    op0: &str,
    operand0: &Bound<'_, PyAny>,
    reverse0: bool,
    op1: Option<&str>,
    operand1: &Bound<'_, PyAny>,
    reverse1: bool,
    engine: Option<&str>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = TensorScalar {
        dst: tensor("tensor_scalar", "dst", dst)?.clone(),
        data: tensor("tensor_scalar", "data", data)?.clone(),
        op0: op(op0)?,
        operand0: scalar("tensor_scalar", "operand0", operand0)?,
        reverse0,
        op1: optional_op(op1)?,
        operand1: scalar("tensor_scalar", "operand1", operand1)?,
        reverse1,
        engine: operand::engine(engine)?,
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn tensor_scalar_reduce(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    op0: &str,
    operand0: &Bound<'_, PyAny>,
    reduce_op: &str,
    reduce_res: &Bound<'_, PyAny>,
    reverse0: bool,
    reduce_cmd: &str,
    reduce_init: &Bound<'_, PyAny>,
    reduce_res_negate: bool,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = TensorScalarReduce {
        dst: tensor("tensor_scalar_reduce", "dst", dst)?.clone(),
        data: tensor("tensor_scalar_reduce", "data", data)?.clone(),
        op0: op(op0)?,
        operand0: scalar("tensor_scalar_reduce", "operand0", operand0)?,
        reverse0,
        reduction: Reduction {
            op: op(reduce_op)?,
            command: reduce_command(reduce_cmd)?,
            initial: scalar("tensor_scalar_reduce", "reduce_init", reduce_init)?,
            result: optional_tensor("tensor_scalar_reduce", "reduce_res", reduce_res)?,
            negate: reduce_res_negate,
        },
    };
    issue(core, &instruction, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(tensor_scalar, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_scalar_reduce, module)?)?;
    Ok(())
}
