//! Errors of systems as Python exceptions, and nothing else.

use pyo3::create_exception;
use pyo3::exceptions::{PyConnectionError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use trn3_system::Error;

use crate::door::Fault;

create_exception!(
    trn3.interchange.chakra,
    TraceError,
    PyValueError,
    "A trace is wrong: its file, or what its nodes say."
);
create_exception!(trn3, UnreachableError, PyConnectionError, "No way leads from one chip to the other.");
create_exception!(
    trn3,
    DoesNotFitError,
    PyMemoryError,
    "A job needs more memory than there is; the message has the table."
);

/// Adds the exception classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("TraceError", py.get_type::<TraceError>())?;
    module.add("UnreachableError", py.get_type::<UnreachableError>())?;
    module.add("DoesNotFitError", py.get_type::<DoesNotFitError>())
}

impl Fault for Error {
    fn exception(self, _line: &str) -> PyErr {
        exception(self)
    }
}

/// The exception of an error; the only place where classes are chosen.
pub(crate) fn exception(error: Error) -> PyErr {
    match error {
        Error::Numerics(error) => crate::error::exception(error),
        Error::Unreachable(text) => UnreachableError::new_err(text),
        Error::Trace(text) => TraceError::new_err(text),
        Error::Memory(text) => DoesNotFitError::new_err(text),
        other => PyValueError::new_err(other.to_string()),
    }
}
