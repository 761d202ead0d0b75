//! Tiles read, written and copied a second, one thread.
//!
//! Speed of light: [128, 512] bfloat16 are 128 KiB read and 256 KiB written as float32, which the second cache moves in
//! some 10 us; a copy of [128, 2 KiB] is 128 runs of 2 KiB.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_machine::memory::{Memory, MemoryOptions, Request};
use trn3_machine::site::SiteId;
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;
use trn3_numerics::{CastOptions, set_num_threads};

fn tensor(memory: &mut Memory, shape: &[usize], dtype: DType, buffer: Buffer) -> View {
    let request = Request { name: "t", shape, dtype, buffer, address: None, site: SiteId(1) };
    let view = View::whole(memory.allocate(&request).expect("fits"));
    memory.write_bits(&view, &vec![0x3f; view.len()]).expect("fits");
    view
}

fn tiles(c: &mut Criterion) {
    set_num_threads(1).expect("one thread is always there");
    let mut memory = Memory::new(&Arc::new(ArchSpec::load("trn3").expect("built in")), MemoryOptions::default());
    let mut group = c.benchmark_group("memory");
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(400)).sample_size(20);
    let mut out = Vec::new();
    for shape in [[1, 1], [128, 1], [128, 512]] {
        for dtype in [DType::BFloat16, DType::Float32, DType::Float16, DType::Float8E4M3, DType::Int32, DType::UInt8] {
            let view = tensor(&mut memory, &shape, dtype, Buffer::Sbuf);
            let id = |what: &str| BenchmarkId::new(what, format!("{dtype} {shape:?}"));
            group.bench_function(id("read"), |b| {
                b.iter(|| memory.read_f32(black_box(&view), &mut out, SiteId(2)).expect("readable"));
            });
            let values = vec![1.5f32; view.len()];
            group.bench_function(id("write"), |b| {
                b.iter(|| memory.write_f32(black_box(&view), &values, CastOptions::default()).expect("fits"));
            });
        }
    }
    let whole = tensor(&mut memory, &[128, 1024], DType::BFloat16, Buffer::Sbuf);
    let mut strided = whole.clone();
    (strided.shape[1], strided.strides[1]) = (512, 2);
    group.bench_function("read/bfloat16 [128, 512] stride 2", |b| {
        b.iter(|| memory.read_f32(black_box(&strided), &mut out, SiteId(2)).expect("readable"));
    });
    group.bench_function("write/bfloat16 [128, 512] stride 2", |b| {
        let values = vec![1.5f32; strided.len()];
        b.iter(|| memory.write_f32(black_box(&strided), &values, CastOptions::default()).expect("fits"));
    });
    group.bench_function("lend/bfloat16 [128, 512] stride 2", |b| {
        b.iter(|| memory.with_array(black_box(&strided), SiteId(2), |array| array.len()).expect("readable"));
    });
    for buffer in [Buffer::Sbuf, Buffer::Psum, Buffer::PrivateHbm] {
        let other = tensor(&mut memory, &[128, 1024], DType::BFloat16, buffer);
        group.bench_function(BenchmarkId::new("copy 2 KiB rows, sbuf to", buffer), |b| {
            b.iter(|| memory.copy_bits(black_box(&other), &whole, SiteId(2)).expect("alike"));
        });
    }
    let (bytes, mut copy) = (vec![1u8; 256 * 1024], vec![0u8; 256 * 1024]);
    group.bench_function("copy 256 KiB, plain", |b| b.iter(|| black_box(&mut copy).copy_from_slice(black_box(&bytes))));
    let request = Request {
        name: "t",
        shape: &[128, 512],
        dtype: DType::Float32,
        buffer: Buffer::Sbuf,
        address: None,
        site: SiteId(1),
    };
    group.bench_function("allocate and release", |b| b.iter(|| memory.allocate(black_box(&request)).expect("fits")));
    group.finish();
}

/// A million tensors made, each gone before the next, at 200 addresses in turn, as kernels do that place their
/// tensors themselves: what one costs must not grow with how many there were.
fn addresses(c: &mut Criterion) {
    const COUNT: usize = 1_000_000;
    let arch = Arc::new(ArchSpec::load("trn3").expect("built in"));
    let mut group = c.benchmark_group("allocate");
    group.warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(1)).sample_size(10);
    group.throughput(Throughput::Elements(COUNT as u64));
    group.bench_function("a million tensors at 200 addresses", |b| {
        b.iter(|| {
            let mut memory = Memory::new(&arch, MemoryOptions::default());
            for number in 0..COUNT {
                let address = Some((0, number % 200 * 512));
                let site = SiteId(number as u32 % 200);
                let (shape, buffer) = (&[128, 64], Buffer::Sbuf);
                let request = Request { name: "t", shape, dtype: DType::Float32, buffer, address, site };
                black_box(memory.allocate(&request).expect("fits"));
                memory.take_changes();
            }
        });
    });
    group.finish();
}

criterion_group!(benches, tiles, addresses);
criterion_main!(benches);
