//! Views a second: what every operand of every instruction costs before anything is computed.
//!
//! Goal: indexing a 2-D tile and its region each well under 300 ns, so that a million instructions a second of three
//! operands leave two thirds of the time to the rest.

use std::hint::black_box;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use trn3_machine::dtype::DType;
use trn3_machine::site::SiteId;
use trn3_machine::storage::{Buffer, HbmBytes, Placement, Storage};
use trn3_machine::view::{Index, View};

fn tensor(buffer: Buffer, shape: &[usize]) -> View {
    let bytes = shape[1..].iter().product::<usize>() * 4;
    View::whole(Arc::new(Storage {
        id: 1,
        name: "x".to_string(),
        buffer,
        dtype: DType::Float32,
        shape: shape.iter().copied().collect(),
        place: buffer.is_on_chip().then_some(Placement { partition: 0, byte: 0, partitions: shape[0], bytes }),
        tenancy: Default::default(),
        addressed: false,
        site: SiteId(0),
        hbm: Arc::new(Mutex::new(HbmBytes::default())),
        shadows: Default::default(),
        pitch: OnceLock::new(),
        release: None,
    }))
}

fn views(c: &mut Criterion) {
    let mut group = c.benchmark_group("view");
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(300)).sample_size(20);
    let range = |start, stop| Index::Range { start: Some(start), stop: Some(stop), step: None };
    let keys = [range(0, 128), range(512, 1024)];
    for (name, whole) in
        [("sbuf", tensor(Buffer::Sbuf, &[128, 2048])), ("hbm", tensor(Buffer::PrivateHbm, &[4096, 2048]))]
    {
        group.bench_function(format!("{name}/index"), |bench| bench.iter(|| black_box(&whole).index(black_box(&keys))));
        let tile = whole.index(&keys).expect("in bounds");
        group.bench_function(format!("{name}/regions"), |bench| bench.iter(|| black_box(&tile).regions()));
        let strided = whole.ap(&[(2048, 128), (64, 8), (1, 16)], Some(32), None, None, 0, None).expect("in bounds");
        group.bench_function(format!("{name}/regions of 8 runs"), |bench| bench.iter(|| black_box(&strided).regions()));
        group.bench_function(format!("{name}/ap"), |bench| {
            bench.iter(|| {
                black_box(&whole).ap(black_box(&[(2048, 128), (64, 8), (1, 16)]), Some(32), None, None, 0, None)
            })
        });
        group.bench_function(format!("{name}/reshape"), |bench| {
            bench.iter(|| black_box(&whole).reshape(black_box(&[whole.shape[0] as i64, 16, 128])))
        });
    }
    group.finish();
}

criterion_group!(benches, views);
criterion_main!(benches);
