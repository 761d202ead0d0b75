//! Functions of the normal distribution by pieces of its tail, all in float32.

use super::SIGN;
use super::quick_function::Quick;
use crate::activation::tables::{NORMAL_TAIL, TAIL_END, TAIL_FITTED, TAIL_TABLE_LIMIT, WHOLE_FITTED};
use crate::exp::scalar::SHIFT;
use crate::simd::Tables;

/// The index of a's piece, a up to the end of the table, and how far a lies from its centre.
#[inline(always)]
fn piece_of<L: Tables>(l: L, a: L::F) -> (L::I, L::F) {
    // Rounded to the piece's number: seven to 1 up to 4, then two.
    let near = l.fma(a, l.splat_f(7.0), l.splat_f(SHIFT));
    let far = l.fma(a, l.splat_f(2.0), l.splat_f(SHIFT + (7.0 - 2.0) * 4.0));
    let index = l.bits(l.min_f(near, far));
    (index, l.sub_f(a, l.lookup_32(&NORMAL_TAIL.centres, index)))
}

/// Phi(-a), high + rest, of what [`piece_of`] gives of a.
#[inline(always)]
fn tail<L: Tables>(l: L, (index, h): (L::I, L::F)) -> (L::F, L::F) {
    let at = &NORMAL_TAIL;
    let mut p = l.lookup_32(&at.coefficients[3], index);
    for coefficients in at.coefficients[..3].iter().rev() {
        p = l.fma(p, h, l.lookup_32(coefficients, index));
    }
    let (slope, curve) = (l.lookup_32(&at.slopes, index), l.lookup_32(&at.curves, index));
    let steep = l.fma(curve, h, slope);
    let missing = l.fma(curve, h, l.sub_f(slope, steep));
    let steep_low = l.add_f(l.fma(p, l.mul_f(h, h), l.lookup_32(&at.slopes_low, index)), missing);
    let value = l.lookup_32(&at.values, index);
    let high = l.fma(steep, h, value);
    (high, l.fma(steep_low, h, l.fma(steep, h, l.sub_f(value, high))))
}

/// x * Phi(x); in doubt where x is so far below 0 that the table does not tell its tail.
pub(super) struct Gelu;

impl<L: Tables> Quick<L> for Gelu {
    type Started = (L::I, L::F);

    #[inline(always)]
    fn start(l: L, x: L::F) -> Self::Started {
        // Phi(-a) is nothing beside 1 from there on.
        piece_of(l, l.min_f(l.splat_f(TAIL_END), l.float(super::magnitude(l, x))))
    }

    #[inline(always)]
    fn finish(l: L, x: L::F, started: Self::Started) -> (L::F, L::M) {
        let is_positive = l.lt_u(l.bits(x), l.splat_i(SIGN));
        let (high, rest) = tail(l, started);
        let one = l.splat_f(1.0);
        let whole = l.float(l.select(is_positive, l.bits(one), l.splat_i(0)));
        let factor = l.float(l.select(is_positive, l.bits(l.splat_f(-1.0)), l.bits(one)));
        let share = l.fma(factor, high, whole);
        let share_low = l.fma(factor, rest, l.fma(factor, high, l.sub_f(whole, share)));
        let relative = l.fma(l.mul_f(x, x), l.splat_f(TAIL_FITTED[1]), l.splat_f(TAIL_FITTED[0]));
        let bound = l.fma(whole, l.splat_f(WHOLE_FITTED), l.mul_f(high, relative));
        let above = l.fma(x, share, l.mul_f(x, l.add_f(share_low, bound)));
        let below = l.fma(x, share, l.mul_f(x, l.sub_f(share_low, bound)));
        let is_beyond = l.lt_u(l.splat_i((-TAIL_TABLE_LIMIT).to_bits()), l.bits(x));
        (above, l.either(l.differ(above, below), is_beyond))
    }
}
