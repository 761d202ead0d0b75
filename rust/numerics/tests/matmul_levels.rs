//! Every level multiplies to the bits of the scalar definition, and that to a naive chain.

use half::bf16;
use proptest::prelude::*;
use trn3_numerics::{
    ArrayMut, ArrayView, Draws, Format, MxView, Rounding, SimdLevel, matmul, matmul_chained, matmul_mx, product_shape,
    set_num_threads, with_level,
};

fn levels() -> impl Iterator<Item = SimdLevel> {
    SimdLevel::ALL.into_iter().filter(|level| level.is_available())
}

fn noise(count: usize, seed: u32) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        })
        .collect()
}

/// Values with exponents in a range around 1, some zero.
fn floats(count: usize, seed: u32, spread: u32) -> Vec<f32> {
    let bits = noise(2 * count, seed);
    let value = |[mantissa, other]: [u32; 2]| {
        if other % 17 == 0 {
            0.0
        } else {
            f32::from_bits(mantissa & 0x807f_ffff | (127 - spread / 2 + other / 32 % spread) << 23)
        }
    };
    bits.as_chunks::<2>().0.iter().map(|&pair| value(pair)).collect()
}

fn codes(values: &[f32], format: Format) -> Vec<u8> {
    match format {
        Format::F32 => bytemuck::cast_slice(values).to_vec(),
        Format::Bf16 => values.iter().flat_map(|&value| bf16::from_f32(value).to_bits().to_ne_bytes()).collect(),
        Format::F16 => values.iter().flat_map(|&value| half::f16::from_f32(value).to_bits().to_ne_bytes()).collect(),
        _ => values.iter().map(|value| (value.to_bits() >> 17) as u8).collect(),
    }
}

/// Bytes aligned like any allocation of floats.
struct Codes(Vec<u32>, usize);

impl Codes {
    fn new(bytes: &[u8]) -> Self {
        let mut words = vec![0u32; bytes.len().div_ceil(4)];
        bytemuck::cast_slice_mut::<u32, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Self(words, bytes.len())
    }
    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0)[..self.1]
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    k: usize,
    n: usize,
    a: Format,
    b: Format,
    out: Format,
    rounding: Rounding,
    with_c: bool,
    a_transposed: bool,
    b_transposed: bool,
    spread: u32,
}

fn run(case: Case, level: SimdLevel) -> Vec<u32> {
    let Case { m, k, n, .. } = case;
    let a = Codes::new(&codes(&floats(m * k, 1, case.spread), case.a));
    let b = Codes::new(&codes(&floats(k * n, 2, case.spread), case.b));
    let c = floats(m * n, 3, 8);
    let view = |codes: &Codes, format: Format, rows: usize, columns: usize, transposed: bool| {
        let item = format.item_size() as isize;
        let strides = if transposed { [item, rows as isize * item] } else { [columns as isize * item, item] };
        // Codes outlive the views in this function.
        let bytes: &'static [u8] = Box::leak(codes.bytes().to_vec().into_boxed_slice());
        ArrayView::strided(format, bytes, 0, &[rows, columns], &strides, false).expect("inside")
    };
    let (a, b) = (view(&a, case.a, m, k, case.a_transposed), view(&b, case.b, k, n, case.b_transposed));
    let c = ArrayView::new(&c, &[m, n]).expect("fits");
    let draws = noise(m * n * k.div_ceil(128), 9);
    let mut words = vec![0u32; m * n];
    let bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut words)[..m * n * case.out.item_size()];
    with_level(level, || {
        let out = ArrayMut::from_codes(case.out, bytes, &[m, n]).expect("aligned");
        let draws = if case.rounding == Rounding::Stochastic { Draws::Given(&draws) } else { Draws::None };
        matmul(&a, &b, case.with_c.then_some(&c), out, case.rounding, draws).expect("valid call");
    })
    .expect("available");
    words
}

fn check(case: Case) {
    let expected = run(case, SimdLevel::Scalar);
    for level in levels() {
        assert!(run(case, level) == expected, "{level} {case:?}");
    }
}

const BASE: Case = Case {
    m: 13,
    k: 300,
    n: 50,
    a: Format::Bf16,
    b: Format::Bf16,
    out: Format::F32,
    rounding: Rounding::Nearest,
    with_c: false,
    a_transposed: false,
    b_transposed: false,
    spread: 20,
};

#[test]
fn test_matmul_shapes_at_every_level() {
    for (m, k, n) in [(1, 1, 1), (8, 128, 48), (9, 129, 49), (7, 127, 47), (17, 1025, 97), (130, 512, 400), (3, 0, 5)] {
        check(Case { m, k, n, ..BASE });
        check(Case { m, k, n, a: Format::F32, b: Format::F32, with_c: true, ..BASE });
        check(Case { m, k, n, out: Format::Bf16, with_c: true, ..BASE });
    }
}

#[test]
fn test_matmul_formats_and_layouts_at_every_level() {
    use Format::{Bf16, F8E3M4, F8E4M3, F8E4M3Fn, F8E5M2, F16, F32};
    for (a, b) in [(Bf16, F16), (F8E4M3Fn, Bf16), (F8E5M2, F8E3M4), (F8E4M3, F8E4M3Fn), (F32, F32), (F16, F8E5M2)] {
        for (a_transposed, b_transposed) in [(false, false), (true, false), (false, true), (true, true)] {
            check(Case { a, b, a_transposed, b_transposed, ..BASE });
        }
    }
}

#[test]
fn test_matmul_roundings_at_every_level() {
    for rounding in [Rounding::Nearest, Rounding::Zero, Rounding::Stochastic] {
        for with_c in [false, true] {
            check(Case { out: Format::Bf16, rounding, with_c, ..BASE });
        }
    }
}

#[test]
fn test_matmul_where_the_dot_product_would_flush() {
    // Exponents down to the subnormals of bfloat16: products, sums and operands all leave the normal range.
    for spread in [100, 130, 200, 252] {
        check(Case { spread, ..BASE });
    }
}

#[test]
fn test_matmul_thread_counts() {
    let case = Case { m: 300, k: 700, n: 500, ..BASE };
    let expected = run(case, SimdLevel::Portable);
    for threads in [1, 2, 3, 8] {
        set_num_threads(threads).expect("allowed");
        for level in levels().filter(|&level| level != SimdLevel::Scalar) {
            assert!(run(case, level) == expected, "{level} with {threads} threads");
        }
    }
}

#[test]
fn test_matmul_batches_broadcast() {
    let (a, b) = (floats(2 * 3 * 5 * 40, 1, 10), floats(3 * 40 * 7, 2, 10));
    let (a_shape, b_shape) = ([2, 3, 5, 40], [3, 40, 7]);
    let shape = product_shape(&a_shape, &b_shape).expect("fits");
    assert_eq!(shape, [2, 3, 5, 7]);
    let mut out = vec![0.0f32; 2 * 3 * 5 * 7];
    let (a_view, b_view) = (ArrayView::new(&a, &a_shape).expect("fits"), ArrayView::new(&b, &b_shape).expect("fits"));
    let out_view = ArrayMut::new(&mut out, &shape).expect("fits");
    matmul(&a_view, &b_view, None, out_view, Rounding::Nearest, Draws::None).expect("valid");
    for (index, &value) in out.iter().enumerate() {
        let (batch, row, column) = (index / 35, index / 7 % 5, index % 7);
        let chain = (0..40)
            .fold(0.0f32, |sum, k| a[(batch * 5 + row) * 40 + k].mul_add(b[(batch % 3 * 40 + k) * 7 + column], sum));
        assert_eq!(value.to_bits(), chain.to_bits());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn test_matmul_any_bits_at_every_level(
        a in prop::collection::vec(any::<u16>(), 6 * 130), b in prop::collection::vec(any::<u16>(), 130 * 5)
    ) {
        let compute = |level| {
            let mut out = [0.0f32; 30];
            with_level(level, || {
                let a = ArrayView::from_codes(Format::Bf16, bytemuck::cast_slice(&a), &[6, 130]).expect("fits");
                let b = ArrayView::from_codes(Format::Bf16, bytemuck::cast_slice(&b), &[130, 5]).expect("fits");
                let out = ArrayMut::new(&mut out, &[6, 5]).expect("fits");
                matmul(&a, &b, None, out, Rounding::Nearest, Draws::None).expect("valid");
            }).expect("available");
            out.map(f32::to_bits)
        };
        let expected = compute(SimdLevel::Scalar);
        for level in levels() {
            prop_assert_eq!(compute(level), expected);
        }
    }

    #[test]
    fn test_matmul_mx_any_bits_at_every_level(seed: u32, k_blocks in 1usize..40, low in 0u8..=255, span in 1u8..=255) {
        let (m, k, n) = (5, 32 * k_blocks, 7);
        for (a_format, b_format) in [
            (Format::F8E4M3Fn, Format::F8E4M3Fn), (Format::F8E5M2, Format::F4E2M1Fn), (Format::F4E2M1Fn, Format::F8E4M3Fn)
        ] {
            let bytes = |count, seed| -> Vec<u8> { noise(count, seed).into_iter().map(|bits| (bits >> 11) as u8).collect() };
            let scale = |bytes: Vec<u8>| -> Vec<u8> { bytes.into_iter().map(|byte| low.saturating_add(byte % span)).collect() };
            let (a, b) = (bytes(m * k, seed), bytes(k * n, seed ^ 77));
            let (a_scales, b_scales) = (scale(bytes(m * k / 32, 5)), scale(bytes(k / 32 * n, 6)));
            let compute = |level| {
                let mut out = [0.0f32; 35];
                with_level(level, || {
                    let a = MxView {
                        elements: ArrayView::from_codes(a_format, &a, &[m, k]).expect("fits"),
                        scales: ArrayView::from_codes(Format::F8E8M0Fnu, &a_scales, &[m, k / 32]).expect("fits"),
                        axis: 1,
                    };
                    let b = MxView {
                        elements: ArrayView::from_codes(b_format, &b, &[k, n]).expect("fits"),
                        scales: ArrayView::from_codes(Format::F8E8M0Fnu, &b_scales, &[k / 32, n]).expect("fits"),
                        axis: 0,
                    };
                    let out = ArrayMut::new(&mut out, &[m, n]).expect("fits");
                    matmul_mx(&a, &b, None, out, Rounding::Nearest, Draws::None).expect("valid");
                }).expect("available");
                out.map(f32::to_bits)
            };
            let expected = compute(SimdLevel::Scalar);
            for level in levels() {
                prop_assert_eq!(compute(level), expected, "{}", level);
            }
        }
    }
}

/// A word of two k must not reach from one chain into the next.
#[test]
fn test_chains_of_any_length_at_every_level() {
    let (m, k, n) = (9, 203, 50);
    let a = Codes::new(&codes(&floats(m * k, 5, 8), Format::Bf16));
    let b = Codes::new(&codes(&floats(k * n, 6, 8), Format::Bf16));
    for chain in [1, 2, 3, 7, 64, 129, 202, 203, 400] {
        let run = |level| {
            let mut out = vec![0.0f32; m * n];
            with_level(level, || {
                matmul_chained(
                    &ArrayView::from_codes(Format::Bf16, a.bytes(), &[m, k])?,
                    &ArrayView::from_codes(Format::Bf16, b.bytes(), &[k, n])?,
                    None,
                    ArrayMut::new(&mut out, &[m, n])?,
                    Rounding::Nearest,
                    Draws::None,
                    chain,
                )
            })
            .expect("available")
            .expect("valid");
            out.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
        };
        let defined = run(SimdLevel::Scalar);
        for level in levels() {
            assert!(run(level) == defined, "chains of {chain} at {level:?}");
        }
    }
}

/// Results that begin off a cache line are worked in other blocks.
#[test]
fn test_results_that_begin_anywhere_at_every_level() {
    let (m, k, n) = (9, 300, 992);
    for format in [Format::Bf16, Format::F32] {
        let a = Codes::new(&codes(&floats(m * k, 7, 8), format));
        let b = Codes::new(&codes(&floats(k * n, 8, 8), format));
        for level in levels().filter(|level| *level != SimdLevel::Scalar) {
            let run = |off: usize| {
                let mut out = vec![0.0f32; m * n + off];
                with_level(level, || {
                    matmul(
                        &ArrayView::from_codes(format, a.bytes(), &[m, k])?,
                        &ArrayView::from_codes(format, b.bytes(), &[k, n])?,
                        None,
                        ArrayMut::new(&mut out[off..], &[m, n])?,
                        Rounding::Nearest,
                        Draws::None,
                    )
                })
                .expect("available")
                .expect("valid");
                out[off..].iter().map(|value| value.to_bits()).collect::<Vec<_>>()
            };
            let first = run(0);
            for off in [1, 4, 7, 12, 15] {
                assert!(run(off) == first, "{format} at {level:?}, {off} further");
            }
        }
    }
}
