//! Places on chip as the allocator of a running kernel finds them, for one that is only looked at.

use std::collections::BTreeSet;

use super::allocator::Allocator;
use super::{SBUF_ALIGNMENT, size};
use crate::arch::ArchSpec;
use crate::storage::Buffer;

/// The bytes of one memory, and which tensors of a trace hold them.
pub(crate) struct Placer {
    bytes: Allocator,
    /// Those that came and did not go, by number, oldest first.
    live: BTreeSet<u32>,
}

impl Placer {
    pub(crate) fn new(arch: &ArchSpec, buffer: Buffer) -> Self {
        let bytes = if buffer == Buffer::Psum {
            let all = size(arch.psum_partition_bytes());
            Allocator::new(all, all, size(arch.psum_bank_bytes))
        } else {
            Allocator::new(size(arch.sbuf_partition_bytes), size(arch.sbuf_usable_bytes()), SBUF_ALIGNMENT)
        };
        Self { bytes, live: BTreeSet::new() }
    }

    /// The first byte of a new tensor; where there is no room, those of which `is_over` give way. None where that is not
    /// enough.
    pub(crate) fn place(&mut self, tensor: u32, bytes: u64, is_over: impl Fn(u32) -> bool) -> Option<u64> {
        let bytes = usize::try_from(bytes).ok()?;
        if self.bytes.extent(bytes) > self.bytes.usable() {
            return None;
        }
        let start = match self.bytes.find(bytes) {
            Some(start) => start,
            None => {
                let leaving: Vec<u32> = self.live.iter().copied().filter(|other| is_over(*other)).collect();
                let mut leaving = leaving.into_iter();
                loop {
                    self.give_back(leaving.next()?);
                    if let Some(start) = self.bytes.find(bytes) {
                        break start;
                    }
                }
            }
        };
        self.bytes.hold(start, start + self.bytes.extent(bytes), u64::from(tensor));
        self.live.insert(tensor);
        Some(start as u64)
    }

    pub(crate) fn give_back(&mut self, tensor: u32) {
        if self.live.remove(&tensor) {
            self.bytes.give_back(u64::from(tensor), false);
        }
    }
}
