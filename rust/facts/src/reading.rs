//! Spec files, read.

use toml::{Table, Value as Toml};

use crate::base::expand;
use crate::error::{Error, Result};
use crate::facts::{Facts, Siblings, system_of};
use crate::files::why_no_toml;

impl Facts {
    /// The systems that a TOML text describes, in its order; `file` names the text in messages.
    ///
    /// # Errors
    /// [`Error::Spec`] if the text is no TOML, holds no system, or a quantity lacks its value, unit or sources, is
    /// negative or not finite, or is a rate of zero.
    pub fn parse(file: &str, text: &str) -> Result<Vec<Self>> {
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
            Error::Spec(format!("{file} is not TOML: {}", why_no_toml(&error, text)))
        })?;
        expand(file, &mut table)?;
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
}
