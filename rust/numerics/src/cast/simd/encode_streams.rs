//! Rounding with draws as they are made.

use super::round::{ALIGNED, OVERFLOWING, REBIASED, STOCHASTIC, encode_vector};
use super::storage::Codes;
use crate::cast::Encoder;
use crate::simd::{LANES, Lanes, prefetch, prefetch_second};
use crate::xorwow::Streams;
use crate::xorwow::simd::{Sink, make};

/// How many bytes ahead the rows of values and of codes are asked for: sixteen of each, which share the caches.
const ROW_AHEAD: usize = 512;

/// Rows of values and of codes, `stride` vectors apart.
struct Rows<'a, C, const FIELD: u8> {
    e: &'a Encoder,
    stride: usize,
    values: &'a [[f32; LANES]],
    codes: &'a mut [[C; LANES]],
}

impl<L: Lanes, C: Codes, const FIELD: u8> Sink<L> for Rows<'_, C, FIELD> {
    #[inline(always)]
    fn put(&mut self, l: L, stream: usize, place: usize, draws: L::I) {
        let at = stream * self.stride + place;
        let (values, codes) = (&self.values[at], &mut self.codes[at]);
        prefetch(values, ROW_AHEAD);
        prefetch_second(codes, ROW_AHEAD);
        let rounded = encode_vector::<L, STOCHASTIC, FIELD>(l, self.e, l.load_f(values), draws);
        C::store_one(l, self.e, rounded, codes);
    }
}

#[inline(always)]
fn encode_rows<L: Lanes, C: Codes, const FIELD: u8>(
    l: L,
    e: &Encoder,
    streams: Streams<'_>,
    src: &[f32],
    dst: &mut [u8],
) {
    let (values, _) = src.as_chunks();
    let (codes, _) = bytemuck::cast_slice_mut::<_, C>(dst).as_chunks_mut();
    let stride = streams.stride / LANES;
    make(l, streams.state, streams.steps, &mut Rows::<C, FIELD> { e, stride, values, codes });
}

/// See [`crate::cast::encode_streams`].
#[inline(always)]
pub(crate) fn encode_streams<L: Lanes>(l: L, e: &Encoder, streams: Streams<'_>, src: &[f32], dst: &mut [u8]) {
    match (e.format.item_size(), e.is_aligned(), e.overflows_to_infinity()) {
        (4, _, true) => encode_rows::<L, u32, OVERFLOWING>(l, e, streams, src, dst),
        (4, ..) => encode_rows::<L, u32, ALIGNED>(l, e, streams, src, dst),
        (2, true, true) => encode_rows::<L, u16, OVERFLOWING>(l, e, streams, src, dst),
        (2, true, false) => encode_rows::<L, u16, ALIGNED>(l, e, streams, src, dst),
        (2, ..) => encode_rows::<L, u16, REBIASED>(l, e, streams, src, dst),
        _ => encode_rows::<L, u8, REBIASED>(l, e, streams, src, dst),
    }
}
