//! The fast exponent unit: e^(x - bias), and sums along rows.

pub(crate) mod scalar;
pub(crate) mod simd;
mod sums;

use std::ops::Range;

use crate::array::{AlignedBytes, ArrayMut, ElementSource, element_count};
use crate::cast::scalar::{stored, value_of};
use crate::cast::{Overflow, Rounding};
use crate::elementwise::{self, STAGE, TASK};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::par;
use crate::simd::{ActiveLevel, Traffic, active_level, before_line, dispatch, settle};

dispatch! {
    /// e^(x - bias) of codes in `from`, rounded to nearest in `to`; one bias an element.
    fn exp_slice(from: Format, to: Format, src: &[u8], bias: &[f32], dst: &mut [u8], traffic: Traffic)
        = scalar::exp_slice, simd::exp;

    /// Adds the next elements of up to sixteen rows of equal length to the rows' running sums, in ascending order.
    fn sum_rows(format: Format, rows: &[&[u8]], sums: &mut [f32]) = scalar::sum_rows, simd::sum_rows;
}

const FORMATS: [Format; 3] = [Format::F32, Format::Bf16, Format::F16];

/// What [`exp`] subtracts from its input, in float32.
#[derive(Clone, Copy, Debug)]
pub enum Bias<'a> {
    /// One value for all elements.
    Scalar(f32),
    /// One value for each row: for all axes but the last, in C order.
    PerRow(&'a [f32]),
}

/// Writes e^(x - bias) for every element of `source`, x - bias rounded to float32, in the format of `out`.
///
/// Both are float32, bfloat16 or float16, in any combination. A float32 result is within 1 ulp of the true value,
/// subnormal results too; from a float32 input to a 16-bit format it is that result, rounded to nearest; from a 16-bit
/// input to a 16-bit format it is correctly rounded. e^-inf = 0, e^inf = inf, NaN stays NaN.
///
/// `sums`, where given, receives one float32 for each row, in C order: the elements of the row as `out` holds them,
/// added in ascending order along the last axis, each addition rounded to float32; +0 for rows of length 0.
///
/// # Errors
/// [`Error::Dtype`] for other formats; [`Error::Shape`] when the shapes differ, when `bias` or `sums` is not one value a
/// row, or when either asks for rows of a 0-d array.
///
/// ```
/// use trn3_numerics::{ArrayMut, ArrayView, Bias, exp};
///
/// let x = [1.0f32, 0.0, 3.0, 3.0];
/// let (mut y, mut sums) = ([0.0f32; 4], [0.0f32; 2]);
/// let source = ArrayView::new(&x, &[2, 2])?.into();
/// exp(&source, Bias::PerRow(&[1.0, 3.0]), ArrayMut::new(&mut y, &[2, 2])?, Some(&mut sums))?;
/// assert_eq!(y, [1.0, 0.36787945, 1.0, 1.0]);
/// assert_eq!(sums, [1.3678794, 2.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn exp(source: &ElementSource<'_>, bias: Bias<'_>, out: ArrayMut<'_>, sums: Option<&mut [f32]>) -> Result<()> {
    let level = active_level()?;
    check_formats(source.format(), out.format())?;
    elementwise::check_shapes(source, &out)?;
    let rows = Rows::of(out.shape());
    if let Bias::PerRow(values) = bias {
        rows.check("bias", values.len())?;
    }
    if let Some(sums) = &sums {
        rows.check("sums", sums.len())?;
    }
    // Sums are of what is written; and shorter results do not fill lines.
    let traffic = match Traffic::of(element_count(out.shape()) * out.format().item_size()) {
        Traffic::Streamed if sums.is_some() || out.format() != Format::F32 => Traffic::Asked,
        traffic => traffic,
    };
    let unit = Unit { source, bias, to: out.format(), columns: rows.columns, level, traffic };
    match sums {
        Some(sums) => sums::exp_with_sums(&unit, out.into_bytes(), sums),
        None => {
            let item = unit.item_size();
            par::for_each(out.into_bytes().chunks_mut(TASK * item).enumerate(), |(task, piece)| {
                unit.exp_run(task * TASK, piece, &mut Scratch::default());
                settle();
            })
        }
    }
}

/// [`exp`] of one code, by the definition: e^(x - bias). What [`crate::cast_one`] says of one code holds.
///
/// # Errors
/// [`Error::Dtype`] for formats that the exponent unit does not take.
#[inline]
pub fn exp_one(from: Format, code: u32, bias: f32, to: Format) -> Result<u32> {
    check_formats(from, to)?;
    let difference = value_of(from, code) - bias;
    let is_narrow = from.item_size() == 2 && to.item_size() == 2;
    let value = if is_narrow { scalar::exp_odd(difference) } else { scalar::exp_f32(difference) };
    Ok(stored(value, to, Rounding::Nearest, Overflow::Ieee, 0))
}

#[inline]
fn check_formats(from: Format, to: Format) -> Result<()> {
    for (argument, format) in [("x", from), ("out_dtype", to)] {
        if !FORMATS.contains(&format) {
            return Err(Error::dtype(argument, format, FORMATS.map(|format| format.to_string()).join(", ")));
        }
    }
    Ok(())
}

/// An array as rows along its last axis.
struct Rows<'a> {
    shape: &'a [usize],
    count: usize,
    columns: usize,
}

impl<'a> Rows<'a> {
    fn of(shape: &'a [usize]) -> Self {
        match shape.split_last() {
            Some((&columns, outer)) => Self { shape, count: element_count(outer), columns },
            None => Self { shape, count: 1, columns: 1 },
        }
    }

    fn check(&self, argument: &'static str, got: usize) -> Result<()> {
        let Some((_, outer)) = self.shape.split_last() else {
            let needed = format!("{argument}: one value a row needs an axis that rows lie along");
            return Err(Error::shape("x", self.shape, needed));
        };
        if got != self.count {
            let needed = format!("one value for each row is needed: {} for rows of shape {outer:?}", self.count);
            return Err(Error::shape(argument, &[got], needed));
        }
        Ok(())
    }
}

/// One call: all that does not change from element to element.
struct Unit<'a> {
    source: &'a ElementSource<'a>,
    bias: Bias<'a>,
    to: Format,
    /// Length of a row.
    columns: usize,
    level: ActiveLevel,
    traffic: Traffic,
}

/// What a thread stages its input and biases in.
#[derive(Default)]
struct Scratch {
    input: AlignedBytes,
    bias: AlignedBytes,
    /// The value that `bias` repeats from its start, and how often.
    repeated: Option<(u32, usize)>,
}

impl Unit<'_> {
    /// Bytes of an element of the output.
    fn item_size(&self) -> usize {
        self.to.item_size()
    }

    /// The results of consecutive elements, in C order from `start` on.
    fn exp_run(&self, start: usize, out: &mut [u8], scratch: &mut Scratch) {
        let item = self.item_size();
        // What comes before the first whole cache line is a stage of its own.
        let head = if out.len() > STAGE * item { before_line(out) } else { 0 };
        let (first, others) = out.split_at_mut(head);
        let mut start = start;
        for out in first.chunks_mut(STAGE * item).chain(others.chunks_mut(STAGE * item)) {
            let count = out.len() / item;
            self.stage_bias(start..start + count, scratch);
            let codes = elementwise::input(self.source, start, count, out, &mut scratch.input);
            let bias = &*scratch.bias.slice_mut::<f32>(count);
            exp_slice(self.level, self.source.format(), self.to, codes, bias, out, self.traffic);
            start += count;
        }
    }

    /// Brings the bias of each element of the range to the start of `scratch.bias`.
    fn stage_bias(&self, range: Range<usize>, scratch: &mut Scratch) {
        match self.bias {
            Bias::Scalar(value) => scratch.repeat_bias(value, range.len()),
            Bias::PerRow(values) => {
                let first = range.start / self.columns;
                if (range.end - 1) / self.columns == first {
                    return scratch.repeat_bias(values[first], range.len());
                }
                scratch.repeated = None;
                let mut rest = scratch.bias.slice_mut::<f32>(range.len());
                let mut count = self.columns - range.start % self.columns;
                for value in &values[first..] {
                    let (run, tail) = rest.split_at_mut(count.min(rest.len()));
                    run.fill(*value);
                    rest = tail;
                    count = self.columns;
                    if rest.is_empty() {
                        break;
                    }
                }
            }
        }
    }
}

impl Scratch {
    fn repeat_bias(&mut self, value: f32, count: usize) {
        let is_there = self.repeated.is_some_and(|(bits, length)| bits == value.to_bits() && length >= count);
        if !is_there {
            self.bias.slice_mut::<f32>(count).fill(value);
            self.repeated = Some((value.to_bits(), count));
        }
    }
}
