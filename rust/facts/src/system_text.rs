//! What users name systems by: `gen2`, `mine.toml`, `mine.toml:my_rack`, each with changes, `gen2:hbm_bandwidth=+100%`.

use std::io::ErrorKind;

use toml::Table;

use crate::built_in::{aliases, canonical};
use crate::change::listed;
use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::files::read_text;
use crate::what_if::{apply, refresh};

/// A system that somebody named: one of the crate as it is, or one of a spec file's text.
///
/// ```
/// use trn3_facts::SystemText;
///
/// let gen2 = SystemText::find("trn3", "plans")?;
/// assert_eq!((gen2.name.as_str(), gen2.file.is_none()), ("trn3_gen2", true));
/// let faster = SystemText::find("gen2:hbm_bandwidth=+100%,chips=72", "plans")?.facts()?;
/// assert_eq!(faster.part("chip")?.unwrap().si("hbm_bandwidth")?, 9.8e12);
/// assert_eq!(faster.si("chips")?, 72.0);
/// # Ok::<(), trn3_facts::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SystemText {
    /// Its name, as the crate or the text has it.
    pub name: String,
    /// What messages call the spec file that describes it, and the file's text; `None` for a system of the crate.
    pub file: Option<(String, String)>,
}

/// The end of a path that names a spec file.
const ENDING: &str = ".toml";

impl SystemText {
    /// The system that a text names: by a name or by another name of one of some kinds (`systems`, `plans`, ...: see
    /// [`aliases`]), or by the path of a spec file, which an entry of it may follow (`mine.toml:my_rack`); with changes
    /// behind another colon.
    ///
    /// # Errors
    /// [`Error::Spec`] names what is unknown and what is allowed; [`Error::File`] if a file cannot be read.
    pub fn find(text: &str, kind: &str) -> Result<Self> {
        let (place, entry, changes) = taken_apart(text)?;
        if !is_path(place) {
            let name = aliases(kind)
                .get(&place.trim().to_lowercase())
                .map_or_else(|| canonical(place), |name| canonical(name))?;
            if let Some(entry) = entry.filter(|entry| *entry != name) {
                return Err(Error::Spec(format!(
                    "{text}: {place} is one system of the package, {name}, not a file with {entry:?}"
                )));
            }
            return match changes {
                None => Ok(Self { name: name.to_owned(), file: None }),
                Some(changes) => Self::changed(text, name, Table::new(), &Facts::built_in(name)?, changes),
            };
        }
        let content = text_of_file(place)?;
        let systems = Facts::parse(place, &content)?;
        let found = match entry {
            None => Facts::whole_of(&systems, place)?,
            Some(entry) => named_among(&systems, place, entry)?,
        };
        match changes {
            None => Ok(Self { name: found.name, file: Some((place.to_owned(), content)) }),
            Some(changes) => {
                let tables =
                    content.parse().map_err(|error: toml::de::Error| Error::Spec(error.message().to_owned()))?;
                Self::changed(text, &found.name, tables, &found, changes)
            }
        }
    }

    fn changed(text: &str, name: &str, mut tables: Table, facts: &Facts, changes: &str) -> Result<Self> {
        apply(&mut tables, facts, changes).map_err(|error| match error {
            Error::Spec(what) => Error::Spec(format!("{text}: {what}")),
            other => other,
        })?;
        let written = |tables: &Table| toml::to_string(tables).map_err(|error| Error::Spec(format!("{text}: {error}")));
        let found = Facts::named(text, &written(&tables)?, name)?;
        refresh(&mut tables, facts, &found)?;
        let file = written(&tables)?;
        Ok(Self { name: name.to_owned(), file: Some((text.to_owned(), file)) })
    }

    /// What is published about it.
    ///
    /// # Errors
    /// [`Error::Spec`] if its text is wrong or has no system of its name.
    pub fn facts(&self) -> Result<Facts> {
        match &self.file {
            None => Facts::built_in(&self.name),
            Some((file, text)) => Facts::named(file, text, &self.name),
        }
    }
}

impl Facts {
    /// The system of a name among those that a spec file's text describes.
    ///
    /// # Errors
    /// [`Error::Spec`] if the text is wrong or has no such system.
    pub fn named(file: &str, text: &str, name: &str) -> Result<Self> {
        named_among(&Self::parse(file, text)?, file, name)
    }
}

fn named_among(systems: &[Facts], file: &str, name: &str) -> Result<Facts> {
    let known = || systems.iter().map(|facts| facts.name.as_str());
    let found = systems.iter().find(|facts| facts.name == name).cloned();
    found.ok_or_else(|| Error::Spec(format!("{file}: {}", Error::unknown("system", name, known()))))
}

/// Whether a text names a file, not a system of the crate.
pub(crate) fn is_path(place: &str) -> bool {
    place.ends_with(ENDING) || place.contains(std::path::MAIN_SEPARATOR)
}

/// The text of a spec file.
pub(crate) fn text_of_file(path: &str) -> Result<String> {
    read_text(path.as_ref()).map_err(|error| match error.raw_os_error() {
        None if error.kind() == ErrorKind::InvalidData => Error::Spec(format!("{path} is not TOML: {error}")),
        None => Error::Spec(format!("{path}: {error}")),
        number => Error::File { file: path.to_owned(), why: error.to_string(), number },
    })
}

/// The parts of a text: where, which entry there, which changes. Colons of a path are its own.
pub fn taken_apart(text: &str) -> Result<(&str, Option<&str>, Option<&str>)> {
    let marked = text.match_indices(ENDING).map(|(at, _)| at + ENDING.len());
    let end = marked.filter(|end| text[*end..].is_empty() || text[*end..].starts_with(':')).last();
    let (place, rest) = match end {
        Some(end) => (&text[..end], text[end..].strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(place, rest)| (place, Some(rest))),
    };
    let Some(rest) = rest else { return Ok((place, None, None)) };
    let (entry, changes) = match rest.split_once(':') {
        Some((entry, changes)) => (Some(entry), Some(changes)),
        None if rest.contains('=') => (None, Some(rest)),
        None => (Some(rest), None),
    };
    match (place.trim(), entry) {
        ("", _) | (_, Some("")) => Err(Error::Spec(format!(
            "{text:?} names no system; write NAME, FILE.toml or FILE.toml:ENTRY, and :FIGURE=VALUE,FIGURE=VALUE for changes"
        ))),
        _ => Ok((place, entry, changes)),
    }
}

/// What a text with changes changes, and the changes; none for a text without.
///
/// ```
/// use trn3_facts::base_and_changes;
///
/// let (base, changes) = base_and_changes("mine.toml:wide:psum_banks=4,hbm_gbps=+10%")?;
/// assert_eq!((base, changes.len()), ("mine.toml:wide", 2));
/// # Ok::<(), trn3_facts::Error>(())
/// ```
///
/// # Errors
/// [`Error::Spec`] if the changes are not of the form `FIGURE=VALUE,FIGURE=VALUE`.
pub fn base_and_changes(text: &str) -> Result<(&str, Vec<(String, String)>)> {
    match taken_apart(text) {
        Ok((_, _, Some(changes))) if changes.contains('=') => {
            Ok((&text[..text.len() - changes.len() - 1], listed(changes)?))
        }
        _ => Ok((text, Vec::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_texts_are_taken_apart() {
        for (text, parts) in [
            ("gen2", ("gen2", None, None)),
            ("gen2:chips=72", ("gen2", None, Some("chips=72"))),
            ("a/b:c.toml", ("a/b:c.toml", None, None)),
            ("mine.toml:rack", ("mine.toml", Some("rack"), None)),
            ("mine.toml:rack:tdp=5,x=+1%", ("mine.toml", Some("rack"), Some("tdp=5,x=+1%"))),
            ("mine.toml:tdp=5", ("mine.toml", None, Some("tdp=5"))),
        ] {
            assert_eq!(taken_apart(text).expect(text), parts);
        }
        for text in ["", ":tdp=5", "mine.toml:", "mine.toml::tdp=5"] {
            assert!(taken_apart(text).is_err() || text.is_empty(), "{text}");
        }
    }

    #[test]
    fn test_what_does_not_exist_is_refused_by_name() {
        for (text, needle) in [
            ("gen9", "system 'gen9' is unknown; the nearest is 'gen2'"),
            ("gen2:rack", "one system of the package, trn3_gen2"),
            ("/nowhere/mine.toml", "/nowhere/mine.toml: No such file"),
        ] {
            let error = SystemText::find(text, "plans").expect_err(text).to_string();
            assert!(error.contains(needle), "{text}: {error}");
        }
    }
}
