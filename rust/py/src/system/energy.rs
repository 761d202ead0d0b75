//! Energy, power and cost; requests come as numbers and mappings, results leave as dictionaries.

use pyo3::prelude::*;
use trn3_system::energy::cost::{Ownership, PriceSet, RunningCost, implied_capex, own, rent};
use trn3_system::energy::{self, EnergyModel, EnergyWork};

use super::error::exception;
use crate::value::{from_python, to_python};

type Answer<'py> = PyResult<Bound<'py, PyAny>>;

/// Adds the functions of this file.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(energy_parameters, module)?)?;
    module.add_function(wrap_pyfunction!(energy_chip, module)?)?;
    module.add_function(wrap_pyfunction!(energy_estimate, module)?)?;
    module.add_function(wrap_pyfunction!(energy_load, module)?)?;
    module.add_function(wrap_pyfunction!(energy_per_watt, module)?)?;
    module.add_function(wrap_pyfunction!(energy_racks, module)?)?;
    module.add_function(wrap_pyfunction!(cost_own, module)?)?;
    module.add_function(wrap_pyfunction!(cost_rent, module)?)?;
    module.add_function(wrap_pyfunction!(cost_implied, module)?)?;
    module.add_function(wrap_pyfunction!(published_pflops, module)?)?;
    module.add_function(wrap_pyfunction!(price_sets, module)?)?;
    module.add_function(wrap_pyfunction!(built_in_prices, module)?)?;
    module.add_function(wrap_pyfunction!(parse_prices, module)?)
}

/// The parameters of the energy model, in the form of facts.
#[pyfunction]
fn energy_parameters<'py>(py: Python<'py>) -> Answer<'py> {
    to_python(py, energy::parameters().map_err(exception)?)
}

/// Name of the chip that a system is made of.
#[pyfunction]
#[pyo3(signature = (system, /))]
fn energy_chip(system: &str) -> PyResult<String> {
    energy::chip_of(system).map_err(exception)
}

/// Energy of work on one chip: pairs of dtype and operations, bytes of HBM, links and SBUF, and a time.
#[pyfunction]
#[pyo3(signature = (chip, tdp, flops, hbm_bytes, link_bytes, sbuf_bytes, seconds, /))]
fn energy_estimate<'py>(
    py: Python<'py>,
    chip: &str,
    tdp: Option<f64>,
    flops: Vec<(String, f64)>,
    hbm_bytes: f64,
    link_bytes: f64,
    sbuf_bytes: f64,
    seconds: f64,
) -> Answer<'py> {
    let model = EnergyModel::built_in(chip, tdp).map_err(exception)?;
    let mut work = EnergyWork { hbm_bytes, link_bytes, sbuf_bytes, seconds, ..EnergyWork::default() };
    for (dtype, amount) in &flops {
        work.add(dtype, *amount).map_err(exception)?;
    }
    to_python(py, &energy::estimate(&model, &work).map_err(exception)?)
}

/// Energy of one second at shares of a chip's peaks and rates of its links and SBUF in bytes a second.
#[pyfunction]
#[pyo3(signature = (chip, tdp, dtype, utilisation, hbm, link_rate, sbuf_rate, /))]
fn energy_load<'py>(
    py: Python<'py>,
    chip: &str,
    tdp: Option<f64>,
    dtype: &str,
    utilisation: f64,
    hbm: f64,
    link_rate: f64,
    sbuf_rate: f64,
) -> Answer<'py> {
    let model = EnergyModel::built_in(chip, tdp).map_err(exception)?;
    let mut work = model.load(dtype, utilisation, hbm, 1.0).map_err(exception)?;
    work.link_bytes = link_rate;
    work.sbuf_bytes = sbuf_rate;
    to_python(py, &energy::estimate(&model, &work).map_err(exception)?)
}

/// Readings of performance per watt of one chip against another.
#[pyfunction]
#[pyo3(signature = (chip, peer, /))]
fn energy_per_watt<'py>(py: Python<'py>, chip: &str, peer: &str) -> Answer<'py> {
    to_python(py, &energy::per_watt(chip, peer).map_err(exception)?)
}

/// Power of a system's racks at one TDP, or at each that is published.
#[pyfunction]
#[pyo3(signature = (system, tdp, /))]
fn energy_racks<'py>(py: Python<'py>, system: &str, tdp: Option<f64>) -> Answer<'py> {
    to_python(py, &energy::rack_power(system, tdp).map_err(exception)?)
}

/// Cost of owning; the first argument has the inputs.
#[pyfunction]
#[pyo3(signature = (ownership, pflops, tokens_per_second, /))]
fn cost_own<'py>(
    py: Python<'py>,
    ownership: &Bound<'py, PyAny>,
    pflops: Option<f64>,
    tokens_per_second: Option<f64>,
) -> Answer<'py> {
    let ownership: Ownership = from_python("cost of owning", ownership)?;
    to_python(py, &own(&ownership, pflops, tokens_per_second).map_err(exception)?)
}

/// Cost of renting chips.
#[pyfunction]
#[pyo3(signature = (price, chips, utilisation, pflops, tokens_per_second, /))]
fn cost_rent<'py>(
    py: Python<'py>,
    price: f64,
    chips: usize,
    utilisation: f64,
    pflops: Option<f64>,
    tokens_per_second: Option<f64>,
) -> Answer<'py> {
    to_python(py, &rent(price, chips, utilisation, pflops, tokens_per_second).map_err(exception)?)
}

/// The purchase price that makes a claim true, in its two readings.
#[pyfunction]
#[pyo3(signature = (claim, pflops, peer_pflops, peer_capex, running, /))]
fn cost_implied<'py>(
    py: Python<'py>,
    claim: f64,
    pflops: f64,
    peer_pflops: f64,
    peer_capex: Option<f64>,
    running: Option<&Bound<'py, PyAny>>,
) -> Answer<'py> {
    let running: Option<RunningCost> = running.map(|given| from_python("running cost", given)).transpose()?;
    to_python(py, &implied_capex(claim, pflops, peer_pflops, peer_capex, running.as_ref()).map_err(exception)?)
}

/// The published 8-bit peak of a system, in PFLOPS.
#[pyfunction]
#[pyo3(signature = (system, /))]
fn published_pflops(system: &str) -> PyResult<f64> {
    energy::published_pflops(system).map_err(exception)
}

/// Names of the price sets that the core carries.
#[pyfunction]
fn price_sets() -> PyResult<Vec<String>> {
    PriceSet::names().map_err(exception)
}

/// A price set of the core.
#[pyfunction]
#[pyo3(signature = (name, /))]
fn built_in_prices<'py>(py: Python<'py>, name: &str) -> Answer<'py> {
    to_python(py, &PriceSet::built_in(name).map_err(exception)?)
}

/// The price sets of a text; the first argument names its file.
#[pyfunction]
#[pyo3(signature = (file, text, /))]
fn parse_prices<'py>(py: Python<'py>, file: &str, text: &str) -> Answer<'py> {
    to_python(py, &PriceSet::parse(file, text).map_err(exception)?)
}
