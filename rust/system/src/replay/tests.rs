//! Against what is computed by hand, and against the estimates of collectives.

use std::sync::Arc;

use super::*;
use crate::collective::{Operation, RankGroup};
use crate::fabric::{Fabric, LinkProfile};

fn estimator() -> Estimator {
    let fabric = Fabric::built_in("trn3_gen2", LinkProfile::Docs).expect("built in");
    Estimator::new(Arc::new(fabric)).expect("has a chip")
}

fn node(id: u64, after: Vec<u32>, work: JobWork) -> JobNode {
    JobNode { id, name: format!("n{id}"), after, work, priority: 0 }
}

fn compute(seconds: f64) -> JobWork {
    JobWork::Compute { seconds, stream: 0 }
}

fn all_reduce(group: u32, bytes: f64) -> JobWork {
    JobWork::Collective { exchange: JobExchange::AllReduce, group, bytes, root: 0 }
}

fn job(ranks: Vec<Vec<JobNode>>) -> Job {
    let count = ranks.len() as u32;
    let groups = vec![ProcessGroup { name: "all".to_owned(), ranks: (0..count).collect() }];
    Job { ranks, groups, ..Job::new((0..count).collect(), 4) }
}

fn refusal(ranks: Vec<Vec<JobNode>>) -> String {
    replay(&estimator(), &job(ranks)).expect_err("refused").to_string()
}

#[test]
fn test_stream_takes_what_is_ready_first() {
    // Listed first, but ready last: the stream does not wait for it.
    let receive = JobWork::Receive { from: 1, bytes: None, tag: 7 };
    let first = vec![
        node(0, vec![], receive),
        node(1, vec![0], compute(1.0)),
        node(2, vec![], compute(2.0)),
        node(3, vec![], compute(4.0)),
    ];
    let second = vec![node(0, vec![], compute(3.0)), node(1, vec![0], JobWork::Send { to: 0, bytes: 8.0, tag: 7 })];
    let done = replay(&estimator(), &job(vec![first, second])).expect("runs");
    assert_eq!(&done.spans[0][2..], [(0.0, 2.0), (2.0, 6.0)]);
    assert_eq!(done.spans[0][1], (6.0, 7.0));
    assert!(done.spans[0][0].1 > 3.0 && done.spans[0][0].1 < 3.001);
    assert_eq!(done.exposed[0], 0.0);
    assert_eq!(done.finish, 7.0);
    assert_eq!(done.by_resource[0], ("computation".to_owned(), 7.0));
}

#[test]
fn test_collective_takes_its_own_time_after_the_last_rank() {
    let estimator = estimator();
    let bytes = 64e6;
    let ranks = (0..16).map(|rank| {
        let seconds = if rank == 5 { 2e-3 } else { 1e-3 };
        vec![node(0, vec![], compute(seconds)), node(1, vec![0], all_reduce(0, bytes))]
    });
    let done = replay(&estimator, &job(ranks.collect())).expect("runs");
    let group = RankGroup::new((0..16).collect(), 4, estimator.fabric().chips()).expect("fits");
    let alone = estimator.estimate(Operation::AllReduce, &group, bytes, None).expect("fits");
    assert!((done.finish - 2e-3 - alone.time).abs() < alone.time * 1e-9);
    assert_eq!(done.path[0].rank, 5);
    assert!((done.exposed[0] - 1e-3 - alone.time).abs() < 1e-9);
    assert!((done.exposed[5] - alone.time).abs() < 1e-9);
    let carried: f64 = alone.profile.links.iter().map(|link| link.1 * bytes).sum();
    assert!((done.carried.iter().sum::<f64>() - carried).abs() < carried * 1e-9);
}

#[test]
fn test_priority_is_served_first() {
    let run = |priority: u8| {
        let ranks = (0..8u32).map(|_| {
            let urgent = JobNode { priority, ..node(1, vec![], all_reduce(0, 64e6)) };
            vec![node(0, vec![], all_reduce(0, 64e6)), urgent]
        });
        replay(&estimator(), &job(ranks.collect())).expect("runs")
    };
    let (equal, apart) = (run(0), run(3));
    assert_eq!(equal.spans[0][0].1, equal.spans[0][1].1);
    assert!(apart.spans[0][0].1 < equal.spans[0][0].1 * 0.6);
    assert!((apart.finish - equal.finish).abs() < equal.finish * 0.05);
}

#[test]
fn test_gather_costs_as_much_as_scatter_of_all() {
    let run = |exchange, bytes| {
        let work = |_| vec![node(0, vec![], JobWork::Collective { exchange, group: 0, bytes, root: 3 })];
        replay(&estimator(), &job((0..8).map(work).collect())).expect("runs")
    };
    let (gather, scatter) = (run(JobExchange::Gather, 1e6), run(JobExchange::Scatter, 8e6));
    assert!((gather.finish - scatter.finish).abs() < gather.finish * 1e-9);
    assert!(run(JobExchange::Barrier, 0.0).finish > 0.0);
    assert_eq!(run(JobExchange::Reduce, 1e6).finish, run(JobExchange::Broadcast, 1e6).finish);
}

#[test]
fn test_ranks_that_disagree_are_named() {
    let lone = vec![vec![node(4, vec![], all_reduce(0, 8.0))], vec![]];
    assert_eq!(
        refusal(lone),
        "rank 0, node 4 (\"n4\"): all_reduce number 1 of process group \"all\", which rank 1 never joins"
    );
    let sizes = vec![vec![node(4, vec![], all_reduce(0, 8.0))], vec![node(5, vec![], all_reduce(0, 9.0))]];
    assert!(refusal(sizes).contains("rank 0, node 4 (\"n4\"), has 8 bytes; rank 1, node 5 (\"n5\"), has 9 bytes"));
    let send = vec![vec![node(1, vec![], JobWork::Send { to: 1, bytes: 8.0, tag: 2 })], vec![]];
    assert!(refusal(send).contains("rank 0, node 1 (\"n1\"): sends to rank 1 with tag 2"));
    let receive = vec![vec![node(1, vec![], JobWork::Receive { from: 1, bytes: None, tag: 2 })], vec![]];
    assert!(refusal(receive).contains("waits for a message of rank 1 with tag 2"));
    let own = vec![vec![node(1, vec![], JobWork::Send { to: 0, bytes: 8.0, tag: 2 })]];
    assert!(refusal(own).contains("its own rank"));
}

#[test]
fn test_deadlock_names_the_circle() {
    let rank = |other: u32| {
        let receive = JobWork::Receive { from: other, bytes: None, tag: 0 };
        vec![node(0, vec![], receive), node(1, vec![0], JobWork::Send { to: other, bytes: 1.0, tag: 0 })]
    };
    let text = refusal(vec![rank(1), rank(0)]);
    assert!(text.starts_with("deadlock: each of these waits for the next"), "{text}");
    assert!(text.contains("rank 0, node 0 (\"n0\"), a message of rank 1 with tag 0"), "{text}");
    assert!(text.contains("rank 1, node 1"), "{text}");
}

#[test]
fn test_ranks_outside_the_system_are_refused() {
    let far = Job::new(vec![0, 576], 4);
    let text = replay(&estimator(), &far).expect_err("refused").to_string();
    assert!(text.contains("rank 1 is placed on rank 576 of the system, which has 576"), "{text}");
    let twice = Job::new(vec![3, 3], 4);
    assert!(replay(&estimator(), &twice).expect_err("refused").to_string().contains("both placed on rank 3"));
}
