//! Options and numbers as Python callers write them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use trn3_numerics::{Overflow, Rounding, ScaleRule};

/// `{argument} is {what came}; allowed: {allowed}`, as the core words it.
pub(crate) fn refused(argument: &str, came: &Bound<'_, PyAny>, allowed: &str) -> PyErr {
    let came = came.repr().map_or_else(|_| "unprintable".to_owned(), |text| text.to_string());
    PyValueError::new_err(format!("{argument} is {came}; allowed: {allowed}"))
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

/// A whole number: anything with `__index__` but bools, which are answers rather than numbers.
pub(crate) fn integer(argument: &str, came: &Bound<'_, PyAny>, allowed: &str) -> PyResult<i128> {
    let refused = || refused(argument, came, allowed);
    if came.is_instance_of::<PyBool>() || came.get_type().name().is_ok_and(|name| name == "bool") {
        return Err(refused());
    }
    came.extract().map_err(|_| refused())
}

/// The argument `axis` of an array with `rank` axes, negative numbers counting from the end.
pub(crate) fn axis(came: &Bound<'_, PyAny>, rank: usize) -> PyResult<usize> {
    let allowed = match rank {
        0 => "none, for an array without axes".to_owned(),
        _ => format!("whole numbers from -{rank} to {}", rank - 1),
    };
    let axis = integer("axis", came, &allowed)?;
    let from_start = if axis < 0 { axis + rank as i128 } else { axis };
    usize::try_from(from_start).ok().filter(|&axis| axis < rank).ok_or_else(|| refused("axis", came, &allowed))
}

/// The argument `scale_rule`; None leaves the choice to the element format.
pub(crate) fn scale_rule(came: &Bound<'_, PyAny>) -> PyResult<Option<ScaleRule>> {
    let rules = ScaleRule::ALL.map(|rule| (rule.name(), Some(rule)));
    if came.is_none() { Ok(None) } else { option("scale_rule", came, &rules) }
}
