//! The formats the exponential reads and writes.

use half::{bf16, f16};

use super::NAN;
use crate::simd::{LANES, Lanes};

/// 2^-14.
const SMALLEST_NORMAL_F16: f32 = 6.103_515_6e-5;

/// A format the exponential reads and writes.
pub(super) trait Numbers {
    /// What one element is in memory.
    type Code: bytemuck::Pod + Default;

    /// Whether this is a 16-bit format.
    const NARROW: bool;

    /// The values, NaN with any payload.
    fn load<L: Lanes>(l: L, from: &[Self::Code; LANES]) -> L::F;

    /// One value.
    fn value(code: Self::Code) -> f32;

    /// Rounds to nearest and stores; no value has a sign and NaN is canonical.
    fn store<L: Lanes>(l: L, values: L::F, to: &mut [Self::Code; LANES]);

    /// The same, past the caches where the results are a cache line.
    #[inline(always)]
    fn stream<L: Lanes>(l: L, values: L::F, to: &mut [Self::Code; LANES]) {
        Self::store(l, values, to);
    }

    /// Where rounding e^x to this format cannot be told from a float32 that is within 1 ulp of it.
    fn is_doubtful<L: Lanes>(l: L, values: L::F) -> L::M;
}

pub(super) struct Single;
pub(super) struct Brain;
pub(super) struct Half;

impl Numbers for Single {
    type Code = f32;
    const NARROW: bool = false;

    #[inline(always)]
    fn load<L: Lanes>(l: L, from: &[f32; LANES]) -> L::F {
        l.load_f(from)
    }
    #[inline(always)]
    fn value(code: f32) -> f32 {
        code
    }
    #[inline(always)]
    fn store<L: Lanes>(l: L, values: L::F, to: &mut [f32; LANES]) {
        l.store_f(values, to);
    }
    #[inline(always)]
    fn stream<L: Lanes>(l: L, values: L::F, to: &mut [f32; LANES]) {
        l.stream_words(l.bits(values), bytemuck::cast_mut(to));
    }
    #[inline(always)]
    fn is_doubtful<L: Lanes>(l: L, values: L::F) -> L::M {
        l.lt_u(l.bits(values), l.splat_i(0))
    }
}

/// Whether the low `dropped` bits are within 1 of half their range, where rounding to nearest turns over.
#[inline(always)]
fn is_near_midpoint<L: Lanes>(l: L, bits: L::I, dropped: u32) -> L::M {
    let from_below = l.sub_i(bits, l.splat_i((1 << (dropped - 1)) - 1));
    l.lt_u(l.shl(from_below, 32 - dropped), l.splat_i(3 << (32 - dropped)))
}

/// The code with the low bits dropped, rounded to the nearest, ties to even.
#[inline(always)]
fn rounded<L: Lanes>(l: L, bits: L::I, dropped: u32) -> L::I {
    let odd = l.and(l.shr(bits, dropped), l.splat_i(1));
    l.shr(l.add_i(bits, l.add_i(odd, l.splat_i((1 << (dropped - 1)) - 1))), dropped)
}

impl Numbers for Brain {
    type Code = u16;
    const NARROW: bool = true;

    #[inline(always)]
    fn load<L: Lanes>(l: L, from: &[u16; LANES]) -> L::F {
        l.float(l.shl(l.load_u16(from), 16))
    }
    #[inline(always)]
    fn value(code: u16) -> f32 {
        bf16::from_bits(code).to_f32()
    }
    #[inline(always)]
    fn store<L: Lanes>(l: L, values: L::F, to: &mut [u16; LANES]) {
        l.store_u16(rounded(l, l.bits(values), 16), to);
    }
    #[inline(always)]
    fn is_doubtful<L: Lanes>(l: L, values: L::F) -> L::M {
        is_near_midpoint(l, l.bits(values), 16)
    }
}

impl Numbers for Half {
    type Code = u16;
    const NARROW: bool = true;

    #[inline(always)]
    fn load<L: Lanes>(l: L, from: &[u16; LANES]) -> L::F {
        l.load_f16(from)
    }
    #[inline(always)]
    fn value(code: u16) -> f32 {
        f16::from_bits(code).to_f32()
    }
    #[inline(always)]
    fn store<L: Lanes>(l: L, values: L::F, to: &mut [u16; LANES]) {
        let bits = l.bits(values);
        // Float16's exponent bias is 112 less; its smallest step is 2^-24.
        let normal = l.sub_i(rounded(l, bits, 13), l.splat_i(112 << 10));
        let subnormal = l.nearest_int(l.mul_f(values, l.splat_f(16_777_216.0)));
        let is_subnormal = l.lt_u(bits, l.splat_i(SMALLEST_NORMAL_F16.to_bits()));
        let code = l.min_u(l.select(is_subnormal, subnormal, normal), l.splat_i(0x7c00));
        l.store_u16(l.select(l.eq(bits, l.splat_i(NAN)), l.splat_i(0x7e00), code), to);
    }
    #[inline(always)]
    fn is_doubtful<L: Lanes>(l: L, values: L::F) -> L::M {
        // Below float16's smallest normal number, adding it lines the mantissa up as that number's own; what the
        // addition and `values` are off by is together at most 1 in the last place of the sum.
        let smallest_normal = l.splat_f(SMALLEST_NORMAL_F16);
        let bits = l.bits(values);
        let is_subnormal = l.lt_u(bits, l.bits(smallest_normal));
        is_near_midpoint(l, l.select(is_subnormal, l.bits(l.add_f(values, smallest_normal)), bits), 13)
    }
}
