//! What buffers hold while a schedule runs: floats of one format as float32, float64, whole numbers, or plain bytes.

use std::str::FromStr;

use trn3_numerics::{ArrayMut, ArrayView, CastOptions, Draws, Format, Rounding, Xorwow, cast};

use super::name::Reduction;
use crate::error::{Error, Result};

/// The type of the elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// A format of the numerics crate.
    Float(Format),
    /// IEEE binary64, which no Trainium has: carried and added as the host does **(choice)**.
    Float64,
    /// A whole number of so many bytes; arithmetic wraps.
    Whole {
        /// Bytes: 1, 2, 4 or 8.
        bytes: usize,
        /// Whether it has a sign.
        is_signed: bool,
    },
    /// Anything of so many bytes, to be moved and not computed with.
    Opaque {
        /// Bytes of an element.
        bytes: usize,
    },
}

impl ElementType {
    /// Bytes of one element in a caller's buffer.
    pub fn bytes(self) -> usize {
        match self {
            Self::Float(format) => format.item_size(),
            Self::Float64 => 8,
            Self::Whole { bytes, .. } | Self::Opaque { bytes } => bytes,
        }
    }
}

impl FromStr for ElementType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let whole = |bytes, is_signed| Ok(Self::Whole { bytes, is_signed });
        match name {
            "float64" => Ok(Self::Float64),
            "int8" => whole(1, true),
            "int16" => whole(2, true),
            "int32" => whole(4, true),
            "int64" => whole(8, true),
            "uint8" => whole(1, false),
            "uint16" => whole(2, false),
            "uint32" => whole(4, false),
            "uint64" => whole(8, false),
            _ => match name.parse::<Format>() {
                Ok(format) if format != Format::F8E8M0Fnu => Ok(Self::Float(format)),
                _ => {
                    let formats = Format::ALL.iter().filter(|format| **format != Format::F8E8M0Fnu);
                    let known: Vec<String> = formats.map(ToString::to_string).collect();
                    let whole = ["float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"];
                    Err(Error::unknown("dtype", name, known.iter().map(String::as_str).chain(whole)))
                }
            },
        }
    }
}

/// How a schedule's results are rounded between steps.
pub(super) struct Rounder<'a> {
    pub(super) rounding: Rounding,
    pub(super) generator: Option<&'a mut Xorwow>,
}

impl Rounder<'_> {
    /// Rounds values to a format, in place.
    pub(super) fn round(&mut self, format: Format, values: &mut [f32]) -> Result<()> {
        if format == Format::F32 || values.is_empty() {
            return Ok(());
        }
        let mut codes = vec![0u8; values.len() * format.item_size()];
        self.encode(format, values, &mut codes)?;
        decode(format, &codes, values)
    }

    /// The codes of values in a format.
    pub(super) fn encode(&mut self, format: Format, values: &[f32], codes: &mut [u8]) -> Result<()> {
        let shape = [values.len()];
        // Every value fits float32: nothing to round, no draws to take.
        let is_exact = format == Format::F32;
        let rounding = if is_exact { Rounding::Nearest } else { self.rounding };
        let draws = match &mut self.generator {
            Some(generator) if rounding == Rounding::Stochastic => Draws::Xorwow(generator),
            _ => Draws::None,
        };
        let options = CastOptions { rounding, ..CastOptions::default() };
        let out = ArrayMut::from_codes(format, codes, &shape)?;
        Ok(cast(&ArrayView::new(values, &shape)?.into(), out, options, draws)?)
    }
}

/// The values of codes.
pub(super) fn decode(format: Format, codes: &[u8], values: &mut [f32]) -> Result<()> {
    let shape = [values.len()];
    let source = ArrayView::from_codes(format, codes, &shape)?;
    Ok(cast(&source.into(), ArrayMut::new(values, &shape)?, CastOptions::default(), Draws::None)?)
}

/// A value that schedules move and reduce.
pub(super) trait Value: Copy + Default + Send + Sync {
    /// Reduces `from` into `into`, element by element.
    fn reduce(reduction: Reduction, into: &mut [Self], from: &[Self]);
}

macro_rules! whole {
    ($($type:ty),*) => { $(
        impl Value for $type {
            fn reduce(reduction: Reduction, into: &mut [Self], from: &[Self]) {
                let pairs = into.iter_mut().zip(from);
                match reduction {
                    Reduction::Add => pairs.for_each(|(a, b)| *a = a.wrapping_add(*b)),
                    Reduction::Max => pairs.for_each(|(a, b)| *a = (*a).max(*b)),
                    Reduction::Min => pairs.for_each(|(a, b)| *a = (*a).min(*b)),
                }
            }
        }
    )* };
}

whole!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! float {
    ($type:ty, $nan:expr) => {
        impl Value for $type {
            fn reduce(reduction: Reduction, into: &mut [Self], from: &[Self]) {
                // NaN results are the canonical one: which payload survives an addition differs between machines.
                let canonical = |x: $type| if x.is_nan() { $nan } else { x };
                let pairs = into.iter_mut().zip(from);
                match reduction {
                    Reduction::Add => pairs.for_each(|(a, b)| *a = canonical(*a + *b)),
                    Reduction::Max => pairs.for_each(|(a, b)| {
                        *a = if a.is_nan() || b.is_nan() {
                            $nan
                        } else if b.total_cmp(a).is_gt() {
                            *b
                        } else {
                            *a
                        }
                    }),
                    Reduction::Min => pairs.for_each(|(a, b)| {
                        *a = if a.is_nan() || b.is_nan() {
                            $nan
                        } else if b.total_cmp(a).is_lt() {
                            *b
                        } else {
                            *a
                        }
                    }),
                }
            }
        }
    };
}

float!(f32, f32::from_bits(0x7fc0_0000));
float!(f64, f64::from_bits(0x7ff8_0000_0000_0000));
