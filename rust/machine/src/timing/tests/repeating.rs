//! Loops are timed by a few of their bodies, to the picosecond.

use proptest::prelude::*;

use super::contract::{instructions, programs, run};
use super::{Instruction, arch, compute, dma, matmul, region, transfer};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::graph::{Retimed, RunGraph, Variant};
use crate::timing::region::Space;
use crate::timing::timeline::Timeline;
use crate::timing::work::{DescriptorMode, Route, Transfer, Work};

/// An instruction of a body: how many places its operands take in turn on chip, and whether those in HBM go on body by body.
type Turned = (Instruction, u64, bool);

fn bodies() -> impl Strategy<Value = Vec<Turned>> {
    prop::collection::vec((instructions(), 1u64..4, any::<bool>()), 1..7)
}

/// What an instruction is in a body.
fn turn((instruction, places, streams): &Turned, number: u64) -> Instruction {
    let mut own = instruction.clone();
    for region in own.reads.iter_mut().chain(&mut own.stationary_reads).chain(&mut own.writes) {
        let by = match region.space {
            Space::Sbuf | Space::Psum => number % places,
            Space::Hbm(_) if *streams => number,
            Space::Hbm(_) | Space::Register(_) => 0,
        };
        for rect in &mut region.rects {
            rect.columns = rect.columns.start + by * 12_288..rect.columns.end + by * 12_288;
        }
    }
    own
}

/// A body of a loop, behind each of which another loop runs.
#[derive(Clone, Debug)]
struct Loop {
    body: Vec<Turned>,
    trips: u64,
    inner: Option<(Vec<Turned>, u64)>,
}

impl Loop {
    fn issue(&self, program: &mut Vec<Instruction>) {
        for number in 0..self.trips {
            program.extend(self.body.iter().map(|turned| turn(turned, number)));
            if let Some((body, trips)) = &self.inner {
                program.extend((0..*trips).flat_map(|number| body.iter().map(move |turned| turn(turned, number))));
            }
        }
    }
}

fn loops() -> impl Strategy<Value = Loop> {
    let plain = (bodies(), 20u64..400).prop_map(|(body, trips)| Loop { body, trips, inner: None });
    let nested = (bodies(), 10u64..40, bodies(), 2u64..30).prop_map(|(body, trips, inner, inner_trips)| Loop {
        body,
        trips,
        inner: Some((inner, inner_trips)),
    });
    prop_oneof![3 => plain, 1 => nested]
}

/// What holds an engine or a queue for long before a loop, which others of the loop catch up with after many bodies.
fn long() -> impl Strategy<Value = Instruction> {
    let engines = vec![Engine::Vector, Engine::Scalar, Engine::GpSimd, Engine::Sync, Engine::Tensor];
    let triggers = vec![None, Some(Engine::Scalar), Some(Engine::Sync)];
    let computes = (prop::sample::select(engines), 0u64..60_000_000)
        .prop_map(|(engine, interval)| compute(engine, interval, interval));
    let transfers = (prop::sample::select(triggers), 1u64..129, 0u64..200_000)
        .prop_map(|(trigger, rows, row_bytes)| dma(Transfer { trigger, ..transfer(Route::Load, rows, row_bytes) }));
    prop_oneof![computes, transfers]
}

fn looped() -> impl Strategy<Value = Vec<Instruction>> {
    let before = (programs(), any::<bool>(), prop::collection::vec(long(), 0..4));
    (before, prop::collection::vec(loops(), 1..3), programs()).prop_map(
        |((mut program, is_bare, long), loops, after)| {
            if is_bare {
                program.clear();
            }
            program.extend(long);
            loops.iter().for_each(|own| own.issue(&mut program));
            program.extend(after);
            program
        },
    )
}

/// A program again and again.
fn repeated() -> impl Strategy<Value = Vec<Instruction>> {
    (programs(), 8usize..40).prop_map(|(program, trips)| {
        let bodies = (0..trips).flat_map(|trip| {
            let first = (trip * program.len()) as u32;
            program.iter().cloned().map(move |mut own| {
                own.after.iter_mut().for_each(|on| *on += first);
                own
            })
        });
        bodies.collect()
    })
}

fn assert_equal(name: &str, variant: &Variant<'_>) -> Result<(), TestCaseError> {
    let (found, wanted): (Retimed, Retimed) = (variant.time(), variant.time_step_by_step());
    let first = |found: &[Picos], wanted: &[Picos]| found.iter().zip(wanted).position(|(one, other)| one != other);
    prop_assert_eq!(first(&found.ready, &wanted.ready), None, "ready, {}", name);
    prop_assert_eq!(first(&found.start, &wanted.start), None, "start, {}", name);
    prop_assert_eq!(first(&found.slot_end, &wanted.slot_end), None, "slot_end, {}", name);
    prop_assert_eq!(found.start.len(), wanted.start.len());
    prop_assert_eq!(found.latency, wanted.latency, "latency, {}", name);
    prop_assert_eq!(variant.latency(), wanted.latency, "latency alone, {}", name);
    Ok(())
}

fn assert_all_equal(graph: &RunGraph, at: &prop::sample::Index) -> Result<(), TestCaseError> {
    let count = graph.steps().len();
    let of = || Variant::of(graph);
    assert_equal("as it was", &of())?;
    let place = at.index(count);
    let alike: Vec<u32> = (0..count as u32)
        .filter(|step| graph.steps().at(*step as usize).work == graph.steps().at(place).work)
        .collect();
    let (mut free, mut gone, mut quick) = (of(), of(), of());
    free.free(place);
    assert_equal("one free", &free)?;
    alike.iter().for_each(|step| {
        free.free(*step as usize);
        gone.leave_out(*step as usize);
    });
    assert_equal("all of a kind free", &free)?;
    assert_equal("all of a kind left out", &gone)?;
    quick.drop_dma_floor();
    assert_equal("no floor", &quick)?;
    for buffers in [Some(1), Some(2), Some(5), None] {
        let mut buffered = of();
        buffered.rebuffer(&alike, buffers, 1);
        assert_equal("buffers", &buffered)?;
        buffered.drop_dma_floor();
        buffered.issue_as_ready(Engine::ALL[place % 5]);
        assert_equal("buffers, as ready", &buffered)?;
    }
    let mut given = of();
    for (number, step) in alike.iter().enumerate() {
        let interval = Picos(40_000 + number as u64 % 2 * 7_001);
        let work = Work::Compute { interval, latency: Picos(90_000), table: None };
        given.give_work(*step as usize, &work, Engine::Vector);
    }
    assert_equal("other work", &given)?;
    let mut merged = of();
    for pair in alike.chunks_exact(2) {
        merged.merge(pair[1], pair[0]);
    }
    assert_equal("merged", &merged)?;
    merged.forget_merged();
    assert_equal("merged and forgotten", &merged)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn test_loops_take_what_their_steps_take(
        program in looped(),
        name in prop::sample::select(vec!["trn1", "trn2", "trn3", "trn3/300"]),
        at in any::<prop::sample::Index>(),
    ) {
        let timeline = run(name, &program);
        assert_all_equal(timeline.graph().expect("records are kept"), &at)?;
    }

    #[test]
    fn test_programs_that_repeat_take_what_their_steps_take(program in repeated(), at in any::<prop::sample::Index>()) {
        let timeline = run("trn3", &program);
        assert_all_equal(timeline.graph().expect("records are kept"), &at)?;
    }
}

/// Loads of tiles that a matmul sums up in PSUM, from where VectorE takes and another transfer stores them.
fn products(tiles: u64) -> Vec<Instruction> {
    let sbuf = |tile: u64| region(Space::Sbuf, 0..128, tile * 2048..(tile + 1) * 2048);
    let arch = arch("trn3");
    let mut program = vec![dma(transfer(Route::Load, 128, 2048)).writes(sbuf(50))];
    for tile in 0..tiles {
        let bank = region(Space::Psum, 0..128, tile % 4 * 2048..(tile % 4 + 1) * 2048);
        for part in 0..4 {
            let place = (tile * 4 + part) % 12;
            let source = region(Space::Hbm(1), 0..128, (tile * 4 + part) * 2048..(tile * 4 + part + 1) * 2048);
            program.push(dma(transfer(Route::Load, 128, 2048)).reads(source).writes(sbuf(place)));
            let mut product = matmul(&arch, 128, 512, 1).stationary(sbuf(50)).reads(sbuf(place)).writes(bank.clone());
            if let Work::Matmul { accumulates, .. } = &mut product.work {
                *accumulates = part > 0;
            }
            program.push(product);
        }
        let result = sbuf(20 + tile % 3);
        program.push(compute(Engine::Vector, 500_000, 560_000).reads(bank).writes(result.clone()));
        let out = region(Space::Hbm(2), 0..128, tile * 2048..(tile + 1) * 2048);
        program.push(dma(transfer(Route::Store, 128, 2048)).reads(result).writes(out));
    }
    program
}

fn assert_mostly_repeated(timeline: &Timeline) {
    let variant = Variant::of(timeline.graph().expect("records are kept"));
    let (found, wanted) = (variant.time(), variant.time_step_by_step());
    assert_eq!((found.latency, wanted.latency), (timeline.makespan(), timeline.makespan()));
    assert!(found.start == wanted.start && found.ready == wanted.ready && found.slot_end == wanted.slot_end);
    let steps = wanted.start.len();
    assert!(10 * found.repeated > 9 * steps, "{} of {steps}", found.repeated);
}

#[test]
fn test_most_of_a_loop_is_left_out() {
    assert_mostly_repeated(&run("trn3", &super::graph::refills(4000, 2)));
    assert_mostly_repeated(&run("trn3", &products(600)));
}

/// Rows of tiles, which each begin with a load that all tiles of the row use.
#[test]
fn test_most_of_loops_within_a_loop_is_left_out() {
    let mut program = Vec::new();
    for row in 0..300u64 {
        let weights = region(Space::Sbuf, 0..128, (60 + row % 2) * 2048..(61 + row % 2) * 2048);
        program.push(dma(transfer(Route::Load, 128, 2048)).writes(weights.clone()));
        for tile in 0..6u64 {
            let place = region(Space::Sbuf, 0..128, tile % 2 * 2048..(tile % 2 + 1) * 2048);
            program.push(dma(transfer(Route::Load, 128, 1024)).writes(place.clone()));
            program.push(compute(Engine::Vector, 300_000, 360_000).reads(place).reads(weights.clone()));
        }
    }
    assert_mostly_repeated(&run("trn3", &program));
}

/// Weights that are loaded before the loop and used in turn: only some bodies together are alike.
#[test]
fn test_operands_in_turn_repeat_too() {
    let weights = |number: u64| region(Space::Sbuf, 0..128, (60 + number) * 2048..(61 + number) * 2048);
    let mut program: Vec<Instruction> =
        (0..3).map(|number| dma(transfer(Route::Load, 128, 2048)).writes(weights(number))).collect();
    for tile in 0..1500u64 {
        let place = region(Space::Sbuf, 0..128, tile % 2 * 2048..(tile % 2 + 1) * 2048);
        program.push(dma(transfer(Route::Load, 128, 1024)).writes(place.clone()));
        program.push(compute(Engine::Vector, 300_000, 360_000).reads(place).reads(weights(tile % 3)));
    }
    assert_mostly_repeated(&run("trn3", &program));
}

/// ScalarE comes late and is quicker than VectorE, which it depends on: at first its own queue binds it, later VectorE.
#[test]
fn test_a_queue_that_catches_up_is_on_a_line_no_longer() {
    let register = region(Space::Register(1), 0..32, 0..1024);
    for late in [10_000_000, 40_000_000, 99_000_000, 100_000_000, 101_000_000] {
        let mut program = vec![compute(Engine::Scalar, late, late)];
        for _ in 0..2000 {
            program.push(compute(Engine::Vector, 100_000, 100_000).writes(register.clone()));
            program.push(compute(Engine::Scalar, 50_000, 50_000).reads(register.clone()));
        }
        let timeline = run("trn3", &program);
        let variant = Variant::of(timeline.graph().expect("records are kept"));
        let (found, wanted) = (variant.time(), variant.time_step_by_step());
        assert_eq!((found.latency, &found.start), (wanted.latency, &wanted.start), "{late}");
        assert!(found.repeated > 3000, "{} at {late}", found.repeated);
    }
}

/// One result before the loop comes late, and the buffer that it is in is used again many bodies later: those until then go on
/// alike, and nothing but the end that the edge goes back to tells.
#[test]
fn test_what_edges_reach_back_to_is_on_the_line() {
    let buffer = |number: u64| region(Space::Sbuf, 0..128, number % 24 * 64..(number % 24 + 1) * 64);
    let mut program = Vec::new();
    for number in 0..2000 {
        program.push(compute(Engine::Vector, 100_000, 100_000).writes(buffer(number)));
        let latency = if number == 23 { 60_000_000 } else { 50_000 };
        program.push(compute(Engine::Scalar, 50_000, latency).reads(buffer(number)));
    }
    let timeline = run("trn3", &program);
    assert!(timeline.records().at(2 * 47).start > Picos(60_000_000));
    assert_mostly_repeated(&timeline);
}

/// ScalarE follows VectorE by ten bodies, but for one that waits for its own.
#[test]
fn test_a_body_with_another_edge_is_run() {
    let mut program = Vec::new();
    for number in 0..2000u32 {
        program.push(compute(Engine::Vector, 100_000, 100_000));
        let mut follower = compute(Engine::Scalar, 50_000, 50_000);
        follower.after.push(2 * if number == 1000 { number } else { number.saturating_sub(10) });
        program.push(follower);
    }
    let timeline = run("trn3", &program);
    let start = |step| timeline.records().at(step).start;
    assert!(start(2001) - start(1999) > Picos(1_000_000));
    assert_mostly_repeated(&timeline);
}

/// Bodies wait for what came before the loop, each for another one, and one of them for what ends late.
#[test]
fn test_edges_that_go_anywhere_repeat_nothing() {
    let latency = |number: u32| if number == 49 { 150_000_000 } else { 50_000 };
    let mut program: Vec<Instruction> =
        (0..50).map(|number| compute(Engine::GpSimd, 50_000, latency(number))).collect();
    for number in 0..2000u32 {
        let mut waiting = compute(Engine::Scalar, 100_000, 100_000);
        waiting.after.push(if number == 1000 { 49 } else { number * number % 47 });
        program.push(waiting);
    }
    let timeline = run("trn3", &program);
    let variant = Variant::of(timeline.graph().expect("records are kept"));
    let wanted = variant.time_step_by_step();
    assert!(wanted.start[1050] > Picos(150_000_000));
    assert_eq!(variant.time().start, wanted.start);
}

/// Two queues whose transfers come at rates of their own: they meet at the engines after many bodies.
#[test]
fn test_queues_at_rates_of_their_own_share_engines_as_step_by_step() {
    let of = |trigger, row_bytes| dma(Transfer { trigger: Some(trigger), ..transfer(Route::Load, 128, row_bytes) });
    for (late, interval) in [(0, 700_000), (100_000_000, 700_000), (400_000_000, 500_000), (90_000_000, 3_000_000)] {
        let mut program = vec![compute(Engine::Scalar, late, late)];
        for _ in 0..1500 {
            program.push(compute(Engine::GpSimd, 900_000, 900_000));
            program.push(of(Engine::GpSimd, 256));
            program.push(compute(Engine::Scalar, interval, interval));
            program.push(of(Engine::Scalar, 512));
        }
        let timeline = run("trn3", &program);
        let variant = Variant::of(timeline.graph().expect("records are kept"));
        let (found, wanted) = (variant.time(), variant.time_step_by_step());
        assert_eq!((found.latency, &found.start), (wanted.latency, &wanted.start), "{late}");
        assert_eq!(found.slot_end, wanted.slot_end, "{late}");
    }
}

/// Transfers of another queue that could have come long before those of the loop: what was left out has to be known then.
#[test]
fn test_a_share_that_comes_before_a_loop_is_timed_step_by_step() {
    let mut program = super::graph::refills(2000, 2);
    let early =
        Transfer { trigger: Some(Engine::Scalar), mode: DescriptorMode::Static, ..transfer(Route::Sbuf, 128, 512) };
    program.extend((0..4).map(|_| dma(early.clone())));
    let timeline = run("trn3", &program);
    let variant = Variant::of(timeline.graph().expect("records are kept"));
    let found = variant.time();
    assert_eq!(found.start, variant.time_step_by_step().start);
    assert_eq!((found.latency, found.repeated), (timeline.makespan(), 0));
}
