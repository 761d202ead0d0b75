//! Mixers with a state of fixed size: Mamba, Mamba-2, and Jamba, which has attention and experts in between.

use super::forward::{Forward, Heads};
use super::{Given, Sizes};
use crate::dtype::TensorPrecision;
use crate::keys::Keys;
use trn3_system::Result;

/// Tokens of a prompt if none are given **(choice)**.
const USUAL_INPUT: u64 = 8192;

type Built<'a> = Result<(Sizes, Vec<Forward<'a>>)>;

/// Tokens of a pass: new ones and earlier ones of each of `batch` sequences.
#[derive(Clone, Copy)]
struct Tokens {
    new: f64,
    past: f64,
    batch: f64,
}

impl Tokens {
    fn rows(self) -> f64 {
        self.new * self.batch
    }
}

/// The prompt and one token after it. The weights are those of the prompt.
fn both<'a>(
    given: &Given,
    precision: &'a TensorPrecision,
    fill: impl Fn(&mut Forward<'a>, Tokens),
) -> Vec<Forward<'a>> {
    let (tokens, batch) = (given.input.unwrap_or(USUAL_INPUT) as f64, given.batch as f64);
    let mut prompt = Forward::new("prompt", "tokens", tokens * batch, precision);
    fill(&mut prompt, Tokens { new: tokens, past: 0.0, batch });
    let mut token = Forward::new("token", "tokens", batch, precision);
    fill(&mut token, Tokens { new: 1.0, past: tokens, batch });
    token.weights = 0.0;
    vec![prompt, token]
}

/// A mixer of the first kind: the step of each channel comes from the input, over a narrow projection.
struct Mixer {
    width: f64,
    inner: f64,
    states: f64,
    kernel: f64,
    rank: f64,
}

impl Mixer {
    fn of(keys: &Keys<'_>, width: u64, names: [&str; 4]) -> Result<Self> {
        let [states, kernel, expand, rank] = names;
        let inner = keys.maybe(expand)?.unwrap_or(2) * width;
        Ok(Self {
            width: width as f64,
            inner: inner as f64,
            states: keys.number(states)? as f64,
            kernel: keys.maybe(kernel)?.unwrap_or(4) as f64,
            rank: keys.maybe(rank)?.unwrap_or(width.div_ceil(16)) as f64,
        })
    }

    fn fill(&self, pass: &mut Forward<'_>, layers: f64, tokens: Tokens) {
        let Self { width, inner, states, kernel, rank } = *self;
        let rows = tokens.rows();
        pass.linear("in_proj", layers, [rows, width, 2.0 * inner], false);
        pass.convolution("conv1d", layers, rows, [inner, inner, kernel, inner]);
        pass.linear("x_proj", layers, [rows, inner, rank + 2.0 * states], false);
        pass.linear("dt_proj", layers, [rows, rank, inner], true);
        pass.scan("selective_scan", layers, rows, [inner, states], tokens.batch);
        pass.hold(layers * inner * (states + 1.0));
        pass.linear("out_proj", layers, [rows, inner, width], false);
    }
}

fn ends(pass: &mut Forward<'_>, [width, vocabulary]: [f64; 2], tied: bool, tokens: Tokens) {
    pass.table("embedding", vocabulary, width, tokens.rows());
    let shape = [tokens.batch, width, vocabulary];
    if tied { pass.product("unembedding", 1.0, shape) } else { pass.linear("unembedding", 1.0, shape, false) }
}

/// Mamba, and Falcon Mamba, which norms steps and states without weights.
pub(super) fn mamba<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let (layers, width, vocabulary) =
        (keys.number("num_hidden_layers")?, keys.number("hidden_size")?, keys.number("vocab_size")?);
    let mixer = Mixer::of(keys, width, ["state_size", "conv_kernel", "expand", "time_step_rank"])?;
    let tied = keys.flag("tie_word_embeddings", keys.family == "mamba")?;
    let passes = both(given, precision, |pass, tokens| {
        ends(pass, [width as f64, vocabulary as f64], tied, tokens);
        mixer.fill(pass, layers as f64, tokens);
        pass.norm("norms", layers as f64 + 1.0, tokens.rows(), width as f64, 1.0);
    });
    Ok((Sizes { layers, width, vocabulary, idle: 0.0 }, passes))
}

/// Mamba-2: heads with one decay each, whose states groups of heads share the inputs and outputs of.
pub(super) fn mamba2<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let (layers, width, vocabulary) =
        (keys.number("num_hidden_layers")?, keys.number("hidden_size")?, keys.number("vocab_size")?);
    let inner = (keys.maybe("expand")?.unwrap_or(2) * width) as f64;
    let [states, heads, groups] = ["state_size", "num_heads", "n_groups"].map(|key| keys.number(key));
    let (states, heads, groups) = (states? as f64, heads? as f64, groups? as f64);
    let kernel = keys.maybe("conv_kernel")?.unwrap_or(4) as f64;
    let tied = keys.flag("tie_word_embeddings", false)?;
    let count = layers as f64;
    let passes = both(given, precision, |pass, tokens| {
        let (rows, mixed) = (tokens.rows(), inner + 2.0 * groups * states);
        ends(pass, [width as f64, vocabulary as f64], tied, tokens);
        pass.linear("in_proj", count, [rows, width as f64, inner + mixed + heads], false);
        pass.convolution("conv1d", count, rows, [mixed, mixed, kernel, mixed]);
        pass.scan("selective_scan", count, rows, [inner, states], tokens.batch);
        pass.hold(count * 3.0 * heads);
        pass.norm("gated_norm", count, rows, inner, 1.0);
        pass.linear("out_proj", count, [rows, inner, width as f64], false);
        pass.norm("norms", count + 1.0, rows, width as f64, 1.0);
    });
    Ok((Sizes { layers, width, vocabulary, idle: 0.0 }, passes))
}

/// Jamba: attention in every eighth layer, experts in every second one.
pub(super) fn jamba<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let (layers, width, vocabulary) =
        (keys.number("num_hidden_layers")?, keys.number("hidden_size")?, keys.number("vocab_size")?);
    let every = |kind: &str, period: u64, offset: u64| -> Result<f64> {
        let period = keys.maybe(&format!("{kind}_layer_period"))?.unwrap_or(period);
        let offset = keys.count(&format!("{kind}_layer_offset"), offset)?;
        Ok((0..layers).filter(|layer| layer % period == offset).count() as f64)
    };
    let (attending, routed) = (every("attn", 8, 4)?, every("expert", 2, 1)?);
    let mixer = Mixer::of(keys, width, ["mamba_d_state", "mamba_d_conv", "mamba_expand", "mamba_dt_rank"])?;
    let [heads, kv_heads, block, experts, active] =
        ["num_attention_heads", "num_key_value_heads", "intermediate_size", "num_experts", "num_experts_per_tok"]
            .map(|key| keys.number(key));
    let (heads, block, experts, active) = (heads? as f64, block? as f64, experts? as f64, active? as f64);
    let wide = width as f64;
    let heads = Heads { count: heads, width: wide / heads, kv_count: kv_heads? as f64 };
    let tied = keys.flag("tie_word_embeddings", false)?;
    let all = layers as f64;
    let passes = both(given, precision, |pass, tokens| {
        let rows = tokens.rows();
        ends(pass, [wide, vocabulary as f64], tied, tokens);
        pass.linear("qkv", attending, [rows, wide, (heads.count + 2.0 * heads.kv_count) * heads.width], false);
        let kept = tokens.past + tokens.new;
        let seen = tokens.past + (tokens.new + 1.0) / 2.0;
        pass.attention("attention", attending, heads, rows, [seen, kept, tokens.batch]);
        pass.linear("attention_out", attending, [rows, heads.count * heads.width, wide], false);
        mixer.fill(pass, all - attending, tokens);
        // Steps, inputs and outputs of the state have norms of their own.
        pass.hold((all - attending) * (mixer.rank + 2.0 * mixer.states));
        pass.linear("mlp_in", all - routed, [rows, wide, 2.0 * block], false);
        pass.linear("mlp_out", all - routed, [rows, block, wide], false);
        pass.linear("router", routed, [rows, wide, experts], false);
        pass.experts("experts_in", routed, [rows, wide, 2.0 * block], [active, experts]);
        pass.experts("experts_out", routed, [rows, block, wide], [active, experts]);
        pass.norm("norms", 2.0 * all + 1.0, rows, wide, 1.0);
    });
    let idle = routed * (experts - active) * 3.0 * wide * block;
    Ok((Sizes { layers, width, vocabulary, idle }, passes))
}
