//! Binding of `activation`.

use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_numerics::Activation;

use crate::array::{Input, Output};
use crate::{arguments, door, dtype};

const SOURCES: &str = "float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn";
const DESTINATIONS: &str =
    "float32, tfloat32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn";

#[pyfunction]
#[pyo3(signature = (x, function, parameter, out_dtype, out, /))]
pub(crate) fn activation<'py>(
    x: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    parameter: &Bound<'py, PyAny>,
    out_dtype: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = x.py();
    let x = Input::new("x", x, SOURCES)?;
    let function = arguments::function(function)?;
    let parameter = arguments::float32("parameter", parameter)?;
    if parameter != 0.0 && function != Activation::Prelu {
        return Err(PyValueError::new_err(format!("parameter is {parameter}; only function='prelu' has one")));
    }
    let format = out_dtype.map_or(Ok(x.format()), |dtype| dtype::parse("out_dtype", dtype, DESTINATIONS))?;
    let (mut output, elements) = Output::elementwise("out", out, dtype::descr_of(py, format)?, x, &mut [])?;
    let (source, destination) = (elements.source()?, output.array_mut(format)?);
    door::run(py, || trn3_numerics::activation(&source, function, parameter, destination))?;
    Ok(output.into_array())
}
