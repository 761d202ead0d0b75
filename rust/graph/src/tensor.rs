//! Values: elements of one type in row-major order.

use std::borrow::Cow;
use std::sync::Arc;

use trn3_machine::dtype::DType;
use trn3_numerics::{ArrayMut, ArrayView, CastOptions, Draws, ElementSource, Format, cast, for_each};

use crate::error::{GraphError, Result};
use crate::tensor_type::TensorType;

/// Elements that a thread works on at a time.
const PIECE: usize = 1 << 16;

/// Bit patterns, in words as wide as the elements; shared until somebody writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Words {
    /// Elements of 8 bits and truth values.
    One(Arc<Vec<u8>>),
    /// Elements of 16 bits.
    Two(Arc<Vec<u16>>),
    /// Elements of 32 bits.
    Four(Arc<Vec<u32>>),
}

/// Runs the same on the words of any width.
macro_rules! on_words {
    ($words:expr, $name:ident => $body:expr) => {
        match $words {
            $crate::tensor::Words::One($name) => $crate::tensor::Words::One(std::sync::Arc::new($body)),
            $crate::tensor::Words::Two($name) => $crate::tensor::Words::Two(std::sync::Arc::new($body)),
            $crate::tensor::Words::Four($name) => $crate::tensor::Words::Four(std::sync::Arc::new($body)),
        }
    };
}
pub(crate) use on_words;

/// Runs the same on words to change and on other words of that width; nothing is copied where nobody else holds them.
macro_rules! change_words {
    ($target:expr, $values:expr, ($x:ident, $y:ident) => $body:expr) => {
        match ($target, $values) {
            ($crate::tensor::Words::One($x), $crate::tensor::Words::One($y)) => {
                let $x = std::sync::Arc::make_mut($x).as_mut_slice();
                $body
            }
            ($crate::tensor::Words::Two($x), $crate::tensor::Words::Two($y)) => {
                let $x = std::sync::Arc::make_mut($x).as_mut_slice();
                $body
            }
            ($crate::tensor::Words::Four($x), $crate::tensor::Words::Four($y)) => {
                let $x = std::sync::Arc::make_mut($x).as_mut_slice();
                $body
            }
            _ => return Err($crate::error::GraphError::Argument("elements are of different widths".to_owned())),
        }
    };
}
pub(crate) use change_words;

/// A value of a graph.
///
/// ```
/// use trn3_graph::{Tensor, TensorType};
/// use trn3_machine::dtype::DType;
///
/// let kind = TensorType::new(DType::BFloat16, &[2]);
/// let tensor = Tensor::from_floats(kind, vec![1.0, 1.005])?;
/// assert_eq!(&*tensor.floats()?, &[1.0, 1.0078125]);
/// # Ok::<(), trn3_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    kind: TensorType,
    words: Words,
}

impl Tensor {
    /// A value of these words.
    ///
    /// # Errors
    /// [`GraphError::Argument`] when their number or width is not the type's.
    pub fn new(kind: TensorType, words: Words) -> Result<Self> {
        let (count, width) = match &words {
            Words::One(words) => (words.len(), 1),
            Words::Two(words) => (words.len(), 2),
            Words::Four(words) => (words.len(), 4),
        };
        if (count, width) == (kind.elements(), kind.dtype.size()) {
            return Ok(Self { kind, words });
        }
        Err(GraphError::Argument(format!("{count} words of {width} bytes came for {kind}")))
    }

    /// A value of the bytes of its elements, little end first, in row-major order.
    ///
    /// # Errors
    /// [`GraphError::Argument`] when their number is not the type's.
    pub fn from_bytes(kind: TensorType, bytes: &[u8]) -> Result<Self> {
        if bytes.len() != kind.bytes() {
            return Err(GraphError::Argument(format!("{} bytes came for {kind}, of {}", bytes.len(), kind.bytes())));
        }
        let words = match kind.dtype.size() {
            1 => Words::One(Arc::new(bytes.to_vec())),
            2 => Words::Two(Arc::new(bytemuck::pod_collect_to_vec(bytes))),
            _ => Words::Four(Arc::new(bytemuck::pod_collect_to_vec(bytes))),
        };
        Ok(Self { kind, words })
    }

    /// A value of float32 numbers, rounded to nearest in the type's format; every NaN is the canonical one, as memories
    /// of the machine keep it.
    ///
    /// # Errors
    /// [`GraphError::Argument`] where the type is no float; [`GraphError::Numerics`].
    pub fn from_floats(kind: TensorType, mut values: Vec<f32>) -> Result<Self> {
        let format = float_format(&kind)?;
        if values.len() != kind.elements() {
            return Err(GraphError::Argument(format!("{} numbers came for {kind}", values.len())));
        }
        if format == Format::F32 {
            for_each(values.chunks_mut(PIECE), |piece| {
                piece.iter_mut().for_each(|value| *value = if value.is_nan() { f32::NAN } else { *value });
            })?;
            return Self::new(kind, Words::Four(Arc::new(bytemuck::cast_vec(values))));
        }
        let length = [values.len()];
        Self::rounded(kind, &ArrayView::new(&values, &length)?.into(), format)
    }

    /// The numbers of the elements of a source, rounded to nearest in the format of the type.
    fn rounded(kind: TensorType, source: &ElementSource<'_>, format: Format) -> Result<Self> {
        let length = [kind.elements()];
        let round = |bytes: &mut [u8]| {
            let out = ArrayMut::from_codes(format, bytes, &length)?;
            cast(source, out, CastOptions::default(), Draws::None)
        };
        let words = if format.item_size() == 1 {
            let mut codes = vec![0u8; length[0]];
            round(&mut codes)?;
            Words::One(Arc::new(codes))
        } else if format.item_size() == 2 {
            let mut codes = vec![0u16; length[0]];
            round(bytemuck::cast_slice_mut(&mut codes))?;
            Words::Two(Arc::new(codes))
        } else {
            let mut codes = vec![0u32; length[0]];
            round(bytemuck::cast_slice_mut(&mut codes))?;
            Words::Four(Arc::new(codes))
        };
        Self::new(kind, words)
    }

    /// The same numbers in another floating-point type, rounded to nearest; every NaN is the canonical one.
    ///
    /// # Errors
    /// [`GraphError::Argument`] where either type is no float; [`GraphError::Numerics`].
    pub(crate) fn in_dtype(&self, dtype: DType) -> Result<Self> {
        let kind = self.kind.with_dtype(dtype);
        let (from, to) = (float_format(&self.kind)?, float_format(&kind)?);
        let length = [self.kind.elements()];
        Self::rounded(kind, &ArrayView::from_codes(from, self.bytes(), &length)?.into(), to)
    }

    /// A value of whole numbers, which wrap at the type's width; truth values of what is not zero.
    ///
    /// # Errors
    /// [`GraphError::Argument`] where the type is no integer.
    pub fn from_integers(kind: TensorType, values: impl IntoIterator<Item = i64>) -> Result<Self> {
        let words = match kind.dtype {
            DType::Bool => Words::One(Arc::new(values.into_iter().map(|value| u8::from(value != 0)).collect())),
            DType::Int8 | DType::UInt8 => Words::One(Arc::new(values.into_iter().map(|value| value as u8).collect())),
            DType::Int16 | DType::UInt16 => {
                Words::Two(Arc::new(values.into_iter().map(|value| value as u16).collect()))
            }
            DType::Int32 | DType::UInt32 => {
                Words::Four(Arc::new(values.into_iter().map(|value| value as u32).collect()))
            }
            _ => return Err(GraphError::Argument(format!("whole numbers came for {kind}"))),
        };
        Self::new(kind, words)
    }

    /// Shape and element type.
    pub fn kind(&self) -> &TensorType {
        &self.kind
    }

    /// Lengths.
    pub fn shape(&self) -> &[usize] {
        &self.kind.shape
    }

    /// The element's type.
    pub fn dtype(&self) -> DType {
        self.kind.dtype
    }

    /// Bit patterns.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// Bit patterns, to change.
    pub(crate) fn words_mut(&mut self) -> &mut Words {
        &mut self.words
    }

    /// The bytes of the elements, in row-major order.
    pub fn bytes(&self) -> &[u8] {
        match &self.words {
            Words::One(words) => words,
            Words::Two(words) => bytemuck::cast_slice(words),
            Words::Four(words) => bytemuck::cast_slice(words),
        }
    }

    /// The numbers, as float32: exactly those that the elements stand for.
    ///
    /// # Errors
    /// [`GraphError::Argument`] where the type is no float; [`GraphError::Numerics`].
    pub fn floats(&self) -> Result<Cow<'_, [f32]>> {
        let format = float_format(&self.kind)?;
        if let (Format::F32, Words::Four(words)) = (format, &self.words) {
            return Ok(Cow::Borrowed(bytemuck::cast_slice(words)));
        }
        let length = [self.kind.elements()];
        let source = ArrayView::from_codes(format, self.bytes(), &length)?.into();
        let mut values = vec![0.0f32; length[0]];
        cast(&source, ArrayMut::new(&mut values, &length)?, CastOptions::default(), Draws::None)?;
        Ok(Cow::Owned(values))
    }

    /// The whole numbers; truth values are 0 and 1.
    ///
    /// # Errors
    /// [`GraphError::Argument`] where the type is no integer.
    pub fn integers(&self) -> Result<Vec<i64>> {
        Ok(match (&self.words, self.kind.dtype) {
            (Words::One(words), DType::Int8) => words.iter().map(|&word| i64::from(word as i8)).collect(),
            (Words::One(words), DType::UInt8 | DType::Bool) => words.iter().map(|&word| i64::from(word)).collect(),
            (Words::Two(words), DType::Int16) => words.iter().map(|&word| i64::from(word as i16)).collect(),
            (Words::Two(words), DType::UInt16) => words.iter().map(|&word| i64::from(word)).collect(),
            (Words::Four(words), DType::Int32) => words.iter().map(|&word| i64::from(word as i32)).collect(),
            (Words::Four(words), DType::UInt32) => words.iter().map(|&word| i64::from(word)).collect(),
            _ => return Err(GraphError::Argument(format!("{} is no integer", self.kind))),
        })
    }

    /// The elements as numbers in float64, whatever their type: exact.
    ///
    /// # Errors
    /// [`GraphError::Argument`] for packed elements.
    pub fn numbers(&self) -> Result<Vec<f64>> {
        if self.kind.is_float() {
            return Ok(self.floats()?.iter().map(|&value| f64::from(value)).collect());
        }
        Ok(self.integers()?.into_iter().map(|value| value as f64).collect())
    }

    /// The same words in another shape of as many elements, or as another type of the same width.
    ///
    /// # Errors
    /// [`GraphError::Argument`] when the words do not fit.
    pub fn reinterpreted(&self, kind: TensorType) -> Result<Self> {
        Self::new(kind, self.words.clone())
    }
}

/// The arithmetic core's format of a floating-point type.
fn float_format(kind: &TensorType) -> Result<Format> {
    let format = kind.is_float().then(|| kind.dtype.format()).flatten();
    format.ok_or_else(|| GraphError::Argument(format!("{kind} has no floating-point elements")))
}
