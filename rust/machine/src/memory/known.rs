//! What is known of bytes: whether anything wrote them, and whether a matmul did.

use super::bits::PartitionBits;
use super::missing::Missing;
use super::resolve::{Operand, Resolved};
use super::{Finding, Memory, bits, hbm, lines};
use crate::error::{Error, Result};
use crate::site::SiteId;
use crate::storage::{Buffer, Storage, Zeroed};
use crate::view::View;

/// Bytes that an element of an HBM operand may be from the next one for the whole span to be looked at first.
const SPARSE: usize = 2048;

/// Which elements of a PSUM operand matmuls have written since its allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Every one.
    All,
    /// None.
    None,
    /// Those that are true, in C order.
    Some(Vec<bool>),
}

impl Memory {
    /// Whether every byte of the operand is initialised; in a timing-only run: whether its values are known, and where they
    /// lie.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; those of reading a dynamic index.
    pub fn is_initialised<'v>(&mut self, operand: impl Into<Operand<'v>>) -> Result<bool> {
        let operand = operand.into();
        if self.is_anywhere(operand.view)? {
            return Ok(false);
        }
        let place = self.resolve(operand, self.site)?;
        self.is_set(&place, &operand.view.storage)
    }

    /// Makes the operand unknown, as an instruction without values does to its destination in a timing-only run: all of its
    /// tensor, where a tile that is unknown itself says what is written.
    ///
    /// # Errors
    /// As [`Memory::is_initialised`].
    pub fn forget<'v>(&mut self, operand: impl Into<Operand<'v>>) -> Result<()> {
        let operand = operand.into();
        if self.is_anywhere(operand.view)? {
            return self.forget(&View::whole(operand.view.storage.clone()));
        }
        let place = self.resolve(operand, self.site)?;
        self.claim(&place, &operand.view.storage, None)?;
        self.note_write(&place, &operand.view.storage, None)?;
        self.mark_initialised(&place, &operand.view.storage, false)
    }

    /// Whether a timing-only run does not know the tile of indexes that says where the view's elements lie.
    fn is_anywhere(&mut self, view: &View) -> Result<bool> {
        match view.index_view() {
            Some(index) if !self.options.values => Ok(!self.is_initialised(index)?),
            _ => Ok(false),
        }
    }

    /// Notes a read whose values a timing-only run skips, for the sake of other cores. Dynamic addresses, whose values
    /// may be unknown, are passed over.
    ///
    /// # Errors
    /// Those of the bounds.
    pub fn skip_read(&mut self, view: &View) -> Result<()> {
        if self.sharing.is_some() && !view.is_indirect() {
            let place = self.resolve(view.into(), self.site)?;
            self.note_read(&place, &view.storage, self.site)?;
            return Ok(());
        }
        self.note_tenant(&view.storage)
    }

    /// Which elements of a PSUM operand matmuls have written since its tensor was made: of another tensor's at the same
    /// address nothing counts.
    ///
    /// # Errors
    /// [`Error::Value`] when the operand is not in PSUM; else as [`Memory::is_initialised`].
    pub fn psum_matmul_written<'v>(&mut self, operand: impl Into<Operand<'v>>) -> Result<Written> {
        let operand = operand.into();
        let place = self.resolve_psum(operand)?;
        let Some(matmul) = self.matmuls.get(&operand.view.storage.id) else { return Ok(Written::None) };
        if place.each_footprint(|at, mask| matmul.all_set(at, mask)) {
            return Ok(Written::All);
        }
        if place.each_footprint(|at, mask| !matmul.any_set(at, mask)) {
            return Ok(Written::None);
        }
        let mut written = vec![false; place.len()];
        lines::each_element(&place, |element, at| {
            let (partition, byte) = place.position(at);
            written[element] = matmul.range_is_set(partition, byte..byte + place.item);
        });
        Ok(Written::Some(written))
    }

    /// Notes that a matmul wrote the operand.
    ///
    /// # Errors
    /// As [`Memory::psum_matmul_written`].
    pub fn mark_psum_matmul<'v>(&mut self, operand: impl Into<Operand<'v>>) -> Result<()> {
        let operand = operand.into();
        let place = self.resolve_psum(operand)?;
        let storage = &operand.view.storage;
        if let Some(whole) = storage.current_place() {
            let matmul = self.matmuls.entry(storage.id).or_insert_with(|| PartitionBits::of(whole));
            place.each_footprint(|at, mask| {
                matmul.put(at, mask, true);
                true
            });
        }
        Ok(())
    }

    /// Notes a matmul that accumulates onto an operand of which no matmul has written every element.
    ///
    /// # Errors
    /// [`Error::Uninitialised`] in a strict run; else as [`Memory::psum_matmul_written`].
    pub fn check_accumulation<'v>(&mut self, operand: impl Into<Operand<'v>>, reader: SiteId) -> Result<()> {
        let operand = operand.into();
        if self.psum_matmul_written(operand)? == Written::All {
            return Ok(());
        }
        let storage = &operand.view.storage;
        let finding = Finding::UnwrittenAccumulation { tensor: storage.name.clone(), reader, allocated: storage.site };
        if self.options.strict {
            let made = (self.names)(storage.site);
            let message = format!("{finding}; the tensor was made at {made}, its first matmul must not accumulate");
            return Err(Error::Uninitialised { message, allocated: storage.site });
        }
        self.note(storage, finding);
        Ok(())
    }

    fn resolve_psum(&mut self, operand: Operand<'_>) -> Result<Resolved> {
        let storage = &operand.view.storage;
        if storage.buffer != Buffer::Psum {
            let (name, buffer) = (&storage.name, storage.buffer);
            return Err(Error::Value(format!("`{name}` is in {buffer}; matmuls write to psum")));
        }
        self.resolve(operand, self.site)
    }

    pub(super) fn is_set(&self, place: &Resolved, storage: &Storage) -> Result<bool> {
        let Some(memory) = self.on_chip(storage.buffer) else {
            let contents = hbm::lock(storage, self.layer)?;
            // Strided elements are many, and looked at one by one; the words of all they span are often few.
            let span = place.span();
            if contents.complete || (span.len() <= place.len() * SPARSE && hbm::is_set(&contents, span)) {
                return Ok(true);
            }
            let mut is_set = true;
            lines::each_run(place, |_, range| is_set &= hbm::is_set(&contents, range));
            return Ok(is_set);
        };
        Ok(place.len() == 0
            || (memory.is_touched() && place.each_footprint(|at, mask| memory.initialised.all_set(at, mask))))
    }

    pub(super) fn mark_initialised(&mut self, place: &Resolved, storage: &Storage, value: bool) -> Result<()> {
        self.end_exact(place, storage, None)?;
        if value && storage.addressed {
            self.reuse.write(storage, place, self.site);
        }
        if let Some(memory) = self.on_chip_mut(storage.buffer) {
            if memory.is_touched() {
                place.each_footprint(|at, mask| {
                    memory.initialised.put(at, mask, value);
                    true
                });
            }
            return Ok(());
        }
        if value {
            self.note_write(place, storage, None)?;
        }
        let mut contents = hbm::lock(storage, self.layer)?;
        if value {
            contents.written = true;
            if !contents.complete {
                lines::each_run(place, |_, range| bits::set(&mut contents.initialised, range));
            }
        } else {
            if std::mem::take(&mut contents.complete) {
                let marks = Zeroed::new(storage.byte_size().div_ceil(u64::BITS as usize));
                contents.initialised = marks.map_err(|shortage| hbm::short(storage, shortage))?;
                contents.initialised.fill(u64::MAX);
            }
            if !contents.initialised.is_empty() {
                lines::each_run(place, |_, range| bits::clear(&mut contents.initialised, range));
            }
        }
        Ok(())
    }

    /// Elements read before anything wrote them, noted as a finding.
    pub(super) fn check_read(&mut self, place: &Resolved, view: &View, reader: SiteId) -> Result<Missing> {
        self.note_read(place, &view.storage, reader)?;
        self.check_reuse(place, &view.storage, reader);
        if self.is_set(place, &view.storage)? {
            return Ok(Missing::default());
        }
        self.watch.note_uninitialised(view);
        let found = match self.on_chip(view.storage.buffer) {
            Some(memory) => {
                let (mut missing, mut first, mut outcome) = (Missing::default(), None, Ok(()));
                lines::each_element(place, |element, at| {
                    let (partition, byte) = place.position(at);
                    let bytes = byte..byte + place.item;
                    let is_set = memory.is_touched() && memory.initialised.range_is_set(partition, bytes);
                    if !is_set && outcome.is_ok() {
                        first.get_or_insert(at);
                        outcome = missing.push(element..element + 1);
                    }
                });
                outcome.map(|()| (missing, first))
            }
            None => Missing::in_hbm(place, &hbm::lock(&view.storage, self.layer)?.initialised),
        };
        let (missing, first) = found.map_err(|shortage| hbm::short(&view.storage, shortage))?;
        if let Some(at) = first {
            let (partition, byte) = place.position(at);
            self.note_uninitialised(view, reader, partition, byte, missing.len())?;
        }
        Ok(missing)
    }

    /// A read of what nothing wrote: a finding, or an error.
    fn note_uninitialised(
        &mut self,
        view: &View,
        reader: SiteId,
        partition: usize,
        byte: usize,
        count: usize,
    ) -> Result<()> {
        let storage = &view.storage;
        let allocated = storage.site;
        let byte = byte - storage.current_place().map_or(0, |place| place.byte);
        let partition = partition - storage.place.map_or(0, |place| place.partition);
        let made = || (self.names)(allocated);
        if !self.options.values {
            let made = made();
            return Err(Error::SkippedValue(format!(
                "tensor `{}` (made at {made}): its values are needed and were not computed; addresses and control flow \
                 must not depend on data that a timing-only run skips",
                storage.name
            )));
        }
        if self.options.strict {
            let made = made();
            let message = format!(
                "tensor `{}` (made at {made}): {count} uninitialised elements read, the first at partition \
                 {partition}, byte {byte}; every element must be written before it is read",
                storage.name
            );
            return Err(Error::Uninitialised { message, allocated });
        }
        let tensor = storage.name.clone();
        self.note(storage, Finding::UninitialisedRead { tensor, reader, allocated, partition, byte, count });
        Ok(())
    }
}
