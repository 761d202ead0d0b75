//! The models whose shapes are part of the crate, by all the names that they go by.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::config::read_toml;
use super::hub;
use super::networks::Architecture;
use super::shapes::Model;
use trn3_system::{Error, Result};

macro_rules! catalogue {
    ($($file:literal),* $(,)?) => {
        /// Files of models: a table for each, under its name, with the keys of its `config.json`.
        const FILES: &[&str] = &[$(include_str!(concat!("../models/", $file, ".toml"))),*];
    };
}

catalogue![
    "cohere",
    "deepseek",
    "diffusion",
    "encoder_decoders",
    "encoders",
    "gemma",
    "gpt",
    "llama",
    "mistral",
    "more",
    "qwen",
    "state_space",
    "vision",
];

/// The models whose shapes are part of the crate, with the text of each, in alphabetical order.
///
/// A text has the keys of a `config.json`; besides `hub`, where it is published, `aliases`, other names of the same
/// model, `same_shape`, names of models that differ in their weights alone, and `source` and `parameters`, as published.
pub static BUILT_IN_MODELS: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let mut all: Vec<_> = FILES.iter().flat_map(|text| tables(text)).collect();
    all.sort_unstable();
    all
});

/// The tables of a file: their names, and the lines of each.
fn tables(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let rest = text.strip_prefix("[\"").or_else(|| text.split_once("\n[\"").map(|(_, rest)| rest));
    rest.into_iter().flat_map(|rest| rest.split("\n[\"")).filter_map(|table| table.split_once("\"]\n"))
}

/// A model of the crate and every name of it.
struct Entry {
    name: &'static str,
    text: &'static str,
    /// `owner/name`; none of what no hub has.
    hub: Option<String>,
    aliases: Vec<String>,
    same_shape: Vec<String>,
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let entry = |&(name, text): &(&'static str, &'static str)| {
        let map: Map<String, Value> = toml::from_str(text).unwrap_or_default();
        let list = |key: &str| {
            let names = map.get(key).and_then(Value::as_array).into_iter().flatten();
            names.filter_map(Value::as_str).map(str::to_ascii_lowercase).collect()
        };
        let hub = map.get("hub").and_then(Value::as_str).map(str::to_ascii_lowercase);
        Entry { name, text, hub, aliases: list("aliases"), same_shape: list("same_shape") }
    };
    BUILT_IN_MODELS.iter().map(entry).collect()
});

/// The shapes of a language model of the crate: by its name, or as `owner/name` as model hubs have it; then of one in the
/// folder in which a hub's tools keep what they downloaded; then of a model of the crate with the same shapes, in which
/// case [`Model::asked`] has the name.
///
/// ```
/// use trn3_planner::built_in_model;
///
/// assert_eq!(built_in_model("openai/gpt-oss-120b").unwrap(), built_in_model("gpt-oss-120b").unwrap());
/// assert!(built_in_model("gpt-oss-210b").unwrap_err().to_string().contains("gpt-oss-20b"));
/// assert_eq!(built_in_model("lmsys/vicuna-7b-v1.5").unwrap().asked.unwrap(), "lmsys/vicuna-7b-v1.5");
/// ```
///
/// # Errors
/// [`Error::Unknown`] if there is none of that name, [`Error::Value`] if it is no language model of one stack.
pub fn built_in_model(name: &str) -> Result<Model> {
    named(name)?.transformer()
}

/// [`built_in_model`] for any architecture.
///
/// # Errors
/// [`Error::Unknown`] if there is none of that name.
pub fn named(name: &str) -> Result<Architecture> {
    let lower = name.to_ascii_lowercase();
    let read = |entry: &Entry| read_toml(entry.name, entry.text);
    let own =
        |entry: &&Entry| entry.name == lower || entry.hub.as_ref() == Some(&lower) || entry.aliases.contains(&lower);
    if let Some(entry) = ENTRIES.iter().find(own) {
        return read(entry);
    }
    if let Some(found) = hub::find(name)? {
        return Ok(found);
    }
    let (owner, simple) = (lower.rsplit_once('/').map(|(owner, _)| owner), simple_name(&lower));
    let alike = |entry: &&Entry| {
        entry.name == simple
            || entry.hub.as_deref().is_some_and(|hub| simple_name(hub) == simple)
            || entry.aliases.iter().any(|alias| alias == simple)
    };
    if let Some(entry) = ENTRIES.iter().find(alike) {
        // Its publisher's variants of a model go by its name.
        let published = owner.is_none_or(|owner| {
            entry.hub.as_deref().and_then(|hub| hub.split_once('/')).is_some_and(|(publisher, _)| publisher == owner)
        });
        return if published { read(entry) } else { Ok(read(entry)?.asked(name)) };
    }
    let same = |entry: &&Entry| entry.same_shape.iter().any(|known| simple_name(known) == simple);
    if let Some(entry) = ENTRIES.iter().find(same) {
        return Ok(read(entry)?.asked(name));
    }
    let local = hub::names();
    let known = ENTRIES.iter().map(|entry| entry.name).chain(local.iter().map(String::as_str));
    Err(match Error::unknown("model", name, known) {
        Error::Unknown { what, got, allowed } => {
            Error::Unknown { what, got, allowed: format!("{allowed}; {}", hub::described(&local)) }
        }
        other => other,
    })
}

/// The last part of a name in lower case, without the words that do not change shapes.
fn simple_name(lower: &str) -> &str {
    let last = lower.rsplit('/').next().unwrap_or_default();
    let mut last = last.strip_prefix("meta-").unwrap_or(last);
    while let Some(shorter) = ["-instruct", "-hf", "-it", "-chat"].iter().find_map(|word| last.strip_suffix(word)) {
        last = shorter;
    }
    last
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
