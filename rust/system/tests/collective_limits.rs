//! What no time of a collective may do: beat what its links carry, or shrink when there is more to do or less to do it with.

use std::sync::Arc;

use trn3_facts::Facts;
use trn3_system::cluster::{Cluster, NetworkOptions};
use trn3_system::collective::{Algorithm, Estimator, Operation, RankGroup, UnitNetwork};
use trn3_system::fabric::{Fabric, LinkProfile, bound};

const OPERATIONS: [Operation; 4] =
    [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll];

fn all(fabric: &Fabric, per_chip: u32) -> RankGroup {
    RankGroup::new((0..fabric.chips() as u32 * per_chip).collect(), per_chip, fabric.chips()).expect("fits")
}

fn clusters() -> Vec<(String, Fabric, u32)> {
    let mut made = Vec::new();
    for (name, per_chip, count, under) in
        [("trn1_32xlarge", 2, 4, 2), ("trn2_instance", 2, 5, 2), ("trn3_gen1", 1, 2, 1)]
    {
        let facts = Facts::built_in(name).expect("facts");
        for oversubscription in [1.0, 2.0, 16.0] {
            let fabric = Fabric::oversubscribed(&facts, count, LinkProfile::Docs, oversubscription, under);
            made.push((format!("{name} {oversubscription}"), fabric.expect("builds"), per_chip));
        }
    }
    made
}

#[test]
fn test_no_exchange_beats_the_bound_of_its_system() {
    let single = ["trn1_32xlarge", "trn2_instance", "trn3_gen2"];
    let single = single.map(|name| (name.to_owned(), Fabric::built_in(name, LinkProfile::Docs).expect("builds"), 2));
    for (name, fabric, per_chip) in single.into_iter().chain(clusters()) {
        let bound = bound::all_to_all(&fabric, None).expect("bounds").per_chip;
        let group = all(&fabric, per_chip);
        let estimator = Estimator::new(Arc::new(fabric)).expect("estimates");
        for bytes in [1e3, 1e6, 1e9] {
            let time = estimator.estimate(Operation::AllToAll, &group, bytes, None).expect("there").time;
            // What of a chip's buffers leaves it.
            let ranks = group.size() as f64;
            let sent = f64::from(per_chip) * bytes * (ranks - f64::from(per_chip)) / ranks;
            assert!(time >= sent / bound, "{name} {bytes}: {time} against {}", sent / bound);
        }
    }
}

#[test]
fn test_narrower_networks_cost_no_less() {
    let made = clusters();
    for three in made.chunks(3) {
        let group = all(&three[0].1, three[0].2);
        let of = |fabric: &Fabric| Estimator::new(Arc::new(fabric.clone())).expect("estimates");
        let estimators: Vec<Estimator> = three.iter().map(|(_, fabric, _)| of(fabric)).collect();
        for operation in [Operation::AllReduce, Operation::AllGather, Operation::AllToAll] {
            for bytes in [1.0, 1e5, 1e8, 1e9] {
                let time = |of: &Estimator| of.estimate(operation, &group, bytes, None).expect("there").time;
                let times: Vec<f64> = estimators.iter().map(time).collect();
                assert!(times.is_sorted(), "{} {operation} {bytes}: {times:?}", three[0].0);
                assert!(bytes < 1e9 || times[2] > times[0], "{} {operation}: {times:?}", three[0].0);
            }
        }
    }
}

fn roles(name: &str, systems: u64, oversubscription: f64) -> (Cluster, Estimator, RankGroup) {
    let facts = Facts::built_in(name).expect("facts");
    let options = NetworkOptions { oversubscription: Some(oversubscription), ..NetworkOptions::default() };
    let cluster = Cluster::new(&facts, systems, LinkProfile::Docs, &options).expect("builds");
    let group = all(cluster.unit(), 4);
    let estimator = Estimator::new(Arc::new(cluster.unit().clone())).expect("estimates");
    (cluster, estimator, group)
}

#[test]
fn test_large_clusters_keep_to_their_bound_and_feel_a_narrow_network() {
    for systems in [2, 17, 100, 1000] {
        let mut last = [0.0; 4];
        for oversubscription in [1.0, 1.5, 4.0, 16.0] {
            let (cluster, estimator, group) = roles("trn3_gen2", systems, oversubscription);
            let bound = cluster.all_to_all().expect("bounds").per_chip;
            let network = UnitNetwork::of(&cluster);
            let ranks = (group.size() as u64 * systems) as f64;
            for (place, operation) in OPERATIONS.into_iter().enumerate() {
                let time = estimator.across(operation, &group, 1e9, network).expect("there").time;
                assert!(time >= last[place], "{systems} {oversubscription} {operation}");
                last[place] = time;
                if operation == Operation::AllToAll {
                    let least = 4.0 * 1e9 * (ranks - 4.0) / ranks / bound;
                    assert!(time >= least, "{systems} {oversubscription}: {time} against {least}");
                }
            }
        }
    }
}

#[test]
fn test_sixteenfold_oversubscription_slows_an_exchange_of_100_racks_more_than_four_times() {
    let time = |oversubscription| {
        let (cluster, estimator, group) = roles("trn3_gen2", 100, oversubscription);
        estimator.across(Operation::AllToAll, &group, 100e6, UnitNetwork::of(&cluster)).expect("there").time
    };
    assert!(time(16.0) > 4.0 * time(1.0), "{} {}", time(16.0), time(1.0));
}

#[test]
fn test_more_bytes_and_more_systems_cost_no_less() {
    for name in ["trn1_32xlarge", "trn2_instance"] {
        let facts = Facts::built_in(name).expect("facts");
        for operation in OPERATIONS {
            let mut of_systems = [0.0; 3];
            for systems in [2, 3, 4, 6] {
                let fabric = Arc::new(Fabric::cluster(&facts, systems, LinkProfile::Docs).expect("builds"));
                let group = all(&fabric, 2);
                let estimator = Estimator::new(fabric).expect("estimates");
                let times = [8.0, 1e6, 1e9]
                    .map(|bytes| estimator.estimate(operation, &group, bytes, None).expect("there").time);
                assert!(times.is_sorted(), "{name} {systems} {operation}: {times:?}");
                for (before, now) in of_systems.iter_mut().zip(times) {
                    assert!(now >= *before * 0.999, "{name} {systems} {operation}: {now} after {before}");
                    *before = now;
                }
            }
        }
    }
}

#[test]
fn test_rings_over_instances_leave_each_by_every_chip() {
    let facts = Facts::built_in("trn1_32xlarge").expect("facts");
    let fabric = Arc::new(Fabric::cluster(&facts, 2, LinkProfile::Docs).expect("builds"));
    let group = all(&fabric, 2);
    let level = fabric.network().expect("joined").level;
    let estimator = Estimator::new(fabric.clone()).expect("estimates");
    let found = estimator.estimate(Operation::AllReduce, &group, 1e9, None).expect("there");
    assert_eq!(found.algorithm, Algorithm::Ring);
    let carried: Vec<f64> = (found.profile.links.iter())
        .filter(|(link, _)| fabric.links()[*link as usize].level as usize == level)
        .map(|&(_, bytes)| bytes)
        .collect();
    assert_eq!(carried.len(), 64);
    assert!(carried.iter().all(|bytes| (bytes / carried[0] - 1.0).abs() < 1e-9), "{carried:?}");
}

#[test]
fn test_starts_are_those_of_neuron_alone() {
    let start = |name: &str, per_chip: u32| {
        let facts = Facts::load(name).expect("there");
        let fabric = Arc::new(Fabric::from_facts(&facts, LinkProfile::Docs).expect("builds"));
        let group = all(&fabric, per_chip);
        let estimator = Estimator::new(fabric).expect("estimates");
        let profile = estimator.estimate(Operation::AllReduce, &group, 1e6, None).expect("there").profile;
        (profile.start, estimator.host_start(std::slice::from_ref(&group)))
    };
    for (name, per_chip) in [("h100", 1), ("gb200_nvl72", 1), ("tpu_v7:chips=64", 1)] {
        assert_eq!(start(name, per_chip), (0.0, 0.0), "{name}");
    }
    let (program, host) = start("trn2_instance", 4);
    assert!(program > 0.0 && host > 64.0 * 1e-6, "{program} {host}");
}
