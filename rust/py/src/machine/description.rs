//! A machine's description beside its cores.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use trn3_machine::arch::ArchSpec;

/// What a machine is described by: read when somebody asks, whatever its cores are at.
#[pyclass(frozen, module = "trn3._trn3", name = "MachineDescription")]
pub(crate) struct PyDescription {
    pub(crate) arch: Arc<ArchSpec>,
}

#[pymethods]
impl PyDescription {
    /// Values by key.
    pub(crate) fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for entry in self.arch.entries() {
            values.set_item(&entry.key, entry.value)?;
        }
        Ok(values)
    }

    /// The most cores that a logical core has.
    #[getter]
    fn max_lnc(&self) -> u64 {
        self.arch.max_lnc
    }
}
