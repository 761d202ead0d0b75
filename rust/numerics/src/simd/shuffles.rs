//! Sixteen registers of sixteen lanes against each other, for AVX-512.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::LANES;

/// Pairs of rows by 32 and 64 bits, then quarters of 128 bits: four steps of sixteen shuffles.
///
/// # Safety
/// AVX-512 F must be there.
#[inline(always)]
pub(super) unsafe fn transpose_16x16(rows: &mut [__m512i; LANES]) {
    // SAFETY: register shuffles; the caller has the features.
    unsafe {
        let mut pairs = [_mm512_setzero_si512(); LANES];
        for group in 0..4 {
            let [a, b, c, d] = [rows[4 * group], rows[4 * group + 1], rows[4 * group + 2], rows[4 * group + 3]];
            let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            pairs[4 * group] = _mm512_unpacklo_epi64(ab_low, cd_low);
            pairs[4 * group + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
            pairs[4 * group + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
            pairs[4 * group + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
        }
        for lane in 0..4 {
            let [a, b, c, d] = [pairs[lane], pairs[4 + lane], pairs[8 + lane], pairs[12 + lane]];
            let even_low = _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
            let even_high = _mm512_shuffle_i32x4::<0b10_00_10_00>(c, d);
            let odd_low = _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b);
            let odd_high = _mm512_shuffle_i32x4::<0b11_01_11_01>(c, d);
            rows[lane] = _mm512_shuffle_i32x4::<0b10_00_10_00>(even_low, even_high);
            rows[8 + lane] = _mm512_shuffle_i32x4::<0b11_01_11_01>(even_low, even_high);
            rows[4 + lane] = _mm512_shuffle_i32x4::<0b10_00_10_00>(odd_low, odd_high);
            rows[12 + lane] = _mm512_shuffle_i32x4::<0b11_01_11_01>(odd_low, odd_high);
        }
    }
}

/// Halves, quarters, pairs and lanes of two rows become one row of their larger ones: a vector where transposing has two.
///
/// # Safety
/// AVX-512 F must be there.
#[inline(always)]
pub(super) unsafe fn max_across_16x16(rows: [__m512i; LANES]) -> __m512i {
    // SAFETY: register shuffles; the caller has the features.
    unsafe {
        let mut halves = [_mm512_setzero_si512(); 8];
        for half in 0..8 {
            let (a, b) = (rows[2 * half], rows[2 * half + 1]);
            let low = _mm512_shuffle_i32x4::<0b01_00_01_00>(a, b);
            halves[half] = _mm512_max_epu32(low, _mm512_shuffle_i32x4::<0b11_10_11_10>(a, b));
        }
        let mut quarters = [_mm512_setzero_si512(); 4];
        for quarter in 0..4 {
            let (a, b) = (halves[2 * quarter], halves[2 * quarter + 1]);
            let even = _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
            quarters[quarter] = _mm512_max_epu32(even, _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b));
        }
        // Each 128 bits now belong to one row: those of vector q to rows 4 q to 4 q + 3.
        let mut pairs = [_mm512_setzero_ps(); 2];
        for pair in 0..2 {
            let (a, b) = (quarters[2 * pair], quarters[2 * pair + 1]);
            let low = _mm512_unpacklo_epi64(a, b);
            pairs[pair] = _mm512_castsi512_ps(_mm512_max_epu32(low, _mm512_unpackhi_epi64(a, b)));
        }
        let even = _mm512_shuffle_ps::<0b10_00_10_00>(pairs[0], pairs[1]);
        let odd = _mm512_shuffle_ps::<0b11_01_11_01>(pairs[0], pairs[1]);
        let largest = _mm512_max_epu32(_mm512_castps_si512(even), _mm512_castps_si512(odd));
        // Lane 4 i + q is row 4 q + i.
        let in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        _mm512_permutexvar_epi32(in_order, largest)
    }
}
