//! Places on chip as the allocator of a running kernel finds them, for one that is only looked at.

use std::collections::BTreeSet;

use super::allocate::label;
use super::allocator::{Allocator, ENDLESS};
use super::{Request, SBUF_ALIGNMENT, size};
use crate::arch::ArchSpec;
use crate::error::Error;
use crate::storage::{Buffer, Placement};

/// The bytes of one on-chip memory, all partitions alike, and which tensors hold them, by numbers of the caller's.
///
/// ```
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::memory::Placer;
/// use trn3_machine::storage::Buffer;
///
/// let mut psum = Placer::new(&*ArchSpec::shared("trn2")?, Buffer::Psum);
/// for tensor in 0..8 {
///     let byte = psum.find(2048).expect("eight banks");
///     psum.hold(tensor, byte, 2048);
/// }
/// assert_eq!(psum.find(1), None);
/// psum.give_back(5);
/// assert_eq!(psum.find(1), Some(5 * 2048));
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Debug)]
pub struct Placer {
    bytes: Allocator,
    /// Those that came and did not go, by number, oldest first.
    live: BTreeSet<u32>,
    /// Where there is no limit: the bytes that an address can name, behind which all lie.
    border: Option<usize>,
}

impl Placer {
    /// An empty one.
    pub fn new(arch: &ArchSpec, buffer: Buffer) -> Self {
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
    pub(crate) fn hold_address(&mut self, tensor: u32, place: Placement) {
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

    /// The first byte of a new tensor; None where there is no room.
    pub(crate) fn place(&mut self, tensor: u32, bytes: u64) -> Option<u64> {
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
        let start = self.bytes.find(bytes)?;
        self.bytes.hold(start, start + self.bytes.extent(bytes), u64::from(tensor));
        self.live.insert(tensor);
        Some(start as u64)
    }

    /// Bytes of a partition that tensors without an address may use.
    pub fn usable(&self) -> u64 {
        self.bytes.usable() as u64
    }

    /// What tensors start on, and take multiples of.
    pub fn unit(&self) -> u64 {
        self.bytes.extent(1) as u64
    }

    /// Bytes that a tensor of so many takes.
    pub fn extent(&self, bytes: u64) -> u64 {
        bytes.max(1).next_multiple_of(self.unit())
    }

    /// The first byte of the free place that was given back longest ago; as small tensors live long, they go to the far end
    /// of places of one age.
    pub fn find(&self, bytes: u64) -> Option<u64> {
        self.bytes.find(usize::try_from(self.extent(bytes)).ok()?).map(|start| start as u64)
    }

    /// The first byte of the smallest free place, however long ago it was given back; small tensors go to its far end.
    pub fn find_tight(&self, bytes: u64) -> Option<u64> {
        self.bytes.find_tight(usize::try_from(self.extent(bytes)).ok()?).map(|start| start as u64)
    }

    /// A tensor holds these bytes from here on, whoever else does.
    pub fn hold(&mut self, tensor: u32, start: u64, bytes: u64) {
        self.bytes.hold(size(start), size(start + bytes), u64::from(tensor));
        self.live.insert(tensor);
    }

    /// A tensor holds its bytes no longer.
    pub fn give_back(&mut self, tensor: u32) {
        if self.live.remove(&tensor) {
            self.bytes.give_back(u64::from(tensor), false);
        }
    }
}
