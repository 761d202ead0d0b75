//! Spec files: the text of those that the crate carries, and what any of them says.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use trn3_facts::{BUILT_IN, Facts, factor};

use super::error::exception;

/// Adds the functions of this file.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(built_in_systems, module)?)?;
    module.add_function(wrap_pyfunction!(built_in_facts, module)?)?;
    module.add_function(wrap_pyfunction!(parse_facts, module)?)?;
    module.add_function(wrap_pyfunction!(unit_factor, module)?)
}

/// Names of the systems that the core knows.
#[pyfunction]
fn built_in_systems() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

/// The facts of a system of the core, as JSON.
#[pyfunction]
#[pyo3(signature = (name, /))]
fn built_in_facts(name: &str) -> PyResult<String> {
    json(&Facts::built_in(name).map_err(|error| exception(error.into()))?)
}

/// The facts of all systems that a spec file's text describes, as a JSON list; the first argument names the file.
#[pyfunction]
#[pyo3(signature = (file, text, /))]
fn parse_facts(file: &str, text: &str) -> PyResult<String> {
    json(&Facts::parse(file, text).map_err(|error| exception(error.into()))?)
}

/// What one of a unit is in base units; None for a unit that spec files do not know.
#[pyfunction]
#[pyo3(signature = (unit, /))]
fn unit_factor(unit: &str) -> Option<f64> {
    factor(unit)
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(format!("facts as JSON: {error}")))
}
