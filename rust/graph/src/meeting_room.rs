//! Where the ranks of a run meet.
//!
//! A meeting is held when each of its group has come to the same operation. Where all ranks have ended or wait, and no meeting
//! can be held, those that wait are refused.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trn3_numerics::check_interrupt;

use crate::error::{GraphError, Result};
use crate::graph::TensorOperation;
use crate::location::Location;
use crate::operations::{GroupCollective, zeros};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// How often who waits looks for interrupts.
const PATIENCE: Duration = Duration::from_millis(20);
/// Ranks that a refusal names.
const NAMED: usize = 8;

/// A rank at a collective.
struct Call {
    /// Which one: where the graph has it.
    site: usize,
    /// Its name, with its line.
    name: String,
    group: Vec<u64>,
    brought: Tensor,
}

enum Place {
    Running,
    Waiting(Call),
    /// What it takes away.
    Served(Result<Tensor>),
    /// Nobody it waits for can come.
    Stuck(String),
    Ended,
}

/// Where the ranks of a run meet.
pub(crate) struct MeetingRoom {
    places: Mutex<Vec<Place>>,
    changed: Condvar,
    /// Whether all are to stop.
    pub(crate) stop: Arc<AtomicBool>,
}

impl MeetingRoom {
    pub(crate) fn new(ranks: u32) -> Self {
        let places = (0..ranks).map(|_| Place::Running).collect();
        Self { places: Mutex::new(places), changed: Condvar::new(), stop: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the places until something changed, or it is time to look for interrupts.
    fn wait<'p>(&self, places: MutexGuard<'p, Vec<Place>>) -> Result<MutexGuard<'p, Vec<Place>>> {
        let waited = self.changed.wait_timeout(places, PATIENCE);
        check_interrupt()?;
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Brings a rank to a collective; what it takes away comes back.
    pub(crate) fn meet(
        &self,
        rank: u32,
        collective: &GroupCollective,
        (brought, result): (&Tensor, &TensorType),
        location: Option<&Location>,
    ) -> Result<Tensor> {
        let Some(group) = collective.group(rank) else { return zeros(result) };
        let name =
            location.map_or_else(|| collective.name().to_owned(), |line| format!("{} at {line}", collective.name()));
        let site = std::ptr::from_ref(collective).addr();
        let mut places = self.lock();
        places[rank as usize] = Place::Waiting(Call { site, name, group: group.to_vec(), brought: brought.clone() });
        let is_here = |member: &u64| matches!(places.get(*member as usize), Some(Place::Waiting(call)) if call.site == site && call.group == group);
        if group.iter().all(is_here) {
            let mut tensors = Vec::with_capacity(group.len());
            for member in group {
                // Nobody who is served counts as waiting: the others go on as soon as it is done.
                if let Place::Waiting(call) = std::mem::replace(&mut places[*member as usize], Place::Running) {
                    tensors.push(call.brought);
                }
            }
            drop(places);
            let taken = collective.exchange(group, &tensors.iter().collect::<Vec<_>>(), result);
            drop(tensors);
            places = self.lock();
            match taken {
                Ok(taken) => group.iter().zip(taken).for_each(|(&member, own)| {
                    places[member as usize] = Place::Served(Ok(own));
                }),
                Err(error) => group.iter().for_each(|&member| {
                    places[member as usize] = Place::Served(Err(error.clone()));
                }),
            }
            self.changed.notify_all();
        } else {
            self.look_for_stuck(&mut places);
        }
        loop {
            match &places[rank as usize] {
                Place::Served(_) | Place::Stuck(_) => break,
                _ => places = self.wait(places)?,
            }
        }
        match std::mem::replace(&mut places[rank as usize], Place::Running) {
            Place::Served(taken) => taken,
            Place::Stuck(reason) => {
                // It ends with this refusal, and nobody else is let go by it.
                places[rank as usize] = Place::Stuck(reason.clone());
                Err(GraphError::Argument(reason))
            }
            _ => Err(GraphError::Argument("the meeting ended early".to_owned())),
        }
    }

    /// Refuses who waits where nobody runs.
    fn look_for_stuck(&self, places: &mut [Place]) {
        if places.iter().any(|place| matches!(place, Place::Running | Place::Served(_))) {
            return;
        }
        let reasons: Vec<Option<String>> = (0..places.len()).map(|rank| reason(places, rank)).collect();
        for (place, reason) in places.iter_mut().zip(reasons) {
            if let Some(reason) = reason {
                *place = Place::Stuck(reason);
            }
        }
        self.changed.notify_all();
    }

    pub(crate) fn end(&self, rank: u32) {
        let mut places = self.lock();
        if !matches!(places[rank as usize], Place::Stuck(_)) {
            places[rank as usize] = Place::Ended;
        }
        self.look_for_stuck(&mut places);
        self.changed.notify_all();
    }

    pub(crate) fn is_stuck(&self, rank: usize) -> bool {
        matches!(self.lock()[rank], Place::Stuck(_))
    }

    /// Waits until all ranks have ended.
    pub(crate) fn wait_for_all(&self) -> Result<()> {
        let mut places = self.lock();
        // Who is stuck ends by itself.
        while !places.iter().all(|place| matches!(place, Place::Ended | Place::Stuck(_))) {
            places = self.wait(places)?;
        }
        Ok(())
    }
}

/// Why a rank that waits does so in vain.
fn reason(places: &[Place], rank: usize) -> Option<String> {
    let Place::Waiting(call) = &places[rank] else { return None };
    let missing = call.group.iter().filter(|&&member| {
        !matches!(&places[member as usize], Place::Waiting(other) if other.site == call.site && other.group == call.group)
    });
    let missing: Vec<usize> = missing.map(|&member| member as usize).collect();
    let where_is = |&member: &usize| match &places[member] {
        Place::Waiting(other) => format!("rank {member} is at {}", other.name),
        _ => format!("rank {member} has ended"),
    };
    let mut named: Vec<String> = missing.iter().take(NAMED).map(where_is).collect();
    if missing.len() > NAMED {
        named.push(format!("{} more ranks do not come", missing.len() - NAMED));
    }
    Some(format!("rank {rank} waits in vain: {}; all ranks of a group have to come", named.join(", ")))
}

/// Ends a rank's place in the room, however its work ends.
pub(crate) struct Seat<'r> {
    /// The room.
    pub(crate) room: &'r MeetingRoom,
    /// Whose.
    pub(crate) rank: u32,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.room.end(self.rank);
    }
}
