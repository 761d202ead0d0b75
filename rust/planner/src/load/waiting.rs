//! Requests that wait for a replica, in the order in which it will take them.

use std::collections::{BTreeSet, VecDeque};

/// A queue of requests by their places.
#[derive(Clone, Debug)]
pub(super) enum WaitingQueue {
    /// The first that came is the first that goes.
    Arrival(VecDeque<u32>),
    /// The smallest priority goes first, of equal ones the first that came: priority, number, place.
    Priority(BTreeSet<(i32, u64, u32)>),
}

impl WaitingQueue {
    pub(super) fn new(by_priority: bool) -> Self {
        if by_priority { Self::Priority(BTreeSet::new()) } else { Self::Arrival(VecDeque::new()) }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Arrival(queue) => queue.len(),
            Self::Priority(queue) => queue.len(),
        }
    }

    pub(super) fn first(&self) -> Option<u32> {
        match self {
            Self::Arrival(queue) => queue.front().copied(),
            Self::Priority(queue) => queue.first().map(|entry| entry.2),
        }
    }

    pub(super) fn take_first(&mut self) -> Option<u32> {
        match self {
            Self::Arrival(queue) => queue.pop_front(),
            Self::Priority(queue) => queue.pop_first().map(|entry| entry.2),
        }
    }

    /// Adds a request behind all others of its priority.
    pub(super) fn add(&mut self, place: u32, priority: i32, number: u64) {
        match self {
            Self::Arrival(queue) => queue.push_back(place),
            Self::Priority(queue) => _ = queue.insert((priority, number, place)),
        }
    }

    /// Puts a request back that had been taken.
    pub(super) fn put_back(&mut self, place: u32, priority: i32, number: u64) {
        match self {
            Self::Arrival(queue) => queue.push_front(place),
            Self::Priority(queue) => _ = queue.insert((priority, number, place)),
        }
    }

    /// Takes a request out, wherever it is; whether it was there.
    pub(super) fn remove(&mut self, place: u32, priority: i32, number: u64) -> bool {
        match self {
            Self::Arrival(queue) => {
                let found = queue.iter().position(|one| *one == place);
                found.and_then(|index| queue.remove(index)).is_some()
            }
            Self::Priority(queue) => queue.remove(&(priority, number, place)),
        }
    }
}
