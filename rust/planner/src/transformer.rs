//! Shapes of transformers of one stack, from the keys of their configurations.

use serde_json::{Map, Value};

use super::families::{Convention, FAMILIES, KeyNames, NETWORKS};
use super::keys::{Keys, missing};
use super::published_dtype::{published, shown};
use super::shapes::{Attention, FeedForward, Model};
use trn3_system::{Error, Result};

/// The shapes of a transformer of one stack.
pub(super) fn transformer_from_map(name: &str, map: &Map<String, Value>) -> Result<Model> {
    // Models of several modalities keep the shapes of their text part one level down.
    if let (Some(Value::Object(inner)), None) = (map.get("text_config"), map.get("num_hidden_layers")) {
        return transformer_from_map(name, inner);
    }
    let family = match map.get("model_type") {
        Some(Value::String(family)) => family.as_str(),
        Some(other) => return Err(Error::Spec(format!("{name}: model_type is {}; needed: a name", shown(other)))),
        None => return Err(missing(name, "model configuration", "model_type", map)),
    };
    if !FAMILIES.contains(&family) {
        let known = FAMILIES.iter().chain(NETWORKS).copied();
        return Err(Error::unknown("model family (model_type)", family, known));
    }
    let keys = Keys { name, family, map };
    let model = keys.transformer()?;
    check(&keys, &model)?;
    Ok(model)
}

impl Keys<'_> {
    fn transformer(&self) -> Result<Model> {
        let (names, convention) = (KeyNames::of(self.family), Convention::of(self)?);
        let layers = self.number(names.layers)?;
        let width = self.number(names.width)?;
        let attention = self.attention(width, &names, &convention)?;
        let experts = self.experts(layers, width)?;
        let has_dense = experts.as_ref().is_none_or(|experts| experts.layers < layers);
        let block = match self.family {
            "gpt2" | "gptj" | "bloom" | "falcon" => self.maybe(names.block)?.unwrap_or(4 * width),
            // A configuration without dense layers may leave their width out.
            family if has_dense || family == "gpt_oss" || family == "mixtral" => self.number(names.block)?,
            _ => self.maybe(names.block)?.unwrap_or(1),
        };
        let vocabulary = self.number("vocab_size")?;
        let encoder = matches!(self.family, "bert" | "roberta");
        let (rows, longest) = match self.family {
            "gpt2" => (self.number(names.positions)?, self.maybe(names.positions)?),
            "bert" => (self.number(names.positions)? + self.count("type_vocab_size", 2)?, self.maybe(names.positions)?),
            // Its positions begin behind two that mark padding.
            "roberta" => {
                let rows = self.number(names.positions)?;
                (rows + self.count("type_vocab_size", 2)?, Some(rows.saturating_sub(2).max(1)))
            }
            "opt" => (self.number(names.positions)? + 2, self.maybe(names.positions)?),
            _ => (0, self.maybe(names.positions)?),
        };
        let head_parameters = match self.family {
            "bert" | "roberta" => width * width + width,
            "gptj" | "phi" | "phimoe" => vocabulary,
            _ => 0,
        };
        Ok(Model {
            layers,
            width,
            vocabulary,
            tied: encoder || self.flag("tie_word_embeddings", convention.tied)?,
            position_rows: rows,
            head_parameters,
            causal: !encoder,
            parallel: convention.parallel,
            window: self.window(layers)?,
            attention,
            feed_forward: FeedForward {
                width: block,
                gated: convention.gated,
                bias: self.flag("mlp_bias", convention.block_bias)?,
            },
            experts,
            norms_per_layer: convention.norms,
            norms_outside: convention.norms_outside,
            norm_shift: convention.norm_shift,
            longest_context: longest,
            ..self.blank()
        })
    }

    /// What all families have alike; the shapes are set by the caller.
    fn blank(&self) -> Model {
        Model {
            name: self.text("name").unwrap_or_else(|| self.name.to_owned()),
            family: self.family.to_owned(),
            source: self.text("source").unwrap_or_else(|| self.name.to_owned()),
            asked: None,
            layers: 0,
            width: 0,
            vocabulary: 0,
            tied: false,
            position_rows: 0,
            head_parameters: 0,
            causal: true,
            parallel: false,
            attention: Attention::Latent { heads: 1, query_rank: None, kv_rank: 1, nope: 1, rope: 1, value: 1 },
            window: None,
            feed_forward: FeedForward { width: 1, gated: true, bias: false },
            experts: None,
            norms_per_layer: 2,
            norms_outside: 1,
            norm_shift: false,
            longest_context: None,
            published_dtype: published(self.map).ok().flatten(),
            unknown_dtype: published(self.map).err(),
            published_parameters: self.get("parameters").and_then(Value::as_f64),
        }
    }
}

fn check(keys: &Keys<'_>, model: &Model) -> Result<()> {
    let Keys { name, .. } = keys;
    let (heads, kv_heads) = (model.attention.heads(), model.attention.kv_heads());
    if !heads.is_multiple_of(kv_heads) {
        return Err(Error::Spec(format!(
            "{name}: num_attention_heads {heads} is no multiple of num_key_value_heads {kv_heads}"
        )));
    }
    // Counts are whole numbers of 64 bits: products of absurd shapes would not be.
    let largest = 1e15;
    let heads_width = match model.attention {
        Attention::Grouped { heads, head_width, .. } => heads as f64 * head_width as f64,
        Attention::Latent { heads, query_rank, kv_rank, nope, rope, value } => {
            let ranks = (query_rank.unwrap_or(0) + kv_rank) as f64;
            (heads as f64 + ranks) * (nope + rope + value) as f64 + ranks
        }
    };
    let blocks = model.experts.as_ref().map_or(0.0, |experts| {
        experts.count as f64 * (experts.block.width + experts.shared.map_or(0, |shared| shared.width)) as f64
    });
    let (width, layers) = (model.width as f64, model.layers as f64);
    let rows = (model.vocabulary + model.position_rows) as f64;
    let rough = layers * width * (8.0 * heads_width + 3.0 * (blocks + model.feed_forward.width as f64)) + rows * width;
    if rough > largest {
        return Err(Error::Spec(format!("{name}: these shapes make about {rough:.0e} weights; at most {largest:.0e}")));
    }
    if let Some(experts) = &model.experts
        && experts.active > experts.count
    {
        return Err(Error::Spec(format!(
            "{name}: num_experts_per_tok {} exceeds the {} experts there are",
            experts.active, experts.count
        )));
    }
    Ok(())
}
