//! Multiply-adds a second of one thread, at every level but the scalar one.
//!
//! Speed of light: a chain step is a fused multiply-add, sixteen outputs an instruction and two instructions a cycle with
//! AVX-512 (64 FLOP a cycle), half of it with AVX2; the BF16 dot product does two steps an instruction, on the CPUs that
//! issue it as often. Operands and accumulators stay in L2, so memory does not show at this size.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::bf16;
use trn3_numerics::{ArrayMut, ArrayView, Draws, Element, Rounding, SimdLevel, matmul, set_num_threads, with_level};

const SIDE: usize = 512;

fn product<T: Element>(c: &mut Criterion, name: &str, value: impl Fn(f32) -> T) {
    set_num_threads(1).expect("one thread is always there");
    let shape = [SIDE, SIDE];
    let a: Vec<T> = (0..SIDE * SIDE).map(|index| value((index as f32).sin())).collect();
    let b: Vec<T> = (0..SIDE * SIDE).map(|index| value((index as f32).cos())).collect();
    let (a, b) = (ArrayView::new(&a, &shape).expect("fits"), ArrayView::new(&b, &shape).expect("fits"));
    let mut group = c.benchmark_group(format!("matmul/{name}"));
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(500)).sample_size(10);
    group.throughput(Throughput::Elements((SIDE * SIDE * SIDE) as u64));
    for level in SimdLevel::ALL.into_iter().filter(|&level| level != SimdLevel::Scalar && level.is_available()) {
        let mut out = vec![0.0f32; SIDE * SIDE];
        group.bench_function(BenchmarkId::from_parameter(level), |bencher| {
            bencher.iter(|| {
                let out = ArrayMut::new(&mut out, &shape).expect("fits");
                with_level(level, || matmul(black_box(&a), &b, None, out, Rounding::Nearest, Draws::None))
                    .expect("available")
            });
        });
    }
    group.finish();
}

fn products(c: &mut Criterion) {
    product(c, "bfloat16", bf16::from_f32);
    product(c, "float32", |value| value);
}

criterion_group!(benches, products);
criterion_main!(benches);
