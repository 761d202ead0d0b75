//! Bindings of the matrix products, and what they have in common.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use trn3_numerics::{ArrayMut, ArrayView, Draws, Format, MX_TILE, Result, Rounding, TILE, product_shape};

use crate::arguments::Given;
use crate::array::{Held, Input, Output};
use crate::draws::Rng;
use crate::error::exception;
use crate::mx::MxInput;
use crate::mx_array::MxArray;
use crate::{arguments, door, dtype};

pub(crate) const OPERANDS: &str =
    "bfloat16, float16, float32, tfloat32, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4";
const ACCUMULATORS: &str = "float32, bfloat16";

/// The arguments `c, out_dtype, rounding, rng, out` of a product besides its operands, as Python callers give them.
pub(crate) type Options<'py> =
    (Option<Bound<'py, PyAny>>, Given<'py>, Given<'py>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// The same, understood: everything of a product but its operands.
pub(crate) struct Product<'py> {
    c: Option<Input<'py>>,
    format: Format,
    rounding: Rounding,
    rng: Rng<'py>,
    output: Output<'py>,
}

impl<'py> Product<'py> {
    /// Checks the options `(c, out_dtype, rounding, rng, out)` of a product of the given shape, whose contraction is cut
    /// into `tiles`, and makes sure that the output overlaps none of the operands.
    pub(crate) fn new(
        py: Python<'py>,
        options: Options<'py>,
        shape: &[usize],
        tiles: usize,
        operands: &mut [&mut dyn Held<'py>],
    ) -> PyResult<Self> {
        let (c, out_dtype, rounding, rng, out) = options;
        let mut c = c.map(|c| Input::new("c", &c, ACCUMULATORS)).transpose()?;
        let format = out_dtype.read(|came| dtype::parse("out_dtype", came, ACCUMULATORS), Format::F32)?;
        let rounding = rounding.read(arguments::rounding, Rounding::Nearest)?;
        let mut drawn = vec![tiles];
        drawn.extend(shape);
        let mut rng = Rng::new(rng.as_ref(), rounding, &drawn)?;
        let mut inputs = rng.held();
        inputs.extend(operands.iter_mut().map(|operand| &mut **operand as &mut dyn Held<'py>));
        inputs.extend(c.iter_mut().map(|c| c as &mut dyn Held<'py>));
        let output = Output::resolve("out", out.as_ref(), dtype::descr_of(py, format)?, shape, &mut inputs)?;
        Ok(Self { c, format, rounding, rng, output })
    }

    /// Runs the product: `work(c, out, rounding, draws)`.
    pub(crate) fn run(
        mut self,
        py: Python<'py>,
        work: impl FnOnce(Option<&ArrayView<'_>>, ArrayMut<'_>, Rounding, Draws<'_>) -> Result<()> + Send,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let c = self.c.as_ref().map(Input::view).transpose()?;
        let (out, rounding, draws) = (self.output.array_mut(self.format)?, self.rounding, self.rng.source());
        door::run(py, || draws.with(|draws| work(c.as_ref(), out, rounding, draws)))?;
        Ok(self.output.into_array())
    }
}

/// Multiply matrices as the 128-row systolic array does.
///
/// Parameters
/// ----------
/// a : array, [..., M, K]
///     bfloat16, float16, float32, float8_e4m3fn, float8_e5m2, float8_e4m3 or float8_e3m4.
/// b : array, [..., K, N]
///     Likewise, in any pair, but float32 (that of `tfloat32` values too) only with float32. Batch
///     axes broadcast as NumPy's.
/// c : float32 or bfloat16 array, [..., M, N], optional
///     What the accumulator starts from; of exactly the result's shape.
/// out_dtype : dtype, optional
///     float32 or bfloat16.
/// rounding : {"nearest", "zero", "stochastic"}, optional
///     How a bfloat16 accumulator is rounded after every tile, as in `cast`; a float32 one never
///     is.
/// rng : Xorwow, or uint32 array, [tiles, ..., M, N], optional
///     The draws, for ``rounding="stochastic"`` and only for it: one for each output element of
///     each tile. Generators give those of the whole block as they do in `cast`.
/// out : array, [..., M, N], optional
///     Where to write the result: of `out_dtype`, C-contiguous, in memory of its own.
///
/// Returns
/// -------
/// array, [..., M, N]
///     Of type `out_dtype`; `out` itself if it was given.
///
/// Raises
/// ------
/// TypeError
///     If an array or `out_dtype` is of another type, or float32 meets another type.
/// ValueError
///     If shapes do not fit, an option is unknown or goes with bfloat16 results only, `rng` is
///     missing with stochastic rounding or present without it, or `out` overlaps an input.
///
/// Notes
/// -----
/// K is cut into tiles of 128, in ascending order, the last one shorter. In a tile each output
/// element is one chain, k ascending: ``s = 0; s = fma(a[k], b[k], s)``, one rounding to float32
/// (nearest, ties to even) a step. The tile's result is added to the accumulator in float32; the
/// accumulator starts as the first tile's result, or as `c` plus that. A bfloat16 accumulator is
/// rounded after every tile, as PSUM holds it. For K = 0 the result is zeros, or `c` rounded to
/// nearest once.
///
/// Model choices: for float32 inputs the step is the true fused multiply-add; a tile's result joins
/// the accumulator after its chain, not at its start; subnormals are kept.
///
/// Examples
/// --------
/// >>> import ml_dtypes
/// >>> import numpy as np
/// >>> from trn3.numerics import matmul
/// >>> a = np.arange(6, dtype=np.float32).reshape(2, 3).astype(ml_dtypes.bfloat16)
/// >>> b = np.ones((3, 2), dtype=ml_dtypes.float8_e5m2)
/// >>> print(matmul(a, b))
/// [[ 3.  3.]
///  [12. 12.]]
/// >>> print(matmul(a, b, c=np.full((2, 2), 0.5, np.float32), out_dtype=ml_dtypes.bfloat16))
/// [[3.5 3.5]
///  [12.5 12.5]]
#[pyfunction]
#[pyo3(
    signature = (a, b, *, c=None, out_dtype=Given::NOTHING, rounding=Given::NOTHING, rng=None, out=None),
    text_signature = "(a, b, *, c=None, out_dtype='float32', rounding='nearest', rng=None, out=None)"
)]
pub(crate) fn matmul<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    c: Option<Bound<'py, PyAny>>,
    out_dtype: Given<'py>,
    rounding: Given<'py>,
    rng: Option<Bound<'py, PyAny>>,
    out: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = a.py();
    let (mut a, mut b) = (Input::new("a", a, OPERANDS)?, Input::new("b", b, OPERANDS)?);
    let shape = product_shape(a.shape(), b.shape()).map_err(exception)?;
    let tiles = contraction(a.shape()).div_ceil(TILE);
    let options = (c, out_dtype, rounding, rng, out);
    let product = Product::new(py, options, &shape, tiles, &mut [&mut a, &mut b])?;
    let (a, b) = (a.view()?, b.view()?);
    product.run(py, |c, out, rounding, draws| trn3_numerics::matmul(&a, &b, c, out, rounding, draws))
}

/// Multiply quantized matrices as the systolic array does at four elements a row.
///
/// Parameters
/// ----------
/// a : MXArray, [..., M, K]
///     Blocked along its last axis (-1).
/// b : MXArray, [..., K, N]
///     Blocked along its second-last axis (-2), of any element type.
/// c, out_dtype, rounding, rng, out
///     As in `matmul`.
///
/// Returns
/// -------
/// array, [..., M, N]
///     Of type `out_dtype`; `out` itself if it was given.
///
/// Raises
/// ------
/// TypeError
///     If `a` or `b` is no MXArray, or another array or `out_dtype` is of another type.
/// ValueError
///     If an operand is blocked along another axis, or as in `matmul`.
///
/// Notes
/// -----
/// As `matmul`, with tiles of 512 along K and each factor the exact product of element and scale.
/// Factors beyond float32 follow its arithmetic (infinity); scale byte 255 gives NaN.
///
/// Model choice: the four products of one processing element are four consecutive k of the chain.
///
/// Examples
/// --------
/// >>> import ml_dtypes
/// >>> import numpy as np
/// >>> from trn3.numerics import matmul_mx, quantize_mx
/// >>> x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
/// >>> a = quantize_mx(x, ml_dtypes.float8_e4m3fn)
/// >>> b = quantize_mx(x.T, ml_dtypes.float8_e5m2, axis=-2)
/// >>> print(matmul_mx(a, b))  # that of x itself is 22.01
/// [[21.472656]]
#[pyfunction]
#[pyo3(
    signature = (a, b, *, c=None, out_dtype=Given::NOTHING, rounding=Given::NOTHING, rng=None, out=None),
    text_signature = "(a, b, *, c=None, out_dtype='float32', rounding='nearest', rng=None, out=None)"
)]
pub(crate) fn matmul_mx<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    c: Option<Bound<'py, PyAny>>,
    out_dtype: Given<'py>,
    rounding: Given<'py>,
    rng: Option<Bound<'py, PyAny>>,
    out: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = a.py();
    let options = (c, out_dtype, rounding, rng, out);
    let mut a = MxInput::new(["a.elements", "a.scales"], &MxArray::blocked("a", a, -1)?.parts(py))?;
    let mut b = MxInput::new(["b.elements", "b.scales"], &MxArray::blocked("b", b, -2)?.parts(py))?;
    let shape = product_shape(a.elements.shape(), b.elements.shape()).map_err(exception)?;
    let tiles = contraction(a.elements.shape()).div_ceil(MX_TILE);
    let operands: &mut [&mut dyn Held<'py>] = &mut [&mut a.elements, &mut a.scales, &mut b.elements, &mut b.scales];
    let product = Product::new(py, options, &shape, tiles, operands)?;
    let (a, b) = (a.view()?, b.view()?);
    product.run(py, |c, out, rounding, draws| trn3_numerics::matmul_mx(&a, &b, c, out, rounding, draws))
}

/// Length of a left operand's contraction axis.
pub(crate) fn contraction(shape: &[usize]) -> usize {
    shape.last().copied().unwrap_or(0)
}
