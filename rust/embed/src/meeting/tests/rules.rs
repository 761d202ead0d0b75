//! What is refused: broken rules, ranks that do not agree.

use trn3_machine::dtype::DType;
use trn3_machine::error::Error;
use trn3_machine::isa::rank_call::{RankCall, RankOperation};
use trn3_machine::storage::Buffer;

use super::super::{MeetingError, RankAsk, RankGiven, RankRoom};
use super::{call, cores, hbm, judged, place, tensor};

#[test]
fn test_ranks_that_do_not_agree_are_named_with_their_lines() {
    let mut cores = cores(2, true);
    let mut room = RankRoom::new(2, 1);
    for (rank, length) in [(0u32, 4), (1, 8)] {
        let core = &mut cores[rank as usize];
        let (src, dst) = (hbm(core, &[length], &[]), hbm(core, &[length], &[]));
        let arrival = judged(&room, rank, call(RankOperation::AllReduce, vec![src], vec![dst], 2)).expect("fits");
        if rank == 0 {
            assert!(room.arrive(arrival.clone()).expect("the first").is_empty());
            assert_eq!(
                room.whereabouts(&arrival),
                "rank 0 waits at all_reduce of 4 float32 by add to 4 float32 among [[0, 1]] (kernel.py:1) for rank 1, \
                 which came to no collective"
            );
            continue;
        }
        let error = room.arrive(arrival).expect_err("another size").to_string();
        assert_eq!(
            error,
            "kernel.py:2: rank 1 calls all_reduce of 8 float32 by add to 8 float32 among [[0, 1]] (kernel.py:2), \
             rank 0 calls all_reduce of 4 float32 by add to 4 float32 among [[0, 1]] (kernel.py:1); ranks of one group \
             call the same collectives in the same order, with the same sizes and groups"
        );
    }
}

#[test]
fn test_rules_are_refused_by_argument() {
    let mut cores = cores(1, true);
    let core = &mut cores[0];
    let room = RankRoom::new(2, 1);
    let (four, other, six) = (hbm(core, &[4], &[]), hbm(core, &[4], &[]), hbm(core, &[6], &[]));
    let psum = tensor(core, Buffer::Psum, &[4, 1], DType::Float32);
    let base = call(RankOperation::AllReduce, vec![four.clone()], vec![other], 2);
    let refusals = [
        (RankCall { dsts: vec![six.clone()], ..base.clone() }, "dsts has shape (6,), 6 elements; allowed: 4 for"),
        (RankCall { dsts: vec![psum], ..base.clone() }, "is in psum; allowed: hbm or sbuf"),
        (RankCall { reduction: "multiply".to_owned(), ..base.clone() }, "op is multiply; allowed: nl.add"),
        (RankCall { groups: vec![vec![0, 2]], ..base.clone() }, "replica_group has rank 2; allowed: the launch's 2"),
        (RankCall { groups: vec![vec![1]], ..base.clone() }, "replica_group has no list with rank 0"),
        (RankCall { groups: vec![vec![0, 0]], ..base.clone() }, "replica_group is [[0, 0]]; allowed: lists of one"),
        (RankCall { priority: Some(4), ..base.clone() }, "priority is 4; allowed: None or 0 to 3"),
        (
            RankCall { operation: RankOperation::AllToAll, dim: 1, ..base.clone() },
            "collective_dim is 1; allowed: 0 in this memory",
        ),
        (
            RankCall { operation: RankOperation::CollectivePermuteImplicit, channels: vec![4], ..base.clone() },
            "channel_ids is [4]; allowed: different numbers from 0 to 3",
        ),
        (
            RankCall { operation: RankOperation::CollectivePermute, pairs: vec![(0, 1), (0, 0)], ..base },
            "source_target_pairs is [(0, 1), (0, 0)]; allowed: each rank once on each side",
        ),
    ];
    for (call, wanted) in refusals {
        let error = judged(&room, 0, call).expect_err(wanted).to_string();
        assert!(error.starts_with("kernel.py:1: ") && error.contains(wanted), "{error}");
    }
    let strange = RankAsk {
        srcs: RankGiven::Known(vec![four.clone()]),
        dsts: RankGiven::Known(vec![four]),
        reduction: "add".to_owned(),
        groups: RankGiven::Strange("list".to_owned()),
        ..RankAsk::new(RankOperation::AllReduce)
    };
    let error = strange.judge(place(0, 0), &room, None).expect_err("no lists");
    assert!(matches!(&error, MeetingError::Kernel { error: Error::Type(text), .. } if text.contains("of type list")));
}
