//! Microscaling: blocks of 32 elements that share a power-of-two scale.

mod dequantize;
mod layout;
mod quantizer;
mod scalar;
mod simd;
mod statistics;

pub use dequantize::dequantize_mx;
pub use layout::{X4Word, from_trn3_layout, pack_x4, scale_rows, to_trn3_layout, unpack_x4};
pub use statistics::{HISTOGRAM_BINS, HISTOGRAM_LIMIT, MxErrors};

use std::fmt;
use std::str::FromStr;

use crate::array::{AlignedBytes, ArrayMut, ArrayView, element_count};
use crate::cast::{Draws, Rounding, as_f32};
use crate::elementwise::{STAGE, TASK, task_length};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::par;
use crate::simd::{ActiveLevel, active_level, dispatch};
use crate::xorwow::Xorwow;
use dequantize::Dequantizer;
use quantizer::Quantizer;

dispatch! {
    /// Quantises consecutive blocks of 32; `draws` are one an element when rounding stochastically.
    fn quantize_rows(q: &Quantizer, src: &[f32], draws: &[u32], elements: &mut [u8], scales: &mut [u8])
        = scalar::quantize_rows, simd::quantize_rows;

    /// Quantises blocks that run down 32 rows, one a column, of which there are [`STRIP`] at most. What comes next lies
    /// `ahead` elements on.
    fn quantize_columns(
        q: &Quantizer, rows: &[&[f32]], draws: &[&[u32]], elements: &mut [&mut [u8]], scales: &mut [u8], ahead: usize
    ) = scalar::quantize_columns, simd::quantize_columns;

    /// Values of consecutive blocks of 32, one scale each.
    fn dequantize_rows(d: &Dequantizer, elements: &[u8], scales: &[u8], out: &mut [u8])
        = scalar::dequantize_rows, simd::dequantize_rows;

    /// Values of whole rows of elements with a scale each, as those of a block's rows have where blocks run down.
    fn dequantize_columns(d: &Dequantizer, elements: &[u8], scales: &[u8], out: &mut [u8])
        = scalar::dequantize_columns, simd::dequantize_columns;

    /// Multiplies each value by its factor.
    pub(crate) fn scale_each(values: &mut [f32], factors: &[f32]) = scalar::scale_each, simd::scale_each;

    /// Multiplies each block of 32 values by its factor; the last block may be shorter.
    pub(crate) fn scale_blocks(values: &mut [f32], factors: &[f32]) = scalar::scale_blocks, simd::scale_blocks;
}

/// Elements that share a scale.
pub const BLOCK: usize = 32;

/// How a block's exponent E follows from its largest magnitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleRule {
    /// floor(log2 amax) - (Emax - 1): nothing saturates. The QuantizeMX instruction since NKI 0.5.
    Trn3,
    /// floor(log2 amax) - Emax: clips. The sample rule of OCP MX 1.0 and QuantizeMX before NKI 0.5.
    Ocp,
    /// The smallest E with amax <= largest * 2^E.
    Rceil,
}

impl ScaleRule {
    /// Every rule.
    pub const ALL: [ScaleRule; 3] = [ScaleRule::Trn3, ScaleRule::Ocp, ScaleRule::Rceil];

    /// The rule a format takes when none is named: `Trn3` for fp8, `Ocp` for fp4, which QuantizeMX does not write and
    /// whose error the other rule would raise by a quarter.
    pub fn default_for(format: Format) -> Self {
        if format == Format::F4E2M1Fn { ScaleRule::Ocp } else { ScaleRule::Trn3 }
    }

    /// The name, as `scale_rule` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            ScaleRule::Trn3 => "trn3",
            ScaleRule::Ocp => "ocp",
            ScaleRule::Rceil => "rceil",
        }
    }
}

impl fmt::Display for ScaleRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ScaleRule {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        ScaleRule::ALL
            .into_iter()
            .find(|rule| rule.name() == name)
            .ok_or_else(|| Error::value("scale_rule", format!("{name:?}"), "allowed: \"trn3\", \"ocp\", \"rceil\""))
    }
}

/// Options of [`quantize_mx`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MxOptions {
    /// The scale rule.
    pub scale_rule: ScaleRule,
    /// How elements are rounded.
    pub rounding: Rounding,
}

/// A quantised array: elements, and a scale for each 32 of them along `axis`.
#[derive(Clone, Debug)]
pub struct MxView<'a> {
    /// Element codes, float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
    pub elements: ArrayView<'a>,
    /// Scale codes, float8_e8m0fnu, the elements' shape with `axis` divided by 32.
    pub scales: ArrayView<'a>,
    /// The blocked axis.
    pub axis: usize,
}

pub(crate) const ELEMENT_FORMATS: [Format; 3] = [Format::F8E4M3Fn, Format::F8E5M2, Format::F4E2M1Fn];
const ELEMENT_NAMES: &str = "float8_e4m3fn, float8_e5m2, float4_e2m1fn";

/// The shape of the scales of an array blocked along `axis`.
pub(crate) fn scale_shape(argument: &'static str, shape: &[usize], axis: usize) -> Result<Vec<usize>> {
    if axis >= shape.len() {
        return Err(Error::value("axis", axis, format!("{argument} has {} axes", shape.len())));
    }
    if !shape[axis].is_multiple_of(BLOCK) {
        let needed = format!("axis {axis} has length {}, which must be a multiple of {BLOCK}", shape[axis]);
        return Err(Error::shape(argument, shape, needed));
    }
    let mut scales = shape.to_vec();
    scales[axis] /= BLOCK;
    Ok(scales)
}

impl MxView<'_> {
    /// Refuses formats and shapes that do not make a quantised array.
    pub(crate) fn check(&self, argument: &'static str) -> Result<()> {
        if !ELEMENT_FORMATS.contains(&self.elements.format()) {
            return Err(Error::dtype(argument, self.elements.format(), ELEMENT_NAMES));
        }
        if self.scales.format() != Format::F8E8M0Fnu {
            return Err(Error::dtype("scales", self.scales.format(), Format::F8E8M0Fnu));
        }
        let shape = scale_shape(argument, self.elements.shape(), self.axis)?;
        if self.scales.shape() != shape {
            return Err(Error::shape("scales", self.scales.shape(), format!("it must have shape {shape:?}")));
        }
        Ok(())
    }
}

/// Columns of a block strip worked at a time: 32 rows of them as float32 stay in L2 from one pass to the next, and are
/// long enough for hardware to run ahead of them.
const STRIP: usize = 1 << 11;
/// The same where rows are gathered or converted first: more scratch is given back to the system after each strip, which
/// clears it again for the next.
const STAGED: usize = 1 << 10;
/// Draws are made for at most this many elements at a time, which bounds their memory to 16 MiB.
const DRAWN: usize = 1 << 22;

/// Quantises `x` in blocks of 32 along `axis`, whose length must be a multiple of 32.
///
/// `elements` has x's shape and the format float8_e4m3fn, float8_e5m2 or float4_e2m1fn; `scales` is float8_e8m0fnu with
/// `axis` divided by 32. E is clamped to [-127, 127] and the scale byte is E + 127; an all-zero block has byte 0;
/// elements are x * 2^-E cast with saturation. A block with a NaN or infinity gets byte 255 and NaN elements (fp4: 0)
/// **(choice)**.
///
/// # Errors
/// [`Error::Dtype`] for formats other than float32, bfloat16, float16 in and the three above out; [`Error::Shape`] and
/// [`Error::Value`] for shapes, axes and draws that do not fit.
///
/// ```
/// use trn3_numerics::{ArrayMut, ArrayView, Draws, Format, MxOptions, Rounding, ScaleRule, quantize_mx};
///
/// let x: Vec<f32> = (0..32).map(|i| i as f32).collect();
/// let (mut elements, mut scales) = ([0u8; 32], [0u8; 1]);
/// quantize_mx(
///     &ArrayView::new(&x, &[32])?,
///     0,
///     ArrayMut::from_codes(Format::F8E4M3Fn, &mut elements, &[32])?,
///     ArrayMut::from_codes(Format::F8E8M0Fnu, &mut scales, &[1])?,
///     MxOptions { scale_rule: ScaleRule::Trn3, rounding: Rounding::Nearest },
///     Draws::None,
/// )?;
/// assert_eq!(scales, [127 + 4 - 7]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn quantize_mx(
    x: &ArrayView<'_>,
    axis: usize,
    elements: ArrayMut<'_>,
    scales: ArrayMut<'_>,
    options: MxOptions,
    draws: Draws<'_>,
) -> Result<()> {
    let level = active_level()?;
    if !matches!(x.format(), Format::F32 | Format::Tf32 | Format::F16 | Format::Bf16) {
        return Err(Error::dtype("x", x.format(), "float32, bfloat16, float16"));
    }
    if !ELEMENT_FORMATS.contains(&elements.format()) {
        return Err(Error::dtype("dtype", elements.format(), ELEMENT_NAMES));
    }
    let scales_shape = scale_shape("x", x.shape(), axis)?;
    elements.expect("out.elements", elements.format(), x.shape())?;
    scales.expect("out.scales", Format::F8E8M0Fnu, &scales_shape)?;
    let draws = draws.checked(options.rounding, x.len())?;
    if x.is_empty() {
        return Ok(());
    }
    let job = Job {
        x,
        level,
        quantizer: Quantizer::new(elements.format(), options.scale_rule, options.rounding),
        inner: element_count(&x.shape()[axis + 1..]),
    };
    let (elements, scales) = (elements.into_bytes(), scales.into_bytes());
    match draws {
        Draws::None => job.run(0, elements, scales, &[]),
        Draws::Given(given) => job.run(0, elements, scales, given),
        Draws::Xorwow(generator) => {
            job.run_drawing(elements, scales, generator)?;
            generator.advance(x.len())
        }
    }
}

/// Quantisation of one array: `inner` elements lie between neighbours of a block.
struct Job<'a> {
    x: &'a ArrayView<'a>,
    level: ActiveLevel,
    quantizer: Quantizer,
    inner: usize,
}

impl Job<'_> {
    /// Quantises whole units (32 x inner elements) from element `start` on; `draws` belong to the same elements.
    fn run(&self, start: usize, elements: &mut [u8], scales: &mut [u8], draws: &[u32]) -> Result<()> {
        let length = task_length(elements.len(), 1)?;
        if self.inner == 1 {
            let tasks = elements.chunks_mut(length).zip(scales.chunks_mut(length / BLOCK)).enumerate();
            return par::for_each(tasks, |(task, (elements, scales))| {
                let draws = draws.get(task * length..).unwrap_or(&[]);
                self.rows(start + task * length, elements, scales, draws);
            });
        }
        let unit = BLOCK * self.inner;
        if self.inner <= TASK {
            let units = (length / unit).max(1);
            let tasks = elements.chunks_mut(units * unit).zip(scales.chunks_mut(units * self.inner)).enumerate();
            return par::for_each(tasks, |(task, (elements, scales))| {
                for (index, (elements, scales)) in
                    elements.chunks_mut(unit).zip(scales.chunks_mut(self.inner)).enumerate()
                {
                    let first = (task * units + index) * unit;
                    let draws = draws.get(first..).unwrap_or(&[]);
                    let mut rows: Vec<_> = elements.chunks_mut(self.inner).collect();
                    let draws = std::array::from_fn(|row| draws.get(row * self.inner..).unwrap_or(&[]));
                    self.strips(start + first, 0, &mut rows, scales, draws);
                }
            });
        }
        // A unit so wide that it is cut into tasks itself.
        for (index, (elements, scales)) in elements.chunks_mut(unit).zip(scales.chunks_mut(self.inner)).enumerate() {
            let draws = draws.get(index * unit..).unwrap_or(&[]);
            let rows = std::array::from_fn(|row| draws.get(row * self.inner..).unwrap_or(&[]));
            self.wide(start + index * unit, 0, elements.chunks_mut(self.inner).collect(), scales, rows)?;
        }
        Ok(())
    }

    /// Columns from `column` on of the unit at element `start`, cut into tasks.
    fn wide(
        &self,
        start: usize,
        column: usize,
        rows: Vec<&mut [u8]>,
        scales: &mut [u8],
        draws: [&[u32]; BLOCK],
    ) -> Result<()> {
        let mut rows: Vec<_> = rows.into_iter().map(|row| row.chunks_mut(STRIP)).collect();
        let strips = scales.chunks_mut(STRIP).enumerate().map(|(strip, scales)| {
            let rows: Vec<_> = rows.iter_mut().filter_map(Iterator::next).collect();
            (strip * STRIP, rows, scales)
        });
        par::for_each(strips, |(first, mut rows, scales)| {
            let draws = draws.map(|draws| draws.get(first..).unwrap_or(&[]));
            self.strips(start, column + first, &mut rows, scales, draws);
        })
    }

    /// As [`Self::run`] on the whole array with draws from a generator, made for a bounded number of elements at a time.
    fn run_drawing(&self, elements: &mut [u8], scales: &mut [u8], generator: &Xorwow) -> Result<()> {
        let total = self.x.len();
        let unit = BLOCK * self.inner;
        let mut draws = Vec::new();
        if unit <= DRAWN {
            let slab = DRAWN / unit * unit;
            for (index, (elements, scales)) in
                elements.chunks_mut(slab).zip(scales.chunks_mut(slab / BLOCK)).enumerate()
            {
                draws.resize(elements.len(), 0);
                generator.span(total, index * slab, &mut draws)?;
                self.run(index * slab, elements, scales, &draws)?;
            }
            return Ok(());
        }
        const WIDTH: usize = DRAWN / BLOCK;
        for (index, (elements, scales)) in elements.chunks_mut(unit).zip(scales.chunks_mut(self.inner)).enumerate() {
            let mut rows: Vec<_> = elements.chunks_mut(self.inner).map(|row| row.chunks_mut(WIDTH)).collect();
            for (slab, scales) in scales.chunks_mut(WIDTH).enumerate() {
                let column = slab * WIDTH;
                draws.resize(BLOCK * scales.len(), 0);
                for (row, draws) in draws.chunks_mut(scales.len()).enumerate() {
                    generator.span(total, index * unit + row * self.inner + column, draws)?;
                }
                let drawn = std::array::from_fn(|row| &draws[row * scales.len()..][..scales.len()]);
                let rows = rows.iter_mut().filter_map(Iterator::next).collect();
                self.wide(index * unit, column, rows, scales, drawn)?;
            }
        }
        Ok(())
    }

    fn rows(&self, start: usize, elements: &mut [u8], scales: &mut [u8], draws: &[u32]) {
        let (mut codes, mut values) = (AlignedBytes::default(), AlignedBytes::default());
        let stages = elements.chunks_mut(STAGE).zip(scales.chunks_mut(STAGE / BLOCK)).enumerate();
        for (stage, (elements, scales)) in stages {
            let (from, count) = (stage * STAGE, elements.len());
            let codes = self.x.chunk(start + from..start + from + count, &mut codes);
            let src = as_f32(self.level, self.x.format(), codes, &mut values);
            let draws = draws.get(from..from + count).unwrap_or(&[]);
            quantize_rows(self.level, &self.quantizer, src, draws, elements, scales);
        }
    }

    /// The columns `column..` of the unit at element `start`; `rows`, `scales` and `draws` begin with the first of them.
    fn strips(&self, start: usize, column: usize, rows: &mut [&mut [u8]], scales: &mut [u8], draws: [&[u32]; BLOCK]) {
        let mut scratch: [(AlignedBytes, AlignedBytes); BLOCK] = Default::default();
        let width = if self.x.format().item_size() == 4 && self.x.is_dense() { STRIP } else { STAGED };
        for (strip, scales) in scales.chunks_mut(width).enumerate() {
            let (first, count) = (strip * width, scales.len());
            let mut src: [&[f32]; BLOCK] = [&[]; BLOCK];
            for (row, (codes, values)) in scratch.iter_mut().enumerate() {
                let from = start + row * self.inner + column + first;
                src[row] = as_f32(self.level, self.x.format(), self.x.chunk(from..from + count, codes), values);
            }
            let drawn = draws.map(|draws| draws.get(first..first + count).unwrap_or(&[]));
            let mut elements: Vec<_> = rows.iter_mut().map(|row| &mut row[first..first + count]).collect();
            let place = column + first;
            let ahead = if place + width < self.inner { width } else { BLOCK * self.inner - place };
            quantize_columns(self.level, &self.quantizer, &src, &drawn, &mut elements, scales, ahead);
        }
    }
}
