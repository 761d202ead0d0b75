//! What quantisation did to values: sums over blocks, in float64.

use super::{BLOCK, MxView};
use crate::array::{AlignedBytes, ArrayView, element_count};
use crate::cast::{as_f32, decode};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::par;
use crate::simd::active_level;

/// Errors beside the largest magnitude of their block: no rounding of these formats moves a value by half of that.
pub const HISTOGRAM_LIMIT: f64 = 0.5;
/// An odd number puts zero in the middle of a bin.
pub const HISTOGRAM_BINS: usize = 2001;
/// Values of a partial sum, some ten microseconds of work; sums do not depend on the number of threads.
const PARTIAL: usize = 4096;

/// Sums over the values seen so far, each beside what its element and scale stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MxErrors {
    /// Values.
    pub values: u64,
    /// Values beyond the largest that their block can hold: clipped.
    pub saturated: u64,
    /// Values that were not zero and became zero.
    pub flushed: u64,
    /// Values in blocks that hold a NaN or an infinity; they count nowhere else.
    pub nonfinite: u64,
    /// Sum of squares of values.
    pub signal: f64,
    /// Sum of squares of errors.
    pub noise: f64,
    /// Largest error over its value, of those that were not flushed.
    pub max_relative_error: f64,
    /// Errors as parts of the largest magnitude of their block, in [`HISTOGRAM_BINS`] from minus to plus
    /// [`HISTOGRAM_LIMIT`].
    pub histogram: Option<Vec<i64>>,
}

impl MxErrors {
    /// Adds an array and what it was quantised to; `largest` is the largest finite element of that type.
    ///
    /// ```
    /// use trn3_numerics::{ArrayView, Format, MxErrors, MxView};
    ///
    /// // Elements 2 and 4 of scale 1, for 2.5 and 4.
    /// let (mut x, mut elements) = ([4.0_f32; 32], [6_u8; 32]);
    /// (x[0], elements[0]) = (2.5, 4);
    /// let quantized = MxView {
    ///     elements: ArrayView::from_codes(Format::F4E2M1Fn, &elements, &[32])?,
    ///     scales: ArrayView::from_codes(Format::F8E8M0Fnu, &[127], &[1])?,
    ///     axis: 0,
    /// };
    /// let mut errors = MxErrors::default();
    /// errors.add(&ArrayView::new(&x, &[32])?, &quantized, 6.0, false)?;
    /// assert_eq!((errors.values, errors.saturated), (32, 0));
    /// assert_eq!((errors.noise, errors.max_relative_error), (0.25, 0.2));
    /// # Ok::<(), trn3_numerics::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ, [`Error::Dtype`] for other types, [`Error::Interrupted`].
    pub fn add(&mut self, x: &ArrayView<'_>, quantized: &MxView<'_>, largest: f64, histogram: bool) -> Result<()> {
        let level = active_level()?;
        quantized.check("elements")?;
        let shape = quantized.elements.shape();
        if x.shape() != shape {
            return Err(Error::shape("x", x.shape(), format!("it must have the shape of elements, {shape:?}")));
        }
        if !matches!(x.format(), Format::F32 | Format::Bf16 | Format::F16) {
            return Err(Error::dtype("x", x.format(), "float32, bfloat16, float16"));
        }
        let inner = element_count(&shape[quantized.axis + 1..]);
        // One row of blocks: 32 values along the axis of each place behind it.
        let row = BLOCK * inner;
        let rows = x.len().checked_div(row).unwrap_or(0);
        let rows_each = (PARTIAL / row.max(1)).max(1);
        let mut partial = vec![Self::default(); rows.div_ceil(rows_each)];
        par::for_each(partial.iter_mut().enumerate(), |(number, sums)| {
            let first = number * rows_each;
            let last = (first + rows_each).min(rows);
            let (mut raw, mut decoded) = <(AlignedBytes, AlignedBytes)>::default();
            let codes = x.chunk(first * row..last * row, &mut raw);
            let values = as_f32(level, x.format(), codes, &mut decoded);
            let (mut raw, mut held) = <(AlignedBytes, AlignedBytes)>::default();
            let codes = quantized.elements.chunk(first * row..last * row, &mut raw);
            let elements = held.slice_mut::<f32>(values.len());
            decode(level, quantized.elements.format(), codes, elements);
            let (mut raw, mut held) = <(AlignedBytes, AlignedBytes)>::default();
            let codes = quantized.scales.chunk(first * inner..last * inner, &mut raw);
            let scales = held.slice_mut::<f32>((last - first) * inner);
            decode(level, Format::F8E8M0Fnu, codes, scales);
            for (line, scale) in scales.iter().enumerate() {
                let start = line / inner * row + line % inner;
                let places = (start..).step_by(inner).take(BLOCK);
                let block = places.map(|place| (f64::from(values[place]), f64::from(elements[place])));
                sums.add_block(block, f64::from(*scale), largest, histogram);
            }
        })?;
        partial.iter().for_each(|sums| self.merge(sums));
        Ok(())
    }

    /// In float64, where no product overflows: rounding up near float32's largest value would.
    fn add_block(
        &mut self,
        block: impl Iterator<Item = (f64, f64)> + Clone,
        scale: f64,
        largest: f64,
        histogram: bool,
    ) {
        self.values += BLOCK as u64;
        if scale.is_nan() {
            self.nonfinite += BLOCK as u64;
            return;
        }
        let (mut signal, mut noise, mut most) = (0.0, 0.0, 0.0_f64);
        for (value, element) in block.clone() {
            let (error, magnitude) = (element * scale - value, value.abs());
            signal += value * value;
            noise += error * error;
            most = most.max(magnitude);
            self.saturated += u64::from(magnitude > largest * scale);
            if element == 0.0 {
                self.flushed += u64::from(value != 0.0);
            } else if error.abs() > self.max_relative_error * magnitude {
                self.max_relative_error = self.max_relative_error.max(error.abs() / magnitude);
            }
        }
        self.signal += signal;
        self.noise += noise;
        if histogram {
            let bins = self.histogram.get_or_insert_with(|| vec![0; HISTOGRAM_BINS]);
            let per_part = (HISTOGRAM_BINS - 1) as f64 / (2.0 * HISTOGRAM_LIMIT);
            let unit = if most == 0.0 { 1.0 } else { most };
            for (value, element) in block {
                let place = ((element * scale - value) / unit * per_part).round_ties_even();
                let place = place + (HISTOGRAM_BINS / 2) as f64;
                bins[place.clamp(0.0, (HISTOGRAM_BINS - 1) as f64) as usize] += 1;
            }
        }
    }

    /// Adds what another has gathered.
    pub fn merge(&mut self, other: &Self) {
        self.values += other.values;
        self.saturated += other.saturated;
        self.flushed += other.flushed;
        self.nonfinite += other.nonfinite;
        self.signal += other.signal;
        self.noise += other.noise;
        self.max_relative_error = self.max_relative_error.max(other.max_relative_error);
        match (&mut self.histogram, &other.histogram) {
            (Some(mine), Some(others)) => mine.iter_mut().zip(others).for_each(|(mine, other)| *mine += other),
            (mine @ None, Some(others)) => *mine = Some(others.clone()),
            (_, None) => {}
        }
    }

    /// The ratio of signal to noise in decibels; infinite without noise, NaN without values.
    pub fn sqnr_db(&self) -> f64 {
        match self.noise == 0.0 {
            true if self.values > self.nonfinite => f64::INFINITY,
            true => f64::NAN,
            false => 10.0 * (self.signal / self.noise).log10(),
        }
    }
}
