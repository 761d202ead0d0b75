//! Errors of the core as Python exceptions, and nothing else.

use std::cell::RefCell;

use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use trn3_numerics::Error;

thread_local! {
    /// What a signal handler raised while the core was at work on this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Keeps the exception that made a call stop, for [`exception`] to raise.
pub(crate) fn keep(raised: PyErr) {
    RAISED.replace(Some(raised));
}

/// The exception of an error; the only place where classes are chosen.
pub(crate) fn exception(error: Error) -> PyErr {
    match error {
        Error::Dtype { .. } => PyTypeError::new_err(error.to_string()),
        Error::Shape { .. } | Error::Value { .. } => PyValueError::new_err(error.to_string()),
        Error::Interrupted => RAISED.take().unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
    }
}
