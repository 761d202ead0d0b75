//! The portable level: arrays and plain loops, which compilers vectorise for whatever the target has.
//!
//! It is what machines other than x86-64 with AVX2 run. It is tested for equal bits on x86-64 only: on ARM it is
//! expected to vectorise to NEON and to give the same bits, but has not been run there.

use super::lanes::{LANES, Lanes};

/// Proof that the portable level may be used: it always may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// `a * b + c` rounded once, without a fused instruction: the product of two float32 is exact in float64, the error of
/// the float64 sum (two-sum) turns it into a sum rounded to odd, and 53 bits rounded to odd round to 24 correctly.
#[cfg(not(target_arch = "aarch64"))]
#[inline(always)]
pub(crate) fn fma_portable(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let addend = f64::from(c);
    let sum = product + addend;
    let back = sum - product;
    let error = (product - (sum - back)) + (addend - back);
    let bits = sum.to_bits();
    // Infinities and NaN give a NaN error, which is neither above nor below zero: they stay as they are.
    #[allow(clippy::double_comparisons, reason = "NaN is unequal to zero as well")]
    let inexact = error > 0.0 || error < 0.0;
    let away = (error > 0.0) == (sum > 0.0);
    let even = bits & 1 == 0;
    let odd = if away { bits | 1 } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact && even { odd } else { bits }) as f32
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn fma_portable(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// Float64 has no wider format to fuse in: without the instruction each lane is a call, and sixteen calls in every place
/// of use would be half a megabyte of code.
#[cfg_attr(target_arch = "aarch64", inline(always))]
#[cfg_attr(not(target_arch = "aarch64"), inline(never))]
fn fma_each(a: [f64; LANES], b: [f64; LANES], c: [f64; LANES]) -> [f64; LANES] {
    let mut out = [0.0; LANES];
    for lane in 0..LANES {
        out[lane] = a[lane].mul_add(b[lane], c[lane]);
    }
    out
}

/// The value of a float16 code: shifted into float32's fields, subnormals by an exact subtraction.
#[inline(always)]
fn decode_f16(code: u16) -> f32 {
    let sign = u32::from(code & 0x8000) << 16;
    let magnitude = u32::from(code & 0x7fff) << 13;
    let rebased = if magnitude >= 0x0f80_0000 { magnitude + 0x7000_0000 } else { magnitude + 0x3800_0000 };
    let smallest_normal = f32::from_bits(0x3880_0000);
    let subnormal = (f32::from_bits(magnitude + 0x3880_0000) - smallest_normal).to_bits();
    f32::from_bits(sign | if magnitude < 0x0080_0000 { subnormal } else { rebased })
}

macro_rules! map {
    ($value:ident => $result:expr) => {{
        let mut out = [Default::default(); LANES];
        for lane in 0..LANES {
            let $value = $value[lane];
            out[lane] = $result;
        }
        out
    }};
    ($a:ident, $b:ident => $result:expr) => {{
        let mut out = [Default::default(); LANES];
        for lane in 0..LANES {
            let ($a, $b) = ($a[lane], $b[lane]);
            out[lane] = $result;
        }
        out
    }};
    ($a:ident, $b:ident, $c:ident => $result:expr) => {{
        let mut out = [Default::default(); LANES];
        for lane in 0..LANES {
            let ($a, $b, $c) = ($a[lane], $b[lane], $c[lane]);
            out[lane] = $result;
        }
        out
    }};
}

#[allow(clippy::inline_always)]
impl Lanes for Portable {
    type F = [f32; LANES];
    type I = [u32; LANES];
    type M = [bool; LANES];
    type D = [f64; LANES];

    const FUSED: bool = cfg!(target_arch = "aarch64");

    #[inline(always)]
    fn load_f(self, from: &[f32; LANES]) -> Self::F {
        *from
    }
    #[inline(always)]
    fn store_f(self, value: Self::F, to: &mut [f32; LANES]) {
        *to = value;
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> Self::F {
        [value; LANES]
    }
    #[inline(always)]
    fn load_i(self, from: &[u32; LANES]) -> Self::I {
        *from
    }
    #[inline(always)]
    fn store_i(self, value: Self::I, to: &mut [u32; LANES]) {
        *to = value;
    }
    #[inline(always)]
    fn splat_i(self, value: u32) -> Self::I {
        [value; LANES]
    }
    #[inline(always)]
    fn load_words(self, from: &[u8; 4 * LANES]) -> Self::I {
        let (words, _) = from.as_chunks::<4>();
        map!(words => u32::from_ne_bytes(words))
    }
    #[inline(always)]
    fn stream_words(self, value: Self::I, to: &mut [u8; 4 * LANES]) {
        to.as_chunks_mut::<4>().0.iter_mut().zip(value).for_each(|(to, word)| *to = word.to_ne_bytes());
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8; LANES]) -> Self::I {
        map!(from => u32::from(from))
    }
    #[inline(always)]
    fn store_u8(self, value: Self::I, to: &mut [u8; LANES]) {
        *to = map!(value => value as u8);
    }
    #[inline(always)]
    fn load_u16(self, from: &[u16; LANES]) -> Self::I {
        map!(from => u32::from(from))
    }
    #[inline(always)]
    fn store_u16(self, value: Self::I, to: &mut [u16; LANES]) {
        *to = map!(value => value as u16);
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; LANES]) -> Self::F {
        map!(from => decode_f16(from))
    }
    #[inline(always)]
    fn bits(self, value: Self::F) -> Self::I {
        map!(value => value.to_bits())
    }
    #[inline(always)]
    fn float(self, bits: Self::I) -> Self::F {
        map!(bits => f32::from_bits(bits))
    }
    #[inline(always)]
    fn add_f(self, a: Self::F, b: Self::F) -> Self::F {
        map!(a, b => a + b)
    }
    #[inline(always)]
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F {
        map!(a, b => a - b)
    }
    #[inline(always)]
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F {
        map!(a, b => a * b)
    }
    #[inline(always)]
    fn div_f(self, a: Self::F, b: Self::F) -> Self::F {
        map!(a, b => a / b)
    }
    #[inline(always)]
    fn sqrt_f(self, a: Self::F) -> Self::F {
        map!(a => a.sqrt())
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        map!(a, b, c => fma_portable(a, b, c))
    }
    #[inline(always)]
    fn nearest_int(self, value: Self::F) -> Self::I {
        // Adding and subtracting 1.5 * 2^52 in float64 rounds to an integer, ties to even.
        const SHIFT: f64 = 6_755_399_441_055_744.0;
        map!(value => (f64::from(value) + SHIFT).to_bits() as u32)
    }
    #[inline(always)]
    fn trunc_int(self, value: Self::F) -> Self::I {
        map!(value => value as i32 as u32)
    }
    #[inline(always)]
    fn int_to_float(self, value: Self::I) -> Self::F {
        map!(value => value as i32 as f32)
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        map!(a, b => a.wrapping_add(b))
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        map!(a, b => a.wrapping_sub(b))
    }
    #[inline(always)]
    fn and(self, a: Self::I, b: Self::I) -> Self::I {
        map!(a, b => a & b)
    }
    #[inline(always)]
    fn or(self, a: Self::I, b: Self::I) -> Self::I {
        map!(a, b => a | b)
    }
    #[inline(always)]
    fn xor(self, a: Self::I, b: Self::I) -> Self::I {
        map!(a, b => a ^ b)
    }
    #[inline(always)]
    fn shl(self, a: Self::I, count: u32) -> Self::I {
        map!(a => a << count)
    }
    #[inline(always)]
    fn shr(self, a: Self::I, count: u32) -> Self::I {
        map!(a => a >> count)
    }
    #[inline(always)]
    fn shl_each(self, a: Self::I, count: Self::I) -> Self::I {
        map!(a, count => if count < 32 { a << (count & 31) } else { 0 })
    }
    #[inline(always)]
    fn shr_each(self, a: Self::I, count: Self::I) -> Self::I {
        map!(a, count => if count < 32 { a >> (count & 31) } else { 0 })
    }
    #[inline(always)]
    fn min_u(self, a: Self::I, b: Self::I) -> Self::I {
        map!(a, b => a.min(b))
    }
    #[inline(always)]
    fn max_u(self, a: Self::I, b: Self::I) -> Self::I {
        map!(a, b => a.max(b))
    }
    #[inline(always)]
    fn max_s(self, a: Self::I, b: Self::I) -> Self::I {
        map!(a, b => (a as i32).max(b as i32) as u32)
    }
    #[inline(always)]
    fn lt_u(self, a: Self::I, b: Self::I) -> Self::M {
        map!(a, b => a < b)
    }
    #[inline(always)]
    fn eq(self, a: Self::I, b: Self::I) -> Self::M {
        map!(a, b => a == b)
    }
    #[inline(always)]
    fn select(self, mask: Self::M, a: Self::I, b: Self::I) -> Self::I {
        map!(mask, a, b => if mask { a } else { b })
    }
    #[inline(always)]
    fn unordered(self, a: Self::F, b: Self::F) -> Self::M {
        map!(a, b => a.is_nan() || b.is_nan())
    }
    #[inline(always)]
    fn either(self, a: Self::M, b: Self::M) -> Self::M {
        map!(a, b => a | b)
    }
    #[inline(always)]
    fn any(self, mask: Self::M) -> bool {
        mask.into_iter().fold(false, |any, lane| any | lane)
    }
    #[inline(always)]
    fn widen(self, value: Self::F) -> Self::D {
        map!(value => f64::from(value))
    }
    #[inline(always)]
    fn narrow(self, value: Self::D) -> Self::F {
        map!(value => value as f32)
    }
    #[inline(always)]
    fn splat_d(self, value: f64) -> Self::D {
        [value; LANES]
    }
    #[inline(always)]
    fn add_d(self, a: Self::D, b: Self::D) -> Self::D {
        map!(a, b => a + b)
    }
    #[inline(always)]
    fn sub_d(self, a: Self::D, b: Self::D) -> Self::D {
        map!(a, b => a - b)
    }
    #[inline(always)]
    fn mul_d(self, a: Self::D, b: Self::D) -> Self::D {
        map!(a, b => a * b)
    }
    #[inline(always)]
    fn div_d(self, a: Self::D, b: Self::D) -> Self::D {
        map!(a, b => a / b)
    }
    #[inline(always)]
    fn sqrt_d(self, a: Self::D) -> Self::D {
        map!(a => a.sqrt())
    }
    #[inline(always)]
    fn scale_d(self, a: Self::D, n: Self::D) -> Self::D {
        map!(a, n => f64::from_bits(a.to_bits().wrapping_add(n.to_bits() << 52)))
    }
    #[inline(always)]
    fn fma_d(self, a: Self::D, b: Self::D, c: Self::D) -> Self::D {
        fma_each(a, b, c)
    }
    #[inline(always)]
    fn transpose(self, rows: &mut [Self::I; LANES]) {
        for i in 0..LANES {
            for j in 0..i {
                let upper = rows[j][i];
                rows[j][i] = rows[i][j];
                rows[i][j] = upper;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn test_decode_f16_all_codes() {
        for code in 0..=u16::MAX {
            let (ours, theirs) = (decode_f16(code), half::f16::from_bits(code).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{code:#06x}");
        }
    }

    fn check_fma(a: u32, b: u32, c: u32) {
        let (a, b, c) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
        let (ours, theirs) = (fma_portable(a, b, c), a.mul_add(b, c));
        assert!(
            ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
            "{a:e} * {b:e} + {c:e}: {ours:e}, fused {theirs:e}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200_000))]
        #[test]
        fn test_fma_portable_is_fused(a: u32, b: u32, c: u32) {
            check_fma(a, b, c);
        }

        #[test]
        fn test_fma_portable_is_fused_near_cancellation(a: u32, b: u32, nudge in -70i32..70, shift in -30i32..3) {
            let product = f32::from_bits(a) * f32::from_bits(b) * 2f32.powi(shift);
            check_fma(a, b, (-product).to_bits().wrapping_add_signed(nudge));
        }

        #[test]
        fn test_fma_portable_is_fused_for_subnormal_results(
            a in 0x0000_0001u32..0x3f80_0000, b in 0x0000_0001u32..0x2000_0000, c in 0u32..0x0100_0000, sign: bool
        ) {
            check_fma(a, b, c | u32::from(sign) << 31);
        }
    }
}
