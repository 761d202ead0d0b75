//! One entry of a description, checked: its value, its unit and its source.

use toml::{Table, Value};

use super::Entry;
use crate::error::{Error, Result};

/// Takes an entry out of a description.
pub(super) fn take(
    table: &mut Table,
    entries: &mut Vec<Entry>,
    name: &str,
    key: &str,
    unit: &str,
    range: std::ops::RangeInclusive<f64>,
) -> Result<f64> {
    let fail = |text: String| Error::Arch(format!("arch {name}: entry {key} {text}"));
    let Some(entry) = table.remove(key) else {
        return Err(fail(format!("is missing; it needs value, unit = \"{unit}\" and source")));
    };
    let Value::Table(entry) = entry else {
        return Err(fail("is no table; write { value = ..., unit = ..., source = ... }".to_owned()));
    };
    let value = match entry.get("value") {
        Some(Value::Integer(value)) => *value as f64,
        Some(Value::Float(value)) => *value,
        other => return Err(fail(format!("has value {other:?}; a number is needed"))),
    };
    let text = |field: &str| entry.get(field).and_then(Value::as_str).map(str::to_owned);
    if text("unit").as_deref() != Some(unit) {
        return Err(fail(format!("has unit {:?}; allowed: \"{unit}\"", text("unit").unwrap_or_default())));
    }
    let Some(source) = text("source").filter(|source| !source.is_empty()) else {
        return Err(fail("has no source; say where the value comes from".to_owned()));
    };
    if !range.contains(&value) {
        return Err(fail(format!("is {value} {unit}; allowed: {} to {}", range.start(), range.end())));
    }
    entries.push(Entry { key: key.to_owned(), value, unit: unit.to_owned(), source });
    Ok(value)
}

/// A count, which is no fraction.
pub(super) fn whole(name: &str, key: &str, value: f64) -> Result<u64> {
    if value.fract() != 0.0 {
        return Err(Error::Arch(format!("arch {name}: entry {key} is {value}; a whole number is needed")));
    }
    Ok(value as u64)
}
