//! A run timed from its graph alone is the run, and changes are what the changed program takes.

use proptest::prelude::*;

use super::contract::{programs, run};
use super::{Instruction, arch, compute, dma, matmul, region, timeline, transfer};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::graph::{BoundBy, EdgeKind, Variant};
use crate::timing::region::Space;
use crate::timing::timeline::Timeline;
use crate::timing::work::{Route, Work};

proptest! {
    #[test]
    fn test_a_graph_takes_what_its_run_took(
        program in programs(),
        name in prop::sample::select(vec!["trn1", "trn2", "trn3"]),
        classes in prop::collection::vec(prop::option::of(0u8..4), 60),
    ) {
        let mut classed = program.clone();
        for (instruction, class) in classed.iter_mut().zip(&classes) {
            if let Work::Dma(transfer) = &mut instruction.work {
                transfer.priority = *class;
            }
        }
        for program in [program, classed] {
            let timeline = run(name, &program);
            let graph = timeline.graph().expect("records are kept");
            let again = Variant::of(graph).time();
            prop_assert_eq!(again.latency, timeline.makespan());
            for (number, record) in timeline.records().iter().enumerate() {
                prop_assert!(graph.edges(number).all(|edge| edge.on < number as u32));
                // A transfer's first byte is the whole program's to say.
                if record.engine != Engine::Dma {
                    prop_assert_eq!(again.start[number], record.start);
                    prop_assert!(again.ready[number] <= record.start);
                    prop_assert_eq!(again.ready[number], graph.steps().at(number).ready);
                }
            }
        }
    }

    /// Nor does anything else get far behind: transfers compete for bandwidth, VectorE and ScalarE for banks, and what comes
    /// sooner may hold up what more depends on.
    #[test]
    fn test_what_is_free_makes_little_longer(program in programs(), at in any::<prop::sample::Index>()) {
        let timeline = run("trn3", &program);
        let graph = timeline.graph().expect("records are kept");
        let (mut free, mut endless, mut quick) = (Variant::of(graph), Variant::of(graph), Variant::of(graph));
        free.free(at.index(program.len()));
        endless.rebuffer(&(0..program.len() as u32).collect::<Vec<_>>(), None, 1);
        quick.drop_dma_floor();
        let mut unordered = Variant::of(graph);
        unordered.issue_as_ready(Engine::ALL[at.index(4)]);
        for (name, variant) in [("free", free), ("endless", endless), ("quick", quick), ("unordered", unordered)] {
            let (found, before) = (variant.latency(), timeline.makespan());
            prop_assert!(found.0 <= before.0 + before.0 / 2, "{}: {} after {}", name, found, before);
        }
    }
}

fn issued(program: &[Instruction]) -> Timeline {
    let mut timeline = timeline("trn3");
    program.iter().for_each(|instruction| {
        instruction.issue(&mut timeline);
    });
    timeline
}

/// Loads of a tile that VectorE copies, into as many places in turn.
pub(super) fn refills(count: u64, buffers: u64) -> Vec<Instruction> {
    let tile = |number: u64| region(Space::Sbuf, 0..128, number % buffers * 2048..(number % buffers + 1) * 2048);
    let of = |number| {
        let source = region(Space::Hbm(1), 0..128, number * 2048..(number + 1) * 2048);
        let load = dma(transfer(Route::Load, 128, 2048));
        let copied = region(Space::Sbuf, 0..128, 100_000 + number * 64..100_064 + number * 64);
        [
            load.reads(source).writes(tile(number)),
            compute(Engine::Vector, 900_000, 950_000).reads(tile(number)).writes(copied),
        ]
    };
    (0..count).flat_map(of).collect()
}

#[test]
fn test_more_buffers_are_what_the_program_with_them_takes() {
    let timeline = issued(&refills(12, 1));
    let graph = timeline.graph().expect("records are kept");
    let loads: Vec<u32> = (0..12).map(|number| 2 * number).collect();
    assert_eq!(graph.steps().at(2).bound, BoundBy::Reuse);
    for (buffers, given) in [(1, Some(1)), (2, Some(2)), (3, Some(3)), (12, None)] {
        let mut variant = Variant::of(graph);
        variant.rebuffer(&loads, given, 1);
        assert_eq!(variant.latency(), issued(&refills(12, buffers)).makespan(), "{buffers}");
    }
}

#[test]
fn test_edges_say_what_binds() {
    let (tile, sum) = (region(Space::Sbuf, 0..128, 0..2048), region(Space::Psum, 0..128, 0..2048));
    let product = matmul(&arch("trn3"), 128, 512, 1).stationary(tile.clone()).writes(sum.clone());
    let mut more = product.clone();
    if let Work::Matmul { accumulates, .. } = &mut more.work {
        *accumulates = true;
    }
    let program = [
        dma(transfer(Route::Load, 128, 2048)).writes(tile.clone()),
        product,
        more,
        dma(transfer(Route::Load, 128, 2048)).writes(tile),
        compute(Engine::Vector, 50_000, 80_000).reads(sum),
        compute(Engine::Vector, 50_000, 80_000),
    ];
    let timeline = issued(&program);
    let graph = timeline.graph().expect("records are kept");
    let bounds: Vec<BoundBy> = graph.steps().iter().map(|step| step.bound).collect();
    let wanted = [BoundBy::Nothing, BoundBy::Result, BoundBy::Order, BoundBy::Reuse, BoundBy::Result, BoundBy::Order];
    assert_eq!(bounds, wanted);
    let kinds = |step: usize| graph.edges(step).map(|edge| (edge.on, edge.kind)).collect::<Vec<_>>();
    assert_eq!(kinds(1), [(0, EdgeKind::Result)]);
    assert_eq!(kinds(2), [(0, EdgeKind::Result), (1, EdgeKind::Sum)]);
    assert!(kinds(3).contains(&(2, EdgeKind::Reuse)));
    assert!(graph.steps().at(1).ready > Picos::ZERO && graph.steps().at(5).ready == Picos::ZERO);
}
