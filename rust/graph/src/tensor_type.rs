//! Shapes and element types.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use trn3_machine::dtype::DType;

/// Shape and element type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorType {
    /// Element type.
    #[serde(serialize_with = "write_dtype", deserialize_with = "read_dtype")]
    pub dtype: DType,
    /// Lengths.
    pub shape: Vec<usize>,
}

fn write_dtype<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(dtype.name())
}

fn read_dtype<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl TensorType {
    /// A type of this shape.
    ///
    /// ```
    /// use trn3_graph::TensorType;
    /// use trn3_machine::dtype::DType;
    ///
    /// let kind = TensorType::new(DType::BFloat16, &[8, 128]);
    /// assert_eq!((kind.to_string().as_str(), kind.elements(), kind.bytes()), ("bfloat16[8, 128]", 1024, 2048));
    /// ```
    pub fn new(dtype: DType, shape: &[usize]) -> Self {
        Self { dtype, shape: shape.to_vec() }
    }

    /// The same shape of another element type.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self { dtype, shape: self.shape.clone() }
    }

    /// The same element type in another shape.
    pub fn with_shape(&self, shape: &[usize]) -> Self {
        Self { dtype: self.dtype, shape: shape.to_vec() }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes that the elements take.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }

    /// Whether elements are floating-point numbers of their own (not packed ones).
    pub fn is_float(&self) -> bool {
        self.dtype.is_float()
    }

    /// Whether elements are integers; `bool` is none.
    pub fn is_integer(&self) -> bool {
        self.dtype.is_integer() && !self.is_bool()
    }

    /// Whether elements are truth values.
    pub fn is_bool(&self) -> bool {
        self.dtype == DType::Bool
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{:?}", self.dtype, self.shape)
    }
}
