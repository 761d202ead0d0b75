//! The NumPy bridge: arrays as the core's views, outputs checked or allocated. The only unsafe file of the crate.
//!
//! Two rules keep it sound. Arguments stay referenced while the core reads them, so their memory stays allocated; and
//! memory handed out as writable is disjoint, byte by byte, from all other memory handed out with it: every output
//! passes [`Output::resolve`] or [`Output::elementwise`] together with every input of the call. What cannot be checked
//! is another Python thread that writes to an argument while a call reads it: as in NumPy, results are then unspecified.
#![allow(unsafe_code)]

use std::ops::Range;
use std::slice;

use numpy::npyffi::{self, PY_ARRAY_API};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule};
use trn3_numerics::{ArrayMut, ArrayView, Format, Pages, Source};

use crate::error::exception;
use crate::{door, dtype};

/// The bytes from an array's lowest to its highest element.
struct Extent {
    /// Addresses; empty where there is no element.
    addresses: Range<usize>,
    /// Offset of the first element in them.
    origin: usize,
}

fn fields(array: &Bound<'_, PyUntypedArray>) -> npyffi::PyArrayObject_fields {
    // SAFETY: the pointer is that of a live array object, as the type says, and reading its header has no side effect.
    unsafe { npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr()).read() }
}

fn has_flag(array: &Bound<'_, PyUntypedArray>, flag: i32) -> bool {
    fields(array).flags & flag != 0
}

fn extent(array: &Bound<'_, PyUntypedArray>) -> Extent {
    if array.is_empty() {
        return Extent { addresses: 0..0, origin: 0 };
    }
    let (mut below, mut above) = (0, 0);
    for (&length, &stride) in array.shape().iter().zip(array.strides()) {
        let reach = (length - 1) * stride.unsigned_abs();
        if stride < 0 { below += reach } else { above += reach }
    }
    let first = fields(array).data as usize;
    Extent { addresses: first - below..first + above + array.dtype().itemsize(), origin: below }
}

/// The memory of an array, for reading. The slice lives as long as the reference to the array.
fn bytes<'a>(array: &'a Bound<'_, PyUntypedArray>) -> (&'a [u8], usize) {
    let Extent { addresses, origin } = extent(array);
    if addresses.is_empty() {
        return (&[], 0);
    }
    let lowest = fields(array).data.cast::<u8>().wrapping_sub(origin);
    // SAFETY: NumPy keeps every element of an array inside one allocation, which lives while the array is referenced;
    // the range ends with the highest element. No output of the same call overlaps it (module documentation).
    (unsafe { slice::from_raw_parts(lowest, addresses.len()) }, origin)
}

fn as_array<'py>(argument: &str, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Ok(array) = object.cast::<PyUntypedArray>() {
        return Ok(array.clone());
    }
    let py = object.py();
    let array = py.import("numpy")?.getattr("asarray")?.call1((object,)).map_err(|error| {
        if error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyTypeError>(py) {
            PyValueError::new_err(format!("{argument} is no array and makes none: {}", error.value(py)))
        } else {
            error
        }
    })?;
    Ok(array.cast_into()?)
}

fn no_array(argument: &str, object: &Bound<'_, PyAny>, allowed: &str) -> PyErr {
    let class = object.get_type().name().map_or_else(|_| "thing".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{argument} is of type {class}; allowed: {allowed}"))
}

/// An argument that the core reads.
pub(crate) trait Held<'py> {
    /// Name of the argument.
    fn argument(&self) -> &'static str;
    /// Its array.
    fn array(&self) -> &Bound<'py, PyUntypedArray>;
    /// Replaces the array by one with the same elements.
    fn replace(&mut self, array: Bound<'py, PyUntypedArray>);
}

/// An array of one of the core's formats.
pub(crate) struct Input<'py> {
    argument: &'static str,
    array: Bound<'py, PyUntypedArray>,
    format: Format,
    swapped: bool,
}

impl<'py> Input<'py> {
    /// The argument as an array; `allowed` names the dtypes for the error message.
    pub(crate) fn new(argument: &'static str, object: &Bound<'py, PyAny>, allowed: &str) -> PyResult<Self> {
        let array = as_array(argument, object)?;
        let descr = array.dtype();
        match dtype::format_of(&descr)? {
            Some((format, swapped)) => Ok(Self { argument, array, format, swapped }),
            None if descr.has_object() && !object.is_instance_of::<PyUntypedArray>() => {
                Err(no_array(argument, object, &format!("an array of {allowed}")))
            }
            None => Err(dtype::unsupported(argument, &descr, allowed)),
        }
    }

    /// The interpreter.
    pub(crate) fn py(&self) -> Python<'py> {
        self.array.py()
    }

    /// Length along each axis.
    pub(crate) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// Format of the elements.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// The dtype of results of the same format.
    pub(crate) fn native_dtype(&self) -> PyResult<Bound<'py, PyArrayDescr>> {
        dtype::descr_of(self.py(), self.format)
    }

    /// What the core reads.
    pub(crate) fn view(&self) -> PyResult<ArrayView<'_>> {
        let (bytes, origin) = bytes(&self.array);
        ArrayView::strided(self.format, bytes, origin, self.array.shape(), self.array.strides(), self.swapped)
            .map_err(exception)
    }
}

impl<'py> Held<'py> for Input<'py> {
    fn argument(&self) -> &'static str {
        self.argument
    }

    fn array(&self) -> &Bound<'py, PyUntypedArray> {
        &self.array
    }

    fn replace(&mut self, array: Bound<'py, PyUntypedArray>) {
        self.array = array;
    }
}

/// A plain number whose arrays the core takes as slices; every bit pattern is one.
pub(crate) trait Word: numpy::Element + Copy {}

impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}
impl Word for f32 {}

/// An array of plain numbers, as a slice in C order.
pub(crate) struct Words<'py, T> {
    argument: &'static str,
    array: Bound<'py, PyUntypedArray>,
    element: std::marker::PhantomData<T>,
}

impl<'py, T: Word> Words<'py, T> {
    /// The argument, which must be an array; one that is not contiguous, aligned and native is copied. `allowed` says for
    /// the error message what may come.
    pub(crate) fn new(argument: &'static str, object: &Bound<'py, PyAny>, allowed: &str) -> PyResult<Self> {
        let py = object.py();
        let Ok(array) = object.cast::<PyUntypedArray>() else {
            return Err(no_array(argument, object, allowed));
        };
        let native = numpy::dtype::<T>(py);
        let descr = array.dtype();
        if !descr.typeobj().is(native.typeobj()) {
            return Err(PyTypeError::new_err(format!("{argument} has dtype {descr}; allowed: {allowed}")));
        }
        let plain = npyffi::NPY_ARRAY_CARRAY_RO;
        let array = if fields(array).flags & plain == plain && descr.is_native_byteorder() != Some(false) {
            array.clone()
        } else {
            // numpy.array(object, dtype, copy=True, order="C")
            let options =
                [("copy", true.into_pyobject(py)?.to_owned().into_any()), ("order", "C".into_pyobject(py)?.into_any())];
            let copy = py.import("numpy")?.getattr("array")?.call((array, native), Some(&options.into_py_dict(py)?))?;
            copy.cast_into()?
        };
        Ok(Self { argument, array, element: std::marker::PhantomData })
    }

    /// Length along each axis.
    pub(crate) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// The elements in C order.
    pub(crate) fn as_slice(&self) -> &[T] {
        if self.array.is_empty() {
            return &[];
        }
        // SAFETY: `new` made sure of dtype, alignment, byte order and C order, every bit pattern is a `Word`; the array is
        // referenced by `self`, and no output of the same call overlaps it (module documentation).
        unsafe { slice::from_raw_parts(fields(&self.array).data.cast(), self.array.len()) }
    }
}

impl<'py, T> Held<'py> for Words<'py, T> {
    fn argument(&self) -> &'static str {
        self.argument
    }

    fn array(&self) -> &Bound<'py, PyUntypedArray> {
        &self.array
    }

    fn replace(&mut self, array: Bound<'py, PyUntypedArray>) {
        self.array = array;
    }
}

/// The input of an elementwise operation: an array, or the memory of the output itself.
pub(crate) enum Elements<'py> {
    Array(Input<'py>),
    InPlace(Format),
}

impl Elements<'_> {
    /// What the core reads.
    pub(crate) fn source(&self) -> PyResult<Source<'_>> {
        match self {
            Elements::Array(input) => input.view().map(Source::Array),
            Elements::InPlace(format) => Ok(Source::InPlace(*format)),
        }
    }
}

/// An array that the core writes: contiguous, aligned, native, and disjoint from the inputs of the call.
pub(crate) struct Output<'py> {
    array: Bound<'py, PyUntypedArray>,
}

impl<'py> Output<'py> {
    /// A fresh array: where it is long in pages that were kept, or are for the next, else in memory of NumPy's.
    pub(crate) fn allocate(descr: Bound<'py, PyArrayDescr>, shape: &[usize]) -> PyResult<Self> {
        let py = descr.py();
        let bytes = shape.iter().try_fold(descr.itemsize(), |bytes, &length| bytes.checked_mul(length));
        if let Some(bytes) = bytes.filter(|&bytes| bytes > 0 && Pages::suit(bytes))
            && let Some(pages) = door::run(py, || Pages::new(bytes))?
        {
            return Self::in_pages(descr, shape, pages);
        }
        let mut shape = shape.to_vec();
        // SAFETY: the shape's pointer and length belong together, lengths are those of arrays and so fit the signed type,
        // and the call takes over the reference to the dtype. It returns a new reference, or null with an exception set.
        let array = unsafe {
            let object = PY_ARRAY_API.PyArray_Empty(
                py,
                shape.len() as i32,
                shape.as_mut_ptr().cast(),
                descr.into_dtype_ptr(),
                0,
            );
            Bound::from_owned_ptr_or_err(py, object)?
        };
        Ok(Self { array: array.cast_into()? })
    }

    /// An array in memory that its base owns.
    fn in_pages(descr: Bound<'py, PyArrayDescr>, shape: &[usize], mut pages: Pages) -> PyResult<Self> {
        let py = descr.py();
        let mut shape = shape.to_vec();
        let data = pages.bytes_mut().as_mut_ptr();
        let owner = PyCapsule::new_with_value(py, pages, c"trn3.pages")?;
        // SAFETY: as above, and the pages hold at least the elements in C order: their bytes were asked for. They stay where
        // they are when their owner moves, and the array's base keeps the owner as long as the array or a view of it lives.
        let array = unsafe {
            let object = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
                descr.into_dtype_ptr(),
                shape.len() as i32,
                shape.as_mut_ptr().cast(),
                std::ptr::null_mut(),
                data.cast(),
                npyffi::NPY_ARRAY_WRITEABLE,
                std::ptr::null_mut(),
            );
            let array = Bound::from_owned_ptr_or_err(py, object)?;
            if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) < 0 {
                return Err(PyErr::fetch(py));
            }
            array
        };
        Ok(Self { array: array.cast_into()? })
    }

    /// The caller's `out` if there is one, else a fresh array.
    pub(crate) fn resolve(
        argument: &'static str,
        given: Option<&Bound<'py, PyAny>>,
        descr: Bound<'py, PyArrayDescr>,
        shape: &[usize],
        inputs: &mut [&mut dyn Held<'py>],
    ) -> PyResult<Self> {
        let Some(given) = given else { return Self::allocate(descr, shape) };
        let output = Self::check(argument, given, &descr, shape)?;
        for input in inputs {
            output.part_from(argument, &mut **input)?;
        }
        Ok(output)
    }

    /// As [`Self::resolve`] for an elementwise operation, whose `out` may also be exactly its input.
    pub(crate) fn elementwise(
        argument: &'static str,
        given: Option<&Bound<'py, PyAny>>,
        descr: Bound<'py, PyArrayDescr>,
        mut input: Input<'py>,
        others: &mut [&mut dyn Held<'py>],
    ) -> PyResult<(Self, Elements<'py>)> {
        let shape = input.array.shape();
        let Some(given) = given else {
            return Ok((Self::allocate(descr, shape)?, Elements::Array(input)));
        };
        let output = Self::check(argument, given, &descr, shape)?;
        for other in others {
            output.part_from(argument, &mut **other)?;
        }
        let same_memory = extent(&input.array).addresses == extent(&output.array).addresses && !input.array.is_empty();
        if same_memory && input.array.is_c_contiguous() && !input.swapped {
            return Ok((output, Elements::InPlace(input.format)));
        }
        output.part_from(argument, &mut input)?;
        Ok((output, Elements::Array(input)))
    }

    fn check(
        argument: &str,
        given: &Bound<'py, PyAny>,
        descr: &Bound<'py, PyArrayDescr>,
        shape: &[usize],
    ) -> PyResult<Self> {
        let value_error = |text: String| Err(PyValueError::new_err(text));
        let Ok(array) = given.cast::<PyUntypedArray>() else {
            return Err(no_array(argument, given, &format!("a NumPy array of {descr}")));
        };
        let came = array.dtype();
        if !came.is(descr) && (!came.typeobj().is(descr.typeobj()) || came.is_native_byteorder() == Some(false)) {
            let order = if came.is_native_byteorder() == Some(false) { " in native byte order" } else { "" };
            return Err(PyTypeError::new_err(format!("{argument} has dtype {came}; allowed: {descr}{order}")));
        }
        if array.shape() != shape {
            let (came, shape) = (tuple(array.shape()), tuple(shape));
            return value_error(format!("{argument} has shape {came}; it must have shape {shape}"));
        }
        if !array.is_c_contiguous() {
            return value_error(format!("{argument} is not C-contiguous; it must be"));
        }
        if !has_flag(array, npyffi::NPY_ARRAY_WRITEABLE) {
            return value_error(format!("{argument} is read-only; it must be writable"));
        }
        if !array.is_aligned() {
            return value_error(format!("{argument} is not aligned; its memory must be aligned to its element size"));
        }
        Ok(Self { array: array.clone() })
    }

    /// Makes sure that writing the output leaves the input as it is.
    fn part_from(&self, argument: &str, input: &mut dyn Held<'py>) -> PyResult<()> {
        let (ours, theirs) = (extent(&self.array).addresses, extent(input.array()).addresses);
        if ours.is_empty() || theirs.is_empty() || ours.end <= theirs.start || theirs.end <= ours.start {
            return Ok(());
        }
        let py = self.array.py();
        let numpy = py.import("numpy")?;
        // An exact answer can take exponential work for contrived strides; past the bound the answer is "they overlap".
        let shared = numpy.getattr("shares_memory")?.call1((&self.array, input.array(), 1 << 16));
        if !matches!(shared.and_then(|shared| shared.is_truthy()), Ok(false)) {
            let name = input.argument();
            return Err(PyValueError::new_err(format!(
                "{argument} overlaps {name}; it must have memory of its own (an elementwise operation also takes {name} itself)"
            )));
        }
        // Its elements lie between those of the input: a slice over the input would cover both.
        let copy = numpy.getattr("array")?.call1((input.array(),))?;
        input.replace(copy.cast_into()?);
        Ok(())
    }

    /// Refuses two outputs that share memory.
    pub(crate) fn part_from_output(&self, argument: &str, other: &Self, other_argument: &str) -> PyResult<()> {
        let (ours, theirs) = (extent(&self.array).addresses, extent(&other.array).addresses);
        if ours.is_empty() || theirs.is_empty() || ours.end <= theirs.start || theirs.end <= ours.start {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("{argument} overlaps {other_argument}; each must have memory of its own")))
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.array.is_empty() {
            return &mut [];
        }
        let count = self.array.len() * self.array.dtype().itemsize();
        // SAFETY: `allocate` and `check` made sure that the array is contiguous and writable, and that it is disjoint from
        // every input and output of the call; it is referenced by `self`, and the slice borrows `self` exclusively.
        unsafe { slice::from_raw_parts_mut(fields(&self.array).data.cast(), count) }
    }

    /// What the core writes, as elements of a format (tfloat32 in a float32 array).
    pub(crate) fn array_mut(&mut self, format: Format) -> PyResult<ArrayMut<'_>> {
        let shape = self.array.shape().to_vec();
        ArrayMut::from_codes(format, self.bytes_mut(), &shape).map_err(exception)
    }

    /// What the core writes, as plain numbers.
    pub(crate) fn words_mut<T: Word>(&mut self) -> PyResult<&mut [T]> {
        let (ours, theirs) = (self.array.dtype(), numpy::dtype::<T>(self.array.py()));
        if !ours.is_equiv_to(&theirs) {
            return Err(PyTypeError::new_err(format!("out has dtype {ours}; allowed: {theirs}")));
        }
        let bytes = self.bytes_mut();
        if bytes.is_empty() {
            return Ok(&mut []);
        }
        let count = bytes.len() / size_of::<T>();
        // SAFETY: the bytes are those of an array of T, as was just checked, contiguous and aligned, as `allocate` and
        // `check` made sure; every bit pattern is a `Word`; and the borrow of `self` passes on to the slice.
        Ok(unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), count) })
    }

    /// The array, for the caller.
    pub(crate) fn into_array(self) -> Bound<'py, PyUntypedArray> {
        self.array
    }
}

/// A shape as Python prints it.
pub(crate) fn tuple(shape: &[usize]) -> String {
    match shape {
        [length] => format!("({length},)"),
        _ => format!("({})", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Whether two arrays have one type, shape and bits.
pub(crate) fn same_bits(one: &Bound<'_, PyUntypedArray>, other: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    if !one.dtype().is_equiv_to(&other.dtype()) || one.shape() != other.shape() {
        return Ok(false);
    }
    let bits = format!("u{}", one.dtype().itemsize());
    let view = |array: &Bound<'_, PyUntypedArray>| Ok::<_, PyErr>(array.call_method1("view", (&*bits,))?.unbind());
    one.py().import("numpy")?.call_method1("array_equal", (view(one)?, view(other)?))?.extract()
}
