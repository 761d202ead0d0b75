//! Elements times their scales, rounded, in one pass.

use super::shifted::Shifted;
use crate::cast::Encoder;
use crate::cast::simd::{
    Canonical, Codes, Decoder, Exponent, Finish, NEAREST, Narrow, OVERFLOWING, REBIASED, encode_vector,
};
use crate::format::Format;
use crate::mx::BLOCK;
use crate::mx::dequantize::{Dequantizer, factor};
use crate::simd::{HALVES, Halves, LANES, Lanes, STREAM_READ_AHEAD, STREAM_WRITE_AHEAD, prefetch, prefetch_all};

/// Vectors dequantised together.
const TOGETHER: usize = 4;
const GROUP: usize = TOGETHER * LANES;
/// The same as vectors of halves.
const PAIRS: usize = GROUP / HALVES;

/// Writes products in the format asked for.
trait Rounded: Copy {
    type Code: Codes;
    /// Whether bfloat16's bits are all there is to write.
    const SHORT: bool;
    fn store<L: Lanes>(l: L, e: &Encoder, products: [L::F; TOGETHER], to: &mut [Self::Code; GROUP]);
    /// Writes bfloat16.
    fn store_short<L: Halves>(l: L, codes: [L::I; PAIRS], to: &mut [Self::Code; GROUP]);
}

#[derive(Clone, Copy)]
struct ToFloat32;

impl Rounded for ToFloat32 {
    type Code = u32;
    const SHORT: bool = true;
    #[inline(always)]
    fn store<L: Lanes>(l: L, e: &Encoder, products: [L::F; TOGETHER], to: &mut [u32; GROUP]) {
        let (vectors, _) = to.as_chunks_mut();
        for place in 0..TOGETHER {
            l.store_i(l.bits(Canonical(e.nan_code).finish(l, products[place])), &mut vectors[place]);
        }
    }
    #[inline(always)]
    fn store_short<L: Halves>(l: L, codes: [L::I; PAIRS], to: &mut [u32; GROUP]) {
        let (vectors, _) = to.as_chunks_mut();
        for pair in 0..PAIRS {
            let [low, high] = l.raise_halves(codes[pair]);
            l.store_i(low, &mut vectors[2 * pair]);
            l.store_i(high, &mut vectors[2 * pair + 1]);
        }
    }
}

#[derive(Clone, Copy)]
struct To16Bits<const FIELD: u8>;

impl<const FIELD: u8> Rounded for To16Bits<FIELD> {
    type Code = u16;
    const SHORT: bool = FIELD == OVERFLOWING;
    #[inline(always)]
    fn store<L: Lanes>(l: L, e: &Encoder, products: [L::F; TOGETHER], to: &mut [u16; GROUP]) {
        let mut codes = [l.splat_i(0); TOGETHER];
        for place in 0..TOGETHER {
            codes[place] = encode_vector::<L, NEAREST, FIELD>(l, e, products[place], l.splat_i(0));
        }
        u16::store(l, e, codes, to);
    }
    #[inline(always)]
    fn store_short<L: Halves>(l: L, codes: [L::I; PAIRS], to: &mut [u16; GROUP]) {
        let (vectors, _) = to.as_chunks_mut();
        for pair in 0..PAIRS {
            l.store_halves(codes[pair], &mut vectors[pair]);
        }
    }
}

/// Where the factors of a group come from.
trait Scales {
    /// Scale bytes of a group.
    const COUNT: usize;
    fn factors<L: Lanes>(l: L, bytes: &[u8]) -> [L::F; TOGETHER];
    /// What the exponents of a group go up by, if all of its products are ordinary.
    fn raises<L: Halves, const BITS: u32, const MANTISSA: u32>(
        l: L,
        shifted: &Shifted<BITS, MANTISSA>,
        bytes: &[u8],
    ) -> Option<[L::I; PAIRS]>;
}

/// A scale for each block of a row.
struct OfBlocks;

impl Scales for OfBlocks {
    const COUNT: usize = GROUP / BLOCK;
    #[inline(always)]
    fn factors<L: Lanes>(l: L, bytes: &[u8]) -> [L::F; TOGETHER] {
        let mut factors = [l.splat_f(0.0); TOGETHER];
        for place in 0..TOGETHER {
            factors[place] = l.splat_f(factor(bytes[place * LANES / BLOCK]));
        }
        factors
    }
    #[inline(always)]
    fn raises<L: Halves, const BITS: u32, const MANTISSA: u32>(
        l: L,
        shifted: &Shifted<BITS, MANTISSA>,
        bytes: &[u8],
    ) -> Option<[L::I; PAIRS]> {
        let raises = [shifted.raise_all(l, bytes[0]), shifted.raise_all(l, bytes[1])];
        shifted.takes_all([bytes[0], bytes[1]]).then_some(raises)
    }
}

/// A scale for each column.
struct OfColumns;

impl Scales for OfColumns {
    const COUNT: usize = GROUP;
    #[inline(always)]
    fn factors<L: Lanes>(l: L, bytes: &[u8]) -> [L::F; TOGETHER] {
        let mut factors = [l.splat_f(0.0); TOGETHER];
        let (bytes, _) = bytes.as_chunks();
        for place in 0..TOGETHER {
            factors[place] = Exponent.values(l, &bytes[place]);
        }
        factors
    }
    #[inline(always)]
    fn raises<L: Halves, const BITS: u32, const MANTISSA: u32>(
        l: L,
        shifted: &Shifted<BITS, MANTISSA>,
        bytes: &[u8],
    ) -> Option<[L::I; PAIRS]> {
        let (bytes, _) = bytes.as_chunks();
        let byte = l.splat_i(0x00ff_00ff);
        let bytes = [l.and(l.load_halves(&bytes[0]), byte), l.and(l.load_halves(&bytes[1]), byte)];
        let raises = [shifted.raise_each(l, bytes[0]), shifted.raise_each(l, bytes[1])];
        if shifted.takes_each(l, bytes) { Some(raises) } else { None }
    }
}

#[inline(always)]
fn dequantize_group<L: Halves, D: Decoder<Code = u8>, R: Rounded, S: Scales, const BITS: u32, const MANTISSA: u32>(
    l: L,
    decoder: D,
    shifted: &Shifted<BITS, MANTISSA>,
    e: &Encoder,
    elements: &[u8; GROUP],
    scales: &[u8],
    out: &mut [R::Code; GROUP],
) {
    prefetch(elements, STREAM_READ_AHEAD);
    prefetch_all(out, STREAM_WRITE_AHEAD);
    if R::SHORT
        && let Some(raises) = S::raises(l, shifted, scales)
    {
        let (elements, _) = elements.as_chunks();
        let elements = [l.load_halves(&elements[0]), l.load_halves(&elements[1])];
        if shifted.are_finite(l, elements) {
            let codes = [shifted.codes(l, elements[0], raises[0]), shifted.codes(l, elements[1], raises[1])];
            return R::store_short(l, codes, out);
        }
    }
    let (elements, _) = elements.as_chunks();
    let mut products = S::factors(l, scales);
    for place in 0..TOGETHER {
        products[place] = l.mul_f(decoder.values(l, &elements[place]), products[place]);
    }
    R::store(l, e, products, out);
}

#[inline(always)]
fn dequantize<L: Halves, D: Decoder<Code = u8>, R: Rounded, S: Scales, const BITS: u32, const MANTISSA: u32>(
    l: L,
    decoder: D,
    shifted: &Shifted<BITS, MANTISSA>,
    e: &Encoder,
    elements: &[u8],
    scales: &[u8],
    out: &mut [R::Code],
) {
    let (groups, rest) = elements.as_chunks::<GROUP>();
    let (outputs, rest_out) = out.as_chunks_mut::<GROUP>();
    let (of_groups, of_rest) = scales.split_at(groups.len() * S::COUNT);
    for ((elements, scales), out) in groups.iter().zip(of_groups.chunks_exact(S::COUNT)).zip(outputs) {
        dequantize_group::<L, D, R, S, BITS, MANTISSA>(l, decoder, shifted, e, elements, scales, out);
    }
    if !rest.is_empty() {
        let (mut padded, mut padded_scales, mut values) =
            ([0; GROUP], [0; GROUP], [<R::Code as bytemuck::Zeroable>::zeroed(); GROUP]);
        padded[..rest.len()].copy_from_slice(rest);
        padded_scales[..of_rest.len()].copy_from_slice(of_rest);
        dequantize_group::<L, D, R, S, BITS, MANTISSA>(
            l,
            decoder,
            shifted,
            e,
            &padded,
            &padded_scales[..S::COUNT],
            &mut values,
        );
        rest_out.copy_from_slice(&values[..rest.len()]);
    }
}

#[inline(always)]
fn dequantize_rounded<L: Halves, R: Rounded, S: Scales>(
    l: L,
    d: &Dequantizer,
    elements: &[u8],
    scales: &[u8],
    out: &mut [u8],
) {
    let (e, out) = (&d.encoder, bytemuck::cast_slice_mut(out));
    match d.format {
        Format::F4E2M1Fn => {
            let (decoder, shifted) = (Narrow::<false, false>::new(d.format), Shifted::<4, 1>::new(d.format));
            dequantize::<L, _, R, S, _, _>(l, decoder, &shifted, e, elements, scales, out);
        }
        Format::F8E4M3Fn => {
            let (decoder, shifted) = (Narrow::<false, true>::new(d.format), Shifted::<8, 3>::new(d.format));
            dequantize::<L, _, R, S, _, _>(l, decoder, &shifted, e, elements, scales, out);
        }
        _ => {
            let (decoder, shifted) = (Narrow::<true, true>::new(d.format), Shifted::<8, 2>::new(d.format));
            dequantize::<L, _, R, S, _, _>(l, decoder, &shifted, e, elements, scales, out);
        }
    }
}

#[inline(always)]
fn dequantize_scaled<L: Halves, S: Scales>(l: L, d: &Dequantizer, elements: &[u8], scales: &[u8], out: &mut [u8]) {
    match d.encoder.format {
        Format::Bf16 => dequantize_rounded::<L, To16Bits<OVERFLOWING>, S>(l, d, elements, scales, out),
        Format::F16 => dequantize_rounded::<L, To16Bits<REBIASED>, S>(l, d, elements, scales, out),
        _ => dequantize_rounded::<L, ToFloat32, S>(l, d, elements, scales, out),
    }
}

/// Elements in blocks of 32, one scale each.
#[inline(always)]
pub(crate) fn dequantize_rows<L: Halves>(l: L, d: &Dequantizer, elements: &[u8], scales: &[u8], out: &mut [u8]) {
    dequantize_scaled::<L, OfBlocks>(l, d, elements, scales, out);
}

/// Elements with a scale each, as those of a row have where blocks run down.
#[inline(always)]
pub(crate) fn dequantize_columns<L: Halves>(l: L, d: &Dequantizer, elements: &[u8], scales: &[u8], out: &mut [u8]) {
    dequantize_scaled::<L, OfColumns>(l, d, elements, scales, out);
}
