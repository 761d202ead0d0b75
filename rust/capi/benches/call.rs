//! What the C interface costs: a one-element call of each kind beside the same call in Rust. The point: the difference,
//! which is checks, the guard against panics and the floating-point environment, is to stay below 30 ns.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use trn3_capi::*;
use trn3_numerics::{Activation, ArrayMut, ArrayView, Bias, CastOptions, Draws, Format, Rounding};

const FLOAT32: trn3_dtype = TRN3_DTYPE_FLOAT32;
const BFLOAT16: trn3_dtype = TRN3_DTYPE_BFLOAT16;

fn shape(lengths: &[i64]) -> [i64; TRN3_MAX_AXES] {
    let mut shape = [0; TRN3_MAX_AXES];
    shape[..lengths.len()].copy_from_slice(lengths);
    shape
}

fn input(data: *const u32, lengths: &[i64]) -> trn3_array {
    trn3_array {
        size: size_of::<trn3_array>(),
        data: data.cast(),
        dtype: FLOAT32,
        ndim: lengths.len() as u32,
        shape: shape(lengths),
        strides: [0; TRN3_MAX_AXES],
    }
}

fn output<T>(data: *mut T, dtype: trn3_dtype, lengths: &[i64]) -> trn3_array_mut {
    trn3_array_mut {
        size: size_of::<trn3_array_mut>(),
        data: data.cast(),
        dtype,
        ndim: lengths.len() as u32,
        shape: shape(lengths),
        strides: [0; TRN3_MAX_AXES],
    }
}

fn elements(criterion: &mut Criterion) {
    let x = [0x3f80_8000u32];
    let mut y = [0u16];
    let mut group = criterion.benchmark_group("cast");
    group.bench_function("rust", |bencher| {
        bencher.iter(|| {
            let view = ArrayView::from_codes(Format::F32, bytemuck::cast_slice(black_box(&x)), &[1]).expect("x");
            let out = ArrayMut::from_codes(Format::Bf16, bytemuck::cast_slice_mut(&mut y), &[1]).expect("y");
            trn3_numerics::cast(&view.into(), out, CastOptions::default(), Draws::None).expect("cast");
        });
    });
    let (from, to) = (input(x.as_ptr(), &[1]), output(y.as_mut_ptr(), BFLOAT16, &[1]));
    group.bench_function("c", |bencher| {
        bencher.iter(|| {
            // SAFETY: the structures describe the arrays.
            let status = unsafe { trn3_cast(black_box(&from), &to, std::ptr::null(), std::ptr::null_mut(), 0) };
            assert_eq!(status, TRN3_OK);
        });
    });
    let mut bits = 0;
    group.bench_function("c, one element", |bencher| {
        // SAFETY: the result is a local.
        bencher.iter(|| unsafe { trn3_cast_one(FLOAT32, black_box(0x3f80_8000), BFLOAT16, 0, 0, 0, &mut bits) });
    });
    group.finish();

    let mut z = [0u32];
    let mut group = criterion.benchmark_group("exp");
    group.bench_function("rust", |bencher| {
        bencher.iter(|| {
            let view = ArrayView::from_codes(Format::F32, bytemuck::cast_slice(black_box(&x)), &[1]).expect("x");
            let out = ArrayMut::from_codes(Format::F32, bytemuck::cast_slice_mut(&mut z), &[1]).expect("z");
            trn3_numerics::exp(&view.into(), Bias::Scalar(0.0), out, None).expect("exp");
        });
    });
    group.bench_function("c, one element", |bencher| {
        // SAFETY: the result is a local.
        bencher.iter(|| unsafe { trn3_exp_one(FLOAT32, black_box(0x3f80_8000), 0, FLOAT32, &mut bits) });
    });
    group.finish();

    let mut group = criterion.benchmark_group("activation");
    group.bench_function("rust", |bencher| {
        bencher.iter(|| {
            let view = ArrayView::from_codes(Format::F32, bytemuck::cast_slice(black_box(&x)), &[1]).expect("x");
            let out = ArrayMut::from_codes(Format::F32, bytemuck::cast_slice_mut(&mut z), &[1]).expect("z");
            trn3_numerics::activation(&view.into(), Activation::Gelu, 0.0, out).expect("gelu");
        });
    });
    group.bench_function("c, one element", |bencher| {
        // SAFETY: the result is a local.
        bencher.iter(|| unsafe {
            trn3_activation_one(FLOAT32, black_box(0x3f80_8000), TRN3_ACTIVATION_GELU, 0, FLOAT32, &mut bits)
        });
    });
    group.finish();

    let mut group = criterion.benchmark_group("matmul of one element");
    let ones = [0x3f80_0000u32];
    group.bench_function("rust", |bencher| {
        bencher.iter(|| {
            let a = ArrayView::from_codes(Format::F32, bytemuck::cast_slice(black_box(&ones)), &[1, 1]).expect("a");
            let b = ArrayView::from_codes(Format::F32, bytemuck::cast_slice(black_box(&ones)), &[1, 1]).expect("b");
            let out = ArrayMut::from_codes(Format::F32, bytemuck::cast_slice_mut(&mut z), &[1, 1]).expect("z");
            trn3_numerics::matmul(&a, &b, None, out, Rounding::Nearest, Draws::None).expect("product");
        });
    });
    let (a, out) = (input(ones.as_ptr(), &[1, 1]), output(z.as_mut_ptr(), FLOAT32, &[1, 1]));
    group.bench_function("c", |bencher| {
        bencher.iter(|| {
            let (none, no_scratch) = (std::ptr::null(), std::ptr::null_mut());
            // SAFETY: the structures describe the arrays.
            let status = unsafe { trn3_matmul(black_box(&a), &a, none, &out, std::ptr::null(), no_scratch, 0) };
            assert_eq!(status, TRN3_OK);
        });
    });
    group.finish();

    let mut group = criterion.benchmark_group("accumulate step");
    group.bench_function("rust", |bencher| {
        bencher.iter(|| black_box(1.5f32).mul_add(black_box(2.5), black_box(3.5)));
    });
    group.bench_function("c", |bencher| {
        bencher.iter(|| {
            let (a, b, sum) = (black_box(0x3fc0), black_box(0x4020), black_box(0x4060_0000));
            // SAFETY: the result is a local.
            unsafe { trn3_accumulate_step(BFLOAT16, a, BFLOAT16, b, sum, &mut bits) }
        });
    });
    group.bench_function("c, four products of MX", |bencher| {
        bencher.iter(|| {
            let (a, b, sum) = (black_box(0x3838_3838), black_box(0x3040_3038), black_box(0x4060_0000));
            let dtype = TRN3_DTYPE_FLOAT8_E4M3FN;
            // SAFETY: the result is a local.
            unsafe { trn3_accumulate_step_mx(dtype, a, 127, dtype, b, 127, sum, &mut bits) }
        });
    });
    group.finish();
}

/// From a command's submission to its completion in the host's hands; the point: below 300 ns.
fn commands(criterion: &mut Criterion) {
    let mut device = std::ptr::null_mut();
    // SAFETY: the result is a local.
    assert_eq!(unsafe { trn3_device_create(std::ptr::null(), 0, &mut device) }, TRN3_OK);
    // SAFETY: plain numbers and pointers, for which zeros stand.
    let mut command: trn3_command = unsafe { std::mem::zeroed() };
    command.size = size_of::<trn3_command>();
    command.kind = TRN3_COMMAND_NOP;
    // SAFETY: plain numbers.
    let mut done: trn3_completion = unsafe { std::mem::zeroed() };
    done.size = size_of::<trn3_completion>();
    let mut count = 0;
    criterion.bench_function("submit to poll", |bencher| {
        bencher.iter(|| {
            // SAFETY: the structures are locals.
            unsafe {
                assert_eq!(trn3_submit(device, black_box(&command), 7), TRN3_OK);
                assert_eq!(trn3_advance(device, 0), TRN3_OK);
                assert_eq!(trn3_poll(device, &mut done, 1, &mut count), TRN3_OK);
            }
            assert_eq!(count, 1);
        });
    });
    let mut next = 0;
    criterion.bench_function("next event", |bencher| {
        // SAFETY: the result is a local.
        bencher.iter(|| unsafe { trn3_next_event(device, &mut next) });
    });
    assert_eq!(trn3_device_destroy(device), TRN3_OK);
}

criterion_group!(call, elements, commands);
criterion_main!(call);
