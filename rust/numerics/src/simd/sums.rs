//! Rounding to codes of at most eight bits by an addition, and putting such codes side by side.
#![allow(unsafe_code)]

use super::lanes::{LANES, Lanes};
use super::portable::Portable;

const FIELD: u32 = 0x7f80_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;

/// What rounding by an addition needs: a sum of a value and of something far larger is rounded where that one ends.
pub(crate) trait Sums: Lanes {
    /// Bits of `|value| + factor * 2^e`, rounded once; 2^e is the power of two below the magnitude, or `least` if that is
    /// more. `factor` has few enough bits that the product is exact. The topmost bit of the result is unspecified.
    #[inline(always)]
    fn sum_in_binade(self, value: Self::F, least: u32, factor: f32) -> Self::I {
        let bits = self.bits(value);
        let magnitude = self.float(self.and(bits, self.splat_i(MAGNITUDE)));
        let power = self.float(self.max_u(self.and(bits, self.splat_i(FIELD)), self.splat_i(least)));
        let factor = self.splat_f(factor);
        self.bits(if Self::FUSED {
            self.fma(power, factor, magnitude)
        } else {
            self.add_f(self.mul_f(power, factor), magnitude)
        })
    }

    /// The low byte of `sum + (sum >> shift)`, but at most `limit`, with the sign of the value as bit `sign_bit`: codes of
    /// one vector after the other. `shift` is from 16 to 22, and the mantissa of a sum below 2^15.
    #[inline(always)]
    fn store_folded(
        self,
        sums: [Self::I; 4],
        values: [Self::F; 4],
        shift: u32,
        limit: u8,
        sign_bit: u32,
        to: &mut [u8; 4 * LANES],
    ) {
        let mut codes = sums;
        for place in 0..4 {
            let folded = self.add_i(sums[place], self.shr(sums[place], shift));
            let code = self.min_u(self.and(folded, self.splat_i(0xff)), self.splat_i(limit.into()));
            let sign = self.shr(self.bits(values[place]), 31 - sign_bit);
            codes[place] = self.or(code, self.and(sign, self.splat_i(1 << sign_bit)));
        }
        self.store_u8_quad(codes, to);
    }
}

impl Sums for Portable {}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::*;

    use super::super::{Avx2, Avx512, array_of};
    use super::{FIELD, LANES, MAGNITUDE, Sums};

    /// Factors of the two halves of a sum that give `2^up * (sum + (sum >> shift))`, which `up` of at least `shift - 16`
    /// keeps whole: the exponent field begins in bit 7 of the upper half.
    fn factors(shift: u32, up: u32) -> i32 {
        1 << (up + 16 - shift + 16) | 1 << up
    }

    /// The codes of four vectors of eight.
    ///
    /// # Safety
    /// AVX2 must be there.
    #[inline(always)]
    unsafe fn fold_32(sums: [__m256i; 4], values: [__m256; 4], shift: u32, limit: u8, sign_bit: u32) -> __m256i {
        // SAFETY: register operations; the caller has the features.
        unsafe {
            let up = shift - 16;
            let factors = _mm256_set1_epi32(factors(shift, up));
            let [a, b, c, d] = array_of!(sum in [sums[0], sums[1], sums[2], sums[3]]: _mm256_madd_epi16(sum, factors));
            // What lies above the code is shifted out.
            let out = _mm256_set1_epi16(1 << (8 - up));
            let words = [_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d)];
            let [low, high] =
                array_of!(words in [words[0], words[1]]: _mm256_srli_epi16::<8>(_mm256_mullo_epi16(words, out)));
            let codes = _mm256_min_epu8(_mm256_packus_epi16(low, high), _mm256_set1_epi8(limit as i8));
            // Packing with saturation keeps signs.
            let [a, b, c, d] =
                array_of!(value in [values[0], values[1], values[2], values[3]]: _mm256_castps_si256(value));
            let signs = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            let signs = _mm256_srl_epi16(signs, _mm_cvtsi32_si128(7 - sign_bit as i32));
            let signs = _mm256_and_si256(signs, _mm256_set1_epi8((1u8 << sign_bit) as i8));
            // Packing twice takes turns between the four operands every 32 bits.
            _mm256_permutevar8x32_epi32(_mm256_or_si256(codes, signs), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
        }
    }

    impl Sums for Avx2 {
        #[inline(always)]
        fn store_folded(
            self,
            [a, b, c, d]: [Self::I; 4],
            [e, f, g, h]: [Self::F; 4],
            shift: u32,
            limit: u8,
            sign_bit: u32,
            to: &mut [u8; 4 * LANES],
        ) {
            // SAFETY: the reference covers the bytes written, and the token proves the features.
            unsafe {
                let first = fold_32([a.0, a.1, b.0, b.1], [e.0, e.1, f.0, f.1], shift, limit, sign_bit);
                _mm256_storeu_si256(to.as_mut_ptr().cast(), first);
                let second = fold_32([c.0, c.1, d.0, d.1], [g.0, g.1, h.0, h.1], shift, limit, sign_bit);
                _mm256_storeu_si256(to.as_mut_ptr().add(2 * LANES).cast(), second);
            }
        }
    }

    impl Sums for Avx512 {
        #[inline(always)]
        fn sum_in_binade(self, value: __m512, least: u32, factor: f32) -> __m512i {
            // SAFETY: the token proves the features.
            unsafe {
                // The power keeps the sign, so that the magnitude need not be taken.
                let power =
                    _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(!(MAGNITUDE ^ FIELD) as i32));
                let least = _mm512_castsi512_ps(_mm512_set1_epi32(least as i32));
                // The larger magnitude of both, with the sign of the first.
                let power = _mm512_range_ps::<0b00_11>(_mm512_castsi512_ps(power), least);
                _mm512_castps_si512(_mm512_fmadd_ps(power, _mm512_set1_ps(factor), value))
            }
        }
        #[inline(always)]
        fn store_folded(
            self,
            sums: [__m512i; 4],
            values: [__m512; 4],
            shift: u32,
            limit: u8,
            sign_bit: u32,
            to: &mut [u8; 4 * LANES],
        ) {
            // SAFETY: the reference covers the bytes written, and the token proves the features.
            unsafe {
                // Codes as the upper bytes of lower halves; signs and all else above are left behind.
                let factors = _mm512_set1_epi32(factors(shift, 8));
                let [a, b, c, d] =
                    array_of!(sum in [sums[0], sums[1], sums[2], sums[3]]: _mm512_madd_epi16(sum, factors));
                let halves = _mm512_loadu_si512(LOWER_HALVES.as_ptr().cast());
                let low = _mm512_srli_epi16::<8>(_mm512_permutex2var_epi16(a, halves, b));
                let high = _mm512_srli_epi16::<8>(_mm512_permutex2var_epi16(c, halves, d));
                let codes = _mm512_min_epu8(_mm512_packus_epi16(low, high), _mm512_set1_epi8(limit as i8));
                // Packing with saturation keeps signs.
                let [a, b, c, d] =
                    array_of!(value in [values[0], values[1], values[2], values[3]]: _mm512_castps_si512(value));
                let signs = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
                let signs = _mm512_srlv_epi16(signs, _mm512_set1_epi16(7 - sign_bit as i16));
                let sign = _mm512_set1_epi8((1u8 << sign_bit) as i8);
                // (signs & sign) | codes
                let codes = _mm512_ternarylogic_epi32::<0xea>(signs, sign, codes);
                // Packing twice takes turns between the four operands every 32 bits.
                let in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
                _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_permutexvar_epi32(in_order, codes));
            }
        }
    }

    /// Of two vectors, the lower halves of their words, in turns every 64 bits as packing has them.
    const LOWER_HALVES: [u16; 2 * LANES] = {
        let mut halves = [0; 2 * LANES];
        let mut place = 0;
        while place < 2 * LANES {
            let (quarter, vector, word) = (place / 8, place / 4 % 2, place % 4);
            halves[place] = (2 * (LANES * vector + 4 * quarter + word)) as u16;
            place += 1;
        }
        halves
    };
}
