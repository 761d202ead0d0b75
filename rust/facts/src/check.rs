//! What spec files cannot say: a rate of zero, a figure without a source, a chip without a memory.

use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::quantity::{Quantity, Value};
use crate::unit::{KNOWN, factor};

/// What a chip must say of itself, and what asks for it.
const OF_A_CHIP: [(&str, &str); 2] =
    [("hbm_bandwidth", "every roofline reads it"), ("hbm_capacity", "every memory table reads it")];

/// Refuses a chip that lacks a figure without which nothing can be said of it.
pub(crate) fn check_whole(file: &str, facts: &Facts) -> Result<()> {
    // What a vendor has announced may be less than a chip, and says what it is measured by instead.
    if !facts.kind.starts_with("chip") || facts.parts.contains_key("basis") {
        return Ok(());
    }
    let name = &facts.name;
    for (key, needed) in OF_A_CHIP {
        if !facts.quantities.contains_key(key) {
            return Err(Error::Spec(format!(
                "{file}: {name} lacks {key}, and {needed}; add [{name}.{key}] with default, unit and sources"
            )));
        }
    }
    let is_peak = |key: &String| key.starts_with("tflops_") || key.starts_with("tops_");
    if !facts.quantities.keys().any(is_peak) {
        return Err(Error::Spec(format!(
            "{file}: {name} lacks a peak rate, and every roofline reads one; add [{name}.tflops_bf16], or another \
             tflops_..., with default, unit and sources"
        )));
    }
    Ok(())
}

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
