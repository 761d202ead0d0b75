//! The network there is when the host gives none: every ordered pair of ranks has a link of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::host::{Arrival, Carried, Delivery, Message, Network};
use serde::{Deserialize, Serialize};
use trn3_machine::arch::ArchSpec;
use trn3_machine::storage::try_copy;
use trn3_machine::time::Picos;
use trn3_system::collective::Estimator;
use trn3_system::fabric::{Fabric, LinkProfile};

use crate::error::{Error, ErrorKind, Result};
use crate::meeting::{Meeting, Outcome, Place};

/// Links between ranks; clones are the same links, so that several devices of one process may be joined by them.
///
/// Between equal links ([`Links::uniform`]) ranks send messages. A message takes its link's latency and its bytes at the
/// link's rate; messages of one pair follow one another, those of different pairs do not disturb each other **(choice)**.
/// On a system ([`Links::of_system`]) the ranks of a collective meet, and it takes what
/// [`trn3_system::collective`] says.
///
/// ```
/// use trn3_machine::time::Picos;
/// use trn3_embed::{Message, Network};
/// use trn3_embed::Links;
///
/// let mut links = Links::uniform(Picos(1000), 2.0)?; // One nanosecond, two bytes a nanosecond.
/// let message = |key| Message { from: 0, to: 1, key, at: Picos(0), bytes: &[0; 4] };
/// links.send(&message(1))?;
/// links.send(&message(2))?;
/// assert_eq!(links.recv(0, 1, 1)?.map(|delivery| delivery.at), Some(Picos(3000)));
/// assert_eq!(links.recv(0, 1, 2)?.map(|delivery| delivery.at), Some(Picos(5000)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Links {
    hub: Arc<Mutex<Hub>>,
}

struct Hub {
    pace: Pace,
    state: Traffic,
}

/// Latency in picoseconds and bytes a nanosecond between ranks.
enum Pace {
    Uniform(u64, f64),
    /// Of chips of a system; ranks of one chip meet in its HBM.
    System {
        /// Of the fabric; or why the system has no collectives.
        estimator: trn3_system::Result<Box<Estimator>>,
        fabric: Arc<Fabric>,
        ranks_per_chip: u32,
        within: (u64, f64),
    },
}

/// What is under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    /// Messages by sender, receiver and key, first come first served.
    messages: BTreeMap<u64, VecDeque<Travelling>>,
    /// Until when each pair's link is taken.
    taken: BTreeMap<u64, u64>,
    /// Collectives whose ranks have not all come.
    meetings: Vec<Meeting>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Travelling {
    key: u64,
    at: u64,
    bytes: Vec<u8>,
    /// Why there is nothing to take.
    failure: Option<String>,
    /// Whether that is want of memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_short: bool,
}

fn pair(from: u32, to: u32) -> u64 {
    u64::from(from) << 32 | u64::from(to)
}

impl Links {
    /// Equal links between all ranks.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Value`] unless the rate, bytes a nanosecond, is a number above 0.
    pub fn uniform(latency: Picos, bytes_per_ns: f64) -> Result<Self> {
        if !(bytes_per_ns.is_finite() && bytes_per_ns > 0.0) {
            return Err(Error::value(format!("bytes_per_ns is {bytes_per_ns}; a number above 0 is needed")));
        }
        Ok(Self::with(Pace::Uniform(latency.0, bytes_per_ns)))
    }

    /// Links as the routes of a system are: `trn3_gen2` and others. Ranks fill chip after chip.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Value`] for the name.
    pub fn of_system(system: &str, arch: &ArchSpec) -> Result<Self> {
        let fabric = Arc::new(Fabric::built_in(system, LinkProfile::Docs)?);
        let estimator = Estimator::new(Arc::clone(&fabric)).map(Box::new);
        let within = (arch.nanoseconds(arch.dma_start_static_ns).0, arch.hbm_gbps);
        let ranks_per_chip = u32::try_from(arch.cores).unwrap_or(u32::MAX);
        Ok(Self::with(Pace::System { estimator, fabric, ranks_per_chip, within }))
    }

    fn with(pace: Pace) -> Self {
        Self { hub: Arc::new(Mutex::new(Hub { pace, state: Traffic::default() })) }
    }

    fn lock(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn save(&self) -> Traffic {
        self.lock().state.clone()
    }

    pub(crate) fn load(&self, state: Traffic) {
        self.lock().state = state;
    }
}

impl Pace {
    fn between(&self, from: u32, to: u32) -> Result<(u64, f64)> {
        match self {
            Pace::Uniform(latency, rate) => Ok((*latency, *rate)),
            Pace::System { fabric, ranks_per_chip, within, .. } => {
                let (one, other) = (from / ranks_per_chip, to / ranks_per_chip);
                if one == other {
                    return Ok(*within);
                }
                let route = fabric.route(one as usize, other as usize)?;
                // Bytes a second are a billionth of bytes a nanosecond.
                Ok((Picos::from_nanoseconds(route.latency * 1e9).0, route.rate / 1e9))
            }
        }
    }
}

impl Network for Links {
    fn send(&mut self, message: &Message<'_>) -> trn3_machine::Result<()> {
        let mut hub = self.lock();
        let (latency, rate) = hub.pace.between(message.from, message.to)?;
        let duration = Picos::from_nanoseconds(message.bytes.len() as f64 / rate).0;
        let link = pair(message.from, message.to);
        let taken = hub.state.taken.entry(link).or_default();
        let end = message.at.0.max(*taken).saturating_add(duration);
        *taken = end;
        let (at, bytes) = (end.saturating_add(latency), try_copy(message.bytes, "a message between ranks")?);
        let travelling = Travelling { key: message.key, at, bytes, failure: None, is_short: false };
        hub.state.messages.entry(link).or_default().push_back(travelling);
        Ok(())
    }

    fn recv(&mut self, from: u32, to: u32, key: u64) -> trn3_machine::Result<Option<Delivery>> {
        let mut hub = self.lock();
        let Some(messages) = hub.state.messages.get_mut(&pair(from, to)) else { return Ok(None) };
        let place = messages.iter().position(|message| message.key == key);
        match place.and_then(|place| messages.remove(place)) {
            None => Ok(None),
            Some(Travelling { failure: Some(text), is_short: true, .. }) => Err(trn3_machine::Error::HostMemory(text)),
            Some(Travelling { failure: Some(text), .. }) => Err(trn3_machine::Error::Value(text)),
            Some(Travelling { at, bytes, .. }) => Ok(Some(Delivery { at: Picos(at), bytes })),
        }
    }

    /// Links know ahead when a message is there.
    fn schedule(&mut self, _at: Picos) -> trn3_machine::Result<()> {
        Ok(())
    }

    /// Links have no time but the devices'.
    fn now(&self) -> Picos {
        Picos::ZERO
    }

    fn meets(&self) -> bool {
        matches!(self.lock().pace, Pace::System { .. })
    }

    fn arrive(&mut self, arrival: &Arrival<'_>) -> trn3_machine::Result<Carried> {
        let mut hub = self.lock();
        let Hub { pace, state } = &mut *hub;
        let Pace::System { estimator, ranks_per_chip, .. } = pace else {
            return Err(trn3_machine::Error::NotModelled("ranks do not meet on equal links".to_owned()));
        };
        let estimator = estimator.as_deref().map_err(|error| Error::from(error.clone()))?;
        let place = Place { estimator, ranks_per_chip: *ranks_per_chip };
        let (carried, outcomes) = place.arrive(&mut state.meetings, arrival)?;
        for Outcome { rank, at, result } in outcomes {
            let is_short = result.as_ref().is_err_and(|error| error.kind == ErrorKind::Capacity);
            let (bytes, failure) = result.map_or_else(|error| (Vec::new(), Some(error.message)), |bytes| (bytes, None));
            let travelling = Travelling { key: arrival.part.key << 1, at: at.0, bytes, failure, is_short };
            state.messages.entry(pair(rank, rank)).or_default().push_back(travelling);
        }
        Ok(carried)
    }
}
