//! The activation functions, sixteen at a time.

mod circular;
mod exponential;
mod logarithm;
mod normal;
mod plain;

use super::exp::{exp_f32, or_nan};
use super::lanes::{LANES, Lanes};
use crate::activation::Activation;
use crate::scalar::activation::constants::{EXP, LN2, LN2_LOW, LOG2_E, SHIFT};

const NAN: u32 = 0x7fc0_0000;
const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7f80_0000;

/// One function in place; `parameter` is prelu's slope.
#[inline(always)]
pub(crate) fn activate<L: Lanes>(l: L, function: Activation, parameter: f32, values: &mut [f32]) {
    match function {
        Activation::Copy => each(l, values, plain::copy),
        Activation::Square => each(l, values, plain::square),
        Activation::Sigmoid => each(l, values, exponential::sigmoid),
        Activation::Relu => each(l, values, plain::relu),
        Activation::Prelu => each(l, values, |l, x| plain::prelu(l, x, parameter)),
        Activation::Gelu => each(l, values, normal::gelu),
        Activation::GeluDx => each(l, values, normal::gelu_dx),
        Activation::GeluApprxTanh => each(l, values, exponential::gelu_apprx_tanh),
        Activation::GeluApprxSigmoid => each(l, values, exponential::gelu_apprx_sigmoid),
        Activation::GeluApprxSigmoidDx => each(l, values, exponential::gelu_apprx_sigmoid_dx),
        Activation::Silu => each(l, values, exponential::silu),
        Activation::SiluDx => each(l, values, exponential::silu_dx),
        Activation::Tanh => each(l, values, exponential::tanh),
        Activation::Softplus => each(l, values, logarithm::softplus),
        Activation::Mish => each(l, values, exponential::mish),
        Activation::Erf => each(l, values, normal::erf),
        Activation::ErfDx => each(l, values, normal::erf_dx),
        Activation::Exp => each(l, values, exp_f32),
        Activation::Log => each(l, values, logarithm::log),
        Activation::Sin => each(l, values, circular::sin),
        Activation::Arctan => each(l, values, circular::arctan),
        Activation::Sqrt => each(l, values, plain::sqrt),
        Activation::Rsqrt => each(l, values, plain::rsqrt),
        Activation::Reciprocal => each(l, values, plain::reciprocal),
        Activation::Sign => each(l, values, plain::sign),
        Activation::Abs => each(l, values, plain::abs),
    }
}

#[inline(always)]
fn each<L: Lanes>(l: L, values: &mut [f32], function: impl Fn(L, L::F) -> L::F) {
    let (vectors, tail) = values.as_chunks_mut::<LANES>();
    for vector in vectors {
        l.store_f(function(l, l.load_f(vector)), vector);
    }
    if !tail.is_empty() {
        let mut vector = [0.0; LANES];
        vector[..tail.len()].copy_from_slice(tail);
        l.store_f(function(l, l.load_f(&vector)), &mut vector);
        tail.copy_from_slice(&vector[..tail.len()]);
    }
}

/// `value`, or the canonical NaN where `x` is NaN.
#[inline(always)]
fn unless_nan<L: Lanes>(l: L, x: L::F, value: L::F) -> L::F {
    or_nan(l, l.bits(x), l.bits(value))
}

#[inline(always)]
fn magnitude<L: Lanes>(l: L, x: L::F) -> L::I {
    l.and(l.bits(x), l.splat_i(SIGN - 1))
}

/// The magnitude as float64, at most `limit`, which NaN gives too.
#[inline(always)]
fn magnitude_up_to<L: Lanes>(l: L, x: L::F, limit: f32) -> L::D {
    l.widen(l.float(l.min_u(magnitude(l, x), l.splat_i(limit.to_bits()))))
}

/// x brought between two limits around 0; NaN gives the one of its sign.
#[inline(always)]
fn clamped<L: Lanes>(l: L, x: L::F, low: f32, high: f32) -> L::D {
    let bits = l.bits(x);
    let is_positive = l.lt_u(bits, l.splat_i(SIGN));
    let limit = l.select(is_positive, l.splat_i(high.to_bits()), l.splat_i(low.to_bits()));
    l.widen(l.float(l.min_u(bits, limit)))
}

/// `value`, not negative, with the sign of `x`.
#[inline(always)]
fn with_sign_of<L: Lanes>(l: L, x: L::F, value: L::F) -> L::F {
    l.float(l.or(magnitude(l, value), l.and(l.bits(x), l.splat_i(SIGN))))
}

#[inline(always)]
fn polynomial<L: Lanes>(l: L, coefficients: &[f64], x: L::D) -> L::D {
    let mut p = l.splat_d(coefficients[0]);
    for coefficient in &coefficients[1..] {
        p = l.fma_d(p, x, l.splat_d(*coefficient));
    }
    p
}

/// x + x^3 * p(x^2).
#[inline(always)]
fn odd_polynomial<L: Lanes>(l: L, coefficients: &[f64], x: L::D) -> L::D {
    let square = l.mul_d(x, x);
    l.fma_d(l.mul_d(x, square), polynomial(l, coefficients, square), x)
}

/// q and n with e^y = 2^n * (1 + q), |y| <= 700; n in the low bits of a float64.
#[inline(always)]
fn split<L: Lanes>(l: L, y: L::D) -> (L::D, L::D) {
    let shifted = l.fma_d(y, l.splat_d(LOG2_E), l.splat_d(SHIFT));
    let n = l.sub_d(shifted, l.splat_d(SHIFT));
    let r = l.fma_d(n, l.splat_d(-LN2_LOW), l.fma_d(n, l.splat_d(-LN2), y));
    let p = polynomial(l, &EXP, r);
    (l.fma_d(l.mul_d(r, r), p, r), shifted)
}

#[inline(always)]
fn exp<L: Lanes>(l: L, y: L::D) -> L::D {
    let (q, n) = split(l, y);
    l.scale_d(l.add_d(l.splat_d(1.0), q), n)
}
