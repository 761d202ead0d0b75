//! Arrays that begin as zeros and take memory of the host where they were written.
//!
//! An array of up to [`CONTIGUOUS`] bytes is one allocation. A longer one is an anonymous mapping without a reservation of
//! swap: the system gives a page when it is first written, so that 100 GiB of which 8 KiB are written hold 8 KiB. Pages of
//! our own would do so too under a limit of addresses (`ulimit -v`), where a mapping longer than the limit is refused; but
//! then no tile would be one slice, and every access of every kernel would look its pages up. Either way what cannot
//! be had is an error **(choice)**.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memmap2::{MmapMut, MmapOptions};

use super::budget::Shortage;
use crate::error::Error;

/// Most bytes of an array that is no mapping: the allocator's own arrays are made and freed faster.
const CONTIGUOUS: usize = 64 << 20;

/// Elements of the pieces in which copies leave zeros out.
const CHUNK: usize = 4096;

/// An array of zeros, lazily backed. It is used as a slice.
pub struct Zeroed<T>(Backing<T>);

enum Backing<T> {
    Allocated(Vec<T>),
    Mapped(MmapMut, PhantomData<T>),
}

impl<T: Pod> Zeroed<T> {
    /// So many zeros.
    ///
    /// # Errors
    /// [`Shortage::Host`] where the host has no room for them.
    pub fn new(length: usize) -> Result<Self, Shortage> {
        let bytes = length.checked_mul(size_of::<T>()).ok_or(Shortage::Host { bytes: u64::MAX })?;
        let short = Shortage::Host { bytes: bytes as u64 };
        if bytes <= CONTIGUOUS {
            return bytemuck::allocation::try_zeroed_vec(length).map(Self::from).map_err(|()| short);
        }
        // Pages begin at addresses that fit every plain type.
        let pages = MmapOptions::new().len(bytes).no_reserve_swap().map_anon().map_err(|_| short)?;
        Ok(Self(Backing::Mapped(pages, PhantomData)))
    }

    /// The same elements in memory of their own, `ranges` of them alone; every other one is 0.
    ///
    /// # Errors
    /// As [`Zeroed::new`].
    pub fn copied(&self, ranges: impl IntoIterator<Item = std::ops::Range<usize>>) -> Result<Self, Shortage> {
        let mut copy = Self::new(self.len())?;
        for range in ranges {
            let range = range.start.min(self.len())..range.end.min(self.len());
            // Zeros are there already, and would be held if they were written.
            for (to, from) in copy[range.clone()].chunks_mut(CHUNK).zip(self[range].chunks(CHUNK)) {
                if bytemuck::cast_slice::<T, u8>(from).iter().any(|byte| *byte != 0) {
                    to.copy_from_slice(from);
                }
            }
        }
        Ok(copy)
    }
}

/// So many zeros as a vector, for what is named.
///
/// # Errors
/// [`Error::HostMemory`] where the host has no room for them.
pub fn try_zeros<T: Pod>(length: usize, what: impl fmt::Display) -> Result<Vec<T>, Error> {
    let bytes = length.saturating_mul(size_of::<T>()) as u64;
    bytemuck::allocation::try_zeroed_vec(length).map_err(|()| Shortage::Host { bytes }.of(what))
}

/// A copy of elements as a vector, for what is named.
///
/// # Errors
/// As [`try_zeros`].
pub fn try_copy<T: Copy>(elements: &[T], what: impl fmt::Display) -> Result<Vec<T>, Error> {
    let mut copy = Vec::new();
    let short = |_| Shortage::Host { bytes: size_of_val(elements) as u64 }.of(what);
    copy.try_reserve_exact(elements.len()).map_err(short)?;
    copy.extend_from_slice(elements);
    Ok(copy)
}

impl<T> Default for Zeroed<T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<T> From<Vec<T>> for Zeroed<T> {
    fn from(elements: Vec<T>) -> Self {
        Self(Backing::Allocated(elements))
    }
}

impl<T: Pod> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Backing::Allocated(elements) => elements,
            Backing::Mapped(pages, _) => bytemuck::cast_slice(pages),
        }
    }
}

impl<T: Pod> DerefMut for Zeroed<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Backing::Allocated(elements) => elements,
            Backing::Mapped(pages, _) => bytemuck::cast_slice_mut(pages),
        }
    }
}

impl<T: Pod + PartialEq> PartialEq for Zeroed<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + Eq> Eq for Zeroed<T> {}

impl<T: Pod> fmt::Debug for Zeroed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} elements of {} bytes", self.len(), size_of::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_a_hundred_gigabytes_of_which_little_is_written() {
        let mut bytes = Zeroed::<u8>::new(100 << 30).expect("addresses");
        let last = bytes.len() - 1;
        (bytes[0], bytes[50 << 30], bytes[last]) = (1, 2, 3);
        assert_eq!((bytes[0], bytes[1], bytes[50 << 30], bytes[last]), (1, 0, 2, 3));
        let written = [0..4096, (50 << 30)..(50 << 30) + 1];
        let copy = bytes.copied(written).expect("addresses");
        assert_eq!((copy[0], copy[50 << 30], copy[last]), (1, 2, 0));
    }

    #[test]
    fn test_what_no_host_has_is_an_error() {
        for length in [usize::MAX, usize::MAX / 8, 1 << 58] {
            assert!(matches!(Zeroed::<u64>::new(length), Err(Shortage::Host { .. })), "{length}");
        }
    }

    #[test]
    fn test_both_backings_hold_words() {
        for length in [0, 1, CONTIGUOUS / 8, CONTIGUOUS / 8 + 1] {
            let mut words = Zeroed::<u64>::new(length).expect("room");
            assert_eq!(words.len(), length);
            if let Some(last) = words.last_mut() {
                assert_eq!(std::mem::replace(last, u64::MAX), 0);
                assert_eq!(words[length - 1], u64::MAX);
            }
        }
    }
}
