//! Logarithms, by atanh: ln(m) = 2 atanh((m - 1) / (m + 1)).

use super::{INFINITY, SIGN, magnitude, magnitude_up_to, odd_polynomial, unless_nan};
use crate::activation::constants::{ATANH_FAR, ATANH_NEAR, EXP_LIMIT, LN2, SQRT_HALF};
use crate::simd::Lanes;

#[inline(always)]
pub(super) fn softplus<L: Lanes>(l: L, x: L::F) -> L::F {
    let two = l.splat_d(2.0);
    let t = super::exp(l, l.mul_d(magnitude_up_to(l, x, EXP_LIMIT), l.splat_d(-1.0)));
    let log1p = odd_polynomial(l, &ATANH_FAR, l.div_d(t, l.add_d(t, two)));
    let is_positive = l.lt_u(l.bits(x), l.splat_i(SIGN));
    let part = l.float(l.select(is_positive, l.bits(x), l.splat_i(0)));
    unless_nan(l, x, l.narrow(l.fma_d(log1p, two, l.widen(part))))
}

#[inline(always)]
pub(super) fn log<L: Lanes>(l: L, x: L::F) -> L::F {
    let bits = l.bits(x);
    // A subnormal number's bits are its multiple of 2^-149.
    let is_subnormal = l.lt_u(bits, l.splat_i(f32::MIN_POSITIVE.to_bits()));
    let normal = l.select(is_subnormal, l.bits(l.int_to_float(bits)), bits);
    let rebased = l.add_i(normal, l.splat_i(0x3f80_0000 - SQRT_HALF));
    let bias = l.select(is_subnormal, l.splat_i(127 + 149), l.splat_i(127));
    let k = l.int_to_float(l.sub_i(l.shr(rebased, 23), bias));
    let m = l.widen(l.float(l.add_i(l.and(rebased, l.splat_i(0x7f_ffff)), l.splat_i(SQRT_HALF))));
    let one = l.splat_d(1.0);
    let atanh = odd_polynomial(l, &ATANH_NEAR, l.div_d(l.sub_d(m, one), l.add_d(m, one)));
    let value = l.narrow(l.fma_d(l.widen(k), l.splat_d(LN2), l.mul_d(atanh, l.splat_d(2.0))));

    let infinity = l.splat_i(INFINITY);
    let value = l.select(l.lt_u(bits, infinity), l.bits(value), l.splat_i(super::NAN));
    let value = l.select(l.eq(bits, infinity), infinity, value);
    let is_zero = l.eq(magnitude(l, x), l.splat_i(0));
    l.float(l.select(is_zero, l.splat_i(SIGN | INFINITY), value))
}
