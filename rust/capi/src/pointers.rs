//! Reading and writing what hosts point to: each pointer checked for null and alignment, structures by their own size.

use std::mem::MaybeUninit;

use crate::status::{Fault, Result, Status};

/// A structure that hosts fill in: its first field is its size as the host's compiler knew it.
///
/// # Safety
/// The type is `repr(C)`, begins with a `usize` that is the size, and every pattern of its bits is a value of it.
pub(crate) unsafe trait Record: Copy {
    /// Bytes that the oldest structure of this kind has: up to the last field that is not optional.
    const MINIMUM: usize;
    /// The name in the header, for messages.
    const NAME: &'static str;
}

/// Sizes beyond this are no structure's: the field was never set.
const LARGEST: usize = 1 << 16;

/// The address of a pointer that may be used for a `T`.
fn check<T>(pointer: *const T, argument: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(Fault::value(format!("{argument} is null")));
    }
    if !pointer.is_aligned() {
        let needed = align_of::<T>();
        return Err(Fault::value(format!("{argument} is {pointer:p}; its address must be a multiple of {needed}")));
    }
    Ok(())
}

/// Reads a structure by the growth rule: what an older, smaller one lacks is zero, what a newer, larger one has more must
/// be zero.
///
/// # Safety
/// Unless it is null, `pointer` points to as many readable bytes as the `usize` that it points to says.
pub(crate) unsafe fn read<T: Record>(pointer: *const T, argument: &str) -> Result<T> {
    check(pointer, argument)?;
    // SAFETY: not null, aligned, and every structure begins with its size.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size == size_of::<T>() {
        // SAFETY: the whole structure is readable and any bits are a value of it.
        return Ok(unsafe { pointer.read() });
    }
    // SAFETY: `size` bytes are readable, by the caller's promise.
    unsafe { read_sized(pointer, size, argument) }
}

/// [`read`] for a size that is not this version's.
///
/// # Safety
/// As [`read`], `size` being what stands in the structure.
#[cold]
unsafe fn read_sized<T: Record>(pointer: *const T, size: usize, argument: &str) -> Result<T> {
    let known = size_of::<T>();
    let refuse = |why: String| Err(Fault::new(Status::Abi, format!("{argument}: {} {why}", T::NAME)));
    if size < T::MINIMUM || size > LARGEST {
        return refuse(format!("has size {size}; set it to sizeof({}): {} to {known} bytes", T::NAME, T::MINIMUM));
    }
    if size > known {
        // SAFETY: bytes of the structure beyond those of this version, readable by the caller's promise.
        let rest = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>().add(known), size - known) };
        if rest.iter().any(|&byte| byte != 0) {
            return refuse(format!("has {size} bytes, and beyond the {known} of this version they are not zero"));
        }
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let count = size.min(known);
    // SAFETY: `count` bytes are readable there and fit here; zeros and copied bytes are a value of T.
    Ok(unsafe {
        std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), count);
        value.assume_init()
    })
}

/// [`read`], null standing for the structure of zeros.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn read_or_default<T: Record>(pointer: *const T, argument: &str) -> Result<T> {
    if pointer.is_null() {
        // SAFETY: any bits are a value of T.
        return Ok(unsafe { MaybeUninit::<T>::zeroed().assume_init() });
    }
    // SAFETY: the caller's promise.
    unsafe { read(pointer, argument) }
}

/// A place for a result, checked before the work is done.
pub(crate) struct Place<T>(*mut T);

impl<T: Copy> Place<T> {
    /// # Safety
    /// Unless it is null, `pointer` may be written to until the end of the call.
    pub(crate) unsafe fn new(pointer: *mut T, argument: &str) -> Result<Self> {
        check(pointer, argument)?;
        Ok(Self(pointer))
    }

    /// # Safety
    /// As [`Self::new`]; null stands for a result that is not wanted.
    pub(crate) unsafe fn optional(pointer: *mut T, argument: &str) -> Result<Option<Self>> {
        // SAFETY: the caller's promise.
        if pointer.is_null() { Ok(None) } else { unsafe { Self::new(pointer, argument).map(Some) } }
    }

    pub(crate) fn put(&self, value: T) {
        // SAFETY: checked and promised at construction.
        unsafe { self.0.write(value) };
    }
}

/// The addresses that `count` elements take, for finding overlaps before anything is borrowed.
pub(crate) fn span<T>(pointer: *const T, count: usize) -> std::ops::Range<usize> {
    let bytes = count.saturating_mul(size_of::<T>());
    pointer.addr()..if pointer.is_null() { 0 } else { pointer.addr().saturating_add(bytes) }
}

/// Refuses what no slice may be: beyond the address space.
fn check_slice<T>(pointer: *const T, count: usize, argument: &str) -> Result<()> {
    check(pointer, argument)?;
    let bytes = count.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
    if bytes.and_then(|bytes| pointer.addr().checked_add(bytes)).is_none() {
        return Err(Fault::value(format!("{argument} has {count} elements, more than the address space")));
    }
    Ok(())
}

/// `count` elements to read; any pointer will do for none.
///
/// # Safety
/// Unless `count` is 0, `pointer` is null or points to `count` elements that nobody writes during the call; any bits are a
/// value of T.
pub(crate) unsafe fn slice<'a, T: Copy>(pointer: *const T, count: usize, argument: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check_slice(pointer, count, argument)?;
    // SAFETY: not null, aligned, of a possible size; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// `count` elements to write; any pointer will do for none.
///
/// # Safety
/// As [`slice`], and nobody else reads or writes them during the call.
pub(crate) unsafe fn slice_mut<'a, T: Copy>(pointer: *mut T, count: usize, argument: &str) -> Result<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_slice(pointer.cast_const(), count, argument)?;
    // SAFETY: not null, aligned, of a possible size; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
}

/// Text that a host gives with its length.
///
/// # Safety
/// As [`slice`].
pub(crate) unsafe fn text<'a>(pointer: *const std::ffi::c_char, length: usize, argument: &str) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice(pointer.cast::<u8>(), length, argument) }?;
    std::str::from_utf8(bytes)
        .map_err(|error| Fault::value(format!("{argument} is not UTF-8 from byte {} on", error.valid_up_to())))
}

/// Writes text with a NUL after it; where it does not fit, as many whole characters as do, and the status says so.
///
/// # Safety
/// As [`slice_mut`] for `capacity` bytes.
pub(crate) unsafe fn put_text(text: &str, buffer: *mut std::ffi::c_char, capacity: usize) -> Result<()> {
    // SAFETY: the caller's promise.
    let buffer = unsafe { slice_mut(buffer.cast::<u8>(), capacity, "buffer") }?;
    let needed = text.len() + 1;
    let Some(room) = buffer.len().checked_sub(1) else {
        return Err(Fault::new(Status::Capacity, format!("capacity is 0; the text needs {needed} bytes")));
    };
    let mut fits = room.min(text.len());
    while !text.is_char_boundary(fits) {
        fits -= 1;
    }
    buffer[..fits].copy_from_slice(&text.as_bytes()[..fits]);
    buffer[fits] = 0;
    if fits < text.len() {
        return Err(Fault::new(Status::Capacity, format!("capacity is {capacity}; the text needs {needed} bytes")));
    }
    Ok(())
}

/// Text in a fixed array, cut at a character where it is longer, the rest NUL.
pub(crate) fn fill<const SIZE: usize>(text: &str) -> [std::ffi::c_char; SIZE] {
    let mut fits = text.len().min(SIZE - 1);
    while !text.is_char_boundary(fits) {
        fits -= 1;
    }
    let mut filled = [0; SIZE];
    for (slot, &byte) in filled.iter_mut().zip(&text.as_bytes()[..fits]) {
        *slot = byte as std::ffi::c_char;
    }
    filled
}

/// An array of structures for results, as large as the first one says: an older host's are smaller than this version's, a
/// newer host's larger.
pub(crate) struct Records<T> {
    first: *mut T,
    stride: usize,
}

impl<T: Record> Records<T> {
    /// # Safety
    /// Unless it is null or `count` is 0, `pointer` points to so many structures of the size that the first one says.
    pub(crate) unsafe fn new(pointer: *mut T, count: usize, argument: &str) -> Result<Self> {
        if count == 0 {
            return Ok(Self { first: pointer, stride: 0 });
        }
        check(pointer.cast_const(), argument)?;
        // SAFETY: not null, aligned, and every structure begins with its size.
        let stride = unsafe { pointer.cast::<usize>().read() };
        if stride < T::MINIMUM || stride > LARGEST || !stride.is_multiple_of(align_of::<T>()) {
            let (name, least) = (T::NAME, T::MINIMUM);
            let message = format!("{argument}: {name} has size {stride}; set it to sizeof({name}), at least {least}");
            return Err(Fault::new(Status::Abi, message));
        }
        if stride.checked_mul(count).and_then(|bytes| pointer.addr().checked_add(bytes)).is_none() {
            return Err(Fault::value(format!("{argument} has {count} elements, more than the address space")));
        }
        Ok(Self { first: pointer, stride })
    }

    /// Writes a structure as far as the host's goes, its size the host's; what the host's has more is 0.
    pub(crate) fn put(&self, index: usize, value: T) {
        let known = self.stride.min(size_of::<T>());
        // SAFETY: inside the array, by the promise at construction; each structure begins with its size.
        unsafe {
            let place = self.first.cast::<u8>().add(index * self.stride);
            std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), place, known);
            place.add(known).write_bytes(0, self.stride - known);
            place.cast::<usize>().write(self.stride);
        }
    }
}

/// Writes one structure by the rule of [`Records`].
///
/// # Safety
/// As [`Records::new`] for one.
pub(crate) unsafe fn write<T: Record>(pointer: *mut T, value: T, argument: &str) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { Records::new(pointer, 1, argument) }?.put(0, value);
    Ok(())
}
