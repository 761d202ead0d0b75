//! Logarithms, by atanh: ln(m) = 2 atanh((m - 1) / (m + 1)).

use super::{INFINITY, SIGN, magnitude, magnitude_up_to, odd_polynomial, unless_nan};
use crate::activation::constants::{ATANH_FAR, ATANH_NEAR, EXP_LIMIT, LN2, SQRT_HALF};
use crate::simd::Lanes;
#[cfg(target_arch = "x86_64")]
use {
    super::pieces::rounded,
    super::quick_function::Quick,
    crate::activation::tables::{LN2_HIGH, LN2_REST, LOG_FITTED, LOG_ROUNDINGS, LOG1P, LOGARITHMS},
    crate::simd::Tables,
};

#[inline(always)]
pub(super) fn softplus<L: Lanes>(l: L, x: L::F) -> L::F {
    let two = l.splat_d(2.0);
    let t = super::exp(l, l.mul_d(magnitude_up_to(l, x, EXP_LIMIT), l.splat_d(-1.0)));
    let log1p = odd_polynomial(l, &ATANH_FAR, l.div_d(t, l.add_d(t, two)));
    let is_positive = l.lt_u(l.bits(x), l.splat_i(SIGN));
    let part = l.float(l.select(is_positive, l.bits(x), l.splat_i(0)));
    unless_nan(l, x, l.narrow(l.fma_d(log1p, two, l.widen(part))))
}

/// Float32 from one power of two to the next.
#[cfg(target_arch = "x86_64")]
const STEPS: f32 = (1 << 23) as f32;

/// ln x by its table; in doubt for all that is not positive and normal.
#[cfg(target_arch = "x86_64")]
pub(super) struct Log;

#[cfg(target_arch = "x86_64")]
impl<L: Tables> Quick<L> for Log {
    /// The index of the piece, how far the mantissa lies from its centre, and the exponent times 2^23.
    type Started = (L::I, L::F, L::I);

    #[inline(always)]
    fn start(l: L, x: L::F) -> Self::Started {
        let bits = l.bits(x);
        let rebased = l.sub_i(bits, l.splat_i(SQRT_HALF));
        let exponent = l.and(rebased, l.splat_i(0xff80_0000));
        let index = l.shr(rebased, 18);
        let m = l.float(l.sub_i(bits, exponent));
        (index, l.sub_f(m, l.lookup_32(&LOGARITHMS.centres, index)), exponent)
    }

    #[inline(always)]
    fn finish(l: L, x: L::F, (index, h, exponent): Self::Started) -> (L::F, L::M) {
        let smallest = f32::MIN_POSITIVE.to_bits();
        let is_other = l.lt_u(l.splat_i(INFINITY - smallest - 1), l.sub_i(l.bits(x), l.splat_i(smallest)));
        let k = l.int_to_float(exponent);
        let at = &LOGARITHMS;
        let reciprocal = l.lookup_32(&at.reciprocals, index);
        let t = l.mul_f(h, reciprocal);
        // The first is exact: both sides are multiples of 2^-17, up to 128.
        let whole = l.fma(k, l.splat_f(LN2_HIGH / STEPS), l.lookup_32(&at.values, index));
        let whole_low = l.fma(k, l.splat_f(LN2_REST / STEPS), l.lookup_32(&at.values_low, index));
        let high = l.fma(h, reciprocal, whole);
        let rest = l.fma(h, reciprocal, l.sub_f(whole, high));
        let square = l.mul_f(t, t);
        let upper = l.fma(l.splat_f(LOG1P[0]), t, l.splat_f(LOG1P[1]));
        let lower = l.fma(l.splat_f(LOG1P[2]), t, l.splat_f(LOG1P[3]));
        let low = l.fma(square, l.fma(upper, square, lower), l.add_f(whole_low, rest));
        let off = l.mul_f(l.float(magnitude(l, whole)), l.splat_f(LOG_FITTED));
        let (value, in_doubt) = rounded(l, high, low, l.fma(square, l.splat_f(LOG_ROUNDINGS), off));
        (value, l.either(in_doubt, is_other))
    }
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
