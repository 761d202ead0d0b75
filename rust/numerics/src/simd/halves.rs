//! The same vectors as thirty-two lanes of 16 bits.
#![allow(unsafe_code)]

use super::lanes::{LANES, Lanes};
use super::portable::Portable;

/// Lanes of 16 bits: each lane of [`Lanes`] is two of them, the first one its low half.
pub(crate) const HALVES: usize = 2 * LANES;

/// What formats of 8 bits need to become ones of 16: steps of 32 bits do the rest where no half carries into the next.
pub(crate) trait Halves: Lanes {
    /// Whether a lookup of bytes is one instruction, so that whole numbers are the faster way.
    const LOOKUPS: bool;
    /// Whether it takes less to ask if any lane is a rare one than to see to it in all.
    const ASKS: bool;

    /// Sign-extended.
    fn load_halves(self, from: &[u8; HALVES]) -> Self::I;
    fn store_halves(self, value: Self::I, to: &mut [u16; HALVES]);
    /// Every half as the upper one of a 32-bit lane, in order.
    fn raise_halves(self, value: Self::I) -> [Self::I; 2];
    fn sub_halves(self, a: Self::I, b: Self::I) -> Self::I;
    /// Unsigned.
    fn min_halves(self, a: Self::I, b: Self::I) -> Self::I;
    /// Whether any half is larger, unsigned.
    fn any_half_above(self, a: [Self::I; 2], limit: u16) -> bool;
    /// The upper halves of the words, rounded by the lower ones to nearest, ties to even: of one vector after the other.
    #[inline(always)]
    fn store_rounded_halves(self, words: [Self::I; 2], to: &mut [u16; HALVES]) {
        let mut rounded = words;
        for place in 0..2 {
            let is_even = self.eq(self.and(words[place], self.splat_i(1 << 16)), self.splat_i(0));
            let increment = self.select(is_even, self.splat_i(0x7fff), self.splat_i(0x8000));
            rounded[place] = self.shr(self.add_i(words[place], increment), 16);
        }
        self.store_u16_pair(rounded, to);
    }
    /// The entry of each byte, all of which must be below 16.
    fn lookup_bytes(self, table: &[u8; 16], index: Self::I) -> Self::I;
}

#[inline(always)]
fn halves(words: [u32; LANES]) -> [u16; HALVES] {
    let mut halves = [0; HALVES];
    for lane in 0..LANES {
        (halves[2 * lane], halves[2 * lane + 1]) = (words[lane] as u16, (words[lane] >> 16) as u16);
    }
    halves
}

#[inline(always)]
fn words(halves: [u16; HALVES]) -> [u32; LANES] {
    let mut words = [0; LANES];
    for lane in 0..LANES {
        words[lane] = u32::from(halves[2 * lane]) | u32::from(halves[2 * lane + 1]) << 16;
    }
    words
}

#[allow(clippy::inline_always)]
impl Halves for Portable {
    const LOOKUPS: bool = false;
    const ASKS: bool = false;

    #[inline(always)]
    fn load_halves(self, from: &[u8; HALVES]) -> Self::I {
        words(from.map(|byte| i16::from(byte as i8) as u16))
    }
    #[inline(always)]
    fn store_halves(self, value: Self::I, to: &mut [u16; HALVES]) {
        *to = halves(value);
    }
    #[inline(always)]
    fn raise_halves(self, value: Self::I) -> [Self::I; 2] {
        let mut raised = [[0; LANES]; 2];
        for (raised, half) in raised.as_flattened_mut().iter_mut().zip(halves(value)) {
            *raised = u32::from(half) << 16;
        }
        raised
    }
    #[inline(always)]
    fn sub_halves(self, a: Self::I, b: Self::I) -> Self::I {
        let (mut a, b) = (halves(a), halves(b));
        for lane in 0..HALVES {
            a[lane] = a[lane].wrapping_sub(b[lane]);
        }
        words(a)
    }
    #[inline(always)]
    fn min_halves(self, a: Self::I, b: Self::I) -> Self::I {
        let (mut a, b) = (halves(a), halves(b));
        for lane in 0..HALVES {
            a[lane] = a[lane].min(b[lane]);
        }
        words(a)
    }
    #[inline(always)]
    fn any_half_above(self, a: [Self::I; 2], limit: u16) -> bool {
        a.map(halves).as_flattened().iter().copied().fold(0, u16::max) > limit
    }
    #[inline(always)]
    fn lookup_bytes(self, table: &[u8; 16], index: Self::I) -> Self::I {
        index.map(|word| u32::from_le_bytes(word.to_le_bytes().map(|byte| table[usize::from(byte & 15)])))
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::*;

    use super::super::{Avx2, Avx512, array_of};
    use super::{HALVES, Halves};

    /// Every other half of two vectors.
    const EVEN: [u16; HALVES] = every_other(0);
    const ODD: [u16; HALVES] = every_other(1);

    const fn every_other(first: u16) -> [u16; HALVES] {
        let mut places = [first; HALVES];
        let mut index = 1;
        while index < HALVES {
            places[index] = places[index - 1] + 2;
            index += 1;
        }
        places
    }

    /// An operation on both registers.
    macro_rules! both {
        ($function:ident, $a:expr, $b:expr) => {
            ($function($a.0, $b.0), $function($a.1, $b.1))
        };
    }

    #[allow(clippy::inline_always)]
    impl Halves for Avx2 {
        const LOOKUPS: bool = true;
        const ASKS: bool = true;

        #[inline(always)]
        fn load_halves(self, from: &[u8; HALVES]) -> Self::I {
            // SAFETY: the reference covers the bytes read, and the token proves the features.
            unsafe {
                let (low, high) =
                    (_mm_loadu_si128(from.as_ptr().cast()), _mm_loadu_si128(from.as_ptr().add(16).cast()));
                (_mm256_cvtepi8_epi16(low), _mm256_cvtepi8_epi16(high))
            }
        }
        #[inline(always)]
        fn store_halves(self, value: Self::I, to: &mut [u16; HALVES]) {
            // SAFETY: the reference covers the bytes written, and the token proves the features.
            unsafe {
                _mm256_storeu_si256(to.as_mut_ptr().cast(), value.0);
                _mm256_storeu_si256(to.as_mut_ptr().add(16).cast(), value.1);
            }
        }
        #[inline(always)]
        fn raise_halves(self, value: Self::I) -> [Self::I; 2] {
            // SAFETY: the token proves the features.
            unsafe {
                let mut raised = [value; 2];
                for (raised, half) in raised.iter_mut().zip([value.0, value.1]) {
                    // Unpacking works on 128 bits, which the quarters are put in order for.
                    let (quarters, zero) = (_mm256_permute4x64_epi64::<0b11_01_10_00>(half), _mm256_setzero_si256());
                    *raised = (_mm256_unpacklo_epi16(zero, quarters), _mm256_unpackhi_epi16(zero, quarters));
                }
                raised
            }
        }
        #[inline(always)]
        fn sub_halves(self, a: Self::I, b: Self::I) -> Self::I {
            // SAFETY: the token proves the features.
            unsafe { both!(_mm256_sub_epi16, a, b) }
        }
        #[inline(always)]
        fn min_halves(self, a: Self::I, b: Self::I) -> Self::I {
            // SAFETY: the token proves the features.
            unsafe { both!(_mm256_min_epu16, a, b) }
        }
        #[inline(always)]
        fn any_half_above(self, a: [Self::I; 2], limit: u16) -> bool {
            // SAFETY: the token proves the features.
            unsafe {
                let [a, b] = array_of!(half in [a[0], a[1]]: _mm256_max_epu16(half.0, half.1));
                let above = _mm256_subs_epu16(_mm256_max_epu16(a, b), _mm256_set1_epi16(limit as i16));
                _mm256_testz_si256(above, above) == 0
            }
        }
        #[inline(always)]
        fn lookup_bytes(self, table: &[u8; 16], index: Self::I) -> Self::I {
            // SAFETY: the reference covers the bytes read, and the token proves the features.
            unsafe {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
                (_mm256_shuffle_epi8(table, index.0), _mm256_shuffle_epi8(table, index.1))
            }
        }
    }

    #[allow(clippy::inline_always)]
    impl Halves for Avx512 {
        const LOOKUPS: bool = true;
        const ASKS: bool = true;

        #[inline(always)]
        fn load_halves(self, from: &[u8; HALVES]) -> Self::I {
            // SAFETY: the reference covers the bytes read, and the token proves the features.
            unsafe { _mm512_cvtepi8_epi16(_mm256_loadu_si256(from.as_ptr().cast())) }
        }
        #[inline(always)]
        fn store_halves(self, value: Self::I, to: &mut [u16; HALVES]) {
            // SAFETY: the reference covers the bytes written, and the token proves the features.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) }
        }
        #[inline(always)]
        fn raise_halves(self, value: Self::I) -> [Self::I; 2] {
            // SAFETY: the token proves the features.
            unsafe {
                let (low, high) = (_mm512_castsi512_si256(value), _mm512_extracti64x4_epi64::<1>(value));
                array_of!(half in [low, high]: _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)))
            }
        }
        #[inline(always)]
        fn sub_halves(self, a: Self::I, b: Self::I) -> Self::I {
            // SAFETY: the token proves the features.
            unsafe { _mm512_sub_epi16(a, b) }
        }
        #[inline(always)]
        fn min_halves(self, a: Self::I, b: Self::I) -> Self::I {
            // SAFETY: the token proves the features.
            unsafe { _mm512_min_epu16(a, b) }
        }
        #[inline(always)]
        fn any_half_above(self, a: [Self::I; 2], limit: u16) -> bool {
            // SAFETY: the token proves the features.
            unsafe {
                let limit = _mm512_set1_epi16(limit as i16);
                let [a, b] = array_of!(halves in [a[0], a[1]]: _mm512_cmpgt_epu16_mask(halves, limit));
                _kortestz_mask32_u8(a, b) == 0
            }
        }
        #[inline(always)]
        fn store_rounded_halves(self, [a, b]: [Self::I; 2], to: &mut [u16; HALVES]) {
            // SAFETY: the references cover the bytes read and written, and the token proves the features.
            unsafe {
                let [lower, upper] = array_of!(halves in [&EVEN, &ODD]: {
                    _mm512_permutex2var_epi16(a, _mm512_loadu_si512(halves.as_ptr().cast()), b)
                });
                // A half and more rounds up, where the upper half is even more alone.
                let odd = _mm512_and_si512(upper, _mm512_set1_epi16(1));
                let is_up = _mm512_cmpgt_epu16_mask(_mm512_adds_epu16(lower, odd), _mm512_set1_epi16(i16::MIN));
                let rounded = _mm512_mask_add_epi16(upper, is_up, upper, _mm512_set1_epi16(1));
                _mm512_storeu_si512(to.as_mut_ptr().cast(), rounded);
            }
        }
        #[inline(always)]
        fn lookup_bytes(self, table: &[u8; 16], index: Self::I) -> Self::I {
            // SAFETY: the reference covers the bytes read, and the token proves the features.
            unsafe {
                let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
                _mm512_shuffle_epi8(table, index)
            }
        }
    }
}
