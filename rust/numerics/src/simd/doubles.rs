//! What quick functions of float64 need besides: powers of two in small steps, and where rounding to float32 settles.
#![allow(unsafe_code)]

use super::lanes::{LANES, Lanes};
use super::portable::Portable;

/// Bits of a float64 that a normal float32 does not have.
const EXTRA_BITS: u32 = 29;
/// Where they stand for the middle between two float32.
const MIDDLE: u32 = 1 << (EXTRA_BITS - 1);
/// Float64 this many steps from a middle and fewer (or one more below) are near it: 2^-37 of the number and less.
const NEAR: u32 = 1 << 15;
/// What brings those that are near a middle to where all bits of [`FAR`] are 0.
const SHIFTED: u32 = MIDDLE.wrapping_neg().wrapping_add(NEAR);
/// Those of the extra bits that tell a number in reach of a middle, brought there, from others.
const FAR: u32 = (1 << EXTRA_BITS) - 2 * NEAR;

pub(crate) trait Doubles: Lanes {
    /// How many steps [`Self::power`] takes to a doubling.
    const STEPS: f64 = 1.0;

    /// 2^(n / STEPS), a normal number; n in the low 16 bits as two's complement.
    #[inline(always)]
    fn power(self, n: Self::D) -> Self::D {
        self.scale_d(self.splat_d(1.0), n)
    }
    /// Whether any number that is off by less than 2^-38 of itself may round to another float32, which is normal.
    fn any_near_middle(self, value: Self::D) -> bool;
}

impl Doubles for Portable {
    #[inline(always)]
    fn any_near_middle(self, value: Self::D) -> bool {
        let mut is_any = false;
        for lane in 0..LANES {
            is_any |= (value[lane].to_bits() as u32).wrapping_add(SHIFTED) & FAR == 0;
        }
        is_any
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::*;

    use super::super::{Avx2, Avx512, array_of};
    use super::{Doubles, FAR, SHIFTED};

    /// Bits of 2^(j / 16), less what adding j << 48 to them brings.
    static SIXTEENTHS: [u64; 16] = [
        0x3ff0_0000_0000_0000,
        0x3fef_b558_6cf9_890f,
        0x3fef_72b8_3c7d_517b,
        0x3fef_387a_6e75_6238,
        0x3fef_06fe_0a31_b715,
        0x3fee_dea6_4c12_3422,
        0x3fee_bfda_d536_2a27,
        0x3fee_ab07_dd48_5429,
        0x3fee_a09e_667f_3bcd,
        0x3fee_a114_73eb_0187,
        0x3fee_ace5_422a_a0db,
        0x3fee_c491_82a3_f090,
        0x3fee_e89f_995a_d3ad,
        0x3fef_199b_dd85_529c,
        0x3fef_5818_dcfb_a487,
        0x3fef_a4af_a2a4_90da,
    ];

    #[allow(clippy::inline_always)]
    impl Doubles for Avx2 {
        #[inline(always)]
        fn any_near_middle(self, value: Self::D) -> bool {
            // SAFETY: the token proves the features.
            unsafe {
                let mut near = _mm256_setzero_si256();
                for pair in [[value[0], value[1]], [value[2], value[3]]] {
                    // The low halves of all, in any order.
                    let [first, second] = array_of!(part in [pair[0], pair[1]]: _mm256_castpd_ps(part));
                    let low = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(first, second));
                    let shifted = _mm256_add_epi32(low, _mm256_set1_epi32(SHIFTED as i32));
                    let far = _mm256_and_si256(shifted, _mm256_set1_epi32(FAR as i32));
                    near = _mm256_or_si256(near, _mm256_cmpeq_epi32(far, _mm256_setzero_si256()));
                }
                _mm256_movemask_epi8(near) != 0
            }
        }
    }

    #[allow(clippy::inline_always)]
    impl Doubles for Avx512 {
        const STEPS: f64 = 16.0;

        #[inline(always)]
        fn power(self, n: Self::D) -> Self::D {
            // SAFETY: the reference covers the bytes read, and the token proves the features.
            unsafe {
                let low = _mm512_loadu_si512(SIXTEENTHS.as_ptr().cast());
                let high = _mm512_loadu_si512(SIXTEENTHS.as_ptr().add(8).cast());
                let power = |n| {
                    let n = _mm512_castpd_si512(n);
                    let mantissa = _mm512_permutex2var_epi64(low, n, high);
                    _mm512_castsi512_pd(_mm512_add_epi64(mantissa, _mm512_slli_epi64::<48>(n)))
                };
                (power(n.0), power(n.1))
            }
        }
        #[inline(always)]
        fn any_near_middle(self, value: Self::D) -> bool {
            // SAFETY: the token proves the features.
            unsafe {
                // The low halves of all, in any order.
                let (first, second) = (_mm512_castpd_ps(value.0), _mm512_castpd_ps(value.1));
                let low = _mm512_castps_si512(_mm512_shuffle_ps::<0b10_00_10_00>(first, second));
                let shifted = _mm512_add_epi32(low, _mm512_set1_epi32(SHIFTED as i32));
                _mm512_testn_epi32_mask(shifted, _mm512_set1_epi32(FAR as i32)) != 0
            }
        }
    }
}
