//! Bindings of plans: requests come as mappings, results leave as dictionaries and lists.

use pyo3::prelude::*;
use serde::Serialize;
use trn3_machine::arch::ArchSpec;
use trn3_planner::fleet::FleetRequest;
use trn3_planner::training::{self, TrainingRequest};
use trn3_planner::{
    BUILT_IN_MODELS, DataType, FAMILIES, ModelSource, ModelSummary, NETWORKS, OperatorRequest, OperatorTable,
    PlanRequest, machine_times, published,
};
use trn3_system::Result;

use crate::door;
use crate::value::{from_python, to_python};

/// Adds the submodule `planner`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "planner")?;
    module.add_function(wrap_pyfunction!(plan, &module)?)?;
    module.add_function(wrap_pyfunction!(search, &module)?)?;
    module.add_function(wrap_pyfunction!(operations, &module)?)?;
    module.add_function(wrap_pyfunction!(operators, &module)?)?;
    module.add_function(wrap_pyfunction!(exchanges, &module)?)?;
    module.add_function(wrap_pyfunction!(model, &module)?)?;
    module.add_function(wrap_pyfunction!(models, &module)?)?;
    module.add_function(wrap_pyfunction!(families, &module)?)?;
    module.add_function(wrap_pyfunction!(plan_training, &module)?)?;
    module.add_function(wrap_pyfunction!(goodput, &module)?)?;
    module.add_function(wrap_pyfunction!(published_serving, &module)?)?;
    module.add_function(wrap_pyfunction!(published_training, &module)?)?;
    module.add_function(wrap_pyfunction!(time_product, &module)?)?;
    parent.add_submodule(&module)?;
    // Submodules made in code are importable by name only once the interpreter knows them.
    py.import("sys")?.getattr("modules")?.set_item("trn3._trn3.planner", &module)
}

type Answer<'py> = PyResult<Bound<'py, PyAny>>;

fn answer<'py, R: Serialize + Send>(
    request: &Bound<'py, PyAny>,
    work: impl FnOnce(&PlanRequest) -> Result<R> + Send,
) -> Answer<'py> {
    let asked: PlanRequest = from_python("request", request)?;
    to_python(request.py(), &door::run(request.py(), || work(&asked))?)
}

/// One plan.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn plan<'py>(request: &Bound<'py, PyAny>) -> Answer<'py> {
    answer(request, PlanRequest::plan)
}

/// The best plans for an objective.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn search<'py>(request: &Bound<'py, PyAny>) -> Answer<'py> {
    answer(request, PlanRequest::search)
}

/// The operations of a plan, with the keys under which measured times are given.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn operations<'py>(request: &Bound<'py, PyAny>) -> Answer<'py> {
    answer(request, PlanRequest::operations)
}

/// Every operator of a forward pass, and the same as text.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn operators<'py>(request: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, String)> {
    let asked: OperatorRequest = from_python("request", request)?;
    let table: OperatorTable = door::run(request.py(), || asked.table())?;
    Ok((to_python(request.py(), &table)?, table.to_text()))
}

/// The collectives of a plan by phase, with their groups and sizes.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn exchanges<'py>(request: &Bound<'py, PyAny>) -> Answer<'py> {
    answer(request, PlanRequest::exchanges)
}

/// The shapes and counts of a model, whose source is `{"name": ...}`, `{"json": [NAME, TEXT]}` or `{"toml": ...}`.
#[pyfunction]
#[pyo3(signature = (source, /))]
fn model<'py>(source: &Bound<'py, PyAny>) -> Answer<'py> {
    let asked: ModelSource = from_python("model", source)?;
    to_python(source.py(), &door::run(source.py(), || asked.architecture().map(|model| ModelSummary::of(&model)))?)
}

/// Return the names of the models whose shapes the package has.
///
/// >>> from trn3.planner import models
/// >>> "deepseek-v3" in models()
/// True
#[pyfunction]
fn models() -> Vec<&'static str> {
    BUILT_IN_MODELS.iter().map(|(name, _)| *name).collect()
}

/// Return the values of ``model_type`` that are understood.
///
/// >>> from trn3.planner import families
/// >>> "gpt_oss" in families()
/// True
#[pyfunction]
fn families() -> Vec<&'static str> {
    FAMILIES.iter().chain(NETWORKS).copied().collect()
}

/// The best layouts for a training step; degrees that the request fixes are kept.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn plan_training<'py>(request: &Bound<'py, PyAny>) -> Answer<'py> {
    let asked: TrainingRequest = from_python("training request", request)?;
    to_python(request.py(), &door::run(request.py(), || asked.search())?)
}

/// What failures leave of a training run, or how many spare replicas serving needs: `{"of": "training" or "serving", ...}`.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn goodput<'py>(request: &Bound<'py, PyAny>) -> Answer<'py> {
    let asked: FleetRequest = from_python("fleet request", request)?;
    to_python(request.py(), &door::run(request.py(), || asked.answer())?)
}

/// Published rates of training beside the model's.
#[pyfunction]
fn published_training(py: Python<'_>) -> Answer<'_> {
    to_python(py, &door::run(py, training::published)?)
}

/// Published figures of serving beside the model's.
#[pyfunction]
fn published_serving(py: Python<'_>) -> Answer<'_> {
    to_python(py, &door::run(py, published::published)?)
}

/// Return how long one physical core takes for ``[m, k] x [k, n]``, in seconds.
///
/// Parameters
/// ----------
/// m, k, n
///     Any sizes of at least 1; they are rounded up to tiles.
/// dtype
///     ``"bf16"``, ``"fp16"`` or ``"fp32"``.
/// arch
///     ``"trn1"``, ``"trn2"`` or ``"trn3"``.
///
/// Raises
/// ------
/// ValueError
///     For any other.
///
/// Examples
/// --------
/// >>> from trn3.planner.kernels import time_product
/// >>> time_product(128, 1024, 2048) > 2 * 128 * 1024 * 2048 / 78.6e12
/// True
#[pyfunction]
#[pyo3(signature = (m, k, n, dtype="bf16", arch="trn3"))]
fn time_product(py: Python<'_>, m: u64, k: u64, n: u64, dtype: &str, arch: &str) -> PyResult<f64> {
    let arch = door::run(py, || ArchSpec::shared(arch))?;
    door::run(py, || machine_times::time_product([m, k, n], DataType::parse(dtype)?, &arch))
}
