//! HBM: the bytes of each tensor, and how many there are in all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::bits;
use crate::storage::{HbmBytes, Storage};

/// Which contents of HBM tensors a memory sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Layer {
    /// Those that instructions compute.
    #[default]
    Real,
    /// Those of one of the runs beside it.
    Shadow(usize),
}

/// The contents of an HBM tensor.
pub(super) fn lock(storage: &Storage, layer: Layer) -> MutexGuard<'_, HbmBytes> {
    let real = || storage.hbm.lock().unwrap_or_else(PoisonError::into_inner);
    match layer {
        Layer::Real => real(),
        Layer::Shadow(number) => {
            let contents = storage.shadows[number].get_or_init(|| Box::new(Mutex::new(copied(&real()))));
            contents.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

fn copied(contents: &HbmBytes) -> HbmBytes {
    HbmBytes {
        bytes: contents.bytes.clone(),
        initialised: contents.initialised.clone(),
        complete: contents.complete,
        written: contents.written,
        exact: contents.exact.as_ref().map(|plane| Box::new(plane.copied())),
        ..HbmBytes::default()
    }
}

/// Makes the bytes exist; pages never touched cost nothing.
pub(super) fn touch(contents: &mut HbmBytes, byte_size: usize) {
    if contents.bytes.len() < byte_size {
        contents.bytes = vec![0; byte_size];
    }
    if !contents.complete && contents.initialised.is_empty() {
        contents.initialised = vec![0; byte_size.div_ceil(u64::BITS as usize)];
    }
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
