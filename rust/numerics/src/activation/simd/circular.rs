//! Sine and arctangent.

use std::f32::consts;
use std::f64::consts::FRAC_PI_2;

use super::pieces::{octave_eighth, piecewise, rounded};
use super::{SIGN, magnitude, odd_polynomial, unless_nan, with_sign_of};
use crate::activation::constants::{
    ARCTAN_FITTED, ARCTAN_LIMIT, ATAN, PI, PI_LOW, ROUNDINGS, SIN, SINE_FITTED, SINE_LIMIT,
};
use crate::activation::tables::{ARCTAN, SINE};
use crate::simd::Lanes;

/// 1 where the mask is set, else 0.
#[inline(always)]
fn one_where<L: Lanes>(l: L, mask: L::M) -> L::D {
    l.widen(l.float(l.select(mask, l.splat_i(1f32.to_bits()), l.splat_i(0))))
}

/// sin and where that is in doubt.
#[inline(always)]
fn quick_sin<L: Lanes>(l: L, x: L::F) -> (L::F, L::M) {
    let a = l.float(magnitude(l, x));
    let index = l.shr(l.bits(l.fma(a, l.splat_f(10.0 / 32.0), l.splat_f(1.0))), 18);
    let (sum, _) = piecewise(l, &SINE, index, a);
    let bound = l.fma(sum.square, l.splat_f(0.5 * ROUNDINGS), l.splat_f(SINE_FITTED));
    let (value, in_doubt) = rounded(l, &sum, sum.high, bound);
    let is_beyond = l.lt_u(l.splat_i(SINE_LIMIT.to_bits()), l.bits(a));
    (with_sign_of(l, x, value), l.either(in_doubt, is_beyond))
}

/// arctan and where that is in doubt.
#[inline(always)]
fn quick_arctan<L: Lanes>(l: L, x: L::F) -> (L::F, L::M) {
    let a = l.float(magnitude(l, x));
    let (sum, slope) = piecewise(l, &ARCTAN, octave_eighth(l, a), a);
    let bound = l.fma(l.mul_f(slope, sum.square), l.splat_f(ROUNDINGS), l.splat_f(ARCTAN_FITTED));
    let (value, in_doubt) = rounded(l, &sum, sum.high, bound);
    let is_beyond = l.lt_u(l.splat_i(ARCTAN_LIMIT.to_bits()), l.bits(a));
    (with_sign_of(l, x, value), l.either(in_doubt, is_beyond))
}

#[inline(always)]
pub(super) fn sin<L: Lanes>(l: L, x: L::F) -> L::F {
    if L::TABLES {
        let (value, in_doubt) = quick_sin(l, x);
        if !l.any(in_doubt) {
            return value;
        }
    }
    let magnitude = magnitude(l, x);
    let a = l.widen(l.float(magnitude));
    let is_past_peak = l.lt_u(l.splat_i(consts::FRAC_PI_2.to_bits()), magnitude);
    let n = one_where(l, is_past_peak);
    let r = l.fma_d(n, l.splat_d(-PI_LOW), l.fma_d(n, l.splat_d(-PI), a));
    let flip = l.select(is_past_peak, l.splat_i(SIGN), l.splat_i(0));
    let inside = l.xor(l.bits(l.narrow(odd_polynomial(l, &SIN, r))), flip);

    let d = l.sub_d(l.sub_d(a, l.splat_d(PI)), l.splat_d(PI_LOW));
    let beyond = l.mul_d(d, l.fma_d(l.mul_d(d, d), l.splat_d(1.0 / 6.0), l.splat_d(-1.0)));
    let is_inside = l.lt_u(magnitude, l.splat_i(consts::PI.to_bits()));
    let value = l.select(is_inside, inside, l.bits(l.narrow(beyond)));
    unless_nan(l, x, l.float(l.xor(value, l.and(l.bits(x), l.splat_i(SIGN)))))
}

#[inline(always)]
pub(super) fn arctan<L: Lanes>(l: L, x: L::F) -> L::F {
    if L::TABLES {
        let (value, in_doubt) = quick_arctan(l, x);
        if !l.any(in_doubt) {
            return value;
        }
    }
    let magnitude = magnitude(l, x);
    let one = l.splat_i(1f32.to_bits());
    let is_big = l.lt_u(one, magnitude);
    let numerator = l.widen(l.float(l.select(is_big, l.splat_i((-1f32).to_bits()), magnitude)));
    let denominator = l.widen(l.float(l.select(is_big, magnitude, one)));
    let part = odd_polynomial(l, &ATAN, l.div_d(numerator, denominator));
    let value = l.fma_d(one_where(l, is_big), l.splat_d(FRAC_PI_2), part);
    unless_nan(l, x, with_sign_of(l, x, l.narrow(value)))
}
