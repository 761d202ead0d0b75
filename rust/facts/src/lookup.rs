//! Where facts are found: in the crate, in files, among the parts of a system.

use toml::Value as Toml;

use crate::built_in;
use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::facts::Facts;
use crate::quantity::Source;
use crate::show::rounded;
use crate::system_text::{SystemText, text_of_file};
use crate::unit::known_factor;

impl Facts {
    /// The facts of a system of the crate.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none of that name.
    pub fn built_in(name: &str) -> Result<Self> {
        built_in::facts(name)
    }

    /// The facts of a system as a user names it: see [`SystemText::find`].
    ///
    /// # Errors
    /// [`Error::Spec`] if there is none, or the file is wrong or holds several; [`Error::File`] if it cannot be read.
    pub fn load(system: &str) -> Result<Self> {
        SystemText::find(system, "systems")?.facts()
    }

    /// All systems of the spec file at a path, in its order.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::Spec`] if it is wrong.
    pub fn load_all(path: &str) -> Result<Vec<Self>> {
        Self::parse(path, &text_of_file(path)?)
    }

    /// Of the systems of a file, the one that is part of no other; of several the only one whose chips are joined.
    ///
    /// # Errors
    /// [`Error::Spec`] if there are several.
    pub fn whole_of(systems: &[Self], file: &str) -> Result<Self> {
        let held: Vec<&str> = systems.iter().flat_map(|facts| facts.parts.values()).filter_map(Toml::as_str).collect();
        let tops: Vec<&Self> = systems.iter().filter(|facts| !held.contains(&facts.name.as_str())).collect();
        let large: Vec<&Self> = tops.iter().copied().filter(|facts| facts.kind != "core").collect();
        let joined: Vec<&Self> = large.iter().copied().filter(|facts| facts.parts.contains_key("fabric")).collect();
        match (if large.is_empty() { tops } else { large }.as_slice(), joined.as_slice()) {
            ([one], _) | (_, [one]) => Ok((*one).clone()),
            _ => {
                let names: Vec<&str> = systems.iter().map(|facts| facts.name.as_str()).collect();
                let (names, first) = (names.join(", "), names[0]);
                Err(Error::Spec(format!("{file} holds several systems: {names}; say which one, like {file}:{first}")))
            }
        }
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
