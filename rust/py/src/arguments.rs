//! Options and numbers as Python callers write them.

use pyo3::IntoPyObjectExt;
use pyo3::PyTypeCheck;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use trn3_numerics::{Activation, Overflow, Pattern, Rounding, ScaleRule};

use crate::array::Input;

/// An argument as it came, or none: what has a default other than None, whose None is refused like anything else.
pub(crate) struct Given<'py>(Option<Bound<'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Some(object.to_owned())))
    }
}

impl<'py> Given<'py> {
    /// The default.
    pub(crate) const NOTHING: Self = Self(None);

    /// What `read` makes of it, or the default.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>, default: T) -> PyResult<T> {
        self.0.as_ref().map_or(Ok(default), read)
    }

    /// An axis of the array `argument`; without one, that which `default` counts from the end.
    pub(crate) fn axis(&self, argument: &str, array: &Input<'py>, default: i64) -> PyResult<usize> {
        self.axis_of(argument, array.shape(), array.py(), default)
    }

    /// As [`Given::axis`], by the array's shape.
    pub(crate) fn axis_of(&self, argument: &str, shape: &[usize], py: Python<'py>, default: i64) -> PyResult<usize> {
        match &self.0 {
            Some(came) => axis(argument, shape, came),
            None => axis(argument, shape, &default.into_bound_py_any(py)?),
        }
    }
}

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

/// An argument that has to be of a class.
pub(crate) fn class<'a, 'py, T: PyTypeCheck>(
    argument: &str,
    allowed: &str,
    came: &'a Bound<'py, PyAny>,
) -> PyResult<&'a Bound<'py, T>> {
    let refused = || -> PyResult<PyErr> {
        let name = came.get_type().name()?;
        Ok(PyTypeError::new_err(format!("{argument} is of type {name}; allowed: {allowed}")))
    };
    came.cast::<T>().map_err(|_| refused().unwrap_or_else(|error| error))
}

/// The argument `function`.
pub(crate) fn function(came: &Bound<'_, PyAny>) -> PyResult<Activation> {
    option("function", came, &Activation::ALL.map(|function| (function.name(), function)))
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

/// A number, rounded to the nearest float32.
pub(crate) fn float32(argument: &str, came: &Bound<'_, PyAny>) -> PyResult<f32> {
    let wrong = |_| PyTypeError::new_err(format!("{argument} is {}; allowed: a number", printed(came)));
    if came.is_instance_of::<PyBool>() {
        return Err(wrong(()));
    }
    match came.extract::<f64>() {
        Ok(number) => Ok(nearest_float32(number)),
        Err(error) if error.is_instance_of::<PyOverflowError>(came.py()) => {
            Err(refused(argument, came, "numbers within float64"))
        }
        Err(_) => Err(wrong(())),
    }
}

/// The conversion in integers: the processor's own would follow the rounding mode that the caller has set.
fn nearest_float32(number: f64) -> f32 {
    const DROPPED: i32 = 52 - 23;
    let bits = number.to_bits();
    let sign = (bits >> 63) as u32 * 0x8000_0000;
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 1024 {
        let quiet = if fraction == 0 { 0 } else { 0x40_0000 };
        return f32::from_bits(sign | 0x7f80_0000 | quiet);
    }
    // Below float32's smallest normal number a larger part of the significand is dropped, past 54 bits all of it.
    let dropped = (DROPPED + (-126 - exponent).max(0)).min(54) as u32;
    let significand = if exponent == -1023 { fraction } else { fraction | 1 << 52 };
    let (kept, rest, half) = (significand >> dropped, significand & ((1 << dropped) - 1), 1 << (dropped - 1));
    let rounded = kept + u64::from(rest > half || rest == half && kept & 1 == 1);
    // The implicit bit, and a carry out of the fraction, add to the exponent field.
    let field = (exponent.max(-126) + 126).min(254) as u64;
    f32::from_bits(sign | ((field << 23) + rounded).min(0x7f80_0000) as u32)
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

/// The argument `scale_rule`.
pub(crate) fn scale_rule(came: &Bound<'_, PyAny>) -> PyResult<ScaleRule> {
    option("scale_rule", came, &ScaleRule::ALL.map(|rule| (rule.name(), rule)))
}

/// The argument `pattern`.
pub(crate) fn pattern(came: &Bound<'_, PyAny>) -> PyResult<Pattern> {
    let names = Pattern::ALL.map(|pattern| pattern.to_string());
    let choices: Vec<_> = names.iter().map(String::as_str).zip(Pattern::ALL).collect();
    option("pattern", came, &choices)
}
