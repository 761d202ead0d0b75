//! What connects the ranks of a launch: a system, whose own collectives move and time their data.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use trn3_machine::isa::rank_call::RankOperation;
use trn3_system::collective::{CollectiveTask, Estimator, Extra, Operation, RankGroup};
use trn3_system::{Error, Result};

/// A system with the ranks of a launch on it.
#[derive(Debug)]
pub struct RankFabric {
    estimator: Arc<Estimator>,
    /// Ranks that a chip of the system could have.
    most_per_chip: u32,
    /// Those it has, one after the other.
    ranks_per_chip: u32,
    /// Seconds of what was timed before.
    known: Mutex<HashMap<Timed, f64>>,
}

/// What a time depends on: operation, bytes as bits, lists, pairs.
type Timed = (RankOperation, u64, Vec<Vec<u64>>, Vec<(u64, u64)>);

impl RankFabric {
    /// So many ranks on a system called `name`, of whose chips each could have `most_per_chip` and has `ranks_per_chip`, or
    /// all that it can.
    ///
    /// # Errors
    /// [`Error::Value`] if the system has no room for them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trn3_embed::meeting::RankFabric;
    /// use trn3_system::collective::Estimator;
    /// use trn3_system::fabric::{Fabric, LinkProfile};
    ///
    /// let system = Arc::new(Fabric::built_in("trn3_gen2", LinkProfile::Docs)?);
    /// let fabric = RankFabric::new(Arc::new(Estimator::new(system)?), "trn3_gen2", 8, 16, None)?;
    /// assert_eq!(fabric.left_out(&[0, 1, 2, 3, 4, 5, 6, 9]), [7, 8, 10, 11, 12, 13, 14, 15]);
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
        Ok(Self { estimator, most_per_chip, ranks_per_chip, known: Mutex::default() })
    }

    /// Ranks that a chip has, one after the other.
    pub fn ranks_per_chip(&self) -> u32 {
        self.ranks_per_chip
    }

    /// The ranks that share a chip with some of a group and are not in it.
    pub fn left_out(&self, group: &[u64]) -> Vec<u64> {
        let each = u64::from(self.ranks_per_chip);
        let mut chips: Vec<u64> = group.iter().map(|rank| rank / each).collect();
        chips.sort_unstable();
        chips.dedup();
        let ranks = chips.into_iter().flat_map(|chip| chip * each..(chip + 1) * each);
        ranks.filter(|rank| !group.contains(rank)).collect()
    }

    pub(super) fn estimator(&self) -> &Estimator {
        &self.estimator
    }

    /// How long a collective of so many bytes takes that all lists run at the same time; in seconds.
    ///
    /// # Errors
    /// As [`Estimator::cost`].
    pub fn seconds(
        &self,
        operation: RankOperation,
        bytes: f64,
        groups: &[Vec<u64>],
        pairs: &[(u64, u64)],
    ) -> Result<f64> {
        let key = (operation, bytes.to_bits(), groups.to_vec(), pairs.to_vec());
        let known =
            |fabric: &Self, key: &Timed| fabric.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied();
        if let Some(seconds) = known(self, &key) {
            return Ok(seconds);
        }
        let seconds = self.time(operation, bytes, groups, pairs)?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, seconds);
        Ok(seconds)
    }

    fn time(&self, operation: RankOperation, bytes: f64, lists: &[Vec<u64>], pairs: &[(u64, u64)]) -> Result<f64> {
        let of_lists = |operation| self.task(operation, lists, &[]);
        let task = match operation {
            RankOperation::AllReduce => of_lists(Operation::AllReduce)?,
            RankOperation::AllGather => of_lists(Operation::AllGather)?,
            RankOperation::ReduceScatter => of_lists(Operation::ReduceScatter)?,
            RankOperation::AllToAll => of_lists(Operation::AllToAll)?,
            RankOperation::AllToAllV => of_lists(Operation::AllToAllV)?,
            RankOperation::AllGatherV => of_lists(Operation::AllGatherV)?,
            _ => {
                let away: Vec<(u64, u64)> = pairs.iter().copied().filter(|(source, target)| source != target).collect();
                let mut ranks: Vec<u64> = away.iter().flat_map(|&(source, target)| [source, target]).collect();
                ranks.sort_unstable();
                ranks.dedup();
                if away.is_empty() {
                    return Ok(0.0);
                }
                self.task(Operation::Permute, &[ranks], &away)?
            }
        };
        Ok(self.estimator.cost(&task, bytes, true)?.time)
    }

    /// An operation of lists of ranks; pairs are of the first list's.
    pub(super) fn task(
        &self,
        operation: Operation,
        lists: &[Vec<u64>],
        pairs: &[(u64, u64)],
    ) -> Result<CollectiveTask> {
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
