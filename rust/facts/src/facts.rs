//! What spec files say of systems, read and checked.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Serialize;
use toml::{Table, Value as Toml};

use crate::check::check;
use crate::error::{Error, Result, allowed};
use crate::quantity::Quantity;

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
    /// Where they were read, for messages.
    #[serde(skip)]
    pub file: String,
    /// The figures, in the order of the file.
    pub quantities: IndexMap<String, Quantity>,
    /// All systems of its file, itself too, where that is not one of the crate: parts are looked up there first.
    #[serde(skip)]
    pub siblings: Siblings,
}

/// The systems of one file; themselves without siblings.
#[derive(Clone, Debug, Default)]
pub struct Siblings(Arc<[Facts]>);

impl PartialEq for Siblings {
    /// Where a system was read is no part of what is published about it.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl From<Vec<Facts>> for Siblings {
    fn from(systems: Vec<Facts>) -> Self {
        Self(systems.into())
    }
}

impl Siblings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every system of the file, in its order.
    pub fn all(&self) -> Vec<Facts> {
        self.0.iter().map(|facts| Facts { siblings: self.clone(), ..facts.clone() }).collect()
    }

    /// The system of a name.
    pub fn get(&self, name: &str) -> Option<Facts> {
        let found = self.0.iter().find(|facts| facts.name == name)?;
        Some(Facts { siblings: self.clone(), ..found.clone() })
    }
}

impl Facts {
    /// The system of the crate that it is like: its base's, else its own name.
    pub fn like(&self) -> &str {
        self.parts.get(&LIKE[1..]).and_then(Toml::as_str).unwrap_or(&self.name)
    }

    /// Whether a figure was set over the base's, so that no formula computes it.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        let set = self.parts.get(&SET[1..]).and_then(Toml::as_array);
        set.is_some_and(|set| set.iter().any(|known| known.as_str() == Some(key)))
    }

    /// A figure by name.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the system has none of that name.
    pub fn quantity(&self, key: &str) -> Result<&Quantity> {
        quantity(&self.name, &self.quantities, key)
    }

    /// A figure in base units: bytes, seconds, operations, hertz, watts, US dollars and their quotients.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none of that name, [`Error::Spec`] if it has no such form.
    pub fn si(&self, key: &str) -> Result<f64> {
        si(&self.name, &self.quantities, key)
    }
}

/// A figure of a system by name.
pub(crate) fn quantity<'a>(system: &str, held: &'a IndexMap<String, Quantity>, key: &str) -> Result<&'a Quantity> {
    held.get(key).ok_or_else(|| {
        let known = allowed(key, held.keys().map(String::as_str));
        Error::Unknown { what: "quantity", got: key.to_owned(), allowed: format!("in {system}, {known}") }
    })
}

/// A figure of a system in base units.
pub(crate) fn si(system: &str, held: &IndexMap<String, Quantity>, key: &str) -> Result<f64> {
    let found = quantity(system, held, key)?;
    found.si().ok_or_else(|| {
        let Quantity { value, unit, .. } = found;
        Error::Spec(format!("{system}: {key} is {value:?} {unit}; needed: a number in a unit of bytes, time or rate"))
    })
}

/// The arithmetic that a figure is; `None` where somebody published it, even if arithmetic agrees.
fn formula(quantity: &Quantity) -> Option<String> {
    if quantity.sources.iter().any(|source| source.expression().is_none()) {
        return None;
    }
    let same = quantity.sources.iter().find(|source| source.value == quantity.value)?;
    same.expression().map(str::to_owned)
}

pub(crate) fn system_of(file: &str, name: &str, table: Table) -> Result<Facts> {
    let mut facts = Facts {
        name: name.to_owned(),
        title: name.to_owned(),
        kind: "system".to_owned(),
        parent: None,
        parts: Table::new(),
        file: file.to_owned(),
        quantities: IndexMap::new(),
        siblings: Siblings::default(),
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
                let mut quantity: Quantity = entry.try_into().map_err(|error: toml::de::Error| {
                    let why = error.message().replace('\n', " ");
                    Error::Spec(format!(
                        "{file}: {name}.{key}: {why}; a quantity has default, unit, conflict, why, note, sources"
                    ))
                })?;
                check(file, name, &key, &quantity)?;
                quantity.formula = formula(&quantity);
                facts.quantities.insert(key, quantity);
            }
        }
    }
    check_whole(file, &facts)?;
    Ok(facts)
}

/// Figures that a table sets over its base: no formula computes them.
pub(crate) const SET: &str = "_set";
/// The system of the crate that a table descends from.
pub(crate) const LIKE: &str = "_like";

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in::BUILT_IN;

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
