//! Constants that nobody publishes, drawn from the ranges in which they may lie.
//!
//! Within [`drawn`] every read of such a constant of serving, training and collectives gives another value than its entry
//! has: the models need not know, and a constant that is added later is drawn too. What keeps constants beyond one read asks [`is_drawing`] first.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::facts::Facts;
use crate::quantity::Quantity;
use crate::unit::factor;
use crate::value::Value;

/// One of many draws: the same seed and number give the same constants on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantDraw {
    /// Whoever asks chooses it.
    pub seed: u64,
    /// Which of the draws of a seed.
    pub number: u64,
}

thread_local! {
    static DRAWING: Cell<Option<ConstantDraw>> = const { Cell::new(None) };
}

static SPREADS: LazyLock<BTreeMap<String, f64>> = LazyLock::new(|| {
    let read = Facts::parse("spreads.toml", include_str!("../specs/models/spreads.toml")).unwrap_or_default();
    let spreads = read.into_iter().flat_map(|facts| facts.quantities);
    spreads.filter_map(|(kind, spread)| Some((kind, spread.value.number()?))).collect()
});

/// Runs work in which constants that nobody publishes are drawn, on this thread.
///
/// ```
/// use trn3_facts::{ConstantDraw, drawn, parameters};
///
/// let read = || parameters("training").unwrap().si("achieved_fraction").unwrap();
/// let other = drawn(ConstantDraw { seed: 0, number: 1 }, read);
/// assert!(other != read() && (other / read()).ln().abs() <= 1.25f64.ln() + 1e-9);
/// assert_eq!(other, drawn(ConstantDraw { seed: 0, number: 1 }, read));
/// ```
pub fn drawn<T>(draw: ConstantDraw, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<ConstantDraw>);
    impl Drop for Restore {
        fn drop(&mut self) {
            DRAWING.set(self.0);
        }
    }
    let _restore = Restore(DRAWING.replace(Some(draw)));
    work()
}

/// Whether constants are being drawn on this thread.
pub fn is_drawing() -> bool {
    DRAWING.get().is_some()
}

/// The facts with their constants as drawn; as they are outside of [`drawn`].
pub(crate) fn varied(mut facts: Facts) -> Facts {
    let Some(draw) = DRAWING.get() else { return facts };
    for (key, quantity) in &mut facts.quantities {
        vary(draw, &facts.name, key, quantity);
    }
    if let Some(toml::Value::Table(constants)) = facts.parts.get_mut("model") {
        for (key, entry) in constants {
            let Some(table) = entry.as_table_mut() else { continue };
            let spread = table.get("source").and_then(toml::Value::as_str).and_then(spread_of);
            let Some((spread, value)) = spread.zip(table.get("value").and_then(number)) else { continue };
            let range = (value / (1.0 + spread), value * (1.0 + spread));
            table.insert("value".to_owned(), toml::Value::Float(between(draw, &facts.name, key, range)));
        }
    }
    facts
}

fn vary(draw: ConstantDraw, of: &str, key: &str, quantity: &mut Quantity) {
    let Some(spread) = quantity.sources.first().and_then(|source| spread_of(&source.source)) else { return };
    let Some(value) = quantity.number().filter(|value| *value > 0.0 && factor(&quantity.unit).is_some()) else {
        return;
    };
    let (low, high) = quantity.range().unwrap_or((value / (1.0 + spread), value * (1.0 + spread)));
    let most = if quantity.unit == "fraction" { 1.0 } else { f64::INFINITY };
    quantity.value = Value::Number(between(draw, of, key, (low, high)).min(most));
}

/// The spread of a constant by the kind of its source; `None` for what somebody published.
fn spread_of(source: &str) -> Option<f64> {
    SPREADS.iter().find(|(kind, _)| source.starts_with(kind.as_str())).map(|(_, spread)| *spread)
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// A value evenly in the logarithm between two, decided by the draw and the constant's name alone.
fn between(draw: ConstantDraw, of: &str, key: &str, (low, high): (f64, f64)) -> f64 {
    let mut state = mixed(mixed(draw.seed) ^ draw.number);
    for byte in of.bytes().chain([b'.']).chain(key.bytes()) {
        state = mixed(state ^ u64::from(byte));
    }
    // 53 bits: every value that a double between 0 and 1 of even steps has.
    let part = (mixed(state) >> 11) as f64 / (1u64 << 53) as f64;
    if low > 0.0 { (low.ln() + part * (high.ln() - low.ln())).exp() } else { low + part * (high - low) }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mixed(state: u64) -> u64 {
    let mut word = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in::parameters;

    fn read(number: u64, model: &str, key: &str) -> f64 {
        drawn(ConstantDraw { seed: 7, number }, || parameters(model).expect(model).si(key).expect(key))
    }

    #[test]
    fn test_what_was_chosen_is_drawn_within_its_spread_and_what_was_published_is_not() {
        let plain = |key| parameters("serving").expect("there").si(key).expect("there");
        let drawn: Vec<f64> = (0..200).map(|number| read(number, "serving", "code")).collect();
        let (low, high) = (plain("code") / 1.5, plain("code") * 1.5);
        assert!(drawn.iter().all(|value| (low..=high).contains(value)));
        let below = drawn.iter().filter(|value| **value < plain("code")).count();
        assert!((60..140).contains(&below), "{below} of 200 below the middle");
        assert_eq!(read(3, "serving", "profile_buffer"), plain("profile_buffer"));
        assert!(!is_drawing());
    }

    #[test]
    fn test_fractions_stay_fractions_and_constants_vary_apart() {
        assert!((0..200).all(|number| read(number, "training", "dp_overlap") <= 1.0));
        assert_ne!(read(1, "serving", "code") / read(1, "serving", "collectives_buffer"), 1.0);
    }

    #[test]
    fn test_what_is_read_once_is_not_drawn() {
        for model in ["energy", "latency"] {
            assert_eq!(drawn(ConstantDraw { seed: 1, number: 1 }, || parameters(model)), parameters(model));
        }
    }

    #[test]
    fn test_constants_of_collectives_are_drawn() {
        let share = || {
            let facts = Facts::built_in("collectives").expect("there");
            number(&facts.parts["model"]["memory_share"]["value"]).expect("a number")
        };
        assert_ne!(share(), drawn(ConstantDraw { seed: 1, number: 1 }, share));
    }
}
