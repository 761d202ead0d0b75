//! What spec files say of systems, read and checked.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Serialize;
use toml::{Table, Value as Toml};

use crate::built_in;
use crate::check::{check, check_whole};
use crate::error::{Error, Result, allowed};
use crate::expression::Expression;
use crate::quantity::{Quantity, Source};
use crate::show::rounded;
use crate::unit::known_factor;

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
    /// The facts of a system of the crate.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none of that name.
    pub fn built_in(name: &str) -> Result<Self> {
        built_in::facts(name)
    }

    /// The facts of a system of the crate, by its name or another one, or of the spec file at a path.
    ///
    /// # Errors
    /// [`Error::Spec`] if there is none, or the file is wrong or holds several; [`Error::File`] if it cannot be read.
    pub fn load(system: &str) -> Result<Self> {
        if !is_path(system) {
            return Self::built_in(built_in::canonical(system)?);
        }
        Self::whole_of(&Self::load_all(system)?, system)
    }

    /// All systems of the spec file at a path, in its order.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::Spec`] if it is wrong.
    pub fn load_all(path: &str) -> Result<Vec<Self>> {
        let bytes = std::fs::read(path).map_err(|error| Error::File {
            file: path.to_owned(),
            why: error.to_string(),
            number: error.raw_os_error(),
        })?;
        let text = String::from_utf8(bytes).map_err(|error| Error::Spec(format!("{path} is not TOML: {error}")))?;
        Self::parse(path, &text)
    }

    /// Of the systems of a file, the one that is part of no other.
    ///
    /// # Errors
    /// [`Error::Spec`] if there are several.
    pub fn whole_of(systems: &[Self], file: &str) -> Result<Self> {
        let held: Vec<&str> = systems.iter().flat_map(|facts| facts.parts.values()).filter_map(Toml::as_str).collect();
        let tops: Vec<&Self> = systems.iter().filter(|facts| !held.contains(&facts.name.as_str())).collect();
        let large: Vec<&Self> = tops.iter().copied().filter(|facts| facts.kind != "core").collect();
        match if large.is_empty() { tops } else { large }.as_slice() {
            [one] => Ok((*one).clone()),
            _ => {
                let names: Vec<&str> = systems.iter().map(|facts| facts.name.as_str()).collect();
                Err(Error::Spec(format!("{file} holds several systems: {}; say which one", names.join(", "))))
            }
        }
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
        Ok(Siblings::from(systems).all())
    }

    /// The facts of what this system is made of, by role: `core`, `chip`, `server`, ...; `None` if it does not say.
    ///
    /// # Errors
    /// [`Error::Spec`] if it names a system that does not exist.
    pub fn part(&self, role: &str) -> Result<Option<Self>> {
        let Some(part) = self.parts.get(role) else { return Ok(None) };
        let wrong = |what: String| Error::Spec(format!("{}: {}._{role}{what}", self.file, self.name));
        let Some(name) = part.as_str() else {
            return Err(wrong(format!(" is {part}; must be the name of a system")));
        };
        if let Some(sibling) = self.siblings.get(name) {
            return Ok(Some(sibling));
        }
        match Self::load(name) {
            Err(error @ Error::File { .. }) => Err(error),
            loaded => loaded.map(Some).map_err(|error| wrong(format!(": {error}"))),
        }
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

    /// The figures that sources derive from others: the name of the figure, the source, and what its arithmetic gives
    /// in the source's unit. Names in it are figures of the system or, with a role before them, of a part, as published.
    ///
    /// # Errors
    /// [`Error::Expression`] if one has no value.
    pub fn derived(&self) -> Result<Vec<(&str, &Source, f64)>> {
        let mut found = Vec::new();
        for (key, quantity) in &self.quantities {
            for source in &quantity.sources {
                let Some(text) = source.expression() else { continue };
                let expression = Expression::parse(text)?;
                let scale = match expression.names().is_empty() {
                    true => 1.0,
                    false => known_factor(source.unit.as_ref().unwrap_or(&quantity.unit))?,
                };
                let value = expression.value(|name| self.published(name))?;
                found.push((key.as_str(), source, rounded(value / scale)));
            }
        }
        Ok(found)
    }

    /// A figure as published, in base units; with a role before its name that of a part.
    fn published(&self, name: &str) -> Option<f64> {
        match name.split_once('.') {
            None => self.quantities.get(name)?.si(),
            Some((role, key)) => self.part(role).ok().flatten()?.published(key),
        }
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

fn system_of(file: &str, name: &str, table: Table) -> Result<Facts> {
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

/// Whether a text names a file, not a system of the crate.
fn is_path(system: &str) -> bool {
    system.ends_with(".toml") || system.contains(std::path::MAIN_SEPARATOR)
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
