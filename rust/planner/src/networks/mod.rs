//! Models that are no stack of one kind of layer: encoders and decoders, state spaces, images, diffusion.
//!
//! They are known operator by operator ([`crate::operators`]); plans of serving and training are of transformers alone.

mod diffusion;
mod encoder_decoders;
mod forward;
mod state_space;
mod vision;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::dtype::{DataType, TensorPrecision};
use super::families::NETWORKS;
use super::keys::Keys;
use super::published_dtype::published;
use super::shapes::Model;
use super::transformer::transformer_from_map;
use trn3_system::{Error, Result};

pub use forward::Forward;

/// What a forward pass is given; what is not, the configuration says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Given {
    /// Sequences, images or recordings.
    pub batch: u64,
    /// Tokens at the input.
    pub input: Option<u64>,
    /// Tokens before the one that is generated, of decoders behind an encoder.
    pub output: Option<u64>,
    /// Height and width of an image in pixels.
    pub image: Option<u64>,
    /// Frames of a spectrogram.
    pub frames: Option<u64>,
}

/// A model that is known operator by operator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkModel {
    /// Its name.
    pub name: String,
    /// The family its configuration is of.
    pub family: String,
    /// Where the shapes come from.
    pub source: String,
    /// The name that was asked for, where it is that of another model of the same shapes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Layers of all stacks.
    pub layers: u64,
    /// Elements between layers of the widest stack.
    pub width: u64,
    /// Tokens that exist; 0 without any.
    pub vocabulary: u64,
    /// All weights.
    pub parameters: u64,
    /// All of them, but those of experts that a token does not pass.
    pub parameters_active: u64,
    /// Weights by pass.
    pub parameters_by_class: BTreeMap<&'static str, u64>,
    /// The format its checkpoint is published in, where the configuration says.
    pub published_dtype: Option<DataType>,
    /// What it says instead, where that is no format that is understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_dtype: Option<String>,
    /// Parameters as published.
    pub published_parameters: Option<f64>,
    #[serde(skip)]
    map: Map<String, Value>,
}

/// The sizes that a network is summarised by.
struct Sizes {
    layers: u64,
    width: u64,
    vocabulary: u64,
    /// Weights of experts that a token does not pass.
    idle: f64,
}

impl NetworkModel {
    fn from_map(name: &str, family: &str, map: &Map<String, Value>) -> Result<Self> {
        let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or(name).to_owned();
        let mut network = Self {
            name: text("name"),
            family: family.to_owned(),
            source: text("source"),
            asked: None,
            layers: 0,
            width: 0,
            vocabulary: 0,
            parameters: 0,
            parameters_active: 0,
            parameters_by_class: BTreeMap::new(),
            published_dtype: published(map).ok().flatten(),
            unknown_dtype: published(map).err(),
            published_parameters: map.get("parameters").and_then(Value::as_f64),
            map: map.clone(),
        };
        let precision = TensorPrecision::uniform(DataType::Bf16);
        let (sizes, passes) = network.build(&Given { batch: 1, ..Given::default() }, &precision)?;
        network.parameters_by_class = passes.iter().map(|pass| (pass.name, pass.weights as u64)).collect();
        network.parameters = network.parameters_by_class.values().sum();
        network.parameters_active = network.parameters - sizes.idle as u64;
        Ok(Self { layers: sizes.layers, width: sizes.width, vocabulary: sizes.vocabulary, ..network })
    }

    /// The passes of the network and their operators.
    ///
    /// # Errors
    /// [`Error::Spec`] for a key that is missing or wrong, [`Error::Value`] for what the network cannot be given.
    pub fn passes<'a>(&self, given: &Given, precision: &'a TensorPrecision) -> Result<Vec<Forward<'a>>> {
        Ok(self.build(given, precision)?.1)
    }

    fn build<'a>(&self, given: &Given, precision: &'a TensorPrecision) -> Result<(Sizes, Vec<Forward<'a>>)> {
        let keys = Keys { name: &self.name, family: &self.family, map: &self.map };
        match self.family.as_str() {
            "t5" => encoder_decoders::t5(&keys, given, precision),
            "bart" => encoder_decoders::bart(&keys, given, precision),
            "whisper" => encoder_decoders::whisper(&keys, given, precision),
            "vit" => vision::vit(&keys, given, precision),
            "clip" | "siglip" => vision::towers(&keys, given, precision),
            "DiTTransformer2DModel" => diffusion::dit(&keys, given, precision),
            "FluxTransformer2DModel" => diffusion::flux(&keys, given, precision),
            "UNet2DConditionModel" => diffusion::unet(&keys, given, precision),
            "jamba" => state_space::jamba(&keys, given, precision),
            "mamba2" => state_space::mamba2(&keys, given, precision),
            _ => state_space::mamba(&keys, given, precision),
        }
    }
}

/// A model of any kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Architecture {
    /// A transformer of one stack, which plans are of.
    Transformer(Model),
    /// Any other, known operator by operator.
    Network(NetworkModel),
}

impl Architecture {
    /// The architecture in the entries of a configuration.
    ///
    /// # Errors
    /// As [`crate::model_from_json`].
    pub(super) fn from_map(name: &str, map: &Map<String, Value>) -> Result<Self> {
        let family = ["model_type", "_class_name"].iter().find_map(|key| map.get(*key).and_then(Value::as_str));
        match family {
            Some(family) if NETWORKS.contains(&family) => NetworkModel::from_map(name, family, map).map(Self::Network),
            _ => transformer_from_map(name, map).map(Self::Transformer),
        }
    }

    /// The shapes of a transformer.
    ///
    /// # Errors
    /// [`Error::Value`] if it is none: what would work instead.
    pub fn transformer(self) -> Result<Model> {
        match self {
            Self::Transformer(model) => Ok(model),
            Self::Network(network) => Err(Error::Value(format!(
                "{} ({}) is no transformer of one stack, which plans are of; its operators are known: `trn3 plan {} --ops`, \
                 or trn3.operators",
                network.name, network.family, network.name
            ))),
        }
    }

    /// With the name it was asked for by.
    pub(super) fn asked(self, name: &str) -> Self {
        let asked = Some(name.to_owned());
        match self {
            Self::Transformer(model) => Self::Transformer(Model { asked, ..model }),
            Self::Network(network) => Self::Network(NetworkModel { asked, ..network }),
        }
    }
}

/// A sentence where a model was taken for another's name.
pub(super) fn taken(name: &str, asked: Option<&String>) -> Option<String> {
    asked.map(|asked| format!("took {name} for {asked}: same shape"))
}
