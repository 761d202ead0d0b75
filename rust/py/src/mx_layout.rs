//! Bindings of x4 packing and of the tile layout.

use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_numerics::{BLOCK, Format, X4Word};

use crate::array::{Input, Output, Word, Words, tuple};
use crate::mx::{ELEMENTS, MxInput};
use crate::{door, dtype};

/// Elements in a word.
const LANES: usize = 4;

type Array<'py> = Bound<'py, PyUntypedArray>;

/// Elements, four in a word.
#[pyfunction(name = "pack_x4")]
#[pyo3(signature = (elements, /))]
pub(crate) fn pack_array<'py>(elements: &Bound<'py, PyAny>) -> PyResult<Array<'py>> {
    pack_x4(Input::new("elements", elements, ELEMENTS)?)
}

/// As [`pack_array`].
pub(crate) fn pack_x4(elements: Input<'_>) -> PyResult<Array<'_>> {
    match elements.format() {
        Format::F4E2M1Fn => pack::<u16>(elements),
        _ => pack::<u32>(elements),
    }
}

fn pack<'py, W: X4Word + Word>(elements: Input<'py>) -> PyResult<Array<'py>> {
    let py = elements.py();
    let mut shape = elements.shape().to_vec();
    if let Some(length) = shape.last_mut() {
        *length /= LANES;
    }
    let mut output = Output::allocate(numpy::dtype::<W>(py), &shape)?;
    let (view, packed) = (elements.view()?, output.words_mut::<W>()?);
    door::run(py, || trn3_numerics::pack_x4(&view, packed))?;
    Ok(output.into_array())
}

/// Elements of words that hold four.
#[pyfunction]
#[pyo3(signature = (packed, dtype, /))]
pub(crate) fn unpack_x4<'py>(packed: &Bound<'py, PyAny>, dtype: &Bound<'py, PyAny>) -> PyResult<Array<'py>> {
    match element_format(dtype)? {
        Format::F4E2M1Fn => unpack::<u16>(packed, Format::F4E2M1Fn),
        format => unpack::<u32>(packed, format),
    }
}

fn unpack<'py, W: X4Word + Word>(packed: &Bound<'py, PyAny>, format: Format) -> PyResult<Array<'py>> {
    let py = packed.py();
    let words = Words::<W>::new("packed", packed, W::NAME)?;
    let mut shape = words.shape().to_vec();
    match shape.last_mut() {
        Some(length) => *length *= LANES,
        None => return Err(PyValueError::new_err("packed has shape (); it must have at least one axis")),
    }
    let mut output = Output::allocate(dtype::descr_of(py, format)?, &shape)?;
    let (words, elements) = (words.as_slice(), output.array_mut(format)?);
    door::run(py, || trn3_numerics::unpack_x4(words, elements))?;
    Ok(output.into_array())
}

/// Words and rows of scales of a tile as the hardware reads it.
pub(crate) fn to_trn3_layout(x: MxInput<'_>) -> PyResult<(Array<'_>, Array<'_>)> {
    match x.elements.format() {
        Format::F4E2M1Fn => to_tile::<u16>(x),
        _ => to_tile::<u32>(x),
    }
}

fn to_tile<'py, W: X4Word + Word>(x: MxInput<'py>) -> PyResult<(Array<'py>, Array<'py>)> {
    let py = x.elements.py();
    let mut shape = x.elements.shape().to_vec();
    if let Some(length) = shape.first_mut() {
        *length /= LANES;
    }
    let mut data = Output::allocate(numpy::dtype::<W>(py), &shape)?;
    if let Some(length) = shape.first_mut() {
        *length = trn3_numerics::scale_rows(LANES * *length);
    }
    let mut scale_rows = Output::allocate(numpy::dtype::<u8>(py), &shape)?;
    {
        let (view, data, scale_rows) = (x.view()?, data.words_mut::<W>()?, scale_rows.words_mut()?);
        door::run(py, || trn3_numerics::to_trn3_layout(&view, data, scale_rows))?;
    }
    Ok((data.into_array(), scale_rows.into_array()))
}

/// Elements and scales of such a tile.
pub(crate) fn from_trn3_layout<'py>(
    data: &Bound<'py, PyAny>,
    scales: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
) -> PyResult<(Array<'py>, Array<'py>)> {
    match element_format(dtype)? {
        Format::F4E2M1Fn => from_tile::<u16>(data, scales, Format::F4E2M1Fn),
        format => from_tile::<u32>(data, scales, format),
    }
}

fn from_tile<'py, W: X4Word + Word>(
    data: &Bound<'py, PyAny>,
    scales: &Bound<'py, PyAny>,
    format: Format,
) -> PyResult<(Array<'py>, Array<'py>)> {
    let py = data.py();
    let data = Words::<W>::new("data", data, W::NAME)?;
    let scale_rows = Words::<u8>::new("scales", scales, "uint8")?;
    let (partitions, free) = match *data.shape() {
        [partitions @ (32 | 64 | 96 | 128), free] => (partitions, free),
        ref shape => {
            let needed = "it must have shape (K / 4, F) with K of 128, 256, 384 or 512";
            return Err(PyValueError::new_err(format!("data has shape {}; {needed}", tuple(shape))));
        }
    };
    let contraction = LANES * partitions;
    let wanted = [trn3_numerics::scale_rows(contraction), free];
    // Version 0.1.0 gave a tile of one quadrant as many rows as its data.
    if *scale_rows.shape() != wanted && scale_rows.shape() != data.shape() {
        let (came, shape) = (tuple(scale_rows.shape()), tuple(&wanted));
        return Err(PyValueError::new_err(format!("scales has shape {came}; it must have shape {shape}")));
    }
    let mut elements = Output::allocate(dtype::descr_of(py, format)?, &[contraction, free])?;
    let mut scales = Output::allocate(dtype::descr_of(py, Format::F8E8M0Fnu)?, &[contraction / BLOCK, free])?;
    {
        let (words, rows) = (data.as_slice(), scale_rows.as_slice());
        let (elements, scales) = (elements.array_mut(format)?, scales.array_mut(Format::F8E8M0Fnu)?);
        door::run(py, || trn3_numerics::from_trn3_layout(words, rows, elements, scales))?;
    }
    Ok((elements.into_array(), scales.into_array()))
}

fn element_format(came: &Bound<'_, PyAny>) -> PyResult<Format> {
    match dtype::parse("dtype", came, ELEMENTS)? {
        format @ (Format::F8E4M3Fn | Format::F8E5M2 | Format::F4E2M1Fn) => Ok(format),
        format => Err(dtype::refused("dtype", &format.to_string(), ELEMENTS)),
    }
}
