//! Values with named parts, between the core's types and Python's: dictionaries, lists, numbers, texts, None.
//!
//! The core's types are described once, by serde. What is asked comes as Python objects, what is answered leaves as such;
//! nothing is text on the way, so that no error speaks of places in a text that nobody wrote.

use std::fmt::{Display, Formatter};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

/// How deep values may lie in each other.
const DEEPEST: usize = 128;

/// A value of the core as Python objects; a number that is not finite is None.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let value = serde_json::to_value(value).map_err(|error| PyValueError::new_err(error.to_string()))?;
    object(py, &value)
}

fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(whole), _, _) => whole.into_pyobject(py)?.into_any(),
            (None, Some(whole), _) => whole.into_pyobject(py)?.into_any(),
            (None, None, real) => PyFloat::new(py, real.unwrap_or(f64::NAN)).into_any(),
        },
        Value::Array(values) => {
            let list = PyList::empty(py);
            values.iter().try_for_each(|value| list.append(object(py, value)?))?;
            list.into_any()
        }
        Value::Object(entries) => {
            let dict = PyDict::new(py);
            entries.iter().try_for_each(|(key, value)| dict.set_item(key, object(py, value)?))?;
            dict.into_any()
        }
    })
}

/// A dict of entries.
pub(crate) fn dict(py: Python<'_>, entries: Map<String, Value>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    entries.iter().try_for_each(|(name, value)| dict.set_item(name, object(py, value)?))?;
    Ok(dict)
}

/// Python objects as a value of the core; `what` is their name in errors.
///
/// # Errors
/// `TypeError` for objects of other types, `ValueError` for what the core has no such entry or number for.
pub(crate) fn from_python<T: DeserializeOwned>(what: &str, given: &Bound<'_, PyAny>) -> PyResult<T> {
    let value = described(&Place::Whole(what), given, DEEPEST)?;
    serde_json::from_value(value).map_err(|error| PyValueError::new_err(format!("the {what} is wrong: {error}")))
}

/// Python objects as plain data; `what` is their name in errors.
pub(crate) fn plain(what: &str, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    described(&Place::Whole(what), given, DEEPEST)
}

/// Where in what was given a value stands: written out for errors alone, since most values have none.
enum Place<'a> {
    Whole(&'a str),
    Entry(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Whole(name) => f.write_str(name),
            Place::Entry(owner, key) => write!(f, "{owner}.{key}"),
            Place::Item(owner, index) => write!(f, "{owner}[{index}]"),
        }
    }
}

fn described(what: &Place<'_>, given: &Bound<'_, PyAny>, deep: usize) -> PyResult<Value> {
    if given.is_none() {
        return Ok(Value::Null);
    }
    if given.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(given.extract()?));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(Value::String(given.extract()?));
    }
    if given.is_instance_of::<PyInt>() {
        return Ok(match (given.extract::<u64>(), given.extract::<i64>()) {
            (Ok(whole), _) => Value::from(whole),
            (_, Ok(whole)) => Value::from(whole),
            // Wider than any count; as a number it may still do.
            _ => real(what, given)?,
        });
    }
    if given.is_instance_of::<PyFloat>() {
        return real(what, given);
    }
    if deep == 0 {
        return Err(PyValueError::new_err(format!("{what} lies deeper than {DEEPEST} values in each other")));
    }
    if let Ok(mapping) = given.cast::<PyMapping>() {
        let mut entries = Map::new();
        for item in mapping.items()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            let key: String = key.str()?.extract()?;
            let value = described(&Place::Entry(what, &key), &value, deep - 1)?;
            entries.insert(key, value);
        }
        return Ok(Value::Object(entries));
    }
    if let Ok(sequence) = given.cast::<PySequence>() {
        let mut values = Vec::new();
        for (index, value) in sequence.try_iter()?.enumerate() {
            values.push(described(&Place::Item(what, index), &value?, deep - 1)?);
        }
        return Ok(Value::Array(values));
    }
    // Numbers of other libraries.
    if let Ok(whole) = given.extract::<i64>() {
        return Ok(whole.into());
    }
    // Dates and times, as YAML reads them: their text is what JSON would have.
    if let Ok(text) = given.call_method0("isoformat") {
        return described(what, &text, 0);
    }
    let of = given.get_type().name()?;
    Err(PyTypeError::new_err(format!("{what} is of type {of}; allowed: numbers, texts, lists, mappings, None")))
}

fn real(what: &Place<'_>, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Some(number) = Number::from_f64(given.extract()?) {
        return Ok(Value::Number(number));
    }
    Err(PyValueError::new_err(format!("{what} is {}; needed: a finite number", given.str()?)))
}
