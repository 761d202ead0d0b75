//! Binding of `activation`.

use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use trn3_numerics::Activation;

use crate::arguments::Given;
use crate::array::{Input, Output};
use crate::{arguments, door, dtype};

const SOURCES: &str = "float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn";
const DESTINATIONS: &str =
    "float32, tfloat32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn";

/// Names of the functions.
pub(crate) fn names(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, Activation::ALL.map(Activation::name))
}

/// Compute a function of every element, as the scalar engine does.
///
/// Parameters
/// ----------
/// x : array, any shape
///     float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4 or
///     float4_e2m1fn.
/// function : str
///     With Φ the normal distribution's cumulative function and s(x) = 1 / (1 + e⁻ˣ):
///
///     - ``"copy"``, ``"square"``, ``"abs"``, ``"sign"`` (-1, 0 or 1);
///     - ``"relu"``, and ``"prelu"``: x where x >= 0, else ``parameter`` · x;
///     - ``"sigmoid"`` s(x), ``"silu"`` x · s(x), ``"silu_dx"`` its derivative, ``"tanh"``,
///       ``"softplus"`` ln(1 + eˣ), ``"mish"`` x · tanh(softplus(x));
///     - ``"gelu"`` x · Φ(x), ``"gelu_dx"`` its derivative, ``"gelu_apprx_tanh"``
///       x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), ``"gelu_apprx_sigmoid"`` x · s(1.702 x),
///       ``"gelu_apprx_sigmoid_dx"`` the derivative of that;
///     - ``"erf"``, ``"erf_dx"`` 2/√π · exp(-x²), ``"exp"``, ``"log"``, ``"sin"``, ``"arctan"``;
///     - ``"sqrt"``, ``"rsqrt"``, ``"reciprocal"``.
/// parameter : float, optional
///     The slope of ``"prelu"``, rounded to float32. The other functions have none and refuse
///     any but 0.
/// out_dtype : dtype, optional
///     One of the types of `x`, or `tfloat32`; that of `x` if not given.
/// out : array, optional
///     Where to write the result: x's shape, `out_dtype`, C-contiguous. It may be exactly `x`.
///
/// Returns
/// -------
/// array
///     x's shape, of type `out_dtype`; `out` itself if it was given.
///
/// Raises
/// ------
/// TypeError
///     If `x`, `out_dtype`, `parameter` or `out` is of another type.
/// ValueError
///     If `function` is unknown, `parameter` is given to a function that has none, or `out` has
///     another shape, layout or overlap than allowed.
///
/// Notes
/// -----
/// The function is computed of the float32 value of each element, to float32, and the result is
/// rounded to `out_dtype` as `cast` does it (nearest, ``overflow="ieee"``). float32 results are
/// within 0.51 ulp of the true value for every float32 input (``exp`` within 0.9), tails, subnormal
/// numbers and the neighbourhoods of zeros included; those of ``copy``, ``square``, ``relu``,
/// ``prelu``, ``sqrt``, ``reciprocal``, ``sign`` and ``abs`` are correctly rounded. ``exp`` gives
/// the bits of `trn3.numerics.exp`.
///
/// Model choices: the engine's own tables are not published, so it is taken to compute the true
/// function. Of what is outside a function's domain the result is NaN; log(±0) is -inf, and
/// reciprocal and rsqrt of ±0 are infinite with that sign. sign(-0) and relu(-0) are +0,
/// prelu(-0) is -0. ``sin`` reduces no range: above π it is -(x - π) + (x - π)³/6, below -π the
/// odd mirror of that.
///
/// Results of the hardware are documented to be valid for |x| in [2⁻⁶⁴, 2⁶⁴] (``log``), [0, π]
/// (``sin``), [0, π/2] (``arctan``), [2⁻¹¹⁶, 2¹¹⁸] (``sqrt``), [2⁻⁸⁷, 2⁹⁷] (``rsqrt``) and
/// [2⁻⁴², 2⁴²] (``reciprocal``), else everywhere.
///
/// Examples
/// --------
/// >>> import ml_dtypes
/// >>> import numpy as np
/// >>> from trn3.numerics import activation
/// >>> x = np.array([-5.0, -1.0, 0.0, 1.0, 9.0], dtype=np.float32)
/// >>> print(activation(x, "gelu", out_dtype=ml_dtypes.bfloat16))
/// [-1.43051e-06 -0.158203 0 0.839844 9]
/// >>> print(activation(x, "prelu", parameter=0.25))
/// [-1.25 -0.25  0.    1.    9.  ]
/// >>> print(activation(x, "sin")[-1])
/// 27.652597
#[pyfunction]
#[pyo3(
    signature = (x, function, *, parameter=Given::NOTHING, out_dtype=None, out=None),
    text_signature = "(x, function, *, parameter=0.0, out_dtype=None, out=None)"
)]
pub(crate) fn activation<'py>(
    x: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    parameter: Given<'py>,
    out_dtype: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = x.py();
    let x = Input::new("x", x, SOURCES)?;
    let function = arguments::function(function)?;
    let parameter = parameter.read(|came| arguments::float32("parameter", came), 0.0)?;
    if parameter != 0.0 && function != Activation::Prelu {
        return Err(PyValueError::new_err(format!("parameter is {parameter}; only function='prelu' has one")));
    }
    let format = out_dtype.map_or(Ok(x.format()), |dtype| dtype::parse("out_dtype", dtype, DESTINATIONS))?;
    let (mut output, elements) = Output::elementwise("out", out, dtype::descr_of(py, format)?, x, &mut [])?;
    let (source, destination) = (elements.source()?, output.array_mut(format)?);
    door::run(py, || trn3_numerics::activation(&source, function, parameter, destination))?;
    Ok(output.into_array())
}
