//! Functions to some 34 bits by tables of pieces, all in float32, and where that settles what float64 would round to.
//!
//! A result is a sum whose first term is large, and which is off by less than a known bound. Where that much more and
//! that much less round to the same float32, so does the definition's float64; the few other vectors compute that. An
//! ignored test compares every float32 with the definition.

use crate::activation::tables::Pieces;
use crate::simd::Lanes;

/// high + rest + square * curve, the last far below the first.
pub(super) struct Sum<L: Lanes> {
    pub(super) high: L::F,
    pub(super) rest: L::F,
    pub(super) square: L::F,
    pub(super) curve: L::F,
}

/// The index of a's piece where there are eight to each octave of a + 5/8, a up to 9.375: those get longer as functions
/// get flatter.
#[inline(always)]
pub(super) fn octave_eighth<L: Lanes>(l: L, a: L::F) -> L::I {
    l.shr(l.bits(l.add_f(a, l.splat_f(0.625))), 20)
}

/// f(a), index being that of a's piece, and about f'(a).
#[inline(always)]
pub(super) fn piecewise<L: Lanes>(l: L, pieces: &Pieces, index: L::I, a: L::F) -> (Sum<L>, L::F) {
    let [slopes, curves, others @ .., last] = &pieces.coefficients;
    let h = l.sub_f(a, l.lookup_32(&pieces.centres, index));
    let mut p = l.lookup_32(last, index);
    for coefficients in others.iter().rev() {
        p = l.fma(p, h, l.lookup_32(coefficients, index));
    }
    let (slope, value) = (l.lookup_32(slopes, index), l.lookup_32(&pieces.values, index));
    let high = l.fma(slope, h, value);
    // Exact where the sum is between half the value and twice, as it is but for ends of pieces, or the value is 0.
    let missing = l.fma(slope, h, l.sub_f(value, high));
    let square = l.mul_f(h, h);
    let rest = l.fma(l.mul_f(square, h), p, missing);
    (Sum { high, rest, square, curve: l.lookup_32(curves, index) }, slope)
}

#[inline(always)]
pub(super) fn negative<L: Lanes>(l: L, value: L::F) -> L::F {
    l.mul_f(value, l.splat_f(-1.0))
}

/// The sum, rounded, and where that may not be what one is rounded to that is off by `scale` times `bound`; so for NaN.
#[inline(always)]
pub(super) fn rounded<L: Lanes>(l: L, sum: &Sum<L>, scale: L::F, bound: L::F) -> (L::F, L::M) {
    let (more, less) = (l.fma(scale, bound, sum.rest), l.fma(negative(l, scale), bound, sum.rest));
    let above = l.add_f(sum.high, l.fma(sum.square, sum.curve, more));
    let below = l.add_f(sum.high, l.fma(sum.square, sum.curve, less));
    (above, l.differ(above, below))
}
