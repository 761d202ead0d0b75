//! What a front end registers with the machine.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Objects of the front end that attributes return, and its functions that operators call: `dtype:NAME`,
/// `buffer:NAME`, `setitem`, `add`, `repr` and so on.
static HOOKS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// Registers the front end's objects and functions; returns the dict that holds them.
#[pyfunction]
pub(crate) fn hooks(py: Python<'_>) -> Py<PyDict> {
    HOOKS.get_or_init(py, || PyDict::new(py).unbind()).clone_ref(py)
}

pub(crate) fn hook<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    HOOKS.get_or_init(py, || PyDict::new(py).unbind()).bind(py).get_item(name)
}
