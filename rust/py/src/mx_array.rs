//! Binding of quantised arrays.

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use trn3_numerics::{BLOCK, Format};

use crate::arguments::Given;
use crate::array::{Output, same_bits, tuple};
use crate::mx::{ELEMENTS, MxInput, Parts};
use crate::{arguments, door, dtype, mx_layout};

/// An array quantized in blocks of 32 elements that share a power-of-two scale.
///
/// `quantize_mx` makes one from numbers; the class methods `from_parts`, `from_x4` and
/// `from_trn3_layout` make one of what another program wrote. The parts are not copied. Two such
/// arrays are equal if their types, axes and all their bits are; they can be copied and pickled.
///
/// Examples
/// --------
/// >>> import ml_dtypes
/// >>> import numpy as np
/// >>> from trn3.numerics import quantize_mx
/// >>> x = np.linspace(-3, 3, 64, dtype=np.float32)
/// >>> quantized = quantize_mx(x, ml_dtypes.float4_e2m1fn)
/// >>> quantized
/// MXArray(shape=(64,), dtype=float4_e2m1fn, axis=-1)
/// >>> quantized.nbytes
/// 34
/// >>> print(quantized.scales, quantized.dequantize()[:4])
/// [0.5 0.5] [-3. -3. -3. -3.]
#[pyclass(frozen, module = "trn3.numerics", name = "MXArray")]
pub(crate) struct MxArray {
    elements: Py<PyUntypedArray>,
    scales: Py<PyUntypedArray>,
    /// As Python counts it, from the end.
    axis: isize,
}

#[pymethods]
impl MxArray {
    /// Codes of the elements: float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
    #[getter]
    fn elements(&self, py: Python<'_>) -> Py<PyUntypedArray> {
        self.elements.clone_ref(py)
    }

    /// Scales of the blocks: float8_e8m0fnu, the elements' shape with `axis` divided by 32.
    #[getter]
    fn scales(&self, py: Python<'_>) -> Py<PyUntypedArray> {
        self.scales.clone_ref(py)
    }

    /// The blocked axis, counted from the end: -1 is the last.
    #[getter]
    fn axis(&self) -> isize {
        self.axis
    }

    /// Type of the elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        self.elements.bind(py).dtype()
    }

    /// Shape of the elements.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.elements.bind(py).shape())
    }

    /// Size in bytes with elements packed: half a byte for one of float4_e2m1fn.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        let elements = self.elements.bind(py);
        let halved = element_type(elements)? == Some(Format::F4E2M1Fn);
        Ok(if halved { elements.len() / 2 } else { elements.len() } + self.scales.bind(py).len())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let elements = self.elements.bind(py);
        format!("MXArray(shape={}, dtype={}, axis={})", tuple(elements.shape()), elements.dtype(), self.axis)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let equal = self.axis == other.axis
            && same_bits(self.elements.bind(py), other.elements.bind(py))?
            && same_bits(self.scales.bind(py), other.scales.bind(py))?;
        equal.into_py_any(py)
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let parts = slf.get().parts(slf.py()).into_py_any(slf.py())?;
        Ok((slf.get_type().getattr("from_parts")?.unbind(), parts))
    }

    /// Make a quantized array of its elements and scales, without copying them.
    ///
    /// Parameters
    /// ----------
    /// elements : array, any shape with at least one axis
    ///     float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
    /// scales : array
    ///     float8_e8m0fnu, or its bytes as uint8; the elements' shape with `axis` divided by 32.
    /// axis : int, optional
    ///     The blocked axis, a multiple of 32 long.
    ///
    /// Returns
    /// -------
    /// MXArray
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If `elements` or `scales` is no array of these types.
    /// ValueError
    ///     If the shapes or the axis do not fit.
    ///
    /// Examples
    /// --------
    /// >>> import ml_dtypes
    /// >>> import numpy as np
    /// >>> from trn3.numerics import MXArray
    /// >>> ones = np.ones((2, 32), dtype=ml_dtypes.float8_e5m2)
    /// >>> array = MXArray.from_parts(ones, np.array([[128], [126]], dtype=np.uint8))
    /// >>> print(array.dequantize()[:, 0])
    /// [2.  0.5]
    #[classmethod]
    #[pyo3(signature = (elements, scales, axis=Given::NOTHING), text_signature = "($cls, elements, scales, axis=-1)")]
    fn from_parts<'py>(
        _cls: &Bound<'py, PyType>,
        elements: &Bound<'py, PyAny>,
        scales: &Bound<'py, PyAny>,
        axis: Given<'py>,
    ) -> PyResult<Self> {
        let is_element = |held: &Bound<'py, PyUntypedArray>| {
            let known = [Format::F8E4M3Fn, Format::F8E5M2, Format::F4E2M1Fn];
            Ok(element_type(held)?.is_some_and(|format| known.contains(&format)))
        };
        let elements = array_of("elements", elements, ELEMENTS, is_element)?;
        let is_scale = |held: &Bound<'py, PyUntypedArray>| {
            let is_bytes = held.dtype().is_equiv_to(&numpy::dtype::<u8>(held.py()));
            Ok(is_bytes || element_type(held)? == Some(Format::F8E8M0Fnu))
        };
        let scales = array_of("scales", scales, "float8_e8m0fnu, uint8", is_scale)?;
        let shape = elements.shape();
        let axis = axis.axis_of("elements", shape, elements.py(), -1)?;
        let from_end = axis as isize - shape.len() as isize;
        if !shape[axis].is_multiple_of(BLOCK) {
            return Err(PyValueError::new_err(format!(
                "elements has shape {}; axis {from_end} has length {}, which must be a multiple of {BLOCK}",
                tuple(shape),
                shape[axis]
            )));
        }
        let mut blocks = shape.to_vec();
        blocks[axis] /= BLOCK;
        if scales.shape() != blocks {
            let (came, blocks) = (tuple(scales.shape()), tuple(&blocks));
            return Err(PyValueError::new_err(format!("scales has shape {came}; it must have shape {blocks}")));
        }
        let descr = dtype::descr_of(scales.py(), Format::F8E8M0Fnu)?;
        let scales = scales.call_method1("view", (descr,))?.cast_into::<PyUntypedArray>()?;
        Ok(Self { elements: elements.clone().unbind(), scales: scales.unbind(), axis: from_end })
    }

    /// Return the numbers that the array stands for: element times scale.
    ///
    /// Parameters
    /// ----------
    /// dtype : dtype, optional
    ///     float32, bfloat16 or float16.
    /// out : array, optional
    ///     Where to write the result: this array's shape, `dtype`, C-contiguous.
    ///
    /// Returns
    /// -------
    /// array
    ///     Of this array's shape and type `dtype`; `out` itself if it was given.
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If `dtype` or the type of `out` is another.
    /// ValueError
    ///     If `out` has another shape or layout, or shares memory with the parts.
    ///
    /// Notes
    /// -----
    /// Each product is exact in float32 unless it leaves float32's range and becomes infinite;
    /// bfloat16 and float16 results are rounded once, to nearest. Scale byte 255 gives NaN.
    ///
    /// Examples
    /// --------
    /// >>> import ml_dtypes
    /// >>> import numpy as np
    /// >>> from trn3.numerics import quantize_mx
    /// >>> x = np.arange(32, dtype=np.float32)
    /// >>> print(quantize_mx(x, ml_dtypes.float8_e4m3fn).dequantize()[14:20])
    /// [14. 15. 16. 16. 18. 20.]
    #[pyo3(signature = (dtype=Given::NOTHING, *, out=None), text_signature = "($self, dtype='float32', *, out=None)")]
    fn dequantize<'py>(
        &self,
        py: Python<'py>,
        dtype: Given<'py>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let mut x = self.input(py)?;
        let format = dtype.read(|came| dtype::parse("dtype", came, "float32, bfloat16, float16"), Format::F32)?;
        let shape = x.elements.shape().to_vec();
        let descr = dtype::descr_of(py, format)?;
        let mut output = Output::resolve("out", out, descr, &shape, &mut [&mut x.elements, &mut x.scales])?;
        let (view, destination) = (x.view()?, output.array_mut(format)?);
        door::run(py, || trn3_numerics::dequantize_mx(&view, destination))?;
        Ok(output.into_array())
    }

    /// Pack four elements a word, as the hardware's x4 types do.
    ///
    /// Returns
    /// -------
    /// array
    ///     uint32 for fp8, uint16 for fp4; this array's shape with the last axis divided by 4.
    ///     Element 0 of each four is in the low bits.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     If the last axis is not a multiple of 4 long.
    ///
    /// Examples
    /// --------
    /// >>> import ml_dtypes
    /// >>> import numpy as np
    /// >>> from trn3.numerics import quantize_mx
    /// >>> x = np.arange(32, dtype=np.float32)
    /// >>> packed = quantize_mx(x, ml_dtypes.float4_e2m1fn).to_x4()
    /// >>> packed.dtype, hex(packed[-1])
    /// (dtype('uint16'), '0x7777')
    fn to_x4<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyUntypedArray>> {
        mx_layout::pack_x4(self.input(py)?.elements)
    }

    /// Unpack what `to_x4` packed.
    ///
    /// Parameters
    /// ----------
    /// packed : array
    ///     uint32 for fp8, uint16 for fp4.
    /// scales : array
    ///     As for `from_parts`.
    /// dtype : dtype
    ///     That of the elements: float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
    /// axis : int, optional
    ///     The blocked axis of the array, a multiple of 32 elements long.
    ///
    /// Returns
    /// -------
    /// MXArray
    ///     With the shape of `packed`, the last axis multiplied by 4.
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If `packed`, `scales` or `dtype` is of another type.
    /// ValueError
    ///     If the shapes or the axis do not fit.
    ///
    /// Examples
    /// --------
    /// >>> import ml_dtypes
    /// >>> import numpy as np
    /// >>> from trn3.numerics import MXArray
    /// >>> words = np.full(8, 0x2222, dtype=np.uint16)
    /// >>> scales = np.array([127], dtype=np.uint8)
    /// >>> print(MXArray.from_x4(words, scales, ml_dtypes.float4_e2m1fn).elements[:4])
    /// [1 1 1 1]
    #[classmethod]
    #[pyo3(
        signature = (packed, scales, dtype, axis=Given::NOTHING),
        text_signature = "($cls, packed, scales, dtype, axis=-1)"
    )]
    fn from_x4<'py>(
        cls: &Bound<'py, PyType>,
        packed: &Bound<'py, PyAny>,
        scales: &Bound<'py, PyAny>,
        dtype: &Bound<'py, PyAny>,
        axis: Given<'py>,
    ) -> PyResult<Self> {
        Self::from_parts(cls, mx_layout::unpack_x4(packed, dtype)?.as_any(), scales, axis)
    }

    /// Lay one tile of weights out as ``nc_matmul_mx`` reads it from SBUF.
    ///
    /// The array must be [K, F], blocked along axis 0, with K of 128, 256, 384 or 512: split a
    /// longer one first.
    ///
    /// Returns
    /// -------
    /// data : array, [K / 4, F]
    ///     uint32 for fp8, uint16 for fp4: element k = 32 b + 4 i + j lies on partition 8 b + i,
    ///     lane j, lane 0 in the low bits.
    /// scales : uint8 array, [K / 4, F]; [4, F] for K = 128
    ///     The scales of block b in row 32 (b // 4) + b % 4; all other rows are 0.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     If the array has another shape or axis.
    ///
    /// Examples
    /// --------
    /// >>> import ml_dtypes
    /// >>> import numpy as np
    /// >>> from trn3.numerics import quantize_mx
    /// >>> x = np.ones((256, 3), dtype=np.float32)
    /// >>> data, scales = quantize_mx(x, ml_dtypes.float8_e5m2, axis=0).to_trn3_layout()
    /// >>> data.shape, scales.shape, np.flatnonzero(scales[:, 0]).tolist()
    /// ((64, 3), (64, 3), [0, 1, 2, 3, 32, 33, 34, 35])
    fn to_trn3_layout<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyUntypedArray>, Bound<'py, PyUntypedArray>)> {
        mx_layout::to_trn3_layout(self.input(py)?)
    }

    /// Read a tile that `to_trn3_layout` laid out.
    ///
    /// Parameters
    /// ----------
    /// data : array, [K / 4, F]
    ///     uint32 for fp8, uint16 for fp4; K is 128, 256, 384 or 512.
    /// scales : uint8 array, [K / 4, F]; [4, F] for K = 128
    ///     Rows that hold no block's scales are not read. For K = 128 [32, F] is read too, as
    ///     version 0.1.0 laid it out.
    /// dtype : dtype
    ///     That of the elements: float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
    ///
    /// Returns
    /// -------
    /// MXArray
    ///     [K, F], blocked along axis 0.
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If `data`, `scales` or `dtype` is of another type.
    /// ValueError
    ///     If `data` or `scales` has another shape.
    ///
    /// Examples
    /// --------
    /// >>> import ml_dtypes
    /// >>> import numpy as np
    /// >>> from trn3.numerics import MXArray, quantize_mx
    /// >>> x = np.ones((128, 3), dtype=np.float32)
    /// >>> tile = quantize_mx(x, ml_dtypes.float8_e5m2, axis=0)
    /// >>> MXArray.from_trn3_layout(*tile.to_trn3_layout(), tile.dtype) == tile
    /// True
    #[classmethod]
    fn from_trn3_layout<'py>(
        _cls: &Bound<'py, PyType>,
        data: &Bound<'py, PyAny>,
        scales: &Bound<'py, PyAny>,
        dtype: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let (elements, scales) = mx_layout::from_trn3_layout(data, scales, dtype)?;
        Ok(Self { elements: elements.unbind(), scales: scales.unbind(), axis: -2 })
    }
}

impl MxArray {
    pub(crate) fn new(elements: Output<'_>, scales: Output<'_>, axis: isize) -> Self {
        Self { elements: elements.into_array().unbind(), scales: scales.into_array().unbind(), axis }
    }

    /// Elements, scales and axis.
    pub(crate) fn parts<'py>(&self, py: Python<'py>) -> Parts<'py> {
        (self.elements.bind(py).clone(), self.scales.bind(py).clone(), self.axis)
    }

    fn input<'py>(&self, py: Python<'py>) -> PyResult<MxInput<'py>> {
        MxInput::new(["elements", "scales"], &self.parts(py))
    }

    /// The operand of a product, which has to be blocked along its contraction axis.
    pub(crate) fn blocked<'a>(argument: &str, came: &'a Bound<'_, PyAny>, axis: isize) -> PyResult<&'a Self> {
        let array = arguments::class::<Self>(argument, "MXArray", came)?.get();
        let rank = array.elements.bind(came.py()).ndim() as isize;
        if array.axis != axis && rank >= 2 {
            let (got, wanted) = (array.axis + rank, axis + rank);
            let text = format!(
                "{argument} is blocked along axis {got} ({}); it must be its contraction axis, {wanted} ({axis})",
                array.axis
            );
            return Err(PyValueError::new_err(text));
        }
        Ok(array)
    }
}

fn element_type(array: &Bound<'_, PyUntypedArray>) -> PyResult<Option<Format>> {
    Ok(dtype::format_of(&array.dtype())?.map(|(format, _)| format))
}

/// The array that an argument has to be, of a type that passes.
fn array_of<'a, 'py>(
    argument: &str,
    came: &'a Bound<'py, PyAny>,
    allowed: &str,
    passes: impl FnOnce(&Bound<'py, PyUntypedArray>) -> PyResult<bool>,
) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
    let came = match came.cast::<PyUntypedArray>() {
        Ok(array) if passes(array)? => return Ok(array),
        Ok(array) => format!("has dtype {}", array.dtype()),
        Err(_) => format!("is of type {}", came.get_type().name()?),
    };
    Err(PyTypeError::new_err(format!("{argument} {came}; allowed: an array of {allowed}")))
}
