//! Plain data on both sides: what JSON can hold, as Rust's values and as Python's dicts, lists, strings and numbers.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString};
use serde::Serialize;
use serde_json::{Map, Number, Value};

/// How deep plain data may lie in one another.
const MOST_LEVELS: usize = 100;

/// What a value of Rust's says of itself, as plain data.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let value = serde_json::to_value(value)
        .map_err(|error| PyRuntimeError::new_err(format!("defect in trn3, please report it: {error}")))?;
    object(py, value)
}

fn object(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => value.into_bound_py_any(py),
            (_, Some(value)) => value.into_bound_py_any(py),
            _ => number.as_f64().into_bound_py_any(py),
        },
        Value::String(text) => text.into_bound_py_any(py),
        Value::Array(items) => {
            let list = PyList::empty(py);
            items.into_iter().try_for_each(|item| list.append(object(py, item)?))?;
            Ok(list.into_any())
        }
        Value::Object(entries) => Ok(dict(py, entries)?.into_any()),
    }
}

/// A dict of entries.
pub(crate) fn dict(py: Python<'_>, entries: Map<String, Value>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    entries.into_iter().try_for_each(|(name, value)| dict.set_item(name, object(py, value)?))?;
    Ok(dict)
}

/// Plain data of a Python object; `what` names it in errors.
pub(crate) fn from_python(what: &str, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    value(what, object, 0)
}

fn value(what: &str, object: &Bound<'_, PyAny>, level: usize) -> PyResult<Value> {
    if level > MOST_LEVELS {
        return Err(PyValueError::new_err(format!("{what} lies more than {MOST_LEVELS} levels deep")));
    }
    let refused = || PyValueError::new_err(format!("{what} holds {object}; allowed: numbers that JSON has"));
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(flag.is_true().into());
    }
    if let Ok(number) = object.cast::<PyInt>() {
        let unsigned = number.extract::<u64>().map(Value::from);
        return unsigned.or_else(|_| number.extract::<i64>().map(Value::from)).map_err(|_| refused());
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        return Number::from_f64(number.extract()?).map(Value::Number).ok_or_else(refused);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(text.to_str()?.into());
    }
    if let Ok(mapping) = object.cast::<PyMapping>() {
        let mut entries = Map::new();
        for item in mapping.items()?.iter() {
            let (name, item): (String, Bound<'_, PyAny>) = item.extract()?;
            entries.insert(name, value(what, &item, level + 1)?);
        }
        return Ok(Value::Object(entries));
    }
    if let Ok(items) = object.cast::<PySequence>() {
        let items = items.try_iter()?.map(|item| value(what, &item?, level + 1));
        return items.collect::<PyResult<Vec<Value>>>().map(Value::Array);
    }
    // Numbers of other libraries.
    match object.extract::<i64>() {
        Ok(number) => Ok(number.into()),
        Err(_) => {
            let kind = object.get_type().name()?.to_string();
            Err(PyTypeError::new_err(format!("{what} holds a {kind}; allowed: what JSON has")))
        }
    }
}
