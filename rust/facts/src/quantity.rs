//! One figure: its value, its unit, who published what, and how far they agree.

use serde::{Deserialize, Serialize};

use crate::show::{round_half_even, rounded};
use crate::unit::factor;
use crate::value::Value;

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

impl Source {
    /// The arithmetic of a derived source; `None` for one that was published.
    pub fn expression(&self) -> Option<&str> {
        self.source.strip_prefix("derived:").map(str::trim)
    }
}

/// How far the sources of a figure, and what follows from the parts, agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As published.
    Exact,
    /// Computed from other figures, and nobody says otherwise.
    Derived,
    /// Sources disagree, or the parts with what is published.
    Conflicting,
}

impl Status {
    /// `exact`, `derived` or `conflicting`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Derived => "derived",
            Self::Conflicting => "conflicting",
        }
    }
}

/// A figure of a system: as its spec file has it or, in a [`Spec`](crate::Spec), as it follows from the parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The value that is used, in `unit`.
    #[serde(rename = "default")]
    pub value: Value,
    /// Unit; decimal prefixes unless it says `iB`. `dir` is one direction of a link, `bidir` both together.
    #[serde(default)]
    pub unit: String,
    /// Whether the sources disagree, or the parts with what is published.
    #[serde(default)]
    pub conflict: bool,
    /// Why this value is used, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What else a reader should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who published what; empty only where nobody did and the parts say it.
    pub sources: Vec<Source>,
    /// How it follows from other figures, with their numbers; `None` where it is as published.
    #[serde(skip)]
    pub formula: Option<String>,
    /// What is published, where `value` is computed from parts; in `unit`.
    #[serde(skip)]
    pub published: Option<Value>,
    /// Whether the formula gives what is published, within 0.6 % or rounded; `None` without both.
    #[serde(skip)]
    pub agrees: Option<bool>,
    /// What the formula gives, in `unit`, where the published figure is used all the same.
    #[serde(skip)]
    pub computed: Option<f64>,
}

impl Quantity {
    /// A figure that nobody published.
    pub fn new(value: Value, unit: impl Into<String>) -> Self {
        Self {
            value,
            unit: unit.into(),
            conflict: false,
            why: None,
            note: None,
            sources: Vec::new(),
            formula: None,
            published: None,
            agrees: None,
            computed: None,
        }
    }

    /// The value in [`Quantity::unit`]; `None` where it is no number.
    pub fn number(&self) -> Option<f64> {
        self.value.number()
    }

    /// The value in bytes, seconds, operations, hertz, watts, US dollars or their quotients; `None` where it is no
    /// number or its unit has no such form.
    pub fn si(&self) -> Option<f64> {
        Some(self.number()? * factor(&self.unit)?)
    }

    /// The least and the largest number that a source gives, in `unit`; `None` without two.
    pub fn range(&self) -> Option<(f64, f64)> {
        let said = self.said();
        let least = said.iter().copied().fold(f64::INFINITY, f64::min);
        let most = said.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least < most).then_some((least, most))
    }

    /// All that the figure is said to be, in `unit`.
    fn said(&self) -> Vec<f64> {
        let own = factor(&self.unit).unwrap_or(f64::NAN);
        let mut said: Vec<f64> = self.number().into_iter().collect();
        for source in &self.sources {
            if let Some(value) = source.value.number() {
                let unit = source.unit.as_deref().map_or(own, |unit| factor(unit).unwrap_or(f64::NAN));
                said.push(rounded(value * unit / own));
            }
        }
        said.extend(self.published.as_ref().and_then(Value::number));
        said.extend(self.computed);
        said
    }

    /// How far those who say something about the figure agree.
    pub fn status(&self) -> Status {
        let disputed = |value| !self.said().into_iter().all(|other| agree(value, other));
        if self.conflict || self.agrees == Some(false) || self.number().is_some_and(disputed) {
            Status::Conflicting
        } else if self.formula.is_none() {
            Status::Exact
        } else {
            Status::Derived
        }
    }
}

/// Figures that differ by no more agree: sources round to three digits.
const AGREEMENT: f64 = 0.006;
/// How far two figures may be apart of which one is the other, rounded: 700 and 705.6.
const LARGEST_ROUNDING: f64 = 0.025;

/// Whether two figures are within 0.6 %, or the second is the first, rounded.
///
/// ```
/// use trn3_facts::agree;
///
/// assert!(agree(19.66, 20.0) && agree(705.6, 700.0));
/// assert!(!agree(629.1, 671.0) && !agree(0.544, 1.0));
/// ```
pub fn agree(value: f64, published: f64) -> bool {
    let distance = (value - published).abs();
    if distance <= AGREEMENT * published.abs() {
        return true;
    }
    if distance > LARGEST_ROUNDING * published.abs() {
        return false;
    }
    let decimals = published.to_string().split_once('.').map_or(0, |(_, digits)| digits.len() as i32);
    (-3..=decimals).any(|digits| round_half_even(value, digits) == published)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(value: f64, unit: Option<&str>) -> Source {
        Source { value: Value::Number(value), unit: unit.map(str::to_owned), source: "someone".to_owned() }
    }

    #[test]
    fn test_sources_in_other_units_are_compared_in_the_figures_own() {
        let mut quantity = Quantity::new(Value::Number(144.0), "GiB");
        quantity.sources = vec![source(144.0, None), source(154.618_822_656, Some("GB"))];
        assert_eq!((quantity.range(), quantity.status()), (None, Status::Exact));
        quantity.sources.push(source(144.0, Some("GB")));
        assert_eq!(quantity.status(), Status::Conflicting);
        assert!(quantity.range().is_some_and(|(least, most)| least < 135.0 && most == 144.0));
    }

    #[test]
    fn test_texts_and_lists_have_no_number() {
        for value in [Value::Text("TSMC N3P".into()), Value::Bool(true), Value::List(vec![Value::Number(1.0)])] {
            let quantity = Quantity::new(value, "");
            assert_eq!((quantity.number(), quantity.si(), quantity.range()), (None, None, None));
            assert_eq!(quantity.status(), Status::Exact);
        }
    }
}
