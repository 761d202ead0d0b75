//! The AVX2 level: two registers for sixteen lanes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{LANES, Lanes};

/// Proof that AVX2, FMA and F16C are there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Whether this CPU and system have what the level uses.
    pub(crate) fn is_available() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
    }

    /// # Safety
    /// [`Self::is_available`] must hold.
    #[inline(always)]
    pub(crate) unsafe fn assume_available() -> Self {
        Self(())
    }
}

type Floats = (__m256, __m256);
type Integers = (__m256i, __m256i);

#[allow(clippy::inline_always)]
impl Lanes for Avx2 {
    type F = Floats;
    type I = Integers;
    /// All bits of a lane set or none.
    type M = Integers;
    type D = [__m256d; 4];

    const FUSED: bool = true;

    #[inline(always)]
    fn load_f(self, from: &[f32; LANES]) -> Floats {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { (_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))) }
    }
    #[inline(always)]
    fn store_f(self, value: Floats, to: &mut [f32; LANES]) {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), value.0);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), value.1);
        }
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> Floats {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_set1_ps(value), _mm256_set1_ps(value)) }
    }
    #[inline(always)]
    fn load_i(self, from: &[u32; LANES]) -> Integers {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { (_mm256_loadu_si256(from.as_ptr().cast()), _mm256_loadu_si256(from.as_ptr().add(8).cast())) }
    }
    #[inline(always)]
    fn store_i(self, value: Integers, to: &mut [u32; LANES]) {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe {
            _mm256_storeu_si256(to.as_mut_ptr().cast(), value.0);
            _mm256_storeu_si256(to.as_mut_ptr().add(8).cast(), value.1);
        }
    }
    #[inline(always)]
    fn splat_i(self, value: u32) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_set1_epi32(value as i32), _mm256_set1_epi32(value as i32)) }
    }
    #[inline(always)]
    fn load_words(self, from: &[u8; 4 * LANES]) -> Integers {
        // SAFETY: the reference covers the bytes read, and the token proves the features.
        unsafe { (_mm256_loadu_si256(from.as_ptr().cast()), _mm256_loadu_si256(from.as_ptr().add(32).cast())) }
    }
    #[inline(always)]
    fn stream_words(self, value: Integers, to: &mut [u8; 4 * LANES]) {
        let to = to.as_mut_ptr().cast::<__m256i>();
        // SAFETY: the reference covers the bytes written, streamed only where aligned, and the token proves the features.
        unsafe {
            if to.is_aligned() {
                _mm256_stream_si256(to, value.0);
                _mm256_stream_si256(to.add(1), value.1);
            } else {
                _mm256_storeu_si256(to, value.0);
                _mm256_storeu_si256(to.add(1), value.1);
            }
        }
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8; LANES]) -> Integers {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe {
            let all = _mm_loadu_si128(from.as_ptr().cast());
            (_mm256_cvtepu8_epi32(all), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(all)))
        }
    }
    #[inline(always)]
    fn store_u8(self, value: Integers, to: &mut [u8; LANES]) {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe {
            let words = pack_to_u16(value, 0xff);
            let bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(to.as_mut_ptr().cast(), bytes);
        }
    }
    #[inline(always)]
    fn load_u16(self, from: &[u16; LANES]) -> Integers {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe {
            let all = _mm256_loadu_si256(from.as_ptr().cast());
            (
                _mm256_cvtepu16_epi32(_mm256_castsi256_si128(all)),
                _mm256_cvtepu16_epi32(_mm256_extracti128_si256::<1>(all)),
            )
        }
    }
    #[inline(always)]
    fn store_u16(self, value: Integers, to: &mut [u16; LANES]) {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe {
            _mm256_storeu_si256(to.as_mut_ptr().cast(), pack_to_u16(value, 0xffff));
        }
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; LANES]) -> Floats {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe {
            let all = _mm256_loadu_si256(from.as_ptr().cast());
            (_mm256_cvtph_ps(_mm256_castsi256_si128(all)), _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(all)))
        }
    }
    #[inline(always)]
    fn bits(self, value: Floats) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_castps_si256(value.0), _mm256_castps_si256(value.1)) }
    }
    #[inline(always)]
    fn float(self, bits: Integers) -> Floats {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_castsi256_ps(bits.0), _mm256_castsi256_ps(bits.1)) }
    }
    #[inline(always)]
    fn add_f(self, a: Floats, b: Floats) -> Floats {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn sub_f(self, a: Floats, b: Floats) -> Floats {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_sub_ps(a.0, b.0), _mm256_sub_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn mul_f(self, a: Floats, b: Floats) -> Floats {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn div_f(self, a: Floats, b: Floats) -> Floats {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_div_ps(a.0, b.0), _mm256_div_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn sqrt_f(self, a: Floats) -> Floats {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_sqrt_ps(a.0), _mm256_sqrt_ps(a.1)) }
    }
    #[inline(always)]
    fn fma(self, a: Floats, b: Floats, c: Floats) -> Floats {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1)) }
    }
    #[inline(always)]
    fn nearest_int(self, value: Floats) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_cvtps_epi32(value.0), _mm256_cvtps_epi32(value.1)) }
    }
    #[inline(always)]
    fn trunc_int(self, value: Floats) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_cvttps_epi32(value.0), _mm256_cvttps_epi32(value.1)) }
    }
    #[inline(always)]
    fn int_to_float(self, value: Integers) -> Floats {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_cvtepi32_ps(value.0), _mm256_cvtepi32_ps(value.1)) }
    }
    #[inline(always)]
    fn add_i(self, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_add_epi32(a.0, b.0), _mm256_add_epi32(a.1, b.1)) }
    }
    #[inline(always)]
    fn sub_i(self, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_sub_epi32(a.0, b.0), _mm256_sub_epi32(a.1, b.1)) }
    }
    #[inline(always)]
    fn and(self, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_and_si256(a.0, b.0), _mm256_and_si256(a.1, b.1)) }
    }
    #[inline(always)]
    fn or(self, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_or_si256(a.0, b.0), _mm256_or_si256(a.1, b.1)) }
    }
    #[inline(always)]
    fn xor(self, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_xor_si256(a.0, b.0), _mm256_xor_si256(a.1, b.1)) }
    }
    #[inline(always)]
    fn shl(self, a: Integers, count: u32) -> Integers {
        // SAFETY: the token proves the features.
        unsafe {
            let count = _mm_cvtsi32_si128(count as i32);
            (_mm256_sll_epi32(a.0, count), _mm256_sll_epi32(a.1, count))
        }
    }
    #[inline(always)]
    fn shr(self, a: Integers, count: u32) -> Integers {
        // SAFETY: the token proves the features.
        unsafe {
            let count = _mm_cvtsi32_si128(count as i32);
            (_mm256_srl_epi32(a.0, count), _mm256_srl_epi32(a.1, count))
        }
    }
    #[inline(always)]
    fn shl_each(self, a: Integers, count: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_sllv_epi32(a.0, count.0), _mm256_sllv_epi32(a.1, count.1)) }
    }
    #[inline(always)]
    fn shr_each(self, a: Integers, count: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_srlv_epi32(a.0, count.0), _mm256_srlv_epi32(a.1, count.1)) }
    }
    #[inline(always)]
    fn min_u(self, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_min_epu32(a.0, b.0), _mm256_min_epu32(a.1, b.1)) }
    }
    #[inline(always)]
    fn max_u(self, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_max_epu32(a.0, b.0), _mm256_max_epu32(a.1, b.1)) }
    }
    #[inline(always)]
    fn max_s(self, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_max_epi32(a.0, b.0), _mm256_max_epi32(a.1, b.1)) }
    }
    #[inline(always)]
    fn lt_u(self, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe {
            let top = _mm256_set1_epi32(i32::MIN);
            (
                _mm256_cmpgt_epi32(_mm256_xor_si256(b.0, top), _mm256_xor_si256(a.0, top)),
                _mm256_cmpgt_epi32(_mm256_xor_si256(b.1, top), _mm256_xor_si256(a.1, top)),
            )
        }
    }
    #[inline(always)]
    fn eq(self, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_cmpeq_epi32(a.0, b.0), _mm256_cmpeq_epi32(a.1, b.1)) }
    }
    #[inline(always)]
    fn select(self, mask: Integers, a: Integers, b: Integers) -> Integers {
        // SAFETY: the token proves the features.
        unsafe { (_mm256_blendv_epi8(b.0, a.0, mask.0), _mm256_blendv_epi8(b.1, a.1, mask.1)) }
    }
    #[inline(always)]
    fn unordered(self, a: Floats, b: Floats) -> Integers {
        // SAFETY: the token proves the features.
        unsafe {
            (
                _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(a.0, b.0)),
                _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(a.1, b.1)),
            )
        }
    }
    #[inline(always)]
    fn either(self, a: Integers, b: Integers) -> Integers {
        self.or(a, b)
    }
    #[inline(always)]
    fn any(self, mask: Integers) -> bool {
        // SAFETY: the token proves the features.
        unsafe { _mm256_movemask_epi8(_mm256_or_si256(mask.0, mask.1)) != 0 }
    }
    #[inline(always)]
    fn widen(self, value: Floats) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe {
            [
                _mm256_cvtps_pd(_mm256_castps256_ps128(value.0)),
                _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(value.0)),
                _mm256_cvtps_pd(_mm256_castps256_ps128(value.1)),
                _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(value.1)),
            ]
        }
    }
    #[inline(always)]
    fn narrow(self, value: Self::D) -> Floats {
        // SAFETY: the token proves the features.
        unsafe {
            (
                _mm256_set_m128(_mm256_cvtpd_ps(value[1]), _mm256_cvtpd_ps(value[0])),
                _mm256_set_m128(_mm256_cvtpd_ps(value[3]), _mm256_cvtpd_ps(value[2])),
            )
        }
    }
    #[inline(always)]
    fn splat_d(self, value: f64) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe { [_mm256_set1_pd(value); 4] }
    }
    #[inline(always)]
    fn add_d(self, a: Self::D, b: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe {
            let mut out = a;
            for part in 0..4 {
                out[part] = _mm256_add_pd(a[part], b[part]);
            }
            out
        }
    }
    #[inline(always)]
    fn sub_d(self, a: Self::D, b: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe {
            let mut out = a;
            for part in 0..4 {
                out[part] = _mm256_sub_pd(a[part], b[part]);
            }
            out
        }
    }
    #[inline(always)]
    fn mul_d(self, a: Self::D, b: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe {
            let mut out = a;
            for part in 0..4 {
                out[part] = _mm256_mul_pd(a[part], b[part]);
            }
            out
        }
    }
    #[inline(always)]
    fn div_d(self, a: Self::D, b: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe {
            let mut out = a;
            for part in 0..4 {
                out[part] = _mm256_div_pd(a[part], b[part]);
            }
            out
        }
    }
    #[inline(always)]
    fn sqrt_d(self, a: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe {
            let mut out = a;
            for part in 0..4 {
                out[part] = _mm256_sqrt_pd(a[part]);
            }
            out
        }
    }
    #[inline(always)]
    fn scale_d(self, a: Self::D, n: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe {
            let mut out = a;
            for part in 0..4 {
                let exponent = _mm256_slli_epi64::<52>(_mm256_castpd_si256(n[part]));
                out[part] = _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a[part]), exponent));
            }
            out
        }
    }
    #[inline(always)]
    fn fma_d(self, a: Self::D, b: Self::D, c: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe {
            let mut out = a;
            for part in 0..4 {
                out[part] = _mm256_fmadd_pd(a[part], b[part], c[part]);
            }
            out
        }
    }
    #[inline(always)]
    fn transpose(self, rows: &mut [Integers; LANES]) {
        let mut quarters = [[rows[0].0; 8]; 4];
        for lane in 0..8 {
            quarters[0][lane] = rows[lane].0;
            quarters[1][lane] = rows[lane].1;
            quarters[2][lane] = rows[lane + 8].0;
            quarters[3][lane] = rows[lane + 8].1;
        }
        // SAFETY: the token proves the features.
        unsafe {
            transpose_8x8(&mut quarters[0]);
            transpose_8x8(&mut quarters[1]);
            transpose_8x8(&mut quarters[2]);
            transpose_8x8(&mut quarters[3]);
        }
        for lane in 0..8 {
            rows[lane] = (quarters[0][lane], quarters[2][lane]);
            rows[lane + 8] = (quarters[1][lane], quarters[3][lane]);
        }
    }
}

/// The masked lanes as sixteen 16-bit integers in order; `low` keeps the saturating pack from changing them.
#[inline(always)]
unsafe fn pack_to_u16(value: Integers, low: i32) -> __m256i {
    // SAFETY: register shuffles; the caller has the features.
    unsafe {
        let low = _mm256_set1_epi32(low);
        let packed = _mm256_packus_epi32(_mm256_and_si256(value.0, low), _mm256_and_si256(value.1, low));
        _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
    }
}

#[inline(always)]
unsafe fn transpose_8x8(rows: &mut [__m256i; 8]) {
    // SAFETY: register shuffles; the caller has the features.
    unsafe {
        let mut pairs = *rows;
        for group in 0..2 {
            let [a, b, c, d] = [rows[4 * group], rows[4 * group + 1], rows[4 * group + 2], rows[4 * group + 3]];
            let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            pairs[4 * group] = _mm256_unpacklo_epi64(ab_low, cd_low);
            pairs[4 * group + 1] = _mm256_unpackhi_epi64(ab_low, cd_low);
            pairs[4 * group + 2] = _mm256_unpacklo_epi64(ab_high, cd_high);
            pairs[4 * group + 3] = _mm256_unpackhi_epi64(ab_high, cd_high);
        }
        for lane in 0..4 {
            rows[lane] = _mm256_permute2x128_si256::<0x20>(pairs[lane], pairs[4 + lane]);
            rows[4 + lane] = _mm256_permute2x128_si256::<0x31>(pairs[lane], pairs[4 + lane]);
        }
    }
}
