//! Arrays as callers hold them: any strides and byte order in, C-contiguous native out.
//!
//! Views are bytes plus a layout, so that every format, stride and byte order takes the same safe path: kernels
//! always see short, aligned, native, contiguous chunks, straight from the caller's memory where it already is so.

use std::ops::Range;

use bytemuck::Pod;
use half::{bf16, f16};

use crate::error::{Error, Result};
use crate::format::Format;
pub(crate) use crate::scratch::AlignedBytes;

/// A Rust type whose slices are arrays of one [`Format`].
pub trait Element: Pod {
    /// The format of the type.
    const FORMAT: Format;
}

impl Element for f32 {
    const FORMAT: Format = Format::F32;
}
impl Element for bf16 {
    const FORMAT: Format = Format::Bf16;
}
impl Element for f16 {
    const FORMAT: Format = Format::F16;
}

/// Number of elements of a shape.
pub(crate) fn element_count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// A read-only n-dimensional array of one format.
#[derive(Clone, Debug)]
pub struct ArrayView<'a> {
    format: Format,
    bytes: &'a [u8],
    /// Byte offset of the first element.
    origin: usize,
    shape: Vec<usize>,
    /// Bytes from one element to the next along each axis.
    strides: Vec<isize>,
    swapped: bool,
    dense: bool,
}

impl<'a> ArrayView<'a> {
    /// A C-contiguous array over a typed slice.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shape's element count is not the slice's length.
    pub fn new<T: Element>(values: &'a [T], shape: &[usize]) -> Result<Self> {
        Self::from_codes(T::FORMAT, bytemuck::cast_slice(values), shape)
    }

    /// A C-contiguous array over the bytes of its codes (one byte an element for formats of at most 8 bits).
    ///
    /// # Errors
    /// [`Error::Shape`] when the shape does not fill the bytes exactly.
    pub fn from_codes(format: Format, bytes: &'a [u8], shape: &[usize]) -> Result<Self> {
        if element_count(shape) * format.item_size() != bytes.len() {
            return Err(Error::shape("shape", shape, format!("{} bytes of {format} came", bytes.len())));
        }
        let mut strides = vec![0; shape.len()];
        let mut step = format.item_size() as isize;
        for axis in (0..shape.len()).rev() {
            strides[axis] = step;
            step *= shape[axis] as isize;
        }
        Self::strided(format, bytes, 0, shape, &strides, false)
    }

    /// An array of any layout: `origin` is the byte offset of the first element in `bytes`, `strides` are in bytes,
    /// `swapped` says that elements are stored in the other byte order.
    ///
    /// # Errors
    /// [`Error::Value`] when an element would lie outside `bytes`.
    pub fn strided(
        format: Format,
        bytes: &'a [u8],
        origin: usize,
        shape: &[usize],
        strides: &[isize],
        swapped: bool,
    ) -> Result<Self> {
        let outside =
            || Error::value("strides", format!("{strides:?}"), "every element must lie inside the bytes given");
        if strides.len() != shape.len() {
            return Err(outside());
        }
        let item = format.item_size();
        if element_count(shape) > 0 {
            let (mut low, mut high) = (origin as i128, origin as i128);
            for (&length, &stride) in shape.iter().zip(strides) {
                let reach = (length as i128 - 1) * stride as i128;
                if reach < 0 { low += reach } else { high += reach }
            }
            if low < 0 || high + item as i128 > bytes.len() as i128 {
                return Err(outside());
            }
        }
        let mut dense = !swapped || item == 1;
        let mut step = item as isize;
        for (&length, &stride) in shape.iter().zip(strides).rev() {
            dense &= length == 1 || stride == step;
            step *= length as isize;
        }
        dense &= element_count(shape) == 0 || (bytes.as_ptr() as usize + origin).is_multiple_of(item);
        Ok(Self { format, bytes, origin, shape: shape.to_vec(), strides: strides.to_vec(), swapped, dense })
    }

    /// Format of the elements.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Length along each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        element_count(&self.shape)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same elements, last two axes exchanged.
    pub(crate) fn transposed(&self) -> Self {
        let rank = self.shape.len();
        let (mut shape, mut strides) = (self.shape.clone(), self.strides.clone());
        shape.swap(rank - 2, rank - 1);
        strides.swap(rank - 2, rank - 1);
        let mut view = self.clone();
        view.dense = false;
        view.shape = shape;
        view.strides = strides;
        view
    }

    /// The matrix (last two axes) at one position of the leading axes, where a length of 1 stands for any position.
    pub(crate) fn matrix(&self, batch: &[usize]) -> Self {
        let leading = self.shape.len() - 2;
        let mut position = vec![0; self.shape.len()];
        for axis in (0..leading).filter(|&axis| self.shape[axis] > 1) {
            position[axis] = batch[batch.len() - leading + axis];
        }
        let (shape, strides) = (self.shape[leading..].to_vec(), self.strides[leading..].to_vec());
        Self { origin: self.offset(&position), shape, strides, dense: false, ..self.clone() }
    }

    /// A C-contiguous array of more than two axes as one matrix whose rows are all its rows.
    pub(crate) fn as_rows(&self) -> Option<Self> {
        let (&columns, leading) = self.shape.split_last()?;
        let item = self.format.item_size() as isize;
        let shape = vec![element_count(leading), columns];
        self.dense.then(|| Self { shape, strides: vec![columns as isize * item, item], ..self.clone() })
    }

    /// Whether neighbours along the axis are adjacent native, aligned elements, so that lines along it are borrowed.
    pub(crate) fn runs_along(&self, axis: usize) -> bool {
        let item = self.format.item_size();
        (self.shape[axis] == 1 || self.strides[axis] == item as isize)
            && (!self.swapped || item == 1)
            && (self.bytes.as_ptr() as usize + self.origin).is_multiple_of(item)
            && self.strides.iter().all(|stride| stride.unsigned_abs().is_multiple_of(item))
    }

    /// The `count` elements from a position on along an axis, as native bytes: borrowed if `runs` says that the array
    /// [`Self::runs_along`] it, else gathered into `scratch`.
    pub(crate) fn line<'s>(
        &self,
        position: &[usize],
        axis: usize,
        runs: bool,
        count: usize,
        scratch: &'s mut AlignedBytes,
    ) -> &'s [u8]
    where
        'a: 's,
    {
        // An empty line has no memory to be aligned; the scratch has.
        if runs && count > 0 {
            return self.borrowed_line(position, count);
        }
        let item = self.format.item_size();
        let start = self.offset(position);
        let out = scratch.bytes_mut(count * item);
        let stride = self.strides[axis];
        match item {
            1 => self.gather_line::<1>(start, stride, out),
            2 => self.gather_line::<2>(start, stride, out),
            _ => self.gather_line::<4>(start, stride, out),
        }
        out
    }

    /// The `count` elements from a position on along an axis that the array [`Self::runs_along`].
    pub(crate) fn borrowed_line(&self, position: &[usize], count: usize) -> &'a [u8] {
        let start = self.offset(position);
        &self.bytes[start..start + count * self.format.item_size()]
    }

    fn gather_line<const ITEM: usize>(&self, start: usize, stride: isize, out: &mut [u8]) {
        for (step, slot) in out.as_chunks_mut::<ITEM>().0.iter_mut().enumerate() {
            let at = (start as isize + step as isize * stride) as usize;
            slot.copy_from_slice(&self.bytes[at..at + ITEM]);
            if self.swapped {
                slot.reverse();
            }
        }
    }

    fn offset(&self, position: &[usize]) -> usize {
        let steps = position.iter().zip(&self.strides);
        (self.origin as isize + steps.map(|(&index, &stride)| index as isize * stride).sum::<isize>()) as usize
    }

    /// Whether the elements lie in order, so that [`Self::chunk`] borrows them.
    pub(crate) fn is_dense(&self) -> bool {
        self.dense
    }

    /// Elements `range` in C order as contiguous native bytes: borrowed where they lie so, else gathered into `scratch`.
    pub(crate) fn chunk<'s>(&self, range: Range<usize>, scratch: &'s mut AlignedBytes) -> &'s [u8]
    where
        'a: 's,
    {
        let item = self.format.item_size();
        if self.dense {
            return &self.bytes[self.origin + range.start * item..self.origin + range.end * item];
        }
        let out = scratch.bytes_mut(range.len() * item);
        match item {
            1 => self.gather::<1>(range, out),
            2 => self.gather::<2>(range, out),
            _ => self.gather::<4>(range, out),
        }
        out
    }

    fn gather<const ITEM: usize>(&self, range: Range<usize>, out: &mut [u8]) {
        let Some((&run_length, outer_shape)) = self.shape.split_last() else {
            out.copy_from_slice(&self.bytes[self.origin..self.origin + ITEM]);
            return;
        };
        let run_stride = self.strides[outer_shape.len()];
        let mut position = vec![0; self.shape.len()];
        let mut index = range.start;
        let mut rest = out;
        while !rest.is_empty() {
            let mut remainder = index;
            for (slot, &length) in position.iter_mut().zip(&self.shape).rev() {
                *slot = remainder % length;
                remainder /= length;
            }
            let count = (run_length - index % run_length).min(rest.len() / ITEM);
            let (run, tail) = rest.split_at_mut(count * ITEM);
            self.gather_line::<ITEM>(self.offset(&position), run_stride, run);
            index += count;
            rest = tail;
        }
    }
}

/// A writable C-contiguous array of one format.
#[derive(Debug)]
pub struct ArrayMut<'a> {
    format: Format,
    bytes: &'a mut [u8],
    shape: Vec<usize>,
}

impl<'a> ArrayMut<'a> {
    /// An output over a typed slice.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shape's element count is not the slice's length.
    pub fn new<T: Element>(values: &'a mut [T], shape: &[usize]) -> Result<Self> {
        Self::from_codes(T::FORMAT, bytemuck::cast_slice_mut(values), shape)
    }

    /// An output over the bytes of its codes, which must be aligned to the element size.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shape does not fill the bytes exactly, [`Error::Value`] when they are not aligned.
    pub fn from_codes(format: Format, bytes: &'a mut [u8], shape: &[usize]) -> Result<Self> {
        if element_count(shape) * format.item_size() != bytes.len() {
            return Err(Error::shape("out", shape, format!("{} bytes of {format} came", bytes.len())));
        }
        if !bytes.is_empty() && !(bytes.as_ptr() as usize).is_multiple_of(format.item_size()) {
            return Err(Error::value("out", "not aligned", "its memory must be aligned to its element size"));
        }
        Ok(Self { format, bytes, shape: shape.to_vec() })
    }

    /// Format of the elements.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Length along each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(crate) fn into_bytes(self) -> &'a mut [u8] {
        self.bytes
    }

    pub(crate) fn expect(&self, argument: &'static str, format: Format, shape: &[usize]) -> Result<()> {
        if self.format != format {
            return Err(Error::dtype(argument, self.format, format));
        }
        if self.shape != shape {
            return Err(Error::shape(argument, &self.shape, format!("it must have shape {shape:?}")));
        }
        Ok(())
    }
}

/// Where an elementwise operation reads from: an array, or the memory of its own output.
#[derive(Clone, Debug)]
pub enum ElementSource<'a> {
    /// Another array; it must not overlap the output.
    Array(ArrayView<'a>),
    /// The output's own bytes, read as elements of this format (of the output's element size).
    InPlace(Format),
}

impl ElementSource<'_> {
    /// Format of the elements read.
    pub fn format(&self) -> Format {
        match self {
            ElementSource::Array(view) => view.format(),
            ElementSource::InPlace(format) => *format,
        }
    }

    /// Whether its elements lie in order in memory of their own.
    pub(crate) fn is_borrowed(&self) -> bool {
        matches!(self, ElementSource::Array(view) if view.is_dense())
    }
}

impl<'a> From<ArrayView<'a>> for ElementSource<'a> {
    fn from(view: ArrayView<'a>) -> Self {
        ElementSource::Array(view)
    }
}
