//! Ranks that meet: values and times; rules and agreement in their own file.

mod rules;

use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::isa::rank_call::{RankCall, RankOperation};
use trn3_machine::memory::Request;
use trn3_machine::storage::Buffer;
use trn3_machine::time::Picos;
use trn3_machine::view::View;
use trn3_system::collective::{CollectiveTask, Estimator, Extra, Operation, RankGroup};
use trn3_system::fabric::{Fabric, LinkProfile};

use super::{MeetingError, Participant, RankArrival, RankAsk, RankFabric, RankPlace, RankRoom, hold};

fn cores(count: usize, values: bool) -> Vec<NeuronCore> {
    let arch = Arc::new(ArchSpec::load("trn3").expect("a spec"));
    let options = CoreOptions { values, ..CoreOptions::default() };
    (0..count).map(|_| NeuronCore::new(Arc::clone(&arch), options).expect("a core")).collect()
}

fn estimator() -> Arc<Estimator> {
    let fabric = Fabric::built_in("trn3_gen2", LinkProfile::Docs).expect("a system");
    Arc::new(Estimator::new(Arc::new(fabric)).expect("rates"))
}

fn fabric(ranks: u32) -> RankFabric {
    RankFabric::new(estimator(), "trn3_gen2", 8, ranks, None).expect("room")
}

fn tensor(core: &mut NeuronCore, buffer: Buffer, shape: &[usize], dtype: DType) -> View {
    View::whole(core.allocate(&Request::unsited("t", shape, dtype, buffer)).expect("room"))
}

fn hbm(core: &mut NeuronCore, shape: &[usize], values: &[f32]) -> View {
    let view = tensor(core, Buffer::SharedHbm, shape, DType::Float32);
    if !values.is_empty() {
        core.write_bytes(&view, &bytes(values)).expect("values");
    }
    view
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(core: &mut NeuronCore, view: &View) -> Vec<f32> {
    let bytes = core.state.peek_bytes(view).expect("bytes");
    bytes.as_chunks().0.iter().map(|code| f32::from_le_bytes(*code)).collect()
}

fn place(rank: u32, core: u32) -> RankPlace {
    RankPlace { rank, core, line: format!("kernel.py:{}", rank + 1), generation: 4 }
}

fn judged(room: &RankRoom, rank: u32, call: RankCall) -> Result<RankArrival, MeetingError> {
    RankAsk::from(call).judge(place(rank, 0), room, None)
}

fn call(operation: RankOperation, srcs: Vec<View>, dsts: Vec<View>, ranks: u64) -> RankCall {
    let reduction = if operation.reduces() { "add".to_owned() } else { String::new() };
    RankCall { srcs, dsts, reduction, groups: vec![(0..ranks).collect()], ..RankCall::new(operation) }
}

/// Lets ranks of one core each meet; returns the end of the collective.
fn meet(cores: &mut [NeuronCore], calls: Vec<RankCall>) -> Result<Picos, MeetingError> {
    let ranks = cores.len() as u32;
    let mut room = RankRoom::new(ranks, 1);
    let mut all = Vec::new();
    for (rank, call) in (0..ranks).zip(calls) {
        let arrival = judged(&room, rank, call)?;
        all = room.arrive(arrival)?;
        assert_eq!(all.is_empty(), rank + 1 < ranks);
    }
    let mut present: Vec<_> =
        cores.iter_mut().zip(&all).map(|(core, arrival)| Participant { core, arrival, at: At::default() }).collect();
    hold(&fabric(ranks), 1, &mut present)?;
    let ends: Vec<Picos> = cores.iter_mut().map(NeuronCore::makespan).collect();
    assert!(ends.iter().all(|end| *end == ends[0]));
    Ok(ends[0])
}

#[test]
fn test_sums_are_added_by_index_and_take_what_the_system_says() {
    let mut cores = cores(3, true);
    let values = [1e8, 1.0, -1e8];
    let (mut calls, mut outs) = (Vec::new(), Vec::new());
    for (core, value) in cores.iter_mut().zip(values) {
        let (src, dst) = (hbm(core, &[6], &[value; 6]), hbm(core, &[6], &[]));
        outs.push(dst.clone());
        calls.push(RankCall { groups: vec![vec![2, 0, 1]], ..call(RankOperation::AllReduce, vec![src], vec![dst], 3) });
    }
    let end = meet(&mut cores, calls).expect("a meeting");
    // (-1e8 + 1e8) + 1, in the order of the list.
    for (core, out) in cores.iter_mut().zip(&outs) {
        assert_eq!(floats(core, out), [1.0; 6]);
    }
    let estimator = estimator();
    let group = RankGroup::new(vec![2, 0, 1], 8, estimator.fabric().chips()).expect("a group");
    let extra = Extra::default();
    let task = CollectiveTask { operation: Operation::AllReduce, algorithm: None, groups: vec![group], extra };
    let seconds = estimator.cost(&task, 24.0, true).expect("a cost").time;
    assert_eq!(end, Picos::from_nanoseconds(seconds * 1e9));
}

#[test]
fn test_each_operation_moves_its_chunks() {
    let moves: [(RankOperation, [f32; 4], [f32; 4]); 4] = [
        (RankOperation::ReduceScatter, [10.0, 12.0, 0.0, 0.0], [14.0, 16.0, 0.0, 0.0]),
        (RankOperation::AllToAll, [1.0, 2.0, 9.0, 10.0], [3.0, 4.0, 11.0, 12.0]),
        (RankOperation::CollectivePermute, [1.0; 4], [1.0, 2.0, 3.0, 4.0]),
        (RankOperation::CollectivePermuteImplicit, [9.0, 10.0, 11.0, 12.0], [1.0, 2.0, 3.0, 4.0]),
    ];
    for (operation, first, second) in moves {
        let mut cores = cores(2, true);
        let (mut calls, mut outs) = (Vec::new(), Vec::new());
        for (rank, core) in cores.iter_mut().enumerate() {
            let start = 8.0 * rank as f32;
            let src = hbm(core, &[4], &[start + 1.0, start + 2.0, start + 3.0, start + 4.0]);
            let dst = if operation == RankOperation::ReduceScatter {
                hbm(core, &[2], &[])
            } else {
                hbm(core, &[4], &[1.0; 4])
            };
            outs.push(dst.clone());
            let pairs = if operation == RankOperation::CollectivePermute { vec![(0, 1)] } else { Vec::new() };
            let channels = if operation.has_channels() { vec![0] } else { Vec::new() };
            calls.push(RankCall { pairs, channels, ..call(operation, vec![src], vec![dst], 2) });
        }
        meet(&mut cores, calls).expect("a meeting");
        for ((core, out), wanted) in cores.iter_mut().zip(&outs).zip([first, second]) {
            assert_eq!(floats(core, out), wanted[..out.len()], "{operation}");
        }
    }
}

#[test]
fn test_tiles_are_gathered_along_columns() {
    let mut cores = cores(2, true);
    let (mut calls, mut outs) = (Vec::new(), Vec::new());
    for (rank, core) in cores.iter_mut().enumerate() {
        let src = tensor(core, Buffer::Sbuf, &[2, 1], DType::Float32);
        let start = 10.0 * rank as f32;
        core.write_bytes(&src, &bytes(&[start, start + 1.0])).expect("values");
        let dst = tensor(core, Buffer::Sbuf, &[2, 2], DType::Float32);
        outs.push(dst.clone());
        calls.push(RankCall { dim: 1, ..call(RankOperation::AllGather, vec![src], vec![dst], 2) });
    }
    meet(&mut cores, calls).expect("a meeting");
    for (core, out) in cores.iter_mut().zip(&outs) {
        assert_eq!(floats(core, out), [0.0, 10.0, 1.0, 11.0]);
    }
}

#[test]
fn test_chunks_of_any_lengths_go_where_the_metadata_says_and_are_counted() {
    let mut cores = cores(2, true);
    let tables = [[1u32, 3, 0, 1, 0, 0], [2, 0, 2, 0, 0, 0]];
    let (mut calls, mut outs) = (Vec::new(), Vec::new());
    for (rank, core) in cores.iter_mut().enumerate() {
        let start = 10.0 * rank as f32;
        let src = hbm(core, &[4], &[start, start + 1.0, start + 2.0, start + 3.0]);
        let dst = hbm(core, &[8], &[-1.0; 8]);
        let metadata = tensor(core, Buffer::SharedHbm, &[3, 2], DType::UInt32);
        let words: Vec<u8> = tables[rank].iter().flat_map(|word| word.to_le_bytes()).collect();
        core.write_bytes(&metadata, &words).expect("counts");
        outs.push((dst.clone(), metadata.clone()));
        let call = call(RankOperation::AllToAllV, vec![src], vec![dst], 2);
        calls.push(RankCall { metadata: Some(metadata), ..call });
    }
    meet(&mut cores, calls).expect("a meeting");
    assert_eq!(floats(&mut cores[0], &outs[0].0), [0.0, -1.0, -1.0, -1.0, 12.0, 13.0, -1.0, -1.0]);
    assert_eq!(floats(&mut cores[1], &outs[1].0), [1.0, 2.0, 3.0, -1.0, -1.0, -1.0, -1.0, -1.0]);
    for (rank, counts) in [[1u32, 2], [3, 0]].into_iter().enumerate() {
        let words: Vec<u8> = counts.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(cores[rank].state.peek_bytes(&outs[rank].1).expect("counts")[16..], words);
    }
}

#[test]
fn test_without_values_results_are_unknown_and_the_time_is_the_same() {
    let ends = [true, false].map(|values| {
        let mut cores = cores(2, values);
        let mut calls = Vec::new();
        for core in &mut cores {
            let (src, dst) = (hbm(core, &[1024], &[]), hbm(core, &[1024], &[]));
            if values {
                core.write_bytes(&src, &vec![0; 4096]).expect("values");
            }
            calls.push(call(RankOperation::AllReduce, vec![src], vec![dst], 2));
        }
        meet(&mut cores, calls).expect("a meeting")
    });
    assert_eq!(ends[0], ends[1]);
}

#[test]
fn test_two_cores_that_pass_the_same_tensors_pass_them_once() {
    let arch = Arc::new(ArchSpec::load("trn3").expect("a spec"));
    let mut ends = Vec::new();
    for shared in [true, false] {
        let mut room = RankRoom::new(2, 2);
        let (mut cores, mut all) = (Vec::new(), Vec::new());
        for rank in 0..2 {
            let mut first = NeuronCore::new(Arc::clone(&arch), CoreOptions::default()).expect("a core");
            let second = NeuronCore::beside(&mut first, 1).expect("a core");
            let tensors: Vec<(View, View)> = (0..2)
                .map(|_| (hbm(&mut first, &[1 << 18], &vec![1.0; 1 << 18]), hbm(&mut first, &[1 << 18], &[])))
                .collect();
            for core in 0..2u32 {
                let (src, dst) = tensors[if shared { 0 } else { core as usize }].clone();
                let call = call(RankOperation::AllReduce, vec![src], vec![dst], 2);
                let arrival = RankAsk::from(call).judge(place(rank, core), &room, None).expect("fits");
                all = room.arrive(arrival).expect("agrees");
            }
            cores.extend([first, second]);
        }
        let mut present: Vec<_> = cores
            .iter_mut()
            .zip(&all)
            .map(|(core, arrival)| Participant { core, arrival, at: At::default() })
            .collect();
        hold(&fabric(2), 2, &mut present).expect("a meeting");
        let sent = cores.iter_mut().map(|core| {
            core.makespan();
            core.timeline.records().iter().map(|record| record.dma_bytes).sum::<u64>()
        });
        let sent: Vec<u64> = sent.collect();
        assert_eq!(sent, if shared { [1 << 20, 0, 1 << 20, 0] } else { [1 << 20; 4] });
        ends.push(cores[0].makespan());
    }
    assert!(ends[0] < ends[1]);
}
