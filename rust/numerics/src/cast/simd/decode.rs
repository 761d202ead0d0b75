//! Slices of codes as float32.

use crate::cast::Encoder;
use crate::format::Format;
use crate::simd::{LANES, Lanes, STREAM_READ_AHEAD, STREAM_WRITE_AHEAD, before_line, prefetch_all};

/// How the codes of a format become float32.
pub(crate) trait Decoder: Copy {
    /// An element in memory.
    type Code: bytemuck::Pod;
    /// Exactly; NaN payloads are unspecified.
    fn values<L: Lanes>(self, l: L, codes: &[Self::Code; LANES]) -> L::F;
}

#[derive(Clone, Copy)]
struct Float32;

impl Decoder for Float32 {
    type Code = f32;
    #[inline(always)]
    fn values<L: Lanes>(self, l: L, codes: &[f32; LANES]) -> L::F {
        l.load_f(codes)
    }
}

#[derive(Clone, Copy)]
struct Bfloat16;

impl Decoder for Bfloat16 {
    type Code = u16;
    #[inline(always)]
    fn values<L: Lanes>(self, l: L, codes: &[u16; LANES]) -> L::F {
        l.float(l.shl(l.load_u16(codes), 16))
    }
}

#[derive(Clone, Copy)]
struct Float16;

impl Decoder for Float16 {
    type Code = u16;
    #[inline(always)]
    fn values<L: Lanes>(self, l: L, codes: &[u16; LANES]) -> L::F {
        l.load_f16(codes)
    }
}

/// Block scales: the exponent field alone, but for 0, which stands for the subnormal 2^-127.
#[derive(Clone, Copy)]
pub(crate) struct Exponent;

impl Decoder for Exponent {
    type Code = u8;
    #[inline(always)]
    fn values<L: Lanes>(self, l: L, codes: &[u8; LANES]) -> L::F {
        let codes = l.load_u8(codes);
        let finite = l.max_u(l.shl(codes, 23), l.splat_i(0x0040_0000));
        l.float(l.select(l.eq(codes, l.splat_i(0xff)), l.splat_i(0x7fc0_0000), finite))
    }
}

/// Formats of at most 8 bits: the fields moved to where float32 has them, which some CPUs do in a third of the time that
/// looking values up takes.
#[derive(Clone, Copy)]
pub(crate) struct Narrow<const INFINITE: bool, const NAN: bool> {
    bits: u32,
    mantissa_bits: u32,
    max_code: u32,
    /// The smallest subnormal.
    step: f32,
    /// What the exponent fields differ by, in place.
    rebias: u32,
}

impl<const INFINITE: bool, const NAN: bool> Narrow<INFINITE, NAN> {
    #[inline(always)]
    pub(crate) fn new(format: Format) -> Self {
        let spec = format.spec();
        Self {
            bits: spec.bits,
            mantissa_bits: spec.mantissa_bits,
            max_code: spec.max_code,
            step: 2f64.powi(spec.min_exponent() - spec.mantissa_bits as i32) as f32,
            rebias: ((127 - spec.bias) as u32) << 23,
        }
    }
}

impl<const INFINITE: bool, const NAN: bool> Decoder for Narrow<INFINITE, NAN> {
    type Code = u8;
    #[inline(always)]
    fn values<L: Lanes>(self, l: L, codes: &[u8; LANES]) -> L::F {
        let codes = l.load_u8(codes);
        let magnitude = l.and(codes, l.splat_i((1 << (self.bits - 1)) - 1));
        let normal = l.add_i(l.shl(magnitude, 23 - self.mantissa_bits), l.splat_i(self.rebias));
        let subnormal = l.bits(l.mul_f(l.int_to_float(magnitude), l.splat_f(self.step)));
        let is_subnormal = l.lt_u(magnitude, l.splat_i(1 << self.mantissa_bits));
        let mut value = l.select(is_subnormal, subnormal, normal);
        if NAN {
            // The code above the largest finite one is infinity, if there is one.
            let not_nan = self.max_code + u32::from(INFINITE);
            value = l.select(l.lt_u(l.splat_i(not_nan), magnitude), l.splat_i(0x7fc0_0000), value);
        }
        if INFINITE {
            value = l.select(l.eq(magnitude, l.splat_i(self.max_code + 1)), l.splat_i(0x7f80_0000), value);
        }
        l.float(l.or(value, l.and(l.shl(codes, 32 - self.bits), l.splat_i(0x8000_0000))))
    }
}

/// What becomes of decoded values.
pub(crate) trait Finish: Copy {
    fn finish<L: Lanes>(self, l: L, values: L::F) -> L::F;
}

/// They stay as they are.
#[derive(Clone, Copy)]
struct Plain;

impl Finish for Plain {
    #[inline(always)]
    fn finish<L: Lanes>(self, _: L, values: L::F) -> L::F {
        values
    }
}

/// The payload of NaN is the one there is.
#[derive(Clone, Copy)]
pub(crate) struct Canonical(pub(crate) u32);

impl Finish for Canonical {
    #[inline(always)]
    fn finish<L: Lanes>(self, l: L, values: L::F) -> L::F {
        l.float(l.select(l.is_nan(values), l.splat_i(self.0), l.bits(values)))
    }
}

/// And no magnitude is above a limit.
#[derive(Clone, Copy)]
struct Saturated {
    limit: u32,
    nan_code: u32,
}

impl Finish for Saturated {
    #[inline(always)]
    fn finish<L: Lanes>(self, l: L, values: L::F) -> L::F {
        let bits = l.bits(values);
        let magnitude = l.min_u(l.and(bits, l.splat_i(0x7fff_ffff)), l.splat_i(self.limit));
        let kept = l.or(magnitude, l.and(bits, l.splat_i(0x8000_0000)));
        l.float(l.select(l.is_nan(values), l.splat_i(self.nan_code), kept))
    }
}

#[inline(always)]
fn decode_slice<L: Lanes, D: Decoder, F: Finish>(
    l: L,
    decoder: D,
    finish: F,
    is_streamed: bool,
    src: &[D::Code],
    dst: &mut [f32],
) {
    /// Vectors whose codes, the narrowest, are a cache line, which is to be asked for once.
    const TOGETHER: usize = 4;
    const GROUP: usize = TOGETHER * LANES;
    let head = before_line(dst);
    let ((first, src), (first_out, dst)) = (src.split_at(head), dst.split_at_mut(head));
    let (groups, rest) = src.as_chunks::<GROUP>();
    let (outputs, rest_out) = dst.as_chunks_mut::<GROUP>();
    decode_few(l, decoder, finish, first, first_out);
    for (codes, output) in groups.iter().zip(outputs) {
        prefetch_all(codes, STREAM_READ_AHEAD);
        let (codes, _) = codes.as_chunks();
        if is_streamed {
            let (output, _) = bytemuck::bytes_of_mut(output).as_chunks_mut();
            for place in 0..TOGETHER {
                l.stream_words(l.bits(finish.finish(l, decoder.values(l, &codes[place]))), &mut output[place]);
            }
            continue;
        }
        prefetch_all(output, STREAM_WRITE_AHEAD);
        let (output, _) = output.as_chunks_mut();
        for place in 0..TOGETHER {
            l.store_f(finish.finish(l, decoder.values(l, &codes[place])), &mut output[place]);
        }
    }
    decode_few(l, decoder, finish, rest, rest_out);
}

/// As [`decode_slice`], a vector at a time.
#[inline(always)]
fn decode_few<L: Lanes, D: Decoder, F: Finish>(l: L, decoder: D, finish: F, src: &[D::Code], dst: &mut [f32]) {
    for (codes, output) in src.chunks(LANES).zip(dst.chunks_mut(LANES)) {
        let (mut padded, mut values) = ([bytemuck::Zeroable::zeroed(); LANES], [0.0; LANES]);
        padded[..codes.len()].copy_from_slice(codes);
        l.store_f(finish.finish(l, decoder.values(l, &padded)), &mut values);
        output.copy_from_slice(&values[..codes.len()]);
    }
}

#[inline(always)]
fn decode_finished<L: Lanes, F: Finish>(
    l: L,
    format: Format,
    finish: F,
    is_streamed: bool,
    src: &[u8],
    dst: &mut [f32],
) {
    match format {
        Format::F32 | Format::Tf32 => decode_slice(l, Float32, finish, is_streamed, bytemuck::cast_slice(src), dst),
        Format::Bf16 => decode_slice(l, Bfloat16, finish, is_streamed, bytemuck::cast_slice(src), dst),
        Format::F16 => decode_slice(l, Float16, finish, is_streamed, bytemuck::cast_slice(src), dst),
        Format::F4E2M1Fn => decode_slice(l, Narrow::<false, false>::new(format), finish, is_streamed, src, dst),
        Format::F8E4M3Fn => decode_slice(l, Narrow::<false, true>::new(format), finish, is_streamed, src, dst),
        Format::F8E5M2 | Format::F8E4M3 | Format::F8E3M4 => {
            decode_slice(l, Narrow::<true, true>::new(format), finish, is_streamed, src, dst);
        }
        Format::F8E8M0Fnu => decode_slice(l, Exponent, finish, is_streamed, src, dst),
    }
}

/// Decodes codes to float32, exactly; NaN payloads are unspecified.
#[inline(always)]
pub(crate) fn decode<L: Lanes>(l: L, format: Format, src: &[u8], dst: &mut [f32]) {
    decode_finished(l, format, Plain, false, src, dst);
}

/// Decodes codes to what encoding their values to float32 gives, which moves no finite one.
#[inline(always)]
pub(crate) fn recode<L: Lanes>(l: L, e: &Encoder, format: Format, src: &[u8], dst: &mut [f32]) {
    if e.overflows_to_infinity() {
        decode_finished(l, format, Canonical(e.nan_code), e.is_streamed, src, dst);
    } else {
        decode_finished(l, format, Saturated { limit: e.limit, nan_code: e.nan_code }, e.is_streamed, src, dst);
    }
}
