//! Binding of `cast`.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use trn3_numerics::CastOptions;

use crate::array::{Input, Output};
use crate::draws::Rng;
use crate::{arguments, door, dtype};

const SOURCES: &str = "float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn";
const DESTINATIONS: &str =
    "float32, tfloat32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn";

#[pyfunction]
#[pyo3(signature = (x, dtype, rounding, overflow, rng, out, /))]
pub(crate) fn cast<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    rounding: &Bound<'py, PyAny>,
    overflow: &Bound<'py, PyAny>,
    rng: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = x.py();
    let x = Input::new("x", x, SOURCES)?;
    let format = dtype::parse("dtype", dtype, DESTINATIONS)?;
    let options = CastOptions { rounding: arguments::rounding(rounding)?, overflow: arguments::overflow(overflow)? };
    let mut rng = Rng::new(rng, options.rounding, x.shape())?;
    let (mut output, elements) = Output::elementwise("out", out, dtype::descr_of(py, format)?, x, &mut rng.held())?;
    let (source, destination, draws) = (elements.source()?, output.array_mut(format)?, rng.source());
    door::run(py, || draws.with(|draws| trn3_numerics::cast(&source, destination, options, draws)))?;
    Ok(output.into_array())
}
