//! Rounding sixteen float32 to the codes of a format.

use crate::cast::Encoder;
use crate::simd::{LANES, Lanes, Sums};

pub(crate) const NEAREST: u8 = 0;
pub(crate) const ZERO: u8 = 1;
pub(crate) const STOCHASTIC: u8 = 2;

/// Formats with a narrower exponent field than float32.
pub(crate) const REBIASED: u8 = 0;
/// Formats with float32's exponent field.
pub(crate) const ALIGNED: u8 = 1;
/// The same where magnitudes overflow to infinity.
pub(crate) const OVERFLOWING: u8 = 2;

/// The magnitude code before overflow is looked at, for formats with float32's exponent field and `shift` > 0.
#[inline(always)]
fn round_aligned<L: Lanes, const ROUNDING: u8>(l: L, shift: u32, magnitude: L::I, draws: L::I) -> L::I {
    let increment = match ROUNDING {
        NEAREST => {
            let odd = l.and(l.shr(magnitude, shift), l.splat_i(1));
            l.add_i(odd, l.splat_i((1 << (shift - 1)) - 1))
        }
        ZERO => l.splat_i(0),
        // The dropped bits are the top of d: d + r carries exactly when they do with the top of r.
        _ => l.shr(draws, 32 - shift),
    };
    l.shr(l.add_i(magnitude, increment), shift)
}

/// The magnitude code before overflow is looked at, for formats with a narrower exponent field.
#[inline(always)]
fn round_rebiased<L: Lanes, const ROUNDING: u8>(l: L, e: &Encoder, magnitude: L::I, draws: L::I) -> L::I {
    if ROUNDING == STOCHASTIC {
        return round_stochastic(l, e, magnitude, draws);
    }
    // The exponent is rebased before the shift, where the constant joins the rounding increment.
    let rebased = l.sub_i(magnitude, l.splat_i(e.rebias << e.shift));
    let normal = round_aligned::<L, ROUNDING>(l, e.shift, rebased, draws);
    let steps = l.mul_f(l.float(magnitude), l.splat_f(e.per_step));
    let subnormal = if ROUNDING == NEAREST { l.nearest_int(steps) } else { l.trunc_int(steps) };
    l.select(l.lt_u(magnitude, l.splat_i(e.min_normal)), subnormal, normal)
}

/// lo = significand >> dropped; d is the fraction below it as 32 bits; a carry of d + draw takes hi.
#[inline(always)]
fn round_stochastic<L: Lanes>(l: L, e: &Encoder, magnitude: L::I, draws: L::I) -> L::I {
    let one = l.splat_i(1);
    let field = l.shr(magnitude, 23);
    let is_subnormal = l.eq(field, l.splat_i(0));
    let fraction = l.and(magnitude, l.splat_i(0x7f_ffff));
    let significand = l.select(is_subnormal, fraction, l.or(fraction, l.splat_i(1 << 23)));
    let field = l.max_u(field, one);
    let below = l.max_s(l.sub_i(l.splat_i(e.min_normal >> 23), field), l.splat_i(0));
    let dropped = l.add_i(below, l.splat_i(e.shift));
    let lo = l.shr_each(significand, dropped);
    // One of the two counts is out of range (or both are 0), and a shift out of range gives 0.
    let full = l.splat_i(32);
    let d = l.or(l.shl_each(significand, l.sub_i(full, dropped)), l.shr_each(significand, l.sub_i(dropped, full)));
    let carry = l.lt_u(l.add_i(d, draws), draws);
    let multiple = l.select(carry, l.add_i(lo, one), lo);
    let above = l.max_s(l.sub_i(field, l.splat_i(e.min_normal >> 23)), l.splat_i(0));
    l.add_i(multiple, l.shl(above, 23 - e.shift))
}

/// Sixteen codes, signs included, of a format with float32's exponent field whose infinity is what overflows: a carry out
/// of the largest finite code makes it, and the sign is far enough above to be shifted along.
#[inline(always)]
fn encode_overflowing<L: Lanes, const ROUNDING: u8>(l: L, e: &Encoder, values: L::F, draws: L::I) -> L::I {
    let bits = l.bits(values);
    let increment = match ROUNDING {
        NEAREST => {
            let below_half = (1 << (e.shift - 1)) - 1;
            let is_even = l.eq(l.and(bits, l.splat_i(1 << e.shift)), l.splat_i(0));
            l.select(is_even, l.splat_i(below_half), l.splat_i(below_half + 1))
        }
        ZERO => l.splat_i(0),
        _ => l.shr(draws, 32 - e.shift),
    };
    let code = l.shr(l.add_i(bits, increment), e.shift);
    l.select(l.is_nan(values), l.splat_i(e.nan_code), code)
}

/// Sixteen codes, signs included.
#[inline(always)]
pub(crate) fn encode_vector<L: Lanes, const ROUNDING: u8, const FIELD: u8>(
    l: L,
    e: &Encoder,
    values: L::F,
    draws: L::I,
) -> L::I {
    if FIELD == OVERFLOWING {
        return encode_overflowing::<L, ROUNDING>(l, e, values, draws);
    }
    let bits = l.bits(values);
    let magnitude = l.and(bits, l.splat_i(0x7fff_ffff));
    let infinity = l.splat_i(0x7f80_0000);
    let code = if FIELD == ALIGNED {
        round_aligned::<L, ROUNDING>(l, e.shift, magnitude, draws)
    } else {
        round_rebiased::<L, ROUNDING>(l, e, magnitude, draws)
    };
    let code = if ROUNDING == ZERO {
        let finite = l.min_u(code, l.splat_i(e.max_code));
        l.select(l.eq(magnitude, infinity), l.splat_i(e.limit), finite)
    } else {
        l.min_u(code, l.splat_i(e.limit))
    };
    let sign = l.and(l.shr(bits, e.sign_shift), l.splat_i(1 << (31 - e.sign_shift)));
    let signed = l.or(code, sign);
    // NaN, of the input or by overflow, is canonical: positive, one payload.
    let nan_code = l.splat_i(e.nan_code);
    let is_nan = l.lt_u(infinity, magnitude);
    let canonical = l.select(is_nan, nan_code, signed);
    if e.limit == e.nan_code { l.select(l.eq(code, nan_code), nan_code, canonical) } else { canonical }
}

/// Stores what [`encode_vector`] gives of four vectors of finite values with saturating overflow in formats of at most
/// eight bits, which is all that block elements need.
///
/// Nearest, an addition rounds: `2^shift` times the power of two below a magnitude ends where the magnitude's code does,
/// so that their sum is whole steps of the code. Its exponent field tells the binade and its mantissa the steps in it.
#[inline(always)]
pub(crate) fn store_finite<L: Sums, const ROUNDING: u8>(
    l: L,
    e: &Encoder,
    values: [L::F; 4],
    draws: [L::I; 4],
    to: &mut [u8; 4 * LANES],
) {
    let mut codes = draws;
    if ROUNDING == NEAREST {
        for place in 0..4 {
            codes[place] = l.sum_in_binade(values[place], e.min_normal, e.binades);
        }
        l.store_folded(codes, values, e.shift, e.max_code as u8, 31 - e.sign_shift, to);
        return;
    }
    for place in 0..4 {
        let bits = l.bits(values[place]);
        let magnitude = l.and(bits, l.splat_i(0x7fff_ffff));
        let code = round_rebiased::<L, ROUNDING>(l, e, magnitude, draws[place]);
        let sign = l.and(l.shr(bits, e.sign_shift), l.splat_i(1 << (31 - e.sign_shift)));
        codes[place] = l.or(l.min_u(code, l.splat_i(e.max_code)), sign);
    }
    l.store_u8_quad(codes, to);
}
