//! Flow-level simulation: transfers come as arrays, lists of lists as offsets and values; results leave as arrays.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_system::flow::{self, FlowMessage, FlowTransfer, Outcome, Resource, over_fabric};

use super::fabric::PyFabric;
use crate::door;

/// Adds the functions of this file.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(flow_simulate, module)?)?;
    module.add_function(wrap_pyfunction!(flow_bound, module)?)?;
    module.add_function(wrap_pyfunction!(flow_messages, module)?)
}

/// Bytes, latency, share, start; priority; offsets and values of `after`.
#[derive(FromPyObject)]
struct Columns<'py> {
    bytes: PyReadonlyArray1<'py, f64>,
    latency: PyReadonlyArray1<'py, f64>,
    share: PyReadonlyArray1<'py, f64>,
    start: PyReadonlyArray1<'py, f64>,
    priority: PyReadonlyArray1<'py, u8>,
    after: Nested<'py>,
}

/// Lists of numbers: list `i` is `values[offsets[i]..offsets[i + 1]]`.
#[derive(FromPyObject)]
struct Nested<'py>(PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, u32>);

impl Nested<'_> {
    fn lists(&self, count: usize) -> PyResult<Vec<&[u32]>> {
        let (offsets, values) = (self.0.as_slice()?, self.1.as_slice()?);
        if offsets.len() != count + 1 {
            return Err(PyValueError::new_err(format!(
                "{} offsets for {count} lists; needed: one more",
                offsets.len()
            )));
        }
        let list = |pair: &[u32]| values.get(pair[0] as usize..pair[1] as usize);
        let lists: Option<Vec<&[u32]>> = offsets.windows(2).map(list).collect();
        lists.ok_or_else(|| PyValueError::new_err("offsets of lists lie outside their values or descend"))
    }
}

type Uses<'py> = (Nested<'py>, PyReadonlyArray1<'py, f64>);
type Results<'py> = (
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    f64,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<i64>>,
    Vec<u32>,
);

fn resources(names: Vec<String>, rates: &PyReadonlyArray1<'_, f64>) -> PyResult<Vec<Resource>> {
    let rates = rates.as_slice()?;
    if rates.len() != names.len() {
        return Err(PyValueError::new_err(format!("{} rates for {} resources", rates.len(), names.len())));
    }
    Ok(names.into_iter().zip(rates).map(|(name, &rate)| Resource { name, rate }).collect())
}

/// The columns as transfers that use nothing yet.
fn transfers(columns: &Columns<'_>) -> PyResult<Vec<FlowTransfer>> {
    let bytes = columns.bytes.as_slice()?;
    let count = bytes.len();
    let (latency, share, start) = (columns.latency.as_slice()?, columns.share.as_slice()?, columns.start.as_slice()?);
    let priority = columns.priority.as_slice()?;
    if [latency.len(), share.len(), start.len(), priority.len()].iter().any(|len| *len != count) {
        return Err(PyValueError::new_err("the columns of transfers differ in length"));
    }
    let after = columns.after.lists(count)?;
    let transfer = |i: usize| FlowTransfer {
        bytes: bytes[i],
        uses: Vec::new(),
        latency: latency[i],
        priority: priority[i],
        share: share[i],
        after: after[i].to_vec(),
        start: start[i],
        tag: 0,
    };
    Ok((0..count).map(transfer).collect())
}

fn with_uses(mut transfers: Vec<FlowTransfer>, uses: &Uses<'_>) -> PyResult<Vec<FlowTransfer>> {
    let used = uses.0.lists(transfers.len())?;
    let mut weights = uses.1.as_slice()?.iter();
    for (transfer, used) in transfers.iter_mut().zip(used) {
        transfer.uses = used.iter().copied().zip(weights.by_ref().copied()).collect();
        if transfer.uses.len() != used.len() {
            return Err(PyValueError::new_err("uses have fewer weights than resources"));
        }
    }
    Ok(transfers)
}

/// Begins, ends, finish, bytes carried, seconds busy, bottlenecks (-1 for none), and what binds.
fn results(py: Python<'_>, outcome: Outcome) -> Results<'_> {
    let bottleneck = outcome.bottleneck.iter().map(|resource| resource.map_or(-1, i64::from));
    (
        PyArray1::from_iter(py, outcome.spans.iter().map(|span| span.0)),
        PyArray1::from_iter(py, outcome.spans.iter().map(|span| span.1)),
        outcome.finish,
        PyArray1::from_vec(py, outcome.carried),
        PyArray1::from_vec(py, outcome.busy),
        PyArray1::from_iter(py, bottleneck),
        outcome.binding,
    )
}

/// Simulates transfers over named resources.
#[pyfunction]
#[pyo3(signature = (names, rates, columns, uses, /))]
#[allow(clippy::needless_pass_by_value)]
fn flow_simulate<'py>(
    py: Python<'py>,
    names: Vec<String>,
    rates: PyReadonlyArray1<'py, f64>,
    columns: Columns<'py>,
    uses: Uses<'py>,
) -> PyResult<Results<'py>> {
    let resources = resources(names, &rates)?;
    let transfers = with_uses(transfers(&columns)?, &uses)?;
    let outcome = door::run(py, || flow::run(&resources, &transfers))?;
    Ok(results(py, outcome))
}

/// Seconds that no schedule beats, and the resources that say so.
#[pyfunction]
#[pyo3(signature = (names, rates, columns, uses, /))]
#[allow(clippy::needless_pass_by_value)]
fn flow_bound<'py>(
    py: Python<'py>,
    names: Vec<String>,
    rates: PyReadonlyArray1<'py, f64>,
    columns: Columns<'py>,
    uses: Uses<'py>,
) -> PyResult<(f64, Vec<u32>)> {
    let resources = resources(names, &rates)?;
    let transfers = with_uses(transfers(&columns)?, &uses)?;
    door::run(py, || flow::bound(&resources, &transfers))
}

/// Simulates messages between chips of a fabric: names of its links, then what `flow_simulate` returns.
#[pyfunction]
#[pyo3(signature = (fabric, source, target, columns, /))]
#[allow(clippy::needless_pass_by_value)]
fn flow_messages<'py>(
    py: Python<'py>,
    fabric: &PyFabric,
    source: PyReadonlyArray1<'py, u32>,
    target: PyReadonlyArray1<'py, u32>,
    columns: Columns<'py>,
) -> PyResult<(Vec<String>, Results<'py>)> {
    let plain = transfers(&columns)?;
    let (source, target) = (source.as_slice()?, target.as_slice()?);
    if source.len() != plain.len() || target.len() != plain.len() {
        return Err(PyValueError::new_err("the columns of messages differ in length"));
    }
    let message = |(i, transfer): (usize, FlowTransfer)| {
        let FlowTransfer { bytes, priority, share, after, start, .. } = transfer;
        FlowMessage { from: source[i] as usize, to: target[i] as usize, bytes, priority, share, after, start }
    };
    let messages: Vec<FlowMessage> = plain.into_iter().enumerate().map(message).collect();
    let run = || {
        let (links, transfers) = over_fabric(&fabric.fabric, &messages)?;
        let outcome = flow::run(&links, &transfers)?;
        Ok::<_, trn3_system::Error>((links, outcome))
    };
    let (links, outcome) = door::run(py, run)?;
    Ok((links.into_iter().map(|link| link.name).collect(), results(py, outcome)))
}
