//! The accumulator side of every product: where it starts, what each K tile does to it, and how it leaves.
//!
//! A tile's chains join the accumulator by one float32 addition; the first tile's result starts it, or `c` plus that. A
//! bfloat16 accumulator (PSUM can hold either) is rounded after every tile.

use std::ops::Range;

use crate::array::{AlignedBytes, ArrayMut, ArrayView, element_count};
use crate::cast::{Draws, Encoder, Overflow, Rounding, as_f32, decode, encode};
use crate::elementwise::STAGE;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::par;
use crate::simd::ActiveLevel;

/// Draws are made for at most this many outputs at a time, which bounds their memory to 16 MiB.
pub(crate) const DRAWN: usize = 1 << 22;

/// The accumulator of one product. Outputs are counted in C order over the whole result, batch axes included.
pub(crate) struct Psum<'a> {
    level: ActiveLevel,
    c: Option<&'a ArrayView<'a>>,
    format: Format,
    rounding: Rounding,
    draws: Draws<'a>,
    outputs: usize,
    tiles: usize,
    encoder: Encoder,
}

impl<'a> Psum<'a> {
    /// Checks `c`, the output's format, the rounding and the draws of a product whose chains make `tiles` K tiles.
    pub(crate) fn new(
        level: ActiveLevel,
        c: Option<&'a ArrayView<'a>>,
        out: &ArrayMut<'_>,
        rounding: Rounding,
        draws: Draws<'a>,
        tiles: usize,
    ) -> Result<Self> {
        let format = out.format();
        if !matches!(format, Format::F32 | Format::Bf16) {
            return Err(Error::dtype("out_dtype", format, "float32, bfloat16"));
        }
        if let Some(c) = c {
            if !matches!(c.format(), Format::F32 | Format::Tf32 | Format::Bf16) {
                return Err(Error::dtype("c", c.format(), "float32, bfloat16"));
            }
            if c.shape() != out.shape() {
                let needed = format!("it must have exactly the output's shape {:?}", out.shape());
                return Err(Error::shape("c", c.shape(), needed));
            }
        }
        if format == Format::F32 && rounding != Rounding::Nearest {
            let needed = "with out_dtype=float32 nothing is rounded to it, so it must be \"nearest\"";
            return Err(Error::value("rounding", format!("{:?}", rounding.name()), needed));
        }
        let outputs = element_count(out.shape());
        let draws = draws.checked(rounding, outputs * tiles)?;
        let encoder = Encoder::new(Format::Bf16, rounding, Overflow::Ieee);
        Ok(Self { level, c, format, rounding, draws, outputs, tiles, encoder })
    }

    /// Whether the accumulator is rounded after every tile.
    pub(crate) fn is_rounded(&self) -> bool {
        self.format == Format::Bf16
    }

    /// Whether rounding needs draws.
    pub(crate) fn is_drawn(&self) -> bool {
        self.is_rounded() && self.rounding == Rounding::Stochastic
    }

    /// Whether the accumulator starts as `c`, so that the first tile is added to it as well.
    pub(crate) fn has_c(&self) -> bool {
        self.c.is_some()
    }

    /// Writes what the accumulators of some outputs start as: `c`, or zero.
    pub(crate) fn start(&self, outputs: Range<usize>, values: &mut [f32]) -> Result<()> {
        par::for_each(values.chunks_mut(STAGE).enumerate(), |(stage, values)| {
            let first = outputs.start + stage * STAGE;
            match self.c {
                Some(c) => {
                    let (mut codes, mut decoded) = (AlignedBytes::default(), AlignedBytes::default());
                    let codes = c.chunk(first..first + values.len(), &mut codes);
                    values.copy_from_slice(as_f32(self.level, c.format(), codes, &mut decoded));
                }
                None => values.fill(0.0),
            }
        })
    }

    /// The draws with which tile `tile` rounds some outputs, empty where none are needed.
    pub(crate) fn draws<'s>(
        &'s self,
        tile: usize,
        outputs: Range<usize>,
        buffer: &'s mut Vec<u32>,
    ) -> Result<&'s [u32]> {
        let first = tile * self.outputs + outputs.start;
        match &self.draws {
            Draws::Given(draws) if self.is_drawn() => Ok(&draws[first..first + outputs.len()]),
            Draws::Xorwow(generator) if self.is_drawn() => {
                buffer.resize(outputs.len(), 0);
                generator.span(self.outputs * self.tiles, first, buffer)?;
                Ok(buffer)
            }
            _ => Ok(&[]),
        }
    }

    /// Consumes the draws of a finished product.
    pub(crate) fn consume(self) -> Result<()> {
        match self.draws {
            Draws::Xorwow(generator) => generator.advance(self.outputs * self.tiles),
            Draws::None | Draws::Given(_) => Ok(()),
        }
    }

    /// Rounds accumulators to bfloat16 in place; `draws` belong to the same outputs.
    pub(crate) fn round(&self, values: &mut [f32], draws: &[u32]) {
        let mut codes = [0u16; STAGE];
        for (stage, values) in values.chunks_mut(STAGE).enumerate() {
            let draws = draws.get(stage * STAGE..).unwrap_or(&[]);
            let codes: &mut [u8] = bytemuck::cast_slice_mut(&mut codes[..values.len()]);
            encode(self.level, &self.encoder, values, &draws[..values.len().min(draws.len())], codes);
            decode(self.level, Format::Bf16, codes, values);
        }
    }

    /// Writes finished accumulators to the output, NaN canonical; bfloat16 ones are rounded to nearest, which changes
    /// only those that no tile has rounded.
    pub(crate) fn finish(&self, values: &[f32], out: &mut [u8]) -> Result<()> {
        let encoder = Encoder::new(self.format, Rounding::Nearest, Overflow::Ieee);
        let tasks = values.chunks(STAGE).zip(out.chunks_mut(STAGE * self.format.item_size()));
        par::for_each(tasks, |(values, codes)| encode(self.level, &encoder, values, &[], codes))
    }
}
