//! Reads spec files and refuses what cannot be true.

use indexmap::IndexMap;
use serde::Serialize;
use toml::{Table, Value as Toml};

use crate::error::{Error, Result};
use crate::quantity::{Quantity, Value};
use crate::unit::factor;

macro_rules! specs {
    ($($name:literal),* $(,)?) => {
        /// The systems whose spec files are part of the crate, with the text of each, in alphabetical order.
        pub const BUILT_IN: &[(&str, &str)] = &[$(($name, include_str!(concat!("../specs/", $name, ".toml")))),*];
    };
}

specs![
    "b200",
    "b300",
    "collectives",
    "gb200_nvl72",
    "gb300_nvl72",
    "h100",
    "h200",
    "measured",
    "neuroncore_v2",
    "neuroncore_v3",
    "neuroncore_v4",
    "tpu_v7",
    "trainium1",
    "trainium2",
    "trainium3",
    "trainium4",
    "trn1_32xlarge",
    "trn2_instance",
    "trn2_ultraserver",
    "trn3_gen1",
    "trn3_gen2",
    "ultracluster3",
];

/// What is published about one system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// Name of the system, as its spec file spells it.
    pub name: String,
    /// Name for readers.
    pub title: String,
    /// `core`, `chip`, `server`, `ultraserver`, `rack`, `cluster`, ...
    pub kind: String,
    /// The system that holds this one, for cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The other keys that begin with `_`, as they stand in the file without that sign: `chip`, `fabric`, ...
    pub parts: Table,
    /// The figures, in the order of the file.
    pub quantities: IndexMap<String, Quantity>,
}

impl Facts {
    /// The facts of a system of the crate.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none of that name.
    pub fn built_in(name: &str) -> Result<Self> {
        let found = BUILT_IN.iter().find(|(known, _)| *known == name);
        let (name, text) =
            found.ok_or_else(|| Error::unknown("system", name, BUILT_IN.iter().map(|(known, _)| *known)))?;
        let mut systems = Self::parse(&format!("{name}.toml"), text)?;
        systems.pop().ok_or_else(|| Error::Spec(format!("{name}.toml holds no system")))
    }

    /// The systems that a TOML text describes, in its order; `file` names the text in messages.
    ///
    /// # Errors
    /// [`Error::Spec`] if the text is no TOML, holds no system, or a quantity lacks its value, unit or sources, is
    /// negative or not finite, or is a rate of zero.
    pub fn parse(file: &str, text: &str) -> Result<Vec<Self>> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            Error::Spec(format!("{file} is not TOML: {}", error.to_string().trim_end().replace('\n', " ")))
        })?;
        let mut systems = Vec::new();
        for (name, entry) in table {
            match (name.as_str(), entry) {
                ("schema", Toml::Integer(1)) | ("generated_from", Toml::String(_)) => {}
                ("schema", other) => return Err(Error::Spec(format!("{file}: schema is {other}; allowed: 1"))),
                (_, Toml::Table(system)) => systems.push(system_of(file, &name, system)?),
                (_, other) => {
                    let got = other.type_str();
                    return Err(Error::Spec(format!("{file}: {name} is of type {got}; a system must be a table")));
                }
            }
        }
        if systems.is_empty() {
            return Err(Error::Spec(format!("{file} describes no system: it needs a table, like [my_system]")));
        }
        Ok(systems)
    }

    /// A figure by name.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the system has none of that name.
    pub fn quantity(&self, key: &str) -> Result<&Quantity> {
        self.quantities.get(key).ok_or_else(|| {
            let Error::Unknown { allowed, .. } =
                Error::unknown("quantity", key, self.quantities.keys().map(String::as_str))
            else {
                return Error::Spec(format!("{} lacks {key}", self.name));
            };
            Error::Unknown { what: "quantity", got: key.to_owned(), allowed: format!("in {}, {allowed}", self.name) }
        })
    }

    /// A figure in base units: bytes, seconds, operations, hertz, watts, US dollars and their quotients.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none of that name, [`Error::Spec`] if it has no such form.
    pub fn si(&self, key: &str) -> Result<f64> {
        let quantity = self.quantity(key)?;
        quantity.si().ok_or_else(|| {
            let Quantity { value, unit, .. } = quantity;
            Error::Spec(format!(
                "{}: {key} is {value:?} {unit}; needed: a number in a unit of bytes, time or rate",
                self.name
            ))
        })
    }
}

fn system_of(file: &str, name: &str, table: Table) -> Result<Facts> {
    let mut facts = Facts {
        name: name.to_owned(),
        title: name.to_owned(),
        kind: "system".to_owned(),
        parent: None,
        parts: Table::new(),
        quantities: IndexMap::new(),
    };
    for (key, entry) in table {
        match (key.strip_prefix('_'), entry) {
            (Some("title"), Toml::String(text)) => facts.title = text,
            (Some("kind"), Toml::String(text)) => facts.kind = text,
            (Some("parent"), Toml::String(text)) => facts.parent = Some(text),
            (Some(part), entry) => {
                facts.parts.insert(part.to_owned(), entry);
            }
            (None, entry) => {
                let quantity: Quantity = entry.try_into().map_err(|error: toml::de::Error| {
                    let why = error.message().replace('\n', " ");
                    Error::Spec(format!(
                        "{file}: {name}.{key}: {why}; a quantity has default, unit, conflict, why, note, sources"
                    ))
                })?;
                check(file, name, &key, &quantity)?;
                facts.quantities.insert(key, quantity);
            }
        }
    }
    check_whole(file, &facts)?;
    Ok(facts)
}

/// What a chip must say of itself, and what asks for it.
const OF_A_CHIP: [(&str, &str); 2] =
    [("hbm_bandwidth", "every roofline reads it"), ("hbm_capacity", "every memory table reads it")];

/// Refuses a chip that lacks a figure without which nothing can be said of it.
fn check_whole(file: &str, facts: &Facts) -> Result<()> {
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

fn check(file: &str, name: &str, key: &str, quantity: &Quantity) -> Result<()> {
    let refuse = |what: &str| Err(Error::Spec(format!("{file}: {name}.{key}: {what}")));
    if quantity.sources.is_empty() {
        return refuse("has no source; needed: at least one { value, source }");
    }
    if factor(&quantity.unit).is_none() {
        let unit = &quantity.unit;
        return refuse(&format!(
            "unit {unit:?} is unknown; allowed: count, x, fraction, B to EB, KiB to TiB, FLOPS, Hz, s, W, USD with SI prefixes, /s and /h"
        ));
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
        let rate = quantity.unit.contains("/s") || quantity.unit.contains("FLOPS") || quantity.unit.contains("Hz");
        if rate && number == 0.0 {
            return refuse(&format!("is 0 {}; a rate must be positive", quantity.unit));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_every_built_in_file_holds_the_system_it_is_named_after() {
        for (name, text) in BUILT_IN {
            let systems = Facts::parse(name, text).expect("loads");
            assert_eq!(systems.len(), 1, "{name}");
            assert_eq!(&systems[0].name, name);
            assert!(!systems[0].quantities.is_empty());
        }
    }

    #[test]
    fn test_conflicts_are_those_whose_sources_differ_or_are_explained() {
        for (name, _) in BUILT_IN {
            for (key, quantity) in Facts::built_in(name).expect("loads").quantities {
                assert!(
                    !quantity.conflict
                        || quantity.why.is_some()
                        || quantity.note.is_some()
                        || quantity.sources.len() > 1,
                    "{name}.{key}"
                );
            }
        }
    }

    #[test]
    fn test_wrong_files_are_refused_by_name() {
        let source = "sources = [{ value = 1, source = \"x\" }]";
        for (body, needle) in [
            (format!("[a.b]\ndefault = -1\nunit = \"GB/s\"\n{source}"), "a.b: is -1 GB/s"),
            (format!("[a.b]\ndefault = 0\nunit = \"GB/s\"\n{source}"), "a rate must be positive"),
            (format!("[a.b]\ndefault = nan\nunit = \"W\"\n{source}"), "finite"),
            (format!("[a.b]\nunit = \"W\"\n{source}"), "a.b: missing field `default`"),
            ("[a.b]\ndefault = 1\nunit = \"W\"\nsources = []".to_owned(), "no source"),
            (format!("[a.b]\ndefault = 1\nunit = \"parsec\"\n{source}"), "unit \"parsec\" is unknown"),
            (format!("[a.b]\ndefault = 1\nwrong = 2\n{source}"), "wrong"),
            ("[a.b]\ndefault = 1\nsources = [{ value = 1, unit = \"ell\", source = \"x\" }]".to_owned(), "\"ell\""),
            (
                format!("[a]\n_kind = \"chip\"\n[a.b]\ndefault = 1\n{source}"),
                "a lacks hbm_bandwidth, and every roofline",
            ),
            ("schema = 2\n[a]".to_owned(), "schema is 2"),
            ("x = ".to_owned(), "not TOML"),
            (String::new(), "describes no system"),
            ("a = 3".to_owned(), "a is of type integer"),
        ] {
            let error = Facts::parse("mine.toml", &body).expect_err(&body).to_string();
            assert!(error.contains(needle) && error.contains("mine.toml"), "{body}: {error}");
        }
    }

    #[test]
    fn test_unknown_names_say_the_nearest() {
        assert!(Facts::built_in("trainium5").expect_err("none").to_string().contains("trainium"));
        let chip = Facts::built_in("trainium3").expect("loads");
        assert!(chip.quantity("hbm_bandwith").expect_err("typo").to_string().contains("\"hbm_bandwidth\""));
        assert!(chip.si("process").is_err());
    }
}
