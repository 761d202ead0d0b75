//! Bindings of structured sparsity.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use trn3_numerics::{Format, Pattern, SparseView, TILE, product_shape};

use crate::arguments::Given;
use crate::array::{Held, Input, Output, Words, same_bits, tuple};
use crate::error::exception;
use crate::matmul::{OPERANDS, Product, contraction};
use crate::{arguments, door, dtype};

const VALUES: &str = "float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn";

type Array<'py> = Bound<'py, PyUntypedArray>;
/// A matrix of which at most M in each group of N elements along one axis are not zero.
///
/// `compress` makes one of a dense matrix that is as sparse as that, `prune` makes any matrix so;
/// `from_tags` makes one of what the hardware stores. Two such arrays are equal if their types,
/// patterns, axes and all their bits are; they can be copied and pickled.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from trn3.numerics import compress
/// >>> w = np.array([[0, 5, 0, 0, 6, 0, 0, 7]], dtype=np.float32).T
/// >>> sparse = compress(w, "2:4")
/// >>> sparse
/// SparseArray(pattern='2:4', shape=(8, 1), dtype=float32, axis=-2)
/// >>> print(sparse.values.T, sparse.indices.T)
/// [[0. 5. 6. 7.]] [[0 1 0 3]]
#[pyclass(frozen, module = "trn3.numerics")]
pub(crate) struct SparseArray {
    values: Py<PyUntypedArray>,
    indices: Py<PyUntypedArray>,
    pattern: Pattern,
    /// As Python counts it, from the end.
    axis: isize,
}

#[pymethods]
impl SparseArray {
    /// The stored values: the dense shape with `axis` scaled by M / N; 0 in unused slots.
    #[getter]
    fn values(&self, py: Python<'_>) -> Py<PyUntypedArray> {
        self.values.clone_ref(py)
    }

    /// Where in its group each value stands; ascending and distinct in each group.
    #[getter]
    fn indices(&self, py: Python<'_>) -> Py<PyUntypedArray> {
        self.indices.clone_ref(py)
    }

    /// The pattern ``"M:N"``.
    #[getter]
    fn pattern(&self) -> String {
        self.pattern.to_string()
    }

    /// The compressed axis, counted from the end: -1 is the last.
    #[getter]
    fn axis(&self) -> isize {
        self.axis
    }

    /// Size in bytes when packed: an index takes ceil(log2 N) bits, a float4_e2m1fn four.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        let values = self.values.bind(py);
        let format = dtype::format_of(&values.dtype())?.map(|(format, _)| format);
        let value_bits = if format == Some(Format::F4E2M1Fn) { 4 } else { 8 * values.dtype().itemsize() };
        let index_bits = self.pattern.index_bits() as usize;
        Ok([value_bits, index_bits].into_iter().map(|bits| (values.len() * bits).div_ceil(8)).sum())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = tuple(&self.input(py)?.dense_shape()?);
        let (pattern, dtype, axis) = (self.pattern, self.values.bind(py).dtype(), self.axis);
        Ok(format!("SparseArray(pattern='{pattern}', shape={shape}, dtype={dtype}, axis={axis})"))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let equal = (self.pattern, self.axis) == (other.pattern, other.axis)
            && same_bits(self.values.bind(py), other.values.bind(py))?
            && same_bits(self.indices.bind(py), other.indices.bind(py))?;
        equal.into_py_any(py)
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let (py, held) = (slf.py(), slf.get());
        let parts = (held.values(py), held.indices(py), held.pattern(), held.axis).into_py_any(py)?;
        Ok((slf.get_type().getattr("_restored")?.unbind(), parts))
    }

    #[staticmethod]
    fn _restored(
        values: Py<PyUntypedArray>,
        indices: Py<PyUntypedArray>,
        pattern: &Bound<'_, PyAny>,
        axis: isize,
    ) -> PyResult<Self> {
        Ok(Self { values, indices, pattern: arguments::pattern(pattern)?, axis })
    }

    /// Return the dense matrix.
    ///
    /// Returns
    /// -------
    /// array
    ///     Of the values' type: stored values at their places, +0 everywhere else.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np
    /// >>> from trn3.numerics import compress
    /// >>> w = np.array([[0, 5, 0, 0]], dtype=np.float32)
    /// >>> print(compress(w, "1:2", axis=-1).to_dense())
    /// [[0. 5. 0. 0.]]
    fn to_dense<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let sparse = self.input(py)?;
        let mut output = Output::allocate(sparse.values.native_dtype()?, &sparse.dense_shape()?)?;
        let (view, out) = (sparse.view()?, output.array_mut(sparse.values.format())?);
        door::run(py, || view.to_dense(out))?;
        Ok(output.into_array())
    }

    /// Return the indices as the hardware's tags.
    ///
    /// Returns
    /// -------
    /// uint16 array
    ///     The values' shape with `axis` divided by 4, rounded up: four consecutive indices of
    ///     4 bits in a word, the first in the low bits, zeros beyond the last.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np
    /// >>> from trn3.numerics import compress
    /// >>> w = np.zeros((16, 1), dtype=np.float32)
    /// >>> w[[1, 5, 6, 15]] = 1
    /// >>> hex(compress(w, "4:16").to_tags()[0, 0])
    /// '0xf651'
    fn to_tags<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let sparse = self.input(py)?;
        let shape = sparse.pattern.tags_shape(sparse.values.shape(), sparse.axis).map_err(exception)?;
        let mut output = Output::allocate(numpy::dtype::<u16>(py), &shape)?;
        let (view, tags) = (sparse.view()?, output.words_mut()?);
        door::run(py, || view.to_tags(tags))?;
        Ok(output.into_array())
    }

    /// Make a sparse matrix of stored values and the hardware's tags.
    ///
    /// Parameters
    /// ----------
    /// values : array, two axes
    ///     Any type that `compress` takes, copied; `axis` a multiple of M long.
    /// tags : uint16 array
    ///     As `to_tags` returns them. The positions of a group may come in any order, and that of
    ///     a value that is zero may be any below N.
    /// pattern : str
    ///     As for `compress`.
    /// axis : int, optional
    ///     The compressed axis.
    ///
    /// Returns
    /// -------
    /// SparseArray
    ///     With the slots of each group in ascending order.
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If `values` or `tags` is of another type.
    /// ValueError
    ///     If a position is N or more, one comes twice with nonzero values, the pattern is unknown,
    ///     or shapes or the axis do not fit.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np
    /// >>> from trn3.numerics import SparseArray
    /// >>> values = np.array([[1], [2]], dtype=np.float32)
    /// >>> tags = np.array([[0x03]], dtype=np.uint16)
    /// >>> print(SparseArray.from_tags(values, tags, "2:4").to_dense().T)
    /// [[2. 0. 0. 1.]]
    #[classmethod]
    #[pyo3(signature = (values, tags, pattern, axis=Given::NOTHING), text_signature = "($cls, values, tags, pattern, axis=-2)")]
    fn from_tags<'py>(
        _cls: &Bound<'py, PyType>,
        values: &Bound<'py, PyAny>,
        tags: &Bound<'py, PyAny>,
        pattern: &Bound<'py, PyAny>,
        axis: Given<'py>,
    ) -> PyResult<Self> {
        let py = values.py();
        let values = Input::new("values", values, VALUES)?;
        let pattern = arguments::pattern(pattern)?;
        let (axis, from_end) = matrix_axis("values", &values, &axis)?;
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
        Ok(Self::new(sorted, indices, pattern, from_end))
    }
}

impl SparseArray {
    fn new(values: Output<'_>, indices: Output<'_>, pattern: Pattern, axis: isize) -> Self {
        Self { values: values.into_array().unbind(), indices: indices.into_array().unbind(), pattern, axis }
    }

    fn input<'py>(&self, py: Python<'py>) -> PyResult<SparseInput<'py>> {
        SparseInput::new(["values", "indices"], VALUES, self, py)
    }
}

/// The arrays of a compressed array.
struct SparseInput<'py> {
    values: Input<'py>,
    indices: Words<'py, u8>,
    pattern: Pattern,
    axis: usize,
}

impl<'py> SparseInput<'py> {
    fn new(names: [&'static str; 2], allowed: &str, array: &SparseArray, py: Python<'py>) -> PyResult<Self> {
        let values = Input::new(names[0], array.values.bind(py), allowed)?;
        let axis = values.shape().len().wrapping_add_signed(array.axis);
        let indices = Words::new(names[1], array.indices.bind(py), "uint8")?;
        if indices.shape() != values.shape() {
            let (came, shape) = (tuple(indices.shape()), tuple(values.shape()));
            return Err(PyValueError::new_err(format!("{} has shape {came}; it must have shape {shape}", names[1])));
        }
        Ok(Self { values, indices, pattern: array.pattern, axis })
    }

    fn view(&self) -> PyResult<SparseView<'_>> {
        SparseView::new(self.values.view()?, self.indices.as_slice(), self.pattern, self.axis).map_err(exception)
    }

    fn dense_shape(&self) -> PyResult<Vec<usize>> {
        self.pattern.dense_shape(self.values.shape(), self.axis).map_err(exception)
    }
}

/// The axis counted from the start, and from the end as Python keeps it.
fn matrix_axis<'py>(argument: &str, array: &Input<'py>, axis: &Given<'py>) -> PyResult<(usize, isize)> {
    if array.shape().len() != 2 {
        let shape = tuple(array.shape());
        return Err(PyValueError::new_err(format!("{argument} has shape {shape}; it must have two axes")));
    }
    let axis = axis.axis(argument, array, -2)?;
    Ok((axis, axis as isize - 2))
}

/// Compress a matrix that is sparse as a pattern asks.
///
/// Parameters
/// ----------
/// w : array, two axes
///     float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4 or
///     float4_e2m1fn; `axis` a multiple of N long.
/// pattern : {"4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"}
///     ``"M:N"``: at most M nonzeros in each group of N.
/// axis : int, optional
///     The axis to compress: the contraction axis of a right operand, -2, if not given.
///
/// Returns
/// -------
/// SparseArray
///
/// Raises
/// ------
/// TypeError
///     If `w` is of another type.
/// ValueError
///     If a group holds more than M nonzeros (the message names the first one in C order), the
///     pattern is unknown, or the shape or the axis does not fit.
///
/// See Also
/// --------
/// prune : Makes any array as sparse as that.
///
/// Notes
/// -----
/// NaN counts as nonzero and -0.0 as zero. Unused slots hold value 0.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from trn3.numerics import compress
/// >>> w = np.eye(4, dtype=np.float32)
/// >>> print(compress(w, "1:4").values)
/// [[1. 1. 1. 1.]]
#[pyfunction]
#[pyo3(signature = (w, pattern, *, axis=Given::NOTHING), text_signature = "(w, pattern, *, axis=-2)")]
pub(crate) fn compress<'py>(
    w: &Bound<'py, PyAny>,
    pattern: &Bound<'py, PyAny>,
    axis: Given<'py>,
) -> PyResult<SparseArray> {
    let py = w.py();
    let w = Input::new("w", w, VALUES)?;
    let pattern = arguments::pattern(pattern)?;
    let (axis, from_end) = matrix_axis("w", &w, &axis)?;
    let shape = pattern.compressed_shape(w.shape(), axis).map_err(exception)?;
    let mut values = Output::allocate(w.native_dtype()?, &shape)?;
    let mut indices = Output::allocate(numpy::dtype::<u8>(py), &shape)?;
    {
        let (view, values, indices) = (w.view()?, values.array_mut(w.format())?, indices.words_mut()?);
        door::run(py, || trn3_numerics::compress(&view, pattern, axis, values, indices))?;
    }
    Ok(SparseArray::new(values, indices, pattern, from_end))
}

/// Keep the M largest magnitudes of each group of N and set the others to zero.
///
/// Parameters
/// ----------
/// w : array, any shape
///     Any type that `compress` takes; `axis` a multiple of N long.
/// pattern : {"4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"}
///     ``"M:N"``.
/// axis : int, optional
///     The axis that groups lie along.
///
/// Returns
/// -------
/// array
///     Of w's shape and type.
///
/// Raises
/// ------
/// TypeError
///     If `w` is of another type.
/// ValueError
///     If the pattern is unknown, or the shape or the axis does not fit.
///
/// Notes
/// -----
/// Of equal magnitudes the one at the lower index is kept; NaN counts as largest.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from trn3.numerics import prune
/// >>> w = np.array([[1, -3, 2, 3]], dtype=np.float32)
/// >>> print(prune(w, "2:4", axis=-1))
/// [[ 0. -3.  0.  3.]]
#[pyfunction]
#[pyo3(signature = (w, pattern, *, axis=Given::NOTHING), text_signature = "(w, pattern, *, axis=-2)")]
pub(crate) fn prune<'py>(w: &Bound<'py, PyAny>, pattern: &Bound<'py, PyAny>, axis: Given<'py>) -> PyResult<Array<'py>> {
    let py = w.py();
    let w = Input::new("w", w, VALUES)?;
    let pattern = arguments::pattern(pattern)?;
    let axis = axis.axis("w", &w, -2)?;
    let mut output = Output::allocate(w.native_dtype()?, w.shape())?;
    let (view, out) = (w.view()?, output.array_mut(w.format())?);
    door::run(py, || trn3_numerics::prune(&view, pattern, axis, out))?;
    Ok(output.into_array())
}

/// Multiply by a sparse matrix as the 128-row systolic array does.
///
/// Parameters
/// ----------
/// a : array, [..., M, K]
///     A type that `matmul` takes.
/// w : SparseArray, [K, N]
///     Compressed along its first axis (-2), of a type that `matmul` takes beside a's.
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
///     If `w` is no SparseArray, or another array or `out_dtype` is of another type.
/// ValueError
///     If `w` is compressed along another axis, or as in `matmul`.
///
/// Notes
/// -----
/// As `matmul`, with tiles of 128 dense positions along K. A slot whose stored value is zero and
/// every pruned place contribute nothing at all: infinity times such a zero is not NaN. So the
/// result equals ``matmul(a, w.to_dense())`` for finite `a`, up to the sign of a zero.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from trn3.numerics import compress, matmul_sparse
/// >>> w = compress(np.eye(4, dtype=np.float32), "1:4")
/// >>> a = np.array([[1, 2, 3, np.inf]], dtype=np.float32)
/// >>> print(matmul_sparse(a, w))
/// [[ 1.  2.  3. inf]]
#[pyfunction]
#[pyo3(
    signature = (a, w, *, c=None, out_dtype=Given::NOTHING, rounding=Given::NOTHING, rng=None, out=None),
    text_signature = "(a, w, *, c=None, out_dtype='float32', rounding='nearest', rng=None, out=None)"
)]
pub(crate) fn matmul_sparse<'py>(
    a: &Bound<'py, PyAny>,
    w: &Bound<'py, PyAny>,
    c: Option<Bound<'py, PyAny>>,
    out_dtype: Given<'py>,
    rounding: Given<'py>,
    rng: Option<Bound<'py, PyAny>>,
    out: Option<Bound<'py, PyAny>>,
) -> PyResult<Array<'py>> {
    let py = a.py();
    let w = arguments::class::<SparseArray>("w", "SparseArray", w)?.get();
    if w.axis != -2 {
        let text = format!("w is compressed along axis 1 ({}); it must be its contraction axis, 0 (-2)", w.axis);
        return Err(PyValueError::new_err(text));
    }
    let mut a = Input::new("a", a, OPERANDS)?;
    let mut w = SparseInput::new(["w.values", "w.indices"], OPERANDS, w, py)?;
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
    let options = (c, out_dtype, rounding, rng, out);
    let product = Product::new(py, options, &shape, tiles, operands)?;
    let (a, w) = (a.view()?, w.view()?);
    product.run(py, |c, out, rounding, draws| trn3_numerics::matmul_sparse(&a, &w, c, out, rounding, draws))
}
