//! The AVX-512 level: one register for sixteen lanes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::transmute;
use std::sync::OnceLock;
use std::time::Instant;

use super::lanes::{LANES, Lanes, Tables};
use super::shuffles::{max_across_16x16, transpose_16x16};

/// Proof that AVX-512 F, BW, DQ and VL are there (with them come AVX2, FMA and F16C).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// Whether this CPU and system have what the level uses.
    pub(crate) fn is_available() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && super::avx2::Avx2::is_available()
    }

    /// # Safety
    /// [`Self::is_available`] must hold.
    #[inline(always)]
    pub(crate) unsafe fn assume_available() -> Self {
        Self(())
    }
}

/// Proof that the BF16 dot product is there besides, and orders its two steps as the chains need them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Bf16(Avx512);

impl Avx512Bf16 {
    /// Whether this CPU has the instruction and it passed the self-test.
    pub(crate) fn is_available() -> bool {
        static TESTED: OnceLock<bool> = OnceLock::new();
        *TESTED.get_or_init(|| {
            // SAFETY: the features are detected first.
            Avx512::is_available() && is_x86_feature_detected!("avx512bf16") && unsafe { self_test() }
        })
    }

    /// Whether the instruction is worth having: some CPUs issue it at a third of the rate of a fused multiply-add, of
    /// which it replaces two. Both give the same bits, so a wrong guess costs time only.
    pub(crate) fn is_faster() -> bool {
        static TIMED: OnceLock<bool> = OnceLock::new();
        *TIMED.get_or_init(|| {
            // SAFETY: the features are detected first.
            Self::is_available() && unsafe { dot_time() < 1.8 * fused_time() }
        })
    }

    /// # Safety
    /// [`Self::is_available`] must hold.
    #[inline(always)]
    pub(crate) unsafe fn assume_available() -> Self {
        Self(Avx512(()))
    }

    /// The lanes that go with it.
    #[inline(always)]
    pub(crate) fn lanes(self) -> Avx512 {
        self.0
    }

    /// For each half of a word of `places`, the half of `values` that it numbers, of 32.
    #[inline(always)]
    pub(crate) fn select_halves(self, values: __m512i, places: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_permutexvar_epi16(places, values) }
    }

    /// `sum + high * high`, rounded, then `+ low * low`, rounded; subnormals flushed.
    #[inline(always)]
    pub(crate) fn dot(self, sum: __m512, left: __m512, right: __m512) -> __m512 {
        // SAFETY: the token proves the features; the two vector types have the same bits.
        unsafe {
            let (left, right) = (transmute::<__m512, __m512bh>(left), transmute::<__m512, __m512bh>(right));
            _mm512_dpbf16_ps(sum, left, right)
        }
    }
}

/// Whether the dot product is high half first, fused and rounded after each half: 1 + 2^-24 + 2^-24 gives 1 so, since
/// each half step is a tie to even, while any joint rounding gives more; and 2^24 - 2^24 + 1 tells the order.
#[target_feature(enable = "avx512f,avx512bf16")]
fn self_test() -> bool {
    let word = |high: f32, low: f32| (high.to_bits() & 0xffff_0000 | low.to_bits() >> 16) as i32;
    let tiny = 2f32.powi(-12);
    let big = 2f32.powi(24);
    let cases = [
        (1.0f32, word(tiny, tiny), word(tiny, tiny), 1.0f32),
        (big, word(1.0, -big), word(1.0, 1.0), 0.0),
        (big, word(-big, 1.0), word(1.0, 1.0), 1.0),
        // The product has 16 bits and must not be rounded before it is added.
        (-1.0, word(1.0078125, 0.0), word(1.0078125, 0.0), 2f32.powi(-6) + 2f32.powi(-14)),
    ];
    cases.into_iter().all(|(sum, left, right, expected)| {
        let (left, right) = (_mm512_set1_epi32(left), _mm512_set1_epi32(right));
        // SAFETY: the two vector types have the same bits.
        let (left, right) = unsafe { (transmute::<__m512i, __m512bh>(left), transmute::<__m512i, __m512bh>(right)) };
        let got = _mm512_dpbf16_ps(_mm512_set1_ps(sum), left, right);
        _mm512_cmpeq_ps_mask(got, _mm512_set1_ps(expected)) == 0xffff
    })
}

/// Seconds that a fixed number of steps of 24 independent sums takes, the best of a few runs of some microseconds, so that
/// what else the machine does rarely shows.
macro_rules! time_of_steps {
    ($name:ident, $features:literal, |$sum:ident, $value:ident| $step:expr) => {
        #[target_feature(enable = $features)]
        fn $name() -> f64 {
            let $value = std::hint::black_box(_mm512_set1_ps(0.0));
            let mut best = f64::INFINITY;
            for _ in 0..8 {
                let mut sums = [$value; 24];
                let start = Instant::now();
                for _ in 0..500 {
                    for $sum in &mut sums {
                        *$sum = $step;
                    }
                }
                std::hint::black_box(sums);
                best = best.min(start.elapsed().as_secs_f64());
            }
            best
        }
    };
}

time_of_steps!(dot_time, "avx512f,avx512bf16", |sum, value| {
    // SAFETY: the two vector types have the same bits.
    let pairs = unsafe { transmute::<__m512, __m512bh>(value) };
    _mm512_dpbf16_ps(*sum, pairs, pairs)
});
time_of_steps!(fused_time, "avx512f", |sum, value| _mm512_fmadd_ps(value, value, *sum));

#[allow(clippy::inline_always)]
impl Lanes for Avx512 {
    type F = __m512;
    type I = __m512i;
    type M = __mmask16;
    type D = (__m512d, __m512d);

    const FUSED: bool = true;

    #[inline(always)]
    fn load_f(self, from: &[f32; LANES]) -> __m512 {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn store_f(self, value: __m512, to: &mut [f32; LANES]) {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), value) }
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    fn load_i(self, from: &[u32; LANES]) -> __m512i {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store_i(self, value: __m512i, to: &mut [u32; LANES]) {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) }
    }
    #[inline(always)]
    fn splat_i(self, value: u32) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_set1_epi32(value as i32) }
    }
    #[inline(always)]
    fn load_words(self, from: &[u8; 4 * LANES]) -> __m512i {
        // SAFETY: the reference covers the bytes read, and the token proves the features.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn stream_words(self, value: __m512i, to: &mut [u8; 4 * LANES]) {
        let to = to.as_mut_ptr().cast::<__m512i>();
        // SAFETY: the reference covers the bytes written, streamed only where aligned, and the token proves the features.
        unsafe { if to.is_aligned() { _mm512_stream_si512(to, value) } else { _mm512_storeu_si512(to, value) } }
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8; LANES]) -> __m512i {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn store_u8(self, value: __m512i, to: &mut [u8; LANES]) {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(value)) }
    }
    #[inline(always)]
    fn load_u16(self, from: &[u16; LANES]) -> __m512i {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn store_u16(self, value: __m512i, to: &mut [u16; LANES]) {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(value)) }
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; LANES]) -> __m512 {
        // SAFETY: the reference covers the bytes read or written, and the token proves the features.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn bits(self, value: __m512) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_castps_si512(value) }
    }
    #[inline(always)]
    fn float(self, bits: __m512i) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_castsi512_ps(bits) }
    }
    #[inline(always)]
    fn add_f(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub_f(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul_f(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div_f(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn sqrt_f(self, a: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sqrt_ps(a) }
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn nearest_int(self, value: __m512) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_cvtps_epi32(value) }
    }
    #[inline(always)]
    fn trunc_int(self, value: __m512) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_cvttps_epi32(value) }
    }
    #[inline(always)]
    fn int_to_float(self, value: __m512i) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_cvtepi32_ps(value) }
    }
    #[inline(always)]
    fn add_i(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn sub_i(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    fn xor_three(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_ternarylogic_epi32::<0b1001_0110>(a, b, c) }
    }
    // Counts from a vector, of which a shift is one instruction: from the low half of a register it would be two.
    #[inline(always)]
    fn shl(self, a: __m512i, count: u32) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sllv_epi32(a, _mm512_set1_epi32(count as i32)) }
    }
    #[inline(always)]
    fn shr(self, a: __m512i, count: u32) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_srlv_epi32(a, _mm512_set1_epi32(count as i32)) }
    }
    #[inline(always)]
    fn shl_each(self, a: __m512i, count: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sllv_epi32(a, count) }
    }
    #[inline(always)]
    fn shr_each(self, a: __m512i, count: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_srlv_epi32(a, count) }
    }
    #[inline(always)]
    fn min_u(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_min_epu32(a, b) }
    }
    #[inline(always)]
    fn max_u(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_max_epu32(a, b) }
    }
    #[inline(always)]
    fn max_s(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_max_epi32(a, b) }
    }
    #[inline(always)]
    fn lt_u(self, a: __m512i, b: __m512i) -> __mmask16 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_cmplt_epu32_mask(a, b) }
    }
    #[inline(always)]
    fn eq(self, a: __m512i, b: __m512i) -> __mmask16 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_cmpeq_epi32_mask(a, b) }
    }
    #[inline(always)]
    fn select(self, mask: __mmask16, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_mask_blend_epi32(mask, b, a) }
    }
    #[inline(always)]
    fn either(self, a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }
    #[inline(always)]
    fn any(self, mask: __mmask16) -> bool {
        mask != 0
    }
    #[inline(always)]
    fn widen(self, value: __m512) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe { (_mm512_cvtps_pd(_mm512_castps512_ps256(value)), _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(value))) }
    }
    #[inline(always)]
    fn narrow(self, value: Self::D) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_insertf32x8::<1>(_mm512_castps256_ps512(_mm512_cvtpd_ps(value.0)), _mm512_cvtpd_ps(value.1)) }
    }
    #[inline(always)]
    fn splat_d(self, value: f64) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe { (_mm512_set1_pd(value), _mm512_set1_pd(value)) }
    }
    #[inline(always)]
    fn add_d(self, a: Self::D, b: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe { (_mm512_add_pd(a.0, b.0), _mm512_add_pd(a.1, b.1)) }
    }
    #[inline(always)]
    fn sub_d(self, a: Self::D, b: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe { (_mm512_sub_pd(a.0, b.0), _mm512_sub_pd(a.1, b.1)) }
    }
    #[inline(always)]
    fn mul_d(self, a: Self::D, b: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe { (_mm512_mul_pd(a.0, b.0), _mm512_mul_pd(a.1, b.1)) }
    }
    #[inline(always)]
    fn div_d(self, a: Self::D, b: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe { (_mm512_div_pd(a.0, b.0), _mm512_div_pd(a.1, b.1)) }
    }
    #[inline(always)]
    fn sqrt_d(self, a: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe { (_mm512_sqrt_pd(a.0), _mm512_sqrt_pd(a.1)) }
    }
    #[inline(always)]
    fn scale_d(self, a: Self::D, n: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe {
            let (low, high) = (_mm512_castpd_si512(n.0), _mm512_castpd_si512(n.1));
            let low = _mm512_add_epi64(_mm512_castpd_si512(a.0), _mm512_slli_epi64::<52>(low));
            let high = _mm512_add_epi64(_mm512_castpd_si512(a.1), _mm512_slli_epi64::<52>(high));
            (_mm512_castsi512_pd(low), _mm512_castsi512_pd(high))
        }
    }
    #[inline(always)]
    fn fma_d(self, a: Self::D, b: Self::D, c: Self::D) -> Self::D {
        // SAFETY: the token proves the features.
        unsafe { (_mm512_fmadd_pd(a.0, b.0, c.0), _mm512_fmadd_pd(a.1, b.1, c.1)) }
    }
    #[inline(always)]
    fn transpose(self, rows: &mut [__m512i; LANES]) {
        // SAFETY: the token proves the features.
        unsafe { transpose_16x16(rows) }
    }
    #[inline(always)]
    fn max_across(self, rows: [__m512i; LANES]) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { max_across_16x16(rows) }
    }
    #[inline(always)]
    fn store_u16_pair(self, [a, b]: [__m512i; 2], to: &mut [u16; 2 * LANES]) {
        // SAFETY: the reference covers the bytes written, and the token proves the features.
        unsafe {
            // Packing takes turns between its operands every 64 bits.
            let in_order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
            let words = _mm512_permutexvar_epi64(in_order, _mm512_packus_epi32(a, b));
            _mm512_storeu_si512(to.as_mut_ptr().cast(), words);
        }
    }
    #[inline(always)]
    fn store_u8_quad(self, [a, b, c, d]: [__m512i; 4], to: &mut [u8; 4 * LANES]) {
        // SAFETY: the reference covers the bytes written, and the token proves the features.
        unsafe {
            // Packing twice takes turns between the four operands every 32 bits.
            let in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let bytes = _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
            _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_permutexvar_epi32(in_order, bytes));
        }
    }
    #[inline(always)]
    fn unordered(self, a: __m512, b: __m512) -> __mmask16 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b) }
    }
    #[inline(always)]
    fn swap_halves(self, a: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_rol_epi32::<16>(a) }
    }
}

#[allow(clippy::inline_always)]
impl Tables for Avx512 {
    #[inline(always)]
    fn lookup_32(self, table: &[u32; 32], index: __m512i) -> __m512 {
        // SAFETY: the reference covers the bytes read, and the token proves the features.
        unsafe {
            let low = _mm512_loadu_ps(table.as_ptr().cast());
            let high = _mm512_loadu_ps(table.as_ptr().add(LANES).cast());
            _mm512_permutex2var_ps(low, index, high)
        }
    }
    #[inline(always)]
    fn smaller_with_sign(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_range_ps::<0b0010>(a, b) }
    }
    #[inline(always)]
    fn min_f(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn differ(self, a: __m512, b: __m512) -> __mmask16 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(a, b) }
    }
    // To a register first: some CPUs take a hundred cycles to write the lanes that are set and no others.
    #[inline(always)]
    fn pack(self, mask: __mmask16, values: __m512i, to: &mut [u32; LANES]) -> usize {
        // SAFETY: the reference covers the bytes written, and the token proves the features.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_maskz_compress_epi32(mask, values)) };
        mask.count_ones() as usize
    }
}
