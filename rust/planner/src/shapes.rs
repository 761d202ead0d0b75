//! What a transformer is made of: shapes of its tensors, their counts, its keys and values, its operations.

use std::collections::BTreeMap;

use serde::Serialize;

use super::dtype::{DataType, TensorPrecision};
use super::tensor_class::TensorClass;

/// How attention is built.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Attention {
    /// Heads of queries that share fewer heads of keys and values (all the same, for plain multi-head attention).
    Grouped {
        /// Heads of queries.
        heads: u64,
        /// Heads of keys and of values.
        kv_heads: u64,
        /// Elements of one head.
        head_width: u64,
        /// Whether the projections to queries, keys and values have biases.
        bias: bool,
        /// Whether the projection back has one.
        output_bias: bool,
        /// Whether queries and keys are normalised head by head.
        head_norms: bool,
        /// Whether they are over all heads together.
        wide_norms: bool,
        /// Whether each head has a learned sink.
        sinks: bool,
    },
    /// Keys and values in one latent vector a token (multi-head latent attention of DeepSeek).
    Latent {
        /// Heads of queries.
        heads: u64,
        /// Width of the latent queries; `None` where queries are projected directly.
        query_rank: Option<u64>,
        /// Width of the latent keys and values.
        kv_rank: u64,
        /// Elements of a head without a position.
        nope: u64,
        /// Elements of a head with one, shared by all heads of keys.
        rope: u64,
        /// Elements of a head of values.
        value: u64,
    },
}

impl Attention {
    /// Heads of queries.
    pub fn heads(&self) -> u64 {
        match *self {
            Self::Grouped { heads, .. } | Self::Latent { heads, .. } => heads,
        }
    }

    /// Heads of keys and values that ranks can share out; one for a latent vector, which every rank needs whole.
    pub fn kv_heads(&self) -> u64 {
        match *self {
            Self::Grouped { kv_heads, .. } => kv_heads,
            Self::Latent { .. } => 1,
        }
    }

    /// Heads of queries of one of `tp` ranks: their number is padded up to the next multiple of `tp`, as Neuron pads it.
    ///
    /// ```
    /// use trn3_planner::built_in_model;
    ///
    /// let attention = built_in_model("llama-2-13b").unwrap().attention;
    /// assert_eq!((attention.heads(), attention.heads_of_rank(8), attention.heads_of_rank(32)), (40, 5, 2));
    /// ```
    pub fn heads_of_rank(&self, tp: u64) -> u64 {
        self.heads().div_ceil(tp)
    }

    /// Heads of keys and values of one of `tp` ranks: repeated where they are fewer than ranks; where neither divides the
    /// other, one for each head of queries.
    pub fn kv_heads_of_rank(&self, tp: u64) -> u64 {
        let heads = self.kv_heads();
        match () {
            () if heads.is_multiple_of(tp) => heads / tp,
            () if tp.is_multiple_of(heads) => 1,
            () => self.heads_of_rank(tp),
        }
    }

    /// Elements of keys and values that a layer keeps for a token, in all heads together.
    pub fn kv_elements(&self) -> u64 {
        match *self {
            Self::Grouped { kv_heads, head_width, .. } => 2 * kv_heads * head_width,
            Self::Latent { kv_rank, rope, .. } => kv_rank + rope,
        }
    }

    /// Weights of one layer: matrices and biases.
    fn parameters(&self, width: u64) -> u64 {
        match *self {
            Self::Grouped { heads, kv_heads, head_width, bias, output_bias, sinks, .. } => {
                let (queries, keys) = (heads * head_width, 2 * kv_heads * head_width);
                width * (queries + keys)
                    + queries * width
                    + u64::from(bias) * (queries + keys)
                    + u64::from(output_bias) * width
                    + u64::from(sinks) * heads
            }
            Self::Latent { heads, query_rank, kv_rank, nope, rope, value } => {
                let queries = heads * (nope + rope);
                query_rank.map_or(width * queries, |rank| width * rank + rank * queries)
                    + width * (kv_rank + rope)
                    + kv_rank * heads * (nope + value)
                    + heads * value * width
            }
        }
    }

    /// Weights of the norms inside one layer's attention.
    fn norms(&self) -> u64 {
        match *self {
            Self::Grouped { heads, kv_heads, head_width, head_norms, wide_norms, .. } => {
                (u64::from(head_norms) * 2 + u64::from(wide_norms) * (heads + kv_heads)) * head_width
            }
            Self::Latent { query_rank, kv_rank, .. } => query_rank.unwrap_or(0) + kv_rank,
        }
    }

    /// Multiply-adds of scores and weighted values for each pair of a query and a key, in all heads together.
    ///
    /// Latent attention in `absorbed` form works on latent vectors, as decoding does.
    pub fn pair_multiplies(&self, absorbed: bool) -> u64 {
        match *self {
            Self::Grouped { heads, head_width, .. } => 2 * heads * head_width,
            Self::Latent { heads, kv_rank, rope, .. } if absorbed => heads * (2 * kv_rank + rope),
            Self::Latent { heads, nope, rope, value, .. } => heads * (nope + rope + value),
        }
    }
}

/// Layers that see only the latest tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    /// How many tokens they see.
    pub tokens: u64,
    /// How many layers do; the others see all.
    pub layers: u64,
}

/// A feed-forward block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FeedForward {
    /// Elements between its two halves.
    pub width: u64,
    /// Whether a second matrix gates the first.
    pub gated: bool,
    /// Whether the matrices have biases.
    pub bias: bool,
}

impl FeedForward {
    /// Matrices from the model's width to this block's.
    pub fn inputs(self) -> u64 {
        if self.gated { 2 } else { 1 }
    }

    /// Weights of the matrices alone.
    pub fn matrix_elements(self, width: u64) -> u64 {
        (self.inputs() + 1) * width * self.width
    }

    fn parameters(self, width: u64) -> u64 {
        self.matrix_elements(width) + u64::from(self.bias) * (self.inputs() * self.width + width)
    }
}

/// Layers whose feed-forward block is a set of experts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Experts {
    /// Layers that have them; the first ones of the model do not, if not all do.
    pub layers: u64,
    /// Experts of a layer.
    pub count: u64,
    /// Experts that a token passes.
    pub active: u64,
    /// One expert.
    pub block: FeedForward,
    /// The experts that every token passes, as one block.
    pub shared: Option<FeedForward>,
    /// Weights of the router of a layer beside its matrix: biases and gates.
    pub router_extra: u64,
}

impl Experts {
    /// The share of a layer's experts that at least one of `tokens` tokens passes, if the router picks evenly:
    /// `1 - (1 - active / count) ^ tokens`.
    ///
    /// ```
    /// # use trn3_planner::{Model, built_in_model};
    /// let model = built_in_model("gpt-oss-120b").unwrap();
    /// let experts = model.experts.unwrap();
    /// assert!((experts.touched(1.0) - 4.0 / 128.0).abs() < 1e-15);
    /// ```
    pub fn touched(&self, tokens: f64) -> f64 {
        let picked = self.active as f64 / self.count as f64;
        // The complement keeps its digits for one token of many experts.
        -f64::exp_m1(tokens * f64::ln_1p(-picked))
    }
}

/// The shapes of a transformer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// The family its configuration is of: `llama`, `gpt_oss`, ...
    pub family: String,
    /// Where the shapes come from.
    pub source: String,
    /// The name that was asked for, where it is that of another model of the same shapes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Layers.
    pub layers: u64,
    /// Elements of a token between layers.
    pub width: u64,
    /// Tokens that exist.
    pub vocabulary: u64,
    /// Whether the projection to the vocabulary is the table of tokens.
    pub tied: bool,
    /// Rows of learned tables at the input beside that of tokens: positions, kinds of token.
    pub position_rows: u64,
    /// Weights of layers behind the last one (the pooler of BERT).
    pub head_parameters: u64,
    /// Whether a token sees earlier ones alone.
    pub causal: bool,
    /// Whether attention and feed-forward block of a layer read the same input, and are added up together.
    pub parallel: bool,
    /// Attention of every layer.
    pub attention: Attention,
    /// Layers that see only a window.
    pub window: Option<Window>,
    /// The feed-forward block of layers without experts.
    pub feed_forward: FeedForward,
    /// Layers with experts.
    pub experts: Option<Experts>,
    /// Norms of the model's width in a layer.
    pub norms_per_layer: u64,
    /// Norms of the model's width outside of layers.
    pub norms_outside: u64,
    /// Whether norms shift as well as scale.
    pub norm_shift: bool,
    /// The longest context the configuration allows, where it says.
    pub longest_context: Option<u64>,
    /// The format its checkpoint is published in, where the configuration says.
    pub published_dtype: Option<DataType>,
    /// What it says instead, where that is no format that is understood: `quantization_config is "gptq" of 4 bits`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_dtype: Option<String>,
    /// Parameters as published, with which the count can be compared.
    pub published_parameters: Option<f64>,
}

/// How many weights each class has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameters {
    counts: [u64; TensorClass::ALL.len()],
    /// Weights that a token is multiplied with: all but the table at the input, and of experts those it passes.
    pub active: u64,
}

impl Parameters {
    /// Weights of a class.
    pub fn of(&self, class: TensorClass) -> u64 {
        self.counts[class as usize]
    }

    /// All weights.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Weights by the names of their classes.
    pub fn by_class(&self) -> BTreeMap<&'static str, u64> {
        TensorClass::ALL.into_iter().map(|class| (class.name(), self.of(class))).collect()
    }
}

impl Model {
    /// Layers without experts.
    pub fn dense_layers(&self) -> u64 {
        self.layers - self.experts.as_ref().map_or(0, |experts| experts.layers)
    }

    /// Layers that see the whole context.
    pub fn full_layers(&self) -> u64 {
        self.layers - self.window.map_or(0, |window| window.layers)
    }

    /// How many weights each class has.
    ///
    /// ```
    /// use trn3_planner::{TensorClass, built_in_model};
    ///
    /// let parameters = built_in_model("llama-3-8b").unwrap().parameters();
    /// assert_eq!(parameters.total(), 8_030_261_248);
    /// assert_eq!(parameters.of(TensorClass::Embedding), 128_256 * 4_096);
    /// ```
    pub fn parameters(&self) -> Parameters {
        let mut counts = [0; TensorClass::ALL.len()];
        let norm = self.width * (1 + u64::from(self.norm_shift));
        counts[TensorClass::Attention as usize] = self.layers * self.attention.parameters(self.width);
        counts[TensorClass::Dense as usize] =
            self.dense_layers() * self.feed_forward.parameters(self.width) + self.head_parameters;
        counts[TensorClass::Embedding as usize] = (self.vocabulary + self.position_rows) * self.width;
        counts[TensorClass::Unembedding as usize] = if self.tied { 0 } else { self.vocabulary * self.width };
        counts[TensorClass::Norms as usize] =
            self.layers * (self.norms_per_layer * norm + self.attention.norms()) + self.norms_outside * norm;
        let mut idle = 0;
        if let Some(experts) = &self.experts {
            let one = experts.block.parameters(self.width);
            counts[TensorClass::Experts as usize] = experts.layers * experts.count * one;
            counts[TensorClass::SharedExperts as usize] =
                experts.layers * experts.shared.map_or(0, |shared| shared.parameters(self.width));
            counts[TensorClass::Router as usize] = experts.layers * (experts.count * self.width + experts.router_extra);
            idle = experts.layers * (experts.count - experts.active) * one;
        }
        let total: u64 = counts.iter().sum();
        let table = if self.tied { self.position_rows * self.width } else { counts[TensorClass::Embedding as usize] };
        Parameters { counts, active: total - idle - table }
    }

    /// Bytes of all weights in these formats.
    pub fn weight_bytes(&self, precision: &TensorPrecision) -> f64 {
        let parameters = self.parameters();
        TensorClass::ALL.into_iter().map(|class| parameters.of(class) as f64 * precision.of(class).bytes()).sum()
    }

    /// Bytes of keys and values that one layer that sees everything keeps for a token.
    ///
    /// ```
    /// use trn3_planner::{DataType, built_in_model};
    ///
    /// assert_eq!(built_in_model("gpt-oss-120b").unwrap().kv_bytes_per_token_per_layer(DataType::Bf16), 2048.0);
    /// assert_eq!(built_in_model("deepseek-v3").unwrap().kv_bytes_per_token_per_layer(DataType::Bf16), 1152.0);
    /// ```
    pub fn kv_bytes_per_token_per_layer(&self, dtype: DataType) -> f64 {
        self.attention.kv_elements() as f64 * dtype.bytes()
    }

    /// Tokens whose keys and values all layers together keep for a sequence of this length.
    pub fn kv_tokens(&self, context: f64) -> f64 {
        let window = self.window.map_or(0.0, |window| window.layers as f64 * context.min(window.tokens as f64));
        self.full_layers() as f64 * context + window
    }

    /// Bytes of keys and values of a sequence of this length, in all layers and all heads.
    pub fn kv_bytes(&self, context: f64, dtype: DataType) -> f64 {
        self.kv_tokens(context) * self.kv_bytes_per_token_per_layer(dtype)
    }

    /// Pairs of a query and a key that a layer works on when `tokens` follow `past` others.
    pub(super) fn pairs(&self, tokens: f64, past: f64, window: Option<u64>) -> f64 {
        if !self.causal {
            return tokens * (past + tokens);
        }
        let Some(window) = window.map(|tokens| tokens as f64) else {
            return tokens * past + tokens * (tokens + 1.0) / 2.0;
        };
        // Tokens before the window is full see one key more each, the others the window.
        let rising = (window - past).clamp(0.0, tokens);
        rising * past + rising * (rising + 1.0) / 2.0 + (tokens - rising) * window
    }

    /// Floating-point operations of `tokens` new tokens of one sequence after `past` others, with logits for all.
    pub fn flops(&self, tokens: f64, past: f64) -> f64 {
        tokens * 2.0 * self.parameters().active as f64 + self.attention_flops(tokens, past)
    }

    /// The part of [`Model::flops`] that grows with the context.
    pub fn attention_flops(&self, tokens: f64, past: f64) -> f64 {
        let absorbed = tokens <= past;
        let multiplies = self.attention.pair_multiplies(absorbed) as f64;
        let windowed =
            self.window.map_or(0.0, |window| window.layers as f64 * self.pairs(tokens, past, Some(window.tokens)));
        2.0 * multiplies * (self.full_layers() as f64 * self.pairs(tokens, past, None) + windowed)
    }

    /// Operations of one token of a prompt of this length, on average.
    pub fn prefill_flops_per_token(&self, tokens: u64) -> f64 {
        self.flops(tokens as f64, 0.0) / tokens as f64
    }

    /// Operations of one generated token after a context of this length.
    pub fn decode_flops_per_token(&self, context: u64) -> f64 {
        self.flops(1.0, context as f64)
    }
}

#[cfg(test)]
#[path = "shapes_tests.rs"]
mod tests;
