//! Casting between formats: every rounding and overflow rule.

mod encoder;
pub(crate) mod scalar;
pub(crate) mod simd;

pub(crate) use encoder::Encoder;

use std::ops::Range;

use crate::array::{AlignedBytes, ArrayMut, ElementSource, element_count};
use crate::elementwise;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::simd::{ActiveLevel, LANES, active_level, before_line, dispatch};
use crate::xorwow::{Part, Streams, Xorwow};

dispatch! {
    /// Encodes float32 values; `dst` holds their codes, `draws` one number each when rounding stochastically.
    pub(crate) fn encode(e: &Encoder, src: &[f32], draws: &[u32], dst: &mut [u8]) = scalar::encode_slice, simd::encode;

    /// Rounds float32 values stochastically with the draws that sixteen streams make for them: `src` and `dst` begin with
    /// what the first stream's are for.
    fn encode_streams(e: &Encoder, streams: Streams<'_>, src: &[f32], dst: &mut [u8])
        = scalar::encode_streams, simd::encode_streams;

    /// Decodes codes to float32, exactly; NaN payloads are unspecified.
    pub(crate) fn decode(format: Format, src: &[u8], dst: &mut [f32]) = scalar::decode_slice, simd::decode;

    /// Decodes codes to what encoding their values to float32 gives.
    fn recode(e: &Encoder, format: Format, src: &[u8], dst: &mut [f32]) = scalar::recode_slice, simd::recode;
}

/// How a value between two neighbours of the destination format is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To the nearer neighbour, ties to the even code.
    #[default]
    Nearest,
    /// To the neighbour nearer zero; never overflows a finite value.
    Zero,
    /// Away from zero with the probability of the distance: one 32-bit draw `r` an element, up iff `d + r >= 2^32`,
    /// where `d` is the distance from the lower neighbour as a fraction of the step, times 2^32, rounded down.
    Stochastic,
}

impl Rounding {
    /// The name, as `rounding` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Rounding::Nearest => "nearest",
            Rounding::Zero => "zero",
            Rounding::Stochastic => "stochastic",
        }
    }
}

/// What becomes of magnitudes beyond the largest finite value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// Infinity where the format has one, else NaN; float4_e2m1fn has neither and saturates.
    #[default]
    Ieee,
    /// The largest finite value, for infinities too.
    Saturate,
}

/// Where stochastic rounding takes its draws from.
#[derive(Debug, Default)]
pub enum Draws<'a> {
    /// No draws: any other rounding.
    #[default]
    None,
    /// One draw an element, in C order.
    Given(&'a [u32]),
    /// A generator of L lanes gives N elements `ceil(N / L)` draws a lane, lane after lane; it advances if the call succeeds.
    Xorwow(&'a mut Xorwow),
}

/// Options of [`cast`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CastOptions {
    /// The rounding rule.
    pub rounding: Rounding,
    /// The overflow rule.
    pub overflow: Overflow,
}

/// Rounds every element of `source` to `out`'s format.
///
/// # Errors
/// [`Error::Dtype`] when the output is block scales, which [`crate::quantize_mx`] makes; [`Error::Shape`] when the shapes differ;
/// [`Error::Value`] when draws come without stochastic rounding, are missing with it, or are not one an element.
///
/// ```
/// use half::bf16;
/// use trn3_numerics::{ArrayMut, ArrayView, CastOptions, Draws, cast};
///
/// let x = [1.0f32, 1.005, 3.1415927];
/// let mut y = [bf16::ZERO; 3];
/// let source = ArrayView::new(&x, &[3])?.into();
/// cast(&source, ArrayMut::new(&mut y, &[3])?, CastOptions::default(), Draws::None)?;
/// assert_eq!(y.map(f32::from), [1.0, 1.0078125, 3.140625]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn cast(source: &ElementSource<'_>, out: ArrayMut<'_>, options: CastOptions, draws: Draws<'_>) -> Result<()> {
    let level = active_level()?;
    check_target(out.format())?;
    let encoder = Encoder::new(out.format(), options.rounding, options.overflow);
    let count = element_count(out.shape());
    let draws = draws.checked(options.rounding, count)?;
    if out.format() == Format::F32 && !matches!(draws, Draws::Xorwow(_)) {
        // Nothing is rounded, so that nothing is drawn for.
        let encoder = encoder.of(count);
        return elementwise::for_each_long_piece(source, out, |_, codes, out| {
            recode(level, &encoder, source.format(), codes, bytemuck::cast_slice_mut(out));
        });
    }
    match draws {
        Draws::None => for_each_f32_piece(level, source, out, |_, values, codes| {
            encode(level, &encoder, values, &[], codes);
        }),
        Draws::Given(given) => for_each_f32_piece(level, source, out, |start, values, codes| {
            encode(level, &encoder, values, &given[start..start + values.len()], codes);
        }),
        Draws::Xorwow(generator) => draw_and_round(level, source, out, &encoder, generator),
    }
}

/// [`cast`] of one code, by the definition: for hosts whose own loop has one number in hand. `draw` is read by stochastic
/// rounding alone.
///
/// The bits are those of [`cast`]. Nothing is looked up, allocated or handed to another thread; the caller's
/// floating-point environment is taken as the default one ([`crate::with_default_environment`] makes it so).
///
/// # Errors
/// [`Error::Dtype`] where `to` holds block scales.
///
/// ```
/// use trn3_numerics::{CastOptions, Format, cast_one};
///
/// let code = cast_one(Format::F32, 3.1415927f32.to_bits(), Format::Bf16, CastOptions::default(), 0)?;
/// assert_eq!(code, 0x4049);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
#[inline]
pub fn cast_one(from: Format, code: u32, to: Format, options: CastOptions, draw: u32) -> Result<u32> {
    check_target(to)?;
    Ok(scalar::stored(scalar::value_of(from, code), to, options.rounding, options.overflow, draw))
}

#[inline]
fn check_target(format: Format) -> Result<()> {
    if format == Format::F8E8M0Fnu {
        let allowed = "every other format; a block scale is an exponent, which quantize_mx chooses";
        return Err(Error::dtype("dtype", format, allowed));
    }
    Ok(())
}

/// As [`elementwise::for_each_piece`], the input decoded to float32.
fn for_each_f32_piece(
    level: ActiveLevel,
    source: &ElementSource<'_>,
    out: ArrayMut<'_>,
    kernel: impl Fn(usize, &[f32], &mut [u8]) + Sync,
) -> Result<()> {
    let format = source.format();
    if format.item_size() == 4 {
        return elementwise::for_each_long_piece(source, out, |start, codes, out| {
            kernel(start, bytemuck::cast_slice(codes), out);
        });
    }
    elementwise::for_each_piece(source, out, |start, codes, out, values| {
        kernel(start, as_f32(level, format, codes, values), out);
    })
}

/// Codes as float32: borrowed where they are that already, else decoded into `values`.
pub(crate) fn as_f32<'s>(
    level: ActiveLevel,
    format: Format,
    codes: &'s [u8],
    values: &'s mut AlignedBytes,
) -> &'s [f32] {
    if format.item_size() == 4 {
        return bytemuck::cast_slice(codes);
    }
    let values = values.slice_mut(codes.len() / format.item_size());
    decode(level, format, codes, values);
    values
}

/// Sixteen lanes' draws at a time: rounded with as they are made where the values are at hand as float32, else while they
/// are in the first cache.
fn draw_and_round(
    level: ActiveLevel,
    source: &ElementSource<'_>,
    out: ArrayMut<'_>,
    encoder: &Encoder,
    generator: &mut Xorwow,
) -> Result<()> {
    elementwise::check_shapes(source, &out)?;
    let (count, item) = (element_count(out.shape()), out.format().item_size());
    let is_at_hand = source.is_borrowed() && source.format().item_size() == 4 && out.format() != Format::F32;
    generator.consume(count, out.into_bytes(), item, |task, out| {
        let (mut codes, mut values) = (AlignedBytes::default(), AlignedBytes::default());
        let Range { start: first, end } = task.elements();
        let head = is_at_hand.then(|| {
            let values = elementwise::input(source, first, end - first, &[], &mut codes);
            before_line::<f32>(bytemuck::cast_slice(values))
        });
        task.for_each_part(head, |part| match part {
            Part::Draws(start, draws) => {
                let out = &mut out[(start - first) * item..][..draws.len() * item];
                let codes = elementwise::input(source, start, draws.len(), out, &mut codes);
                encode(level, encoder, as_f32(level, source.format(), codes, &mut values), draws, out);
            }
            Part::Streams(streams) => {
                let start = streams.start;
                let count = (LANES - 1) * streams.stride + streams.steps;
                let out = &mut out[(start - first) * item..][..count * item];
                let codes = elementwise::input(source, start, count, out, &mut codes);
                encode_streams(level, encoder, streams, bytemuck::cast_slice(codes), out);
            }
        });
    })
}

impl<'a> Draws<'a> {
    /// Refuses draws where none are wanted, their absence where they are, and a wrong number of them.
    pub(crate) fn checked(self, rounding: Rounding, count: usize) -> Result<Self> {
        match (&self, rounding) {
            (Draws::None, Rounding::Stochastic) => Err(Error::value(
                "rng",
                "missing",
                "rounding=\"stochastic\" needs an Xorwow or one uint32 draw an element",
            )),
            (Draws::Given(_) | Draws::Xorwow(_), Rounding::Nearest | Rounding::Zero) => {
                Err(Error::value("rng", "given", "it is used only with rounding=\"stochastic\""))
            }
            (Draws::Given(draws), _) if draws.len() != count => Err(Error::value(
                "rng",
                format!("{} draws", draws.len()),
                format!("one draw an element is needed: {count}"),
            )),
            _ => Ok(self),
        }
    }
}
