//! NkiTensor: a view of a tensor's memory, with the methods of the language.

use std::collections::HashMap;

use pyo3::exceptions::{PyAttributeError, PyIndexError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PyList, PySlice, PyString, PyTuple};
use smallvec::SmallVec;
use trn3_machine::dtype::DType;
use trn3_machine::view::{Index, ScalarIndex, View};

use crate::machine::error::exception;
use crate::machine::handle::PyTensor;
use crate::machine::hooks::hook;
use crate::machine::operand::{scalar_index, tensor};
use crate::machine::register::PyRegister;

fn call_hook<'py>(
    py: Python<'py>,
    name: &str,
    arguments: impl pyo3::call::PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    match hook(py, name)? {
        Some(function) => function.call1(arguments),
        None => Err(PyRuntimeError::new_err(format!("no front end offers {name} on tensors; import trn3.nki"))),
    }
}

/// `nl.ds(start, size)`: start may be an int, a register or a one-element tensor.
#[pyclass(frozen, module = "trn3._trn3", name = "ds")]
pub(crate) struct DynamicSlice {
    #[pyo3(get)]
    start: Py<PyAny>,
    #[pyo3(get)]
    size: usize,
}

#[pymethods]
impl DynamicSlice {
    #[new]
    fn new(start: Py<PyAny>, size: i64) -> PyResult<Self> {
        match usize::try_from(size) {
            Ok(size) => Ok(Self { start, size }),
            Err(_) => Err(PyValueError::new_err(format!("ds size is {size}; allowed: at least 1"))),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("ds({}, {})", self.start.bind(py).repr()?, self.size))
    }
}

fn wrap(view: trn3_machine::Result<View>) -> PyResult<PyTensor> {
    view.map(|view| PyTensor { view }).map_err(exception)
}

fn optional_i64(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if value.is_none() { Ok(None) } else { value.extract().map(Some) }
}

fn key(object: &Bound<'_, PyAny>) -> PyResult<Index> {
    // Asked in the order of how often they come, by type: a failed conversion would cost more than the rest together.
    if let Ok(slice) = object.cast::<PySlice>() {
        let py = object.py();
        let part = |name: &Bound<'_, PyString>| optional_i64(&slice.getattr(name)?);
        let (start, stop) = (part(intern!(py, "start"))?, part(intern!(py, "stop"))?);
        return Ok(Index::Range { start, stop, step: part(intern!(py, "step"))? });
    }
    if object.is_instance_of::<PyInt>() {
        return Ok(Index::At(object.extract()?));
    }
    if let Ok(slice) = object.cast::<DynamicSlice>() {
        let slice = slice.get();
        let start = slice.start.bind(object.py());
        if let Ok(start) = start.extract::<i64>() {
            return Ok(Index::Range { start: Some(start), stop: Some(start + slice.size as i64), step: None });
        }
        return Ok(Index::Dynamic { index: scalar_index("ds start", start)?, size: slice.size });
    }
    if object.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Ellipsis);
    }
    if object.cast::<PyTensor>().is_ok() || object.cast::<PyRegister>().is_ok() {
        return Ok(Index::DynamicAt(scalar_index("index", object)?));
    }
    if object.get_type().name()? == "range" || object.hasattr("as_slice")? {
        let part = |name: &str| object.getattr(name)?.extract::<i64>();
        return Ok(Index::Range { start: Some(part("start")?), stop: Some(part("stop")?), step: Some(part("step")?) });
    }
    // NumPy's integers, and whatever else has __index__.
    object.extract().map(Index::At).map_err(|_| {
        let class = object.get_type().name().map_or_else(|_| "thing".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "a tensor is indexed by {class}; allowed: int, slice, ..., nl.ds, a register or a one-element tensor"
        ))
    })
}

/// Kernels seldom index more axes.
type Keys = SmallVec<[Index; 3]>;

fn take_keys(object: &Bound<'_, PyAny>, keys: &mut Keys) -> PyResult<()> {
    let Ok(tuple) = object.cast::<PyTuple>() else {
        keys.push(key(object)?);
        return Ok(());
    };
    for item in tuple.iter_borrowed() {
        keys.push(key(&item)?);
    }
    Ok(())
}

fn pairs(pattern: &Bound<'_, PyAny>) -> PyResult<Vec<(i64, i64)>> {
    pattern
        .try_iter()?
        .map(|pair| {
            let pair = pair?;
            // NumPy's integers go through __index__, too.
            match pair.extract::<Vec<i64>>().as_deref() {
                Ok(&[step, count]) => Ok((step, count)),
                _ => Err(PyValueError::new_err(format!(
                    "ap pattern entry {} is no pair; allowed: [step, count], two int",
                    pair.repr()?
                ))),
            }
        })
        .collect()
}

fn dtype_of(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    // The front end spells element types in many ways; it alone knows them all.
    if let Ok(name) = object.extract::<&str>()
        && let Ok(dtype) = name.parse()
    {
        return Ok(dtype);
    }
    let name: String = call_hook(object.py(), "dtype_name", (object,))?.extract()?;
    name.parse().map_err(exception)
}

#[pymethods]
impl PyTensor {
    /// Lengths along each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.view.shape.iter())
    }

    /// Distances along each axis, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.view.strides.iter())
    }

    /// First element, in elements.
    #[getter]
    fn offset(&self) -> i64 {
        self.view.offset
    }

    /// Element type.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let name = self.view.dtype.name();
        match hook(py, &format!("dtype:{name}"))? {
            Some(dtype) => Ok(dtype),
            None => Ok(name.into_pyobject(py)?.into_any()),
        }
    }

    /// Name of the element type.
    #[getter]
    fn dtype_name(&self) -> &'static str {
        self.view.dtype.name()
    }

    /// Memory that the tensor lies in.
    #[getter]
    fn buffer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let name = self.view.storage.buffer.name();
        match hook(py, &format!("buffer:{name}"))? {
            Some(buffer) => Ok(buffer),
            None => Ok(name.into_pyobject(py)?.into_any()),
        }
    }

    /// Name of the memory.
    #[getter]
    fn buffer_name(&self) -> &'static str {
        self.view.storage.buffer.name()
    }

    /// Name of the tensor.
    #[getter]
    fn name(&self) -> &str {
        &self.view.storage.name
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.view.shape.len()
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.view.len()
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.view.dtype.size()
    }

    /// Number of the memory behind the view: equal for all views of one tensor.
    #[getter]
    fn storage_id(&self) -> u64 {
        self.view.storage.id
    }

    /// (partition, byte, partitions, bytes per partition) on chip, None in HBM.
    #[getter]
    fn place(&self) -> Option<(usize, usize, usize, usize)> {
        self.view.storage.place.map(|place| (place.partition, place.byte, place.partitions, place.bytes))
    }

    /// Shape that the tensor was made with.
    #[getter]
    fn storage_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.view.storage.shape.iter())
    }

    /// The tensor that the view was made from; of a whole tensor, itself.
    #[getter]
    fn base_tensor<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let view = &slf.get().view;
        let whole = View::whole(std::sync::Arc::clone(&view.storage));
        let is_whole = view.shape == whole.shape
            && view.strides == whole.strides
            && view.offset == whole.offset
            && view.dtype == whole.dtype
            && !view.is_indirect();
        if is_whole { Ok(slf) } else { Bound::new(slf.py(), Self { view: whole }) }
    }

    fn is_contiguous(&self) -> bool {
        self.view.is_contiguous()
    }

    fn is_indirect(&self) -> bool {
        self.view.is_indirect()
    }

    /// [[stride, count], ...] in axis order, a fresh list.
    fn get_pattern<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (stride, count) in self.view.get_pattern() {
            list.append(PyList::new(py, [stride, count])?)?;
        }
        Ok(list)
    }

    fn __getitem__(&self, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut keys = Keys::new();
        take_keys(object, &mut keys)?;
        wrap(self.view.index(&keys))
    }

    fn __setitem__(slf: Bound<'_, Self>, object: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        call_hook(slf.py(), "setitem", (slf.clone(), object, value)).map(drop)
    }

    fn __len__(&self) -> usize {
        self.view.shape.first().copied().unwrap_or(0)
    }

    fn __iter__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a tensor is not iterated over; index it"))
    }

    #[pyo3(signature = (dim, start, end, step=1))]
    fn slice(&self, dim: i64, start: i64, end: i64, step: i64) -> PyResult<Self> {
        wrap(self.view.slice(self.dim("slice", "dim", dim)?, start, end, step))
    }

    fn select(&self, dim: i64, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dim = self.dim("select", "dim", dim)?;
        match index.extract::<i64>() {
            Ok(index) => wrap(self.view.select(dim, index)),
            Err(_) => wrap(self.view.select_dynamic(dim, scalar_index("index", index)?)),
        }
    }

    #[pyo3(signature = (dim, index=None, *, vector_offset=None))]
    fn vector_select(
        &self,
        dim: i64,
        index: Option<&Bound<'_, PyAny>>,
        vector_offset: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let dim = self.dim("vector_select", "dim", dim)?;
        let (name, picked) = match (index, vector_offset) {
            (Some(index), None) => ("index", index),
            (None, Some(offset)) => ("vector_offset", offset),
            (Some(_), Some(_)) => return Err(PyTypeError::new_err("vector_select got vector_offset twice")),
            (None, None) => return Err(PyTypeError::new_err("vector_select misses vector_offset: a tile of indexes")),
        };
        wrap(self.view.vector_select(dim, tensor("vector_select", name, picked)?.clone()))
    }

    #[pyo3(signature = (*positional, dims=None))]
    fn permute(&self, positional: &Bound<'_, PyTuple>, dims: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let dims: Vec<usize> = integers("permute", "dims", positional, dims)?
            .into_iter()
            .map(|dim| self.dim("permute", "dims", dim))
            .collect::<PyResult<_>>()?;
        wrap(self.view.permute(&dims))
    }

    fn broadcast(&self, dim: i64, size: usize) -> PyResult<Self> {
        wrap(self.view.broadcast(self.dim("broadcast", "dim", dim)?, size))
    }

    fn expand_dim(&self, dim: i64) -> PyResult<Self> {
        // Counted in the result, which has one axis more.
        let rank = self.view.shape.len() as i64 + 1;
        wrap(self.view.expand_dim(self.dim_of("expand_dim", "dim", dim, rank)?))
    }

    fn squeeze_dim(&self, dim: i64) -> PyResult<Self> {
        wrap(self.view.squeeze_dim(self.dim("squeeze_dim", "dim", dim)?))
    }

    fn reshape_dim(&self, dim: i64, shape: Vec<i64>) -> PyResult<Self> {
        wrap(self.view.reshape_dim(self.dim("reshape_dim", "dim", dim)?, &shape))
    }

    fn flatten_dims(&self, start_dim: i64, end_dim: i64) -> PyResult<Self> {
        let start = self.dim("flatten_dims", "start_dim", start_dim)?;
        wrap(self.view.flatten_dims(start, self.dim("flatten_dims", "end_dim", end_dim)?))
    }

    #[pyo3(signature = (*positional, shape=None))]
    fn reshape(&self, positional: &Bound<'_, PyTuple>, shape: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        wrap(self.view.reshape(&integers("reshape", "shape", positional, shape)?))
    }

    #[pyo3(signature = (src_pattern, dst_pattern, fixed_sizes=None))]
    fn rearrange(
        &self,
        src_pattern: &Bound<'_, PyAny>,
        dst_pattern: &Bound<'_, PyAny>,
        fixed_sizes: Option<HashMap<String, usize>>,
    ) -> PyResult<Self> {
        let groups = |pattern: &Bound<'_, PyAny>| -> PyResult<Vec<Vec<String>>> {
            let group = |item: Bound<'_, PyAny>| match item.extract::<String>() {
                Ok(name) => Ok(vec![name]),
                Err(_) => item.extract(),
            };
            pattern.try_iter()?.map(|item| group(item?)).collect()
        };
        let sizes: Vec<(String, usize)> = fixed_sizes.unwrap_or_default().into_iter().collect();
        let (source, target) = (groups(src_pattern)?, groups(dst_pattern)?);
        let source: Vec<Vec<&str>> = source.iter().map(|group| group.iter().map(String::as_str).collect()).collect();
        let target: Vec<Vec<&str>> = target.iter().map(|group| group.iter().map(String::as_str).collect()).collect();
        let source: Vec<&[&str]> = source.iter().map(Vec::as_slice).collect();
        let target: Vec<&[&str]> = target.iter().map(Vec::as_slice).collect();
        let sizes: Vec<(&str, usize)> = sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        wrap(self.view.rearrange(&source, &target, &sizes))
    }

    fn view(&self, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        wrap(self.view.reinterpret(dtype_of(dtype)?))
    }

    fn reinterpret_cast(&self, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.view(dtype)
    }

    #[pyo3(signature = (pattern, offset=None, scalar_offset=None, vector_offset=None, indirect_dim=0, dtype=None))]
    fn ap(
        slf: Bound<'_, Self>,
        pattern: &Bound<'_, PyAny>,
        offset: Option<i64>,
        scalar_offset: Option<&Bound<'_, PyAny>>,
        vector_offset: Option<&Bound<'_, PyAny>>,
        indirect_dim: usize,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let this = slf.get();
        let scalar: Option<ScalarIndex> =
            scalar_offset.map(|object| scalar_index("scalar_offset", object)).transpose()?;
        let vector = vector_offset.map(|object| tensor("ap", "vector_offset", object).cloned()).transpose()?;
        let dtype = dtype.map(dtype_of).transpose()?;
        if this.view.offset != 0 {
            call_hook(slf.py(), "ap_on_view", (slf.clone(),))?;
        }
        wrap(this.view.ap(&pairs(pattern)?, offset, scalar, vector, indirect_dim, dtype))
    }

    #[pyo3(signature = (index, num_elem=None))]
    fn indirect(&self, index: &Bound<'_, PyAny>, num_elem: Option<usize>) -> PyResult<Self> {
        // VectorE, ScalarE and GpSimdE take groups of 16; TensorE's 32 are told by its instructions.
        wrap(self.view.indirect(tensor("indirect", "index", index)?.clone(), num_elem, 16))
    }

    fn __repr__(slf: Bound<'_, Self>) -> PyResult<String> {
        match hook(slf.py(), "repr")? {
            Some(function) => function.call1((slf.clone(),))?.extract(),
            None => Ok(slf.get().view.to_string()),
        }
    }

    /// Name, shape, type, memory and layout, without values.
    fn describe(&self) -> String {
        self.view.to_string()
    }

    /// A tensor is true: kernels ask that way whether an optional argument is there. Its values are not asked; those of
    /// a register are.
    fn __bool__(&self) -> bool {
        true
    }

    /// The same tensor: a view is a handle, and its bytes stay where they are.
    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// As `__copy__`.
    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __getattr__(&self, name: &str) -> PyResult<()> {
        Err(PyAttributeError::new_err(format!("'NkiTensor' object has no attribute '{name}'")))
    }
}

impl PyTensor {
    /// An axis by its number; negative ones count from the end, as indexes do (**choice**: undocumented).
    fn dim(&self, method: &str, argument: &str, dim: i64) -> PyResult<usize> {
        self.dim_of(method, argument, dim, self.view.shape.len() as i64)
    }

    fn dim_of(&self, method: &str, argument: &str, dim: i64, rank: i64) -> PyResult<usize> {
        usize::try_from(if dim < 0 { dim + rank } else { dim }).map_err(|_| {
            PyIndexError::new_err(format!(
                "{method} {argument} of tensor `{}` is {dim}; allowed: {} to {}",
                self.view.storage.name,
                -rank,
                rank - 1
            ))
        })
    }
}

/// Integers that come one by one, as one sequence, or by keyword.
fn integers(
    method: &str,
    argument: &str,
    positional: &Bound<'_, PyTuple>,
    keyword: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<i64>> {
    let given = match (keyword, positional.len()) {
        (Some(keyword), 0) => keyword.clone(),
        (None, 1) if positional.get_item(0)?.extract::<i64>().is_err() => positional.get_item(0)?,
        (None, 1..) => positional.clone().into_any(),
        (Some(_), _) => return Err(PyTypeError::new_err(format!("{method} got {argument} twice"))),
        (None, 0) => return Err(PyTypeError::new_err(format!("{method} misses {argument}: a tuple of int"))),
    };
    given.extract().map_err(|_| {
        let came = given.repr().map_or_else(|_| "something else".to_owned(), |text| text.to_string());
        PyTypeError::new_err(format!("{method} {argument} is {came}; allowed: a tuple of int"))
    })
}
