//! The exponential of one float32 difference, by the definition.
//!
//! e^x = 2^n * e^r with n the integer nearest x * log2(e), so that |r| <= ln(2) / 2 (and a rounding error more).

use crate::cast::{self, Overflow, Rounding};
use crate::format::Format;
use crate::simd::Traffic;

/// Above, float32 results overflow (from 88.72284 on): every step up to there stays finite.
pub(crate) const HIGHEST: f32 = 89.0;
/// Below, results are under half the smallest subnormal (from -103.97208 on) and round to zero.
pub(crate) const LOWEST: f32 = -104.5;
/// log2(e).
pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// 1.5 * 2^23: what is added to it is rounded to an integer, which the low bits then hold.
pub(crate) const SHIFT: f32 = 12_582_912.0;
/// ln(2) to 24 bits: with a fused step, x - n * LN2_HIGH is exact for every x between the limits above.
pub(crate) const LN2_HIGH: f32 = std::f32::consts::LN_2;
/// What is missing of ln(2).
pub(crate) const LN2_LOW: f32 = -1.904_654_2e-9;

/// Coefficients of r^6 down to r^0, for e^r to 2^-28.2 relative on |r| <= ln(2) / 2 * (1 + 2^-18).
///
/// Found by Remez exchange in 50-digit arithmetic on the relative error p(r) / e^r - 1 with the last two held at 1; then
/// each of the others, from r^2 up, was rounded to float32 and the rest solved again with it fixed.
pub(crate) const POLYNOMIAL: [f32; 7] =
    [0.001_383_890_2, 0.008_369_192_5, 0.041_668_102, 0.166_665_17, 0.499_999_94, 1.0, 1.0];

/// ln(2) in float64.
pub(crate) const LN2_HIGH_F64: f64 = std::f64::consts::LN_2;
/// What is missing of it.
pub(crate) const LN2_LOW_F64: f64 = 2.319_046_813_846_299_6e-17;

/// Coefficients of r^10 down to r^0, for e^r to 2^-51.5 relative; found like [`POLYNOMIAL`].
pub(crate) const POLYNOMIAL_F64: [f64; 11] = [
    2.747_711_735_218_231e-7,
    2.763_500_489_749_736e-6,
    2.480_193_156_759_654_3e-5,
    1.984_118_522_284_197e-4,
    1.388_888_851_605_551_5e-3,
    8.333_333_370_871_87e-3,
    0.041_666_666_668_137_24,
    0.166_666_666_666_115_51,
    0.499_999_999_999_983_24,
    1.0,
    1.0,
];

/// e^x for the difference x; NaN is canonical. Over all 2^32 float32 the largest error is 0.892 ulp, for x = -5.848642.
pub(crate) fn exp_f32(x: f32) -> f32 {
    if x.is_nan() {
        return f32::from_bits(0x7fc0_0000);
    }
    let x = x.clamp(LOWEST, HIGHEST);
    let shifted = x.mul_add(LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = (-n).mul_add(LN2_LOW, (-n).mul_add(LN2_HIGH, x));
    let mut p = POLYNOMIAL[0];
    for coefficient in &POLYNOMIAL[1..] {
        p = p.mul_add(r, *coefficient);
    }
    // The first product is exact, so that a subnormal result is rounded once after p.
    let [half, rest] = halves(n as i32);
    p * half * rest
}

/// Two powers of two, both normal, whose product is 2^n.
fn halves(n: i32) -> [f32; 2] {
    let half = n.div_euclid(2);
    [half, n - half].map(|exponent| f32::from_bits(((exponent + 127) as u32) << 23))
}

/// e^x for the difference x, to 2^-50 relative, rounded to odd as a float32: the neighbour with an odd code where it is
/// not a float32. Formats of 16 bits are narrow enough that rounding this to nearest rounds e^x itself to nearest.
pub(crate) fn exp_odd(x: f32) -> f32 {
    if x.is_nan() {
        return f32::from_bits(0x7fc0_0000);
    }
    let x = x.clamp(LOWEST, HIGHEST);
    let n = x.mul_add(LOG2_E, SHIFT) - SHIFT;
    let n_f64 = f64::from(n);
    let r = (-n_f64).mul_add(LN2_LOW_F64, (-n_f64).mul_add(LN2_HIGH_F64, f64::from(x)));
    let mut p = POLYNOMIAL_F64[0];
    for coefficient in &POLYNOMIAL_F64[1..] {
        p = p.mul_add(r, *coefficient);
    }
    let [half, rest] = halves(n as i32).map(f64::from);
    let value = p * half * rest;
    let nearest = value as f32;
    let rounded_by = value - f64::from(nearest);
    if rounded_by == 0.0 || nearest.to_bits() & 1 == 1 {
        nearest
    } else if rounded_by > 0.0 {
        f32::from_bits(nearest.to_bits() + 1)
    } else {
        f32::from_bits(nearest.to_bits() - 1)
    }
}

/// The value of one code in an array.
fn value(format: Format, code: &[u8]) -> f32 {
    let mut bytes = [0; 4];
    bytes[..code.len()].copy_from_slice(code);
    format.decode_code(u32::from_le_bytes(bytes))
}

/// See [`super::exp_slice`].
pub(super) fn exp_slice(from: Format, to: Format, src: &[u8], bias: &[f32], dst: &mut [u8], _: Traffic) {
    let are_narrow = from.item_size() == 2 && to.item_size() == 2;
    let codes = src.chunks_exact(from.item_size()).zip(dst.chunks_exact_mut(to.item_size()));
    for ((code, out), bias) in codes.zip(bias) {
        let difference = value(from, code) - bias;
        let result = if are_narrow { exp_odd(difference) } else { exp_f32(difference) };
        let bits = cast::scalar::encode(result, to, Rounding::Nearest, Overflow::Ieee, 0);
        out.copy_from_slice(&bits.to_le_bytes()[..to.item_size()]);
    }
}

/// See [`super::sum_rows`]; any number of rows.
pub(super) fn sum_rows(format: Format, rows: &[&[u8]], sums: &mut [f32]) {
    for (row, sum) in rows.iter().zip(sums) {
        for code in row.chunks_exact(format.item_size()) {
            *sum += value(format, code);
        }
        if sum.is_nan() {
            *sum = f32::from_bits(0x7fc0_0000);
        }
    }
}
