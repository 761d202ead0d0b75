//! Sine and arctangent.

use std::f32::consts;
use std::f64::consts::FRAC_PI_2;

use super::{SIGN, magnitude, odd_polynomial, unless_nan, with_sign_of};
use crate::activation::constants::{ATAN, PI, PI_LOW, SIN};
use crate::simd::Lanes;
#[cfg(target_arch = "x86_64")]
use {
    super::pieces::{octave_eighth, piece_of, piecewise},
    super::quick_function::Quick,
    crate::activation::tables::{ARCTAN, SINE},
    crate::simd::Tables,
};

/// 1 where the mask is set, else 0.
#[inline(always)]
fn one_where<L: Lanes>(l: L, mask: L::M) -> L::D {
    l.widen(l.float(l.select(mask, l.splat_i(1f32.to_bits()), l.splat_i(0))))
}

/// sin by its table; in doubt near pi and beyond.
#[cfg(target_arch = "x86_64")]
pub(super) struct Sin;

#[cfg(target_arch = "x86_64")]
impl<L: Tables> Quick<L> for Sin {
    type Started = (L::I, L::F);

    #[inline(always)]
    fn start(l: L, x: L::F) -> Self::Started {
        let a = l.float(magnitude(l, x));
        let index = l.shr(l.bits(l.fma(a, l.splat_f(10.0 / 32.0), l.splat_f(1.0))), 18);
        piece_of(l, &SINE, index, a)
    }

    #[inline(always)]
    fn finish(l: L, x: L::F, started: Self::Started) -> (L::F, L::M) {
        let (value, in_doubt) = piecewise(l, &SINE, started);
        (l.smaller_with_sign(x, value), l.either(in_doubt, is_beyond(l, x, SINE.limit)))
    }
}

/// arctan by its table; in doubt beyond.
#[cfg(target_arch = "x86_64")]
pub(super) struct Arctan;

#[cfg(target_arch = "x86_64")]
impl<L: Tables> Quick<L> for Arctan {
    type Started = (L::I, L::F);

    #[inline(always)]
    fn start(l: L, x: L::F) -> Self::Started {
        let a = l.float(magnitude(l, x));
        piece_of(l, &ARCTAN, octave_eighth(l, a), a)
    }

    #[inline(always)]
    fn finish(l: L, x: L::F, started: Self::Started) -> (L::F, L::M) {
        let (value, in_doubt) = piecewise(l, &ARCTAN, started);
        (l.smaller_with_sign(x, value), l.either(in_doubt, is_beyond(l, x, ARCTAN.limit)))
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn is_beyond<L: Lanes>(l: L, x: L::F, limit: f32) -> L::M {
    l.lt_u(l.splat_i(limit.to_bits()), magnitude(l, x))
}

#[inline(always)]
pub(super) fn sin<L: Lanes>(l: L, x: L::F) -> L::F {
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
    let magnitude = magnitude(l, x);
    let one = l.splat_i(1f32.to_bits());
    let is_big = l.lt_u(one, magnitude);
    let numerator = l.widen(l.float(l.select(is_big, l.splat_i((-1f32).to_bits()), magnitude)));
    let denominator = l.widen(l.float(l.select(is_big, magnitude, one)));
    let part = odd_polynomial(l, &ATAN, l.div_d(numerator, denominator));
    let value = l.fma_d(one_where(l, is_big), l.splat_d(FRAC_PI_2), part);
    unless_nan(l, x, with_sign_of(l, x, l.narrow(value)))
}
