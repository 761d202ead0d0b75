//! Places on chip as the allocator of a running kernel finds them, for one that is only looked at.

use std::collections::BTreeSet;

use super::allocate::label;
use super::allocator::Allocator;
use super::tenancy::ENDLESS;
use super::{Request, SBUF_ALIGNMENT, size};
use crate::arch::ArchSpec;
use crate::error::Error;
use crate::storage::{Buffer, Placement};

/// The bytes of one memory, and which tensors of a trace hold them.
pub(crate) struct Placer {
    bytes: Allocator,
    /// Those that came and did not go, by number, oldest first.
    live: BTreeSet<u32>,
    /// Where there is no limit: the bytes that an address can name, behind which all lie.
    border: Option<usize>,
}

impl Placer {
    pub(crate) fn new(arch: &ArchSpec, buffer: Buffer) -> Self {
        let bytes = if buffer == Buffer::Psum {
            let all = size(arch.psum_partition_bytes());
            Allocator::new(all, all, size(arch.psum_bank_bytes))
        } else {
            Allocator::new(size(arch.sbuf_partition_bytes), size(arch.sbuf_usable_bytes()), SBUF_ALIGNMENT)
        };
        Self { bytes, live: BTreeSet::new(), border: None }
    }

    /// As of a memory whose places have no limit.
    pub(crate) fn endless(arch: &ArchSpec, buffer: Buffer) -> Self {
        let (border, unit) = match buffer {
            Buffer::Psum => (arch.psum_partition_bytes(), size(arch.psum_bank_bytes)),
            _ => (arch.sbuf_partition_bytes, SBUF_ALIGNMENT),
        };
        let bytes = Allocator::new(ENDLESS, ENDLESS, unit);
        Self { bytes, live: BTreeSet::new(), border: Some(size(border)) }
    }

    /// A tensor lies at an address.
    pub(crate) fn hold(&mut self, tensor: u32, place: Placement) {
        if self.border.is_none() {
            self.bytes.hold(place.byte, place.byte + place.bytes, u64::from(tensor));
            self.live.insert(tensor);
        }
    }

    /// Why a tensor has no place.
    pub(crate) fn lack(&self, request: &Request<'_>, bytes: usize) -> Error {
        let Request { name, shape, dtype, buffer, .. } = request;
        let memory = if *buffer == Buffer::Psum { "PSUM" } else { "SBUF" };
        let text = format!(
            "{memory} cannot hold tensor {}: it needs {} bytes per partition, {} are usable, {} are live there, the largest \
             free piece has {}",
            label(name, shape, *dtype),
            self.bytes.extent(bytes),
            self.bytes.usable(),
            self.bytes.live(),
            self.bytes.largest_free(),
        );
        if *buffer == Buffer::Psum { Error::PsumCapacity(text) } else { Error::SbufCapacity(text) }
    }

    /// The first byte of a new tensor; where there is no room, those of which `is_over` give way. None where that is not
    /// enough.
    pub(crate) fn place(&mut self, tensor: u32, bytes: u64, is_over: impl Fn(u32) -> bool) -> Option<u64> {
        let bytes = usize::try_from(bytes).ok()?;
        if self.bytes.extent(bytes) > self.bytes.usable() {
            return None;
        }
        if let Some(border) = self.border {
            let start = self.bytes.find_nearest(bytes)?;
            self.bytes.hold(start, start + self.bytes.extent(bytes), u64::from(tensor));
            self.live.insert(tensor);
            return Some((border + start) as u64);
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
