//! Bindings of Kubernetes' objects: bodies come as mappings with the name of their source, results leave as dictionaries
//! and lists.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde_json::Value;
use trn3_k8s::{Document, Error, Result, SliceOptions};

use crate::door::{self, Fault};
use crate::value::{from_python, plain, to_python};

create_exception!(
    trn3,
    RefusalError,
    PyValueError,
    "Claim, request and text of what is refused; whether a selector is."
);

/// Adds the submodule `k8s`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "k8s")?;
    module.add("ASSUMPTIONS", PyTuple::new(py, trn3_k8s::ASSUMPTIONS)?)?;
    module.add("DEFAULT_DRIVER", trn3_k8s::DEFAULT_DRIVER)?;
    module.add("NEURON_DRIVER_VERSION", trn3_k8s::NEURON_DRIVER_VERSION)?;
    module.add("RefusalError", py.get_type::<RefusalError>())?;
    module.add_function(wrap_pyfunction!(resource_slices, &module)?)?;
    module.add_function(wrap_pyfunction!(pool_slices, &module)?)?;
    module.add_function(wrap_pyfunction!(device_class, &module)?)?;
    module.add_function(wrap_pyfunction!(documents, &module)?)?;
    module.add_function(wrap_pyfunction!(allocate, &module)?)?;
    module.add_function(wrap_pyfunction!(fragmentation, &module)?)?;
    parent.add_submodule(&module)?;
    // Submodules made in code are importable by name only once the interpreter knows them.
    py.import("sys")?.getattr("modules")?.set_item("trn3._trn3.k8s", &module)
}

impl Fault for Error {
    fn exception(self, _line: &str) -> PyErr {
        match self {
            Error::Unmet { claim, request, reason } => RefusalError::new_err((claim, request, reason, false)),
            Error::Selector(text) => RefusalError::new_err(("", "", text, true)),
            Error::Interrupted => crate::error::exception(trn3_numerics::Error::Interrupted),
            other => RefusalError::new_err(("", "", other.to_string(), false)),
        }
    }
}

type Answer<'py> = PyResult<Bound<'py, PyAny>>;

/// Objects of one source.
type Sourced<'py> = (String, Bound<'py, PyAny>);

/// The ResourceSlices of a system; options are the fields of `SliceOptions`.
#[pyfunction]
#[pyo3(signature = (system, options, /))]
fn resource_slices<'py>(system: &str, options: &Bound<'py, PyAny>) -> Answer<'py> {
    let asked: SliceOptions = from_python("options", options)?;
    to_python(options.py(), &door::run(options.py(), || trn3_k8s::resource_slices(system, &asked))?)
}

/// The devices of a pool over as few slices as may be.
#[pyfunction]
#[pyo3(signature = (pool, devices, driver, node, generation, /))]
fn pool_slices<'py>(pool: &str, devices: &Bound<'py, PyAny>, driver: &str, node: &str, generation: i64) -> Answer<'py> {
    let bodies: Vec<Value> = from_python("devices", devices)?;
    let slices = door::run(devices.py(), || trn3_k8s::pool_slices(pool, bodies, driver, node, generation))?;
    to_python(devices.py(), &slices)
}

/// The DeviceClass of a driver's devices.
#[pyfunction]
#[pyo3(signature = (name, driver, /))]
fn device_class<'py>(py: Python<'py>, name: &str, driver: Option<&str>) -> Answer<'py> {
    to_python(py, &door::run(py, || trn3_k8s::device_class(name, driver))?)
}

/// The objects of bodies, of which some may be lists of them; checked.
#[pyfunction]
#[pyo3(signature = (given, /))]
fn documents<'py>(py: Python<'py>, given: Vec<Sourced<'py>>) -> Answer<'py> {
    let bodies = sources(given)?;
    let read = door::run(py, || read(bodies))?;
    to_python(py, &read.into_iter().map(|document| document.body).collect::<Vec<_>>())
}

/// Claims with what they were given.
#[pyfunction]
#[pyo3(signature = (claims, inventory, allocated, /))]
fn allocate<'py>(
    py: Python<'py>,
    claims: Vec<Sourced<'py>>,
    inventory: Vec<Sourced<'py>>,
    allocated: Vec<Sourced<'py>>,
) -> Answer<'py> {
    let [claims, inventory, allocated] = [sources(claims)?, sources(inventory)?, sources(allocated)?];
    let result = door::run(py, || trn3_k8s::allocate(&read(claims)?, &read(inventory)?, &read(allocated)?))?;
    to_python(py, &result.plain())
}

/// What is free after claims that hold devices.
#[pyfunction]
#[pyo3(signature = (inventory, allocated, /))]
fn fragmentation<'py>(py: Python<'py>, inventory: Vec<Sourced<'py>>, allocated: Vec<Sourced<'py>>) -> Answer<'py> {
    let [inventory, allocated] = [sources(inventory)?, sources(allocated)?];
    to_python(py, &door::run(py, || trn3_k8s::fragmentation(&read(inventory)?, &read(allocated)?))?)
}

/// Bodies as plain data; what cannot be is refused by the name of its source.
fn sources(given: Vec<Sourced<'_>>) -> PyResult<Vec<(String, Value)>> {
    let body = |(source, body): Sourced<'_>| match plain(&source, &body) {
        Ok(body) => Ok((source, body)),
        Err(error) => Err(Error::Malformed(error.value(body.py()).to_string()).exception("")),
    };
    given.into_iter().map(body).collect()
}

fn read(bodies: Vec<(String, Value)>) -> Result<Vec<Document>> {
    let mut documents = Vec::with_capacity(bodies.len());
    for (source, body) in bodies {
        documents.extend(Document::read(source, body)?);
    }
    Ok(documents)
}
