//! Instructions a second through the timeline: hazards, engines and records of a tiled matrix multiplication.
#![allow(missing_docs)]

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use smallvec::smallvec;
use trn3_machine::arch::ArchSpec;
use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;
use trn3_machine::time::Picos;
use trn3_machine::timing::graph::Variant;
use trn3_machine::timing::region::{Rect, Region, Space};
use trn3_machine::timing::timeline::{TimedInstruction, Timeline, TimelineOptions};
use trn3_machine::timing::work::{DescriptorMode, Route, Transfer, Work};

struct Instruction {
    engine: Engine,
    work: Work,
    reads: Vec<Region>,
    stationary_reads: Vec<Region>,
    writes: Vec<Region>,
}

fn region(space: Space, rows: Range<u64>, columns: Range<u64>) -> Region {
    Region { space, rects: smallvec![Rect { rows, columns }] }
}

fn sbuf(tile: u64) -> Region {
    region(Space::Sbuf, 0..128, tile * 1024..(tile + 1) * 1024)
}

fn transfer(route: Route) -> Work {
    let bytes = 128 * 1024;
    Work::Dma(Transfer {
        trigger: None,
        mode: DescriptorMode::Hardware,
        route,
        first_row: 0,
        rows: 128,
        row_bytes: 1024,
        row_descriptors: 1,
        rate_share: 1.0,
        hbm_read: if route == Route::Load { bytes } else { 0 },
        hbm_write: if route == Route::Store { bytes } else { 0 },
        priority: None,
        ring: 0,
    })
}

/// For each tile of the result: loads of one operand's tiles, accumulating matmuls, a copy out of PSUM, a scaling, a
/// store; tiles of SBUF and banks of PSUM are used in turn.
fn program(tiles: u64) -> Vec<Instruction> {
    let mut program = Vec::new();
    for tile in 0..tiles {
        let (row, column) = (tile / 16 % 16, tile % 16);
        let bank = region(Space::Psum, 0..128, tile % 8 * 2048..(tile % 8 + 1) * 2048);
        for step in 0..4 {
            let loaded = sbuf((tile * 4 + step) % 64);
            let source = region(Space::Hbm(1), step * 128..(step + 1) * 128, column * 1024..(column + 1) * 1024);
            program.push(Instruction {
                engine: Engine::Dma,
                work: transfer(Route::Load),
                reads: vec![source],
                stationary_reads: Vec::new(),
                writes: vec![loaded.clone()],
            });
            let weights = 65536 + step * 256;
            program.push(Instruction {
                engine: Engine::Tensor,
                work: Work::Matmul {
                    load: Picos(13_333),
                    load_latency: Picos(80_333),
                    multiply: Picos(213_333),
                    multiply_latency: Picos(393_333),
                    blocks: 0xffff,
                    accumulates: step > 0,
                },
                reads: vec![loaded],
                stationary_reads: vec![region(Space::Sbuf, 0..128, weights..weights + 256)],
                writes: vec![bank.clone()],
            });
        }
        let result = sbuf(96 + tile % 8);
        let plain = Work::Compute { interval: Picos(266_667), latency: Picos(386_667), table: None };
        program.push(Instruction {
            engine: Engine::Vector,
            work: plain.clone(),
            reads: vec![bank],
            stationary_reads: Vec::new(),
            writes: vec![result.clone()],
        });
        program.push(Instruction {
            engine: Engine::Scalar,
            work: plain,
            reads: vec![result.clone(), region(Space::Sbuf, 0..128, 131_072..131_076)],
            stationary_reads: Vec::new(),
            writes: vec![result.clone()],
        });
        program.push(Instruction {
            engine: Engine::Dma,
            work: transfer(Route::Store),
            reads: vec![result],
            stationary_reads: Vec::new(),
            writes: vec![region(Space::Hbm(2), row * 128..(row + 1) * 128, column * 1024..(column + 1) * 1024)],
        });
    }
    program
}

fn run(arch: &Arc<ArchSpec>, program: &[Instruction], keep_records: bool) -> Timeline {
    let mut timeline = Timeline::new(arch.clone(), TimelineOptions { throttle: false, keep_records });
    for instruction in program {
        timeline.issue(&TimedInstruction {
            opcode: 1,
            engine: instruction.engine,
            site: SiteId(1),
            label: 0,
            work: instruction.work.clone(),
            reads: &instruction.reads,
            stationary_reads: &instruction.stationary_reads,
            writes: &instruction.writes,
            after: &[],
            dynamic: false,
            macs: 0,
            peak_macs_per_cycle: 0,
        });
    }
    timeline
}

/// A run of 100,000 instructions, timed anew twenty times from its graph: as it was, with each engine free, without waiting
/// for buffers.
fn retime(criterion: &mut Criterion) {
    let arch = Arc::new(ArchSpec::load("trn3").expect("a built-in spec"));
    let timeline = run(&arch, &program(9_091), true);
    let graph = timeline.graph().expect("records are kept");
    let steps: Vec<u32> = (0..graph.steps().len() as u32).collect();
    let variants: Vec<Variant<'_>> = (0..20)
        .map(|number| {
            let mut variant = Variant::of(graph);
            match number % 5 {
                engine @ 0..3 => {
                    let engine = Engine::ALL[engine];
                    let of = steps.iter().filter(|step| graph.steps().at(**step as usize).engine == engine);
                    of.for_each(|&step| variant.free(step as usize));
                }
                3 => variant.rebuffer(&steps, None, 1),
                _ => {}
            }
            variant
        })
        .collect();
    let mut group = criterion.benchmark_group("retime");
    group.throughput(Throughput::Elements(20 * steps.len() as u64)).sample_size(10);
    group.bench_function("twenty_times", |bencher| {
        bencher.iter(|| variants.iter().map(|variant| black_box(variant.latency())).max());
    });
    group.finish();
}

fn timeline(criterion: &mut Criterion) {
    let arch = Arc::new(ArchSpec::load("trn3").expect("a built-in spec"));
    let program = program(9_091);
    let mut group = criterion.benchmark_group("timeline");
    group.throughput(Throughput::Elements(program.len() as u64)).sample_size(10);
    for keep_records in [true, false] {
        let name = if keep_records { "matmul_with_records" } else { "matmul_without_records" };
        group.bench_function(name, |bencher| bencher.iter(|| black_box(run(&arch, &program, keep_records).makespan())));
    }
    group.finish();
}

criterion_group!(benches, timeline, retime);
criterion_main!(benches);
