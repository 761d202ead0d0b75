//! Tensors without an address where the allocator of a running kernel puts them, for a run that is only looked at.

use std::collections::BTreeSet;

use super::SBUF_ALIGNMENT;
use super::allocator::Allocator;
use super::on_chip::ANNEX;
use super::size;
use crate::arch::ArchSpec;
use crate::storage::Buffer;

/// The bytes of one on-chip memory and of its annex, and which tensors hold them, by numbers of the caller's.
#[derive(Debug)]
pub(crate) struct TenantPlaces {
    bytes: Allocator,
    annex: Allocator,
    /// Where the annex begins.
    border: usize,
    live: BTreeSet<u32>,
}

impl TenantPlaces {
    /// Nobody is there.
    pub(crate) fn new(arch: &ArchSpec, buffer: Buffer) -> Self {
        let (border, usable, unit) = match buffer {
            Buffer::Psum => (arch.psum_partition_bytes(), arch.psum_partition_bytes(), size(arch.psum_bank_bytes)),
            _ => (arch.sbuf_partition_bytes, arch.sbuf_usable_bytes(), SBUF_ALIGNMENT),
        };
        let (border, usable) = (size(border), size(usable));
        let annex = border * ANNEX;
        Self {
            bytes: Allocator::new(border, usable, unit),
            annex: Allocator::new(annex, annex, unit),
            border,
            live: BTreeSet::new(),
        }
    }

    /// The first byte of a new tensor, and who gives way for it: those of the lowest rank first, none without one. None where
    /// that makes no room either.
    pub(crate) fn place<R: Ord>(
        &mut self,
        tensor: u32,
        bytes: u64,
        rank: impl Fn(u32) -> Option<R>,
    ) -> Option<(u64, Vec<u32>)> {
        let extent = self.bytes.extent(usize::try_from(bytes).ok()?);
        let mut gone = Vec::new();
        let mut start = self.find(extent);
        if start.is_none() {
            let ranked = |&tenant: &u32| rank(tenant).map(|rank| (rank, tenant));
            let mut tenants: Vec<(R, u32)> = self.live.iter().filter_map(ranked).collect();
            tenants.sort_unstable();
            let leaving: usize = tenants.iter().map(|&(_, tenant)| self.held(tenant)).sum();
            if self.automatic() - leaving + extent > self.bytes.usable() {
                return None;
            }
            for (_, tenant) in tenants {
                self.give_back(tenant);
                gone.push(tenant);
                start = self.find(extent);
                if start.is_some() {
                    break;
                }
            }
        }
        let start = start?;
        match start.checked_sub(self.border) {
            Some(inside) => self.annex.hold(inside, inside + extent, u64::from(tensor)),
            None => self.bytes.hold(start, start + extent, u64::from(tensor)),
        }
        self.live.insert(tensor);
        Some((start as u64, gone))
    }

    fn find(&self, extent: usize) -> Option<usize> {
        let in_annex = || {
            let start = if self.automatic() + extent <= self.bytes.usable() { self.annex.find(extent) } else { None };
            start.map(|start| start + self.border)
        };
        self.bytes.find(extent).or_else(in_annex)
    }

    fn automatic(&self) -> usize {
        self.bytes.automatic() + self.annex.automatic()
    }

    fn held(&self, tensor: u32) -> usize {
        self.bytes.held(u64::from(tensor)) + self.annex.held(u64::from(tensor))
    }

    /// A tensor holds its bytes no longer.
    pub(crate) fn give_back(&mut self, tensor: u32) {
        let places = if self.annex.holds(u64::from(tensor)) { &mut self.annex } else { &mut self.bytes };
        places.give_back(u64::from(tensor), false);
        self.live.remove(&tensor);
    }
}
