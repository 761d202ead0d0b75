//! Thread count, SIMD level, memory that is kept.

use pyo3::prelude::*;

use crate::error::exception;
use crate::{arguments, door};

#[pyfunction]
#[pyo3(signature = (n, /))]
pub(crate) fn set_num_threads(py: Python<'_>, n: &Bound<'_, PyAny>) -> PyResult<()> {
    let threads = arguments::integer("n", n, 1, trn3_numerics::most_threads() as i128)?;
    // Starting and joining threads takes a while, and the old pool may be in another call's use.
    door::run(py, || trn3_numerics::set_num_threads(threads as usize))
}

#[pyfunction]
pub(crate) fn get_num_threads(py: Python<'_>) -> PyResult<usize> {
    door::run(py, trn3_numerics::num_threads)
}

#[pyfunction]
pub(crate) fn simd_level() -> PyResult<&'static str> {
    trn3_numerics::simd_level().map(trn3_numerics::Level::name).map_err(exception)
}

#[pyfunction]
pub(crate) fn kept_bytes() -> PyResult<usize> {
    trn3_numerics::kept_bytes().map_err(exception)
}
