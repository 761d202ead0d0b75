//! Binding of `cast`.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use trn3_numerics::{CastOptions, Overflow, Rounding};

use crate::arguments::Given;
use crate::array::{Input, Output};
use crate::draws::Rng;
use crate::{arguments, door, dtype};

const SOURCES: &str = "float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn";
const DESTINATIONS: &str =
    "float32, tfloat32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn";

/// Round every element to another format.
///
/// Parameters
/// ----------
/// x : array, any shape
///     float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4 or
///     float4_e2m1fn.
/// dtype : dtype
///     One of the same types, or `tfloat32`, whose arrays are float32 with the low 13 mantissa bits
///     zero.
/// rounding : {"nearest", "zero", "stochastic"}, optional
///     ``"nearest"`` rounds ties to even; ``"zero"`` truncates and never overflows a finite value.
///     ``"stochastic"`` takes one 32-bit draw ``r`` an element, in C order: where |x| lies between
///     the neighbours ``lo <= |x| < hi`` and ``d = floor((|x| - lo) / (hi - lo) * 2**32)``, the
///     result is ``hi`` if ``d + r >= 2**32``, else ``lo``. A value that `dtype` holds never moves.
/// overflow : {"ieee", "saturate"}, optional
///     What becomes of magnitudes beyond the largest finite value (above which the next step leads
///     to the would-be next value). ``"ieee"``: infinity where the type has one, else NaN;
///     ``"saturate"``: the largest finite value, for infinities too. float4_e2m1fn has neither
///     infinity nor NaN and always saturates.
/// rng : Xorwow, or uint32 array of x's shape, optional
///     The draws, for ``rounding="stochastic"`` and only for it. Generators of L lanes give N
///     elements, in C order, the draws ``rng.uint32(ceil(N / L)).ravel()[:N]``: with 128 lanes, a
///     lane is a partition of a [128, F] tile.
/// out : array, optional
///     Where to write the result: x's shape, `dtype`, C-contiguous. It may be exactly `x`.
///
/// Returns
/// -------
/// array
///     x's shape, of type `dtype`; `out` itself if it was given.
///
/// Raises
/// ------
/// TypeError
///     If `x` or `dtype` is none of these types. float64 and integers must be converted first:
///     going through float32 silently would round twice.
/// ValueError
///     If an option is unknown, `rng` is missing with stochastic rounding or present without it, or
///     `rng` or `out` has another shape, layout or overlap than allowed.
///
/// Notes
/// -----
/// Model choices: subnormals are kept; NaN becomes +0 in float4_e2m1fn. As `ml_dtypes` does it,
/// magnitudes that round beyond 448 become NaN in float8_e4m3fn under ``overflow="ieee"``.
///
/// Examples
/// --------
/// >>> import ml_dtypes
/// >>> import numpy as np
/// >>> from trn3.numerics import Xorwow, cast
/// >>> x = np.array([1.0, 1.06, 3.0e4, -7.0], dtype=np.float32)
/// >>> print(cast(x, ml_dtypes.float8_e4m3fn, overflow="saturate"))
/// [1 1 448 -7]
/// >>> draws = np.array([0, 2**32 - 1, 0, 0], dtype=np.uint32)
/// >>> print(cast(x, ml_dtypes.float8_e5m2, rounding="stochastic", rng=draws))
/// [1 1.25 28672 -7]
/// >>> rng = Xorwow.seed(2026)
/// >>> thirds = np.full(10_000, 1 / 3, dtype=np.float32)
/// >>> rounded = cast(thirds, ml_dtypes.float8_e3m4, rounding="stochastic", rng=rng)
/// >>> print(np.unique(rounded), rounded.astype(np.float32).mean().round(3))
/// [0.328125 0.34375] 0.333
#[pyfunction]
#[pyo3(
    signature = (x, dtype, *, rounding=Given::NOTHING, overflow=Given::NOTHING, rng=None, out=None),
    text_signature = "(x, dtype, *, rounding='nearest', overflow='ieee', rng=None, out=None)"
)]
pub(crate) fn cast<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    rounding: Given<'py>,
    overflow: Given<'py>,
    rng: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = x.py();
    let x = Input::new("x", x, SOURCES)?;
    let format = dtype::parse("dtype", dtype, DESTINATIONS)?;
    let options = CastOptions {
        rounding: rounding.read(arguments::rounding, Rounding::Nearest)?,
        overflow: overflow.read(arguments::overflow, Overflow::Ieee)?,
    };
    let mut rng = Rng::new(rng, options.rounding, x.shape())?;
    let (mut output, elements) = Output::elementwise("out", out, dtype::descr_of(py, format)?, x, &mut rng.held())?;
    let (source, destination, draws) = (elements.source()?, output.array_mut(format)?, rng.source());
    door::run(py, || draws.with(|draws| trn3_numerics::cast(&source, destination, options, draws)))?;
    Ok(output.into_array())
}
