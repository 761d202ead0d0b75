//! Arguments of instructions, converted: tensors, scalars, operators, engines. Every refusal names the argument.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use trn3_machine::engine::Engine;
use trn3_machine::isa::ScalarOperand;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::register::RegisterValue;
use trn3_machine::view::{Register, ScalarIndex, View};

use crate::machine::error::exception;
use crate::machine::handle::PyTensor;
use crate::machine::register::PyRegister;

fn class(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "thing".to_owned(), |name| name.to_string())
}

/// A tensor operand.
pub(crate) fn tensor<'a>(instruction: &str, argument: &str, object: &'a Bound<'_, PyAny>) -> PyResult<&'a View> {
    match object.cast::<PyTensor>() {
        Ok(tensor) => Ok(&tensor.get().view),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{instruction} {argument} is of type {}; allowed: an NkiTensor",
            class(object)
        ))),
    }
}

/// A number, a [P, 1] tensor, or None.
#[inline]
pub(crate) fn scalar(instruction: &str, argument: &str, object: &Bound<'_, PyAny>) -> PyResult<ScalarOperand> {
    if object.is_none() {
        return Ok(ScalarOperand::None);
    }
    if let Ok(tensor) = object.cast::<PyTensor>() {
        return Ok(ScalarOperand::Vector(tensor.get().view.clone()));
    }
    match object.extract::<f64>() {
        Ok(value) => Ok(ScalarOperand::Constant(value)),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{instruction} {argument} is of type {}; allowed: a number or an NkiTensor of shape [P, 1]",
            class(object)
        ))),
    }
}

/// An operator by its `nki.language` name.
#[inline]
pub(crate) fn op(name: &str) -> PyResult<AluOp> {
    name.parse().map_err(exception)
}

/// An engine by its `nki.isa.engine` name; `unknown` and None leave the choice to the model.
pub(crate) fn engine(name: Option<&str>) -> PyResult<Option<Engine>> {
    let Some(name) = name.filter(|name| *name != "unknown") else { return Ok(None) };
    match Engine::ALL.into_iter().find(|engine| engine.name() == name) {
        Some(engine) => Ok(Some(engine)),
        None => Err(PyValueError::new_err(format!(
            "engine is {name}; allowed: unknown, {}",
            Engine::ALL.map(Engine::name).join(", ")
        ))),
    }
}

/// An engine by its `nki.isa.engine` name.
pub(crate) fn named_engine(argument: &str, name: &str) -> PyResult<Engine> {
    engine(Some(name))?.ok_or_else(|| PyValueError::new_err(format!("{argument} is unknown; allowed: vector, gpsimd")))
}

/// A register or a one-element tensor: what a dynamic offset is.
pub(crate) fn scalar_index(argument: &str, object: &Bound<'_, PyAny>) -> PyResult<ScalarIndex> {
    if let Ok(register) = object.cast::<PyRegister>() {
        return Ok(ScalarIndex::Register(register.get().register.clone()));
    }
    match object.cast::<PyTensor>() {
        Ok(tensor) if tensor.get().view.len() == 1 => Ok(ScalarIndex::Element(tensor.get().view.clone())),
        Ok(tensor) => Err(PyValueError::new_err(format!(
            "{argument} has shape {:?}; allowed: one element",
            &tensor.get().view.shape[..]
        ))),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{argument} is of type {}; allowed: a VirtualRegister or an SBUF tensor of one element",
            class(object)
        ))),
    }
}

/// A register operand.
pub(crate) fn register(instruction: &str, argument: &str, object: &Bound<'_, PyAny>) -> PyResult<Arc<Register>> {
    match object.cast::<PyRegister>() {
        Ok(register) => Ok(register.get().register.clone()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{instruction} {argument} is of type {}; allowed: a VirtualRegister",
            class(object)
        ))),
    }
}

/// An integer or a register that holds one.
pub(crate) fn register_value(instruction: &str, argument: &str, object: &Bound<'_, PyAny>) -> PyResult<RegisterValue> {
    if let Ok(register) = object.cast::<PyRegister>() {
        return Ok(RegisterValue::Register(register.get().register.clone()));
    }
    match object.extract::<i64>() {
        Ok(number) => Ok(RegisterValue::Number(number)),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{instruction} {argument} is of type {}; allowed: an int or a VirtualRegister",
            class(object)
        ))),
    }
}

/// A number of things.
pub(crate) fn count(instruction: &'static str, argument: &'static str, number: i64) -> PyResult<usize> {
    usize::try_from(number).map_err(|_| {
        exception(trn3_machine::Error::validation(instruction, argument, format!("is {number}"), "a number from 0"))
    })
}
