//! select_reduce, range_select and tensor_copy_predicated.
#![allow(clippy::too_many_arguments)] // One for each argument of the instruction.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use trn3_machine::isa::ScalarOperand;
use trn3_machine::isa::accumulate::Reduction;
use trn3_machine::isa::select::{CopySource, RangeSelect, SelectReduce, TensorCopyPredicated};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{op, optional_tensor, reduce_command, scalar, tensor};

#[pyfunction]
fn select_reduce(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    predicate: &Bound<'_, PyAny>,
    on_true: &Bound<'_, PyAny>,
    on_false: &Bound<'_, PyAny>,
    reduce_res: &Bound<'_, PyAny>,
    reduce_cmd: &str,
    reduce_op: &str,
    reverse_pred: bool,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let result = optional_tensor("select_reduce", "reduce_res", reduce_res)?;
    let instruction = SelectReduce {
        dst: tensor("select_reduce", "dst", dst)?.clone(),
        predicate: tensor("select_reduce", "predicate", predicate)?.clone(),
        on_true: tensor("select_reduce", "on_true", on_true)?.clone(),
        on_false: scalar("select_reduce", "on_false", on_false)?,
        reduction: Reduction::new(op(reduce_op)?, reduce_command(reduce_cmd)?, result),
        reverse_pred,
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn range_select(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    on_true_tile: &Bound<'_, PyAny>,
    comp_op0: &str,
    comp_op1: &str,
    bound0: &Bound<'_, PyAny>,
    bound1: &Bound<'_, PyAny>,
    reduce_cmd: &str,
    reduce_res: &Bound<'_, PyAny>,
    reduce_op: &str,
    range_start: i64,
    on_false_value: f64,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let result = optional_tensor("range_select", "reduce_res", reduce_res)?;
    let instruction = RangeSelect {
        dst: tensor("range_select", "dst", dst)?.clone(),
        on_true: tensor("range_select", "on_true_tile", on_true_tile)?.clone(),
        comp_op0: op(comp_op0)?,
        comp_op1: op(comp_op1)?,
        bound0: tensor("range_select", "bound0", bound0)?.clone(),
        bound1: tensor("range_select", "bound1", bound1)?.clone(),
        reduction: Reduction::new(op(reduce_op)?, reduce_command(reduce_cmd)?, result),
        range_start,
        on_false_value,
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn tensor_copy_predicated(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    predicate: &Bound<'_, PyAny>,
    reverse_pred: bool,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let src = match scalar("tensor_copy_predicated", "src", src)? {
        ScalarOperand::Vector(view) => CopySource::Tile(view),
        ScalarOperand::Constant(value) => CopySource::Constant(value),
        ScalarOperand::None => {
            return Err(PyTypeError::new_err("tensor_copy_predicated src is None; allowed: an NkiTensor or a number"));
        }
    };
    let instruction = TensorCopyPredicated {
        dst: tensor("tensor_copy_predicated", "dst", dst)?.clone(),
        src,
        predicate: tensor("tensor_copy_predicated", "predicate", predicate)?.clone(),
        reverse_pred,
    };
    issue(core, &instruction, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(select_reduce, module)?)?;
    module.add_function(wrap_pyfunction!(range_select, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_copy_predicated, module)?)?;
    Ok(())
}
