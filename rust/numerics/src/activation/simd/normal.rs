//! Functions of the normal distribution.

use super::quick::{exp_minus, settles};
use super::tail::{is_beyond, leave_registers, quick_gelu};
use super::{SIGN, clamped, exp, magnitude, magnitude_up_to, polynomial, unless_nan, with_sign_of};
use crate::activation::constants::{
    ERF_LIMIT, ERF_SMALL, FRAC_1_SQRT_2PI, FRAC_2_SQRT_PI, SQRT_2, SQUARE_QUICK_LIMIT, TAIL, TAIL_CENTRE, TAIL_LIMIT,
};
use crate::simd::{Doubles, Lanes};

/// Phi(-a) * e^(a^2 / 2).
#[inline(always)]
fn tail_ratio<L: Lanes>(l: L, a: L::D) -> L::D {
    let one = l.splat_d(1.0);
    let u = l.div_d(one, l.add_d(a, l.splat_d(TAIL_CENTRE)));
    let t = l.fma_d(u, l.splat_d(-2.0 * TAIL_CENTRE), one);
    l.mul_d(polynomial(l, &TAIL, t), u)
}

/// `tail` for negative x, else 1 - `tail`.
#[inline(always)]
fn from_tail<L: Lanes>(l: L, x: L::F, tail: L::D) -> L::D {
    let is_positive = l.lt_u(l.bits(x), l.splat_i(SIGN));
    let whole = l.float(l.select(is_positive, l.splat_i(1f32.to_bits()), l.splat_i(0)));
    let factor = l.float(l.select(is_positive, l.splat_i((-1f32).to_bits()), l.splat_i(1f32.to_bits())));
    l.fma_d(l.widen(factor), tail, l.widen(whole))
}

#[inline(always)]
pub(super) fn gelu<L: Lanes>(l: L, x: L::F) -> L::F {
    if L::TABLES {
        if !is_beyond(l, x) {
            let (value, in_doubt) = quick_gelu(l, x);
            if !l.any(in_doubt) {
                return value;
            }
        }
        leave_registers();
    }
    let a = magnitude_up_to(l, x, TAIL_LIMIT);
    let tail = l.mul_d(exp(l, l.mul_d(l.mul_d(a, a), l.splat_d(-0.5))), tail_ratio(l, a));
    let value = l.mul_d(clamped(l, x, -TAIL_LIMIT, f32::INFINITY), from_tail(l, x, tail));
    unless_nan(l, x, l.narrow(value))
}

#[inline(always)]
pub(super) fn gelu_dx<L: Lanes>(l: L, x: L::F) -> L::F {
    let a = magnitude_up_to(l, x, TAIL_LIMIT);
    let ratio = l.fma_d(a, l.splat_d(-FRAC_1_SQRT_2PI), tail_ratio(l, a));
    let tail = l.mul_d(exp(l, l.mul_d(l.mul_d(a, a), l.splat_d(-0.5))), ratio);
    unless_nan(l, x, l.narrow(from_tail(l, x, tail)))
}

#[inline(always)]
pub(super) fn erf<L: Lanes>(l: L, x: L::F) -> L::F {
    let z = magnitude_up_to(l, x, ERF_LIMIT);
    let square = l.mul_d(z, z);
    let small = l.mul_d(z, l.fma_d(square, l.splat_d(FRAC_2_SQRT_PI / -3.0), l.splat_d(FRAC_2_SQRT_PI)));
    let complement = l.mul_d(exp(l, l.mul_d(square, l.splat_d(-1.0))), tail_ratio(l, l.mul_d(z, l.splat_d(SQRT_2))));
    let large = l.fma_d(complement, l.splat_d(-2.0), l.splat_d(1.0));
    let is_small = l.lt_u(magnitude(l, x), l.splat_i(ERF_SMALL.to_bits()));
    let value = l.float(l.select(is_small, l.bits(l.narrow(small)), l.bits(l.narrow(large))));
    unless_nan(l, x, with_sign_of(l, x, value))
}

#[inline(always)]
pub(super) fn erf_dx<L: Doubles>(l: L, x: L::F) -> L::F {
    if L::FUSED {
        let wide = l.widen(x);
        let value = exp_minus(l, l.mul_d(wide, wide), FRAC_2_SQRT_PI);
        if settles(l, x, SQUARE_QUICK_LIMIT, value) {
            return l.narrow(value);
        }
    }
    let a = magnitude_up_to(l, x, TAIL_LIMIT);
    let value = l.mul_d(exp(l, l.mul_d(l.mul_d(a, a), l.splat_d(-1.0))), l.splat_d(FRAC_2_SQRT_PI));
    unless_nan(l, x, l.narrow(value))
}
