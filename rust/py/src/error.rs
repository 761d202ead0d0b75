//! Errors of the core as Python exceptions, and nothing else.

use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use trn3_numerics::Error;

use crate::door::{Fault, raised};

/// The exception of an error; the only place where classes are chosen.
pub(crate) fn exception(error: Error) -> PyErr {
    match error {
        Error::Dtype { .. } => PyTypeError::new_err(error.to_string()),
        Error::Shape { .. } | Error::Value { .. } => PyValueError::new_err(with_tuples(&error.to_string())),
        Error::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        Error::Interrupted => raised().unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
    }
}

impl Fault for Error {
    fn exception(self, _line: &str) -> PyErr {
        exception(self)
    }
}

/// A message of the core, which prints shapes as `[2, 3]`, with shapes as Python prints them: `(2, 3)`.
fn with_tuples(message: &str) -> String {
    let mut text = String::with_capacity(message.len() + 4);
    let mut rest = message;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        match after.split_once(']') {
            Some((list, tail)) if list.chars().all(|letter| letter.is_ascii_digit() || ", ".contains(letter)) => {
                let comma = if !list.is_empty() && !list.contains(',') { "," } else { "" };
                text.extend(["(", list, comma, ")"]);
                rest = tail;
            }
            _ => {
                text.push('[');
                rest = after;
            }
        }
    }
    text + rest
}
