//! activation, activation_reduce, activate2 and exponential.
#![allow(clippy::too_many_arguments)] // One for each argument of the instruction.

use pyo3::prelude::*;
use trn3_machine::isa::accumulate::{ReduceCommand, Reduction};
use trn3_machine::isa::activation::{Activate2, Activation};
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::exponential::Exponential;

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{function, optional_op, optional_tensor, reduce_command, scalar, tensor};

#[pyfunction]
fn activation(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    op: &str,
    data: &Bound<'_, PyAny>,
    bias: &Bound<'_, PyAny>,
    scale: &Bound<'_, PyAny>,
    reduce_op: Option<&str>,
    reduce_res: &Bound<'_, PyAny>,
    reduce_cmd: &str,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let result = optional_tensor("activation", "reduce_res", reduce_res)?;
    let instruction = Activation {
        name: "activation",
        dst: tensor("activation", "dst", dst)?.clone(),
        op: function(op)?,
        data: tensor("activation", "data", data)?.clone(),
        bias: scalar("activation", "bias", bias)?,
        scale: scalar("activation", "scale", scale)?,
        reduction: Reduction::new(optional_op(reduce_op)?.unwrap_or(AluOp::Add), reduce_command(reduce_cmd)?, result),
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn activation_reduce(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    op: &str,
    data: &Bound<'_, PyAny>,
    reduce_op: Option<&str>,
    reduce_res: &Bound<'_, PyAny>,
    bias: &Bound<'_, PyAny>,
    scale: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let result = optional_tensor("activation_reduce", "reduce_res", reduce_res)?;
    let instruction = Activation {
        name: "activation_reduce",
        dst: tensor("activation_reduce", "dst", dst)?.clone(),
        op: function(op)?,
        data: tensor("activation_reduce", "data", data)?.clone(),
        bias: scalar("activation_reduce", "bias", bias)?,
        scale: scalar("activation_reduce", "scale", scale)?,
        reduction: Reduction::new(optional_op(reduce_op)?.unwrap_or(AluOp::Add), ReduceCommand::ResetReduce, result),
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn activate2(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    op: &str,
    data: &Bound<'_, PyAny>,
    imm0: &Bound<'_, PyAny>,
    imm1: &Bound<'_, PyAny>,
    op0: Option<&str>,
    op1: Option<&str>,
    relu_param: &Bound<'_, PyAny>,
    reverse0: bool,
    reverse1: bool,
    reduce_op: Option<&str>,
    reduce_res: &Bound<'_, PyAny>,
    reduce_cmd: &str,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let result = optional_tensor("activate2", "reduce_res", reduce_res)?;
    let reduce_op = optional_op(reduce_op)?.unwrap_or(AluOp::Add);
    let instruction = Activate2 {
        dst: tensor("activate2", "dst", dst)?.clone(),
        op: function(op)?,
        data: tensor("activate2", "data", data)?.clone(),
        imm0: scalar("activate2", "imm0", imm0)?,
        imm1: scalar("activate2", "imm1", imm1)?,
        op0: optional_op(op0)?,
        op1: optional_op(op1)?,
        relu_param: scalar("activate2", "relu_param", relu_param)?,
        reverse0,
        reverse1,
        reduction: Reduction::new(reduce_op, reduce_command(reduce_cmd)?, result),
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn exponential(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    max_value: &Bound<'_, PyAny>,
    reduce_res: &Bound<'_, PyAny>,
    reduce_cmd: &str,
    reduce_init: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = Exponential {
        dst: tensor("exponential", "dst", dst)?.clone(),
        src: tensor("exponential", "src", src)?.clone(),
        max_value: scalar("exponential", "max_value", max_value)?,
        reduction: Reduction {
            op: AluOp::Add,
            command: reduce_command(reduce_cmd)?,
            initial: scalar("exponential", "reduce_init", reduce_init)?,
            result: optional_tensor("exponential", "reduce_res", reduce_res)?,
            negate: false,
        },
    };
    issue(core, &instruction, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(activation, module)?)?;
    module.add_function(wrap_pyfunction!(activation_reduce, module)?)?;
    module.add_function(wrap_pyfunction!(activate2, module)?)?;
    module.add_function(wrap_pyfunction!(exponential, module)?)?;
    Ok(())
}
