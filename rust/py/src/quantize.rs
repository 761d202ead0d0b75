//! Binding of `quantize_mx`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_numerics::{BLOCK, Draws, Format, MxOptions, Rounding, ScaleRule};

use crate::arguments::Given;
use crate::array::{Input, Output};
use crate::draws::Rng;
use crate::mx::ELEMENTS;
use crate::mx_array::MxArray;
use crate::{arguments, door, dtype};

const SOURCES: &str = "float32, float16, bfloat16";

/// Quantize an array in blocks of 32 elements that share a power-of-two scale.
///
/// Parameters
/// ----------
/// x : array, any shape with at least one axis
///     float32, bfloat16 or float16.
/// dtype : dtype
///     That of the elements: float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
/// axis : int, optional
///     The axis to block, a multiple of 32 long.
/// scale_rule : {"trn3", "ocp", "rceil"}, optional
///     How the exponent E of a block's scale follows from its largest magnitude amax. With Emax
///     the exponent of the largest finite element (8 for float8_e4m3fn, 15 for float8_e5m2, 2 for
///     float4_e2m1fn):
///
///     - ``"trn3"``: floor(log2 amax) - (Emax - 1). Nothing ever saturates. This is what the
///       QuantizeMX instruction does since NKI 0.5, and the default for fp8.
///     - ``"ocp"``: floor(log2 amax) - Emax. Clips. The sample rule of OCP MX 1.0 and QuantizeMX
///       before NKI 0.5, and the default for float4_e2m1fn, which QuantizeMX does not write.
///     - ``"rceil"``: the smallest E with amax <= largest finite element * 2**E.
/// rounding : {"nearest", "zero", "stochastic"}, optional
///     How elements are rounded, as in `cast`.
/// rng : Xorwow, or uint32 array of x's shape, optional
///     The draws, for ``rounding="stochastic"`` and only for it, as in `cast`.
/// out : MXArray, optional
///     Whose elements and scales to write: of x's shape, `dtype` and `axis`.
///
/// Returns
/// -------
/// MXArray
///     Of x's shape; `out` itself if it was given.
///
/// Raises
/// ------
/// TypeError
///     If `x`, `dtype` or `out` is of another type.
/// ValueError
///     If an option, the axis, its length, `rng` or `out` does not fit.
///
/// Notes
/// -----
/// E is clamped to [-127, 127] and stored as the byte E + 127; an all-zero block has byte 0. An
/// element is ``cast(x * 2**-E, dtype, rounding=rounding, overflow="saturate")``, the division
/// exact.
///
/// Model choice: a block with any NaN or infinity gets scale byte 255 and NaN elements (0 in
/// float4_e2m1fn, which has no NaN), so that all of it dequantizes to NaN. The microxcaling library
/// does the same. torchao marks the scale for NaN alone in its earlier releases, where a block with
/// an infinity gets E = 128 - Emax and the infinity saturates. The golden code of AWS's kernels
/// marks no scale at all: E = 128 - Emax for NaN and infinity alike, infinities saturate, and a NaN
/// stays in its own element.
///
/// Examples
/// --------
/// >>> import ml_dtypes
/// >>> import numpy as np
/// >>> from trn3.numerics import quantize_mx
/// >>> x = np.arange(64, dtype=np.float32).reshape(2, 32)
/// >>> quantized = quantize_mx(x, ml_dtypes.float8_e4m3fn)
/// >>> print(quantized.scales[:, 0], quantized.elements[:, -1])
/// [0.125 0.25] [256 256]
/// >>> np.abs(quantized.dequantize() - x).max()
/// np.float32(2.0)
#[pyfunction]
#[pyo3(
    signature = (x, dtype, *, axis=Given::NOTHING, scale_rule=None, rounding=Given::NOTHING, rng=None, out=None),
    text_signature = "(x, dtype, *, axis=-1, scale_rule=None, rounding='nearest', rng=None, out=None)"
)]
pub(crate) fn quantize_mx<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    axis: Given<'py>,
    scale_rule: Option<&Bound<'py, PyAny>>,
    rounding: Given<'py>,
    rng: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, MxArray>> {
    let py = x.py();
    let out = out.map(|out| arguments::class::<MxArray>("out", "MXArray", out)).transpose()?;
    let mut x = Input::new("x", x, SOURCES)?;
    let format = dtype::parse("dtype", dtype, ELEMENTS)?;
    let axis = axis.axis("x", &x, -1)?;
    let from_end = axis as isize - x.shape().len() as isize;
    let scale_rule = scale_rule.map_or(Ok(ScaleRule::default_for(format)), arguments::scale_rule)?;
    let options = MxOptions { scale_rule, rounding: rounding.read(arguments::rounding, Rounding::Nearest)? };
    let mut rng = Rng::new(rng, options.rounding, x.shape())?;

    // A length that is no multiple of 32 is refused by the core.
    let shape = x.shape().to_vec();
    let mut scales_shape = shape.clone();
    scales_shape[axis] /= BLOCK;
    let (elements_dtype, scales_dtype) = (dtype::descr_of(py, format)?, dtype::descr_of(py, Format::F8E8M0Fnu)?);
    let (mut elements, mut scales) = match out.map(|out| out.get().parts(py)) {
        None => (Output::allocate(elements_dtype, &shape)?, Output::allocate(scales_dtype, &scales_shape)?),
        Some((elements, scales, out_axis)) => {
            if out_axis != from_end {
                let text = format!("out is blocked along axis {out_axis}; it must be {from_end}, as axis says");
                return Err(PyValueError::new_err(text));
            }
            let mut inputs = rng.held();
            inputs.push(&mut x);
            let elements = Output::resolve("out.elements", Some(&elements), elements_dtype, &shape, &mut inputs)?;
            let scales = Output::resolve("out.scales", Some(&scales), scales_dtype, &scales_shape, &mut inputs)?;
            elements.part_from_output("out.elements", &scales, "out.scales")?;
            (elements, scales)
        }
    };
    {
        let (view, draws) = (x.view()?, rng.source());
        let (elements, scales) = (elements.array_mut(format)?, scales.array_mut(Format::F8E8M0Fnu)?);
        let quantize = |draws: Draws<'_>| trn3_numerics::quantize_mx(&view, axis, elements, scales, options, draws);
        door::run(py, || draws.with(quantize))?;
    }
    if let Some(out) = out {
        return Ok(out.clone());
    }
    Bound::new(py, MxArray::new(elements, scales, from_end))
}
