//! Systems beside each other: which figures of theirs are the same one under different names is data, `comparison.toml`.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::quantity::{Quantity, Status};
use crate::show::{rounded, shown, significant};
use crate::spec::Spec;
use crate::unit::known_factor;
use crate::value::Value;

/// Which value of a figure a comparison shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peaks {
    /// What is published, where anything is.
    Published,
    /// What follows from the parts, where these are known.
    Array,
}

/// A figure of one system in a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its name in the system's spec; `None` if the system has no such figure.
    pub key: Option<String>,
    /// In the row's unit; `None` for a text, or where there is none.
    pub value: Option<f64>,
    /// With its unit, for readers; `-` where there is none.
    pub text: String,
    /// How far its sources agree; `None` where there is none.
    pub status: Option<Status>,
    /// Least and largest value of the sources, in the row's unit; `None` where they agree.
    pub spread: Option<(f64, f64)>,
    /// The figure with its sources.
    pub quantity: Option<Quantity>,
}

/// One figure of all systems.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonRow {
    /// Its name: `fp8`, `hbm_bandwidth`, ...
    pub id: String,
    /// Its name for readers.
    pub title: String,
    /// The unit of its values.
    pub unit: String,
    /// One for each system.
    pub cells: Vec<Cell>,
    /// To the first system; `None` where there is none.
    pub ratios: Vec<Option<f64>>,
}

/// Systems beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Their specs.
    pub systems: Vec<Arc<Spec>>,
    /// What at least one of them has.
    pub rows: Vec<ComparisonRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    title: String,
    units: [String; 2],
    #[serde(default)]
    chip: Vec<String>,
    #[serde(default)]
    system: Vec<String>,
}

#[derive(Deserialize)]
struct Entries {
    row: Vec<Entry>,
}

/// The kind of a chip that is also described as a pod of many.
const POD: &str = "chip and pod";

/// Sets systems beside each other. Chips compare with chips and systems with systems; a mixture is compared as it stands,
/// as systems.
///
/// # Errors
/// [`Error::Spec`] if there are fewer than two or one comes twice, and where a system has no spec.
///
/// ```
/// use trn3_facts::{Facts, Peaks, compare};
///
/// let systems = [Facts::load("trn3")?, Facts::load("b300")?];
/// let table = compare(&systems, Peaks::Published)?;
/// let row = table.rows.iter().find(|row| row.id == "fp8").unwrap();
/// assert_eq!(row.cells[0].text, "2,517 TFLOPS");
/// # Ok::<(), trn3_facts::Error>(())
/// ```
pub fn compare(systems: &[Facts], peaks: Peaks) -> Result<Comparison> {
    static ENTRIES: LazyLock<Result<Entries>> = LazyLock::new(|| {
        toml::from_str(include_str!("../specs/comparison.toml"))
            .map_err(|error| Error::Spec(format!("comparison.toml: {error}")))
    });
    if systems.len() < 2 {
        return Err(Error::Spec(format!("systems are {}; a comparison needs two or more", systems.len())));
    }
    let mut names: Vec<&str> = systems.iter().map(|facts| facts.name.as_str()).collect();
    names.sort_unstable();
    let mut twice: Vec<&str> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    twice.dedup();
    if !twice.is_empty() {
        return Err(Error::Spec(format!("systems: {} comes twice; name each once", twice.join(", "))));
    }
    let large = systems.iter().any(|facts| !facts.kind.starts_with("chip"));
    let specs = systems.iter().map(|facts| Spec::of(facts, Default::default())).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for entry in &ENTRIES.as_ref().map_err(Clone::clone)?.row {
        let unit = &entry.units[usize::from(large)];
        let cells: Vec<Cell> = specs.iter().map(|spec| cell(spec, entry, unit, peaks, large)).collect::<Result<_>>()?;
        if cells.iter().any(|cell| cell.quantity.is_some()) {
            let first = cells[0].value.filter(|first| *first != 0.0);
            let ratio = |cell: &Cell| Some(significant(cell.value? / first?, 10));
            let (id, title, unit) = (entry.id.clone(), entry.title.clone(), unit.clone());
            rows.push(ComparisonRow { id, title, unit, ratios: cells.iter().map(ratio).collect(), cells });
        }
    }
    Ok(Comparison { systems: specs, rows })
}

fn cell(spec: &Spec, entry: &Entry, unit: &str, peaks: Peaks, large: bool) -> Result<Cell> {
    let kind = spec.facts.kind.as_str();
    let as_chip = kind == "chip" || (kind == POD && !large);
    let keys = if as_chip { &entry.chip } else { &entry.system };
    // The pod's own names are the only ones of a chip's that stand for all of it.
    let mut keys = keys.iter().filter(|key| kind != POD || as_chip || key.starts_with("pod_"));
    let Some((key, quantity)) = keys.find_map(|key| Some((key, spec.quantities.get(key)?))) else {
        return Ok(Cell { key: None, value: None, text: "-".into(), status: None, spread: None, quantity: None });
    };
    let empty = Cell {
        key: Some(key.clone()),
        value: None,
        text: shown(&quantity.value),
        status: Some(quantity.status()),
        spread: None,
        quantity: Some(quantity.clone()),
    };
    let Some(number) = quantity.number() else { return Ok(empty) };
    let scale = known_factor(&quantity.unit)? / known_factor(unit)?;
    let published = quantity.published.as_ref().and_then(Value::number).filter(|_| peaks == Peaks::Published);
    let value = rounded(published.unwrap_or(number) * scale);
    let text = shown(&Value::Number(value));
    let status = match (quantity.status(), published) {
        // What is published and agrees with the parts needs them no longer.
        (Status::Derived, Some(_)) => Status::Exact,
        (status, _) => status,
    };
    Ok(Cell {
        value: Some(value),
        text: if unit == "count" { text } else { format!("{text} {unit}") },
        status: Some(status),
        spread: quantity.range().map(|(least, most)| (rounded(least * scale), rounded(most * scale))),
        ..empty
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn systems(names: &[&str]) -> Vec<Facts> {
        names.iter().map(|name| Facts::load(name).expect("loads")).collect()
    }

    #[test]
    fn test_pods_stand_beside_systems_and_chips_beside_chips() {
        let row = |names: &[&str], id: &str| {
            let table = compare(&systems(names), Peaks::Published).expect("compares");
            table.rows.into_iter().find(|row| row.id == id)
        };
        let chips = row(&["gen2", "gb300", "tpu_v7"], "chips").expect("a row");
        assert_eq!(chips.cells.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>(), ["144", "72", "9,216"]);
        assert!(row(&["trainium3", "tpu_v7"], "chips").is_none());
        let rate = row(&["trainium3", "b300"], "hbm_bandwidth").expect("a row");
        assert!((rate.ratios[1].expect("a ratio") - 1.63).abs() < 0.005);
    }

    #[test]
    fn test_peaks_are_those_of_pages_or_of_arrays() {
        let text = |peaks| {
            let table = compare(&systems(&["trainium3", "trainium2"]), peaks).expect("compares");
            table.rows.iter().find(|row| row.id == "bf16").expect("a row").cells[0].text.clone()
        };
        assert_eq!([text(Peaks::Published), text(Peaks::Array)], ["671 TFLOPS", "629.15 TFLOPS"]);
    }

    #[test]
    fn test_one_system_alone_or_twice_is_refused() {
        for (names, complaint) in [(&["gen2"][..], "needs two or more"), (&["gen2", "gen2"], "trn3_gen2 comes twice")] {
            let error = compare(&systems(names), Peaks::Array).expect_err("refused").to_string();
            assert!(error.contains(complaint), "{error}");
        }
    }
}
