//! Binding of `exp`.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use trn3_numerics::Bias;

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

#[pyfunction]
#[pyo3(signature = (x, bias, out_dtype, accumulate, out, /))]
pub(crate) fn exp<'py>(
    x: &Bound<'py, PyAny>,
    bias: &Bound<'py, PyAny>,
    out_dtype: Option<&Bound<'py, PyAny>>,
    accumulate: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    let x = Input::new("x", x, FORMATS)?;
    let format = out_dtype.map_or(Ok(x.format()), |dtype| dtype::parse("out_dtype", dtype, FORMATS))?;
    let mut bias = BiasGiven::new(bias)?;
    let rows = match (accumulate.extract::<bool>(), x.shape()) {
        (Ok(false), _) => None,
        (Ok(true), [rows @ .., _]) => Some(rows.to_vec()),
        (Ok(true), []) => {
            return Err(PyValueError::new_err("x has shape (); accumulate=True needs at least one axis to sum along"));
        }
        (Err(_), _) => return Err(arguments::refused("accumulate", accumulate, "True, False")),
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
