//! Costs of collectives from their schedules: counted on the links of the fabric's graph, not on its levels.

use std::sync::Arc;

use super::communication::{Communication, ExchangeCost, Group, LevelCosts, StepCollective};
use super::hardware::{Machine, Rank};
use trn3_system::collective::{self, Estimator, Operation};
use trn3_system::fabric::Fabric;
use trn3_system::{Error, Result};

/// Costs of the fastest schedule of each collective, on the graph of one system.
///
/// A schedule is that of one group. Where several groups share the links of a chip, the cost is that of as many times
/// the bytes **(choice)**. The first cost of a group of hundreds of ranks takes milliseconds, later ones do not.
pub struct ScheduleCosts {
    estimator: Estimator,
    levels: LevelCosts,
    per_chip: u32,
}

impl ScheduleCosts {
    /// Costs on a system whose ranks are logical cores like `rank`.
    ///
    /// # Errors
    /// [`Error::Value`] if the system is a single chip or a cluster, which have no graph of their own.
    pub fn new(machine: &Machine, rank: &Rank) -> Result<Self> {
        let Some((facts, profile)) = machine.graph() else {
            return Err(Error::Value(format!(
                "collectives=\"schedules\" needs one system with a fabric; {} is a chip or a cluster: \"levels\" would work",
                machine.title
            )));
        };
        let estimator = Estimator::new(Arc::new(Fabric::from_facts(facts, profile)?))?;
        Ok(Self { estimator, levels: LevelCosts::new(machine, rank)?, per_chip: rank.per_chip })
    }

    fn schedule(&self, collective: StepCollective, group: Group, bytes: f64) -> Result<ExchangeCost> {
        let operation = match collective {
            StepCollective::AllReduce => Operation::AllReduce,
            StepCollective::AllGather => Operation::AllGather,
            StepCollective::ReduceScatter => Operation::ReduceScatter,
            StepCollective::AllToAll => Operation::AllToAll,
            StepCollective::Send => return Ok(self.levels.cost(collective, group, bytes)),
        };
        let ranks = (0..group.ranks).map(|index| (index * group.stride) as u32).collect();
        let members = collective::RankGroup::new(ranks, self.per_chip, self.estimator.fabric().chips())?;
        let estimate = self.estimator.estimate(operation, &members, bytes * self.levels.groups(group), None)?;
        let link_bytes = self.levels.cost(collective, group, bytes).link_bytes;
        let binding = format!("{} ({})", estimate.binding, estimate.algorithm);
        Ok(ExchangeCost { seconds: estimate.time, link_bytes, binding })
    }
}

impl Communication for ScheduleCosts {
    fn cost(&self, collective: StepCollective, group: Group, bytes: f64) -> ExchangeCost {
        if group.ranks <= 1 || bytes <= 0.0 {
            return ExchangeCost::nothing();
        }
        self.schedule(collective, group, bytes).unwrap_or_else(|_| self.levels.cost(collective, group, bytes))
    }

    fn assumptions(&self) -> Vec<String> {
        vec![
            "collectives: the fastest schedule of each on the fabric's graph, alone in its group (its constants are \
             those of trn3 nccom-test); groups that share a chip cost as much as one with all of their bytes (choice); \
             messages between stages, and groups that no schedule serves, by the levels' rates"
                .to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_schedules_price_groups_of_every_stride() {
        let machine = Machine::built_in("gen2").expect("loads");
        let rank = machine.chip.rank(2).expect("allowed");
        let costs = ScheduleCosts::new(&machine, &rank).expect("builds");
        let cost = |stride, bytes| costs.cost(StepCollective::AllReduce, Group { ranks: 8, stride }, bytes).seconds;
        // Four groups beside each other share the chips' links.
        assert!(cost(4, 1e8) > 2.0 * cost(1, 1e8));
        assert!(cost(1, 1e9) > 5.0 * cost(1, 1e8));
        assert_eq!(costs.cost(StepCollective::AllReduce, Group { ranks: 1, stride: 1 }, 1e9).seconds, 0.0);
    }

    #[test]
    fn test_clusters_have_no_schedules() {
        let machine = Machine::built_in("gen2").expect("loads").cluster(2).expect("allowed");
        let rank = machine.chip.rank(2).expect("allowed");
        assert!(ScheduleCosts::new(&machine, &rank).is_err());
    }
}
