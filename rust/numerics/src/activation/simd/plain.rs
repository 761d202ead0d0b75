//! Functions that are an instruction or two.

use super::{SIGN, magnitude, unless_nan};
use crate::activation::constants::{RSQRT_GUESS, RSQRT_RANGE, RSQRT_STEP};
use crate::simd::Lanes;

#[inline(always)]
pub(super) fn copy<L: Lanes>(l: L, x: L::F) -> L::F {
    unless_nan(l, x, x)
}

#[inline(always)]
pub(super) fn square<L: Lanes>(l: L, x: L::F) -> L::F {
    unless_nan(l, x, l.mul_f(x, x))
}

#[inline(always)]
pub(super) fn relu<L: Lanes>(l: L, x: L::F) -> L::F {
    let is_positive = l.lt_u(l.bits(x), l.splat_i(SIGN));
    unless_nan(l, x, l.float(l.select(is_positive, l.bits(x), l.splat_i(0))))
}

#[inline(always)]
pub(super) fn prelu<L: Lanes>(l: L, x: L::F, slope: f32) -> L::F {
    let is_at_least_0 = l.lt_u(l.bits(x), l.splat_i(SIGN + 1));
    let value = l.float(l.select(is_at_least_0, l.bits(x), l.bits(l.mul_f(l.splat_f(slope), x))));
    unless_nan(l, value, value)
}

#[inline(always)]
fn negative<L: Lanes>(l: L, value: L::F) -> L::F {
    l.mul_f(value, l.splat_f(-1.0))
}

#[inline(always)]
pub(super) fn sqrt<L: Lanes>(l: L, x: L::F) -> L::F {
    let value = l.sqrt_f(x);
    unless_nan(l, value, value)
}

/// 1 / sqrt(x), correctly rounded, for x from 2^-100 to 2^100.
///
/// The first is a guess by halving the exponent, good to 2^-10 after one step of constants fitted to it; a step of third
/// order brings the error to the rounding of float32. What y is off by then is computed of 1 - x y^2 to twice that many
/// bits, of which the last step needs all: no x brings 1 / sqrt(x) so near to the middle between two float32.
#[inline(always)]
fn quick_rsqrt<L: Lanes>(l: L, x: L::F) -> L::F {
    let (one, half) = (l.splat_f(1.0), l.splat_f(0.5));
    let minus_x = negative(l, x);
    let guess = l.float(l.sub_i(l.splat_i(RSQRT_GUESS), l.shr(l.bits(x), 1)));
    let factor = l.fma(l.mul_f(minus_x, l.splat_f(RSQRT_STEP[0])), l.mul_f(guess, guess), l.splat_f(RSQRT_STEP[1]));
    let y = l.mul_f(guess, factor);
    let error = l.fma(minus_x, l.mul_f(y, y), one);
    let y = l.fma(l.mul_f(y, error), l.fma(error, l.splat_f(0.375), half), y);
    let square = l.mul_f(y, y);
    let square_low = l.fma(y, y, negative(l, square));
    let error = l.fma(minus_x, square_low, l.fma(minus_x, square, one));
    l.fma(l.mul_f(y, error), l.fma(error, l.splat_f(0.375), half), y)
}

#[inline(always)]
pub(super) fn rsqrt<L: Lanes>(l: L, x: L::F) -> L::F {
    if L::FUSED {
        let (low, high) = (RSQRT_RANGE[0].to_bits(), RSQRT_RANGE[1].to_bits());
        let is_other = l.lt_u(l.splat_i(high - low), l.sub_i(l.bits(x), l.splat_i(low)));
        if !l.any(is_other) {
            return quick_rsqrt(l, x);
        }
    }
    let value = l.narrow(l.div_d(l.splat_d(1.0), l.sqrt_d(l.widen(x))));
    unless_nan(l, value, value)
}

#[inline(always)]
pub(super) fn reciprocal<L: Lanes>(l: L, x: L::F) -> L::F {
    unless_nan(l, x, l.div_f(l.splat_f(1.0), x))
}

#[inline(always)]
pub(super) fn sign<L: Lanes>(l: L, x: L::F) -> L::F {
    let one = l.or(l.and(l.bits(x), l.splat_i(SIGN)), l.splat_i(1f32.to_bits()));
    let is_zero = l.eq(magnitude(l, x), l.splat_i(0));
    unless_nan(l, x, l.float(l.select(is_zero, l.splat_i(0), one)))
}

#[inline(always)]
pub(super) fn abs<L: Lanes>(l: L, x: L::F) -> L::F {
    unless_nan(l, x, l.float(magnitude(l, x)))
}
