//! Kernels that graphs call, as objects of Python.

use std::fmt;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;
use trn3_graph::{GraphKernel, Result, Tensor, TensorType};
use trn3_machine::time::Picos;

use crate::door::raise;
use crate::graph_tensor::{array, tensor};

/// An object with a name, that is called with arrays, and says how long its own run takes.
struct PythonKernel {
    name: String,
    object: Py<PyAny>,
}

impl fmt::Debug for PythonKernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PythonKernel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PythonKernel {
    /// Runs something in the interpreter; what it raises is raised where the graph was run.
    fn in_python<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
        Ok(Python::attach(work).map_err(raise)?)
    }
}

impl GraphKernel for PythonKernel {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&self, operands: &[&Tensor], _: &[TensorType]) -> Result<Vec<Tensor>> {
        Self::in_python(|py| {
            let arrays = operands.iter().map(|operand| array(py, operand)).collect::<PyResult<Vec<_>>>()?;
            let made: Vec<Bound<'_, PyAny>> = self.object.bind(py).call1((PyList::new(py, arrays)?,))?.extract()?;
            made.iter().enumerate().map(|(place, array)| tensor("result", place, array)).collect()
        })
    }

    fn time(&self, operands: &[TensorType]) -> Result<Picos> {
        let kinds: Vec<(&str, &[usize])> = operands.iter().map(|kind| (kind.dtype.name(), &kind.shape[..])).collect();
        let microseconds: f64 =
            Self::in_python(|py| self.object.bind(py).call_method1("latency_us", (kinds,))?.extract())?;
        Ok(Picos::from_nanoseconds(1e3 * microseconds))
    }
}

/// The kernel that an object is.
pub(crate) fn kernel_of(object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn GraphKernel>> {
    let name = object.getattr("name")?.extract()?;
    Ok(Arc::new(PythonKernel { name, object: object.clone().unbind() }))
}
