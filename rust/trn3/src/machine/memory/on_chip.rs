//! SBUF and PSUM: their bytes, and what is known of each byte.

use super::bits::{ByteMask, PartitionBits, Partitions};
use crate::machine::storage::Place;

/// Bytes between the end of a partition and the next one's start. Partitions are a power of two long: without the gap
/// one column of a tile would fall into one set of every cache.
const GAP: usize = 64;

/// An on-chip memory. Nothing is allocated before the first touch, and pages never touched cost nothing.
#[derive(Debug)]
pub(super) struct OnChip {
    partitions: usize,
    partition_bytes: usize,
    words: Vec<u64>,
    pub(super) initialised: PartitionBits,
    /// Written by a matmul since allocation; PSUM alone has these.
    pub(super) matmul: Option<PartitionBits>,
    /// Whether matmuls write here.
    is_psum: bool,
}

impl OnChip {
    pub(super) fn new(partitions: usize, partition_bytes: usize, is_psum: bool) -> Self {
        Self {
            partitions,
            partition_bytes,
            words: Vec::new(),
            initialised: PartitionBits::default(),
            matmul: None,
            is_psum,
        }
    }

    pub(super) fn partitions(&self) -> usize {
        self.partitions
    }

    pub(super) fn partition_bytes(&self) -> usize {
        self.partition_bytes
    }

    /// Bytes from a byte of a partition to the same byte of the next one.
    pub(super) fn pitch(&self) -> usize {
        self.partition_bytes.next_multiple_of(GAP) + GAP
    }

    pub(super) fn is_touched(&self) -> bool {
        !self.words.is_empty()
    }

    /// Makes the memory exist.
    pub(super) fn touch(&mut self) {
        if self.words.is_empty() {
            self.words = vec![0; self.partitions * self.pitch() / size_of::<u64>()];
            self.initialised = PartitionBits::new(self.partitions, self.partition_bytes);
            self.matmul = self.is_psum.then(|| PartitionBits::new(self.partitions, self.partition_bytes));
        }
    }

    /// All words: bytes, which are initialised, which a matmul wrote.
    pub(super) fn words(&self) -> [&[u64]; 3] {
        [&self.words, self.initialised.words(), self.matmul.as_ref().map_or(&[], PartitionBits::words)]
    }

    /// Replaces all words by as many others.
    pub(super) fn set_words(&mut self, [words, initialised, matmul]: [Vec<u64>; 3]) {
        self.words = words;
        self.initialised.set_words(initialised);
        if let Some(bits) = &mut self.matmul {
            bits.set_words(matmul);
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.words)
    }

    /// Forgets what is known of a place: its bytes are a fresh tensor's.
    pub(super) fn forget(&mut self, place: Place) {
        if self.is_touched() {
            let at = Partitions { first: place.partition, count: place.partitions, step: 1 };
            let bytes = ByteMask::run(&(place.byte..place.byte + place.bytes));
            self.initialised.put(at, &bytes, false);
        }
        self.forget_products(place);
    }

    /// Forgets which bytes of a place matmuls wrote; the bytes stay.
    pub(super) fn forget_products(&mut self, place: Place) {
        if let Some(matmul) = &mut self.matmul {
            let at = Partitions { first: place.partition, count: place.partitions, step: 1 };
            matmul.put(at, &ByteMask::run(&(place.byte..place.byte + place.bytes)), false);
        }
    }
}
