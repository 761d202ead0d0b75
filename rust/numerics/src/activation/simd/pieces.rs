//! Functions to some 34 bits by tables of pieces, all in float32, and where that settles what float64 would round to.
//!
//! A result is a sum of a large term and a small one, which is off by less than a known bound. Where that much more and
//! that much less round to the same float32, so does the definition's float64; the few other lanes compute that. An
//! ignored test compares every float32 with the definition.

use crate::activation::tables::{PACKED, Pieces};
use crate::simd::{Lanes, Tables};

/// The index of a's piece where there are eight to each octave of a + 5/8, a up to 9.375: those get longer as functions
/// get flatter.
#[inline(always)]
pub(super) fn octave_eighth<L: Lanes>(l: L, a: L::F) -> L::I {
    l.shr(l.bits(l.add_f(a, l.splat_f(0.625))), 20)
}

/// The index of a's piece, and how far a lies from its centre.
#[inline(always)]
pub(super) fn piece_of<L: Tables>(l: L, pieces: &Pieces, index: L::I, a: L::F) -> (L::I, L::F) {
    (index, l.sub_f(a, l.lookup_32(&pieces.centres, index)))
}

/// f(a) of a concave f, of what [`piece_of`] gives of a; and where that is in doubt.
#[inline(always)]
pub(super) fn piecewise<L: Tables>(l: L, pieces: &Pieces, (index, h): (L::I, L::F)) -> (L::F, L::M) {
    let [slopes, halves, thirds, fourths] = &pieces.coefficients;
    let square = l.mul_f(h, h);
    let sixth = l.lookup_32(&pieces.last, index);
    let fifth = l.float(l.shl(l.bits(sixth), PACKED));
    let upper = l.fma(sixth, h, fifth);
    let lower = l.fma(l.lookup_32(fourths, index), h, l.lookup_32(thirds, index));
    let curve = l.fma(l.fma(upper, square, lower), h, l.lookup_32(halves, index));
    let (slope, value) = (l.lookup_32(slopes, index), l.lookup_32(&pieces.values, index));
    let high = l.fma(slope, h, value);
    // Exact where the sum is between half the value and twice, as it is but for ends of pieces, or the value is 0.
    let missing = l.fma(slope, h, l.sub_f(value, high));
    let low = l.fma(square, curve, missing);
    // What is low is below 0, or as little as what the large term misses.
    let bound = l.fma(low, l.splat_f(-pieces.roundings), l.mul_f(high, l.splat_f(pieces.fitted)));
    rounded(l, high, low, bound)
}

/// The sum, rounded, and where that may not be what one is rounded to that is off by `bound`; so for NaN.
#[inline(always)]
pub(super) fn rounded<L: Tables>(l: L, high: L::F, low: L::F, bound: L::F) -> (L::F, L::M) {
    let above = l.add_f(high, l.add_f(low, bound));
    let below = l.add_f(high, l.sub_f(low, bound));
    (above, l.differ(above, below))
}
