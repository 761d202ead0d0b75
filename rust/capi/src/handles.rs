//! Handles: tokens for values that the library owns, checked at each use.
//!
//! A token is a slot's number and how often the slot has been given out, so that a handle that was destroyed, or was never
//! made, is found out and never followed. Slots live as long as the process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use crate::status::{Fault, Result, Status};

/// Slots of a block; blocks are made as they are needed.
const BLOCK: usize = 256;
/// Blocks, so that 65,536 values may live at once.
const BLOCKS: usize = 256;
/// Bits of a token that number the slot; the rest is the generation, which is never 0.
const SLOT_BITS: u32 = 16;

/// What is in a slot: the generation that may use it, and the value while there is one.
struct Slot<T> {
    content: RwLock<(usize, Option<T>)>,
}

/// All values of one kind.
pub(crate) struct Table<T: 'static> {
    kind: &'static str,
    blocks: [OnceLock<Box<[Slot<T>]>>; BLOCKS],
    /// Slots that have been given back, the longest free one first.
    free: Mutex<std::collections::VecDeque<usize>>,
    used: AtomicUsize,
}

/// A value in use by one call alone.
pub(crate) struct Exclusive<'a, T>(RwLockWriteGuard<'a, (usize, Option<T>)>);

/// A value in use by calls that only look at it.
pub(crate) struct Shared<'a, T>(RwLockReadGuard<'a, (usize, Option<T>)>);

impl<T> Table<T> {
    pub(crate) const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            blocks: [const { OnceLock::new() }; BLOCKS],
            free: Mutex::new(std::collections::VecDeque::new()),
            used: AtomicUsize::new(0),
        }
    }

    /// Keeps a value and gives its token, which is never 0.
    pub(crate) fn insert(&self, value: T) -> Result<usize> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match free.pop_front() {
            Some(index) => index,
            None => {
                let index = self.used.load(Ordering::Relaxed);
                if index == BLOCK * BLOCKS {
                    let message = format!("{index} {}s exist; destroy some first", self.kind);
                    return Err(Fault::new(Status::Capacity, message));
                }
                self.blocks[index / BLOCK]
                    .get_or_init(|| (0..BLOCK).map(|_| Slot { content: RwLock::new((1, None)) }).collect());
                self.used.store(index + 1, Ordering::Release);
                index
            }
        };
        drop(free);
        let Some(slot) = self.slot(index) else { return Err(self.unknown(index)) };
        let mut content = slot.content.write().unwrap_or_else(PoisonError::into_inner);
        content.1 = Some(value);
        Ok(content.0 << SLOT_BITS | index)
    }

    fn slot(&self, index: usize) -> Option<&Slot<T>> {
        self.blocks.get(index / BLOCK)?.get()?.get(index % BLOCK)
    }

    fn find(&self, token: usize) -> Result<(&Slot<T>, usize)> {
        let slot = self.slot(token & ((1 << SLOT_BITS) - 1)).ok_or_else(|| self.unknown(token))?;
        Ok((slot, token >> SLOT_BITS))
    }

    /// The value, for a call that may change it.
    pub(crate) fn exclusive(&self, token: usize) -> Result<Exclusive<'_, T>> {
        let (slot, generation) = self.find(token)?;
        match slot.content.try_write() {
            Ok(content) if content.0 == generation && content.1.is_some() => Ok(Exclusive(content)),
            Ok(_) => Err(self.unknown(token)),
            Err(TryLockError::WouldBlock) => Err(self.busy()),
            Err(TryLockError::Poisoned(_)) => Err(self.broken()),
        }
    }

    /// The value, for a call that only looks at it.
    pub(crate) fn shared(&self, token: usize) -> Result<Shared<'_, T>> {
        let (slot, generation) = self.find(token)?;
        match slot.content.try_read() {
            Ok(content) if content.0 == generation && content.1.is_some() => Ok(Shared(content)),
            Ok(_) => Err(self.unknown(token)),
            Err(TryLockError::WouldBlock) => Err(self.busy()),
            Err(TryLockError::Poisoned(_)) => Err(self.broken()),
        }
    }

    /// Takes the value out; the token is worth nothing from then on. A value that a panic has broken goes as well.
    pub(crate) fn remove(&self, token: usize) -> Result<T> {
        let (slot, generation) = self.find(token)?;
        let mut content = match slot.content.try_write() {
            Ok(content) => content,
            Err(TryLockError::WouldBlock) => return Err(self.busy()),
            Err(TryLockError::Poisoned(poisoned)) => {
                slot.content.clear_poison();
                poisoned.into_inner()
            }
        };
        if content.0 != generation {
            return Err(self.unknown(token));
        }
        let Some(value) = content.1.take() else { return Err(self.unknown(token)) };
        content.0 += 1;
        // A slot whose generations are used up is not given out again.
        let is_spent = content.0 >> (usize::BITS - SLOT_BITS) != 0;
        drop(content);
        if !is_spent {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.push_back(token & ((1 << SLOT_BITS) - 1));
        }
        Ok(value)
    }

    #[cold]
    fn unknown(&self, token: usize) -> Fault {
        match token {
            0 => Fault::value(format!("{} is null", self.kind)),
            _ => Fault::value(format!("{} is {token:#x}, no {0} that exists: destroyed, or never created", self.kind)),
        }
    }

    #[cold]
    fn busy(&self) -> Fault {
        let message =
            format!("the {} is in use by another call: of another thread, or the one that called back", self.kind);
        Fault::new(Status::Busy, message)
    }

    #[cold]
    fn broken(&self) -> Fault {
        let message =
            format!("the {} is in an unspecified state since a call on it was INTERNAL; destroy it", self.kind);
        Fault::new(Status::Internal, message)
    }
}

impl<T> std::ops::Deref for Exclusive<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        present(self.0.1.as_ref())
    }
}

impl<T> std::ops::DerefMut for Exclusive<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        present(self.0.1.as_mut())
    }
}

impl<T> std::ops::Deref for Shared<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        present(self.0.1.as_ref())
    }
}

/// A value that was there when the slot was locked, and so is.
fn present<T>(value: Option<T>) -> T {
    match value {
        Some(value) => value,
        None => unreachable!("a locked slot has kept its value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_token_of_a_removed_value_is_refused_for_ever() {
        let table = Table::new("thing");
        let first = table.insert(1).expect("room");
        assert_eq!(table.remove(first).expect("there"), 1);
        for _ in 0..1000 {
            let next = table.insert(2).expect("room");
            assert_ne!(next, first);
            assert_eq!(table.exclusive(first).err().expect("gone").status, Status::Value);
            assert_eq!(table.remove(first).expect_err("gone").status, Status::Value);
            assert_eq!(*table.shared(next).expect("there"), 2);
            table.remove(next).expect("there");
        }
    }

    #[test]
    fn test_tokens_that_were_never_given_are_refused() {
        let table = Table::new("thing");
        table.insert(1).expect("room");
        for token in [0, 1, 2, 0xffff, 0x1_0001, 0x2_0000, usize::MAX, usize::MAX / 3] {
            assert_eq!(table.shared(token).err().expect("unknown").status, Status::Value, "{token:#x}");
        }
    }

    #[test]
    fn test_exclusive_use_shuts_others_out() {
        let table = Table::new("thing");
        let token = table.insert(1).expect("room");
        let exclusive = table.exclusive(token).expect("free");
        assert_eq!(table.exclusive(token).err().expect("busy").status, Status::Busy);
        assert_eq!(table.shared(token).err().expect("busy").status, Status::Busy);
        assert_eq!(table.remove(token).expect_err("busy").status, Status::Busy);
        drop(exclusive);
        let shared = table.shared(token).expect("free");
        assert_eq!(*table.shared(token).expect("shareable"), *shared);
        assert_eq!(table.exclusive(token).err().expect("busy").status, Status::Busy);
    }

    #[test]
    fn test_value_that_a_panic_broke_can_only_be_destroyed() {
        let table = Table::new("thing");
        let token = table.insert(1).expect("room");
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _exclusive = table.exclusive(token).expect("free");
            panic!("on purpose");
        }));
        assert!(broken.is_err());
        assert_eq!(table.exclusive(token).err().expect("broken").status, Status::Internal);
        table.remove(token).expect("there");
        assert_eq!(table.exclusive(token).err().expect("gone").status, Status::Value);
    }

    #[test]
    fn test_many_values_at_once_and_no_more_than_slots() {
        let table = Table::new("thing");
        let tokens: Vec<usize> = (0..BLOCK * BLOCKS).map(|value| table.insert(value).expect("room")).collect();
        assert_eq!(table.insert(0).expect_err("full").status, Status::Capacity);
        assert!(tokens.iter().enumerate().all(|(value, &token)| *table.shared(token).expect("there") == value));
    }
}
