//! Plans of training: requests come as JSON texts, results leave as JSON texts.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use trn3_planner::training::{TrainingRequest, published};

use super::error::exception;

/// Adds the functions of this file.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(plan_training, module)?)?;
    module.add_function(wrap_pyfunction!(published_training, module)?)
}

/// The best layouts for a training step; degrees that the request fixes are kept.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn plan_training(py: Python<'_>, request: &str) -> PyResult<String> {
    py.detach(|| TrainingRequest::parse(request)?.search()).map_err(exception)
}

/// Published rates of training beside the model's, as a JSON list.
#[pyfunction]
fn published_training(py: Python<'_>) -> PyResult<String> {
    let rows = py.detach(published).map_err(exception)?;
    serde_json::to_string(&rows).map_err(|error| PyRuntimeError::new_err(format!("rows as JSON: {error}")))
}
