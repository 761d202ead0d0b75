//! The one door between Python and the core: lets go of the interpreter, listens for signals, maps what went wrong.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use trn3_numerics::{Result, with_interrupt_check};

use crate::error;

/// Runs `work` detached from the interpreter. Signals are looked at about fifty times a second; an exception that a
/// handler raises (Ctrl-C's KeyboardInterrupt) stops the work and is raised here.
pub(crate) fn run<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R> + Send) -> PyResult<R> {
    match py.detach(|| guarded(work)) {
        Ok(result) => result.map_err(error::exception),
        Err(panic) => Err(defect(&*panic)),
    }
}

fn guarded<R>(work: impl FnOnce() -> Result<R>) -> std::thread::Result<Result<R>> {
    // What the work borrows is not looked at again after a panic: outputs are dropped or said to be unspecified.
    catch_unwind(AssertUnwindSafe(|| with_interrupt_check(signal_raised, work)))
}

fn signal_raised() -> bool {
    let outcome = Python::try_attach(|py| py.check_signals().map_err(error::keep).is_err());
    // No interpreter to attach to means that it is shutting down: nobody waits for the result.
    outcome.unwrap_or(true)
}

fn defect(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    PyRuntimeError::new_err(format!(
        "defect in trn3, please report it: {}",
        text.unwrap_or("a panic without a message")
    ))
}
