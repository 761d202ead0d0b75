//! What requests name: models, systems, formats, small models that guess.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::config::{built_in_model, model_from_json, model_from_map, model_from_toml};
use super::hardware::Machine;
use super::shapes::Model;
use trn3_facts::Facts;
use trn3_system::Result;
use trn3_system::fabric::LinkProfile;

/// A model: by name, or the text of its configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ModelSource {
    /// A model of the crate.
    Name(String),
    /// A `config.json`: what messages call it, its text.
    Json(String, String),
    /// A TOML form of one: likewise.
    Toml(String, String),
    /// What a `config.json` would hold.
    Config {
        /// What messages call it.
        name: String,
        /// The keys of a `config.json`.
        entries: Map<String, Value>,
    },
}

impl ModelSource {
    /// The shapes.
    ///
    /// # Errors
    /// Those of [`built_in_model`] and [`model_from_json`].
    pub fn load(&self) -> Result<Model> {
        match self {
            Self::Name(name) => built_in_model(name),
            Self::Json(name, text) => model_from_json(name, text),
            Self::Toml(name, text) => model_from_toml(name, text),
            Self::Config { name, entries } => model_from_map(name, entries),
        }
    }
}

/// A system: by name, or the text of a spec file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemSource {
    /// Name of a system of the crate, or of the one in the text.
    pub name: String,
    /// A spec file: what messages call it, its text.
    #[serde(default)]
    pub toml: Option<(String, String)>,
    /// `docs` or `headline`.
    #[serde(default)]
    pub links: Option<String>,
    /// How many of it, joined by its network.
    #[serde(default)]
    pub instances: Option<u32>,
}

impl SystemSource {
    /// The system.
    ///
    /// # Errors
    /// Those of [`Machine::built_in`] and [`Facts::parse`].
    pub fn load(&self) -> Result<Machine> {
        let profile = LinkProfile::parse(self.links.as_deref().unwrap_or("docs"))?;
        let machine = match &self.toml {
            Some((file, text)) => Machine::from_facts(&Facts::named(file, text, &self.name)?, profile)?,
            None => Machine::built_in_with(&self.name, profile)?,
        };
        machine.cluster(self.instances.unwrap_or(1))
    }
}

/// One format for all, or one for each class.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum DtypeSource {
    /// As [`crate::TensorPrecision::named`].
    Name(String),
    /// As [`crate::TensorPrecision::by_class`].
    Classes(BTreeMap<String, String>),
}

/// Speculative decoding, as a request has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculationSource {
    /// Tokens guessed a step.
    pub length: u64,
    /// Tokens that a step yields on average.
    pub accepted: f64,
    /// The small model.
    #[serde(default)]
    pub draft: Option<ModelSource>,
    /// Without one: the time of a guess as a share of a step.
    #[serde(default)]
    pub draft_share: Option<f64>,
}
