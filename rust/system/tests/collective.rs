//! Collectives: data against plain sums, counts against closed forms, costs against what is known of them.

use std::sync::Arc;

use proptest::prelude::*;
use trn3_system::collective::{
    Algorithm, Arithmetic, Estimator, Extra, Operation, RankGroup, RunningCollective, Schedule, closed_form, execute,
    output_length, overlap,
};
use trn3_system::fabric::{Fabric, LinkProfile};

fn fabric(name: &str) -> Arc<Fabric> {
    Arc::new(Fabric::built_in(name, LinkProfile::Docs).expect("fabric"))
}

fn all(fabric: &Fabric, per_chip: u32) -> RankGroup {
    RankGroup::new((0..fabric.chips() as u32 * per_chip).collect(), per_chip, fabric.chips()).expect("group")
}

fn schedule(fabric: &Fabric, group: &RankGroup, operation: Operation, algorithm: Algorithm) -> Schedule {
    Schedule::new(fabric, group, operation, algorithm, &Extra::default()).expect("schedule")
}

/// Runs a schedule on int32 buffers of `length` elements each.
fn run(schedule: &Schedule, inputs: &[Vec<i32>]) -> Vec<Vec<i32>> {
    let bytes: Vec<Vec<u8>> = inputs.iter().map(|input| input.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
    let length = output_length(schedule, inputs[0].len());
    let mut outputs = vec![vec![0u8; length * 4]; inputs.len()];
    execute(
        schedule,
        &Arithmetic::new("int32".parse().expect("dtype")),
        &bytes.iter().map(|input| &input[..]).collect::<Vec<_>>(),
        &mut outputs.iter_mut().map(|output| &mut output[..]).collect::<Vec<_>>(),
        None,
    )
    .expect("runs");
    let decode = |output: &Vec<u8>| output.as_chunks::<4>().0.iter().map(|code| i32::from_le_bytes(*code)).collect();
    outputs.iter().map(decode).collect()
}

fn inputs(ranks: usize, length: usize) -> Vec<Vec<i32>> {
    (0..ranks).map(|rank| (0..length).map(|i| ((rank * 7919 + i * 104_729) % 1013) as i32 - 500).collect()).collect()
}

/// Every operation and algorithm that this group has, on data.
fn check_all(fabric: &Fabric, group: &RankGroup) {
    let n = group.size();
    for &operation in &[
        Operation::AllReduce,
        Operation::AllGather,
        Operation::ReduceScatter,
        Operation::AllToAll,
        Operation::Broadcast,
    ] {
        for &algorithm in Algorithm::of(operation) {
            let extra = Extra { root: n as u32 / 2, ..Extra::default() };
            let Ok(made) = Schedule::new(fabric, group, operation, algorithm, &extra) else { continue };
            let per = if operation == Operation::AllReduce || operation == Operation::Broadcast { 37 } else { 3 * n };
            let inputs = inputs(n, per);
            let outputs = run(&made, &inputs);
            let sum: Vec<i32> = (0..per).map(|i| inputs.iter().map(|input| input[i]).sum()).collect();
            for (rank, output) in outputs.iter().enumerate() {
                let expected = match operation {
                    Operation::AllReduce => sum.clone(),
                    Operation::AllGather => inputs.concat(),
                    Operation::ReduceScatter => sum[rank * 3..rank * 3 + 3].to_vec(),
                    Operation::AllToAll => {
                        inputs.iter().flat_map(|input| input[rank * 3..rank * 3 + 3].to_vec()).collect()
                    }
                    _ => inputs[n / 2].clone(),
                };
                assert_eq!(output, &expected, "{operation} {algorithm} rank {rank} of {n}");
            }
        }
    }
}

#[test]
fn test_every_algorithm_computes_its_operation() {
    let torus = fabric("trn2_instance");
    for (ranks, per_chip) in [
        ((0..64).collect::<Vec<u32>>(), 4),
        ((0..16).collect(), 4),
        ((0..16).map(|chip| 4 * chip).collect(), 4),
        ((0..64).rev().collect(), 4),
        (vec![5, 0, 17, 63, 2], 4),
        ((0..8).collect(), 8),
        ((0..48).collect(), 8),
        (vec![3], 4),
        (vec![3, 9], 4),
        ((0..16).collect(), 1),
    ] {
        check_all(&torus, &RankGroup::new(ranks, per_chip, 16).expect("group"));
    }
    let gen2 = fabric("trn3_gen2");
    check_all(&gen2, &RankGroup::new((0..32).collect(), 4, 144).expect("group"));
    let spread: Vec<u32> = [0, 1, 4, 5, 72, 73, 76, 77].iter().flat_map(|chip| [chip * 2, chip * 2 + 1]).collect();
    check_all(&gen2, &RankGroup::new(spread, 2, 144).expect("group"));
    check_all(&fabric("trn2_ultraserver"), &RankGroup::new((0..64).collect(), 1, 64).expect("group"));
}

#[test]
fn test_counts_equal_the_closed_forms() {
    for (name, per_chip, ranks) in [
        ("trn2_instance", 4, 64),
        ("trn2_instance", 8, 128),
        ("trn2_instance", 1, 16),
        ("trn2_ultraserver", 4, 256),
        ("trn3_gen2", 4, 16),
        ("trn3_gen2", 4, 4),
        ("gb200_nvl72", 1, 72),
    ] {
        let fabric = fabric(name);
        let group = RankGroup::new((0..ranks).collect(), per_chip, fabric.chips()).expect("group");
        let estimator = Estimator::new(fabric.clone()).expect("estimator");
        for operation in [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll] {
            for &algorithm in Algorithm::of(operation) {
                let Some(closed) = closed_form(operation, algorithm, ranks / per_chip, per_chip) else { continue };
                let Ok(made) = Schedule::new(&fabric, &group, operation, algorithm, &Extra::default()) else {
                    continue;
                };
                let counted = estimator.profile(&group, &made).expect("profile");
                let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1e-9);
                let what = format!("{name} {operation} {algorithm} {ranks}");
                assert_eq!((counted.steps, made.steps()), (closed.steps, closed.steps), "{what}");
                assert!(close(counted.remote, closed.remote), "{what}: {} {}", counted.remote, closed.remote);
                assert!(close(counted.accesses, closed.accesses), "{what}: {} {}", counted.accesses, closed.accesses);
            }
        }
    }
}

#[test]
fn test_kangaring_touches_three_of_four_and_four_of_six() {
    let fabric = fabric("trn2_instance");
    let (group, estimator) = (all(&fabric, 4), Estimator::new(fabric.clone()).expect("estimator"));
    let touches = |operation, algorithm| {
        estimator.profile(&group, &schedule(&fabric, &group, operation, algorithm)).expect("profile").accesses_per_chunk
    };
    assert_eq!(touches(Operation::AllGather, Algorithm::Ring), 4.0);
    assert_eq!(touches(Operation::AllGather, Algorithm::KangaRing), 3.0);
    assert_eq!(touches(Operation::ReduceScatter, Algorithm::Ring), 6.0);
    assert_eq!(touches(Operation::ReduceScatter, Algorithm::KangaRing), 4.0);
    assert!((touches(Operation::AllReduce, Algorithm::KangaRing) - 7.0).abs() < 1e-9);
}

#[test]
fn test_thresholds_on_sixteen_trainium2_are_the_fitted_ones() {
    let fabric = fabric("trn2_instance");
    let (group, estimator) = (all(&fabric, 4), Estimator::new(fabric.clone()).expect("estimator"));
    let best = |bytes| estimator.estimate(Operation::AllReduce, &group, bytes, None).expect("estimate").algorithm;
    let crossing = |below: Algorithm, mut low: f64, mut high: f64| {
        assert_eq!(best(low), below);
        while high / low > 1.0001 {
            let middle = (low * high).sqrt();
            if best(middle) == below { low = middle } else { high = middle }
        }
        low
    };
    let first = crossing(Algorithm::Mesh, 1e5, 1e7);
    let second = crossing(Algorithm::Rdh, 1e7, 1e9);
    assert!((first / 1.06e6 - 1.0).abs() < 0.005, "{first}");
    assert!((second / 57.7e6 - 1.0).abs() < 0.005, "{second}");
    assert_eq!(best(16.0), Algorithm::SingleStepMesh);
    let time = |algorithm, bytes: f64| {
        estimator.estimate(Operation::AllReduce, &group, bytes, Some(algorithm)).expect("estimate").time
    };
    for (algorithm, steps, rate) in
        [(Algorithm::Mesh, 4.0, 139e9), (Algorithm::Rdh, 10.0, 374e9), (Algorithm::KangaRing, 62.0, 512e9)]
    {
        let start = estimator.model().starts.program;
        let expected = start + steps * 1.5e-6 + 2.0 * 1e8 * 15.0 / 16.0 / rate;
        assert!(
            (time(algorithm, 1e8) / expected - 1.0).abs() < 1e-9,
            "{algorithm}: {} {expected}",
            time(algorithm, 1e8)
        );
    }
}

#[test]
fn test_flows_agree_with_the_busiest_link_where_schedules_are_symmetric() {
    let fabric = fabric("trn2_instance");
    let (group, estimator) = (all(&fabric, 4), Estimator::new(fabric.clone()).expect("estimator"));
    for &algorithm in Algorithm::of(Operation::AllReduce) {
        let Ok(made) = Schedule::new(&fabric, &group, Operation::AllReduce, algorithm, &Extra::default()) else {
            continue;
        };
        let timing = estimator.simulate(&group, &made, 1e7).expect("timing");
        let estimate = estimator.estimate(Operation::AllReduce, &group, 1e7, Some(algorithm)).expect("estimate");
        assert!((timing.time / estimate.time - 1.0).abs() < 1e-6, "{algorithm}: {} {}", timing.time, estimate.time);
    }
}

#[test]
fn test_overlap_lies_between_the_longest_and_the_sum() {
    let fabric = fabric("trn2_instance");
    let (group, estimator) = (all(&fabric, 4), Estimator::new(fabric.clone()).expect("estimator"));
    let find =
        |bytes| estimator.estimate(Operation::AllReduce, &group, bytes, Some(Algorithm::KangaRing)).expect("estimate");
    let (long, short) = (find(4e8), find(1e8));
    let one = |estimate: &trn3_system::collective::CollectiveEstimate, bytes, priority| {
        let profile = estimate.profile.clone();
        (profile, bytes, priority)
    };
    let ends = |classes: [u8; 2]| {
        let parts = [one(&long, 4e8, classes[0]), one(&short, 1e8, classes[1])];
        let running: Vec<RunningCollective<'_>> = parts
            .iter()
            .map(|(profile, bytes, priority)| RunningCollective {
                profile,
                bytes: *bytes,
                priority: *priority,
                start: 0.0,
            })
            .collect();
        overlap(&estimator, &running).expect("overlap").iter().map(|span| span.1).collect::<Vec<_>>()
    };
    let equal = ends([0, 0]);
    let finish = equal[0].max(equal[1]);
    assert!(finish >= long.time && finish <= long.time + short.time + 1e-12, "{equal:?}");
    let strict = ends([0, 3]);
    assert!((strict[0] / long.time - 1.0).abs() < 1e-12, "a lower class delays nobody above it");
    let other = ends([3, 0]);
    assert!((other[1] / short.time - 1.0).abs() < 1e-12);
    assert!(
        overlap(&estimator, &[RunningCollective { profile: &long.profile, bytes: 1.0, priority: 4, start: 0.0 }])
            .is_err()
    );
}

#[test]
fn test_refusals_name_what_would_work() {
    let fabric = fabric("trn3_gen2");
    let refusal = |ranks: Vec<u32>, per_chip, operation, algorithm| {
        let group = RankGroup::new(ranks, per_chip, 144).expect("group");
        Schedule::new(&fabric, &group, operation, algorithm, &Extra::default()).expect_err("refused").to_string()
    };
    let text = refusal((0..144).collect(), 1, Operation::AllReduce, Algorithm::Rdh);
    assert!(text.contains("144 are in the group; 128 or 256"), "{text}");
    let text = refusal(vec![0, 4, 8], 4, Operation::AllReduce, Algorithm::KangaRing);
    assert!(text.contains("1 of 4 of chip 0"), "{text}");
    let text = refusal((0..4).collect(), 4, Operation::AllReduce, Algorithm::HierarchicalRing);
    assert!(text.contains("two levels"), "{text}");
    let text = Algorithm::parse(Operation::AllReduce, "kangoring").expect_err("unknown").to_string();
    assert!(text.contains("\"kangaring\""), "{text}");
    assert!(Algorithm::parse(Operation::Broadcast, "rdh").expect_err("none").to_string().contains("chain"));
    let group = RankGroup::new((0..4).collect(), 1, 144).expect("group");
    for (pairs, ring, needle) in [
        (vec![(0, 1), (0, 2)], false, "rank 0 sends"),
        (vec![(0, 1), (2, 1)], false, "rank 1 receives"),
        (vec![(0, 9)], false, "positions 0 to 3"),
        (vec![(0, 1), (1, 0), (2, 3), (3, 2)], true, "no ring"),
        (vec![(0, 1), (1, 2)], true, "no ring"),
    ] {
        let extra = Extra { pairs, ..Extra::default() };
        let algorithm = if ring { Algorithm::Ring } else { Algorithm::Direct };
        let error = Schedule::new(&fabric, &group, Operation::Permute, algorithm, &extra).expect_err("refused");
        assert!(error.to_string().contains(needle), "{error}");
    }
}

#[test]
fn test_a_known_group_is_estimated_in_microseconds() {
    let fabric = fabric("trn3_gen2");
    let (group, estimator) = (all(&fabric, 4), Estimator::new(fabric.clone()).expect("estimator"));
    let cold = std::time::Instant::now();
    let first = estimator.estimate(Operation::AllReduce, &group, 1e6, None).expect("estimate");
    let cold = cold.elapsed();
    let start = std::time::Instant::now();
    for _ in 0..1000 {
        assert_eq!(estimator.estimate(Operation::AllReduce, &group, 1e6, None).expect("estimate"), first);
    }
    let warm = start.elapsed() / 1000;
    // Generous: debug builds on a busy machine.
    assert!(warm.as_micros() < 400, "{warm:?} after {cold:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn test_any_group_computes_the_same(
        ranks in proptest::sample::subsequence((0u32..64).collect::<Vec<_>>(), 1..20).prop_shuffle(),
        length in 0usize..70,
    ) {
        let torus = fabric("trn2_instance");
        let group = RankGroup::new(ranks, 4, 16).expect("group");
        let inputs = inputs(group.size(), length);
        let sum: Vec<i32> = (0..length).map(|i| inputs.iter().map(|input| input[i]).sum()).collect();
        for &algorithm in Algorithm::of(Operation::AllReduce) {
            let Ok(made) = Schedule::new(&torus, &group, Operation::AllReduce, algorithm, &Extra::default()) else { continue };
            for output in run(&made, &inputs) {
                prop_assert_eq!(&output, &sum);
            }
        }
    }

    #[test]
    fn test_time_grows_with_bytes(small in 1.0f64..1e9, factor in 1.0f64..100.0) {
        let fabric = fabric("trn2_instance");
        let (group, estimator) = (all(&fabric, 4), Estimator::new(fabric.clone()).expect("estimator"));
        for operation in [Operation::AllReduce, Operation::AllGather, Operation::AllToAll, Operation::Broadcast] {
            let time = |bytes| estimator.estimate(operation, &group, bytes, None).expect("estimate").time;
            prop_assert!(time(small * factor) >= time(small));
        }
    }
}
