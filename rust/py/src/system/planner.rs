//! Plans: requests come as JSON texts, results leave as JSON texts.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use trn3_planner::request::ModelSource;
use trn3_planner::{BUILT_IN_MODELS, FAMILIES, ModelSummary, Request};

use super::error::exception;

/// Adds the functions of this file.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(planner_plan, module)?)?;
    module.add_function(wrap_pyfunction!(planner_search, module)?)?;
    module.add_function(wrap_pyfunction!(planner_operations, module)?)?;
    module.add_function(wrap_pyfunction!(planner_exchanges, module)?)?;
    module.add_function(wrap_pyfunction!(planner_model, module)?)?;
    module.add_function(wrap_pyfunction!(planner_models, module)?)?;
    module.add_function(wrap_pyfunction!(planner_families, module)?)
}

/// One plan.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn planner_plan(py: Python<'_>, request: &str) -> PyResult<String> {
    py.detach(|| Request::parse(request)?.plan()).map_err(exception)
}

/// The best plans for an objective.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn planner_search(py: Python<'_>, request: &str) -> PyResult<String> {
    py.detach(|| Request::parse(request)?.search()).map_err(exception)
}

/// The operations of a plan, with the keys under which measured times are given.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn planner_operations(py: Python<'_>, request: &str) -> PyResult<String> {
    py.detach(|| Request::parse(request)?.operations()).map_err(exception)
}

/// The collectives of a plan by phase, with their groups and sizes.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn planner_exchanges(py: Python<'_>, request: &str) -> PyResult<String> {
    py.detach(|| Request::parse(request)?.exchanges()).map_err(exception)
}

/// The shapes and counts of a model, whose source is `{"name": ...}`, `{"json": [NAME, TEXT]}` or `{"toml": ...}`.
#[pyfunction]
#[pyo3(signature = (source, /))]
fn planner_model(source: &str) -> PyResult<String> {
    let source: ModelSource =
        serde_json::from_str(source).map_err(|error| PyValueError::new_err(format!("the model is wrong: {error}")))?;
    let summary = ModelSummary::new(&source.load().map_err(exception)?);
    serde_json::to_string(&summary).map_err(|error| PyRuntimeError::new_err(format!("a model as JSON: {error}")))
}

/// Names of the models whose shapes the core has.
#[pyfunction]
fn planner_models() -> Vec<&'static str> {
    BUILT_IN_MODELS.iter().map(|(name, _)| *name).collect()
}

/// The model families that configurations may be of.
#[pyfunction]
fn planner_families() -> Vec<&'static str> {
    FAMILIES.to_vec()
}
