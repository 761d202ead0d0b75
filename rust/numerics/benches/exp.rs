//! Exponentials a second, at every level and size, with and without row sums.
//!
//! Speed of light with AVX-512: sixteen float32 take sixteen vector instructions on two ports (subtraction, split into
//! n and r four, polynomial six, 2^n two, the range test three), 8 cycles, 0.17 ns an element at 3 GHz in the cache.
//! Beyond the caches memory limits: 12 bytes an element (read, read for ownership, written back), 0.3 ns at 40 GB/s.
//! A row sum is a chain of additions of 4 cycles each, 1.3 ns; sixteen rows share it.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::{bf16, f16};
use trn3_numerics::{ArrayMut, ArrayView, Bias, Element, SimdLevel, exp, set_num_threads, with_level};

/// -10 .. 10, as attention scores are, in no order.
fn inputs<T: Element>(count: usize, from: impl Fn(f32) -> T) -> Vec<T> {
    let hash = |index: usize| (index as u32).wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b);
    (0..count).map(|index| from(hash(index) as f32 / 2f32.powi(32) * 20.0 - 10.0)).collect()
}

/// One shape and pair of formats, with `sums` of the rows or without.
fn measure<X: Element, Y: Element>(c: &mut Criterion, x: &[X], zero: Y, shape: [usize; 2], with_sums: bool) {
    let (mut y, mut sums) = (vec![zero; x.len()], vec![0.0; shape[0]]);
    let bias = vec![0.1; shape[0]];
    let source = ArrayView::new(x, &shape).expect("shape fits").into();
    for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
        // The slow levels say what they have to say at one size.
        if level < SimdLevel::Avx2 && x.len() > 1 << 20 || level == SimdLevel::Avx512Bf16 {
            continue;
        }
        let mut group = c.benchmark_group(format!("exp/{level}"));
        group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(400)).sample_size(10);
        group.throughput(Throughput::Elements(x.len() as u64));
        let name = format!("{} to {}{}", X::FORMAT, Y::FORMAT, if with_sums { ", sums" } else { "" });
        group.bench_function(BenchmarkId::new(name, format!("{}x{}", shape[0], shape[1])), |b| {
            b.iter(|| {
                let out = ArrayMut::new(black_box(&mut y), &shape).expect("shape fits");
                let sums = with_sums.then_some(&mut sums[..]);
                with_level(level, || exp(&source, Bias::PerRow(&bias), out, sums)).expect("available")
            });
        });
        group.finish();
    }
}

fn exponentials(c: &mut Criterion) {
    set_num_threads(1).expect("one thread is always there");
    for shape in [[1, 4096], [16, 4096], [4096, 4096], [4096, 64], [65536, 1], [4096, 5]] {
        let x = inputs(shape[0] * shape[1], |x| x);
        measure(c, &x, 0f32, shape, false);
    }
    let shape = [64, 1024];
    let x = inputs(shape[0] * shape[1], |x| x);
    measure(c, &x, bf16::ZERO, shape, false);
    measure(c, &inputs(x.len(), bf16::from_f32), 0f32, shape, false);
    measure(c, &inputs(x.len(), bf16::from_f32), bf16::ZERO, shape, false);
    measure(c, &inputs(x.len(), f16::from_f32), f16::ZERO, shape, false);
    // Rows that need a mask: every result below the smallest float32.
    measure(c, &vec![f32::NEG_INFINITY; x.len()], 0f32, shape, false);
    for shape in [[64, 1024], [4096, 4096], [512, 32768], [1, 1 << 20], [4, 1 << 18], [4096, 64], [4096, 5]] {
        let x = inputs(shape[0] * shape[1], |x| x);
        measure(c, &x, 0f32, shape, true);
        measure(c, &x, bf16::ZERO, shape, true);
    }
}

criterion_group!(benches, exponentials);
criterion_main!(benches);
