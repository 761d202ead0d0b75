//! Block scales and dequantisation, by the definition.

use crate::format::Format;
use crate::mx::ScaleRule;

/// floor(log2 |x|) for finite nonzero x.
fn floor_log2(x: f32) -> i32 {
    // Exact: every float32, subnormals too, is a normal float64.
    (f64::from(x.abs()).to_bits() >> 52) as i32 - 1023
}

/// The scale byte of a block: E + 127, or 255 where the block holds a NaN or an infinity.
pub(crate) fn scale_byte(block: &[f32], format: Format, rule: ScaleRule) -> u8 {
    if block.iter().any(|x| !x.is_finite()) {
        return 255;
    }
    let amax = block.iter().fold(0.0f32, |amax, x| amax.max(x.abs()));
    if amax == 0.0 {
        return 0;
    }
    let max_exponent = format.spec().max_exponent();
    let exponent = match rule {
        ScaleRule::Trn3 => floor_log2(amax) - (max_exponent - 1),
        ScaleRule::Ocp => floor_log2(amax) - max_exponent,
        ScaleRule::Rceil => {
            let largest = f64::from(format.decode_code(format.spec().max_code));
            let fits = |exponent: i32| f64::from(amax) <= largest * 2f64.powi(exponent);
            let first = floor_log2(amax) - max_exponent;
            if fits(first) { first } else { first + 1 }
        }
    };
    (exponent.clamp(-127, 127) + 127) as u8
}

/// x * 2^-E, which is exact but where the result is too small to round to anything but zero.
pub(crate) fn divide_by_scale(x: f32, byte: u8) -> f32 {
    if byte == 255 { f32::NAN } else { (f64::from(x) * 2f64.powi(127 - i32::from(byte))) as f32 }
}
