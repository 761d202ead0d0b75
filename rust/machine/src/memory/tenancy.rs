//! Who gives way where tensors want the same bytes of an on-chip memory.
//!
//! A compiler places tensors knowing the whole kernel: those without an address around those with one, each for as long
//! as it is used. Here they are placed as the kernel makes them, and held until its last reference goes. So a tensor
//! without an address moves to the annex when one with an address wants its bytes, or when all there is are pieces too
//! small; and when such tensors fill the memory, those used longest ago lose their bytes, for good.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::allocate::label;
use super::allocator::{Allocator, ENDLESS};
use super::on_chip::ANNEX;
use super::{Memory, Request};
use crate::error::{Error, Result};
use crate::isa::{Instruction, OperandRole};
use crate::storage::{Buffer, Placement, Storage};
use crate::view::{Register, RegisterOwner};

/// Where the tensors of one memory lie: in its bytes, or in the annex behind them.
#[derive(Debug)]
pub(super) struct Places {
    bytes: Allocator,
    annex: Allocator,
    /// Where the annex begins.
    border: usize,
    peak: usize,
    /// Whether all tensors without an address lie in the annex, which then has no end.
    is_unlimited: bool,
}

impl Places {
    pub(super) fn new(partition_bytes: usize, usable: usize, unit: usize, is_unlimited: bool) -> Self {
        let annex = if is_unlimited { ENDLESS } else { partition_bytes * ANNEX };
        Self {
            bytes: Allocator::new(partition_bytes, usable, unit),
            annex: Allocator::new(annex, annex, unit),
            border: partition_bytes,
            peak: 0,
            is_unlimited,
        }
    }

    pub(super) fn usable(&self) -> usize {
        self.bytes.usable()
    }

    /// Bytes of a partition that live tensors hold.
    pub(super) fn live(&self) -> usize {
        self.bytes.live() + self.annex.live()
    }

    /// The most that were ever live.
    pub(super) fn peak(&self) -> usize {
        self.peak.max(self.bytes.peak())
    }

    /// The extent a tensor without an address holds.
    pub(super) fn extent(&self, bytes: usize) -> usize {
        self.bytes.extent(bytes)
    }

    /// Whether a live tensor holds any of these bytes.
    pub(super) fn is_used(&self, start: usize, end: usize) -> bool {
        start < self.border && self.bytes.is_used(start, end)
    }

    /// A place for a tensor without an address.
    fn find(&self, bytes: usize) -> Option<usize> {
        self.bytes.find(bytes)
    }

    /// A place in the annex, as long as tensors without addresses fit into the memory together.
    fn find_in_annex(&self, bytes: usize) -> Option<usize> {
        let together = self.automatic().saturating_add(self.extent(bytes));
        let start = if together <= self.usable() { self.annex.find(bytes) } else { None };
        start.map(|start| start + self.border)
    }

    fn automatic(&self) -> usize {
        self.bytes.automatic() + self.annex.automatic()
    }

    pub(super) fn largest_free(&self) -> usize {
        self.bytes.largest_free()
    }

    pub(super) fn free(&self) -> usize {
        self.bytes.free()
    }

    /// A tensor now holds these bytes.
    pub(super) fn take(&mut self, start: usize, end: usize, storage: &Arc<Storage>) {
        match start.checked_sub(self.border) {
            Some(start) => self.annex.take(start, end - self.border, storage),
            None => self.bytes.take(start, end, storage),
        }
        self.peak = self.peak.max(self.live());
    }

    /// A tensor is gone, and holds its bytes no longer.
    pub(super) fn give_back(&mut self, id: u64, addressed: bool) {
        let places = if self.annex.holds(id) { &mut self.annex } else { &mut self.bytes };
        places.give_back(id, addressed);
    }

    /// The live tensors, largest first.
    pub(super) fn largest(&self) -> Vec<Arc<Storage>> {
        let mut live = self.bytes.largest();
        live.extend(self.annex.largest());
        live.sort_by_key(|storage| (std::cmp::Reverse(storage.place.map_or(0, |place| place.bytes)), storage.id));
        live
    }
}

/// What one look at an instruction's operands tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Examined {
    /// One has no elements: the instruction does nothing and takes no time.
    pub is_idle: bool,
    /// Elements of all together: how much there is to do.
    pub elements: usize,
}

impl Memory {
    /// Numbers of the tensors without an address that went since the last call, where places have no limit.
    pub(crate) fn take_gone(&mut self) -> Vec<u64> {
        self.settle();
        std::mem::take(&mut self.gone[1])
    }

    /// All tensors on chip that are gone since the last call, by number, in program order.
    pub(crate) fn take_went(&mut self) -> Vec<u64> {
        self.settle();
        std::mem::take(&mut self.gone[0])
    }

    /// Makes room up to a place on chip that another memory found.
    ///
    /// # Errors
    /// [`Error::HostMemory`].
    pub(crate) fn reach(&mut self, buffer: Buffer, place: Placement) -> Result<()> {
        let memory = if self.options.unlimited { self.on_chip_mut(buffer) } else { None };
        memory.map_or(Ok(()), |memory| memory.lengthen_to(place.byte + place.bytes))
    }

    /// A place for a tensor without an address: free bytes; else the annex, where only their pieces are too small or
    /// tensors with addresses hold them; else what tensors used longest ago leave, those made by the same line first.
    ///
    /// # Errors
    /// [`Error::HostMemory`] where the host has no room for the annex.
    pub(super) fn room(&mut self, request: &Request<'_>, row_bytes: usize) -> Result<Option<usize>> {
        let Some(start) = self.find_room(request, row_bytes) else { return Ok(None) };
        if start >= self.places(request.buffer).border
            && let Some(memory) = self.on_chip_mut(request.buffer)
        {
            memory.open_annex()?;
            memory.lengthen_to(start + row_bytes)?;
        }
        Ok(Some(start))
    }

    fn find_room(&mut self, request: &Request<'_>, row_bytes: usize) -> Option<usize> {
        let places = self.places(request.buffer);
        if places.is_unlimited {
            return places.annex.find_nearest(row_bytes).map(|start| start + places.border);
        }
        if let Some(start) = places.find(row_bytes).or_else(|| places.find_in_annex(row_bytes)) {
            return Some(start);
        }
        if places.extent(row_bytes) > places.usable() {
            return None;
        }
        let mut tenants = places.bytes.tenants();
        tenants.extend(places.annex.tenants());
        let used = |storage: &Storage| storage.tenancy.used.load(Ordering::Relaxed);
        tenants.retain(|(storage, _)| used(storage) > 0);
        tenants.sort_by_key(|(storage, _)| (storage.site != request.site, used(storage), storage.id));
        // Nobody goes unless that makes room.
        let leaving: usize = tenants.iter().map(|(_, bytes)| bytes.len()).sum();
        if places.automatic() - leaving + places.extent(row_bytes) > places.usable() {
            return None;
        }
        for (storage, _) in tenants {
            let heir = format!("{} of {}", label(request.name, request.shape, request.dtype), self.line(request));
            if storage.tenancy.evicted.set(heir).is_ok() {
                self.places_mut(request.buffer).give_back(storage.id, false);
            }
            let places = self.places(request.buffer);
            if let Some(start) = places.find(row_bytes).or_else(|| places.find_in_annex(row_bytes)) {
                return Some(start);
            }
        }
        None
    }

    /// Whether a tensor on chip was made in these memories; where its bytes lay may be another tensor's elsewhere. One
    /// that a host laid out belongs to whoever it is given to.
    fn owns(&self, storage: &Storage) -> bool {
        let own = Arc::as_ptr(&self.released).cast::<()>();
        storage.release.as_ref().is_none_or(|release| Arc::as_ptr(release).cast::<()>() == own)
    }

    /// Makes a register one of this launch, under the name that the kernel gave it, unless it has an owner.
    ///
    /// # Errors
    /// [`Error::Value`] names a register of another launch or core.
    pub fn own_register(&self, register: &Register, name: &str) -> Result<()> {
        register.owner.get_or_init(|| RegisterOwner { memory: self.number, name: name.to_owned() });
        self.refuse_foreign_register(register)
    }

    fn refuse_foreign_register(&self, register: &Register) -> Result<()> {
        match register.owner.get() {
            Some(owner) if owner.memory != self.number => {
                let name = match &owner.name[..] {
                    "" => format!("register {}", register.id),
                    name => format!("register `{name}`"),
                };
                Err(Error::Value(format!(
                    "{name} was made in another launch, or on another core; registers end with the kernel that made them"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Looks at the operands of an instruction, once: refuses tensors on chip and registers of other launches and other
    /// cores, which hold what is somebody else's here, and tells whether one is empty.
    ///
    /// # Errors
    /// [`Error::Value`] names the tensor or the register.
    pub(crate) fn examine(&self, instruction: &dyn Instruction) -> Result<Examined> {
        let (mut examined, mut foreign) = (Examined { is_idle: false, elements: 0 }, None);
        let mut registers = Ok(());
        let mut look = |role, register: &Register| {
            if registers.is_ok() {
                // The first instruction that writes a new one makes it this core's.
                let writes = role != OperandRole::Read;
                registers =
                    if writes { self.own_register(register, "") } else { self.refuse_foreign_register(register) };
            }
        };
        instruction.registers(&mut look);
        instruction.operands(&mut |_, view| {
            let elements = view.len();
            examined.is_idle |= elements == 0;
            examined.elements += elements;
            if foreign.is_none() && !self.owns(&view.storage) {
                foreign = Some(&view.storage);
            }
            if let Some(register) = view.index_register() {
                look(OperandRole::Read, register);
            }
        });
        registers.map_err(|error| Error::Value(format!("{}: {error}", instruction.name())))?;
        let Some(storage) = foreign.filter(|_| !examined.is_idle) else { return Ok(examined) };
        Err(Error::Value(format!(
            "{}: tensor {} in {} was made in another launch, or on another core; tensors on chip end with the kernel that \
             made them",
            instruction.name(),
            label(&storage.name, &storage.shape, storage.dtype),
            storage.buffer,
        )))
    }

    fn line(&self, request: &Request<'_>) -> String {
        (self.names)(request.site)
    }

    /// Moves tensors without an address out of a place that a kernel gave.
    ///
    /// # Errors
    /// The capacity error, where the annex has no room for one of them.
    pub(super) fn clear_for(&mut self, request: &Request<'_>, place: Placement) -> Result<()> {
        let places = self.places(request.buffer);
        let end = place.byte + place.bytes;
        if places.bytes.automatic() == 0 || !places.is_used(place.byte, end) {
            return Ok(());
        }
        let overlaps = |bytes: &Range<usize>| bytes.start < end && place.byte < bytes.end;
        for (storage, bytes) in places.bytes.tenants() {
            let Some(old) = storage.current_place() else { continue };
            if !overlaps(&bytes) || place.partition >= old.partition + old.partitions {
                continue;
            }
            let places = self.places(request.buffer);
            let Some(start) = places.annex.find(old.bytes).map(|start| start + places.border) else {
                return Err(self.capacity_error(request, place.bytes));
            };
            let extent = places.extent(old.bytes);
            if let Some(memory) = self.on_chip_mut(request.buffer) {
                memory.open_annex()?;
                memory.carry(old, start);
            }
            storage.tenancy.moved.store(start, Ordering::Relaxed);
            if let Some(matmul) = self.matmuls.get_mut(&storage.id) {
                matmul.move_to(Placement { byte: start, ..old });
            }
            let places = self.places_mut(request.buffer);
            places.give_back(storage.id, false);
            places.take(start, start + extent, &storage);
        }
        Ok(())
    }

    /// A tensor on chip is used: of those without an address, those used longest ago give way.
    ///
    /// # Errors
    /// The capacity error, where its own bytes went to another one.
    pub(super) fn note_tenant(&mut self, storage: &Storage) -> Result<()> {
        if storage.buffer.is_on_chip() {
            self.uses += 1;
            storage.tenancy.used.store(self.uses, Ordering::Relaxed);
            if let Some(heir) = storage.tenancy.evicted.get() {
                return Err(self.evicted_error(storage, heir));
            }
        }
        Ok(())
    }

    /// A tensor is used whose bytes went to another one.
    fn evicted_error(&self, storage: &Storage, heir: &str) -> Error {
        let memory = if storage.buffer == Buffer::Psum { "PSUM" } else { "SBUF" };
        let text = format!(
            "{memory} cannot hold all that is in use: tensor {} of {} is used again after its bytes went to tensor \
             {heir}, because of all live tensors it was the one used longest ago\nhint: {} bytes a partition are \
             usable; make tensors smaller, use them in another order, or give addresses",
            label(&storage.name, &storage.shape, storage.dtype),
            (self.names)(storage.site),
            self.places(storage.buffer).usable(),
        );
        if storage.buffer == Buffer::Psum { Error::PsumCapacity(text) } else { Error::SbufCapacity(text) }
    }
}
