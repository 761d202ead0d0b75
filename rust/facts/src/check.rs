//! What spec files cannot say: a rate of zero, a figure without a source.

use crate::error::{Error, Result};
use crate::quantity::Quantity;
use crate::unit::{KNOWN, factor};
use crate::value::Value;

/// Refuses a figure that cannot be true, or that nobody published.
pub(crate) fn check(file: &str, name: &str, key: &str, quantity: &Quantity) -> Result<()> {
    let refuse = |what: &str| Err(Error::Spec(format!("{file}: {name}.{key}: {what}")));
    if quantity.sources.is_empty() {
        return refuse("has no source; needed: at least one { value, source }");
    }
    if factor(&quantity.unit).is_none() {
        let unit = &quantity.unit;
        return refuse(&format!("unit {unit:?} is unknown; allowed: {KNOWN}"));
    }
    for source in &quantity.sources {
        if let Some(unit) = source.unit.as_deref().filter(|unit| factor(unit).is_none()) {
            return refuse(&format!("a source has the unit {unit:?}, which is unknown"));
        }
    }
    if let Value::Number(number) = quantity.value {
        if !number.is_finite() || number < 0.0 {
            return refuse(&format!("is {number} {}; must be finite and not negative", quantity.unit));
        }
        if is_rate(&quantity.unit) && number == 0.0 {
            return refuse(&format!("is 0 {}; a rate must be positive", quantity.unit));
        }
    }
    Ok(())
}

/// Whether a figure of a unit is so much a second, and so never nothing.
pub(crate) fn is_rate(unit: &str) -> bool {
    ["/s", "FLOPS", "Hz"].iter().any(|mark| unit.contains(mark))
}
