//! Model shapes from a `config.json` as published with checkpoints, or a TOML table of the same keys.

use serde_json::{Map, Value};

use super::published_dtype::{published, shown};
use super::shapes::{Attention, Experts, FeedForward, Model, Window};
use trn3_facts::files::why_no_toml;
use trn3_system::{Error, Result};

/// The values of `model_type` that are understood.
pub const FAMILIES: &[&str] = &[
    "bert",
    "deepseek_v2",
    "deepseek_v3",
    "gpt2",
    "gpt_oss",
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
];

macro_rules! models {
    ($($name:literal),* $(,)?) => {
        /// The models whose shapes are part of the crate, with the text of each, in alphabetical order.
        pub const BUILT_IN_MODELS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../models/", $name, ".toml")))),*];
    };
}

models![
    "bert-large",
    "deepseek-v3",
    "gpt-oss-120b",
    "gpt-oss-20b",
    "gpt3-175b",
    "gpt3-23b",
    "llama-2-13b",
    "llama-2-70b",
    "llama-2-7b",
    "llama-3-8b",
    "llama-3.1-405b",
    "llama-3.1-8b",
    "llama-3.2-1b",
    "llama-3.3-70b",
    "mixtral-8x22b",
    "mixtral-8x7b",
    "qwen3-235b-a22b",
    "qwen3-32b",
];

/// The shapes of a model of the crate: by its name, or as `owner/name` as model hubs have it.
///
/// ```
/// use trn3_planner::built_in_model;
///
/// assert_eq!(built_in_model("openai/gpt-oss-120b").unwrap(), built_in_model("gpt-oss-120b").unwrap());
/// assert!(built_in_model("gpt-oss-210b").unwrap_err().to_string().contains("gpt-oss-20b"));
/// ```
///
/// # Errors
/// [`Error::Unknown`] if there is none of that name.
pub fn built_in_model(name: &str) -> Result<Model> {
    let simple = simple_name(name);
    let quoted = format!("\"{simple}\"");
    for (known, text) in BUILT_IN_MODELS {
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default();
        let hub = simple_name(line("hub = ").trim_matches('"'));
        if *known == simple || hub == simple || line("aliases = ").contains(&quoted) {
            return model_from_toml(known, text);
        }
    }
    Err(Error::unknown("model", name, BUILT_IN_MODELS.iter().map(|(known, _)| *known)))
}

/// The last part of a name, in lower case and without the words that do not change shapes.
fn simple_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let last = last.strip_prefix("meta-").unwrap_or(&last);
    last.strip_suffix("-instruct").unwrap_or(last).to_owned()
}

/// The shapes in the text of a `config.json`; `name` names it in messages and in the result.
///
/// # Errors
/// [`Error::Spec`] if the text is no JSON object, [`Error::Unknown`] for a family that is not understood,
/// [`Error::Spec`] for a key that is missing, of the wrong type, or at odds with another.
pub fn model_from_json(name: &str, text: &str) -> Result<Model> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| Error::Spec(format!("{name} is not JSON: {error}")))?;
    match value {
        Value::Object(map) => model_from_map(name, &map),
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
    let map: Map<String, Value> = toml::from_str(text)
        .map_err(|error| Error::Spec(format!("{name} is not TOML: {}", why_no_toml(&error, text))))?;
    model_from_map(name, &map)
}

/// The shapes in the entries of a `config.json`.
///
/// # Errors
/// As [`model_from_json`].
pub fn model_from_map(name: &str, map: &Map<String, Value>) -> Result<Model> {
    // Models of several modalities keep the shapes of their text part one level down.
    if let (Some(Value::Object(inner)), None) = (map.get("text_config"), map.get("num_hidden_layers")) {
        return model_from_map(name, inner);
    }
    let family = match map.get("model_type") {
        Some(Value::String(family)) => family.as_str(),
        Some(other) => return Err(Error::Spec(format!("{name}: model_type is {}; needed: a name", shown(other)))),
        None => return Err(missing(name, "model configuration", "model_type", map)),
    };
    if !FAMILIES.contains(&family) {
        return Err(Error::unknown("model family (model_type)", family, FAMILIES.iter().copied()));
    }
    let keys = Keys { name, family, map };
    let model = match family {
        "bert" | "gpt2" => keys.classic()?,
        _ => keys.modern()?,
    };
    check(&keys, &model)?;
    Ok(model)
}

/// The keys of one configuration, and what messages call it.
struct Keys<'a> {
    name: &'a str,
    family: &'a str,
    map: &'a Map<String, Value>,
}

impl Keys<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn wrong(&self, key: &str, got: &Value, needed: &str) -> Error {
        Error::Spec(format!("{}: {key} is {}; needed: {needed}", self.name, shown(got)))
    }

    /// A whole number of at least one, small enough that products of several stay exact.
    fn maybe(&self, key: &str) -> Result<Option<u64>> {
        const LARGEST: u64 = 1 << 24;
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number @ 1..=LARGEST) => Ok(Some(number)),
                _ => Err(self.wrong(key, value, "a whole number from 1 to 16777216")),
            },
        }
    }

    fn number(&self, key: &str) -> Result<u64> {
        let needed_by = format!("{} configuration", self.family);
        self.maybe(key)?.ok_or_else(|| missing(self.name, &needed_by, key, self.map))
    }

    /// A whole number that may be zero.
    fn count(&self, key: &str, default: u64) -> Result<u64> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value.as_u64().ok_or_else(|| self.wrong(key, value, "a whole number")),
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(key, value, "true or false")),
        }
    }

    fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    /// Families since Llama: gated blocks, norms without shift, rotary positions.
    fn modern(&self) -> Result<Model> {
        let layers = self.number("num_hidden_layers")?;
        let width = self.number("hidden_size")?;
        let attention = self.attention(width)?;
        let experts = self.experts(layers, width)?;
        let biased = self.flag("mlp_bias", false)?;
        let has_dense = experts.as_ref().is_none_or(|experts| experts.layers < layers);
        // A configuration without dense layers may leave their width out.
        let dense_width = if has_dense || self.family == "gpt_oss" || self.family == "mixtral" {
            self.number("intermediate_size")?
        } else {
            self.maybe("intermediate_size")?.unwrap_or(1)
        };
        Ok(Model {
            layers,
            width,
            vocabulary: self.number("vocab_size")?,
            tied: self.flag("tie_word_embeddings", false)?,
            window: self.window(layers)?,
            attention,
            feed_forward: FeedForward { width: dense_width, gated: true, bias: biased },
            experts,
            longest_context: self.maybe("max_position_embeddings")?,
            ..self.blank()
        })
    }

    fn attention(&self, width: u64) -> Result<Attention> {
        let heads = self.number("num_attention_heads")?;
        if self.family.starts_with("deepseek") {
            return Ok(Attention::Latent {
                heads,
                query_rank: self.maybe("q_lora_rank")?,
                kv_rank: self.number("kv_lora_rank")?,
                nope: self.number("qk_nope_head_dim")?,
                rope: self.number("qk_rope_head_dim")?,
                value: self.number("v_head_dim")?,
            });
        }
        let kv_heads = self.maybe("num_key_value_heads")?.unwrap_or(heads);
        let head_width = match self.maybe("head_dim")? {
            Some(given) => given,
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                return Err(Error::Spec(format!(
                    "{}: hidden_size {width} is no multiple of num_attention_heads {heads}, and head_dim is not given",
                    self.name
                )));
            }
        };
        let bias = self.flag("attention_bias", matches!(self.family, "qwen2" | "qwen2_moe" | "gpt_oss"))?;
        Ok(Attention::Grouped {
            heads,
            kv_heads,
            head_width,
            bias,
            output_bias: bias && !self.family.starts_with("qwen2"),
            head_norms: self.family.starts_with("qwen3"),
            sinks: self.family == "gpt_oss",
        })
    }

    fn window(&self, layers: u64) -> Result<Option<Window>> {
        let Some(tokens) = self.maybe("sliding_window")? else { return Ok(None) };
        let windowed = match self.get("layer_types") {
            Some(Value::Array(types)) => {
                if types.len() as u64 != layers {
                    let got = types.len();
                    return Err(Error::Spec(format!(
                        "{}: layer_types has {got} entries, num_hidden_layers is {layers}; they must agree",
                        self.name
                    )));
                }
                types.iter().filter(|kind| kind.as_str() == Some("sliding_attention")).count() as u64
            }
            Some(other) => return Err(self.wrong("layer_types", other, "a list of names")),
            None if self.family == "gpt_oss" => layers.div_ceil(2),
            None if self.family.starts_with("qwen") => {
                let used = self.flag("use_sliding_window", false)?;
                if used { layers.saturating_sub(self.count("max_window_layers", layers)?) } else { 0 }
            }
            None => layers,
        };
        Ok((windowed > 0).then_some(Window { tokens, layers: windowed }))
    }

    fn experts(&self, layers: u64, width: u64) -> Result<Option<Experts>> {
        let gated = |width, bias| FeedForward { width, gated: true, bias };
        let experts = match self.family {
            "mixtral" | "gpt_oss" => {
                let biased = self.family == "gpt_oss";
                let count = self.number("num_local_experts")?;
                Experts {
                    layers,
                    count,
                    active: self.number("num_experts_per_tok")?,
                    block: gated(self.number("intermediate_size")?, biased),
                    shared: None,
                    router_extra: if biased { count } else { 0 },
                }
            }
            "qwen2_moe" | "qwen3_moe" => {
                let step = self.maybe("decoder_sparse_step")?.unwrap_or(1);
                let dense = self.dense_layers(layers)?;
                let shared = self.maybe("shared_expert_intermediate_size")?;
                Experts {
                    layers: (0..layers)
                        .filter(|layer| (layer + 1).is_multiple_of(step) && !dense.contains(layer))
                        .count() as u64,
                    count: self.number("num_experts")?,
                    active: self.number("num_experts_per_tok")?,
                    block: gated(self.number("moe_intermediate_size")?, false),
                    shared: shared.map(|width| gated(width, false)),
                    router_extra: if shared.is_some() { width } else { 0 },
                }
            }
            "deepseek_v2" | "deepseek_v3" => {
                let count = self.number("n_routed_experts")?;
                let one = self.number("moe_intermediate_size")?;
                let shared = self.count("n_shared_experts", 0)?;
                let dense = self.count("first_k_dense_replace", 0)?;
                if let Some(step @ 2..) = self.maybe("moe_layer_freq")? {
                    return Err(Error::Spec(format!(
                        "{}: moe_layer_freq is {step}; needed: 1, all layers behind the dense ones have experts",
                        self.name
                    )));
                }
                if dense > layers {
                    return Err(Error::Spec(format!(
                        "{}: first_k_dense_replace is {dense}; there are {layers} layers",
                        self.name
                    )));
                }
                Experts {
                    layers: layers - dense,
                    count,
                    active: self.number("num_experts_per_tok")?,
                    block: gated(one, false),
                    shared: (shared > 0).then(|| gated(one * shared, false)),
                    // From the third version on, the router has a correction for each expert.
                    router_extra: if self.family == "deepseek_v3" { count } else { 0 },
                }
            }
            _ => return Ok(None),
        };
        Ok((experts.layers > 0).then_some(experts))
    }

    /// The layers that `mlp_only_layers` keeps without experts.
    fn dense_layers(&self, layers: u64) -> Result<Vec<u64>> {
        let wrong =
            |got: &Value| self.wrong("mlp_only_layers", got, &format!("a list of layers from 0 to {}", layers - 1));
        match self.get("mlp_only_layers") {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => {
                let layer = |value: &Value| value.as_u64().filter(|layer| *layer < layers).ok_or_else(|| wrong(value));
                list.iter().map(layer).collect()
            }
            Some(other) => Err(wrong(other)),
        }
    }

    /// Families before Llama: biases everywhere, norms that shift, learned positions.
    fn classic(&self) -> Result<Model> {
        let bert = self.family == "bert";
        let [layers, width, heads, positions] = if bert {
            ["num_hidden_layers", "hidden_size", "num_attention_heads", "max_position_embeddings"]
        } else {
            ["n_layer", "n_embd", "n_head", "n_positions"]
        };
        let (layers, width, heads) = (self.number(layers)?, self.number(width)?, self.number(heads)?);
        if !width.is_multiple_of(heads) {
            return Err(Error::Spec(format!("{}: width {width} is no multiple of its {heads} heads", self.name)));
        }
        let positions = self.number(positions)?;
        let block = if bert { self.number("intermediate_size")? } else { self.maybe("n_inner")?.unwrap_or(4 * width) };
        Ok(Model {
            layers,
            width,
            vocabulary: self.number("vocab_size")?,
            tied: true,
            position_rows: positions + if bert { self.count("type_vocab_size", 2)? } else { 0 },
            head_parameters: if bert { width * width + width } else { 0 },
            causal: !bert,
            attention: Attention::Grouped {
                heads,
                kv_heads: heads,
                head_width: width / heads,
                bias: true,
                output_bias: true,
                head_norms: false,
                sinks: false,
            },
            feed_forward: FeedForward { width: block, gated: false, bias: true },
            norm_shift: true,
            longest_context: Some(positions),
            ..self.blank()
        })
    }

    /// What all families have alike; the shapes are set by the caller.
    fn blank(&self) -> Model {
        Model {
            name: self.text("name").unwrap_or_else(|| self.name.to_owned()),
            family: self.family.to_owned(),
            source: self.text("source").unwrap_or_else(|| self.name.to_owned()),
            layers: 0,
            width: 0,
            vocabulary: 0,
            tied: false,
            position_rows: 0,
            head_parameters: 0,
            causal: true,
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

fn missing(name: &str, needed_by: &str, key: &str, map: &Map<String, Value>) -> Error {
    let nearest = match Error::unknown("key", key, map.keys().map(String::as_str)) {
        Error::Unknown { allowed, .. } if !map.is_empty() => {
            allowed.split(';').next().map_or(String::new(), |text| format!("; {text} of those it has"))
        }
        _ => "; it has no keys".to_owned(),
    };
    Error::Spec(format!("{name}: key {key:?} is missing, which a {needed_by} needs{nearest}"))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
