//! Elements times their scales, rounded, in one pass.

use super::shifted::Shifted;
use crate::cast::Encoder;
use crate::cast::simd::{
    Canonical, Codes, Decoder, Exponent, Finish, NEAREST, Narrow, OVERFLOWING, REBIASED, encode_vector,
};
use crate::format::Format;
use crate::mx::BLOCK;
use crate::mx::dequantize::{Dequantizer, factor};
use crate::simd::{
    HALVES, Halves, LANES, Lanes, STREAM_READ_AHEAD, STREAM_WRITE_AHEAD, before_line, prefetch, prefetch_all,
};

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
    fn store_short<L: Halves>(l: L, is_streamed: bool, codes: [L::I; PAIRS], to: &mut [Self::Code; GROUP]);
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
    fn store_short<L: Halves>(l: L, is_streamed: bool, codes: [L::I; PAIRS], to: &mut [u32; GROUP]) {
        for (pair, to) in to.as_chunks_mut::<HALVES>().0.iter_mut().enumerate() {
            let [low, high] = l.raise_halves(codes[pair]);
            if is_streamed {
                let (lines, _) = bytemuck::bytes_of_mut(to).as_chunks_mut();
                l.stream_words(low, &mut lines[0]);
                l.stream_words(high, &mut lines[1]);
            } else {
                let (vectors, _) = to.as_chunks_mut();
                l.store_i(low, &mut vectors[0]);
                l.store_i(high, &mut vectors[1]);
            }
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
    fn store_short<L: Halves>(l: L, is_streamed: bool, codes: [L::I; PAIRS], to: &mut [u16; GROUP]) {
        for (pair, to) in to.as_chunks_mut::<HALVES>().0.iter_mut().enumerate() {
            if is_streamed {
                l.stream_words(codes[pair], bytemuck::cast_mut(to));
            } else {
                l.store_halves(codes[pair], to);
            }
        }
    }
}

/// Where the factors of a group come from.
trait Scales: Copy {
    /// Scale bytes from one group to the next, and those of a group.
    const COUNT: usize;
    const SEEN: usize = Self::COUNT;
    fn factors<L: Lanes>(self, l: L, bytes: &[u8]) -> [L::F; TOGETHER];
    /// What the exponents of a group go up by, if all of its products are ordinary.
    fn raises<L: Halves, const BITS: u32, const MANTISSA: u32>(
        self,
        l: L,
        shifted: &Shifted<BITS, MANTISSA>,
        bytes: &[u8],
    ) -> Option<[L::I; PAIRS]>;
    /// The scale byte of an element.
    fn byte_of(self, bytes: &[u8], element: usize) -> u8;
}

/// A scale for each block of a row.
#[derive(Clone, Copy)]
struct OfBlocks;

impl Scales for OfBlocks {
    const COUNT: usize = GROUP / BLOCK;
    #[inline(always)]
    fn factors<L: Lanes>(self, l: L, bytes: &[u8]) -> [L::F; TOGETHER] {
        let mut factors = [l.splat_f(0.0); TOGETHER];
        for place in 0..TOGETHER {
            factors[place] = l.splat_f(factor(bytes[place * LANES / BLOCK]));
        }
        factors
    }
    #[inline(always)]
    fn raises<L: Halves, const BITS: u32, const MANTISSA: u32>(
        self,
        l: L,
        shifted: &Shifted<BITS, MANTISSA>,
        bytes: &[u8],
    ) -> Option<[L::I; PAIRS]> {
        let raises = [shifted.raise_all(l, bytes[0]), shifted.raise_all(l, bytes[1])];
        if shifted.takes_all([bytes[0], bytes[1]]) { Some(raises) } else { None }
    }
    #[inline(always)]
    fn byte_of(self, bytes: &[u8], element: usize) -> u8 {
        bytes[element / BLOCK]
    }
}

/// The same where groups begin so many elements into a block, an even number.
#[derive(Clone, Copy)]
struct WithinBlocks(usize);

impl Scales for WithinBlocks {
    const COUNT: usize = GROUP / BLOCK;
    const SEEN: usize = Self::COUNT + 1;
    #[inline(always)]
    fn factors<L: Lanes>(self, l: L, bytes: &[u8]) -> [L::F; TOGETHER] {
        let mut each = [0; GROUP];
        for (element, byte) in each.iter_mut().enumerate() {
            *byte = self.byte_of(bytes, element);
        }
        OfColumns.factors(l, &each)
    }
    #[inline(always)]
    fn raises<L: Halves, const BITS: u32, const MANTISSA: u32>(
        self,
        l: L,
        shifted: &Shifted<BITS, MANTISSA>,
        bytes: &[u8],
    ) -> Option<[L::I; PAIRS]> {
        let mut raises = [l.splat_i(0); 3];
        for block in 0..3 {
            raises[block] = shifted.raise_all(l, bytes[block]);
        }
        let begun = l.lt_u(l.load_i(&PLACES), l.splat_i(((BLOCK - self.0) / 2) as u32));
        let each = [l.select(begun, raises[0], raises[1]), l.select(begun, raises[1], raises[2])];
        if shifted.takes_all([bytes[0], bytes[1], bytes[2]]) { Some(each) } else { None }
    }
    #[inline(always)]
    fn byte_of(self, bytes: &[u8], element: usize) -> u8 {
        bytes[(self.0 + element) / BLOCK]
    }
}

/// Of lanes.
const PLACES: [u32; LANES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// A scale for each column.
#[derive(Clone, Copy)]
struct OfColumns;

impl Scales for OfColumns {
    const COUNT: usize = GROUP;
    #[inline(always)]
    fn factors<L: Lanes>(self, l: L, bytes: &[u8]) -> [L::F; TOGETHER] {
        let mut factors = [l.splat_f(0.0); TOGETHER];
        let (bytes, _) = bytes.as_chunks();
        for place in 0..TOGETHER {
            factors[place] = Exponent.values(l, &bytes[place]);
        }
        factors
    }
    #[inline(always)]
    fn raises<L: Halves, const BITS: u32, const MANTISSA: u32>(
        self,
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
    #[inline(always)]
    fn byte_of(self, bytes: &[u8], element: usize) -> u8 {
        bytes[element]
    }
}

/// What there is to know of all groups.
#[derive(Clone, Copy)]
struct Steps<'e, D, const BITS: u32, const MANTISSA: u32> {
    decoder: D,
    shifted: Shifted<BITS, MANTISSA>,
    e: &'e Encoder,
    is_streamed: bool,
}

impl<D: Decoder<Code = u8>, const BITS: u32, const MANTISSA: u32> Steps<'_, D, BITS, MANTISSA> {
    #[inline(always)]
    fn group<L: Halves, R: Rounded, S: Scales>(
        &self,
        l: L,
        of: S,
        elements: &[u8; GROUP],
        scales: &[u8],
        out: &mut [R::Code; GROUP],
    ) {
        prefetch(elements, STREAM_READ_AHEAD);
        if !self.is_streamed {
            prefetch_all(out, STREAM_WRITE_AHEAD);
        }
        if R::SHORT
            && L::LOOKUPS
            && let Some(raises) = of.raises(l, &self.shifted, scales)
        {
            let (elements, _) = elements.as_chunks();
            let elements = [l.load_halves(&elements[0]), l.load_halves(&elements[1])];
            if self.shifted.are_finite(l, elements) {
                let shifted = &self.shifted;
                let codes = [shifted.codes(l, elements[0], raises[0]), shifted.codes(l, elements[1], raises[1])];
                return R::store_short(l, self.is_streamed, codes, out);
            }
        }
        let (elements, _) = elements.as_chunks();
        let mut products = of.factors(l, scales);
        for place in 0..TOGETHER {
            products[place] = l.mul_f(self.decoder.values(l, &elements[place]), products[place]);
        }
        R::store(l, self.e, products, out);
    }

    /// Fewer elements than a group, or none.
    #[inline(always)]
    fn few<L: Halves, R: Rounded, S: Scales>(&self, l: L, of: S, elements: &[u8], scales: &[u8], out: &mut [R::Code]) {
        if elements.is_empty() {
            return;
        }
        let (mut padded, mut bytes) = ([0; GROUP], [0; GROUP]);
        padded[..elements.len()].copy_from_slice(elements);
        for (element, byte) in bytes[..elements.len()].iter_mut().enumerate() {
            *byte = of.byte_of(scales, element);
        }
        self.some::<L, R>(l, &padded, &bytes, 0, out);
    }

    /// Those of a group from one on that `out` has a place for.
    #[inline(always)]
    fn some<L: Halves, R: Rounded>(
        &self,
        l: L,
        elements: &[u8; GROUP],
        scales: &[u8; GROUP],
        from: usize,
        out: &mut [R::Code],
    ) {
        let mut values = [<R::Code as bytemuck::Zeroable>::zeroed(); GROUP];
        let kept = Self { is_streamed: false, ..*self };
        kept.group::<L, R, _>(l, OfColumns, elements, scales, &mut values);
        out.copy_from_slice(&values[from..][..out.len()]);
    }

    #[inline(always)]
    fn all<L: Halves, R: Rounded, S: Scales>(&self, l: L, of: S, elements: &[u8], scales: &[u8], out: &mut [R::Code]) {
        let (groups, rest) = elements.as_chunks::<GROUP>();
        let (outputs, rest_out) = out.as_chunks_mut::<GROUP>();
        for (index, (elements, out)) in groups.iter().zip(outputs).enumerate() {
            self.group::<L, R, S>(l, of, elements, &scales[index * S::COUNT..][..S::SEEN], out);
        }
        self.few::<L, R, S>(l, of, rest, &scales[groups.len() * S::COUNT..], rest_out);
    }

    /// Rows of elements with a scale each, whole lines of the output from `head` on; groups go on across rows. What is left
    /// at both ends is made as parts of groups that overlap.
    #[inline(always)]
    fn columns<L: Halves, R: Rounded>(&self, l: L, head: usize, elements: &[u8], scales: &[u8], out: &mut [R::Code]) {
        let columns = scales.len();
        let (Some(first_scales), Some(last_scales)) = (scales.first_chunk(), scales.last_chunk()) else {
            for (elements, out) in elements.chunks(columns).zip(out.chunks_mut(columns)) {
                self.few::<L, R, _>(l, OfColumns, elements, scales, out);
            }
            return;
        };
        let (Some(first), Some(last)) = (elements.first_chunk(), elements.last_chunk()) else { return };
        if self.is_streamed {
            // The one line that this shares with what follows is kept, and lines after it wait until it is there.
            prefetch(out.last().map_or(out.as_ptr(), std::ptr::from_ref), 0);
        }
        let mut joint = [0; 2 * GROUP];
        joint[..GROUP].copy_from_slice(last_scales);
        joint[GROUP..].copy_from_slice(first_scales);
        let (first_out, out) = out.split_at_mut(head);
        if head > 0 {
            self.some::<L, R>(l, first, first_scales, 0, first_out);
        }
        let (outputs, last_out) = out.as_chunks_mut::<GROUP>();
        let mut column = head;
        for (elements, out) in elements[head..].as_chunks::<GROUP>().0.iter().zip(outputs) {
            let beyond = (column + GROUP).saturating_sub(columns);
            let scales = if beyond == 0 { &scales[column..][..GROUP] } else { &joint[beyond..][..GROUP] };
            self.group::<L, R, _>(l, OfColumns, elements, scales, out);
            column = if beyond == 0 { column + GROUP } else { beyond };
        }
        if !last_out.is_empty() {
            self.some::<L, R>(l, last, last_scales, GROUP - last_out.len(), last_out);
        }
    }
}

/// Dequantises from where a streamed output has its first whole cache line.
#[inline(always)]
fn dequantize<L: Halves, D: Decoder<Code = u8>, R: Rounded, const BITS: u32, const MANTISSA: u32>(
    l: L,
    mut steps: Steps<'_, D, BITS, MANTISSA>,
    of_blocks: bool,
    elements: &[u8],
    scales: &[u8],
    out: &mut [R::Code],
) {
    let head = if steps.is_streamed { before_line(out) } else { 0 };
    let ((first, others), (first_out, others_out)) = (elements.split_at(head), out.split_at_mut(head));
    if !of_blocks {
        steps.columns::<L, R>(l, head, elements, scales, out);
    } else if head > 0 && head < BLOCK && head.is_multiple_of(2) {
        steps.few::<L, R, _>(l, OfBlocks, first, scales, first_out);
        steps.all::<L, R, _>(l, WithinBlocks(head), others, scales, others_out);
    } else {
        steps.is_streamed &= head == 0;
        steps.all::<L, R, _>(l, OfBlocks, elements, scales, out);
    }
}

#[inline(always)]
fn dequantize_rounded<L: Halves, R: Rounded>(
    l: L,
    d: &Dequantizer,
    of_blocks: bool,
    elements: &[u8],
    scales: &[u8],
    out: &mut [u8],
) {
    let (e, out) = (&d.encoder, bytemuck::cast_slice_mut(out));
    let is_streamed = R::SHORT && L::LOOKUPS && e.is_streamed;
    match d.format {
        Format::F4E2M1Fn => {
            let (decoder, shifted) = (Narrow::<false, false>::new(d.format), Shifted::<4, 1>::new(d.format));
            let steps = Steps { decoder, shifted, e, is_streamed };
            dequantize::<L, _, R, _, _>(l, steps, of_blocks, elements, scales, out);
        }
        Format::F8E4M3Fn => {
            let (decoder, shifted) = (Narrow::<false, true>::new(d.format), Shifted::<8, 3>::new(d.format));
            let steps = Steps { decoder, shifted, e, is_streamed };
            dequantize::<L, _, R, _, _>(l, steps, of_blocks, elements, scales, out);
        }
        _ => {
            let (decoder, shifted) = (Narrow::<true, true>::new(d.format), Shifted::<8, 2>::new(d.format));
            let steps = Steps { decoder, shifted, e, is_streamed };
            dequantize::<L, _, R, _, _>(l, steps, of_blocks, elements, scales, out);
        }
    }
}

#[inline(always)]
fn dequantize_scaled<L: Halves>(
    l: L,
    d: &Dequantizer,
    of_blocks: bool,
    elements: &[u8],
    scales: &[u8],
    out: &mut [u8],
) {
    match d.encoder.format {
        Format::Bf16 => dequantize_rounded::<L, To16Bits<OVERFLOWING>>(l, d, of_blocks, elements, scales, out),
        Format::F16 => dequantize_rounded::<L, To16Bits<REBIASED>>(l, d, of_blocks, elements, scales, out),
        _ => dequantize_rounded::<L, ToFloat32>(l, d, of_blocks, elements, scales, out),
    }
}

/// Elements in blocks of 32, one scale each.
#[inline(always)]
pub(crate) fn dequantize_rows<L: Halves>(l: L, d: &Dequantizer, elements: &[u8], scales: &[u8], out: &mut [u8]) {
    dequantize_scaled(l, d, true, elements, scales, out);
}

/// Rows of elements with a scale each, as those of a block's rows have where blocks run down.
#[inline(always)]
pub(crate) fn dequantize_columns<L: Halves>(l: L, d: &Dequantizer, elements: &[u8], scales: &[u8], out: &mut [u8]) {
    dequantize_scaled(l, d, false, elements, scales, out);
}
