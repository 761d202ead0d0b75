//! Races: bytes of shared HBM that two cores use, one of them writing, with no meeting of the cores in between.
//!
//! Each byte of a shared tensor has two bits a core: read, and written, since the cores last met. A meeting counts the
//! epoch on; bits of an older epoch mean nothing and are cleared when the tensor is next used. Lines are kept with the
//! span of bytes they used, so that a finding can name the line of the other core that touched the byte first.

use super::contest::each_range;
use super::resolve::Resolved;
use super::{Finding, Memory, bits, hbm};
use crate::error::Result;
use crate::site::SiteId;
use crate::storage::{Buffer, Storage, Use, Uses, Zeroed};

/// Which core of a logical core a memory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Its number, from 0.
    pub core: usize,
    /// How often the cores have met.
    pub epoch: u64,
}

impl Uses {
    fn bits(&mut self, how: Use, bytes: usize) -> hbm::Had<&mut [u64]> {
        let bits = if how == Use::Read { &mut self.read } else { &mut self.written };
        if bits.is_empty() {
            *bits = Zeroed::new(bytes.div_ceil(u64::BITS as usize))?;
        }
        Ok(bits)
    }

    /// A copy of which bytes it wrote: the lines that did say where those are.
    pub(super) fn copy_written(&self) -> hbm::Had<Zeroed<u64>> {
        let written = self.lines.iter().filter(|line| line.1 == Use::Write);
        let word = u64::BITS as usize;
        self.written.copied(written.map(|line| line.2 / word..line.3.div_ceil(word)))
    }

    /// The first byte of a range that was used so that it collides with a use.
    fn collision(&self, how: Use, range: &std::ops::Range<usize>) -> Option<(usize, Use)> {
        let written = bits::first_set(&self.written, range.clone()).map(|byte| (byte, Use::Write));
        match how {
            Use::Read => written,
            Use::Write => written.or_else(|| bits::first_set(&self.read, range.clone()).map(|byte| (byte, Use::Read))),
        }
    }

    fn line(&self, how: Use, byte: usize) -> SiteId {
        let found = self.lines.iter().find(|(_, used, from, to)| *used == how && (*from..*to).contains(&byte));
        found.map_or_else(SiteId::default, |line| line.0)
    }

    fn note_line(&mut self, site: SiteId, how: Use, from: usize, to: usize) {
        match self.lines.iter_mut().rev().find(|line| line.0 == site && line.1 == how) {
            Some(line) => (line.2, line.3) = (line.2.min(from), line.3.max(to)),
            None => self.lines.push((site, how, from, to)),
        }
    }
}

impl Memory {
    /// Notes that this core read a tensor that others may write.
    pub(super) fn note_read(&mut self, place: &Resolved, storage: &Storage, reader: SiteId) -> Result<()> {
        self.note_use(place, storage, reader, Use::Read, None)
    }

    /// Notes that this core wrote a tensor that others may use; where there is a mask, those elements alone.
    pub(super) fn note_write(&mut self, place: &Resolved, storage: &Storage, mask: Option<&[bool]>) -> Result<()> {
        self.note_use(place, storage, self.site, Use::Write, mask)
    }

    fn note_use(
        &mut self,
        place: &Resolved,
        storage: &Storage,
        site: SiteId,
        how: Use,
        mask: Option<&[bool]>,
    ) -> Result<()> {
        let Some(Sharing { core, epoch }) = self.sharing else { return Ok(()) };
        if storage.buffer != Buffer::SharedHbm {
            return Ok(());
        }
        let bytes = storage.byte_size();
        let mut contents = hbm::lock(storage, self.layer)?;
        let races = contents.races.get_or_insert_default();
        races.begin(epoch, core);
        let mut own = std::mem::take(&mut races.cores[core]);
        let used = own.bits(how, bytes).map_err(|shortage| hbm::short(storage, shortage))?;
        let (mut from, mut to) = (usize::MAX, 0);
        let mut collision = None;
        let mut visit = |range: std::ops::Range<usize>| {
            (from, to) = (from.min(range.start), to.max(range.end));
            if collision.is_none() {
                let others = races.cores.iter().enumerate();
                collision = others
                    .filter_map(|(other, uses)| uses.collision(how, &range).map(|(byte, used)| (other, byte, used)))
                    .next();
            }
            bits::set(used, range);
        };
        each_range(place, mask, &mut visit);
        if from < to {
            own.note_line(site, how, from, to);
        }
        let finding = collision.map(|(other, byte, used)| Finding::Race {
            tensor: storage.name.clone(),
            reader: site,
            core,
            writes: how == Use::Write,
            other,
            other_line: races.cores[other].line(used, byte),
            other_writes: used == Use::Write,
            byte,
        });
        races.cores[core] = own;
        drop(contents);
        if let Some(finding) = finding {
            self.note(storage, finding);
        }
        Ok(())
    }
}
