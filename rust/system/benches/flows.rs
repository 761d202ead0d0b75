//! Transfers simulated a second: an exchange among 144 chips, rings with many dependencies, and mixed sizes.
//!
//! Goal: the exchange in under a second on one core, its 20,592 routes included.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trn3_system::fabric::{Fabric, LinkProfile};
use trn3_system::flow::{FlowMessage, FlowTransfer, Outcome, Resource, over_fabric, run};

/// Among every `apart`th chip of a Gen2 UltraServer.
fn exchange(apart: usize, bytes: impl Fn(usize, usize) -> f64) -> (Vec<Resource>, Vec<FlowTransfer>) {
    let fabric = Fabric::built_in("trn3_gen2", LinkProfile::Docs).expect("built in");
    let chips = (0..fabric.chips()).step_by(apart);
    let pairs = chips.clone().flat_map(|a| chips.clone().filter(move |&b| a != b).map(move |b| (a, b)));
    let messages: Vec<FlowMessage> = pairs.map(|(a, b)| FlowMessage::new(a, b, bytes(a, b))).collect();
    over_fabric(&fabric, &messages).expect("connected")
}

/// A ring of equal steps: each rank sends to the next what it got in the step before.
fn ring(ranks: u32, steps: u32) -> (Vec<Resource>, Vec<FlowTransfer>) {
    let links = (0..ranks).map(|rank| Resource::new(format!("link {rank}"), 128e9)).collect();
    let send = |step: u32, rank: u32| FlowTransfer {
        latency: 1.5e-6,
        after: if step == 0 { Vec::new() } else { vec![(step - 1) * ranks + (rank + ranks - 1) % ranks] },
        ..FlowTransfer::over(1e6, [rank])
    };
    (links, (0..steps).flat_map(|step| (0..ranks).map(move |rank| send(step, rank))).collect())
}

fn simulate((links, transfers): &(Vec<Resource>, Vec<FlowTransfer>)) -> Outcome {
    run(links, transfers).expect("runs")
}

fn flows(c: &mut Criterion) {
    let mut group = c.benchmark_group("flows");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::Elements(144 * 143));
    let equal = |_: usize, _: usize| 1e6;
    group.bench_function("exchange of 144 chips, with routes", |b| b.iter(|| simulate(black_box(&exchange(1, equal)))));
    let ready = exchange(1, equal);
    group.bench_function("exchange of 144 chips", |b| b.iter(|| simulate(black_box(&ready))));
    // Sixteen sizes, as expert-parallel dispatch has many: no symmetry is left but that of the graph.
    let ready = exchange(1, |a, b| 1e6 + 1e5 * ((a * 31 + b * 17) % 16) as f64);
    group.bench_function("exchange of 144 chips, 16 sizes", |b| b.iter(|| simulate(black_box(&ready))));
    // No two alike, as routed tokens are: every message ends at a moment of its own.
    let ready = exchange(3, |a, b| 1e6 * (1.0 + ((a * 7919 + b * 104_729) % 20_593) as f64 / 20_593.0));
    group.throughput(Throughput::Elements(48 * 47));
    group.bench_function("exchange of 48 chips, no two sizes alike", |b| b.iter(|| simulate(black_box(&ready))));
    for (ranks, steps) in [(64, 126), (576, 1150)] {
        let ready = ring(ranks, steps);
        group.throughput(Throughput::Elements(ready.1.len() as u64));
        group.bench_function(format!("ring of {ranks} ranks, {steps} steps"), |b| {
            b.iter(|| simulate(black_box(&ready)))
        });
    }
    group.finish();
}

criterion_group!(benches, flows);
criterion_main!(benches);
