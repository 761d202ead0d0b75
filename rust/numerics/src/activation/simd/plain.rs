//! Functions that are an instruction or two.

use super::{SIGN, magnitude, unless_nan};
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
pub(super) fn sqrt<L: Lanes>(l: L, x: L::F) -> L::F {
    let value = l.sqrt_f(x);
    unless_nan(l, value, value)
}

#[inline(always)]
pub(super) fn rsqrt<L: Lanes>(l: L, x: L::F) -> L::F {
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
