//! Steps a second through dependences, the bound and the check, through every pass by itself, and through all of them: a
//! million instructions of attention as a core traced them, at level neuronx-cc. Tiled matrix multiplications whose bodies
//! repeat step for step are what the passes that order steps get besides.
#![allow(missing_docs)]

#[path = "../tests/support/kernel.rs"]
mod kernel;
#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use support::tiled;
use trn3_compiler::dependences::Dependences;
use trn3_compiler::passes::check::check;
use trn3_compiler::{CompileLevel, Pass, PassReport, lower_bound, passes_of};
use trn3_machine::trace::Trace;

/// A million; a hundredth of that where benches only have to run, as tests do.
fn steps() -> usize {
    if std::env::args().any(|word| word == "--bench") { 1_000_000 } else { 10_000 }
}

fn run(trace: &mut Trace, passes: &[&dyn Pass]) {
    for pass in passes {
        pass.run(trace, &mut PassReport::new(pass.name())).expect("a trace that fits");
    }
}

fn bench(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, trace: &Trace, passes: &[&dyn Pass]) {
    group.throughput(Throughput::Elements(trace.steps.len() as u64));
    let routine = |mut trace: Trace| {
        run(&mut trace, passes);
        trace
    };
    group.bench_function(name, |bencher| bencher.iter_batched(|| trace.clone(), routine, BatchSize::PerIteration));
}

fn passes(criterion: &mut Criterion) {
    let passes = passes_of(CompileLevel::NeuronxCc);
    let mut group = criterion.benchmark_group("compiler");
    group.sample_size(10);
    let mut trace = kernel::attention(steps()).take_trace().expect("a trace");
    bench(&mut group, "all passes", &trace, &passes);
    for pass in &passes {
        bench(&mut group, pass.name(), &trace, &[*pass]);
        run(&mut trace, &[*pass]);
    }
    group.throughput(Throughput::Elements(trace.steps.len() as u64));
    group.bench_function("dependences", |bencher| bencher.iter(|| black_box(Dependences::placed(&trace).edges())));
    group.bench_function("bound", |bencher| bencher.iter(|| black_box(lower_bound(&trace))));
    group.bench_function("check", |bencher| bencher.iter(|| check(&trace, &trace).expect("the same trace")));
    drop(trace);
    let trace = tiled(steps());
    bench(&mut group, "bodies: all passes", &trace, &passes);
    for pass in passes.iter().filter(|pass| ["structure", "schedule"].contains(&pass.name())) {
        bench(&mut group, &format!("bodies: {}", pass.name()), &trace, &[*pass]);
    }
    group.finish();
}

criterion_group!(benches, passes);
criterion_main!(benches);
