//! Steps a second through dependences, the check and each pass: tiled matrix multiplications whose tiles take turns.
#![allow(missing_docs)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use support::tiled;
use trn3_compiler::dependences::Dependences;
use trn3_compiler::passes::check::check;
use trn3_compiler::{PASSES, PassReport, lower_bound};

const STEPS: usize = 1_000_000;

fn passes(criterion: &mut Criterion) {
    let trace = tiled(STEPS);
    let mut group = criterion.benchmark_group("compiler");
    group.throughput(Throughput::Elements(trace.steps.len() as u64)).sample_size(10);
    group.bench_function("dependences", |bencher| bencher.iter(|| black_box(Dependences::placed(&trace).edges())));
    group.bench_function("bound", |bencher| bencher.iter(|| black_box(lower_bound(&trace))));
    group.bench_function("check", |bencher| bencher.iter(|| check(&trace, &trace).expect("the same trace")));
    for pass in PASSES {
        group.bench_function(pass.name(), |bencher| {
            let run = |mut trace: trn3_machine::trace::Trace| {
                pass.run(&mut trace, &mut PassReport::new(pass.name())).expect("a trace that fits");
                trace
            };
            bencher.iter_batched(|| trace.clone(), run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, passes);
criterion_main!(benches);
