//! Tensors of graphs from arrays, and back.

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use trn3_graph::{Tensor, TensorType};
use trn3_machine::dtype::DType;

use crate::array::{Output, Words};
use crate::door::Fault;

/// Element types of arrays in graphs.
const ALLOWED: &str = "bool, int8, int16, int32, uint8, uint16, uint32, float16, float32, bfloat16, float8_e4m3, \
                       float8_e4m3fn, float8_e5m2";

/// The element type of a dtype, by its name.
fn element_type(name: &str) -> Option<DType> {
    // These are held in float32 or integers of NumPy: their names are no dtypes.
    let is_own = |dtype: &DType| *dtype != DType::TFloat32 && !dtype.is_packed();
    name.parse::<DType>().ok().filter(is_own).filter(|dtype| dtype.is_integer() || dtype.is_float())
}

/// An array as a tensor: its elements in C order, little end first.
pub(crate) fn tensor(argument: &'static str, place: usize, given: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = given.py();
    let numpy = py.import("numpy")?;
    let given = numpy.call_method1("asarray", (given,))?;
    let shape: Vec<usize> = given.getattr("shape")?.extract()?;
    // It makes one axis of none.
    let array = numpy.call_method1("ascontiguousarray", (given,))?;
    let descr = array.cast::<PyUntypedArray>()?.dtype();
    let name: String = descr.getattr("name")?.extract()?;
    let Some(dtype) = element_type(&name) else {
        return Err(PyTypeError::new_err(format!("{argument}[{place}] has dtype {name}; allowed: {ALLOWED}")));
    };
    let native = match descr.is_native_byteorder() {
        Some(false) => array.call_method1("astype", (descr.call_method1("newbyteorder", ("=",))?,))?,
        _ => array,
    };
    let bytes = native.call_method1("reshape", (-1,))?.call_method1("view", (numpy::dtype::<u8>(py),))?;
    let words = Words::<u8>::new(argument, &bytes, "bytes")?;
    Tensor::from_bytes(TensorType::new(dtype, &shape), words.as_slice()).map_err(|error| error.exception(""))
}

/// A tensor as an array of the dtype of its name.
pub(crate) fn array<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let bytes = tensor.bytes();
    let mut output = Output::allocate(numpy::dtype::<u8>(py), &[bytes.len()])?;
    output.words_mut::<u8>()?.copy_from_slice(bytes);
    let name = tensor.dtype().name();
    let module = if tensor.dtype().format().is_some() { "ml_dtypes" } else { "numpy" };
    // NumPy knows its own floats by name, and those of ml_dtypes by their classes.
    let class = py.import(module)?.getattr(name).or_else(|_| py.import("numpy")?.getattr(name))?;
    let descr = PyArrayDescr::new(py, class)?;
    output.into_array().call_method1("view", (descr,))?.call_method1("reshape", (tensor.shape().to_vec(),))
}
