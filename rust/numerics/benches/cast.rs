//! Casts a second of one thread, in cache, at every level.
//!
//! Speed of light: float32 to bfloat16 is seven integer operations on sixteen lanes, to a narrower exponent fifteen; two
//! ports make that four and eight cycles with AVX-512, 0.1 and 0.2 ns an element at 3 GHz. From memory the limit is its
//! bandwidth: four bytes read and one or two written an element.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use trn3_numerics::{
    ArrayMut, ArrayView, CastOptions, Draws, ElementSource, Format, Overflow, Rounding, SimdLevel, cast,
    set_num_threads, with_level,
};

const COUNT: usize = 1 << 15;

fn casts(c: &mut Criterion) {
    set_num_threads(1).expect("one thread is always there");
    let values: Vec<f32> = (0..COUNT).map(|index| (index as f32).sin()).collect();
    let draws: Vec<u32> = (0..COUNT as u32).map(|index| index.wrapping_mul(0x9e37_79b9)).collect();
    for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
        let mut group = c.benchmark_group(format!("cast/{level}"));
        group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(300)).sample_size(10);
        group.throughput(Throughput::Elements(COUNT as u64));
        for to in [Format::Bf16, Format::F16, Format::F8E4M3Fn, Format::F4E2M1Fn] {
            for rounding in [Rounding::Nearest, Rounding::Stochastic] {
                let source: ElementSource<'_> = ArrayView::new(&values, &[COUNT]).expect("fits").into();
                let mut words = vec![0u32; COUNT];
                let options = CastOptions { rounding, overflow: Overflow::Ieee };
                group.bench_function(BenchmarkId::new(rounding.name(), to), |b| {
                    b.iter(|| {
                        let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..COUNT * to.item_size()];
                        let out = ArrayMut::from_codes(to, bytes, &[COUNT]).expect("fits");
                        let given = if rounding == Rounding::Stochastic { Draws::Given(&draws) } else { Draws::None };
                        with_level(level, || cast(black_box(&source), out, options, given)).expect("available")
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, casts);
criterion_main!(benches);
