//! Every level computes the bits of the scalar definition: exponentials and row sums.

use proptest::prelude::*;
use trn3_numerics::{ArrayMut, ArrayView, Bias, Format, SimdLevel, exp, with_level};

const FORMATS: [Format; 3] = [Format::F32, Format::Bf16, Format::F16];

/// Codes and row sums of one call; rows are the first axis.
fn exp_at(
    level: SimdLevel,
    from: Format,
    codes: &[u8],
    bias: Bias<'_>,
    to: Format,
    rows: usize,
) -> (Vec<u32>, Vec<u32>) {
    let count = codes.len() / from.item_size();
    let shape = [rows, count / rows];
    // Outputs are aligned as any allocator would give them.
    let mut words = vec![0u32; count];
    let mut sums = vec![0f32; rows];
    let bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut words)[..count * to.item_size()];
    let source = ArrayView::from_codes(from, codes, &shape).expect("codes fill the shape").into();
    with_level(level, || {
        let out = ArrayMut::from_codes(to, bytes, &shape).expect("aligned");
        exp(&source, bias, out, Some(&mut sums)).expect("valid call");
    })
    .expect("available level");
    (words, sums.iter().map(|sum| sum.to_bits()).collect())
}

fn check_all_levels(from: Format, codes: &[u8], bias: Bias<'_>, rows: usize) {
    for to in FORMATS {
        let (expected, expected_sums) = exp_at(SimdLevel::Scalar, from, codes, bias, to, rows);
        for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
            let (got, sums) = exp_at(level, from, codes, bias, to, rows);
            let differs = expected.iter().zip(&got).position(|(expected, got)| expected != got);
            assert!(differs.is_none(), "{level} {from} -> {to} {bias:?}, word {differs:?}");
            assert!(expected_sums == sums, "{level} {from} -> {to} {bias:?}, sums");
        }
    }
}

#[test]
fn test_exp_every_16_bit_code_at_every_level() {
    let codes: Vec<u16> = (0..=u16::MAX).collect();
    for from in [Format::Bf16, Format::F16] {
        for bias in [0.0, -0.0, 0.3, -9.7, 1e-3, 88.1, -1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            check_all_levels(from, bytemuck::cast_slice(&codes), Bias::Scalar(bias), 64);
        }
    }
}

#[test]
fn test_exp_float32_over_the_whole_range_at_every_level() {
    let codes: Vec<u32> = (0..=u32::MAX).step_by(1009).collect();
    let codes = &codes[..codes.len() / 1024 * 1024];
    check_all_levels(Format::F32, bytemuck::cast_slice(codes), Bias::Scalar(0.0), 1024);
}

#[test]
fn test_exp_on_lines_of_any_place_at_every_level() {
    // Long enough to be written in whole lines, and past the caches, from places between two lines.
    for (to, length) in [(Format::F32, (1 << 13) + 5), (Format::F32, (1 << 22) + 21), (Format::Bf16, (1 << 13) + 5)] {
        let x: Vec<f32> = (0..length).map(|index| index as f32 * 1e-5 - 30.0).collect();
        let (item, shape) = (to.item_size(), [length]);
        let exp_from = |level: SimdLevel, first: usize| {
            let mut words = vec![u32::MAX; first + length + 1];
            let bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut words)[first * item..][..length * item];
            let out = ArrayMut::from_codes(to, bytes, &shape).expect("aligned");
            let source = ArrayView::new(&x, &shape).expect("fits").into();
            with_level(level, || exp(&source, Bias::Scalar(0.5), out, None)).expect("available level").expect("valid");
            bytemuck::cast_slice::<u32, u8>(&words).to_vec()
        };
        let expected = exp_from(SimdLevel::Scalar, 0);
        for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
            for first in if length < 1 << 20 { 0..17 } else { 3..5 } {
                let got = exp_from(level, first);
                let (before, others) = got.split_at(first * item);
                let (values, after) = others.split_at(length * item);
                assert!(values == &expected[..length * item], "{level} to {to}, {length} from {first}");
                assert!(before.iter().chain(after).all(|byte| *byte == u8::MAX), "{level} outside");
            }
        }
    }
}

#[test]
fn test_exp_float32_around_every_limit_at_every_level() {
    let limits = [
        0.0f32,
        87.0,
        -87.0,
        88.722_84,
        89.0,
        -87.336_55,
        -103.278_93,
        -103.972_08,
        -104.5,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1.0e-40,
        f32::MIN_POSITIVE,
    ];
    let around = limits.map(|limit| (-600i32..=600).map(move |nudge| limit.to_bits().wrapping_add_signed(nudge)));
    let codes: Vec<u32> = around.into_iter().flatten().collect();
    check_all_levels(Format::F32, bytemuck::cast_slice(&codes), Bias::Scalar(0.0), 1);
}

#[test]
fn test_exp_differences_of_every_size_at_every_level() {
    // One row a bias, so that 16-bit inputs meet differences that are no 16-bit numbers.
    let biases: Vec<f32> = (0..4096u32).map(|row| (row.wrapping_mul(0x9e37_79b9) >> 8) as f32 / 1e5 - 80.0).collect();
    let codes: Vec<u16> = (0..biases.len() as u32 * 64).map(|index| (index.wrapping_mul(40_503) >> 3) as u16).collect();
    for from in [Format::Bf16, Format::F16] {
        check_all_levels(from, bytemuck::cast_slice(&codes), Bias::PerRow(&biases), biases.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn test_exp_any_shape_and_bias_at_every_level(
        rows in 1usize..40, columns in 0usize..70, seed: u32, wide in prop::num::f32::ANY, from in 0usize..3
    ) {
        let biases: Vec<f32> = (0..rows).map(|row| if row % 7 == 3 { wide } else { row as f32 * 0.37 - 5.0 }).collect();
        let values = (0..rows * columns).map(|index| {
            (index as u32).wrapping_mul(0x9e37_79b9).wrapping_add(seed).rotate_left(11) as f32 / 2e8 - 11.0
        });
        let mut codes = Vec::new();
        for value in values {
            match FORMATS[from] {
                Format::F32 => codes.extend_from_slice(&value.to_ne_bytes()),
                Format::Bf16 => codes.extend_from_slice(&half::bf16::from_f32(value).to_ne_bytes()),
                _ => codes.extend_from_slice(&half::f16::from_f32(value).to_ne_bytes()),
            }
        }
        // An allocation of bytes need not be aligned, which inputs need not be either.
        check_all_levels(FORMATS[from], &codes, Bias::PerRow(&biases), rows);
    }
}
