//! Draws a second of one thread, at every level.
//!
//! Speed of light: a draw costs nine integer operations and a share of a transposition, four shuffles for sixteen. With
//! AVX-512 and three-operand logic that is twelve instructions for sixteen draws on two ports, six cycles: 2.7 draws a
//! cycle, 8 Gdraw/s at 3 GHz while the output stays in cache. Into memory that is touched for the first time the
//! system's page clearing limits everything, here to some 13 GB/s, 3.3 Gdraw/s.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use trn3_numerics::{SimdLevel, Xorwow, set_num_threads, with_level};

fn draws(c: &mut Criterion) {
    set_num_threads(1).expect("one thread is always there");
    for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
        let mut group = c.benchmark_group(format!("xorwow/{level}"));
        group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(300)).sample_size(10);
        for (lanes, generators, n) in [
            (16, 1, 512),
            (128, 1, 64),
            (128, 1, 512),
            (128, 1, 4096),
            (128, 1, 1 << 18),
            (128, 4, 4096),
            (1, 1, 1 << 9),
            (1, 1, 1 << 20),
            (33, 1, 1 << 14),
        ] {
            let mut generator = Xorwow::seed(0, lanes, generators).expect("valid seed");
            let mut out = vec![0; lanes * n];
            group.throughput(Throughput::Elements(out.len() as u64));
            let id = BenchmarkId::new("uint32", format!("{lanes}x{generators}, {n} draws"));
            group.bench_function(id, |b| {
                b.iter(|| with_level(level, || generator.uint32(n, black_box(&mut out))).expect("available"));
            });
        }
        let (lanes, n) = (128, 4096);
        let mut generator = Xorwow::seed(0, lanes, 1).expect("valid seed");
        let mut out = vec![0.0; lanes * n];
        group.throughput(Throughput::Elements(out.len() as u64));
        group.bench_function(BenchmarkId::new("uniform", format!("{lanes}x1, {n} draws")), |b| {
            b.iter(|| with_level(level, || generator.uniform(n, -1.0, 1.0, black_box(&mut out))).expect("available"));
        });
        group.bench_function("jump, 128 lanes", |b| {
            b.iter(|| with_level(level, || generator.jump(black_box(1 << 40))).expect("available"));
        });
        group.finish();
    }
}

criterion_group!(benches, draws);
criterion_main!(benches);
