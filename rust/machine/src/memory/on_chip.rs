//! SBUF and PSUM: their bytes, and what is known of each byte.

use std::sync::{Mutex, PoisonError};

use super::bits::{ByteMask, PartitionBits, Partitions};
use crate::error::Result;
use crate::storage::{Placement, Plane, Shortage};

/// Bytes that partitions start at a multiple of: a cache line of most hosts.
const LINE: usize = 64;

/// Bytes between the end of a partition and the next one's start. Partitions are a multiple of a power of two long: without
/// the gap one column of a tile would fall into one set of every cache, and with one of a single line the rows of a tile would
/// share theirs with seven others.
const GAP: usize = 9 * LINE;

/// Bytes of cores that are gone, all zero: the next core's pages are there already, and the system gives pages slowly.
static SPARE: Mutex<Vec<Vec<u64>>> = Mutex::new(Vec::new());

/// Most spare memories of one size: those of the cores of one logical core.
const SPARES: usize = 2;

/// Bytes of the annex to one of the memory: what fits into the memory together always finds room there, but for
/// freak patterns of pieces.
pub(super) const ANNEX: usize = 2;

/// An on-chip memory. Nothing is allocated before the first touch, and pages never touched cost nothing.
///
/// Behind the bytes of each partition lies, once it is opened, the annex, [`ANNEX`] times as many: for tensors that a
/// compiler, knowing all of a kernel before it places the first one, would have placed elsewhere.
#[derive(Debug)]
pub(super) struct OnChip {
    partitions: usize,
    /// Bytes that an address can name.
    addressable: usize,
    partition_bytes: usize,
    words: Vec<u64>,
    pub(super) initialised: PartitionBits,
    /// Values beside the bytes; None until one is kept.
    pub(super) exact: Option<Plane>,
}

impl OnChip {
    pub(super) fn new(partitions: usize, partition_bytes: usize) -> Self {
        Self {
            partitions,
            addressable: partition_bytes,
            partition_bytes,
            words: Vec::new(),
            initialised: PartitionBits::default(),
            exact: None,
        }
    }

    pub(super) fn partitions(&self) -> usize {
        self.partitions
    }

    /// Bytes of a partition, an open annex included.
    pub(super) fn partition_bytes(&self) -> usize {
        self.partition_bytes
    }

    /// Makes the annex part of the memory; few runs want it.
    ///
    /// # Errors
    /// [`Error::HostMemory`](crate::Error::HostMemory); nothing is changed then.
    pub(super) fn open_annex(&mut self) -> Result<()> {
        if self.partition_bytes > self.addressable {
            return Ok(());
        }
        self.lengthen(self.addressable * (1 + ANNEX))
    }

    /// Makes the memory long enough for a tensor that ends there.
    ///
    /// # Errors
    /// As [`OnChip::open_annex`].
    pub(super) fn lengthen_to(&mut self, end: usize) -> Result<()> {
        // Twice as long each time, so that growing costs no more than what is there.
        if end <= self.partition_bytes { Ok(()) } else { self.lengthen(end.max(2 * self.partition_bytes)) }
    }

    fn lengthen(&mut self, longer: usize) -> Result<()> {
        if self.is_touched() {
            let (before, now) = (self.pitch() / size_of::<u64>(), pitch(longer) / size_of::<u64>());
            let mut words = zeros(self.partitions * now)?;
            for (row, from) in words.chunks_exact_mut(now).zip(self.words.chunks_exact(before)) {
                row[..before].copy_from_slice(from);
            }
            if let Some(plane) = &mut self.exact {
                let (before, now) = (before * size_of::<u64>(), now * size_of::<u64>());
                plane.spread(self.partitions, before, now).map_err(|shortage| shortage.of(WHOLE))?;
            }
            self.words = words;
            self.initialised.lengthen(longer);
        }
        self.partition_bytes = longer;
        Ok(())
    }

    /// Bytes of a partition that an address can name; the annex begins there.
    pub(super) fn addressable(&self) -> usize {
        self.addressable
    }

    /// Bytes from a byte of a partition to the same byte of the next one.
    pub(super) fn pitch(&self) -> usize {
        pitch(self.partition_bytes)
    }

    pub(super) fn is_touched(&self) -> bool {
        !self.words.is_empty()
    }

    /// Makes the memory exist.
    pub(super) fn touch(&mut self) -> Result<()> {
        if self.words.is_empty() {
            let words = self.partitions * self.pitch() / size_of::<u64>();
            let mut spares = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            let spare = spares.iter().position(|spare| spare.len() == words).map(|index| spares.swap_remove(index));
            self.words = match spare {
                Some(spare) => spare,
                None => zeros(words)?,
            };
            self.initialised = PartitionBits::new(self.partitions, self.partition_bytes);
        }
        Ok(())
    }

    /// All words: bytes, and which of them are initialised.
    pub(super) fn words(&self) -> [Vec<u64>; 2] {
        [self.words.clone(), self.initialised.words()]
    }

    /// Replaces all words by as many others.
    pub(super) fn set_words(&mut self, [words, initialised]: [Vec<u64>; 2]) {
        self.words.copy_from_slice(&words);
        self.initialised.set_words(&initialised);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.words)
    }

    /// Copies a place and what is known of it to other bytes of the same partitions. Both start on whole words.
    pub(super) fn carry(&mut self, from: Placement, to: usize) {
        if !self.is_touched() {
            return;
        }
        let pitch = self.pitch();
        let bytes = self.bytes_mut();
        for partition in from.partition..from.partition + from.partitions {
            let row = partition * pitch;
            bytes.copy_within(row + from.byte..row + from.byte + from.bytes, row + to);
        }
        self.initialised.carry(from.byte..from.byte + from.bytes, to);
        if let Some(plane) = &mut self.exact {
            for partition in from.partition..from.partition + from.partitions {
                let row = partition * pitch;
                plane.carry(row + from.byte..row + from.byte + from.bytes, row + to);
            }
        }
    }

    /// Forgets what is known of a place: its bytes are a fresh tensor's.
    pub(super) fn forget(&mut self, place: Placement) {
        if self.is_touched() {
            let at = Partitions { first: place.partition, count: place.partitions, step: 1 };
            let bytes = ByteMask::run(&(place.byte..place.byte + place.bytes));
            self.initialised.put(at, &bytes, false);
        }
    }
}

/// What a memory is called that the host has no room for.
const WHOLE: &str = "the memories of a core";

fn zeros(words: usize) -> Result<Vec<u64>> {
    let short = |()| Shortage::Host { bytes: (words * size_of::<u64>()) as u64 }.of(WHOLE);
    bytemuck::allocation::try_zeroed_vec(words).map_err(short)
}

/// Bytes from one partition to the next where each has so many.
fn pitch(partition_bytes: usize) -> usize {
    partition_bytes.next_multiple_of(LINE) + GAP
}

impl Drop for OnChip {
    fn drop(&mut self) {
        if !self.is_touched() {
            return;
        }
        let full =
            |spares: &[Vec<u64>], words: usize| spares.iter().filter(|spare| spare.len() == words).count() >= SPARES;
        let words = self.words.len();
        if full(&SPARE.lock().unwrap_or_else(PoisonError::into_inner), words) {
            return;
        }
        // Whoever writes a byte marks it: where nothing was ever marked, nothing was written.
        let (partitions, pitch) = (self.partitions, self.pitch());
        let touched: Vec<_> = self.initialised.touched().collect();
        let end = self.partition_bytes;
        for partition in 0..partitions {
            let bytes = &mut self.bytes_mut()[partition * pitch..][..end];
            touched.iter().for_each(|range| bytes[range.start..range.end.min(end)].fill(0));
        }
        let spare = std::mem::take(&mut self.words);
        let mut spares = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if !full(&spares, words) {
            spares.push(spare);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_memories_are_zero_whatever_an_earlier_one_held() {
        for round in 0..2 * SPARES {
            let mut memory = OnChip::new(6, 5000);
            memory.touch().expect("room");
            assert!(memory.bytes().iter().all(|byte| *byte == 0), "round {round}");
            for (partition, range) in [(0, 0..1), (5, 4990..5000), (round, 700 * round..700 * round + 900)] {
                let first = partition * memory.pitch();
                memory.bytes_mut()[first + range.start..first + range.end].fill(0xff);
                memory.initialised.set_range(partition, range);
            }
        }
    }
}
