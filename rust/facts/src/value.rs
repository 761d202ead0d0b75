//! What a figure can be: a number, a name, several of them.

use serde::{Deserialize, Serialize};

/// What a figure can be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A number in the figure's unit.
    Number(f64),
    /// A name or a sentence.
    Text(String),
    /// Several of them.
    List(Vec<Value>),
}

impl Value {
    /// The number; `None` where it is none.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}
