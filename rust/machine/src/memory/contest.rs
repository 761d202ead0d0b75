//! Bytes of shared HBM that several cores write between two meetings: the write that ends last in time stays.
//!
//! The host runs one core after the other, so that memory holds what was written last in the host's order. What a write
//! covers of another core's is kept aside with its owner; where the cores meet, every write since the last meeting has
//! its time, and bytes whose last write in time was covered come back.
//!
//! - **(choice)** Of writes that end at one moment, that of the core of the higher number stays.
//! - **(choice)** Until the meeting, reads see what the host wrote last: that they are not ordered is a finding.

use std::ops::Range;
use std::sync::Arc;

use super::resolve::Resolved;
use super::{Memory, Sharing, bits, hbm, lines};
use crate::error::Result;
use crate::storage::{Buffer, Contest, Covered, HbmBytes, Races, Storage, Uses, Zeroed, try_copy, try_zeros};
use crate::time::Picos;

/// A write to a tensor that several cores reach, since they last met.
#[derive(Debug)]
pub(super) struct SharedWrite {
    /// Number of the instruction.
    id: u32,
    place: Resolved,
    mask: Option<Box<[bool]>>,
}

impl SharedWrite {
    fn each_range(&self, visit: impl FnMut(Range<usize>)) {
        each_range(&self.place, self.mask.as_deref(), visit);
    }
}

/// Calls `visit` with the bytes that are written; where there is a mask, those elements alone.
pub(super) fn each_range(place: &Resolved, mask: Option<&[bool]>, mut visit: impl FnMut(Range<usize>)) {
    match mask {
        None => lines::each_run(place, |_, range| visit(range)),
        Some(mask) => lines::each_element(place, |element, at| {
            if mask[element] {
                visit(at..at + place.item);
            }
        }),
    }
}

/// What bytes are for, where the host has no room for them.
const COVERED: &str = "what one core wrote over another's";

/// Marks of so many bytes, all clear.
fn marks(bytes: usize) -> Result<Zeroed<u64>> {
    Zeroed::new(words(bytes)).map_err(|shortage| shortage.of(COVERED))
}

fn words(bytes: usize) -> usize {
    bytes.div_ceil(u64::BITS as usize)
}

impl Covered {
    fn of(contents: &HbmBytes, core: usize, range: Range<usize>) -> Result<Self> {
        let mut initialised = try_zeros(words(range.len()), COVERED)?;
        if contents.complete {
            bits::set(&mut initialised, 0..range.len());
        } else if !contents.initialised.is_empty() {
            bits::copy(&contents.initialised, range.start, &mut initialised, 0, range.len());
        }
        let bytes = try_copy(contents.bytes.get(range.clone()).unwrap_or_default(), COVERED)?;
        let exact = contents.exact.as_ref().map(|plane| plane.part(range.clone())).transpose();
        let exact = exact.map_err(|shortage| shortage.of(COVERED))?;
        Ok(Self { core, range, bytes, initialised, exact })
    }

    /// Puts some of the bytes back.
    fn restore(&self, contents: &mut HbmBytes, byte_size: usize, range: Range<usize>) -> Result<()> {
        let own = range.start - self.range.start..range.end - self.range.start;
        if let Some(bytes) = self.bytes.get(own.clone()) {
            contents.bytes[range.clone()].copy_from_slice(bytes);
        }
        let is_whole = bits::all_set(&self.initialised, own.clone());
        if contents.complete && !is_whole {
            contents.complete = false;
            contents.initialised = marks(byte_size)?;
            contents.initialised.fill(u64::MAX);
        }
        if !contents.complete {
            if contents.initialised.is_empty() {
                contents.initialised = marks(byte_size)?;
            }
            bits::clear(&mut contents.initialised, range.clone());
            bits::copy(&self.initialised, own.start, &mut contents.initialised, range.start, range.len());
        }
        if let Some(plane) = &mut contents.exact {
            match &self.exact {
                Some(part) => plane.put_back(range, part, self.range.start),
                None => plane.clear(range),
            }
        }
        Ok(())
    }
}

impl Memory {
    /// Before this core writes to a tensor that others reach: what it covers of theirs is kept.
    pub(super) fn claim(&mut self, place: &Resolved, storage: &Arc<Storage>, mask: Option<&[bool]>) -> Result<()> {
        let Some(Sharing { core, epoch }) = self.sharing else { return Ok(()) };
        if storage.buffer != Buffer::SharedHbm {
            return Ok(());
        }
        let mut contents = hbm::lock(storage, self.layer)?;
        let contents = &mut *contents;
        let mut races = contents.races.take().unwrap_or_default();
        races.begin(epoch, core);
        let Races { cores, contest, .. } = &mut *races;
        let (mut covered, mut outcome) = (Vec::new(), Ok(()));
        each_range(place, mask, |range| {
            for (other, uses) in cores.iter().enumerate().filter(|(other, _)| *other != core) {
                let held = contest.as_ref().map_or(&uses.written, |contest| &contest.holds[other]);
                bits::each_set(held, range.clone(), |piece| match Covered::of(contents, other, piece) {
                    Ok(piece) => covered.push(piece),
                    Err(error) => outcome = Err(error),
                });
            }
        });
        outcome?;
        if contest.is_none() && !covered.is_empty() {
            let holds = cores.iter().map(Uses::copy_written).collect::<hbm::Had<_>>();
            let holds = holds.map_err(|shortage| hbm::short(storage, shortage))?;
            *contest = Some(Box::new(Contest { holds, covered: Vec::new() }));
            self.contested.push(Arc::clone(storage));
        }
        if let Some(contest) = contest {
            contest.holds.resize_with(cores.len(), Zeroed::default);
            for piece in &covered {
                bits::clear(&mut contest.holds[piece.core], piece.range.clone());
            }
            contest.covered.append(&mut covered);
            let own = &mut contest.holds[core];
            if own.is_empty() {
                *own = marks(storage.byte_size())?;
            }
            each_range(place, mask, |range| bits::set(own, range));
        }
        contents.races = Some(races);
        let writes = self.writes.entry(storage.id).or_default();
        let is_known =
            |last: &SharedWrite| last.id == self.instruction && last.place == *place && last.mask.as_deref() == mask;
        if !writes.last().is_some_and(is_known) {
            let mask = mask.map(Into::into);
            writes.push(SharedWrite { id: self.instruction, place: place.clone(), mask });
        }
        Ok(())
    }

    /// The tensors that this core wrote to where another one had, since they last met.
    pub(crate) fn take_contested(&mut self) -> Vec<Arc<Storage>> {
        std::mem::take(&mut self.contested)
    }

    /// The memories of cores that meet, with when each of their instructions ended: of bytes of a tensor that several
    /// wrote, the last write in time stays.
    ///
    /// # Errors
    /// [`Error::HostMemory`](crate::Error::HostMemory).
    pub(crate) fn settle_contest(storage: &Storage, cores: &[(&Memory, &dyn Fn(u32) -> Picos)]) -> Result<()> {
        let mut contents = hbm::lock(storage, hbm::Layer::Real)?;
        let Some(contest) = contents.races.as_mut().and_then(|races| races.contest.take()) else { return Ok(()) };
        let mut writes = Vec::new();
        for (memory, end) in cores {
            let Some(Sharing { core, .. }) = memory.sharing else { continue };
            let own = memory.writes.get(&storage.id).into_iter().flatten().enumerate();
            writes.extend(own.map(|(index, write)| (end(write.id), core, index, write)));
        }
        writes.sort_by_key(|&(end, core, index, _)| (end, core, index));
        let winners = contest.holds.iter().map(|_| marks(storage.byte_size()));
        let mut winners = winners.collect::<Result<Vec<Zeroed<u64>>>>()?;
        for (_, core, _, write) in writes {
            for (other, won) in winners.iter_mut().enumerate() {
                match other == core {
                    true => write.each_range(|range| bits::set(won, range)),
                    false => write.each_range(|range| bits::clear(won, range)),
                }
            }
        }
        let (mut changed, mut outcome) = (Vec::new(), Ok(()));
        for piece in &contest.covered {
            let (won, held) = (&winners[piece.core], &contest.holds[piece.core]);
            bits::each_set(won, piece.range.clone(), |range| {
                bits::each_clear(held, range, |range| {
                    if outcome.is_ok() {
                        outcome = piece.restore(&mut contents, storage.byte_size(), range.clone());
                    }
                    changed.push(range);
                });
            });
        }
        outcome?;
        for shadow in storage.shadows.iter().filter_map(|shadow| shadow.get()) {
            let mut shadow = shadow.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            for range in &changed {
                // The run beside goes on from what the real one holds.
                Covered::of(&contents, 0, range.clone())?.restore(&mut shadow, storage.byte_size(), range.clone())?;
            }
        }
        Ok(())
    }
}
