//! HBM as one address space: what programs and hosts hold of it, and nothing else, takes memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{bits, hbm};
use crate::error::{Error, Result};
use crate::storage::{HbmBytes, Held, HostBudget, Shortage, Zeroed};

/// Bytes of the pieces in which a host's writes outside of any tensor are kept.
const PAGE: u64 = 1 << 16;

/// The contents of one stretch of HBM.
pub type Contents = Arc<Mutex<HbmBytes>>;

/// A stretch of HBM that something was written to or a tensor lies on.
#[derive(Debug)]
struct Extent {
    length: u64,
    contents: Contents,
    /// Its bytes must stay where they are: a host holds their address.
    pinned: bool,
}

/// A piece of an [`HbmSpace`], as it is saved.
#[derive(Debug, PartialEq, Eq)]
pub struct Stretch {
    /// First address.
    pub address: u64,
    /// Bytes it has.
    pub length: u64,
    /// Its bytes; none if it was never touched.
    pub bytes: Zeroed<u8>,
    /// One bit a byte: which were written; none if none or all were.
    pub initialised: Zeroed<u64>,
    /// Ranges of the bytes outside of which all are 0, and no bit is set.
    pub held: Vec<Range<usize>>,
    /// Whether all were written.
    pub complete: bool,
}

/// The HBM of a device by address. A tensor of a program lies on a stretch of its own, whose bytes several programs may
/// share; where stretches of two programs cut each other, bytes are moved to what is wanted now.
///
/// ```
/// use trn3_machine::memory::HbmSpace;
///
/// let mut hbm = HbmSpace::new(144 << 30, 1 << 30);
/// hbm.write(1 << 36, &[1, 2, 3])?;
/// let mut bytes = [9; 5];
/// hbm.read((1 << 36) - 1, &mut bytes)?;
/// assert_eq!(bytes, [0, 1, 2, 3, 0]);
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Debug)]
pub struct HbmSpace {
    capacity: u64,
    /// Bytes of the host that may hold contents.
    budget: Arc<HostBudget>,
    limit: u64,
    extents: BTreeMap<u64, Extent>,
    generation: u64,
}

impl Extent {
    fn held(&self) -> u64 {
        locked(&self.contents).held.bytes()
    }
}

fn locked(contents: &Contents) -> MutexGuard<'_, HbmBytes> {
    contents.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HbmSpace {
    /// Empty HBM of `capacity` bytes, of which the host keeps at most `limit` in its own memory.
    pub fn new(capacity: u64, limit: u64) -> Self {
        let budget = Arc::new(HostBudget::new("host_memory_bytes", Some(limit)));
        Self { capacity, budget, limit, extents: BTreeMap::new(), generation: 0 }
    }

    /// Bytes there are.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes of the host's memory that contents really hold.
    pub fn held(&self) -> u64 {
        self.budget.held()
    }

    /// Grows whenever bytes move: what was bound before may then be bytes that nobody looks at any more.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Reads bytes; what nothing wrote is 0.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] beyond the end.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<()> {
        self.check(address, out.len() as u64)?;
        out.fill(0);
        let end = address + out.len() as u64;
        for (start, extent) in self.overlapping(address, end) {
            let (low, high) = (address.max(start), end.min(start + extent.length));
            let contents = locked(&extent.contents);
            if let Some(bytes) = contents.bytes.get((low - start) as usize..(high - start) as usize) {
                out[(low - address) as usize..(high - address) as usize].copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    /// Writes bytes; they are then initialised.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] beyond the end; [`Error::HbmCapacity`] when the host may hold no more.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        self.check(address, bytes.len() as u64)?;
        let end = address + bytes.len() as u64;
        let mut at = address;
        while at < end {
            let start = self.holding(at);
            let Some(extent) = self.extents.get(&start) else { break };
            let high = end.min(start + extent.length);
            let own = (at - start) as usize..(high - start) as usize;
            let mut contents = locked(&extent.contents);
            hold(&mut contents, own.clone(), extent.length as usize).map_err(|shortage| short(start, shortage))?;
            contents.bytes[own.clone()].copy_from_slice(&bytes[(at - address) as usize..(high - address) as usize]);
            if !contents.complete {
                bits::set(&mut contents.initialised, own);
            }
            at = high;
        }
        Ok(())
    }

    /// The bytes of exactly this stretch, for a tensor to lie on: contents move if they lie on other stretches.
    ///
    /// # Errors
    /// As [`HbmSpace::write`]; [`Error::Value`] for no bytes, and where another stretch is pinned.
    pub fn bind(&mut self, address: u64, length: u64) -> Result<Contents> {
        self.check(address, length)?;
        if length == 0 {
            return Err(Error::Value("a stretch of HBM without bytes".to_owned()));
        }
        if let Some(extent) = self.extents.get(&address).filter(|extent| extent.length == length) {
            return Ok(Arc::clone(&extent.contents));
        }
        let end = address + length;
        let cut: Vec<u64> = self.overlapping(address, end).map(|(start, _)| start).collect();
        let pinned = cut.iter().find(|start| self.extents.get(start).is_some_and(|extent| extent.pinned));
        if let Some(&start) = pinned {
            return Err(Error::Value(format!(
                "HBM bytes {address} to {end} cut a stretch from {start} on whose place in memory a host holds; give it \
                 back first, or lay the tensor elsewhere"
            )));
        }
        // All is made before anything is replaced.
        let mut fresh = vec![(address, length, HbmBytes::default())];
        for &start in &cut {
            let Some(old) = self.extents.get(&start) else { continue };
            let old_end = start + old.length;
            let old = locked(&old.contents);
            let (low, high) = (start.max(address), old_end.min(end));
            let moved = copy(&old, low - start, &mut fresh[0].2, low - address, high - low, length);
            moved.map_err(|shortage| short(address, shortage))?;
            for (low, high) in [(start, address), (end, old_end)] {
                if low < high {
                    let mut part = HbmBytes::default();
                    let moved = copy(&old, low - start, &mut part, 0, high - low, high - low);
                    moved.map_err(|shortage| short(low, shortage))?;
                    fresh.push((low, high - low, part));
                }
            }
        }
        let replaced: u64 = cut.iter().filter_map(|start| self.extents.get(start)).map(Extent::held).sum();
        let wanted: u64 = fresh.iter().map(|(_, _, contents)| contents.held.bytes()).sum();
        self.budget.check(wanted.saturating_sub(replaced)).map_err(|shortage| short(address, shortage))?;
        self.generation += u64::from(!cut.is_empty());
        for old in cut.iter().filter_map(|start| self.extents.remove(start)) {
            // A program bound before may keep them; nobody looks at them any more.
            locked(&old.contents).held.charge(None);
        }
        let mut bound = Contents::default();
        for (at, length, contents) in fresh {
            let contents = self.insert(at, length, contents);
            if at == address {
                bound = contents;
            }
        }
        Ok(bound)
    }

    /// A stretch that holds all of these bytes, and where in it they start: the one that is there, else one of their own.
    ///
    /// # Errors
    /// As [`HbmSpace::bind`].
    pub fn cover(&mut self, address: u64, length: u64) -> Result<(Contents, u64, u64)> {
        self.check(address, length)?;
        if let Some((&start, extent)) = self.extents.range(..=address).next_back()
            && address + length <= start + extent.length
        {
            return Ok((Arc::clone(&extent.contents), address - start, extent.length));
        }
        Ok((self.bind(address, length)?, 0, length))
    }

    /// Holds the stretch of these bytes where it is until [`HbmSpace::unpin`], and gives what [`HbmSpace::cover`] does. The
    /// bytes count as initialised: whoever holds their place writes unseen.
    ///
    /// # Errors
    /// As [`HbmSpace::bind`].
    pub fn pin(&mut self, address: u64, length: u64) -> Result<(Contents, u64, u64)> {
        let (contents, offset, whole) = self.cover(address, length)?;
        let mut held = locked(&contents);
        let own = offset as usize..(offset + length) as usize;
        hold(&mut held, own.clone(), whole as usize).map_err(|shortage| short(address, shortage))?;
        if !held.complete {
            bits::set(&mut held.initialised, own);
        }
        drop(held);
        if let Some(extent) = self.extents.get_mut(&(address - offset)) {
            extent.pinned = true;
        }
        Ok((contents, offset, whole))
    }

    /// Lets every pinned stretch that has one of these bytes move again.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] beyond the end.
    pub fn unpin(&mut self, address: u64, length: u64) -> Result<()> {
        self.check(address, length)?;
        let starts: Vec<u64> = self.overlapping(address, address + length).map(|(start, _)| start).collect();
        for start in starts {
            if let Some(extent) = self.extents.get_mut(&start) {
                extent.pinned = false;
            }
        }
        Ok(())
    }

    /// Every stretch, in order of addresses.
    ///
    /// # Errors
    /// [`Error::HbmCapacity`] when the host has no room for them.
    pub fn save(&self) -> Result<Vec<Stretch>> {
        let stretch = |(&address, extent): (&u64, &Extent)| {
            let contents = locked(&extent.contents);
            let (bytes, initialised) = hbm::copies(&contents).map_err(|shortage| short(address, shortage))?;
            let held = contents.held.ranges(bytes.len()).collect();
            Ok(Stretch { address, length: extent.length, bytes, initialised, held, complete: contents.complete })
        };
        self.extents.iter().map(stretch).collect()
    }

    /// The same HBM with these stretches and no others.
    ///
    /// # Errors
    /// [`Error::Value`] for stretches that overlap or whose parts do not fit one another; those of [`HbmSpace::write`].
    pub fn with(&self, stretches: Vec<Stretch>) -> Result<Self> {
        let mut space = Self::new(self.capacity, self.limit);
        for Stretch { address, length, bytes, initialised, held, complete } in stretches {
            space.check(address, length)?;
            let words = (length as usize).div_ceil(u64::BITS as usize);
            let fits = (bytes.is_empty() || bytes.len() as u64 == length)
                && (initialised.is_empty() || initialised.len() == words)
                && (bytes.is_empty() <= (initialised.is_empty() && !complete))
                && held.iter().all(|range| range.start < range.end && range.end <= bytes.len());
            if !fits || length == 0 || space.overlapping(address, address + length).next().is_some() {
                return Err(Error::Value(format!("the stretch of HBM at {address} does not fit its parts or others")));
            }
            let mut charged = Held::charged_to(Arc::clone(&space.budget));
            for range in held {
                charged.claim(range, length as usize).map_err(|shortage| short(address, shortage))?;
            }
            space.insert(
                address,
                length,
                HbmBytes { bytes, initialised, complete, held: charged, ..HbmBytes::default() },
            );
        }
        // What was bound to this one is not bound to the other.
        space.generation = self.generation + 1;
        Ok(space)
    }

    fn check(&self, address: u64, length: u64) -> Result<()> {
        match address.checked_add(length).filter(|&end| end <= self.capacity) {
            Some(_) => Ok(()),
            None => {
                let end = address.saturating_add(length);
                Err(Error::OutOfBounds(format!("bytes {address} to {end} of HBM; it has {}", self.capacity)))
            }
        }
    }

    fn insert(&mut self, address: u64, length: u64, mut contents: HbmBytes) -> Contents {
        contents.held.charge(Some(&self.budget));
        let contents = Arc::new(Mutex::new(contents));
        self.extents.insert(address, Extent { length, contents: Arc::clone(&contents), pinned: false });
        contents
    }

    fn overlapping(&self, address: u64, end: u64) -> impl Iterator<Item = (u64, &Extent)> {
        let before =
            self.extents.range(..address).next_back().filter(|(start, extent)| *start + extent.length > address);
        before.into_iter().chain(self.extents.range(address..end.max(address))).map(|(&start, extent)| (start, extent))
    }

    /// Start of the stretch that has this byte: one there is, or a page of what is free around it.
    fn holding(&mut self, at: u64) -> u64 {
        let before = self.extents.range(..=at).next_back().map(|(&start, extent)| (start, start + extent.length));
        if let Some((start, end)) = before
            && at < end
        {
            return start;
        }
        let page = at - at % PAGE;
        let low = before.map_or(page, |(_, end)| page.max(end));
        let next = self.extents.range(at..).next().map_or(self.capacity, |(&start, _)| start);
        let length = next.min(page + PAGE) - low;
        self.insert(low, length, HbmBytes::default());
        low
    }
}

/// Copies bytes and what is known of them between stretches; `whole` is the length of the one copied to.
fn copy(from: &HbmBytes, at: u64, to: &mut HbmBytes, place: u64, length: u64, whole: u64) -> hbm::Had<()> {
    if from.bytes.is_empty() || length == 0 {
        return Ok(());
    }
    hbm::touch(to, whole as usize)?;
    let (at, place, length) = (at as usize, place as usize, length as usize);
    if from.complete {
        bits::set(&mut to.initialised, place..place + length);
    }
    for range in from.held.ranges(from.bytes.len()) {
        let range = range.start.max(at)..range.end.min(at + length);
        if range.is_empty() {
            continue;
        }
        let target = place + range.start - at;
        let target = target..target + range.len();
        to.held.claim(target.clone(), whole as usize)?;
        to.bytes[target.clone()].copy_from_slice(&from.bytes[range.clone()]);
        if !from.complete && !from.initialised.is_empty() {
            bits::copy(&from.initialised, range.start, &mut to.initialised, target.start, target.len());
        }
    }
    Ok(())
}

/// Makes a range of contents exist that is about to be written.
fn hold(contents: &mut HbmBytes, range: Range<usize>, length: usize) -> hbm::Had<()> {
    hbm::touch(contents, length)?;
    contents.held.claim(range, length)
}

fn short(address: u64, shortage: Shortage) -> Error {
    Error::HbmCapacity(format!("the stretch of HBM from {address}: {shortage}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 1 << 18;

    fn is_initialised(space: &HbmSpace, address: u64) -> bool {
        space.overlapping(address, address + 1).any(|(start, extent)| {
            let contents = locked(&extent.contents);
            let at = (address - start) as usize;
            hbm::is_set(&contents, at..at + 1)
        })
    }

    proptest! {
        #[test]
        fn test_binding_never_changes_what_was_written(
            steps in prop::collection::vec((any::<bool>(), 0..SIZE, 1..20_000u64, any::<u8>()), 1..12),
        ) {
            let mut space = HbmSpace::new(SIZE, 4 * SIZE);
            let mut model = vec![None; SIZE as usize];
            for (writes, address, length, value) in steps {
                let length = length.min(SIZE - address);
                if writes {
                    space.write(address, &vec![value; length as usize]).expect("room");
                    model[address as usize..(address + length) as usize].fill(Some(value));
                } else {
                    space.bind(address, length).expect("room");
                }
            }
            let mut bytes = vec![0; SIZE as usize];
            space.read(0, &mut bytes).expect("bytes");
            for (at, (byte, known)) in bytes.iter().zip(&model).enumerate() {
                prop_assert_eq!(*byte, known.unwrap_or(0));
                if at % 61 == 0 {
                    prop_assert_eq!(is_initialised(&space, at as u64), known.is_some());
                }
            }
            let again = space.with(space.save().expect("room")).expect("stretches");
            prop_assert_eq!(again.save(), space.save());
            prop_assert_eq!(again.held(), space.held());
        }
    }

    #[test]
    fn test_a_pinned_stretch_is_not_cut() {
        let mut space = HbmSpace::new(SIZE, SIZE);
        space.pin(100, 50).expect("room");
        assert!(space.bind(120, 100).expect_err("pinned").to_string().contains("from 100"));
        assert!(space.bind(100, 50).is_ok());
        space.unpin(110, 1).expect("inside");
        assert!(space.bind(120, 100).is_ok());
    }

    #[test]
    fn test_more_than_the_host_keeps_is_refused() {
        let mut space = HbmSpace::new(1 << 40, SIZE + 1);
        space.bind(0, SIZE + 1).expect("what is not written takes no memory");
        assert_eq!(space.held(), 0);
        space.write(5, &[1]).expect("room");
        assert_eq!(space.held(), SIZE + 1);
        assert!(matches!(space.write(1 << 30, &[1]), Err(Error::HbmCapacity(_))));
        assert!(matches!(space.pin(1 << 35, SIZE + 2), Err(Error::HbmCapacity(_))));
        assert!(matches!(space.bind(1 << 40, 1), Err(Error::OutOfBounds(_))));
        assert!(matches!(space.write(u64::MAX, &[1, 2]), Err(Error::OutOfBounds(_))));
    }
}
