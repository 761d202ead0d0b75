//! A destination as the kernels see it: the constants of its format, with the rounding and overflow rules.

use super::{Overflow, Rounding};
use crate::format::{Format, FormatSpec};
use crate::simd::is_streamed;

/// What encoding into one format needs, as the kernels use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder {
    pub(crate) format: Format,
    pub(crate) rounding: Rounding,
    pub(crate) overflow: Overflow,
    /// Float32 mantissa bits dropped from a normal number.
    pub(super) shift: u32,
    /// Float32 bits of the smallest normal magnitude.
    pub(super) min_normal: u32,
    /// What the exponent fields differ by, in place.
    pub(super) rebias: u32,
    /// 1 / (the format's smallest subnormal).
    pub(super) per_step: f32,
    pub(super) max_code: u32,
    /// The code that magnitudes beyond the largest finite one become: that one, or the next, which is infinity in every
    /// format that has it and NaN in the one that has no other.
    pub(super) limit: u32,
    pub(crate) nan_code: u32,
    pub(super) sign_shift: u32,
    /// Of formats of at most eight bits: `2^shift` and a little, so that the exponent field of this many times the smallest
    /// normal number, moved to where codes have theirs, and the mantissa bits of that product add up to a multiple of 256.
    pub(super) binades: f32,
    /// Whether the output is written past the caches.
    pub(crate) is_streamed: bool,
}

impl Encoder {
    pub(crate) fn new(format: Format, rounding: Rounding, overflow: Overflow) -> Self {
        let spec = format.spec();
        let can_overflow = overflow == Overflow::Ieee && (spec.infinity.is_some() || spec.nan.is_some());
        let min_exponent = spec.min_exponent();
        Self {
            format,
            rounding,
            overflow,
            shift: 23 - spec.mantissa_bits,
            min_normal: ((min_exponent + 127) as u32) << 23,
            rebias: ((127 - spec.bias) as u32) << spec.mantissa_bits,
            per_step: 2f64.powi(spec.mantissa_bits as i32 - min_exponent) as f32,
            max_code: spec.max_code,
            limit: spec.max_code + u32::from(can_overflow),
            nan_code: spec.nan.unwrap_or(0),
            sign_shift: 32 - spec.bits,
            binades: binades(spec),
            is_streamed: false,
        }
    }

    /// The same for an output of so many elements, whose pieces [`crate::elementwise`] hands out: it settles what was streamed.
    pub(crate) fn of(self, count: usize) -> Self {
        Self { is_streamed: is_streamed(count * self.format.item_size()), ..self }
    }

    /// Whether the format's exponent field is float32's own, so that subnormals line up as well.
    pub(super) fn is_aligned(&self) -> bool {
        self.rebias == 0
    }

    /// Whether what overflows has the bits of float32's infinity.
    pub(crate) fn overflows_to_infinity(&self) -> bool {
        self.limit << self.shift == 0x7f80_0000
    }
}

/// See [`Encoder::binades`].
fn binades(spec: &FormatSpec) -> f32 {
    if spec.bits > 8 {
        return 0.0;
    }
    let shift = 23 - spec.mantissa_bits;
    let field = (spec.min_exponent() + 127) as u32 + shift;
    let more = field.wrapping_neg() % (256 >> spec.mantissa_bits);
    ((1 << shift) + more) as f32
}
