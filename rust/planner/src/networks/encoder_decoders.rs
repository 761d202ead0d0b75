//! Encoders whose output decoders attend to: T5, BART, Whisper.

use super::forward::{Forward, Heads};
use super::{Given, Sizes};
use crate::dtype::TensorPrecision;
use crate::keys::Keys;
use trn3_system::Result;

/// Tokens at the input, and tokens already generated, if none are given **(choice)**.
const USUAL_INPUT: u64 = 512;
const USUAL_OUTPUT: u64 = 128;

/// A stack of layers: widths, biases, and weights of a norm for each element of the width.
struct Stack {
    layers: f64,
    width: f64,
    heads: Heads,
    block: f64,
    gated: bool,
    bias: bool,
    /// Whether the projection to keys has a bias too.
    key_bias: bool,
    norm: f64,
}

impl Stack {
    fn attention(&self, pass: &mut Forward<'_>, names: [&'static str; 3], rows: f64, [seen, kept, batch]: [f64; 3]) {
        let inner = self.heads.count * self.heads.width;
        pass.linear(names[0], self.layers, [rows, self.width, 3.0 * inner], self.bias);
        self.keys_without_bias(pass, inner);
        pass.attention(names[1], self.layers, self.heads, rows, [seen, kept, batch]);
        pass.linear(names[2], self.layers, [rows, inner, self.width], self.bias);
    }

    fn keys_without_bias(&self, pass: &mut Forward<'_>, inner: f64) {
        if self.bias && !self.key_bias {
            pass.hold(-self.layers * inner);
        }
    }

    /// Attention to the output of an encoder, whose keys and values were made once: `source` of each of `batch`.
    fn cross(&self, pass: &mut Forward<'_>, rows: f64, [source, batch]: [f64; 2]) {
        let inner = self.heads.count * self.heads.width;
        pass.linear("cross_q", self.layers, [rows, self.width, inner], self.bias);
        pass.attention("cross_attention", self.layers, self.heads, rows, [source, source, batch]);
        pass.linear("cross_out", self.layers, [rows, inner, self.width], self.bias);
    }

    fn block(&self, pass: &mut Forward<'_>, names: [&'static str; 2], rows: f64) {
        let columns = self.block * if self.gated { 2.0 } else { 1.0 };
        pass.linear(names[0], self.layers, [rows, self.width, columns], self.bias);
        pass.linear(names[1], self.layers, [rows, self.block, self.width], self.bias);
    }

    fn encode(&self, pass: &mut Forward<'_>, [tokens, batch]: [f64; 2], outside: f64) {
        let rows = tokens * batch;
        self.attention(pass, ["qkv", "attention", "attention_out"], rows, [tokens, tokens, batch]);
        self.block(pass, ["mlp_in", "mlp_out"], rows);
        pass.norm("norms", 2.0 * self.layers + outside, rows, self.width, self.norm);
    }

    /// Keys and values of an encoder's output for all layers of a decoder.
    fn keys_of_source(&self, pass: &mut Forward<'_>, rows: f64) {
        let inner = self.heads.count * self.heads.width;
        pass.linear("cross_kv", self.layers, [rows, self.width, 2.0 * inner], self.bias);
        self.keys_without_bias(pass, inner);
    }

    /// One token of each of `batch` sequences after `past` others.
    fn decode(&self, pass: &mut Forward<'_>, [past, source, batch]: [f64; 3], outside: f64) {
        let seen = past + 1.0;
        self.attention(pass, ["qkv", "attention", "attention_out"], batch, [seen, seen, batch]);
        self.cross(pass, batch, [source, batch]);
        self.block(pass, ["mlp_in", "mlp_out"], batch);
        pass.norm("norms", 3.0 * self.layers + outside, batch, self.width, self.norm);
    }
}

type Built<'a> = Result<(Sizes, Vec<Forward<'a>>)>;

fn passes<'a>(given: &Given, unit: &'static str, precision: &'a TensorPrecision) -> [Forward<'a>; 2] {
    let batch = given.batch as f64;
    [Forward::new("encoder", unit, batch, precision), Forward::new("decoder", "tokens", batch, precision)]
}

/// T5: no biases, norms that scale, positions as a bias of scores.
pub(super) fn t5<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let [width, head, block, layers, heads, vocabulary] =
        ["d_model", "d_kv", "d_ff", "num_layers", "num_heads", "vocab_size"].map(|key| keys.number(key));
    let (width, layers, vocabulary) = (width?, layers?, vocabulary?);
    let decoder_layers = keys.maybe("num_decoder_layers")?.unwrap_or(layers);
    let gated =
        keys.get("feed_forward_proj").and_then(|kind| kind.as_str()).is_some_and(|kind| kind.starts_with("gated"));
    let heads = Heads::plain(heads? as f64, head? as f64);
    let stack = |layers: u64| Stack {
        layers: layers as f64,
        width: width as f64,
        heads,
        block: 0.0,
        gated,
        bias: false,
        key_bias: false,
        norm: 1.0,
    };
    let block = block? as f64;
    let (encoder, decoder) = (Stack { block, ..stack(layers) }, Stack { block, ..stack(decoder_layers) });
    let [mut first, mut second] = passes(given, "sequences", precision);
    let batch = given.batch as f64;
    let (source, past) = (given.input.unwrap_or(USUAL_INPUT) as f64, given.output.unwrap_or(USUAL_OUTPUT) as f64);
    let buckets = keys.maybe("relative_attention_num_buckets")?.unwrap_or(32) as f64;
    first.table("embedding", vocabulary as f64, width as f64, source * batch);
    encoder.encode(&mut first, [source, batch], 1.0);
    first.hold(buckets * heads.count);
    decoder.keys_of_source(&mut first, source * batch);
    second.table("embedding", 0.0, width as f64, batch);
    decoder.decode(&mut second, [past, source, batch], 1.0);
    second.hold(buckets * heads.count);
    logits(&mut second, batch, width, vocabulary, keys.flag("tie_word_embeddings", true)?);
    let sizes = Sizes { layers: layers + decoder_layers, width, vocabulary, idle: 0.0 };
    Ok((sizes, vec![first, second]))
}

fn logits(pass: &mut Forward<'_>, rows: f64, width: u64, vocabulary: u64, tied: bool) {
    let shape = [rows, width as f64, vocabulary as f64];
    if tied { pass.product("unembedding", 1.0, shape) } else { pass.linear("unembedding", 1.0, shape, false) }
}

/// The two stacks of BART and Whisper.
fn pair(keys: &Keys<'_>, key_bias: bool) -> Result<[Stack; 2]> {
    let width = keys.number("d_model")? as f64;
    let stack = |layers, heads, block| -> Result<Stack> {
        let count = keys.number(heads)? as f64;
        Ok(Stack {
            layers: keys.number(layers)? as f64,
            width,
            heads: Heads::plain(count, width / count),
            block: keys.number(block)? as f64,
            gated: false,
            bias: true,
            key_bias,
            norm: 2.0,
        })
    };
    Ok([
        stack("encoder_layers", "encoder_attention_heads", "encoder_ffn_dim")?,
        stack("decoder_layers", "decoder_attention_heads", "decoder_ffn_dim")?,
    ])
}

/// BART: learned positions, norms behind blocks and behind the tables.
pub(super) fn bart<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let [encoder, decoder] = pair(keys, true)?;
    let (width, vocabulary) = (keys.number("d_model")?, keys.number("vocab_size")?);
    // Its positions begin behind two that mark padding.
    let positions = (keys.number("max_position_embeddings")? + 2) as f64;
    let [mut first, mut second] = passes(given, "sequences", precision);
    let batch = given.batch as f64;
    let (source, past) = (given.input.unwrap_or(USUAL_INPUT) as f64, given.output.unwrap_or(USUAL_OUTPUT) as f64);
    first.table("embedding", vocabulary as f64, width as f64, source * batch);
    first.table("positions", positions, width as f64, source);
    encoder.encode(&mut first, [source, batch], 1.0);
    decoder.keys_of_source(&mut first, source * batch);
    second.table("embedding", 0.0, width as f64, batch);
    second.table("positions", positions, width as f64, 1.0);
    decoder.decode(&mut second, [past, source, batch], 1.0);
    logits(&mut second, batch, width, vocabulary, true);
    let layers = (encoder.layers + decoder.layers) as u64;
    Ok((Sizes { layers, width, vocabulary, idle: 0.0 }, vec![first, second]))
}

/// Whisper: two convolutions over a spectrogram, the second of stride two, in front of the encoder.
pub(super) fn whisper<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let [encoder, decoder] = pair(keys, false)?;
    let (width, vocabulary) = (keys.number("d_model")?, keys.number("vocab_size")?);
    let (bins, longest) = (keys.number("num_mel_bins")? as f64, keys.number("max_source_positions")?);
    let frames = given.frames.unwrap_or(2 * longest) as f64;
    let [mut first, mut second] = passes(given, "recordings", precision);
    let (batch, wide) = (given.batch as f64, width as f64);
    let (source, past) = (frames / 2.0, given.output.unwrap_or(USUAL_OUTPUT) as f64);
    first.convolution("conv1", 1.0, frames * batch, [bins, wide, 3.0, 1.0]);
    first.convolution("conv2", 1.0, source * batch, [wide, wide, 3.0, 1.0]);
    first.table("positions", longest as f64, wide, source);
    encoder.encode(&mut first, [source, batch], 1.0);
    decoder.keys_of_source(&mut first, source * batch);
    second.table("embedding", vocabulary as f64, wide, batch);
    second.table("positions", keys.number("max_target_positions")? as f64, wide, 1.0);
    decoder.decode(&mut second, [past, source, batch], 1.0);
    logits(&mut second, batch, width, vocabulary, true);
    let layers = (encoder.layers + decoder.layers) as u64;
    Ok((Sizes { layers, width, vocabulary, idle: 0.0 }, vec![first, second]))
}
