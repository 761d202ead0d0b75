//! The keys of a configuration: whole numbers, flags and names, checked where they are read.

use serde_json::{Map, Value};

use super::published_dtype::shown;
use trn3_system::{Error, Result};

/// The keys of one configuration, and what messages call it.
pub(super) struct Keys<'a> {
    pub name: &'a str,
    pub family: &'a str,
    pub map: &'a Map<String, Value>,
}

impl Keys<'_> {
    /// A value; `attn_config.kv_n_heads` is one of a table inside.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let mut path = key.split('.');
        let first = self.map.get(path.next()?)?;
        path.try_fold(first, |value, step| value.get(step)).filter(|value| !value.is_null())
    }

    pub(super) fn wrong(&self, key: &str, got: &Value, needed: &str) -> Error {
        Error::Spec(format!("{}: {key} is {}; needed: {needed}", self.name, shown(got)))
    }

    /// A whole number of at least one, small enough that products of several stay exact.
    pub(super) fn maybe(&self, key: &str) -> Result<Option<u64>> {
        const LARGEST: u64 = 1 << 24;
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number @ 1..=LARGEST) => Ok(Some(number)),
                _ => Err(self.wrong(key, value, "a whole number from 1 to 16777216")),
            },
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<u64> {
        let needed_by = format!("{} configuration", self.family);
        self.maybe(key)?.ok_or_else(|| missing(self.name, &needed_by, key, self.map))
    }

    /// A whole number that may be zero.
    pub(super) fn count(&self, key: &str, default: u64) -> Result<u64> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value.as_u64().ok_or_else(|| self.wrong(key, value, "a whole number")),
        }
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(key, value, "true or false")),
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(Value::as_str).map(str::to_owned)
    }
}

/// That a key is missing: who needs it, and which of those there are is nearest.
pub(super) fn missing(name: &str, needed_by: &str, key: &str, map: &Map<String, Value>) -> Error {
    let nearest = match Error::unknown("key", key, map.keys().map(String::as_str)) {
        Error::Unknown { allowed, .. } if !map.is_empty() => {
            allowed.split(';').next().map_or(String::new(), |text| format!("; {text} of those it has"))
        }
        _ => "; it has no keys".to_owned(),
    };
    Error::Spec(format!("{name}: key {key:?} is missing, which a {needed_by} needs{nearest}"))
}
