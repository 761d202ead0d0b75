//! The figures of `models/reliability.toml`, each with its range.

use trn3_facts::{Facts, general, parameters};
use trn3_system::{Error, Result};

/// A figure in base units, and between what it is.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ranged {
    /// What is taken.
    pub value: f64,
    /// The least that a source gives.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Ranged {
    /// What a caller gave: it has no range.
    pub(super) fn given(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// A value of the range: `place` -1 is its low end, 0 what is taken, 1 its high end, evenly in the logarithm between.
    pub(super) fn at(self, place: f64) -> f64 {
        let end = if place < 0.0 { self.low } else { self.high };
        if self.value > 0.0 && end > 0.0 && self.value.is_finite() && end.is_finite() {
            self.value * (end / self.value).powf(place.abs())
        } else {
            self.value + (end - self.value) * place.abs()
        }
    }

    /// The same further apart.
    pub(super) fn wider(self, factor: f64) -> Self {
        Self { low: self.low / factor, high: self.high * factor, ..self }
    }
}

/// A number as messages have it: four significant digits.
pub(super) fn shown(value: f64) -> String {
    general(value, 4)
}

/// The constants of fleets, and what callers set over them.
#[derive(Clone, Debug)]
pub(super) struct FleetFigures {
    facts: Facts,
}

impl FleetFigures {
    pub(super) fn load() -> Result<Self> {
        Ok(Self { facts: parameters("reliability")? })
    }

    /// The chip whose fleet was counted.
    pub(super) fn measured_on(&self) -> &str {
        self.facts.parts.get("measured_on").and_then(|name| name.as_str()).unwrap_or_default()
    }

    /// A figure in base units.
    pub(super) fn si(&self, key: &str) -> Result<f64> {
        Ok(self.facts.si(key)?)
    }

    /// A figure with its range.
    pub(super) fn ranged(&self, key: &str) -> Result<Ranged> {
        let (value, quantity) = (self.facts.si(key)?, self.facts.quantity(key)?);
        let scale = value / quantity.number().filter(|number| *number != 0.0).unwrap_or(1.0);
        let (low, high) = quantity.range().map_or((value, value), |(low, high)| (low * scale, high * scale));
        Ok(Ranged { value, low, high })
    }

    /// A figure, or what a caller gave in its place.
    ///
    /// # Errors
    /// [`Error::Value`] if that is less than `least` or not finite.
    pub(super) fn or_given(&self, key: &str, given: Option<f64>, least: f64) -> Result<Ranged> {
        match given {
            None => self.ranged(key),
            Some(value) if value.is_finite() && value >= least => Ok(Ranged::given(value)),
            Some(value) => Err(Error::Value(format!("{key} is {value}; needed: a finite number of at least {least}"))),
        }
    }

    /// Who says so.
    pub(super) fn source(&self, key: &str) -> Result<String> {
        let quantity = self.facts.quantity(key)?;
        let used = quantity.sources.iter().find(|source| source.value == quantity.value);
        Ok(used.or(quantity.sources.first()).map_or_else(String::new, |source| source.source.clone()))
    }
}
