//! What requests name: models, systems, formats, small models that guess.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::catalogue::named;
use super::config::{read_json, read_toml};
use super::dtype::{DataType, TensorPrecision};
use super::hardware::Machine;
use super::networks::Architecture;
use super::shapes::Model;
use trn3_facts::Facts;
use trn3_system::fabric::LinkProfile;
use trn3_system::{Error, Result};

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
    /// The shapes of a transformer of one stack.
    ///
    /// # Errors
    /// Those of [`crate::built_in_model`] and [`crate::model_from_json`].
    pub fn load(&self) -> Result<Model> {
        self.architecture()?.transformer()
    }

    /// The shapes of any model.
    ///
    /// # Errors
    /// As [`ModelSource::load`].
    pub fn architecture(&self) -> Result<Architecture> {
        match self {
            Self::Name(name) => named(name),
            Self::Json(name, text) => read_json(name, text),
            Self::Toml(name, text) => read_toml(name, text),
            Self::Config { name, entries } => Architecture::from_map(name, entries),
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

impl DtypeSource {
    /// The formats that were given, else those that a checkpoint is published in, else BF16.
    ///
    /// # Errors
    /// [`Error::Value`] if it is published in a format that is not understood and none is given; [`Error::Unknown`] for a
    /// format or class that there is not.
    pub(super) fn precision(given: Option<&Self>, architecture: &Architecture) -> Result<TensorPrecision> {
        match architecture {
            Architecture::Transformer(model) => Self::of_transformer(given, model),
            Architecture::Network(network) => {
                Self::or_published(given, &network.name, network.published_dtype, network.unknown_dtype.as_ref(), false)
            }
        }
    }

    /// [`DtypeSource::precision`] of a transformer of one stack.
    pub(super) fn of_transformer(given: Option<&Self>, model: &Model) -> Result<TensorPrecision> {
        let has_experts = model.experts.is_some();
        Self::or_published(given, &model.name, model.published_dtype, model.unknown_dtype.as_ref(), has_experts)
    }

    fn or_published(
        given: Option<&Self>,
        name: &str,
        published: Option<DataType>,
        unknown: Option<&String>,
        has_experts: bool,
    ) -> Result<TensorPrecision> {
        match (given, unknown) {
            (Some(Self::Name(name)), _) => Ok(TensorPrecision::named(DataType::parse(name)?, has_experts)),
            (Some(Self::Classes(classes)), _) => TensorPrecision::by_class(classes),
            (None, Some(said)) => Err(Error::Value(format!(
                "{name}: {said}, whose products and bytes are not known; understood: {}; give a dtype to plan in one of them \
                 instead",
                DataType::ALL.map(DataType::name).join(", ")
            ))),
            (None, None) => Ok(TensorPrecision::named(published.unwrap_or(DataType::Bf16), has_experts)),
        }
    }
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
