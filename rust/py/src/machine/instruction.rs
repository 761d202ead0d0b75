//! What a call of an instruction returns: a handle to order others after it.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::machine::core::PyCore;
use crate::machine::hooks::hook;

/// An issued instruction.
#[pyclass(frozen, module = "trn3._trn3", name = "NkiInstruction")]
pub(crate) struct PyInstruction {
    pub(crate) core: Py<PyCore>,
    pub(crate) id: u32,
}

#[pymethods]
impl PyInstruction {
    /// Number in program order.
    #[getter]
    fn id(&self) -> u32 {
        self.id
    }

    /// Lets this instruction wait until the given ones have finished, beyond what data demands; of a `kind` that the
    /// front end knows as a hint, only the order in which they were issued counts.
    #[pyo3(signature = (*producers, kind=None))]
    fn depends_on(
        slf: Bound<'_, Self>,
        producers: &Bound<'_, PyTuple>,
        kind: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Self>> {
        let this = slf.get();
        let waits = match hook(slf.py(), "dependency")? {
            Some(waits) => waits.call1((kind,))?.extract()?,
            None => true,
        };
        for producer in producers.iter() {
            let producer = producer.cast::<PyInstruction>()?.get().id;
            if waits || producer >= this.id {
                this.core.bind(slf.py()).get().order(this.id, producer)?;
            }
        }
        Ok(slf.unbind())
    }

    fn __repr__(&self) -> String {
        format!("NkiInstruction({})", self.id)
    }
}
