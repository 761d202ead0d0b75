//! Reads the parts of one object; errors begin with where they are.

use serde_json::Value;

use crate::document::{Document, Object};
use crate::error::{Error, Result, guess};
use crate::names;
use crate::selector::Selector;
use crate::shown::{quoted, shown, text_of};

/// Reads the parts of one object.
pub(super) struct Reader<'a> {
    pub(super) document: &'a Document,
}

impl<'a> Reader<'a> {
    pub(super) fn fail(&self, path: &str, reason: impl std::fmt::Display) -> Error {
        self.document.fail(path, reason)
    }

    /// A mapping, whatever its fields.
    pub(super) fn mapping<'v>(&self, value: Option<&'v Value>, path: &str) -> Result<&'v Object> {
        match value {
            Some(Value::Object(entries)) => Ok(entries),
            None | Some(Value::Null) => Err(self.fail(path, "is missing")),
            Some(other) => Err(self.fail(path, format!("must be a mapping; it is {}", shown(other)))),
        }
    }

    /// A mapping that has no fields but these.
    pub(super) fn fields<'v>(&self, value: Option<&'v Value>, path: &str, known: &[&str]) -> Result<&'v Object> {
        let entries = self.mapping(value, path)?;
        match entries.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(entries),
            Some(key) => {
                let hint = guess(key, known.iter().copied());
                Err(self.fail(path, format!("{key} is not a field here{hint} (known: {})", known.join(", "))))
            }
        }
    }

    /// The entries of a list, with the path of each; there is none where nothing is given.
    pub(super) fn items<'v>(
        &self,
        value: Option<&'v Value>,
        path: &str,
        most: usize,
    ) -> Result<Vec<(String, &'v Value)>> {
        match value {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(entries)) if entries.len() > most => {
                Err(self.fail(path, format!("{} entries; at most {most} are allowed", entries.len())))
            }
            Some(Value::Array(entries)) => {
                Ok(entries.iter().enumerate().map(|(index, each)| (format!("{path}[{index}]"), each)).collect())
            }
            Some(other) => Err(self.fail(path, format!("must be a list; it is {}", shown(other)))),
        }
    }

    /// A text that must be there.
    pub(super) fn text<'v>(&self, owner: &'v Object, key: &str, path: &str) -> Result<&'v str> {
        let reason = match owner.get(key) {
            Some(Value::String(text)) if !text.is_empty() => return Ok(text),
            None | Some(Value::Null) => "is missing".to_owned(),
            Some(other) => format!("must be a text; it is {}", shown(other)),
        };
        Err(self.fail(&format!("{path}.{key}"), reason))
    }

    /// A list of selectors.
    pub(super) fn selectors(&self, value: Option<&Value>, path: &str) -> Result<Vec<Selector>> {
        let mut selectors = Vec::new();
        for (place, entry) in self.items(value, path, names::MAX_SELECTORS)? {
            let entry = self.fields(Some(entry), &place, &["cel"])?;
            let cel = format!("{place}.cel");
            let body = self.fields(entry.get("cel"), &cel, &["expression"])?;
            let expression = self.text(body, "expression", &cel)?;
            let whole = format!("{}: {place}", self.document);
            let selector = Selector::compile(whole.clone(), expression);
            selectors.push(selector.map_err(|error| Error::Selector(format!("{whole}.cel.expression: {error}")))?);
        }
        Ok(selectors)
    }

    /// Refuses what is no DNS label.
    pub(super) fn check_label(&self, name: &str, path: &str) -> Result<()> {
        if names::LABEL.fits(name) {
            return Ok(());
        }
        Err(self.fail(path, format!("{} must be a DNS label: lower-case letters, digits and -", quoted(name))))
    }

    /// Refuses names that stand twice.
    pub(super) fn check_unique<'n>(&self, given: impl Iterator<Item = &'n str>, path: &str) -> Result<()> {
        let mut seen = Vec::new();
        for name in given {
            if seen.contains(&name) {
                return Err(self.fail(path, format!("the name {name} stands twice")));
            }
            seen.push(name);
        }
        Ok(())
    }

    /// A list of requests that there are.
    pub(super) fn references(&self, value: Option<&Value>, path: &str, known: &[String]) -> Result<Vec<String>> {
        let mut wanted = Vec::new();
        for (place, name) in self.items(value, path, names::MAX_REQUESTS)? {
            match name.as_str().filter(|name| known.iter().any(|each| each == name)) {
                Some(name) => wanted.push(name.to_owned()),
                None => {
                    let hint = guess(&text_of(name), known.iter().map(String::as_str));
                    let reason = format!("there is no request {}; there are {}{hint}", shown(name), known.join(", "));
                    return Err(self.fail(&place, reason));
                }
            }
        }
        Ok(wanted)
    }

    /// A list of configurations, which may name requests where there are any.
    pub(super) fn config(&self, value: Option<&Value>, path: &str, known: Option<&[String]>) -> Result<Vec<Object>> {
        let fields: &[&str] = if known.is_none() { &["opaque"] } else { &["requests", "opaque"] };
        let mut configs = Vec::new();
        for (place, entry) in self.items(value, path, names::MAX_CONFIGS)? {
            let body = self.fields(Some(entry), &place, fields)?;
            let whole = format!("{place}.opaque");
            let opaque = self.fields(body.get("opaque"), &whole, &["driver", "parameters"])?;
            self.text(opaque, "driver", &whole)?;
            self.mapping(opaque.get("parameters"), &format!("{whole}.parameters"))?;
            if let Some(known) = known {
                self.references(body.get("requests"), &format!("{place}.requests"), known)?;
            }
            configs.push(body.clone());
        }
        Ok(configs)
    }
}
