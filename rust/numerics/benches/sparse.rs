//! `matmul_sparse` beside `matmul` of the same dense shapes, and what it takes to compress.
//!
//! Throughput of the products is given in elements, where an element is one multiply-add of the dense form (so that a 4:16
//! product could reach four times the dense rate). Speed of light of the skip-zero kernel: for every stored value and
//! sixteen rows one load and one fused multiply-add, so a quarter of the dense multiply-adds at 4:16, each bound by
//! whichever of the two the CPU issues slower. Compressing reads its input once: memory bandwidth bounds it.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use half::bf16;
use trn3_numerics::{
    ArrayMut, ArrayView, Draws, Rounding, SimdLevel, SparseView, SparsityPattern, compress, matmul, matmul_sparse,
    prune, with_level,
};

fn noise(count: usize) -> Vec<bf16> {
    let mut state = 1u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bf16::from_f32(state as f32 / 4e9 - 0.5)
    };
    (0..count).map(|_| next()).collect()
}

fn bench(criterion: &mut Criterion) {
    for [m, k, n] in [[2048; 3], [4096, 1024, 4096]] {
        let (a, dense) = (noise(m * k), noise(k * n));
        let a = ArrayView::new(&a, &[m, k]).expect("whole");
        let mut out = vec![0.0f32; m * n];
        for name in ["4:16", "2:4"] {
            let pattern: SparsityPattern = name.parse().expect("a pattern");
            let shape = pattern.compressed_shape(&[k, n], 0).expect("whole groups");
            let mut pruned = vec![bf16::ZERO; k * n];
            let dense_view = ArrayView::new(&dense, &[k, n]).expect("whole");
            let mut values = vec![bf16::ZERO; shape[0] * n];
            let mut indices = vec![0; values.len()];

            let mut group = criterion.benchmark_group(format!("compress {k}x{n} {name}"));
            group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
            group.throughput(Throughput::Bytes(2 * (k * n) as u64));
            group.bench_function("prune", |bencher| {
                bencher.iter(|| {
                    let out = ArrayMut::new(&mut pruned, &[k, n]).expect("whole");
                    prune(black_box(&dense_view), pattern, 0, out).expect("valid call");
                });
            });
            let pruned = ArrayView::new(&pruned, &[k, n]).expect("whole");
            group.bench_function("compress", |bencher| {
                bencher.iter(|| {
                    let out = ArrayMut::new(&mut values, &shape).expect("whole");
                    compress(black_box(&pruned), pattern, 0, out, &mut indices).expect("sparse enough");
                });
            });
            group.finish();

            let values = ArrayView::new(&values, &shape).expect("whole");
            let w = SparseView::new(values, &indices, pattern, 0).expect("sound");
            let mut group = criterion.benchmark_group(format!("matmul {m}x{k}x{n} {name}"));
            group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
            group.throughput(Throughput::Elements((m * k * n) as u64));
            for level in SimdLevel::ALL.into_iter().filter(|&level| level > SimdLevel::Portable && level.is_available())
            {
                group.bench_function(format!("sparse {level}"), |bencher| {
                    bencher.iter(|| {
                        let out = ArrayMut::new(&mut out, &[m, n]).expect("whole");
                        let product = || matmul_sparse(black_box(&a), &w, None, out, Rounding::Nearest, Draws::None);
                        with_level(level, product).expect("available").expect("valid call");
                    });
                });
                group.bench_function(format!("dense {level}"), |bencher| {
                    bencher.iter(|| {
                        let out = ArrayMut::new(&mut out, &[m, n]).expect("whole");
                        let product = || matmul(black_box(&a), &pruned, None, out, Rounding::Nearest, Draws::None);
                        with_level(level, product).expect("available").expect("valid call");
                    });
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
