//! Plans of training; requests come as JSON texts, results leave as JSON texts.

use std::collections::BTreeMap;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde::Deserialize;
use trn3_system::fabric::LinkProfile;
use trn3_system::facts::Facts;
use trn3_system::planner::training::{Moments, Objective, Recipe, Space, published, search};
use trn3_system::planner::{DataType, Machine, Model, Precision, built_in_model, model_from_json, model_from_toml};

use super::error::exception;

/// Adds the functions of this file.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(plan_training, module)?)?;
    module.add_function(wrap_pyfunction!(published_training, module)?)
}

/// What is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// Name of a model of the crate, or of the file whose text `model_text` is.
    model: String,
    model_text: Option<String>,
    /// Name of a system of the crate, or of the one that `system_text` describes.
    system: String,
    system_text: Option<String>,
    links: String,
    /// Systems in a cluster.
    count: u32,
    global_batch: u64,
    sequence: u64,
    /// One format for everything, or one by class.
    dtype: Dtype,
    optimizer: Moments,
    tdp: Option<f64>,
    price: Option<f64>,
    objective: String,
    space: Space,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Dtype {
    One(String),
    ByClass(BTreeMap<String, String>),
}

/// The best layouts for a training step; degrees that `space` fixes are kept.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn plan_training(py: Python<'_>, request: &str) -> PyResult<String> {
    let request: Request = serde_json::from_str(request)
        .map_err(|error| PyValueError::new_err(format!("request of a training plan: {error}")))?;
    py.detach(|| {
        let model = model_of(&request)?;
        let machine = machine_of(&request)?;
        let precision = match &request.dtype {
            Dtype::One(name) => Precision::named(DataType::parse(name)?, model.experts.is_some()),
            Dtype::ByClass(names) => Precision::by_class(names)?,
        };
        let recipe = Recipe {
            precision,
            moments: request.optimizer,
            tdp: request.tdp,
            price: request.price,
            ..Recipe::new(request.global_batch, request.sequence)
        };
        search(&model, &machine, &recipe, Objective::parse(&request.objective)?, &request.space)
    })
    .map_err(exception)
    .and_then(|found| json(&found))
}

fn model_of(request: &Request) -> trn3_system::Result<Model> {
    match &request.model_text {
        None => built_in_model(&request.model),
        Some(text) if request.model.ends_with(".toml") => model_from_toml(&request.model, text),
        Some(text) => model_from_json(&request.model, text),
    }
}

fn machine_of(request: &Request) -> trn3_system::Result<Machine> {
    let profile = match request.links.as_str() {
        "docs" => LinkProfile::Docs,
        "headline" => LinkProfile::Headline,
        other => return Err(trn3_system::Error::unknown("link profile", other, ["docs", "headline"])),
    };
    let facts = match &request.system_text {
        None => Facts::built_in(&Machine::built_in(&request.system)?.name)?,
        Some(text) => {
            let systems = Facts::parse(&request.system, text)?;
            let names: Vec<String> = systems.iter().map(|facts| facts.name.clone()).collect();
            systems
                .into_iter()
                .next_back()
                .ok_or_else(|| trn3_system::Error::Spec(format!("{} describes {}", request.system, names.join(", "))))?
        }
    };
    Machine::from_facts(&facts, profile)?.cluster(request.count)
}

/// Published rates of training beside the model's, as a JSON list.
#[pyfunction]
fn published_training(py: Python<'_>) -> PyResult<String> {
    py.detach(published).map_err(exception).and_then(|rows| json(&rows))
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(format!("plan as JSON: {error}")))
}
