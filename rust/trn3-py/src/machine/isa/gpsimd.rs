//! The instructions that GpSimdE alone has.
#![allow(clippy::too_many_arguments)] // One for each argument of the instruction.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use trn3::machine::isa::gpsimd::affine::{Affine, AffineSelect, Iota};
use trn3::machine::isa::register::RegisterValue;

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{op, tensor};
use crate::machine::register::PyRegister;

/// A whole number or a register.
fn number(instruction: &str, argument: &str, object: &Bound<'_, PyAny>) -> PyResult<RegisterValue> {
    if let Ok(register) = object.cast::<PyRegister>() {
        return Ok(RegisterValue::Register(register.get().register.clone()));
    }
    object.extract().map(RegisterValue::Number).map_err(|_| {
        PyTypeError::new_err(format!("{instruction} {argument} is {object}; allowed: an int or a VirtualRegister"))
    })
}

fn affine(
    instruction: &str,
    pattern: Vec<(i64, i64)>,
    offset: &Bound<'_, PyAny>,
    channel_multiplier: i64,
) -> PyResult<Affine> {
    Ok(Affine { pattern: pattern.into(), offset: number(instruction, "offset", offset)?, channel_multiplier })
}

#[pyfunction]
fn iota(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    pattern: Vec<(i64, i64)>,
    offset: &Bound<'_, PyAny>,
    channel_multiplier: i64,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let dst = tensor("iota", "dst", dst)?.clone();
    issue(core, &Iota { dst, affine: affine("iota", pattern, offset, channel_multiplier)? }, name)
}

#[pyfunction]
fn affine_select(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    pattern: Vec<(i64, i64)>,
    channel_multiplier: i64,
    on_true_tile: &Bound<'_, PyAny>,
    on_false_value: f64,
    cmp_op: &str,
    offset: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = AffineSelect {
        dst: tensor("affine_select", "dst", dst)?.clone(),
        affine: affine("affine_select", pattern, offset, channel_multiplier)?,
        on_true: tensor("affine_select", "on_true_tile", on_true_tile)?.clone(),
        on_false_value,
        cmp_op: op(cmp_op)?,
    };
    issue(core, &instruction, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(iota, module)?)?;
    module.add_function(wrap_pyfunction!(affine_select, module)?)?;
    Ok(())
}
