//! Bindings of the matrix products, and what they have in common.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use trn3_numerics::{ArrayMut, ArrayView, Draws, Format, MX_TILE, Result, Rounding, TILE, product_shape};

use crate::array::{Held, Input, Output};
use crate::draws::Rng;
use crate::error::exception;
use crate::mx::{MxInput, PartsGiven};
use crate::{arguments, door, dtype};

pub(crate) const OPERANDS: &str =
    "bfloat16, float16, float32, tfloat32, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4";
const ACCUMULATORS: &str = "float32, bfloat16";

/// The arguments of a product besides its operands, as Python callers give them.
#[derive(FromPyObject)]
pub(crate) struct Options<'py>(
    Option<Bound<'py, PyAny>>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Option<Bound<'py, PyAny>>,
);

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
        let Options(c, out_dtype, rounding, rng, out) = options;
        let mut c = c.map(|c| Input::new("c", &c, ACCUMULATORS)).transpose()?;
        let format = dtype::parse("out_dtype", &out_dtype, ACCUMULATORS)?;
        let rounding = arguments::rounding(&rounding)?;
        let mut drawn = vec![tiles];
        drawn.extend(shape);
        let mut rng = Rng::new(&rng, rounding, &drawn)?;
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

#[pyfunction]
#[pyo3(signature = (a, b, options, /))]
pub(crate) fn matmul<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    options: Options<'py>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = a.py();
    let (mut a, mut b) = (Input::new("a", a, OPERANDS)?, Input::new("b", b, OPERANDS)?);
    let shape = product_shape(a.shape(), b.shape()).map_err(exception)?;
    let tiles = contraction(a.shape()).div_ceil(TILE);
    let product = Product::new(py, options, &shape, tiles, &mut [&mut a, &mut b])?;
    let (a, b) = (a.view()?, b.view()?);
    product.run(py, |c, out, rounding, draws| trn3_numerics::matmul(&a, &b, c, out, rounding, draws))
}

#[pyfunction]
#[pyo3(signature = (a, b, options, /))]
pub(crate) fn matmul_mx<'py>(
    py: Python<'py>,
    a: PartsGiven<'py>,
    b: PartsGiven<'py>,
    options: Options<'py>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let mut a = MxInput::new(["a.elements", "a.scales"], &a)?;
    let mut b = MxInput::new(["b.elements", "b.scales"], &b)?;
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
