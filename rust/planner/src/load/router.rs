//! Which replica a request goes to.

use serde::Serialize;
use trn3_system::{Error, Result};

use super::blocks::contents;
use super::conversation::Turn;
use super::replica::Replica;

/// How requests are shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoutingPolicy {
    /// To each in turn.
    RoundRobin,
    /// To the one with the fewest requests; of several to the one that was chosen least recently.
    #[default]
    LeastLoaded,
    /// To the one that knows the longest beginning of the prompt, unless it has many more requests than another.
    PrefixAware,
}

impl RoutingPolicy {
    /// The policy of a name, `least_loaded` where none is given.
    ///
    /// # Errors
    /// [`Error::Unknown`] for any other than `round_robin`, `least_loaded` and `prefix_aware`.
    pub fn parse(name: Option<&str>) -> Result<Self> {
        match name {
            Some("round_robin") => Ok(Self::RoundRobin),
            None | Some("least_loaded") => Ok(Self::LeastLoaded),
            Some("prefix_aware") => Ok(Self::PrefixAware),
            Some(other) => Err(Error::unknown("router", other, ["round_robin", "least_loaded", "prefix_aware"])),
        }
    }
}

/// Requests more than the least loaded replica has, as a share of the sequences of a step, beyond which a known prefix no
/// longer counts **(choice)**.
const MOST_IMBALANCE: f64 = 0.25;

/// The state of a router.
#[derive(Clone, Debug)]
pub(super) struct Router {
    policy: RoutingPolicy,
    /// When each replica was chosen last, by a count of choices.
    chosen: Vec<u64>,
    choices: u64,
}

impl Router {
    pub(super) fn new(policy: RoutingPolicy) -> Self {
        Self { policy, chosen: Vec::new(), choices: 0 }
    }

    /// One of the replicas that are open; `None` if none is.
    pub(super) fn choose(&mut self, replicas: &[Replica], open: &[usize], turn: &Turn) -> Option<usize> {
        self.chosen.resize(replicas.len(), 0);
        let least = |index: &&usize| (replicas[**index].outstanding(), self.chosen[**index]);
        let found = match self.policy {
            RoutingPolicy::RoundRobin => open.iter().min_by_key(|index| self.chosen[**index]),
            RoutingPolicy::LeastLoaded => open.iter().min_by_key(least),
            RoutingPolicy::PrefixAware => {
                let fewest = open.iter().map(|&index| replicas[index].outstanding()).min()?;
                let known = |&index: &usize| {
                    let replica = &replicas[index];
                    let most = fewest + (MOST_IMBALANCE * replica.rules.sequences as f64) as usize;
                    let all = contents(turn.segments.iter().copied(), replica.rules.block);
                    if replica.outstanding() > most { 0 } else { replica.blocks.find(all).0 }
                };
                open.iter().min_by_key(|index| (std::cmp::Reverse(known(index)), least(index)))
            }
        };
        let found = *found?;
        self.choices += 1;
        self.chosen[found] = self.choices;
        Some(found)
    }
}
