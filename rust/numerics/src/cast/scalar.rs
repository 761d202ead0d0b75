//! Rounding into a format, by the definition: one float32 at a time.

use super::encoder::Encoder;
use super::{Overflow, Rounding};
use crate::format::Format;
use crate::xorwow::Streams;
use crate::xorwow::scalar::make;

/// |x| = significand * 2^exponent, for finite x.
fn split(x: f32) -> (u64, i32) {
    let bits = x.to_bits();
    let field = (bits >> 23 & 0xff) as i32;
    let fraction = u64::from(bits & 0x7f_ffff);
    if field == 0 { (fraction, -149) } else { (fraction | 1 << 23, field - 150) }
}

/// The code of `x` in `format`. `draw` is read by stochastic rounding only.
///
/// |x| lies between the neighbours lo <= |x| < hi, multiples of the same step; every format here is spaced at least as
/// widely as float32, so that lo is a shift of the significand.
pub(crate) fn encode(x: f32, format: Format, rounding: Rounding, overflow: Overflow, draw: u32) -> u32 {
    let spec = format.spec();
    if x.is_nan() {
        return spec.nan.unwrap_or(0);
    }
    let sign = u32::from(x.is_sign_negative()) << (spec.bits - 1);
    let overflowed = match overflow {
        Overflow::Saturate => sign | spec.max_code,
        Overflow::Ieee => match (spec.infinity, spec.nan) {
            (Some(infinity), _) => sign | infinity,
            (None, Some(nan)) => nan,
            (None, None) => sign | spec.max_code,
        },
    };
    if x.is_infinite() {
        return overflowed;
    }
    let (significand, exponent) = split(x);
    if significand == 0 {
        return sign;
    }
    let floor_log2 = significand.ilog2() as i32 + exponent;
    let step = floor_log2.max(spec.min_exponent()) - spec.mantissa_bits as i32;
    let dropped = (step - exponent) as u32;
    let lo = u128::from(significand) >> dropped.min(127);
    let remainder = u128::from(significand) - (lo << dropped.min(127));
    let up = match rounding {
        Rounding::Zero => false,
        Rounding::Nearest if dropped > 32 => false,
        Rounding::Nearest => {
            let half = (1u128 << dropped) >> 1;
            dropped > 0 && (remainder > half || remainder == half && lo & 1 == 1)
        }
        Rounding::Stochastic => {
            let d = if dropped > 95 { 0 } else { (remainder << 32) >> dropped };
            d + u128::from(draw) >= 1 << 32
        }
    };
    let multiple = lo as u32 + u32::from(up);
    let code = multiple + (((step + spec.mantissa_bits as i32 - spec.min_exponent()) as u32) << spec.mantissa_bits);
    match (code > spec.max_code, rounding) {
        (false, _) => sign | code,
        (true, Rounding::Zero) => sign | spec.max_code,
        (true, _) => overflowed,
    }
}

/// The value of an element as an array holds it.
#[inline]
pub(crate) fn value_of(format: Format, code: u32) -> f32 {
    match format {
        Format::F32 | Format::Tf32 => f32::from_bits(code),
        _ => format.decode_code(code),
    }
}

/// As [`encode`], the element as an array holds it: tfloat32 is stored as float32.
#[inline]
pub(crate) fn stored(x: f32, format: Format, rounding: Rounding, overflow: Overflow, draw: u32) -> u32 {
    let padding = if format == Format::Tf32 { 13 } else { 0 };
    encode(x, format, rounding, overflow, draw) << padding
}

/// See [`super::encode`].
pub(super) fn encode_slice(e: &Encoder, src: &[f32], draws: &[u32], dst: &mut [u8]) {
    let item = e.format.item_size();
    for (index, (value, code)) in src.iter().zip(dst.chunks_exact_mut(item)).enumerate() {
        let draw = draws.get(index).copied().unwrap_or(0);
        let bits = stored(*value, e.format, e.rounding, e.overflow, draw);
        code.copy_from_slice(&bits.to_le_bytes()[..item]);
    }
}

/// See [`super::decode`].
pub(super) fn decode_slice(format: Format, src: &[u8], dst: &mut [f32]) {
    for (code, value) in src.chunks_exact(format.item_size()).zip(dst) {
        let mut bytes = [0; 4];
        bytes[..code.len()].copy_from_slice(code);
        *value = value_of(format, u32::from_le_bytes(bytes));
    }
}

/// See [`super::recode`].
pub(super) fn recode_slice(e: &Encoder, format: Format, src: &[u8], dst: &mut [f32]) {
    for (code, value) in src.chunks_exact(format.item_size()).zip(dst) {
        let mut bytes = [0; 4];
        bytes[..code.len()].copy_from_slice(code);
        let decoded = value_of(format, u32::from_le_bytes(bytes));
        *value = f32::from_bits(stored(decoded, e.format, e.rounding, e.overflow, 0));
    }
}

/// See [`super::encode_streams`].
pub(super) fn encode_streams(e: &Encoder, streams: Streams<'_>, src: &[f32], dst: &mut [u8]) {
    let item = e.format.item_size();
    make(streams.state, streams.steps, |stream, place, draws| {
        let at = stream * streams.stride + place * draws.len();
        encode_slice(e, &src[at..][..draws.len()], draws, &mut dst[at * item..][..draws.len() * item]);
    });
}
