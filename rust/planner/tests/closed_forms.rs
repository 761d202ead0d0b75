//! Plans and `trn3.collectives` price the same collectives: one by levels in closed form, the other by executed schedules.

use std::sync::Arc;

use trn3_facts::Facts;
use trn3_planner::{Communication, Group, LevelCosts, Machine, StepCollective};
use trn3_system::collective::{Estimator, Operation, RankGroup};
use trn3_system::fabric::{Fabric, LinkProfile};

/// The closed form knows no detours on a torus, no schedule's waste, and chooses among three ways.
const AGREEMENT: f64 = 2.0;

#[test]
fn test_closed_forms_and_schedules_agree_on_symmetric_groups() {
    let operations = [
        (Operation::AllReduce, StepCollective::AllReduce),
        (Operation::AllGather, StepCollective::AllGather),
        (Operation::ReduceScatter, StepCollective::ReduceScatter),
        (Operation::AllToAll, StepCollective::AllToAll),
    ];
    let systems =
        [("trn1_32xlarge", 1), ("trn1_32xlarge", 2), ("trn2_instance", 1), ("trn2_instance", 2), ("trn3_gen2", 1)];
    let mut apart = Vec::new();
    for (system, instances) in systems {
        let machine = Machine::built_in(system).expect("loads").cluster(instances).expect("allowed");
        let lnc = *machine.chip.lnc_modes.last().expect("modes");
        let rank = machine.chip.rank(lnc).expect("allowed");
        let levels = LevelCosts::new(&machine, &rank).expect("builds");
        let facts = Facts::built_in(system).expect("loads");
        let fabric = match instances {
            1 => Fabric::from_facts(&facts, LinkProfile::Docs),
            count => Fabric::cluster(&facts, count, LinkProfile::Docs),
        };
        let fabric = Arc::new(fabric.expect("builds"));
        let (chips, whole) = (fabric.chips(), fabric.chips() as u64 * u64::from(rank.per_chip));
        let schedules = Estimator::new(fabric).expect("builds");
        for ranks in [8, 16, whole] {
            let members = RankGroup::new((0..ranks as u32).collect(), rank.per_chip, chips).expect("there");
            let group = Group { ranks, stride: 1 };
            for (operation, collective) in operations {
                for bytes in [1e3, 1e6, 1e8] {
                    let theirs = schedules.estimate(operation, &members, bytes, None).expect("estimates").time;
                    let ratio = theirs / levels.cost(collective, group, bytes).seconds;
                    if !(1.0 / AGREEMENT..AGREEMENT).contains(&ratio) {
                        apart
                            .push(format!("{instances} x {system}, {operation} of {ranks}, {bytes} bytes: {ratio:.2}"));
                    }
                }
            }
        }
    }
    assert!(apart.is_empty(), "{apart:#?}");
}
