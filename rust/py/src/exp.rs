//! Binding of `exp`.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use trn3_numerics::Bias;

use crate::arguments::Given;
use crate::array::{Held, Input, Output, Words, tuple};
use crate::{arguments, door, dtype};

const FORMATS: &str = "float32, bfloat16, float16";

/// The argument `bias`.
enum BiasGiven<'py> {
    Number(f32),
    Array(Input<'py>),
}

impl<'py> BiasGiven<'py> {
    fn new(came: &Bound<'py, PyAny>) -> PyResult<Self> {
        if came.cast::<PyUntypedArray>().is_ok() {
            return Ok(Self::Array(Input::new("bias", came, FORMATS)?));
        }
        Ok(Self::Number(arguments::float32("bias", came)?))
    }

    fn held(&mut self) -> Vec<&mut dyn Held<'py>> {
        match self {
            BiasGiven::Number(_) => vec![],
            BiasGiven::Array(input) => vec![input],
        }
    }

    /// One float32 for each row of an array of shape `rows` and a last axis.
    fn per_row(&self, shape: &[usize]) -> PyResult<Option<Words<'py, f32>>> {
        let BiasGiven::Array(input) = self else { return Ok(None) };
        let py = input.py();
        let (bias, rows) = (input.array(), &shape[..shape.len().saturating_sub(1)]);
        let keeps_axis = !shape.is_empty() && bias.ndim() == shape.len() && bias.shape().ends_with(&[1]);
        let without_axis = if keeps_axis { bias.call_method1("squeeze", (-1,))? } else { bias.clone().into_any() };
        let numpy = py.import("numpy")?;
        let spread = numpy.call_method1("broadcast_to", (without_axis, rows.to_vec())).map_err(|_| {
            let (came, rows) = (tuple(bias.shape()), tuple(rows));
            PyValueError::new_err(format!(
                "bias has shape {came}; it must be a number or broadcast to the rows, {rows}"
            ))
        })?;
        let narrow = numpy.call_method1("asarray", (spread, numpy::dtype::<f32>(py)))?;
        Words::new("bias", &narrow, FORMATS).map(Some)
    }
}

/// Compute e to the power of every element less a bias, and row sums if asked.
///
/// Parameters
/// ----------
/// x : array, any shape
///     float32, bfloat16 or float16.
/// bias : float or array, optional
///     What to subtract, in float32: a number (rounded to float32), or a float32, bfloat16 or
///     float16 array that broadcasts to ``x.shape[:-1]``, one value for each row; a last axis of
///     length 1, as ``keepdims=True`` leaves it, may remain.
/// out_dtype : dtype, optional
///     float32, bfloat16 or float16; that of `x` if not given.
/// accumulate : bool, optional
///     Whether to return the sums of the rows as well.
/// out : array, optional
///     Where to write the values: x's shape, `out_dtype`, C-contiguous. It may be exactly `x`.
///
/// Returns
/// -------
/// values : array
///     x's shape, of type `out_dtype`; `out` itself if it was given.
/// sums : float32 array, shape ``x.shape[:-1]``
///     With ``accumulate=True`` only: the values of each row, as rounded to `out_dtype`, added in
///     float32 in ascending order along the last axis.
///
/// Raises
/// ------
/// TypeError
///     If `x`, `bias`, `out_dtype` or `out` is of another type.
/// ValueError
///     If `bias` does not broadcast to the rows, `out` does not fit or overlaps an input in any
///     other way, or sums of an array without axes are asked for.
///
/// Notes
/// -----
/// float32 results are within 1 ulp of the true value for every float32 input, subnormal results
/// included. From 16 bits to 16 bits every result is correctly rounded; from float32 to 16 bits it
/// is the float32 result, cast. exp(-inf) is 0, exp(inf) is inf, and NaN stays NaN.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from trn3.numerics import exp
/// >>> x = np.array([[1.0, 0.0, -1.0], [5.0, 5.0, 5.0]], dtype=np.float32)
/// >>> values, sums = exp(x, bias=x.max(axis=-1), accumulate=True)
/// >>> print(values, sums)
/// [[1.         0.36787945 0.13533528]
///  [1.         1.         1.        ]] [1.5032147 3.       ]
#[pyfunction]
#[pyo3(
    signature = (x, *, bias=Given::NOTHING, out_dtype=None, accumulate=Given::NOTHING, out=None),
    text_signature = "(x, *, bias=0.0, out_dtype=None, accumulate=False, out=None)"
)]
pub(crate) fn exp<'py>(
    x: &Bound<'py, PyAny>,
    bias: Given<'py>,
    out_dtype: Option<&Bound<'py, PyAny>>,
    accumulate: Given<'py>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    let x = Input::new("x", x, FORMATS)?;
    let format = out_dtype.map_or(Ok(x.format()), |dtype| dtype::parse("out_dtype", dtype, FORMATS))?;
    let mut bias = bias.read(BiasGiven::new, BiasGiven::Number(0.0))?;
    let yes_or_no = |came: &Bound<'py, PyAny>| {
        came.extract::<bool>().map_err(|_| arguments::refused("accumulate", came, "True, False"))
    };
    let rows = match (accumulate.read(yes_or_no, false)?, x.shape()) {
        (false, _) => None,
        (true, [rows @ .., _]) => Some(rows.to_vec()),
        (true, []) => {
            return Err(PyValueError::new_err("x has shape (); accumulate=True needs at least one axis to sum along"));
        }
    };
    let shape = x.shape().to_vec();
    let (mut output, elements) = Output::elementwise("out", out, dtype::descr_of(py, format)?, x, &mut bias.held())?;
    let per_row = bias.per_row(&shape)?;
    let mut sums = rows.map(|rows| Output::allocate(numpy::dtype::<f32>(py), &rows)).transpose()?;
    {
        let (source, destination) = (elements.source()?, output.array_mut(format)?);
        let sums = sums.as_mut().map(Output::words_mut::<f32>).transpose()?;
        let bias = match (&per_row, &bias) {
            // An array without axes has no rows: its one bias is a number.
            (Some(values), _) if shape.is_empty() => Bias::Scalar(values.as_slice()[0]),
            (Some(values), _) => Bias::PerRow(values.as_slice()),
            (None, BiasGiven::Number(number)) => Bias::Scalar(*number),
            (None, BiasGiven::Array(_)) => return Err(PyTypeError::new_err("bias is no array of numbers")),
        };
        door::run(py, || trn3_numerics::exp(&source, bias, destination, sums))?;
    }
    match sums {
        Some(sums) => (output.into_array(), sums.into_array()).into_bound_py_any(py),
        None => Ok(output.into_array().into_any()),
    }
}
