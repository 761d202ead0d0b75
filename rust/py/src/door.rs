//! The one door between Python and the crates: lets go of the interpreter, listens for signals, maps what went wrong.

use std::any::Any;
use std::cell::RefCell;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use trn3_numerics::with_interrupt_check;

thread_local! {
    /// What a signal handler raised while the core was at work on this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// The exception that made the call stop.
pub(crate) fn raised() -> Option<PyErr> {
    RAISED.take()
}

/// What the interpreter raised when work called it: the work stops, and it is raised where the work was asked for.
pub(crate) fn raise(raised: PyErr) -> trn3_numerics::Error {
    RAISED.replace(Some(raised));
    trn3_numerics::Error::Interrupted
}

/// An error of one of the crates.
pub(crate) trait Fault {
    /// The exception that it is to Python; `line` is the kernel's, empty where there is none.
    fn exception(self, line: &str) -> PyErr;
}

impl Fault for Infallible {
    fn exception(self, _: &str) -> PyErr {
        match self {}
    }
}

/// Why work has no result.
pub(crate) enum Failure<E> {
    /// It was refused, or interrupted.
    Fault(E),
    /// It panicked, which is a defect of ours.
    Defect(Box<dyn Any + Send>),
    /// A signal handler raised while it ran.
    Raised(PyErr),
}

impl<E: Fault> Failure<E> {
    /// The exception, on the kernel's line where there is one.
    pub(crate) fn exception(self, line: &str) -> PyErr {
        match self {
            Failure::Fault(error) => error.exception(line),
            Failure::Defect(panic) => defect(&*panic, line),
            Failure::Raised(raised) => raised,
        }
    }
}

/// Runs `work` detached from the interpreter. Signals are looked at about fifty times a second; an exception that a
/// handler raises (Ctrl-C's KeyboardInterrupt) stops the work and is raised here.
pub(crate) fn run<R: Send, E: Fault + Send>(py: Python<'_>, work: impl FnOnce() -> Result<R, E> + Send) -> PyResult<R> {
    detached(py, work).map_err(|failure| failure.exception(""))
}

/// As [`run`], for work that cannot be refused; what it returns may say what went wrong.
pub(crate) fn compute<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    run(py, || Ok::<R, Infallible>(work()))
}

/// As [`run`], for callers that know the line.
pub(crate) fn detached<R: Send, E: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<R, E> + Send,
) -> Result<R, Failure<E>> {
    let result = py.detach(|| attached(|| with_interrupt_check(signal_raised, work)));
    // Whatever became of the work since.
    raised().map_or(result, |raised| Err(Failure::Raised(raised)))
}

/// Runs `work` that is over before anybody could wait for it: letting go of the interpreter would take longer.
pub(crate) fn attached<R, E>(work: impl FnOnce() -> Result<R, E>) -> Result<R, Failure<E>> {
    // What the work borrows is not looked at again after a panic: outputs are dropped or said to be unspecified.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(Failure::Fault),
        Err(panic) => Err(Failure::Defect(panic)),
    }
}

fn signal_raised() -> bool {
    let outcome = Python::try_attach(|py| py.check_signals().map_err(|raised| RAISED.replace(Some(raised))).is_err());
    // No interpreter to attach to means that it is shutting down: nobody waits for the result.
    outcome.unwrap_or(true)
}

fn defect(panic: &(dyn Any + Send), line: &str) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic without a message");
    let place = if line.is_empty() { String::new() } else { format!("{line}: ") };
    PyRuntimeError::new_err(format!("{place}defect in trn3, please report it: {text}"))
}
