//! Cores as the simulator of one runs them: entries with value, unit and source, none of which repeats a figure.
//!
//! An entry of a machine's file is `{ value, unit, source }`, or `{ from, unit, source }`: arithmetic on figures of
//! systems (`trainium3.hbm_bandwidth`), on entries of other machines (`trn2.scalar_fixed_ns`) and on the file's own. With
//! `_base`, the name of a machine, a file holds only what differs from that one. Without either it is what users wrote
//! before: a table of values.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use toml::{Table, Value};

use crate::built_in::aliases;
use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::show::rounded;
use crate::spec::Spec;
use crate::value::Value as Figure;

/// The machines of the crate, with the text of each.
pub const MACHINES: [(&str, &str); 4] = [
    ("trn1", include_str!("../specs/machines/trn1.toml")),
    ("trn2", include_str!("../specs/machines/trn2.toml")),
    ("trn3", include_str!("../specs/machines/trn3.toml")),
    ("trainium4_whatif", include_str!("../specs/machines/trainium4_whatif.toml")),
];

/// The name of a machine of the crate, given it or another name of it.
pub fn machine_name(name: &str) -> Option<&'static str> {
    let name = aliases("machines").get(name).map_or(name, String::as_str);
    MACHINES.iter().map(|(known, _)| *known).find(|known| *known == name)
}

/// What the crate's files hold, as they stand.
static RAW: LazyLock<BTreeMap<&'static str, Result<Table>>> = LazyLock::new(|| {
    let read = |name: &str, text: &str| {
        text.parse::<Table>().map_err(|error| Error::Spec(format!("{name}.toml is not TOML: {error}")))
    };
    MACHINES.iter().map(|(name, text)| (*name, read(name, text))).collect()
});

fn raw(name: &str) -> Result<&'static Table> {
    let found = machine_name(name).and_then(|name| RAW.get(name));
    let found = found.ok_or_else(|| Error::unknown("machine", name, MACHINES.map(|(known, _)| known)))?;
    found.as_ref().map_err(Clone::clone)
}

/// The description of a machine of the crate, every entry with its value.
///
/// # Errors
/// [`Error::Unknown`] if there is none of that name.
///
/// ```
/// use trn3_facts::machine::machine;
///
/// let entry = &machine("trn3")?["hbm_gbps"];
/// assert_eq!(entry["value"].as_float(), Some(4900.0));
/// # Ok::<(), trn3_facts::Error>(())
/// ```
pub fn machine(name: &str) -> Result<Table> {
    resolve(name, raw(name)?.clone())
}

/// A description with values for references and with the entries of its base; `name` is for messages.
///
/// # Errors
/// [`Error::Spec`] names the entry that refers to what is not there.
pub fn resolve(name: &str, table: Table) -> Result<Table> {
    let wrong = |what: String| Error::Spec(format!("{name}: {what}"));
    let mut whole = match base_of(&table) {
        None => Table::new(),
        Some(base) => base.and_then(machine).map_err(|error| wrong(format!("_base: {error}")))?,
    };
    for (key, entry) in &table {
        let mut entry = entry.clone();
        if let Value::Table(fields) = &mut entry
            && fields.contains_key("from")
        {
            let value = value_of(&table, key, 0).map_err(|error| wrong(format!("entry {key}: {error}")))?;
            fields.remove("from");
            fields.insert("value".to_owned(), Value::Float(value));
        }
        whole.insert(key.clone(), entry);
    }
    whole.remove(BASE);
    Ok(whole)
}

/// The machine that a description is like, where it says nothing else.
const BASE: &str = "_base";

fn base_of(table: &Table) -> Option<Result<&str>> {
    let base = table.get(BASE)?;
    Some(base.as_str().ok_or_else(|| Error::Spec(format!("it is {base}; must be the name of a machine"))))
}

/// References to references end somewhere.
const DEEPEST: usize = 8;

/// The value of a description's entry, in the entry's unit.
fn value_of(table: &Table, key: &str, depth: usize) -> Result<f64> {
    let missing = || Error::Spec(format!("{key} is no entry with a number"));
    let Some(entry) = table.get(key) else {
        return match base_of(table) {
            Some(base) => value_of(raw(base?)?, key, depth + 1),
            None => Err(missing()),
        };
    };
    let entry = entry.as_table().ok_or_else(missing)?;
    let Some(from) = entry.get("from") else { return number(entry).ok_or_else(missing) };
    let text = from.as_str().ok_or_else(|| Error::Spec("from must be a text".to_owned()))?;
    if depth > DEEPEST {
        return Err(Error::Spec(format!("'{text}' leads back to itself")));
    }
    let value = Expression::parse(text)?.value(|name| known(table, name, depth + 1))?;
    Ok(rounded(value / base(unit_of(table, key).unwrap_or_default())))
}

/// What a name in a description stands for, in base units.
fn known(table: &Table, name: &str, depth: usize) -> Option<f64> {
    let of_entry = |table: &Table, key: &str| Some(value_of(table, key, depth).ok()? * base(unit_of(table, key)?));
    let Some((owner, figure)) = name.split_once('.') else { return of_entry(table, name) };
    if let Some(table) = RAW.get(owner).and_then(|table| table.as_ref().ok())
        && let Some(value) = of_entry(table, figure)
    {
        return Some(value);
    }
    let spec = Spec::built_in(owner).ok()?;
    // Of several numbers a machine is made for the largest.
    let largest = |values: &[Figure]| values.iter().filter_map(Figure::number).reduce(f64::max);
    match spec.quantities.get(figure).map(|quantity| &quantity.value) {
        Some(Figure::List(values)) => largest(values),
        _ => spec.known(figure),
    }
}

fn unit_of<'a>(table: &'a Table, key: &str) -> Option<&'a str> {
    match table.get(key) {
        Some(entry) => entry.get("unit")?.as_str(),
        None => unit_of(raw(base_of(table)?.ok()?).ok()?, key),
    }
}

fn number(entry: &Table) -> Option<f64> {
    match entry.get("value")? {
        Value::Integer(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

/// What one of a machine's unit is in base units; counts, and what is so much a cycle, are 1.
fn base(unit: &str) -> f64 {
    match unit {
        "MHz" => 1e6,
        "GB/s" | "bytes/ns" => 1e9,
        "ns" => 1e-9,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Result<Table> {
        resolve("mine", text.parse().expect("TOML"))
    }

    #[test]
    fn test_entries_refer_to_figures_and_to_each_other() {
        let table = resolved(
            "a = { from = \"trainium2.hbm_bandwidth / 2\", unit = \"GB/s\", source = \"x\" }\n\
             b = { from = \"neuroncore_v4.tensor_didt_ramp\", unit = \"ns\", source = \"x\" }\n\
             c = { from = \"a * d\", unit = \"bytes/ns\", source = \"x\" }\n\
             d = { value = 3, unit = \"ratio\", source = \"x\" }\n\
             e = { from = \"trn2.vector_clock_mhz\", unit = \"MHz\", source = \"x\" }",
        )
        .expect("resolves");
        let value = |key: &str| table[key]["value"].as_float();
        assert_eq!(["a", "b", "c", "e"].map(value), [Some(1450.0), Some(3000.0), Some(4350.0), Some(960.0)]);
    }

    #[test]
    fn test_a_base_gives_what_is_not_said() {
        let table = resolved("_base = \"gen4\"\nhbm_gbps = { value = 5500, unit = \"GB/s\", source = \"a rumour\" }");
        let table = table.expect("resolves");
        assert_eq!(table.len(), machine("trn3").expect("there").len());
        assert_eq!(table["hbm_gbps"]["value"].as_integer(), Some(5500));
        assert_eq!(table["cores"], machine("trn3").expect("there")["cores"]);
    }

    #[test]
    fn test_references_to_nothing_are_refused_by_name() {
        for (text, complaint) in [
            ("a = { from = \"trainium9.tdp\", unit = \"\" }", "entry a: 'trainium9.tdp': trainium9.tdp is not known"),
            ("a = { from = \"b\", unit = \"\" }\nb = { from = \"a\", unit = \"\" }", "entry a"),
            ("a = { from = \"b +\", unit = \"\" }", "ends too early"),
            ("a = { from = 3 }", "from must be a text"),
            ("_base = \"trn9\"", "_base"),
            ("_base = 3", "_base: it is 3"),
        ] {
            let error = resolved(text).expect_err(text).to_string();
            assert!(error.starts_with("mine: ") && error.contains(complaint), "{error}");
        }
    }

    #[test]
    fn test_no_machine_repeats_a_figure_of_a_system() {
        for (name, text) in MACHINES {
            let table: Table = text.parse().expect("TOML");
            let of_base = |key: &str| raw(base_of(&table)?.ok()?).ok()?.get(key);
            for key in ["hbm_gbps", "hbm_bytes", "cores", "tensor_clock_mhz", "dma_engines", "sbuf_partition_bytes"] {
                let entry = table.get(key).or_else(|| of_base(key)).expect(key);
                assert!(entry.get("from").is_some(), "{name}.{key}");
            }
        }
        assert_eq!((machine_name("inf2"), machine_name("trn9")), (Some("trn1"), None));
    }
}
