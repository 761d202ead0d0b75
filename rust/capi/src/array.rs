//! Arrays as hosts describe them.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ops::Range;

use trn3_numerics::{ArrayView, Format};

use crate::dtype::{self, trn3_dtype};
use crate::pointers::{Record, read};
use crate::status::{Fault, Result, Status};

/// The most axes an array has.
pub const TRN3_MAX_AXES: usize = 8;

/// An array to read: any layout. Set `size` to sizeof(trn3_array).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_array {
    /// sizeof this structure.
    pub size: usize,
    /// The first element, aligned to the size of one; may be null where there is none.
    pub data: *const c_void,
    /// Format of the elements, TRN3_DTYPE_...
    pub dtype: trn3_dtype,
    /// Number of axes, at most TRN3_MAX_AXES.
    pub ndim: u32,
    /// Length of each axis.
    pub shape: [i64; TRN3_MAX_AXES],
    /// Bytes from one element to the next along each axis, multiples of the size of one. All zero (or beyond `size`):
    /// the array is C-contiguous.
    pub strides: [i64; TRN3_MAX_AXES],
}

/// An array to write. Its elements must not overlap one another.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct trn3_array_mut {
    /// sizeof this structure.
    pub size: usize,
    /// The first element, aligned to the size of one; may be null where there is none.
    pub data: *mut c_void,
    /// Format of the elements, TRN3_DTYPE_...
    pub dtype: trn3_dtype,
    /// Number of axes, at most TRN3_MAX_AXES.
    pub ndim: u32,
    /// Length of each axis.
    pub shape: [i64; TRN3_MAX_AXES],
    /// As in trn3_array. An array that is not C-contiguous is written through scratch memory.
    pub strides: [i64; TRN3_MAX_AXES],
}

// SAFETY: repr(C), `size` first, plain numbers and a pointer that is checked before use.
unsafe impl Record for trn3_array {
    const MINIMUM: usize = offset_of!(Self, strides);
    const NAME: &'static str = "trn3_array";
}

// SAFETY: as above.
unsafe impl Record for trn3_array_mut {
    const MINIMUM: usize = offset_of!(Self, strides);
    const NAME: &'static str = "trn3_array_mut";
}

/// A checked description: every element lies in possible memory, aligned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) format: Format,
    pub(crate) data: *mut u8,
    axes: usize,
    shape: [usize; TRN3_MAX_AXES],
    strides: [isize; TRN3_MAX_AXES],
    pub(crate) count: usize,
    /// Bytes before the first element that others of the array take.
    origin: usize,
    /// Bytes from the lowest to the end of the highest element.
    extent: usize,
    pub(crate) is_contiguous: bool,
}

impl Layout {
    /// Reads and checks an array that is read from.
    ///
    /// # Safety
    /// As [`read`].
    #[inline]
    pub(crate) unsafe fn of(array: *const trn3_array, argument: &str) -> Result<Self> {
        // SAFETY: the caller's promise.
        Self::new(&unsafe { read(array, argument) }?, argument)
    }

    /// Reads and checks an array that is written to.
    ///
    /// # Safety
    /// As [`read`].
    #[inline]
    pub(crate) unsafe fn of_mut(array: *const trn3_array_mut, argument: &str) -> Result<Self> {
        // SAFETY: the caller's promise.
        let array = unsafe { read(array, argument) }?;
        let trn3_array_mut { size, data, dtype, ndim, shape, strides } = array;
        let layout = Self::new(&trn3_array { size, data, dtype, ndim, shape, strides }, argument)?;
        if !layout.is_contiguous && !layout.has_distinct_elements() {
            let strides = &strides[..layout.axes];
            return Err(Fault::value(format!("{argument} has strides {strides:?}; its elements may overlap")));
        }
        Ok(layout)
    }

    fn new(array: &trn3_array, argument: &str) -> Result<Self> {
        let format = dtype::format(argument, array.dtype)?;
        let item = format.item_size();
        let axes = array.ndim as usize;
        if axes > TRN3_MAX_AXES {
            let message = format!("{argument} has {axes} axes; at most {TRN3_MAX_AXES} are allowed");
            return Err(Fault::new(Status::Shape, message));
        }
        let given = &array.shape[..axes];
        let impossible = |why: &str| Err(Fault::new(Status::Shape, format!("{argument} has shape {given:?}; {why}")));
        let (mut shape, mut strides) = ([0; TRN3_MAX_AXES], [0; TRN3_MAX_AXES]);
        let mut is_empty = false;
        for (length, &given) in shape.iter_mut().zip(given) {
            let Ok(given) = usize::try_from(given) else { return impossible("no axis is shorter than 0") };
            *length = given;
            is_empty |= given == 0;
        }
        // Axes of length 0 do not excuse the others: products of lengths are taken in many places.
        let mut bytes = item;
        for &length in &shape[..axes] {
            let Some(product) = bytes.checked_mul(length.max(1)).filter(|&bytes| isize::try_from(bytes).is_ok()) else {
                return impossible("so many elements fit in no memory");
            };
            bytes = product;
        }
        let mut step = item as isize;
        let is_default = array.strides[..axes].iter().all(|&stride| stride == 0);
        let mut is_contiguous = true;
        let (mut low, mut high) = (0i128, item as i128);
        for axis in (0..axes).rev() {
            let Ok(given) = isize::try_from(array.strides[axis]) else {
                return Err(Fault::value(format!(
                    "{argument} has strides {:?}; it would leave the address space",
                    &array.strides[..axes]
                )));
            };
            let stride = if is_default { step } else { given };
            strides[axis] = stride;
            is_contiguous &= shape[axis] == 1 || stride == step;
            let reach = (shape[axis] as i128 - 1) * stride as i128;
            if reach < 0 {
                low += reach
            } else {
                high += reach
            }
            step *= shape[axis].max(1) as isize;
            if stride % item as isize != 0 {
                let message = format!(
                    "{argument} has strides {:?}; each must be a multiple of the {item} bytes of an \
                     element",
                    &array.strides[..axes]
                );
                return Err(Fault::value(message));
            }
        }
        let count = if is_empty { 0 } else { bytes / item };
        let data = array.data.cast::<u8>().cast_mut();
        if count == 0 {
            return Ok(Self { format, data, axes, shape, strides, count, origin: 0, extent: 0, is_contiguous: true });
        }
        if data.is_null() {
            return Err(Fault::value(format!("{argument}.data is null")));
        }
        if !data.addr().is_multiple_of(item) {
            return Err(Fault::value(format!("{argument}.data is {data:p}; its address must be a multiple of {item}")));
        }
        let address = data.addr() as i128;
        if address + low < 0 || address + high > usize::MAX as i128 || high - low > isize::MAX as i128 {
            let strides = &array.strides[..axes];
            return Err(Fault::value(format!("{argument} has strides {strides:?}; it would leave the address space")));
        }
        let (origin, extent) = ((-low) as usize, (high - low) as usize);
        Ok(Self { format, data, axes, shape, strides, count, origin, extent, is_contiguous })
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape[..self.axes]
    }

    pub(crate) fn axes(&self) -> usize {
        self.axes
    }

    /// Bytes of the elements, packed.
    pub(crate) fn size(&self) -> usize {
        self.count * self.format.item_size()
    }

    /// The addresses from the lowest to the end of the highest element.
    pub(crate) fn span(&self) -> Range<usize> {
        let low = self.data.addr().wrapping_sub(self.origin);
        low..low.wrapping_add(self.extent)
    }

    /// Whether two arrays are the same elements in the same order.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        self.data == other.data
            && self.format.item_size() == other.format.item_size()
            && self.shape() == other.shape()
            && (0..self.axes).all(|axis| self.shape[axis] == 1 || self.strides[axis] == other.strides[axis])
    }

    /// The elements to read.
    ///
    /// # Safety
    /// They may be read, and are not written, while the view lives.
    #[inline]
    pub(crate) unsafe fn view<'a>(&self) -> Result<ArrayView<'a>> {
        let bytes = if self.count == 0 {
            &[]
        } else {
            // SAFETY: checked to be possible memory; that it is the host's array is its promise.
            unsafe { std::slice::from_raw_parts(self.data.sub(self.origin).cast_const(), self.extent) }
        };
        Ok(ArrayView::strided(self.format, bytes, self.origin, self.shape(), &self.strides[..self.axes], false)?)
    }

    /// Copies packed elements to where the array's are.
    ///
    /// # Safety
    /// They may be written, and nobody else uses them meanwhile; `packed` has [`Self::size`] bytes.
    pub(crate) unsafe fn scatter(&self, packed: &[u8]) {
        let item = self.format.item_size();
        let mut position = [0usize; TRN3_MAX_AXES];
        let mut offset = 0isize;
        for element in packed.chunks_exact(item) {
            // SAFETY: the offset of an element of the array, which lies in the host's memory.
            unsafe { std::ptr::copy_nonoverlapping(element.as_ptr(), self.data.offset(offset), item) };
            for axis in (0..self.axes).rev() {
                position[axis] += 1;
                offset += self.strides[axis];
                if position[axis] < self.shape[axis] {
                    break;
                }
                offset -= self.strides[axis] * self.shape[axis] as isize;
                position[axis] = 0;
            }
        }
    }

    /// Whether no two elements share memory, as far as sorted strides can show it.
    fn has_distinct_elements(&self) -> bool {
        let mut steps: Vec<(usize, usize)> = (0..self.axes)
            .filter(|&axis| self.shape[axis] > 1)
            .map(|axis| (self.strides[axis].unsigned_abs(), self.shape[axis]))
            .collect();
        steps.sort_unstable();
        let mut reach = self.format.item_size();
        steps.into_iter().all(|(stride, length)| {
            let is_distinct = stride >= reach;
            reach += stride * (length - 1);
            is_distinct
        })
    }
}
