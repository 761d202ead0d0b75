//! A core's collectives: four classes of service, each in program order. Those of transfers overtake by bytes, as
//! `timeline::overtaking` says.
//!
//! - **(choice)** A collective waits for those before it in the program of its own and of more urgent classes. One of a
//!   less urgent class it overtakes, whether that waits or runs; what it takes of the fabric's time, the next ones of those
//!   classes pay. The overtaken one itself keeps its end, which the program may have used already.
//! - **(choice)** Those without a priority are in the last class.

use super::record::NO_INSTRUCTION;
use super::tensor_array::Bound;

/// Classes of service; priorities are their numbers, 0 the most urgent.
pub const CLASSES: usize = 4;

/// When each class goes on, and the last collective of it.
#[derive(Clone, Debug)]
pub(crate) struct Collectives {
    classes: [(u64, u32); CLASSES],
}

impl Default for Collectives {
    fn default() -> Self {
        Self { classes: [(0, NO_INSTRUCTION); CLASSES] }
    }
}

impl Collectives {
    /// When a collective of a class can start.
    pub(crate) fn free(&self, priority: Option<u8>) -> Bound {
        let mut bound = Bound::START;
        for &(free, last) in &self.classes[..=class(priority)] {
            let order = Bound::order(free, last);
            bound.raise(order.at, order.cause, order.on);
        }
        bound
    }

    /// Calls with each moment that what runs later may depend on.
    pub(super) fn each_moment(&mut self, visit: &mut impl FnMut(&mut u64)) {
        self.classes.iter_mut().for_each(|(free, _)| visit(free));
    }

    /// Runs a collective of a class for some time.
    pub(crate) fn hold(&mut self, priority: Option<u8>, start: u64, duration: u64, id: u32) {
        for (free, last) in &mut self.classes[class(priority)..] {
            *free = (*free).max(start).saturating_add(duration);
            *last = id;
        }
    }
}

/// The class of a priority.
pub(crate) fn class(priority: Option<u8>) -> usize {
    priority.map_or(CLASSES - 1, |priority| usize::from(priority).min(CLASSES - 1))
}
