//! One figure: its value, its unit, and who published what.

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

/// One source of a figure and the value it gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The value this source gives.
    pub value: Value,
    /// Its unit, where that is not the figure's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Who published it; `derived: EXPRESSION` for arithmetic on other figures.
    pub source: String,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The value that is used, in `unit`.
    #[serde(rename = "default")]
    pub value: Value,
    /// Unit; decimal prefixes unless it says `iB`. `dir` is one direction of a link, `bidir` both together.
    #[serde(default)]
    pub unit: String,
    /// Whether the sources disagree.
    #[serde(default)]
    pub conflict: bool,
    /// Why this value is used, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What else a reader should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who published what; never empty.
    pub sources: Vec<Source>,
}

impl Quantity {
    /// The value in [`Quantity::unit`]; `None` where it is no number.
    pub fn number(&self) -> Option<f64> {
        match self.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The value in bytes, seconds, operations, hertz, watts, US dollars or their quotients; `None` where it is no
    /// number or its unit has no such form.
    pub fn si(&self) -> Option<f64> {
        Some(self.number()? * super::unit::factor(&self.unit)?)
    }
}
