//! What the table holds of one operation, and how its attributes are read.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{GraphError, Result};
use crate::graph::{Body, TensorOperation};
use crate::kernel::GraphKernel;
use crate::tensor::Tensor;

/// What attributes may name besides themselves.
pub trait Surroundings {
    /// A body from its attribute.
    ///
    /// # Errors
    /// As [`crate::Graph::from_json`].
    fn body(&self, value: Value) -> Result<Body>;

    /// An array that came beside the text.
    ///
    /// # Errors
    /// [`GraphError::Format`] when there is none of this number.
    fn data(&self, number: usize) -> Result<&Tensor>;

    /// Ranks that the graph runs on.
    fn ranks(&self) -> u32;

    /// A kernel that came beside the text.
    ///
    /// # Errors
    /// [`GraphError::Format`] when there is none of this number.
    fn kernel(&self, number: usize) -> Result<Arc<dyn GraphKernel>>;
}

/// An operation with its attributes, once read.
pub type Read = Result<Arc<dyn TensorOperation>>;

/// One operation of the table.
#[derive(Clone, Copy, Debug)]
pub struct OperationRow {
    /// Name in graphs.
    pub name: &'static str,
    /// Names in StableHLO and CHLO, which JAX lowers to.
    pub jax: &'static [&'static str],
    /// Names of PyTorch's core ATen operations.
    pub aten: &'static [&'static str],
    /// Instructions that compute it.
    pub template: &'static str,
    /// How close the result is to the true value.
    pub accuracy: &'static str,
    /// Reads its attributes.
    pub read: fn(&dyn Surroundings, &'static str, Map<String, Value>) -> Read,
}

/// Reads attributes as a type says.
///
/// # Errors
/// [`GraphError::Format`] for what is missing, too much or of another kind.
pub(crate) fn attributes<T: DeserializeOwned>(map: Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(map)).map_err(|error| GraphError::Format(format!("attributes: {error}")))
}

/// Reads an operation whose attributes are its fields.
///
/// # Errors
/// As [`attributes`].
pub(crate) fn plain<T: DeserializeOwned + TensorOperation>(
    _surroundings: &dyn Surroundings,
    _name: &'static str,
    map: Map<String, Value>,
) -> Read {
    Ok(Arc::new(attributes::<T>(map)?))
}

/// Refuses attributes of an operation that has none.
///
/// # Errors
/// [`GraphError::Format`] names the first.
pub(crate) fn no_attributes(map: &Map<String, Value>) -> Result<()> {
    map.keys().next().map_or(Ok(()), |key| Err(GraphError::Format(format!("has no attribute {key:?}"))))
}

/// Attributes that are words of another crate's.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer};

    /// A word.
    ///
    /// # Errors
    /// For a word that is none of those allowed.
    pub(crate) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }

    /// A word, or nothing.
    ///
    /// # Errors
    /// As [`parsed`].
    pub(crate) fn optional<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let word = Option::<String>::deserialize(deserializer)?;
        word.map(|word| word.parse().map_err(D::Error::custom)).transpose()
    }
}
