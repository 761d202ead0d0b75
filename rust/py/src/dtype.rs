//! Formats of the core as NumPy dtypes, and back.

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use trn3_numerics::Format;

struct Dtype {
    format: Format,
    descr: Py<PyArrayDescr>,
    scalar: Py<PyType>,
}

static DTYPES: PyOnceLock<Vec<Dtype>> = PyOnceLock::new();

/// Looks the dtypes up; importing `ml_dtypes` is what registers its types with NumPy.
pub(crate) fn register(py: Python<'_>) -> PyResult<()> {
    dtypes(py).map(|_| ())
}

fn dtypes(py: Python<'_>) -> PyResult<&'static [Dtype]> {
    let found = DTYPES.get_or_try_init(py, || {
        let modules = [py.import("numpy")?, py.import("ml_dtypes")?];
        let stored = Format::ALL.into_iter().filter(|&format| format != Format::Tf32);
        stored
            .map(|format| {
                let name = format.to_string();
                let scalar = modules[0].getattr(&*name).or_else(|_| modules[1].getattr(&*name))?;
                let descr = PyArrayDescr::new(py, &scalar)?.unbind();
                Ok(Dtype { format, descr, scalar: scalar.cast_into::<PyType>()?.unbind() })
            })
            .collect::<PyResult<Vec<_>>>()
    })?;
    Ok(found)
}

/// The dtype of a format's arrays: those of tfloat32 are float32.
pub(crate) fn descr_of<'py>(py: Python<'py>, format: Format) -> PyResult<Bound<'py, PyArrayDescr>> {
    let stored = if format == Format::Tf32 { Format::F32 } else { format };
    match dtypes(py)?.iter().find(|dtype| dtype.format == stored) {
        Some(dtype) => Ok(dtype.descr.bind(py).clone()),
        None => Err(PyTypeError::new_err(format!("{format} has no dtype"))),
    }
}

/// The format of a dtype, and whether its elements are in the other byte order.
pub(crate) fn format_of(descr: &Bound<'_, PyArrayDescr>) -> PyResult<Option<(Format, bool)>> {
    let known = dtypes(descr.py())?;
    if let Some(dtype) = known.iter().find(|dtype| dtype.descr.is(descr)) {
        return Ok(Some((dtype.format, false)));
    }
    let scalar = descr.typeobj();
    let dtype = known.iter().find(|dtype| dtype.scalar.is(&scalar));
    Ok(dtype.map(|dtype| (dtype.format, descr.is_native_byteorder() == Some(false))))
}

/// The argument `argument` that names a format: an `ml_dtypes` or NumPy type, dtype or name, or `tfloat32`.
pub(crate) fn parse(argument: &str, came: &Bound<'_, PyAny>, allowed: &str) -> PyResult<Format> {
    let known = dtypes(came.py())?;
    if let Some(dtype) = known.iter().find(|dtype| dtype.scalar.is(came) || dtype.descr.is(came)) {
        return Ok(dtype.format);
    }
    if came.is_instance_of::<TFloat32>() || came.cast::<PyString>().is_ok_and(|name| name == "tfloat32") {
        return Ok(Format::Tf32);
    }
    let descr = if came.is_none() { None } else { PyArrayDescr::new(came.py(), came).ok() };
    let Some(descr) = descr else {
        return Err(refused(argument, &came.repr()?.to_string(), allowed));
    };
    match format_of(&descr)? {
        Some((format, false)) => Ok(format),
        Some((_, true)) => Err(refused(argument, &format!("{descr}, which is not in native byte order"), allowed)),
        None => Err(refused(argument, &descr.to_string(), allowed)),
    }
}

/// The exception for a format that an argument names and the operation does not take.
pub(crate) fn refused(argument: &str, came: &str, allowed: &str) -> PyErr {
    PyTypeError::new_err(format!("{argument} is {came}; allowed: {allowed}"))
}

/// The exception for an array whose dtype is none of the core's formats.
pub(crate) fn unsupported(argument: &str, descr: &Bound<'_, PyArrayDescr>, allowed: &str) -> PyErr {
    let advice = match descr.kind() {
        b'f' | b'i' | b'u' => {
            "; convert first, for example with x.astype(numpy.float32): going through float32 silently would round twice"
        }
        _ => "",
    };
    PyTypeError::new_err(format!("{argument} has dtype {descr}; allowed: {allowed}{advice}"))
}

/// TensorFloat-32 as a dtype argument: float32 arrays whose low 13 mantissa bits are zero.
///
/// It has no storage type of its own. Given as `dtype` where NumPy expects one, it stands for float32.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from trn3.numerics import cast, tfloat32
/// >>> third = cast(np.array([1 / 3], dtype=np.float32), tfloat32)
/// >>> third.dtype, hex(third.view(np.uint32)[0])
/// (dtype('float32'), '0x3eaaa000')
#[pyclass(frozen, module = "trn3.numerics")]
pub(crate) struct TFloat32;

#[pymethods]
impl TFloat32 {
    /// dtype of the arrays that hold such values: numpy.float32.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        descr_of(py, Format::Tf32)
    }

    fn __repr__(&self) -> &'static str {
        "trn3.numerics.tfloat32"
    }

    /// There is one marker: a copy or an unpickled one is the same object.
    fn __reduce__(&self) -> &'static str {
        "tfloat32"
    }
}
