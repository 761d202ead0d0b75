//! Scalar registers of a sequencer.

use std::sync::Arc;

use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use trn3_machine::core::new_register;
use trn3_machine::view::Register;

use crate::machine::hooks::hook;

/// A 32-bit scalar register; what a dynamic loop yields is one that the kernel may not write.
#[pyclass(frozen, module = "trn3._trn3", name = "VirtualRegister", subclass)]
pub(crate) struct PyRegister {
    pub(crate) register: Arc<Register>,
}

impl PyRegister {
    pub(crate) fn value(&self) -> Option<i64> {
        self.register.value.lock().map_or(None, |value| *value)
    }
}

#[pymethods]
impl PyRegister {
    #[new]
    #[pyo3(signature = (state=None, frozen=false))]
    fn new(state: Option<i64>, frozen: bool) -> Self {
        Self { register: new_register(frozen, state) }
    }

    /// Whether the kernel may not write it.
    #[getter]
    fn frozen(&self) -> bool {
        self.register.frozen
    }

    /// What it holds, or None before the first write.
    #[getter]
    fn state(&self) -> Option<i64> {
        self.value()
    }

    /// Sets the value without an instruction: loops do.
    fn set(&self, value: i64) -> PyResult<()> {
        let mut state =
            self.register.value.lock().map_err(|_| PyRuntimeError::new_err("a register's lock is poisoned"))?;
        *state = Some(value);
        Ok(())
    }

    /// Refuses to be written if it is a loop's own.
    fn check_writable(&self) -> PyResult<()> {
        if self.register.frozen {
            return Err(PyAssertionError::new_err("a dynamic loop's register may not be written by the kernel"));
        }
        Ok(())
    }

    /// In a kernel the front end may refuse it: newer releases of its language do.
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        if let Some(refuse) = hook(py, "register_truth")? {
            refuse.call0()?;
        }
        match self.value() {
            Some(value) => Ok(value != 0),
            None => Err(PyRuntimeError::new_err("the register is read before anything was written to it")),
        }
    }

    fn __int__(&self) -> PyResult<i64> {
        Err(PyTypeError::new_err(
            "a register has no value while a kernel is compiled: use it as an offset, in nl.dynamic_range or in while",
        ))
    }

    fn __repr__(&self) -> String {
        match self.value() {
            Some(value) => format!("VirtualRegister({value})"),
            None => "VirtualRegister(uninitialized)".to_owned(),
        }
    }
}
