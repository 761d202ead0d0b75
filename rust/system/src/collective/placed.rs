//! Ranks of a launch on the chips of a system: what their collectives are there, and how long these take.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::build::Extra;
use super::choose::CollectiveTask;
use super::estimate::Estimator;
use super::group::RankGroup;
use super::name::Operation;
use crate::error::{Error, Result};

/// What a time depends on: operation, bytes as bits, lists, pairs.
type Timed = (Operation, u64, Vec<Vec<u64>>, Vec<(u64, u64)>);

/// A system with the ranks of a launch on it, so many on each chip, one after the other.
#[derive(Debug)]
pub struct PlacedRanks {
    estimator: Arc<Estimator>,
    /// Ranks that a chip of the system could have.
    most_per_chip: u32,
    /// Those it has.
    ranks_per_chip: u32,
    ranks: u32,
    /// Seconds of what was timed before.
    known: Mutex<HashMap<Timed, f64>>,
}

impl PlacedRanks {
    /// So many ranks on a system called `name`, of whose chips each could have `most_per_chip` and has `ranks_per_chip`, or
    /// all that it can.
    ///
    /// # Errors
    /// [`Error::Value`] if the system has no room for them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trn3_system::collective::{Estimator, Operation, PlacedRanks};
    /// use trn3_system::fabric::{Fabric, LinkProfile};
    ///
    /// let system = Arc::new(Fabric::built_in("trn3_gen2", LinkProfile::Docs)?);
    /// let ranks = PlacedRanks::new(Arc::new(Estimator::new(system)?), "trn3_gen2", 8, 16, None)?;
    /// let groups = [(0..16).collect()];
    /// assert!(ranks.seconds(Operation::AllReduce, 1e6, &groups, &[])? > 0.0);
    /// # Ok::<(), trn3_system::Error>(())
    /// ```
    pub fn new(
        estimator: Arc<Estimator>,
        name: &str,
        most_per_chip: u32,
        ranks: u32,
        ranks_per_chip: Option<i64>,
    ) -> Result<Self> {
        let wanted = ranks_per_chip.unwrap_or(most_per_chip.into());
        let fits = u32::try_from(wanted).ok().filter(|wanted| (1..=most_per_chip).contains(wanted));
        let Some(ranks_per_chip) = fits else {
            return Err(Error::Value(format!(
                "ranks_per_chip is {wanted}; a chip of {name} has 1 to {most_per_chip} ranks"
            )));
        };
        let chips = estimator.fabric().chips();
        let most = wanted as usize * chips;
        if ranks as usize > most {
            return Err(Error::Value(format!(
                "{ranks} ranks, {wanted} a chip, on {name}, which has {chips} chips; allowed: at most {most}"
            )));
        }
        Ok(Self { estimator, most_per_chip, ranks_per_chip, ranks, known: Mutex::default() })
    }

    /// What times them.
    pub fn estimator(&self) -> &Estimator {
        &self.estimator
    }

    /// How many there are.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Ranks that a chip has, one after the other.
    pub fn ranks_per_chip(&self) -> u32 {
        self.ranks_per_chip
    }

    /// How long a collective of so many bytes takes that all lists run at the same time; in seconds. Of a permutation the
    /// pairs say who takes part, and those within one rank take no time.
    ///
    /// # Errors
    /// As [`Estimator::cost`].
    pub fn seconds(&self, operation: Operation, bytes: f64, groups: &[Vec<u64>], pairs: &[(u64, u64)]) -> Result<f64> {
        let key = (operation, bytes.to_bits(), groups.to_vec(), pairs.to_vec());
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some(seconds) = known {
            return Ok(seconds);
        }
        let seconds = self.time(operation, bytes, groups, pairs)?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, seconds);
        Ok(seconds)
    }

    fn time(&self, operation: Operation, bytes: f64, lists: &[Vec<u64>], pairs: &[(u64, u64)]) -> Result<f64> {
        if operation != Operation::Permute {
            return Ok(self.estimator.cost(&self.task(operation, lists, &[])?, bytes, true)?.time);
        }
        let away: Vec<(u64, u64)> = pairs.iter().copied().filter(|(source, target)| source != target).collect();
        if away.is_empty() {
            return Ok(0.0);
        }
        let mut ranks: Vec<u64> = away.iter().flat_map(|&(source, target)| [source, target]).collect();
        ranks.sort_unstable();
        ranks.dedup();
        Ok(self.estimator.cost(&self.task(operation, &[ranks], &away)?, bytes, true)?.time)
    }

    /// An operation of lists of ranks; pairs are of the first list's.
    ///
    /// # Errors
    /// [`Error::Value`] for lists and pairs that the system cannot have.
    pub fn task(&self, operation: Operation, lists: &[Vec<u64>], pairs: &[(u64, u64)]) -> Result<CollectiveTask> {
        let placed = lists.iter().map(|list| list.iter().map(|&rank| self.place(rank)).collect()).collect();
        let groups = RankGroup::several(placed, self.most_per_chip, self.estimator.fabric().chips())?;
        let position = |rank: u64| {
            let found = lists.first().and_then(|list| list.iter().position(|&other| other == rank));
            let text = || format!("pairs has {rank}, which is not in the group");
            found.and_then(|found| u32::try_from(found).ok()).ok_or_else(|| Error::Value(text()))
        };
        let pairs = pairs.iter().map(|&(source, target)| Ok((position(source)?, position(target)?)));
        let extra = Extra { root: 0, pairs: pairs.collect::<Result<_>>()? };
        Ok(CollectiveTask { operation, algorithm: None, groups, extra })
    }

    /// Which rank of the system a rank of the launch is.
    fn place(&self, rank: u64) -> u32 {
        let (chip, own) = (rank / u64::from(self.ranks_per_chip), rank % u64::from(self.ranks_per_chip));
        u32::try_from(chip * u64::from(self.most_per_chip) + own).unwrap_or(u32::MAX)
    }
}
