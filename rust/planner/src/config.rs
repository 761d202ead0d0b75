//! Model shapes from a `config.json` as published with checkpoints, or a TOML table of the same keys.

use serde_json::{Map, Value};

use super::networks::Architecture;
use super::shapes::Model;
use trn3_facts::files::why_no_toml;
use trn3_system::{Error, Result};

pub use super::families::FAMILIES;

/// The shapes in the text of a `config.json`; `name` names it in messages and in the result.
///
/// # Errors
/// [`Error::Spec`] if the text is no JSON object, [`Error::Unknown`] for a family that is not understood,
/// [`Error::Spec`] for a key that is missing, of the wrong type, or at odds with another, [`Error::Value`] for a model that
/// is no transformer of one stack.
pub fn model_from_json(name: &str, text: &str) -> Result<Model> {
    read_json(name, text)?.transformer()
}

/// [`model_from_json`] of any architecture.
pub(super) fn read_json(name: &str, text: &str) -> Result<Architecture> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| Error::Spec(format!("{name} is not JSON: {error}")))?;
    match value {
        Value::Object(map) => Architecture::from_map(name, &map),
        _ => Err(Error::Spec(format!("{name} holds no JSON object: a model configuration is {{\"model_type\": ...}}"))),
    }
}

/// The shapes in a TOML text: the keys of a `config.json`, and optionally `name`, `source`, `parameters`.
///
/// ```
/// let text = r#"
/// model_type = "llama"
/// hidden_size = 64
/// num_hidden_layers = 2
/// num_attention_heads = 4
/// intermediate_size = 256
/// vocab_size = 1000
/// "#;
/// let model = trn3_planner::model_from_toml("small", text).unwrap();
/// assert_eq!((model.layers, model.attention.kv_heads()), (2, 4));
/// ```
///
/// # Errors
/// As [`model_from_json`].
pub fn model_from_toml(name: &str, text: &str) -> Result<Model> {
    read_toml(name, text)?.transformer()
}

/// [`model_from_toml`] of any architecture.
pub(super) fn read_toml(name: &str, text: &str) -> Result<Architecture> {
    let map: Map<String, Value> = toml::from_str(text)
        .map_err(|error| Error::Spec(format!("{name} is not TOML: {}", why_no_toml(&error, text))))?;
    Architecture::from_map(name, &map)
}

/// The shapes in the entries of a `config.json`.
///
/// # Errors
/// As [`model_from_json`].
pub fn model_from_map(name: &str, map: &Map<String, Value>) -> Result<Model> {
    Architecture::from_map(name, map)?.transformer()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
