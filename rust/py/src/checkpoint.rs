//! Binding of safetensors files, and of what quantising them does.

use std::path::PathBuf;

use numpy::{PyArray1, PyArrayMethods};
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use trn3_checkpoint::{CheckpointFile, Error};
use trn3_numerics::{HISTOGRAM_BINS, HISTOGRAM_LIMIT};

use crate::door;
use crate::mx_errors::ErrorStatistics;

create_exception!(
    trn3.checkpoint,
    CheckpointError,
    PyValueError,
    "A file is not the checkpoint it claims to be, or cannot be handled; the text says how."
);

/// A checked safetensors file, open for reading by range.
#[pyclass(frozen, module = "trn3._trn3.checkpoint")]
struct SafetensorsFile {
    path: PathBuf,
    file: CheckpointFile,
}

#[pymethods]
impl SafetensorsFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = door::compute(py, || CheckpointFile::open(&path))?;
        match opened {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(exception(py, &path, error)),
        }
    }

    /// How long the file is, in bytes.
    #[getter]
    fn num_bytes(&self) -> u64 {
        self.file.num_bytes()
    }

    /// Keys and texts of `__metadata__`, in the order of the file.
    fn metadata(&self) -> Vec<(String, String)> {
        self.file.header().metadata.clone()
    }

    /// Name, dtype, shape, first byte and the byte after the last of each tensor, in the order of their bytes.
    fn tensors(&self) -> Vec<(String, String, Vec<usize>, u64, u64)> {
        let entries = self.file.header().tensors.iter().cloned();
        entries.map(|each| (each.name, each.dtype, each.shape, each.begin, each.end)).collect()
    }

    /// Reads into an array from a byte of the data on; errors call what is read `place`.
    fn read(&self, py: Python<'_>, start: u64, into: &Bound<'_, PyArray1<u8>>, place: &str) -> PyResult<()> {
        let mut into = into.try_readwrite()?;
        let bytes = into.as_slice_mut()?;
        door::compute(py, || self.file.read(start, bytes, place))?.map_err(|error| exception(py, &self.path, error))
    }
}

/// The exception of an error; the only place where classes are chosen.
fn exception(py: Python<'_>, path: &std::path::Path, error: Error) -> PyErr {
    match error {
        Error::Refused(problem) => CheckpointError::new_err(format!("{}: {problem}", path.display())),
        Error::Io(error) => {
            let number = error.raw_os_error();
            let text = number.and_then(|number| py.import("os").ok()?.call_method1("strerror", (number,)).ok());
            let text = text.map_or_else(|| error.to_string(), |text| text.to_string());
            PyOSError::new_err((number, text, path.to_owned()))
        }
    }
}

/// Adds the submodule `checkpoint`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "checkpoint")?;
    module.add_class::<SafetensorsFile>()?;
    module.add_class::<ErrorStatistics>()?;
    module.add("HISTOGRAM_BINS", HISTOGRAM_BINS)?;
    module.add("HISTOGRAM_LIMIT", HISTOGRAM_LIMIT)?;
    module.add("CheckpointError", py.get_type::<CheckpointError>())?;
    parent.add_submodule(&module)?;
    // Submodules made in code are importable by name only once the interpreter knows them.
    py.import("sys")?.getattr("modules")?.set_item("trn3._trn3.checkpoint", &module)
}
