//! Bindings of structured sparsity. Compressed arrays travel as values, indices, pattern and axis.

use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_numerics::{Pattern, SparseView, TILE, product_shape};

use crate::array::{Held, Input, Output, Words, tuple};
use crate::error::exception;
use crate::matmul::{OPERANDS, Options, Product, contraction};
use crate::{arguments, door};

const VALUES: &str = "float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn";

type Array<'py> = Bound<'py, PyUntypedArray>;
/// Values, indices, pattern and axis, which Python counts from the end.
type PartsGiven<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, isize);

/// The arrays of a compressed array.
struct SparseInput<'py> {
    values: Input<'py>,
    indices: Words<'py, u8>,
    pattern: Pattern,
    axis: usize,
}

impl<'py> SparseInput<'py> {
    fn new(
        names: [&'static str; 2],
        allowed: &str,
        (values, indices, pattern, axis): &PartsGiven<'py>,
    ) -> PyResult<Self> {
        let values = Input::new(names[0], values, allowed)?;
        let axis = values.shape().len().wrapping_add_signed(*axis);
        let indices = Words::new(names[1], indices, "uint8")?;
        if indices.shape() != values.shape() {
            let (came, shape) = (tuple(indices.shape()), tuple(values.shape()));
            return Err(PyValueError::new_err(format!("{} has shape {came}; it must have shape {shape}", names[1])));
        }
        Ok(Self { values, indices, pattern: arguments::pattern(pattern)?, axis })
    }

    fn view(&self) -> PyResult<SparseView<'_>> {
        SparseView::new(self.values.view()?, self.indices.as_slice(), self.pattern, self.axis).map_err(exception)
    }

    fn dense_shape(&self) -> PyResult<Vec<usize>> {
        self.pattern.dense_shape(self.values.shape(), self.axis).map_err(exception)
    }
}

/// The axis counted from the start, and from the end as Python keeps it.
fn matrix_axis(argument: &str, shape: &[usize], axis: &Bound<'_, PyAny>) -> PyResult<(usize, isize)> {
    if shape.len() != 2 {
        return Err(PyValueError::new_err(format!("{argument} has shape {}; it must have two axes", tuple(shape))));
    }
    let axis = arguments::axis(argument, shape, axis)?;
    Ok((axis, axis as isize - 2))
}

#[pyfunction]
#[pyo3(signature = (w, pattern, axis, /))]
pub(crate) fn compress<'py>(
    w: &Bound<'py, PyAny>,
    pattern: &Bound<'py, PyAny>,
    axis: &Bound<'py, PyAny>,
) -> PyResult<(Array<'py>, Array<'py>, isize)> {
    let py = w.py();
    let w = Input::new("w", w, VALUES)?;
    let pattern = arguments::pattern(pattern)?;
    let (axis, from_end) = matrix_axis("w", w.shape(), axis)?;
    let shape = pattern.compressed_shape(w.shape(), axis).map_err(exception)?;
    let mut values = Output::allocate(w.native_dtype()?, &shape)?;
    let mut indices = Output::allocate(numpy::dtype::<u8>(py), &shape)?;
    {
        let (view, values, indices) = (w.view()?, values.array_mut(w.format())?, indices.words_mut()?);
        door::run(py, || trn3_numerics::compress(&view, pattern, axis, values, indices))?;
    }
    Ok((values.into_array(), indices.into_array(), from_end))
}

#[pyfunction]
#[pyo3(signature = (w, pattern, axis, /))]
pub(crate) fn prune<'py>(
    w: &Bound<'py, PyAny>,
    pattern: &Bound<'py, PyAny>,
    axis: &Bound<'py, PyAny>,
) -> PyResult<Array<'py>> {
    let py = w.py();
    let w = Input::new("w", w, VALUES)?;
    let pattern = arguments::pattern(pattern)?;
    let axis = arguments::axis("w", w.shape(), axis)?;
    let mut output = Output::allocate(w.native_dtype()?, w.shape())?;
    let (view, out) = (w.view()?, output.array_mut(w.format())?);
    door::run(py, || trn3_numerics::prune(&view, pattern, axis, out))?;
    Ok(output.into_array())
}

#[pyfunction]
#[pyo3(signature = (sparse, /))]
pub(crate) fn sparse_to_dense<'py>(py: Python<'py>, sparse: PartsGiven<'py>) -> PyResult<Array<'py>> {
    let sparse = SparseInput::new(["values", "indices"], VALUES, &sparse)?;
    let mut output = Output::allocate(sparse.values.native_dtype()?, &sparse.dense_shape()?)?;
    let (view, out) = (sparse.view()?, output.array_mut(sparse.values.format())?);
    door::run(py, || view.to_dense(out))?;
    Ok(output.into_array())
}

#[pyfunction]
#[pyo3(signature = (sparse, /))]
pub(crate) fn to_tags<'py>(py: Python<'py>, sparse: PartsGiven<'py>) -> PyResult<Array<'py>> {
    let sparse = SparseInput::new(["values", "indices"], VALUES, &sparse)?;
    let shape = sparse.pattern.tags_shape(sparse.values.shape(), sparse.axis).map_err(exception)?;
    let mut output = Output::allocate(numpy::dtype::<u16>(py), &shape)?;
    let (view, tags) = (sparse.view()?, output.words_mut()?);
    door::run(py, || view.to_tags(tags))?;
    Ok(output.into_array())
}

#[pyfunction]
#[pyo3(signature = (values, tags, pattern, axis, /))]
pub(crate) fn from_tags<'py>(
    values: &Bound<'py, PyAny>,
    tags: &Bound<'py, PyAny>,
    pattern: &Bound<'py, PyAny>,
    axis: &Bound<'py, PyAny>,
) -> PyResult<(Array<'py>, Array<'py>, isize)> {
    let py = values.py();
    let values = Input::new("values", values, VALUES)?;
    let pattern = arguments::pattern(pattern)?;
    let (axis, from_end) = matrix_axis("values", values.shape(), axis)?;
    let tags = Words::<u16>::new("tags", tags, "uint16")?;
    let tags_shape = pattern.tags_shape(values.shape(), axis).map_err(exception)?;
    if tags.shape() != tags_shape {
        let (came, shape) = (tuple(tags.shape()), tuple(&tags_shape));
        return Err(PyValueError::new_err(format!("tags has shape {came}; it must have shape {shape}")));
    }
    let mut sorted = Output::allocate(values.native_dtype()?, values.shape())?;
    let mut indices = Output::allocate(numpy::dtype::<u8>(py), values.shape())?;
    {
        let (view, words) = (values.view()?, tags.as_slice());
        let (sorted, indices) = (sorted.array_mut(values.format())?, indices.words_mut()?);
        door::run(py, || trn3_numerics::from_tags(&view, words, pattern, axis, sorted, indices))?;
    }
    Ok((sorted.into_array(), indices.into_array(), from_end))
}

#[pyfunction]
#[pyo3(signature = (a, w, options, /))]
pub(crate) fn matmul_sparse<'py>(
    a: &Bound<'py, PyAny>,
    w: PartsGiven<'py>,
    options: Options<'py>,
) -> PyResult<Array<'py>> {
    let py = a.py();
    let mut a = Input::new("a", a, OPERANDS)?;
    let mut w = SparseInput::new(["w.values", "w.indices"], OPERANDS, &w)?;
    let dense = w.dense_shape()?;
    if let ([_, .., k], [k_w, ..]) = (a.shape(), dense.as_slice())
        && k != k_w
    {
        let (came, dense) = (tuple(a.shape()), tuple(&dense));
        let text = format!("a has shape {came}; its last axis must be {k_w} long, as the first of w, {dense}");
        return Err(PyValueError::new_err(text));
    }
    let shape = product_shape(a.shape(), &dense).map_err(exception)?;
    let tiles = contraction(a.shape()).div_ceil(TILE);
    let operands: &mut [&mut dyn Held<'py>] = &mut [&mut a, &mut w.values, &mut w.indices];
    let product = Product::new(py, options, &shape, tiles, operands)?;
    let (a, w) = (a.view()?, w.view()?);
    product.run(py, |c, out, rounding, draws| trn3_numerics::matmul_sparse(&a, &w, c, out, rounding, draws))
}
