//! Functions that are quotients of exponentials.

use super::short::{logistic, settles};
use super::{clamped, exp, magnitude_up_to, split, unless_nan, with_sign_of};
use crate::activation::constants::{
    EXP_LIMIT, GELU_SIGMOID, GELU_SIGMOID_LIMIT, GELU_SIGMOID_QUICK_LIMIT, GELU_TANH, GELU_TANH_CUBIC, GELU_TANH_LIMIT,
    GELU_TANH_QUICK_LIMIT, MISH_LIMIT, QUICK_LIMIT, TANH_LIMIT,
};
use crate::simd::{Doubles, Lanes};
#[cfg(target_arch = "x86_64")]
use {
    super::magnitude,
    super::pieces::{octave_eighth, piece_of, piecewise},
    super::quick_function::Quick,
    crate::activation::tables::TANH,
    crate::simd::Tables,
};

/// 1 + e^y.
#[inline(always)]
fn one_and_exp<L: Lanes>(l: L, y: L::D) -> L::D {
    l.add_d(l.splat_d(1.0), exp(l, y))
}

#[inline(always)]
fn negative<L: Lanes>(l: L, value: L::D) -> L::D {
    l.mul_d(value, l.splat_d(-1.0))
}

/// x, but nothing below a limit.
#[inline(always)]
fn at_least<L: Lanes>(l: L, x: L::F, low: f32) -> L::D {
    clamped(l, x, low, f32::INFINITY)
}

#[inline(always)]
pub(super) fn sigmoid<L: Doubles>(l: L, x: L::F) -> L::F {
    if L::FUSED {
        let value = logistic(l, l.splat_d(1.0), l.widen(x));
        if settles(l, x, QUICK_LIMIT, value) {
            return l.narrow(value);
        }
    }
    let near = clamped(l, x, -EXP_LIMIT, EXP_LIMIT);
    let value = l.div_d(l.splat_d(1.0), one_and_exp(l, negative(l, near)));
    unless_nan(l, x, l.narrow(value))
}

#[inline(always)]
pub(super) fn silu<L: Doubles>(l: L, x: L::F) -> L::F {
    if L::FUSED {
        let wide = l.widen(x);
        let value = logistic(l, wide, wide);
        if settles(l, x, QUICK_LIMIT, value) {
            return l.narrow(value);
        }
    }
    let near = clamped(l, x, -EXP_LIMIT, EXP_LIMIT);
    let value = l.div_d(at_least(l, x, -EXP_LIMIT), one_and_exp(l, negative(l, near)));
    unless_nan(l, x, l.narrow(value))
}

#[inline(always)]
pub(super) fn gelu_apprx_sigmoid<L: Doubles>(l: L, x: L::F) -> L::F {
    if L::FUSED {
        let wide = l.widen(x);
        let value = logistic(l, wide, l.mul_d(wide, l.splat_d(GELU_SIGMOID)));
        if settles(l, x, GELU_SIGMOID_QUICK_LIMIT, value) {
            return l.narrow(value);
        }
    }
    let near = clamped(l, x, -GELU_SIGMOID_LIMIT, GELU_SIGMOID_LIMIT);
    let denominator = one_and_exp(l, l.mul_d(near, l.splat_d(-GELU_SIGMOID)));
    unless_nan(l, x, l.narrow(l.div_d(at_least(l, x, -GELU_SIGMOID_LIMIT), denominator)))
}

#[inline(always)]
pub(super) fn gelu_apprx_tanh<L: Doubles>(l: L, x: L::F) -> L::F {
    if L::FUSED {
        let wide = l.widen(x);
        let factor = l.fma_d(l.mul_d(wide, wide), l.splat_d(-GELU_TANH_CUBIC), l.splat_d(-GELU_TANH));
        let value = logistic(l, wide, l.mul_d(wide, factor));
        if settles(l, x, GELU_TANH_QUICK_LIMIT, value) {
            return l.narrow(value);
        }
    }
    let near = clamped(l, x, -GELU_TANH_LIMIT, GELU_TANH_LIMIT);
    let factor = l.fma_d(l.mul_d(near, near), l.splat_d(GELU_TANH_CUBIC), l.splat_d(GELU_TANH));
    let denominator = one_and_exp(l, l.mul_d(near, factor));
    unless_nan(l, x, l.narrow(l.div_d(at_least(l, x, -GELU_TANH_LIMIT), denominator)))
}

/// The derivative of x * sigmoid(x).
#[inline(always)]
fn derivative<L: Lanes>(l: L, x: L::D) -> L::F {
    let one = l.splat_d(1.0);
    let t = exp(l, negative(l, x));
    let denominator = l.add_d(one, t);
    let numerator = l.fma_d(t, l.add_d(one, x), one);
    l.narrow(l.div_d(numerator, l.mul_d(denominator, denominator)))
}

#[inline(always)]
pub(super) fn silu_dx<L: Lanes>(l: L, x: L::F) -> L::F {
    unless_nan(l, x, derivative(l, clamped(l, x, -EXP_LIMIT, EXP_LIMIT)))
}

#[inline(always)]
pub(super) fn gelu_apprx_sigmoid_dx<L: Lanes>(l: L, x: L::F) -> L::F {
    let near = clamped(l, x, -GELU_SIGMOID_LIMIT, GELU_SIGMOID_LIMIT);
    unless_nan(l, x, derivative(l, l.mul_d(near, l.splat_d(GELU_SIGMOID))))
}

/// tanh by its table.
#[cfg(target_arch = "x86_64")]
pub(super) struct Tanh;

#[cfg(target_arch = "x86_64")]
impl<L: Tables> Quick<L> for Tanh {
    type Started = (L::I, L::F);

    #[inline(always)]
    fn start(l: L, x: L::F) -> Self::Started {
        // From there on tanh is 1 in float32.
        let a = l.min_f(l.splat_f(TANH.limit), l.float(magnitude(l, x)));
        piece_of(l, &TANH, octave_eighth(l, a), a)
    }

    #[inline(always)]
    fn finish(l: L, x: L::F, started: Self::Started) -> (L::F, L::M) {
        let (value, in_doubt) = piecewise(l, &TANH, started);
        (l.smaller_with_sign(x, value), in_doubt)
    }
}

#[inline(always)]
pub(super) fn tanh<L: Lanes>(l: L, x: L::F) -> L::F {
    let (q, n) = split(l, l.mul_d(magnitude_up_to(l, x, TANH_LIMIT), l.splat_d(-2.0)));
    let one = l.splat_d(1.0);
    let power = l.scale_d(one, n);
    let expm1 = l.fma_d(power, q, l.sub_d(power, one));
    let value = l.div_d(expm1, l.sub_d(l.splat_d(-2.0), expm1));
    unless_nan(l, x, with_sign_of(l, x, l.narrow(value)))
}

#[inline(always)]
pub(super) fn mish<L: Lanes>(l: L, x: L::F) -> L::F {
    let two = l.splat_d(2.0);
    let t = exp(l, clamped(l, x, -EXP_LIMIT, MISH_LIMIT));
    let w = l.mul_d(t, l.add_d(t, two));
    let value = l.div_d(l.mul_d(at_least(l, x, -EXP_LIMIT), w), l.add_d(w, two));
    unless_nan(l, x, l.narrow(value))
}
