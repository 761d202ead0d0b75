//! Decoding to and encoding from float32, sixteen at a time.

use super::Rounding;
use super::encoder::Encoder;
use crate::format::Format;
use crate::simd::{LANES, Lanes, READ_AHEAD, WRITE_AHEAD, prefetch};

pub(crate) const NEAREST: u8 = 0;
pub(crate) const ZERO: u8 = 1;
pub(crate) const STOCHASTIC: u8 = 2;

/// The magnitude code before overflow is looked at, for formats with float32's exponent field and `shift` > 0.
#[inline(always)]
fn round_aligned<L: Lanes, const ROUNDING: u8>(l: L, shift: u32, magnitude: L::I, draws: L::I) -> L::I {
    let increment = match ROUNDING {
        NEAREST => {
            let odd = l.and(l.shr(magnitude, shift), l.splat_i(1));
            l.add_i(odd, l.splat_i((1 << (shift - 1)) - 1))
        }
        ZERO => l.splat_i(0),
        // The dropped bits are the top of d: d + r carries exactly when they do with the top of r.
        _ => l.shr(draws, 32 - shift),
    };
    l.shr(l.add_i(magnitude, increment), shift)
}

/// The magnitude code before overflow is looked at, for formats with a narrower exponent field.
#[inline(always)]
fn round_rebiased<L: Lanes, const ROUNDING: u8>(l: L, e: &Encoder, magnitude: L::I, draws: L::I) -> L::I {
    if ROUNDING == STOCHASTIC {
        return round_stochastic(l, e, magnitude, draws);
    }
    // The exponent is rebased before the shift, where the constant joins the rounding increment.
    let rebased = l.sub_i(magnitude, l.splat_i(e.rebias << e.shift));
    let normal = round_aligned::<L, ROUNDING>(l, e.shift, rebased, draws);
    let steps = l.mul_f(l.float(magnitude), l.splat_f(e.per_step));
    let subnormal = if ROUNDING == NEAREST { l.nearest_int(steps) } else { l.trunc_int(steps) };
    l.select(l.lt_u(magnitude, l.splat_i(e.min_normal)), subnormal, normal)
}

/// lo = significand >> dropped; d is the fraction below it as 32 bits; a carry of d + draw takes hi.
#[inline(always)]
fn round_stochastic<L: Lanes>(l: L, e: &Encoder, magnitude: L::I, draws: L::I) -> L::I {
    let one = l.splat_i(1);
    let field = l.shr(magnitude, 23);
    let is_subnormal = l.eq(field, l.splat_i(0));
    let fraction = l.and(magnitude, l.splat_i(0x7f_ffff));
    let significand = l.select(is_subnormal, fraction, l.or(fraction, l.splat_i(1 << 23)));
    let field = l.max_u(field, one);
    let below = l.max_s(l.sub_i(l.splat_i(e.min_normal >> 23), field), l.splat_i(0));
    let dropped = l.add_i(below, l.splat_i(e.shift));
    let lo = l.shr_each(significand, dropped);
    // One of the two counts is out of range (or both are 0), and a shift out of range gives 0.
    let full = l.splat_i(32);
    let d = l.or(l.shl_each(significand, l.sub_i(full, dropped)), l.shr_each(significand, l.sub_i(dropped, full)));
    let carry = l.lt_u(l.add_i(d, draws), draws);
    let multiple = l.select(carry, l.add_i(lo, one), lo);
    let above = l.max_s(l.sub_i(field, l.splat_i(e.min_normal >> 23)), l.splat_i(0));
    l.add_i(multiple, l.shl(above, 23 - e.shift))
}

/// Sixteen codes, signs included.
#[inline(always)]
pub(crate) fn encode_vector<L: Lanes, const ROUNDING: u8, const ALIGNED: bool>(
    l: L,
    e: &Encoder,
    values: L::F,
    draws: L::I,
) -> L::I {
    let bits = l.bits(values);
    let magnitude = l.and(bits, l.splat_i(0x7fff_ffff));
    let infinity = l.splat_i(0x7f80_0000);
    let code = if ALIGNED {
        round_aligned::<L, ROUNDING>(l, e.shift, magnitude, draws)
    } else {
        round_rebiased::<L, ROUNDING>(l, e, magnitude, draws)
    };
    let code = if ROUNDING == ZERO {
        let finite = l.min_u(code, l.splat_i(e.max_code));
        l.select(l.eq(magnitude, infinity), l.splat_i(e.limit), finite)
    } else {
        l.min_u(code, l.splat_i(e.limit))
    };
    let sign = l.and(l.shr(bits, e.sign_shift), l.splat_i(1 << (31 - e.sign_shift)));
    let signed = l.or(code, sign);
    // NaN, of the input or by overflow, is canonical: positive, one payload.
    let nan_code = l.splat_i(e.nan_code);
    let is_nan = l.lt_u(infinity, magnitude);
    let canonical = l.select(is_nan, nan_code, signed);
    if e.limit == e.nan_code { l.select(l.eq(code, nan_code), nan_code, canonical) } else { canonical }
}

/// As [`encode_vector`] for finite values and saturating overflow, which is all that block elements need.
#[inline(always)]
pub(crate) fn encode_finite<L: Lanes, const ROUNDING: u8>(l: L, e: &Encoder, values: L::F, draws: L::I) -> L::I {
    let bits = l.bits(values);
    let magnitude = l.and(bits, l.splat_i(0x7fff_ffff));
    let code = l.min_u(round_rebiased::<L, ROUNDING>(l, e, magnitude, draws), l.splat_i(e.max_code));
    l.or(code, l.and(l.shr(bits, e.sign_shift), l.splat_i(1 << (31 - e.sign_shift))))
}

/// Where codes of one width go.
trait Codes: Copy + Default + 'static {
    fn store<L: Lanes>(l: L, e: &Encoder, codes: L::I, to: &mut [Self; LANES]);
}

impl Codes for u8 {
    #[inline(always)]
    fn store<L: Lanes>(l: L, _: &Encoder, codes: L::I, to: &mut [u8; LANES]) {
        l.store_u8(codes, to);
    }
}

impl Codes for u16 {
    #[inline(always)]
    fn store<L: Lanes>(l: L, _: &Encoder, codes: L::I, to: &mut [u16; LANES]) {
        l.store_u16(codes, to);
    }
}

impl Codes for u32 {
    #[inline(always)]
    fn store<L: Lanes>(l: L, e: &Encoder, codes: L::I, to: &mut [u32; LANES]) {
        // Tfloat32 codes are kept in the upper bits of float32 storage.
        l.store_i(l.shl(codes, e.sign_shift), to);
    }
}

#[inline(always)]
fn encode_slice<L: Lanes, const ROUNDING: u8, const ALIGNED: bool, C: Codes>(
    l: L,
    e: &Encoder,
    src: &[f32],
    draws: &[u32],
    dst: &mut [C],
) {
    let (vectors, tail) = src.as_chunks::<LANES>();
    let (outputs, tail_out) = dst.as_chunks_mut::<LANES>();
    for (index, (values, output)) in vectors.iter().zip(outputs).enumerate() {
        prefetch(values, READ_AHEAD);
        prefetch(output, WRITE_AHEAD);
        let draws = if ROUNDING == STOCHASTIC { l.load_i(&draws.as_chunks().0[index]) } else { l.splat_i(0) };
        C::store(l, e, encode_vector::<L, ROUNDING, ALIGNED>(l, e, l.load_f(values), draws), output);
    }
    if !tail.is_empty() {
        let (mut values, mut drawn, mut codes) = ([0.0; LANES], [0; LANES], [C::default(); LANES]);
        values[..tail.len()].copy_from_slice(tail);
        if ROUNDING == STOCHASTIC {
            drawn[..tail.len()].copy_from_slice(&draws[src.len() - tail.len()..]);
        }
        C::store(l, e, encode_vector::<L, ROUNDING, ALIGNED>(l, e, l.load_f(&values), l.load_i(&drawn)), &mut codes);
        tail_out.copy_from_slice(&codes[..tail.len()]);
    }
}

/// Float32 to float32 moves no finite value: only NaN and, when saturating, infinity change.
#[inline(always)]
fn canonical_slice(e: &Encoder, src: &[f32], dst: &mut [u32]) {
    for (from, to) in src.iter().zip(dst) {
        let bits = from.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        let kept = magnitude.min(e.limit) | bits & 0x8000_0000;
        *to = if magnitude > 0x7f80_0000 { e.nan_code } else { kept };
    }
}

#[inline(always)]
fn encode_rounding<L: Lanes, const ROUNDING: u8>(l: L, e: &Encoder, src: &[f32], draws: &[u32], dst: &mut [u8]) {
    match (e.format, e.format.item_size()) {
        (Format::F32, _) => canonical_slice(e, src, bytemuck::cast_slice_mut(dst)),
        (_, 4) => encode_slice::<L, ROUNDING, true, u32>(l, e, src, draws, bytemuck::cast_slice_mut(dst)),
        (_, 2) if e.is_aligned() => {
            encode_slice::<L, ROUNDING, true, u16>(l, e, src, draws, bytemuck::cast_slice_mut(dst));
        }
        (_, 2) => encode_slice::<L, ROUNDING, false, u16>(l, e, src, draws, bytemuck::cast_slice_mut(dst)),
        _ => encode_slice::<L, ROUNDING, false, u8>(l, e, src, draws, dst),
    }
}

/// Encodes float32 values; `dst` holds their codes, `draws` one number each when rounding stochastically.
#[inline(always)]
pub(crate) fn encode<L: Lanes>(l: L, e: &Encoder, src: &[f32], draws: &[u32], dst: &mut [u8]) {
    match e.rounding {
        Rounding::Nearest => encode_rounding::<L, NEAREST>(l, e, src, draws, dst),
        Rounding::Zero => encode_rounding::<L, ZERO>(l, e, src, draws, dst),
        Rounding::Stochastic => encode_rounding::<L, STOCHASTIC>(l, e, src, draws, dst),
    }
}

/// Decodes codes to float32, exactly; NaN payloads are unspecified.
#[inline(always)]
pub(crate) fn decode<L: Lanes>(l: L, format: Format, src: &[u8], dst: &mut [f32]) {
    match format {
        Format::F32 | Format::Tf32 => dst.copy_from_slice(bytemuck::cast_slice(src)),
        Format::Bf16 => decode_u16::<L, false>(l, bytemuck::cast_slice(src), dst),
        Format::F16 => decode_u16::<L, true>(l, bytemuck::cast_slice(src), dst),
        Format::F8E8M0Fnu => {
            if let Some(table) = format.decode_table() {
                decode_by_table(l, table, src, dst);
            }
        }
        _ => decode_narrow(l, format, src, dst),
    }
}

/// The fields moved to where float32 has them, which some CPUs do in a third of the time that looking values up takes.
#[inline(always)]
fn decode_narrow<L: Lanes>(l: L, format: Format, src: &[u8], dst: &mut [f32]) {
    let spec = format.spec();
    let step = 2f64.powi(spec.min_exponent() - spec.mantissa_bits as i32) as f32;
    let (vectors, tail) = src.as_chunks::<LANES>();
    let (outputs, tail_out) = dst.as_chunks_mut::<LANES>();
    for (codes, output) in vectors.iter().zip(outputs) {
        prefetch(output, WRITE_AHEAD);
        let codes = l.load_u8(codes);
        let magnitude = l.and(codes, l.splat_i((1 << (spec.bits - 1)) - 1));
        let sign = l.shl(l.and(codes, l.splat_i(1 << (spec.bits - 1))), 32 - spec.bits);
        let rebias = l.splat_i(((127 - spec.bias) as u32) << 23);
        let normal = l.add_i(l.shl(magnitude, 23 - spec.mantissa_bits), rebias);
        let subnormal = l.bits(l.mul_f(l.int_to_float(magnitude), l.splat_f(step)));
        let is_subnormal = l.lt_u(magnitude, l.splat_i(1 << spec.mantissa_bits));
        let finite = l.select(is_subnormal, subnormal, normal);
        let is_infinity = l.eq(magnitude, l.splat_i(spec.infinity.unwrap_or(u32::MAX)));
        let special = l.select(is_infinity, l.splat_i(0x7f80_0000), l.splat_i(0x7fc0_0000));
        let value = l.select(l.lt_u(l.splat_i(spec.max_code), magnitude), special, finite);
        l.store_f(l.float(l.or(value, sign)), output);
    }
    if let (false, Some(table)) = (tail.is_empty(), format.decode_table()) {
        for (code, value) in tail.iter().zip(tail_out) {
            *value = table[usize::from(*code)];
        }
    }
}

#[inline(always)]
fn decode_u16<L: Lanes, const HALF: bool>(l: L, src: &[u16], dst: &mut [f32]) {
    let (vectors, tail) = src.as_chunks::<LANES>();
    let (outputs, tail_out) = dst.as_chunks_mut::<LANES>();
    for (codes, output) in vectors.iter().zip(outputs) {
        let values = if HALF { l.load_f16(codes) } else { l.float(l.shl(l.load_u16(codes), 16)) };
        l.store_f(values, output);
    }
    if !tail.is_empty() {
        let (mut codes, mut values) = ([0; LANES], [0.0; LANES]);
        codes[..tail.len()].copy_from_slice(tail);
        l.store_f(if HALF { l.load_f16(&codes) } else { l.float(l.shl(l.load_u16(&codes), 16)) }, &mut values);
        tail_out.copy_from_slice(&values[..tail.len()]);
    }
}

#[inline(always)]
fn decode_by_table<L: Lanes>(l: L, table: &[f32; 256], src: &[u8], dst: &mut [f32]) {
    let (vectors, tail) = src.as_chunks::<LANES>();
    let (outputs, tail_out) = dst.as_chunks_mut::<LANES>();
    for (codes, output) in vectors.iter().zip(outputs) {
        l.store_f(l.lookup(table, l.load_u8(codes)), output);
    }
    for (code, value) in tail.iter().zip(tail_out) {
        *value = table[usize::from(*code)];
    }
}
