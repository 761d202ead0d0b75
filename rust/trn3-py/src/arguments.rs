//! Options and numbers as Python callers write them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use trn3_numerics::{Overflow, Rounding, ScaleRule};

/// `{argument} is {what came}; allowed: {allowed}`, as the core words it.
pub(crate) fn refused(argument: &str, came: &Bound<'_, PyAny>, allowed: &str) -> PyErr {
    PyValueError::new_err(format!("{argument} is {}; allowed: {allowed}", printed(came)))
}

fn printed(came: &Bound<'_, PyAny>) -> String {
    came.repr().map_or_else(|_| "unprintable".to_owned(), |text| text.to_string())
}

fn option<T: Copy>(argument: &str, came: &Bound<'_, PyAny>, choices: &[(&str, T)]) -> PyResult<T> {
    let text = came.cast::<PyString>().ok().and_then(|text| text.to_str().ok());
    let found = text.and_then(|text| choices.iter().find(|(name, _)| *name == text));
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("'{name}'")).collect();
        refused(argument, came, &names.join(", "))
    })
}

/// The argument `rounding`.
pub(crate) fn rounding(came: &Bound<'_, PyAny>) -> PyResult<Rounding> {
    let choices = [("nearest", Rounding::Nearest), ("zero", Rounding::Zero), ("stochastic", Rounding::Stochastic)];
    option("rounding", came, &choices)
}

/// The argument `overflow`.
pub(crate) fn overflow(came: &Bound<'_, PyAny>) -> PyResult<Overflow> {
    option("overflow", came, &[("ieee", Overflow::Ieee), ("saturate", Overflow::Saturate)])
}

/// A whole number within bounds, inclusive: anything with `__index__` but bools, which are answers rather than numbers.
pub(crate) fn integer(argument: &str, came: &Bound<'_, PyAny>, low: i128, high: i128) -> PyResult<i128> {
    let allowed = || format!("whole numbers from {low} to {high}");
    let is_bool = came.is_instance_of::<PyBool>() || came.get_type().name().is_ok_and(|name| name == "bool");
    let index = if is_bool { None } else { came.call_method0("__index__").ok() };
    let Some(index) = index else {
        return Err(PyTypeError::new_err(format!("{argument} is {}; allowed: {}", printed(came), allowed())));
    };
    match index.extract::<i128>() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(refused(argument, came, &allowed())),
    }
}

/// The argument `axis` of the array `argument`, negative numbers counting from the end.
pub(crate) fn axis(argument: &str, shape: &[usize], came: &Bound<'_, PyAny>) -> PyResult<usize> {
    let rank = shape.len() as i128;
    if rank == 0 {
        return Err(PyValueError::new_err(format!("{argument} has shape (); it must have at least one axis")));
    }
    let axis = integer("axis", came, -rank, rank - 1)?;
    Ok(if axis < 0 { axis + rank } else { axis } as usize)
}

/// The argument `scale_rule`; None leaves the choice to the element format.
pub(crate) fn scale_rule(came: &Bound<'_, PyAny>) -> PyResult<Option<ScaleRule>> {
    let rules = ScaleRule::ALL.map(|rule| (rule.name(), Some(rule)));
    if came.is_none() { Ok(None) } else { option("scale_rule", came, &rules) }
}
