//! Errors of the machine as Python exceptions, and nothing else.

use pyo3::create_exception;
use pyo3::exceptions::{
    PyAssertionError, PyIndexError, PyMemoryError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use trn3_machine::Error;

use crate::door::Fault;

create_exception!(trn3, NkiValidationError, PyAssertionError, "An instruction breaks a rule of the hardware.");
create_exception!(trn3, SbufCapacityError, PyMemoryError, "SBUF is full; the message lists the live tiles.");
create_exception!(trn3, PsumCapacityError, PyMemoryError, "PSUM is full; the message lists the live tiles.");
create_exception!(trn3, HbmCapacityError, PyMemoryError, "HBM is full.");
create_exception!(trn3, UninitializedReadError, PyRuntimeError, "strict: memory was read before it was written.");
create_exception!(trn3, SkippedValueError, PyRuntimeError, "Timing-only: control flow needs a value that was skipped.");
create_exception!(trn3, InstructionLimitError, PyRuntimeError, "A run issued more instructions than allowed.");
create_exception!(trn3, ArchError, PyValueError, "A machine description is unknown or wrong.");

impl Fault for Error {
    fn exception(self, line: &str) -> PyErr {
        located(self, line)
    }
}

/// The exception of an error that belongs to no line of a kernel.
pub(crate) fn exception(error: Error) -> PyErr {
    located(error, "")
}

/// The exception of an error, with the kernel's `file:line` in front of its message where there is one.
fn located(error: Error, line: &str) -> PyErr {
    let text = if line.is_empty() { error.to_string() } else { format!("{line}: {error}") };
    match error {
        Error::Validation { .. } => NkiValidationError::new_err(text),
        Error::Value(_) => PyValueError::new_err(text),
        Error::OutOfBounds(_) => PyIndexError::new_err(text),
        Error::Type(_) => PyTypeError::new_err(text),
        Error::SbufCapacity(_) => SbufCapacityError::new_err(text),
        Error::PsumCapacity(_) => PsumCapacityError::new_err(text),
        Error::HbmCapacity(_) => HbmCapacityError::new_err(text),
        Error::HostMemory(_) => PyMemoryError::new_err(text),
        Error::Uninitialised { .. } => UninitializedReadError::new_err(text),
        Error::Arch(_) => ArchError::new_err(text),
        Error::SkippedValue(_) => SkippedValueError::new_err(text),
        Error::InstructionLimit(_) => InstructionLimitError::new_err(text),
        Error::NotModelled(_) => PyNotImplementedError::new_err(text),
        Error::Numerics(error) => crate::error::exception(error),
    }
}

/// Adds the exception classes.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("NkiValidationError", py.get_type::<NkiValidationError>())?;
    module.add("SbufCapacityError", py.get_type::<SbufCapacityError>())?;
    module.add("PsumCapacityError", py.get_type::<PsumCapacityError>())?;
    module.add("HbmCapacityError", py.get_type::<HbmCapacityError>())?;
    module.add("UninitializedReadError", py.get_type::<UninitializedReadError>())?;
    module.add("SkippedValueError", py.get_type::<SkippedValueError>())?;
    module.add("InstructionLimitError", py.get_type::<InstructionLimitError>())?;
    module.add("ArchError", py.get_type::<ArchError>())
}
