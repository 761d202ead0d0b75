//! Binding of the statistics of quantisation.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use trn3_numerics::MxErrors;

use crate::array::Input;
use crate::mx::MxInput;
use crate::mx_array::MxArray;
use crate::{arguments, door};

/// What quantization did to the values seen so far; add pieces with `update`, tensors with `merge`.
///
/// Sums are float64. With x an input value and q what its element and scale stand for:
///
/// signal-to-quantization-noise ratio (SQNR)
///     10 log10(sum x^2 / sum (x - q)^2), in decibels; infinite if no value changed.
/// relative error
///     abs(x - q) / abs(x), over the nonzero x that were not flushed (a flushed one has 1 by
///     definition, and is counted on its own).
/// saturated
///     values beyond the largest that their block can hold, abs(x) > largest element * scale: clipped.
/// flushed
///     nonzero values that became zero.
/// nonfinite
///     values in blocks that hold a NaN or an infinity. Such a block becomes NaN as a whole; its values
///     count here and nowhere else.
///
/// >>> import ml_dtypes
/// >>> import numpy as np
/// >>> from trn3.checkpoint import ErrorStatistics
/// >>> from trn3.numerics import quantize_mx
/// >>> x = np.linspace(1, 2, 32, dtype=np.float32)
/// >>> statistics = ErrorStatistics()
/// >>> statistics.update(x, quantize_mx(x, ml_dtypes.float8_e4m3fn), largest=448.0)
/// >>> statistics.num_values, statistics.num_saturated, statistics.num_flushed
/// (32, 0, 0)
/// >>> statistics.max_relative_error <= 1 / 16
/// True
#[pyclass(module = "trn3.checkpoint", eq)]
#[derive(PartialEq)]
pub(crate) struct ErrorStatistics(MxErrors);

#[pymethods]
impl ErrorStatistics {
    #[new]
    #[pyo3(signature = (
        num_values=0, num_saturated=0, num_flushed=0, num_nonfinite=0, signal=0.0, noise=0.0, max_relative_error=0.0,
        histogram=None
    ))]
    fn new(
        num_values: u64,
        num_saturated: u64,
        num_flushed: u64,
        num_nonfinite: u64,
        signal: f64,
        noise: f64,
        max_relative_error: f64,
        histogram: Option<PyReadonlyArray1<'_, i64>>,
    ) -> PyResult<Self> {
        let histogram = histogram.map(|held| held.as_slice().map(<[i64]>::to_vec)).transpose()?;
        Ok(Self(MxErrors {
            values: num_values,
            saturated: num_saturated,
            flushed: num_flushed,
            nonfinite: num_nonfinite,
            signal,
            noise,
            max_relative_error,
            histogram,
        }))
    }

    /// Values.
    #[getter]
    fn num_values(&self) -> u64 {
        self.0.values
    }

    /// Clipped ones.
    #[getter]
    fn num_saturated(&self) -> u64 {
        self.0.saturated
    }

    /// Nonzero ones that became zero.
    #[getter]
    fn num_flushed(&self) -> u64 {
        self.0.flushed
    }

    /// Those in blocks that became NaN.
    #[getter]
    fn num_nonfinite(&self) -> u64 {
        self.0.nonfinite
    }

    /// Sum of x^2.
    #[getter]
    fn signal(&self) -> f64 {
        self.0.signal
    }

    /// Sum of (x - q)^2.
    #[getter]
    fn noise(&self) -> f64 {
        self.0.noise
    }

    /// The largest relative error.
    #[getter]
    fn max_relative_error(&self) -> f64 {
        self.0.max_relative_error
    }

    /// Errors as parts of the largest magnitude of their block, by bin; None if none were counted.
    #[getter]
    fn histogram<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<i64>>> {
        self.0.histogram.as_ref().map(|bins| PyArray1::from_slice(py, bins))
    }

    /// The ratio of signal to noise in decibels; infinite without noise, NaN without values.
    #[getter]
    fn sqnr_db(&self) -> f64 {
        self.0.sqnr_db()
    }

    /// Add a piece.
    ///
    /// Parameters
    /// ----------
    /// x
    ///     What was quantized: float32, bfloat16 or float16.
    /// quantized
    ///     The result, of x's shape.
    /// largest
    ///     The largest finite element of its dtype.
    /// with_histogram
    ///     Whether to count errors, as parts of the largest magnitude of their block, too.
    #[pyo3(signature = (x, quantized, *, largest, with_histogram=false))]
    fn update(
        &mut self,
        x: &Bound<'_, PyAny>,
        quantized: &Bound<'_, PyAny>,
        largest: f64,
        with_histogram: bool,
    ) -> PyResult<()> {
        let py = x.py();
        let parts = arguments::class::<MxArray>("quantized", "MXArray", quantized)?.get().parts(py);
        let x = Input::new("x", x, "float32, float16, bfloat16")?;
        let quantized = MxInput::new(["quantized.elements", "quantized.scales"], &parts)?;
        let (x, quantized, errors) = (x.view()?, quantized.view()?, &mut self.0);
        door::run(py, || errors.add(&x, &quantized, largest, with_histogram))
    }

    /// Add what another has gathered.
    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let MxErrors { values, saturated, flushed, nonfinite, signal, noise, max_relative_error, .. } = &self.0;
        let real = |number: &f64| Ok::<_, PyErr>(number.into_bound_py_any(py)?.repr()?.to_string());
        Ok(format!(
            "ErrorStatistics(num_values={values}, num_saturated={saturated}, num_flushed={flushed}, \
             num_nonfinite={nonfinite}, signal={}, noise={}, max_relative_error={})",
            real(signal)?,
            real(noise)?,
            real(max_relative_error)?
        ))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let (py, held) = (slf.py(), slf.borrow());
        let MxErrors { values, saturated, flushed, nonfinite, signal, noise, max_relative_error, .. } = held.0;
        let parts = (values, saturated, flushed, nonfinite, signal, noise, max_relative_error, held.histogram(py));
        Ok((slf.get_type().into_any().unbind(), parts.into_py_any(py)?))
    }
}
