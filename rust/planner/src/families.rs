//! What families of models have in common: names of keys, biases, norms, experts, windows.

use serde_json::Value;

use super::keys::Keys;
use super::shapes::{Attention, Experts, FeedForward, Window};
use trn3_system::{Error, Result};

/// The values of `model_type` that are understood as transformers of one stack; [`NETWORKS`] are others.
pub const FAMILIES: &[&str] = &[
    "bert",
    "bloom",
    "cohere",
    "cohere2",
    "dbrx",
    "deepseek_v2",
    "deepseek_v3",
    "falcon",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm",
    "glm4_moe",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "gptj",
    "granite",
    "grok-1",
    "kimi_k2",
    "llama",
    "llama4_text",
    "minimax_m2",
    "mistral",
    "mixtral",
    "nemotron",
    "olmo",
    "olmo2",
    "opt",
    "phi",
    "phi3",
    "phimoe",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "roberta",
    "starcoder2",
];

/// The values of `model_type` (`_class_name` of diffusion models) that are known operator by operator.
pub const NETWORKS: &[&str] = &[
    "DiTTransformer2DModel",
    "FluxTransformer2DModel",
    "UNet2DConditionModel",
    "bart",
    "clip",
    "falcon_mamba",
    "jamba",
    "mamba",
    "mamba2",
    "siglip",
    "t5",
    "vit",
    "whisper",
];

/// How the keys of a family are called.
pub(super) struct KeyNames {
    pub layers: &'static str,
    pub width: &'static str,
    pub heads: &'static str,
    pub kv_heads: &'static str,
    pub block: &'static str,
    pub positions: &'static str,
}

impl KeyNames {
    pub(super) fn of(family: &str) -> Self {
        let usual = Self {
            layers: "num_hidden_layers",
            width: "hidden_size",
            heads: "num_attention_heads",
            kv_heads: "num_key_value_heads",
            block: "intermediate_size",
            positions: "max_position_embeddings",
        };
        match family {
            "gpt2" | "gptj" => Self {
                layers: "n_layer",
                width: "n_embd",
                heads: "n_head",
                block: "n_inner",
                positions: "n_positions",
                ..usual
            },
            "bloom" => Self { layers: "n_layer", heads: "n_head", positions: "seq_length", ..usual },
            "opt" => Self { block: "ffn_dim", ..usual },
            "falcon" => Self { kv_heads: "num_kv_heads", block: "ffn_hidden_size", ..usual },
            "llama4_text" => Self { block: "intermediate_size_mlp", ..usual },
            "dbrx" => Self {
                layers: "n_layers",
                width: "d_model",
                heads: "n_heads",
                kv_heads: "attn_config.kv_n_heads",
                block: "ffn_config.ffn_hidden_size",
                positions: "max_seq_len",
            },
            _ => usual,
        }
    }
}

/// How a family builds its layers where its configurations do not say.
pub(super) struct Convention {
    /// Whether a second matrix gates the feed-forward block.
    pub gated: bool,
    /// Whether the feed-forward block has biases.
    pub block_bias: bool,
    /// Whether attention has.
    pub attention_bias: bool,
    /// Whether norms shift as well as scale.
    pub norm_shift: bool,
    /// Norms of the model's width in a layer.
    pub norms: u64,
    /// Those outside of layers.
    pub norms_outside: u64,
    /// Whether the table of tokens is the projection to the vocabulary.
    pub tied: bool,
    /// Whether attention and feed-forward block read the same input, and are added up together.
    pub parallel: bool,
}

impl Convention {
    pub(super) fn of(keys: &Keys<'_>) -> Result<Self> {
        let llama = Self {
            gated: true,
            block_bias: false,
            attention_bias: false,
            norm_shift: false,
            norms: 2,
            norms_outside: 1,
            tied: false,
            parallel: false,
        };
        let before =
            || Self { gated: false, block_bias: true, attention_bias: true, norm_shift: true, tied: true, ..llama };
        Ok(match keys.family {
            "bert" | "roberta" | "gpt2" | "opt" => before(),
            // Its table of tokens has a norm of its own.
            "bloom" => Self { norms_outside: 2, ..before() },
            "gptj" => Self { attention_bias: false, norms: 1, tied: false, parallel: true, ..before() },
            "gpt_neox" => Self { tied: false, parallel: keys.flag("use_parallel_residual", true)?, ..before() },
            "phi" => Self { norms: 1, tied: false, parallel: true, ..before() },
            "falcon" => {
                let (bias, two) = (keys.flag("bias", false)?, keys.flag("new_decoder_architecture", false)?);
                let parallel = two || keys.flag("parallel_attn", true)?;
                let norms = if two || !parallel { 2 } else { 1 };
                Self { block_bias: bias, attention_bias: bias, norms, parallel, ..before() }
            }
            "starcoder2" => {
                let bias = keys.flag("use_bias", true)?;
                Self { block_bias: bias, attention_bias: bias, ..before() }
            }
            "nemotron" => Self { block_bias: false, attention_bias: false, tied: false, ..before() },
            "gemma" => Self { tied: true, ..llama },
            "gemma2" | "gemma3_text" | "grok-1" => Self { tied: true, norms: 4, ..llama },
            "cohere" | "cohere2" => Self { tied: true, norms: 1, parallel: true, ..llama },
            "olmo" => Self { norms: 0, norms_outside: 0, ..llama },
            "phimoe" => Self { attention_bias: true, norm_shift: true, ..llama },
            "gpt_oss" | "qwen2" | "qwen2_moe" | "glm" | "glm4_moe" => Self { attention_bias: true, ..llama },
            _ => llama,
        })
    }
}

impl Keys<'_> {
    pub(super) fn attention(&self, width: u64, names: &KeyNames, convention: &Convention) -> Result<Attention> {
        let heads = self.number(names.heads)?;
        if self.family.starts_with("deepseek") || self.family == "kimi_k2" {
            return Ok(Attention::Latent {
                heads,
                query_rank: self.maybe("q_lora_rank")?,
                kv_rank: self.number("kv_lora_rank")?,
                nope: self.number("qk_nope_head_dim")?,
                rope: self.number("qk_rope_head_dim")?,
                value: self.number("v_head_dim")?,
            });
        }
        let shared = self.family == "falcon" && !self.flag("new_decoder_architecture", false)?;
        let kv_heads = match shared {
            true if self.flag("multi_query", true)? => 1,
            true => heads,
            false => self.maybe(names.kv_heads)?.unwrap_or(heads),
        };
        let head_width = match self.maybe("head_dim")? {
            Some(given) => given,
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                return Err(Error::Spec(format!(
                    "{}: {} {width} is no multiple of {} {heads}, and head_dim is not given",
                    self.name, names.width, names.heads
                )));
            }
        };
        let bias = self.flag("attention_bias", convention.attention_bias)?;
        let normed = self.flag("use_qk_norm", false)?;
        Ok(Attention::Grouped {
            heads,
            kv_heads,
            head_width,
            bias,
            output_bias: bias && !self.family.starts_with("qwen2") && !self.family.starts_with("glm"),
            head_norms: self.family.starts_with("qwen3")
                || self.family == "gemma3_text"
                || (normed && self.family == "glm4_moe"),
            wide_norms: self.family == "olmo2" || (normed && matches!(self.family, "cohere" | "minimax_m2")),
            sinks: self.family == "gpt_oss",
        })
    }

    pub(super) fn window(&self, layers: u64) -> Result<Option<Window>> {
        // Chunks of attention keep as many tokens as a window of their length at most.
        let key = if self.family == "llama4_text" { "attention_chunk_size" } else { "sliding_window" };
        let Some(tokens) = self.maybe(key)? else { return Ok(None) };
        let all_but_each = |nth: u64| layers - layers / nth;
        let windowed = match self.get("layer_types") {
            Some(Value::Array(types)) => {
                if types.len() as u64 != layers {
                    let got = types.len();
                    return Err(Error::Spec(format!(
                        "{}: layer_types has {got} entries, num_hidden_layers is {layers}; they must agree",
                        self.name
                    )));
                }
                let local = |kind: &&Value| matches!(kind.as_str(), Some("sliding_attention" | "chunked_attention"));
                types.iter().filter(local).count() as u64
            }
            Some(other) => return Err(self.wrong("layer_types", other, "a list of names")),
            None if self.family == "gpt_oss" => layers.div_ceil(2),
            None if self.family.starts_with("qwen") => {
                let used = self.flag("use_sliding_window", false)?;
                if used { layers.saturating_sub(self.count("max_window_layers", layers)?) } else { 0 }
            }
            None => match self.family {
                "gemma2" => all_but_each(2),
                "gemma3_text" => all_but_each(self.maybe("sliding_window_pattern")?.unwrap_or(6)),
                "cohere2" => all_but_each(self.maybe("sliding_window_pattern")?.unwrap_or(4)),
                "llama4_text" => all_but_each(self.maybe("no_rope_layer_interval")?.unwrap_or(4)),
                _ => layers,
            },
        };
        Ok((windowed > 0).then_some(Window { tokens, layers: windowed }))
    }

    pub(super) fn experts(&self, layers: u64, width: u64) -> Result<Option<Experts>> {
        let gated = |width, bias| FeedForward { width, gated: true, bias };
        let experts = match self.family {
            "mixtral" | "gpt_oss" | "phimoe" | "minimax_m2" | "grok-1" => {
                let biased = self.family == "gpt_oss";
                let other = self.family == "grok-1" && self.get("num_experts").is_some();
                let count = self.number(if other { "num_experts" } else { "num_local_experts" })?;
                Experts {
                    layers,
                    count,
                    active: self.number("num_experts_per_tok")?,
                    block: gated(self.number("intermediate_size")?, biased),
                    shared: None,
                    router_extra: if matches!(self.family, "gpt_oss" | "minimax_m2") { count } else { 0 },
                }
            }
            "dbrx" => Experts {
                layers,
                count: self.number("ffn_config.moe_num_experts")?,
                active: self.number("ffn_config.moe_top_k")?,
                block: gated(self.number("ffn_config.ffn_hidden_size")?, false),
                shared: None,
                router_extra: 0,
            },
            "llama4_text" => {
                let block = gated(self.number("intermediate_size")?, false);
                Experts {
                    layers: layers / self.maybe("interleave_moe_layer_step")?.unwrap_or(1),
                    count: self.number("num_local_experts")?,
                    active: self.number("num_experts_per_tok")?,
                    block,
                    shared: Some(block),
                    router_extra: 0,
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
            "deepseek_v2" | "deepseek_v3" | "kimi_k2" | "glm4_moe" => {
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
                    router_extra: if self.family == "deepseek_v2" { 0 } else { count },
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
}
