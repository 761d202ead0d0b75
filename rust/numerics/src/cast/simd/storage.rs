//! Slices of float32 as the codes of a format.

use super::round::{ALIGNED, NEAREST, OVERFLOWING, REBIASED, STOCHASTIC, ZERO, encode_vector};
use crate::cast::{Encoder, Rounding};
use crate::format::Format;
use crate::simd::{Halves, LANES, Lanes, STREAM_READ_AHEAD, STREAM_WRITE_AHEAD, prefetch, prefetch_all};

/// Vectors encoded together, whose codes are one or more whole cache lines.
const TOGETHER: usize = 4;
const GROUP: usize = TOGETHER * LANES;

/// Where codes of one width go.
pub(crate) trait Codes: bytemuck::Pod {
    /// Writes the codes of consecutive vectors.
    fn store<L: Lanes>(l: L, e: &Encoder, codes: [L::I; TOGETHER], to: &mut [Self; GROUP]);
    /// Writes the codes of one vector.
    fn store_one<L: Lanes>(l: L, e: &Encoder, codes: L::I, to: &mut [Self; LANES]);
}

impl Codes for u8 {
    #[inline(always)]
    fn store<L: Lanes>(l: L, _: &Encoder, codes: [L::I; TOGETHER], to: &mut [u8; GROUP]) {
        l.store_u8_quad(codes, to);
    }
    #[inline(always)]
    fn store_one<L: Lanes>(l: L, _: &Encoder, codes: L::I, to: &mut [u8; LANES]) {
        l.store_u8(codes, to);
    }
}

impl Codes for u16 {
    #[inline(always)]
    fn store<L: Lanes>(l: L, _: &Encoder, codes: [L::I; TOGETHER], to: &mut [u16; GROUP]) {
        let (pairs, _) = to.as_chunks_mut();
        l.store_u16_pair([codes[0], codes[1]], &mut pairs[0]);
        l.store_u16_pair([codes[2], codes[3]], &mut pairs[1]);
    }
    #[inline(always)]
    fn store_one<L: Lanes>(l: L, _: &Encoder, codes: L::I, to: &mut [u16; LANES]) {
        l.store_u16(codes, to);
    }
}

impl Codes for u32 {
    #[inline(always)]
    fn store<L: Lanes>(l: L, e: &Encoder, codes: [L::I; TOGETHER], to: &mut [u32; GROUP]) {
        let (vectors, _) = to.as_chunks_mut();
        for place in 0..TOGETHER {
            Self::store_one(l, e, codes[place], &mut vectors[place]);
        }
    }
    #[inline(always)]
    fn store_one<L: Lanes>(l: L, e: &Encoder, codes: L::I, to: &mut [u32; LANES]) {
        // Tfloat32 codes are kept in the upper bits of float32 storage.
        l.store_i(l.shl(codes, e.sign_shift), to);
    }
}

#[inline(always)]
fn encode_group<L: Lanes, const ROUNDING: u8, const FIELD: u8, C: Codes>(
    l: L,
    e: &Encoder,
    values: &[f32; GROUP],
    draws: &[u32; GROUP],
    output: &mut [C; GROUP],
) {
    let (values, _) = values.as_chunks();
    let (draws, _) = draws.as_chunks();
    let mut codes = [l.splat_i(0); TOGETHER];
    for place in 0..TOGETHER {
        prefetch(&values[place], STREAM_READ_AHEAD);
        let drawn = if ROUNDING == STOCHASTIC { l.load_i(&draws[place]) } else { l.splat_i(0) };
        codes[place] = encode_vector::<L, ROUNDING, FIELD>(l, e, l.load_f(&values[place]), drawn);
    }
    prefetch_all(output, STREAM_WRITE_AHEAD);
    C::store(l, e, codes, output);
}

/// As [`encode_group`] for bfloat16 to nearest: NaN, which are rare, are looked for in all vectors together.
#[inline(always)]
fn encode_bfloat16<L: Halves>(l: L, e: &Encoder, values: &[f32; GROUP], output: &mut [u16; GROUP]) {
    let (vectors, _) = values.as_chunks();
    let mut words = [l.splat_f(0.0); TOGETHER];
    for place in 0..TOGETHER {
        prefetch(&vectors[place], STREAM_READ_AHEAD);
        words[place] = l.load_f(&vectors[place]);
    }
    let [a, b, c, d] = words;
    if l.any(l.either(l.unordered(a, b), l.unordered(c, d))) {
        return encode_group::<L, NEAREST, OVERFLOWING, u16>(l, e, values, &[0; GROUP], output);
    }
    prefetch_all(output, STREAM_WRITE_AHEAD);
    let (pairs, _) = output.as_chunks_mut();
    l.store_rounded_halves([l.bits(a), l.bits(b)], &mut pairs[0]);
    l.store_rounded_halves([l.bits(c), l.bits(d)], &mut pairs[1]);
}

/// Bfloat16 to nearest, overflowing to infinity.
#[inline(always)]
fn encode_bfloat16_slice<L: Halves>(l: L, e: &Encoder, src: &[f32], dst: &mut [u16]) {
    let (groups, tail) = src.as_chunks::<GROUP>();
    let (outputs, tail_out) = dst.as_chunks_mut::<GROUP>();
    for (values, output) in groups.iter().zip(outputs) {
        encode_bfloat16(l, e, values, output);
    }
    encode_slice::<L, NEAREST, OVERFLOWING, u16>(l, e, tail, &[], tail_out);
}

#[inline(always)]
fn encode_slice<L: Lanes, const ROUNDING: u8, const FIELD: u8, C: Codes>(
    l: L,
    e: &Encoder,
    src: &[f32],
    draws: &[u32],
    dst: &mut [C],
) {
    let (groups, tail) = src.as_chunks::<GROUP>();
    let (outputs, tail_out) = dst.as_chunks_mut::<GROUP>();
    let drawn = draws.as_chunks::<GROUP>().0;
    let none = [0; GROUP];
    for (index, (values, output)) in groups.iter().zip(outputs).enumerate() {
        let draws = if ROUNDING == STOCHASTIC { &drawn[index] } else { &none };
        encode_group::<L, ROUNDING, FIELD, C>(l, e, values, draws, output);
    }
    if !tail.is_empty() {
        let (mut values, mut drawn, mut codes) = ([0.0; GROUP], none, [<C as bytemuck::Zeroable>::zeroed(); GROUP]);
        values[..tail.len()].copy_from_slice(tail);
        if ROUNDING == STOCHASTIC {
            drawn[..tail.len()].copy_from_slice(&draws[src.len() - tail.len()..]);
        }
        encode_group::<L, ROUNDING, FIELD, C>(l, e, &values, &drawn, &mut codes);
        tail_out.copy_from_slice(&codes[..tail.len()]);
    }
}

#[inline(always)]
fn encode_aligned<L: Lanes, const ROUNDING: u8, C: Codes>(
    l: L,
    e: &Encoder,
    src: &[f32],
    draws: &[u32],
    dst: &mut [C],
) {
    if e.overflows_to_infinity() {
        encode_slice::<L, ROUNDING, OVERFLOWING, C>(l, e, src, draws, dst);
    } else {
        encode_slice::<L, ROUNDING, ALIGNED, C>(l, e, src, draws, dst);
    }
}

#[inline(always)]
fn encode_rounding<L: Halves, const ROUNDING: u8>(l: L, e: &Encoder, src: &[f32], draws: &[u32], dst: &mut [u8]) {
    match (e.format, e.format.item_size()) {
        (Format::F32, _) => super::recode(l, e, Format::F32, bytemuck::cast_slice(src), bytemuck::cast_slice_mut(dst)),
        (_, 4) => encode_aligned::<L, ROUNDING, u32>(l, e, src, draws, bytemuck::cast_slice_mut(dst)),
        (Format::Bf16, _) if L::ASKS && ROUNDING == NEAREST && e.overflows_to_infinity() => {
            encode_bfloat16_slice(l, e, src, bytemuck::cast_slice_mut(dst));
        }
        (_, 2) if e.is_aligned() => {
            encode_aligned::<L, ROUNDING, u16>(l, e, src, draws, bytemuck::cast_slice_mut(dst));
        }
        (_, 2) => encode_slice::<L, ROUNDING, REBIASED, u16>(l, e, src, draws, bytemuck::cast_slice_mut(dst)),
        _ => encode_slice::<L, ROUNDING, REBIASED, u8>(l, e, src, draws, dst),
    }
}

/// Encodes float32 values; `dst` holds their codes, `draws` one number each when rounding stochastically.
#[inline(always)]
pub(crate) fn encode<L: Halves>(l: L, e: &Encoder, src: &[f32], draws: &[u32], dst: &mut [u8]) {
    match e.rounding {
        Rounding::Nearest => encode_rounding::<L, NEAREST>(l, e, src, draws, dst),
        Rounding::Zero => encode_rounding::<L, ZERO>(l, e, src, draws, dst),
        Rounding::Stochastic => encode_rounding::<L, STOCHASTIC>(l, e, src, draws, dst),
    }
}
