//! The exponential, sixteen at a time.

mod numbers;
mod sums;

use numbers::{Brain, Half, Numbers, Single};
pub(crate) use sums::sum_rows;

use super::scalar::{
    HIGHEST, LN2_HIGH, LN2_HIGH_F64, LN2_LOW, LN2_LOW_F64, LOG2_E, LOWEST, POLYNOMIAL, POLYNOMIAL_F64, SHIFT,
};
use crate::format::Format;
use crate::simd::{LANES, Lanes, READ_AHEAD, Traffic, WRITE_AHEAD, prefetch};

const NAN: u32 = 0x7fc0_0000;
const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7f80_0000;
/// 2^100.
const SCALE: f64 = f64::from_bits((1023 + 100) << 52);

/// Differences up to this magnitude have normal results and n within -126 ..= 126.
const NEAR: f32 = 87.0;

/// n as an integer, under the bits of [`SHIFT`], and as a float.
#[inline(always)]
fn split<L: Lanes>(l: L, x: L::F) -> (L::I, L::F) {
    let shifted = l.fma(x, l.splat_f(LOG2_E), l.splat_f(SHIFT));
    (l.bits(shifted), l.sub_f(shifted, l.splat_f(SHIFT)))
}

/// e^(x - n ln 2), of magnitude around 1.
#[inline(always)]
fn reduced<L: Lanes>(l: L, x: L::F, n: L::F) -> L::F {
    let r = l.fma(n, l.splat_f(-LN2_LOW), l.fma(n, l.splat_f(-LN2_HIGH), x));
    let mut p = l.splat_f(POLYNOMIAL[0]);
    for coefficient in &POLYNOMIAL[1..] {
        p = l.fma(p, r, l.splat_f(*coefficient));
    }
    p
}

/// Brought into the range where every step is finite and in which all results that are not 0 or infinite lie.
#[inline(always)]
fn clamped<L: Lanes>(l: L, bits: L::I) -> L::F {
    let is_positive = l.lt_u(bits, l.splat_i(SIGN));
    let limit = l.select(is_positive, l.splat_i(HIGHEST.to_bits()), l.splat_i(LOWEST.to_bits()));
    l.float(l.min_u(bits, limit))
}

/// `value`, or the canonical NaN where `bits` are those of a NaN.
#[inline(always)]
pub(crate) fn or_nan<L: Lanes>(l: L, bits: L::I, value: L::I) -> L::F {
    l.float(l.select(l.is_nan(l.float(bits)), l.splat_i(NAN), value))
}

/// e^x within 1 ulp, for any x.
///
/// 2^n is applied in integers: a multiplication with a subnormal result would cost some hundred cycles.
#[inline(always)]
fn exp_any<L: Lanes>(l: L, x: L::F) -> L::F {
    let bits = l.bits(x);
    let x = clamped(l, bits);
    let (shifted, n) = split(l, x);
    let p = reduced(l, x, n);
    let exponent = l.shl(shifted, 23);
    let normal = l.min_u(l.add_i(l.bits(p), exponent), l.splat_i(INFINITY));
    // A subnormal's code is its multiple of 2^-149; one that rounds up to the smallest normal number gets that one's.
    let steps = l.mul_f(p, l.float(l.add_i(exponent, l.splat_i((127 + 149) << 23))));
    let is_subnormal = l.lt_u(shifted, l.splat_i(SHIFT.to_bits() - 125));
    or_nan(l, bits, l.select(is_subnormal, l.nearest_int(steps), normal))
}

/// e^x within 1 ulp, quicker where no result is far from 1: 2^n then is a plain addition to the exponent field.
#[inline(always)]
pub(crate) fn exp_f32<L: Lanes>(l: L, x: L::F) -> L::F {
    let is_far = l.lt_u(l.splat_i(NEAR.to_bits() << 1), l.shl(l.bits(x), 1));
    if l.any(is_far) {
        return exp_any(l, x);
    }
    let (shifted, n) = split(l, x);
    l.float(l.add_i(l.bits(reduced(l, x, n)), l.shl(shifted, 23)))
}

/// e^x to 2^-50 relative, rounded to odd as float32.
#[inline(always)]
fn exp_odd<L: Lanes>(l: L, x: L::F) -> L::F {
    let bits = l.bits(x);
    let x = clamped(l, bits);
    let (shifted, n) = split(l, x);
    let n = l.widen(n);
    let r = l.fma_d(n, l.splat_d(-LN2_LOW_F64), l.fma_d(n, l.splat_d(-LN2_HIGH_F64), l.widen(x)));
    let mut p = l.splat_d(POLYNOMIAL_F64[0]);
    for coefficient in &POLYNOMIAL_F64[1..] {
        p = l.fma_d(p, r, l.splat_d(*coefficient));
    }
    // Two factors, as 2^n need not be a normal float32.
    let half = l.shr(l.add_i(shifted, l.splat_i(254)), 1);
    let rest = l.sub_i(l.add_i(shifted, l.splat_i(254)), half);
    let value = l.mul_d(l.mul_d(p, l.widen(l.float(l.shl(half, 23)))), l.widen(l.float(l.shl(rest, 23))));
    let nearest = l.narrow(value);
    // Exact; at least 2^-203 where it is not zero, which float32 holds only scaled up.
    let rounded_by = l.mul_d(l.sub_d(value, l.widen(nearest)), l.splat_d(SCALE));
    let rounded_by = l.bits(l.narrow(rounded_by));
    let (zero, one) = (l.splat_i(0), l.splat_i(1));
    let step = l.select(l.lt_u(rounded_by, l.splat_i(SIGN)), one, l.splat_i(u32::MAX));
    let step = l.select(l.eq(l.shl(rounded_by, 1), zero), zero, step);
    let nearest = l.bits(nearest);
    let step = l.select(l.eq(l.and(nearest, one), zero), step, zero);
    or_nan(l, bits, l.add_i(nearest, step))
}

#[inline(always)]
fn exp_vector<L: Lanes, X: Numbers, Y: Numbers>(
    l: L,
    codes: &[X::Code; LANES],
    bias: &[f32; LANES],
    out: &mut [Y::Code; LANES],
    is_streamed: bool,
) {
    let difference = l.sub_f(X::load(l, codes), l.load_f(bias));
    let mut values = exp_f32(l, difference);
    if X::NARROW && Y::NARROW && l.any(Y::is_doubtful(l, values)) {
        values = exp_odd(l, difference);
    }
    if is_streamed { Y::stream(l, values, out) } else { Y::store(l, values, out) }
}

#[inline(always)]
fn exp_slice<L: Lanes, X: Numbers, Y: Numbers>(l: L, src: &[u8], bias: &[f32], dst: &mut [u8], traffic: Traffic) {
    let (vectors, tail) = bytemuck::cast_slice::<u8, X::Code>(src).as_chunks::<LANES>();
    let (biases, tail_bias) = bias.as_chunks::<LANES>();
    let (outputs, tail_out) = bytemuck::cast_slice_mut::<u8, Y::Code>(dst).as_chunks_mut::<LANES>();
    for ((codes, bias), out) in vectors.iter().zip(biases).zip(outputs) {
        if traffic != Traffic::Near {
            prefetch(codes, READ_AHEAD);
        }
        if traffic == Traffic::Asked {
            prefetch(out, WRITE_AHEAD);
        }
        exp_vector::<L, X, Y>(l, codes, bias, out, traffic == Traffic::Streamed);
    }
    if !tail.is_empty() {
        let (mut codes, mut bias) = ([X::Code::default(); LANES], [0.0; LANES]);
        let mut out = [Y::Code::default(); LANES];
        codes[..tail.len()].copy_from_slice(tail);
        bias[..tail.len()].copy_from_slice(tail_bias);
        exp_vector::<L, X, Y>(l, &codes, &bias, &mut out, false);
        tail_out.copy_from_slice(&out[..tail.len()]);
    }
}

#[inline(always)]
fn exp_from<L: Lanes, X: Numbers>(l: L, to: Format, src: &[u8], bias: &[f32], dst: &mut [u8], traffic: Traffic) {
    match to {
        Format::Bf16 => exp_slice::<L, X, Brain>(l, src, bias, dst, traffic),
        Format::F16 => exp_slice::<L, X, Half>(l, src, bias, dst, traffic),
        _ => exp_slice::<L, X, Single>(l, src, bias, dst, traffic),
    }
}

/// e^(x - bias) of codes in `from`, rounded to nearest in `to`; one bias an element.
#[inline(always)]
pub(crate) fn exp<L: Lanes>(
    l: L,
    from: Format,
    to: Format,
    src: &[u8],
    bias: &[f32],
    dst: &mut [u8],
    traffic: Traffic,
) {
    match from {
        Format::Bf16 => exp_from::<L, Brain>(l, to, src, bias, dst, traffic),
        Format::F16 => exp_from::<L, Half>(l, to, src, bias, dst, traffic),
        _ => exp_from::<L, Single>(l, to, src, bias, dst, traffic),
    }
}
