//! HBM: the bytes of each tensor, and how many there are in all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::allocate::label;
use super::bits;
use super::lines;
use super::resolve::Resolved;
use crate::error::{Error, Result};
use crate::storage::{HbmBytes, Shortage, Storage, Zeroed};

/// Which contents of HBM tensors a memory sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Layer {
    /// Those that instructions compute.
    #[default]
    Real,
    /// Those of one of the runs beside it.
    Shadow(usize),
}

/// What was to be had, or why not.
pub(super) type Had<T> = std::result::Result<T, Shortage>;

/// The contents of an HBM tensor.
///
/// # Errors
/// [`Error::HostMemory`] where a run beside is to have its own and the host has no room for them.
pub(super) fn lock(storage: &Storage, layer: Layer) -> Result<MutexGuard<'_, HbmBytes>> {
    let contents = match layer {
        Layer::Real => &*storage.hbm,
        Layer::Shadow(number) => {
            let own = &storage.shadows[number];
            match own.get() {
                Some(contents) => contents,
                None => {
                    let real = storage.hbm.lock().unwrap_or_else(PoisonError::into_inner);
                    let copy = copied(&real).map_err(|shortage| short(storage, shortage))?;
                    own.get_or_init(|| Box::new(Mutex::new(copy)))
                }
            }
        }
    };
    Ok(contents.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A copy of what is held, as a run beside has it.
fn copied(contents: &HbmBytes) -> Had<HbmBytes> {
    let (bytes, initialised) = copies(contents)?;
    let mut held = contents.held.alike();
    for range in contents.held.ranges(bytes.len()) {
        held.claim(range, bytes.len())?;
    }
    let exact = contents.exact.as_ref().map(|plane| plane.copied(contents.held.ranges(bytes.len()))).transpose()?;
    Ok(HbmBytes {
        bytes,
        initialised,
        held,
        complete: contents.complete,
        written: contents.written,
        exact: exact.map(Box::new),
        ..HbmBytes::default()
    })
}

/// Copies of the bytes held and of their marks.
pub(super) fn copies(contents: &HbmBytes) -> Had<(Zeroed<u8>, Zeroed<u64>)> {
    let ranges = || contents.held.ranges(contents.bytes.len());
    // Held pieces are whole words of marks, the last one of a tensor apart.
    let words = ranges().map(|range| range.start / MARKED..range.end.div_ceil(MARKED));
    Ok((contents.bytes.copied(ranges())?, contents.initialised.copied(words)?))
}

/// Bytes that a word of marks is of.
const MARKED: usize = u64::BITS as usize;

/// Makes the bytes exist; what is never written is not held.
///
/// # Errors
/// [`Shortage`].
pub(super) fn touch(contents: &mut HbmBytes, byte_size: usize) -> Had<()> {
    if contents.bytes.len() < byte_size {
        contents.bytes = Zeroed::new(byte_size)?;
    }
    if !contents.complete && contents.initialised.is_empty() {
        contents.initialised = Zeroed::new(byte_size.div_ceil(MARKED))?;
    }
    Ok(())
}

/// As [`touch`], for a write of an operand: its bytes are held from here on.
///
/// # Errors
/// [`Shortage`].
pub(super) fn claim(contents: &mut HbmBytes, place: &Resolved, byte_size: usize) -> Had<()> {
    touch(contents, byte_size)?;
    let mut claimed = Ok(());
    if !contents.held.is_whole() {
        lines::each_run(place, |_, range| {
            if claimed.is_ok() {
                claimed = contents.held.claim(range, byte_size);
            }
        });
    }
    claimed
}

/// The error of a tensor whose contents cannot be had.
pub(super) fn short(storage: &Storage, shortage: Shortage) -> Error {
    let label = label(&storage.name, &storage.shape, storage.dtype);
    shortage.of(format_args!("tensor {label} of {} bytes in {}", storage.byte_size(), storage.buffer))
}

/// Whether a range of bytes is initialised.
pub(super) fn is_set(contents: &HbmBytes, range: std::ops::Range<usize>) -> bool {
    contents.complete || (!contents.initialised.is_empty() && bits::all_set(&contents.initialised, range))
}

/// The account of HBM that the cores of a logical core share.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedAccount(Arc<Mutex<Account>>);

impl SharedAccount {
    pub(super) fn lock(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts live HBM tensors. They are few and large: that one is gone is noticed when it matters.
#[derive(Debug, Default)]
pub(super) struct Account {
    tensors: Vec<(Weak<Storage>, u64)>,
    pub(super) live: u64,
    pub(super) peak: u64,
    /// What others hold of the same HBM: who, and how many bytes.
    pub(super) others: Vec<(String, u64)>,
}

impl Account {
    /// Whether so many more bytes fit.
    pub(super) fn fits(&mut self, bytes: u64, capacity: u64) -> bool {
        let bytes = self.others.iter().fold(bytes, |sum, (_, held)| sum.saturating_add(*held));
        if self.live.saturating_add(bytes) > capacity {
            self.settle();
        }
        self.live.saturating_add(bytes) <= capacity
    }

    pub(super) fn add(&mut self, storage: &Arc<Storage>) {
        let bytes = storage.byte_size() as u64;
        if self.live + bytes > self.peak {
            self.settle();
        }
        self.tensors.push((Arc::downgrade(storage), bytes));
        self.live += bytes;
        self.peak = self.peak.max(self.live);
    }

    /// Notices tensors that are gone; says whether there were any.
    pub(super) fn settle(&mut self) -> bool {
        let before = self.live;
        self.tensors.retain(|(storage, _)| storage.strong_count() > 0);
        self.live = self.tensors.iter().map(|(_, bytes)| bytes).sum();
        self.live != before
    }

    /// The live tensors, largest first.
    pub(super) fn largest(&self) -> Vec<Arc<Storage>> {
        let mut live: Vec<Arc<Storage>> = self.tensors.iter().filter_map(|(storage, _)| storage.upgrade()).collect();
        live.sort_by_key(|storage| (std::cmp::Reverse(storage.byte_size()), storage.id));
        live
    }
}
