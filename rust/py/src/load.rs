//! Bindings of serving under load: requests come as mappings, answers leave as dictionaries and lists.

use std::sync::Mutex;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use trn3_planner::load::{self, LivePrompt, LiveRequest, LoadRequest, SizeRequest};

use crate::door;
use crate::value::{from_python, to_python};

/// Adds the submodule `load`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "load")?;
    module.add_function(wrap_pyfunction!(serve, &module)?)?;
    module.add_function(wrap_pyfunction!(size, &module)?)?;
    module.add_class::<LiveService>()?;
    parent.add_submodule(&module)?;
    // Submodules made in code are importable by name only once the interpreter knows them.
    py.import("sys")?.getattr("modules")?.set_item("trn3._trn3.load", &module)
}

/// Traffic served.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn serve<'py>(request: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let asked: LoadRequest = from_python("request", request)?;
    to_python(request.py(), &door::run(request.py(), || asked.serve())?)
}

/// The least machines for a target.
#[pyfunction]
#[pyo3(signature = (request, /))]
fn size<'py>(request: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let asked: SizeRequest = from_python("request", request)?;
    to_python(request.py(), &door::run(request.py(), || asked.size())?)
}

/// A prompt: its tokens, or how many there are.
#[derive(FromPyObject)]
enum Prompt {
    Count(u32),
    Tokens(Vec<u32>),
}

/// A service whose requests come from outside, in simulated seconds.
#[pyclass(frozen, module = "trn3._trn3.load")]
struct LiveService(Mutex<load::LiveService>);

impl LiveService {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut load::LiveService) -> trn3_system::Result<R> + Send,
    ) -> PyResult<R> {
        door::run(py, || work(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)))
    }
}

#[pymethods]
impl LiveService {
    #[new]
    #[pyo3(signature = (request, /))]
    fn new(request: &Bound<'_, PyAny>) -> PyResult<Self> {
        let asked: LiveRequest = from_python("request", request)?;
        Ok(Self(Mutex::new(door::run(request.py(), || load::LiveService::new(&asked))?)))
    }

    /// The model's name.
    #[getter]
    fn model(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |service| Ok(service.model.clone()))
    }

    /// Tokens of a sequence at most, prompt and answer.
    #[getter]
    fn longest_context(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |service| Ok(service.longest))
    }

    /// Every number that nobody documents.
    #[getter]
    fn assumptions(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |service| Ok(service.assumptions.clone()))
    }

    /// Simulated seconds since the beginning.
    #[getter]
    fn now(&self, py: Python<'_>) -> PyResult<f64> {
        self.with(py, |service| Ok(service.now()))
    }

    /// Send a request and return its number; OverflowError if the queue is full.
    #[pyo3(signature = (at, prompt, output, priority = 0))]
    fn submit(&self, py: Python<'_>, at: f64, prompt: Prompt, output: u32, priority: i32) -> PyResult<u64> {
        let sent = self.with(py, |service| match &prompt {
            Prompt::Count(count) => service.submit(at, LivePrompt::Count(*count), output, priority),
            Prompt::Tokens(tokens) => service.submit(at, LivePrompt::Tokens(tokens), output, priority),
        })?;
        sent.ok_or_else(|| PyOverflowError::new_err("the queue of the service is full"))
    }

    /// A client has left.
    fn cancel(&self, py: Python<'_>, number: u64, at: f64) -> PyResult<()> {
        self.with(py, |service| {
            service.cancel(number, at);
            Ok(())
        })
    }

    /// Go on until a time; return request, time, tokens, and whether they are its last.
    fn advance(&self, py: Python<'_>, until: f64) -> PyResult<Vec<(u64, f64, u32, bool)>> {
        let tokens = self.with(py, |service| service.advance(until))?;
        Ok(tokens.into_iter().map(|one| (one.request, one.at, one.tokens, one.finished)).collect())
    }

    /// When the next thing happens if nothing else comes.
    fn next_event(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.with(py, |service| Ok(service.next_event()))
    }

    /// How full it is.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let state = self.with(py, |service| Ok(service.state()))?;
        to_python(py, &state)
    }
}
