//! The values of attributes, and the two types that Kubernetes adds to plain ones: quantities and semantic versions.

use std::cmp::Ordering;
use std::fmt::{Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use num_rational::BigRational;
use num_rational::Ratio;
use regex::Regex;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::shown::{quoted, shown, text_of};

static QUANTITY: LazyLock<Regex> = LazyLock::new(|| {
    let digits = r"([+-]?)([0-9]*)(?:\.([0-9]*))?";
    let pattern = format!(r"^{digits}(?:[eE]([+-]?[0-9]{{1,3}})|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])?)\z");
    Regex::new(&pattern).expect("a pattern of ours")
});

/// Suffixes of powers of 1024 and of 1000, from the first power on.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 9] =
    [("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// A number with a suffix, as in `144Gi`; equal when the numbers are.
///
/// ```
/// use trn3_k8s::ResourceQuantity;
///
/// assert_eq!(ResourceQuantity::parse("1Gi")?, ResourceQuantity::parse("1024Mi")?);
/// assert!(ResourceQuantity::parse("100G")? < ResourceQuantity::parse("96Gi")?);
/// # Ok::<(), trn3_k8s::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ResourceQuantity {
    text: String,
    number: BigRational,
}

impl ResourceQuantity {
    /// Reads a number and its suffix.
    ///
    /// # Errors
    /// [`Error::Malformed`], which says what a quantity looks like.
    pub fn parse(text: &str) -> Result<Self> {
        let refused = || {
            Error::Malformed(format!(
                "{} is not a quantity: write a number with a suffix, such as 144Gi or 8",
                quoted(text)
            ))
        };
        let parts = QUANTITY.captures(text).ok_or_else(refused)?;
        let part = |index: usize| parts.get(index).map_or("", |found| found.as_str());
        let (whole, fraction) = (part(2), part(3));
        if whole.is_empty() && fraction.is_empty() {
            return Err(refused());
        }
        let digits = format!("{}{whole}{fraction}", if part(1) == "-" { "-" } else { "" });
        let digits: BigRational = digits.parse().map_err(|_| refused())?;
        let exponent = match part(4) {
            "" => DECIMAL.iter().find(|(suffix, _)| *suffix == part(5)).map_or(0, |(_, power)| *power),
            given => given.parse().map_err(|_| refused())?,
        };
        let power = BINARY.iter().position(|suffix| *suffix == part(5)).map_or(0, |place| place as i32 + 1);
        let places = i32::try_from(fraction.len()).map_err(|_| refused())?;
        let scale = whole_number(10).pow(exponent - places) * whole_number(1024).pow(power);
        Ok(Self { text: text.to_owned(), number: digits * scale })
    }

    /// Reads a value of a document: a text or a whole number.
    pub(crate) fn read(value: &Value) -> Result<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) if !number.is_f64() => Self::parse(&number.to_string()),
            other => Err(Error::Malformed(format!(
                "{} is not a quantity: write a number with a suffix, such as 144Gi or 8",
                shown(other)
            ))),
        }
    }

    /// The number, exactly.
    pub fn number(&self) -> &BigRational {
        &self.number
    }
}

fn whole_number(value: i64) -> BigRational {
    Ratio::from_integer(value.into())
}

impl PartialEq for ResourceQuantity {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for ResourceQuantity {}

impl PartialOrd for ResourceQuantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ResourceQuantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl Hash for ResourceQuantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl Display for ResourceQuantity {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// A version ordered as semver.org 2.0.0 says; what follows `+` does not count.
///
/// ```
/// use trn3_k8s::SemanticVersion;
///
/// assert!(SemanticVersion::parse("1.2.0-rc.1")? < SemanticVersion::parse("1.2.0")?);
/// # Ok::<(), trn3_k8s::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SemanticVersion(semver::Version);

impl SemanticVersion {
    /// Reads a version.
    ///
    /// # Errors
    /// [`Error::Malformed`], which says what a version looks like.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(&Value::from(text))
    }

    pub(crate) fn read(value: &Value) -> Result<Self> {
        let parsed = value.as_str().and_then(|text| semver::Version::parse(text).ok());
        parsed.map(Self).ok_or_else(|| {
            Error::Malformed(format!(
                "{} is not a semantic version: write three numbers, such as 1.2.3 or 1.2.3-rc.1",
                shown(value)
            ))
        })
    }

    /// The three numbers.
    pub fn numbers(&self) -> [u64; 3] {
        [self.0.major, self.0.minor, self.0.patch]
    }
}

impl PartialEq for SemanticVersion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SemanticVersion {}

impl PartialOrd for SemanticVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SemanticVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }
}

impl Hash for SemanticVersion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.numbers(), &self.0.pre).hash(state);
    }
}

impl Display for SemanticVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The value of an attribute; 1, true and `"1"` differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttributeValue {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text.
    Text(String),
    /// A version.
    Version(SemanticVersion),
}

impl AttributeValue {
    /// The number; `None` where it is none.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The text; `None` where it is none.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }

    /// The value as plain data.
    pub fn plain(&self) -> Value {
        match self {
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Text(value) => value.as_str().into(),
            Self::Version(value) => value.to_string().into(),
        }
    }
}

impl Display for AttributeValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text_of(&self.plain()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quantity(text: &str) -> ResourceQuantity {
        ResourceQuantity::parse(text).expect(text)
    }

    #[test]
    fn test_quantities_are_numbers() {
        for (text, same) in [
            ("1Ki", "1024"),
            ("1.5Gi", "1610612736"),
            ("2k", "2000"),
            ("3e3", "3000"),
            ("500m", "0.5"),
            (".5", "5e-1"),
            ("5.", "5"),
            ("-1Ki", "-1024"),
            ("+1E", "1000000000000000000"),
            ("1e999", "10e998"),
        ] {
            assert_eq!(quantity(text), quantity(same), "{text}");
        }
        assert_eq!(*quantity("1.5Gi").number(), whole_number(3 << 29));
        for wrong in ["", "many", "1Q", ".", "1e", "1KiB", "1e9999", "--1", "1 Gi", "1\n"] {
            assert!(ResourceQuantity::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn test_versions_are_ordered_as_the_standard_says() {
        // The example of semver.org, section 11.
        let words = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0";
        let versions: Vec<_> = words.split(' ').map(|word| SemanticVersion::parse(word).expect(word)).collect();
        for (low, left) in versions.iter().enumerate() {
            for (high, right) in versions.iter().enumerate() {
                assert_eq!(left.cmp(right), low.cmp(&high));
            }
        }
        assert_eq!(SemanticVersion::parse("1.0.0+build"), SemanticVersion::parse("1.0.0"));
    }

    #[test]
    fn test_versions_of_another_form_are_refused() {
        for text in ["1.2", "01.2.3", "1.2.3.4", "v1.2.3", "1.2.3-"] {
            let error = SemanticVersion::parse(text).expect_err(text).to_string();
            assert!(error.contains("not a semantic version"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn test_quantities_of_whole_numbers_are_those_numbers(value in any::<i64>(), scale in 0usize..6) {
            let given = quantity(&format!("{value}{}", BINARY[scale]));
            prop_assert_eq!(given.number(), &(whole_number(value) * whole_number(1024).pow(scale as i32 + 1)));
        }

        #[test]
        fn test_quantities_and_versions_are_read_or_refused(text in ".{0,12}") {
            // Neither panics, and what is read is what was written.
            if let Ok(read) = ResourceQuantity::parse(&text) {
                prop_assert_eq!(read.to_string(), text.clone());
            }
            if let Ok(read) = SemanticVersion::parse(&text) {
                prop_assert_eq!(read.to_string(), text);
            }
        }
    }
}
