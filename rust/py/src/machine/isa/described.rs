//! The table of the instructions as Python data.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use trn3_machine::engine::Engine;
use trn3_machine::isa::table::{Argument, DROPPED, Default, Description, MEETINGS, TABLE, family_name};

use crate::machine::kinds::annotation;

fn default<'py>(py: Python<'py>, default: Default) -> PyResult<Bound<'py, PyAny>> {
    match default {
        Default::None => Ok(py.None().into_bound(py)),
        Default::Flag(flag) => flag.into_bound_py_any(py),
        Default::Integer(number) => number.into_bound_py_any(py),
        Default::Number(number) => number.into_bound_py_any(py),
        Default::Word(word) => word.into_bound_py_any(py),
    }
}

fn argument<'py>(py: Python<'py>, argument: &Argument) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", argument.name)?;
    dict.set_item("kind", argument.kind.name())?;
    dict.set_item("annotation", annotation(argument.kind))?;
    dict.set_item("enum", argument.kind.enumeration())?;
    if let Some(given) = argument.default {
        dict.set_item("default", default(py, given)?)?;
    }
    Ok(dict)
}

fn description<'py>(py: Python<'py>, description: &Description) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", description.name)?;
    let arguments = description.arguments.iter().map(|each| argument(py, each)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("arguments", arguments)?;
    dict.set_item("family", description.family.name())?;
    dict.set_item("own", description.is_own())?;
    dict.set_item("engines", description.engines.iter().copied().map(Engine::name).collect::<Vec<_>>())?;
    dict.set_item("keys", description.keys.iter().filter(|key| !key.is_empty()).collect::<Vec<_>>())?;
    Ok(dict)
}

/// Keywords that instructions and collectives once had: name, keyword, and what says the same today.
#[pyfunction]
pub(crate) fn dropped_keywords() -> Vec<(&'static str, &'static str, &'static str)> {
    DROPPED.iter().map(|dropped| (dropped.of, dropped.keyword, dropped.instead)).collect()
}

/// The family of an instruction as timelines spell it; `"other"` of one that is not known.
#[pyfunction]
pub(crate) fn family_of(opcode: &str) -> &'static str {
    family_name(opcode)
}

/// Every instruction, described: a list of dicts. `keys` are the entries of a program's step; none for what the cores of a
/// logical core run together. An argument without `default` has to be given.
#[pyfunction]
pub(crate) fn instruction_table(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let rows = TABLE.iter().chain(MEETINGS).map(|each| description(py, each)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, rows)
}
