//! The class of tensors; what can be done with one is in [`crate::machine::tensor`].

use pyo3::prelude::*;
use trn3_machine::view::View;

/// A tensor in SBUF, PSUM or HBM, or a view of one: nothing is copied.
#[pyclass(frozen, module = "trn3._trn3", name = "NkiTensor")]
pub(crate) struct PyTensor {
    pub(crate) view: View,
}
