//! Exponentials and quotients to some 2^-38, in float64, and where that settles what the definition's float64 rounds to.
//!
//! What is off by so little rounds to the same float32 but near the middle between two; the few vectors in which a number
//! is are computed by the definition. An ignored test compares every float32 with it.

use super::{magnitude, polynomial};
use crate::activation::constants::{EXP_MINUS, EXP_MINUS_16, LN2, LOG2_E, SHIFT};
use crate::simd::Doubles;

/// Two factors of e^-y, |y| <= 700, the first a power of two.
#[inline(always)]
fn factors<L: Doubles>(l: L, y: L::D) -> (L::D, L::D) {
    let shifted = l.fma_d(y, l.splat_d(-LOG2_E * L::STEPS), l.splat_d(SHIFT));
    let n = l.sub_d(shifted, l.splat_d(SHIFT));
    let r = l.fma_d(n, l.splat_d(LN2 / L::STEPS), y);
    let p = if L::STEPS == 16.0 { polynomial(l, &EXP_MINUS_16, r) } else { polynomial(l, &EXP_MINUS, r) };
    (l.power(shifted), p)
}

/// e^-y times a factor.
#[inline(always)]
pub(super) fn exp_minus<L: Doubles>(l: L, y: L::D, factor: f64) -> L::D {
    let (power, p) = factors(l, y);
    l.mul_d(l.mul_d(power, l.splat_d(factor)), p)
}

/// numerator / (1 + e^-y). A quotient of float32 and a step of float64 would be as exact and take longer.
#[inline(always)]
pub(super) fn logistic<L: Doubles>(l: L, numerator: L::D, y: L::D) -> L::D {
    let (power, p) = factors(l, y);
    l.div_d(numerator, l.fma_d(power, p, l.splat_d(1.0)))
}

/// Whether every number rounds as the definition's does: a quick one of an argument up to `limit`, which no NaN is.
#[inline(always)]
pub(super) fn settles<L: Doubles>(l: L, x: L::F, limit: f32, value: L::D) -> bool {
    let is_beyond = l.lt_u(l.splat_i(limit.to_bits()), magnitude(l, x));
    !(l.any(is_beyond) | l.any_near_middle(value))
}
