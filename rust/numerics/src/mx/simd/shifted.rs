//! Elements times powers of two as bfloat16, by whole numbers alone: the fields moved to their places, and the scale added
//! to the exponent.

use crate::format::Format;
use crate::simd::Halves;

/// Whole-number steps of an element format of so many bits, and so many of them the mantissa's. They hold where all
/// products are normal and finite, or 0.
#[derive(Clone, Copy)]
pub(super) struct Shifted<const BITS: u32, const MANTISSA: u32> {
    max_code: u16,
    bias: u32,
    /// By how much the code of a subnormal element exceeds that which it would have with more exponents.
    excess: [u8; 16],
    /// The scale bytes of normal products.
    smallest: u8,
    largest: u8,
}

/// A number in both halves.
const fn both(half: u32) -> u32 {
    half | half << 16
}

impl<const BITS: u32, const MANTISSA: u32> Shifted<BITS, MANTISSA> {
    #[inline(always)]
    pub(super) fn new(format: Format) -> Self {
        let spec = format.spec();
        debug_assert_eq!((spec.bits, spec.mantissa_bits), (BITS, MANTISSA));
        let mut excess = [0; 16];
        for code in 1..1 << MANTISSA {
            // Normalised, its exponent is below the field that it has by so much.
            let up = MANTISSA - u32::ilog2(code);
            excess[code as usize] = (code + (up << MANTISSA) - (code << up)) as u8;
        }
        let bias = spec.bias as u32;
        Self {
            max_code: spec.max_code as u16,
            bias,
            excess,
            smallest: (bias + MANTISSA) as u8,
            largest: (254 + bias - (spec.max_code >> MANTISSA)).min(254) as u8,
        }
    }

    /// What the scale byte of thirty-two elements raises exponents by, in units of the last bit of their codes.
    #[inline(always)]
    pub(super) fn raise_all<L: Halves>(&self, l: L, byte: u8) -> L::I {
        l.splat_i(both(u32::from(byte).wrapping_sub(self.bias) << MANTISSA))
    }

    /// The same of a byte for each element.
    #[inline(always)]
    pub(super) fn raise_each<L: Halves>(&self, l: L, bytes: L::I) -> L::I {
        l.shl(l.sub_halves(bytes, l.splat_i(both(self.bias))), MANTISSA)
    }

    /// Whether products by these scales are normal.
    #[inline(always)]
    pub(super) fn takes_all<const COUNT: usize>(&self, bytes: [u8; COUNT]) -> bool {
        let span = self.largest - self.smallest;
        bytes.into_iter().fold(true, |takes, byte| takes & (byte.wrapping_sub(self.smallest) <= span))
    }

    /// The same of bytes in halves.
    #[inline(always)]
    pub(super) fn takes_each<L: Halves>(&self, l: L, bytes: [L::I; 2]) -> bool {
        let smallest = l.splat_i(both(self.smallest.into()));
        let above = [l.sub_halves(bytes[0], smallest), l.sub_halves(bytes[1], smallest)];
        !l.any_half_above(above, u16::from(self.largest - self.smallest))
    }

    /// Whether all elements are finite.
    #[inline(always)]
    pub(super) fn are_finite<L: Halves>(&self, l: L, elements: [L::I; 2]) -> bool {
        !l.any_half_above([self.magnitude(l, elements[0]), self.magnitude(l, elements[1])], self.max_code)
    }

    #[inline(always)]
    fn magnitude<L: Halves>(&self, l: L, elements: L::I) -> L::I {
        l.and(elements, l.splat_i(both((1 << (BITS - 1)) - 1)))
    }

    /// The bfloat16 of sign-extended elements.
    #[inline(always)]
    pub(super) fn codes<L: Halves>(&self, l: L, elements: L::I, raises: L::I) -> L::I {
        let magnitude = self.magnitude(l, elements);
        let excess = l.lookup_bytes(&self.excess, l.min_halves(magnitude, l.splat_i(both(15))));
        // Zeros are raised by 0.
        let raises = l.min_halves(raises, l.sub_halves(l.splat_i(0), magnitude));
        let raised = l.sub_i(l.add_i(magnitude, raises), excess);
        // That of eight bits is in its place.
        let sign = if BITS == 8 { elements } else { l.shl(elements, 16 - BITS) };
        l.or(l.shl(raised, 7 - MANTISSA), l.and(sign, l.splat_i(both(0x8000))))
    }
}
