//! Number formats of tensors, and which class of tensor is kept in which.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tensor_class::TensorClass;
use trn3_system::{Error, Result};

/// A number format that weights, activations or keys and values are stored and multiplied in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataType {
    /// IEEE single precision.
    Fp32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    Fp16,
    /// Eight-bit floats without block scales.
    Fp8,
    /// Eight-bit floats with one eight-bit scale for each 32.
    MxFp8,
    /// Four-bit floats with one eight-bit scale for each 32.
    MxFp4,
    /// Eight-bit integers in memory alone: they become BF16 before they are multiplied.
    Int8,
}

/// Elements that share one scale in the MX formats, and the bits of that scale (OCP Microscaling 1.0).
const MX_BLOCK: f64 = 32.0;
const MX_SCALE_BITS: f64 = 8.0;

impl DataType {
    /// Every format, in the order of [`DataType::index`].
    pub const ALL: [Self; 7] = [Self::Fp32, Self::Bf16, Self::Fp16, Self::Fp8, Self::MxFp8, Self::MxFp4, Self::Int8];

    /// Bits of one element, its share of a block's scale included.
    ///
    /// ```
    /// use trn3_planner::DataType;
    ///
    /// assert_eq!(DataType::MxFp4.bits(), 4.25);
    /// assert_eq!(DataType::Bf16.bytes(), 2.0);
    /// ```
    pub fn bits(self) -> f64 {
        match self {
            Self::Fp32 => 32.0,
            Self::Bf16 | Self::Fp16 => 16.0,
            Self::Fp8 | Self::Int8 => 8.0,
            Self::MxFp8 => 8.0 + MX_SCALE_BITS / MX_BLOCK,
            Self::MxFp4 => 4.0 + MX_SCALE_BITS / MX_BLOCK,
        }
    }

    /// Bytes of one element, its share of a block's scale included.
    pub fn bytes(self) -> f64 {
        self.bits() / 8.0
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::Fp8 => "fp8",
            Self::MxFp8 => "mxfp8",
            Self::MxFp4 => "mxfp4",
            Self::Int8 => "int8",
        }
    }

    /// The format that products of it are made in: its own, or BF16 for one that is stored alone.
    ///
    /// ```
    /// use trn3_planner::DataType;
    ///
    /// assert_eq!(DataType::Int8.multiplied(), DataType::Bf16);
    /// assert_eq!(DataType::Fp8.multiplied(), DataType::Fp8);
    /// ```
    pub fn multiplied(self) -> Self {
        if self == Self::Int8 { Self::Bf16 } else { self }
    }

    /// The place in [`DataType::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The format of a name; `float32`, `bfloat16`, `float16` and `float8_e4m3` are understood too.
    ///
    /// # Errors
    /// [`Error::Unknown`] for any other.
    pub fn parse(name: &str) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "float32" | "f32" => Ok(Self::Fp32),
            "bfloat16" => Ok(Self::Bf16),
            "float16" | "half" => Ok(Self::Fp16),
            "float8" | "float8_e4m3" | "float8_e4m3fn" | "float8_e5m2" => Ok(Self::Fp8),
            _ => Self::ALL
                .into_iter()
                .find(|known| known.name() == lower)
                .ok_or_else(|| Error::unknown("dtype", name, Self::ALL.map(Self::name))),
        }
    }
}

/// The format of each class of tensor, of keys and values, and of activations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorPrecision {
    weights: [DataType; TensorClass::ALL.len()],
    /// Keys and values.
    pub kv: DataType,
    /// What passes between operations and ranks.
    pub activations: DataType,
}

impl TensorPrecision {
    /// Everything in one format.
    pub fn uniform(dtype: DataType) -> Self {
        Self { weights: [dtype; TensorClass::ALL.len()], kv: dtype, activations: dtype }
    }

    /// One name for a whole model **(choice)**: a 16- or 32-bit format holds everything; a narrower one holds the
    /// matrices of the layers, of the experts alone for `mxfp4` on a model that has some (as published checkpoints
    /// do), while embeddings, router, norms, activations, keys and values stay in BF16.
    pub fn named(dtype: DataType, has_experts: bool) -> Self {
        if dtype.bits() >= DataType::Bf16.bits() {
            return Self::uniform(dtype);
        }
        let mut precision = Self::uniform(DataType::Bf16);
        let all = [TensorClass::Attention, TensorClass::Dense, TensorClass::SharedExperts, TensorClass::Experts];
        let narrow = if dtype == DataType::MxFp4 && has_experts { &all[3..] } else { &all[..] };
        for &class in narrow {
            precision.set(class, dtype);
        }
        precision
    }

    /// A name for each class that departs from BF16: the classes of [`TensorClass`], `kv` and `activations`;
    /// `default` stands for all classes that are not named.
    ///
    /// # Errors
    /// [`Error::Unknown`] for another class or format.
    pub fn by_class(names: &BTreeMap<String, String>) -> Result<Self> {
        let mut precision = Self::uniform(match names.get("default") {
            Some(name) => DataType::parse(name)?,
            None => DataType::Bf16,
        });
        for (class, name) in names {
            let dtype = DataType::parse(name)?;
            match class.as_str() {
                "default" => {}
                "kv" | "kv_cache" => precision.kv = dtype,
                "activations" => precision.activations = dtype,
                other => precision.set(TensorClass::parse(other)?, dtype),
            }
        }
        Ok(precision)
    }

    /// The format of a class of weights.
    pub fn of(&self, class: TensorClass) -> DataType {
        self.weights[class as usize]
    }

    /// Whether anything is kept in a format.
    pub fn uses(&self, dtype: DataType) -> bool {
        self.weights.contains(&dtype) || self.kv == dtype || self.activations == dtype
    }

    /// Changes the format of a class of weights.
    pub fn set(&mut self, class: TensorClass, dtype: DataType) {
        self.weights[class as usize] = dtype;
    }

    /// The formats by the names of their classes.
    pub fn names(&self) -> BTreeMap<&'static str, &'static str> {
        let mut names: BTreeMap<_, _> =
            TensorClass::ALL.into_iter().map(|class| (class.name(), self.of(class).name())).collect();
        names.insert("kv", self.kv.name());
        names.insert("activations", self.activations.name());
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_mxfp4_holds_the_experts_alone_where_there_are_some() {
        let sparse = TensorPrecision::named(DataType::MxFp4, true);
        assert_eq!(sparse.of(TensorClass::Experts), DataType::MxFp4);
        assert_eq!(sparse.of(TensorClass::Attention), DataType::Bf16);
        let dense = TensorPrecision::named(DataType::MxFp4, false);
        assert_eq!(dense.of(TensorClass::Dense), DataType::MxFp4);
        assert_eq!(dense.kv, DataType::Bf16);
        assert_eq!(TensorPrecision::named(DataType::Fp16, true), TensorPrecision::uniform(DataType::Fp16));
    }

    #[test]
    fn test_wrong_names_are_refused_with_the_nearest() {
        assert!(DataType::parse("mxfp5").expect_err("none").to_string().contains("mxfp"));
        let wrong = BTreeMap::from([("atention".to_owned(), "bf16".to_owned())]);
        assert!(TensorPrecision::by_class(&wrong).expect_err("typo").to_string().contains("\"attention\""));
    }
}
