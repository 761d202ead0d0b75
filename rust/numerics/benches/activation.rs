//! Activation functions a second, at every level.
//!
//! Speed of light with AVX-512: functions by tables are some 30 vector operations for sixteen float32, 15 cycles on two
//! ports. Those of an exponential are two vectors of float64, so that S steps take S cycles for sixteen elements, and two
//! divisions beside them, 18 to 32 cycles: sigmoid's are what bounds it, 0.4 to 0.7 ns an element at 3 GHz.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use trn3_numerics::{
    ActivationFunction, ArrayMut, ArrayView, SimdLevel, activate, activation, set_num_threads, with_level,
};

/// Positive for what is defined there alone; sin within its range.
fn inputs(function: ActivationFunction, count: usize) -> Vec<f32> {
    let hash = |index: usize| (index as u32).wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b);
    let (low, high) = match function {
        ActivationFunction::Log | ActivationFunction::Sqrt | ActivationFunction::Rsqrt => (0.001, 10.0),
        ActivationFunction::Sin => (-3.1, 3.1),
        _ => (-10.0, 10.0),
    };
    (0..count).map(|index| hash(index) as f32 / 2f32.powi(32) * (high - low) + low).collect()
}

fn functions(c: &mut Criterion) {
    set_num_threads(1).expect("one thread is always there");
    for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
        let mut group = c.benchmark_group(format!("activation/{level}"));
        group.warm_up_time(Duration::from_millis(50)).measurement_time(Duration::from_millis(200)).sample_size(10);
        for function in ActivationFunction::ALL {
            for count in [1, 1 << 14] {
                // One value says how cheap a call is; the slow levels and the functions that are alike say it once.
                if level == SimdLevel::Avx512Bf16
                    || count == 1 && (level < SimdLevel::Avx2 || function != ActivationFunction::Gelu)
                {
                    continue;
                }
                let x = inputs(function, count);
                let mut y = x.clone();
                let (source, shape) = (ArrayView::new(&x, &[count]).expect("shape fits").into(), [count]);
                group.throughput(Throughput::Elements(count as u64));
                group.bench_function(BenchmarkId::new(function.name(), count), |b| {
                    b.iter(|| {
                        with_level(level, || {
                            if count == 1 {
                                y[0] = black_box(0.3);
                                return activate(black_box(&mut y), function, 0.1);
                            }
                            let out = ArrayMut::new(black_box(&mut y), &shape).expect("shape fits");
                            activation(&source, function, 0.1, out)
                        })
                        .expect("available")
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, functions);
criterion_main!(benches);
