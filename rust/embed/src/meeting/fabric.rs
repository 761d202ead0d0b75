//! What connects the ranks of a launch: a system, whose own collectives move and time their data.

use std::sync::Arc;

use trn3_machine::isa::rank_call::RankOperation;
use trn3_system::Result;
use trn3_system::collective::{CollectiveTask, Estimator, Operation, PlacedRanks};

/// A system with the ranks of a launch on it.
#[derive(Debug)]
pub struct RankFabric {
    placed: PlacedRanks,
}

impl RankFabric {
    /// So many ranks on a system called `name`, of whose chips each could have `most_per_chip` and has `ranks_per_chip`, or
    /// all that it can.
    ///
    /// # Errors
    /// As [`PlacedRanks::new`]: if the system has no room for them.
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
        let placed = PlacedRanks::new(estimator, name, most_per_chip, ranks, ranks_per_chip)?;
        Ok(Self { placed })
    }

    /// Ranks that a chip has, one after the other.
    pub fn ranks_per_chip(&self) -> u32 {
        self.placed.ranks_per_chip()
    }

    /// The ranks that share a chip with some of a group and are not in it.
    pub fn left_out(&self, group: &[u64]) -> Vec<u64> {
        let each = u64::from(self.ranks_per_chip());
        let mut chips: Vec<u64> = group.iter().map(|rank| rank / each).collect();
        chips.sort_unstable();
        chips.dedup();
        let ranks = chips.into_iter().flat_map(|chip| chip * each..(chip + 1) * each);
        ranks.filter(|rank| !group.contains(rank)).collect()
    }

    pub(super) fn estimator(&self) -> &Estimator {
        self.placed.estimator()
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
        let operation = match operation {
            RankOperation::AllReduce => Operation::AllReduce,
            RankOperation::AllGather => Operation::AllGather,
            RankOperation::ReduceScatter => Operation::ReduceScatter,
            RankOperation::AllToAll => Operation::AllToAll,
            RankOperation::AllToAllV => Operation::AllToAllV,
            RankOperation::AllGatherV => Operation::AllGatherV,
            RankOperation::CollectivePermute
            | RankOperation::CollectivePermuteImplicit
            | RankOperation::CollectivePermuteImplicitReduce => Operation::Permute,
        };
        self.placed.seconds(operation, bytes, groups, pairs)
    }

    /// An operation of lists of ranks; pairs are of the first list's.
    pub(super) fn task(
        &self,
        operation: Operation,
        lists: &[Vec<u64>],
        pairs: &[(u64, u64)],
    ) -> Result<CollectiveTask> {
        self.placed.task(operation, lists, pairs)
    }
}
