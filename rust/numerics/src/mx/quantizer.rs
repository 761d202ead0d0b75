//! Quantisation as the kernels see it: the constants of an element format and a scale rule.

use super::ScaleRule;
use crate::cast::{Encoder, Overflow, Rounding};
use crate::format::Format;

/// What quantising to one element format by one rule needs, as the kernels use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantizer {
    pub(crate) format: Format,
    pub(crate) rule: ScaleRule,
    pub(crate) encoder: Encoder,
    /// Subtracted from the exponent field of the largest magnitude to give the scale byte.
    pub(super) below: u32,
    /// Mantissas above this one add 1 to the scale byte.
    pub(super) carry_above: u32,
    /// What every element of a block with a NaN or infinity becomes.
    pub(super) nan_code: u8,
}

impl Quantizer {
    pub(crate) fn new(format: Format, rule: ScaleRule, rounding: Rounding) -> Self {
        let spec = format.spec();
        let max_exponent = spec.max_exponent() as u32;
        let max_fraction = spec.max_code & ((1 << spec.mantissa_bits) - 1);
        let never = 0x7f_ffff;
        let (below, carry_above) = match rule {
            ScaleRule::Trn3 => (max_exponent - 1, never),
            ScaleRule::Ocp => (max_exponent, never),
            ScaleRule::Rceil => (max_exponent, max_fraction << (23 - spec.mantissa_bits)),
        };
        Self {
            format,
            rule,
            encoder: Encoder::new(format, rounding, Overflow::Saturate),
            below,
            carry_above,
            nan_code: spec.nan.unwrap_or(0) as u8,
        }
    }
}
