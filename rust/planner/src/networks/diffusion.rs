//! Denoisers of images: diffusion transformers (DiT, Flux) and the U-Net of Stable Diffusion XL. One pass is one step.

use serde_json::Value;

use super::forward::{Forward, Heads};
use super::{Given, Sizes};
use crate::dtype::TensorPrecision;
use crate::keys::Keys;
use trn3_system::{Error, Result};

/// Tokens of a text prompt if none are given: what Flux and Stable Diffusion pad theirs to **(choice)**.
const FLUX_TEXT: u64 = 512;
const UNET_TEXT: u64 = 77;

/// Elements of a sinusoid of the time that Flux and DiT begin with.
const TIME_WIDTH: f64 = 256.0;

type Built<'a> = Result<(Sizes, Vec<Forward<'a>>)>;

/// Pixels of an image's side for each element of its latent's.
const LATENT: u64 = 8;

fn latent(keys: &Keys<'_>, given: &Given, made_for: u64) -> Result<u64> {
    match given.image {
        None => Ok(made_for),
        Some(pixels) if pixels >= 2 * LATENT && pixels.is_multiple_of(2 * LATENT) => Ok(pixels / LATENT),
        Some(pixels) => {
            Err(Error::Value(format!("image is {pixels} pixels; {} needs a multiple of {}", keys.name, 2 * LATENT)))
        }
    }
}

fn step<'a>(given: &Given, precision: &'a TensorPrecision) -> Forward<'a> {
    Forward::new("denoising step", "steps", given.batch as f64, precision)
}

/// DiT: the time and the class modulate every layer.
pub(super) fn dit<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let [layers, heads, head, patch, made_for, channels] =
        ["num_layers", "num_attention_heads", "attention_head_dim", "patch_size", "sample_size", "in_channels"]
            .map(|key| keys.number(key));
    let (layers, heads, head, patch) = (layers?, heads?, head?, patch?);
    let (width, batch) = ((heads * head) as f64, given.batch as f64);
    let channels = channels? as f64;
    let outputs = keys.maybe("out_channels")?.unwrap_or(2 * channels as u64) as f64;
    let classes = keys.maybe("num_embeds_ada_norm")?.unwrap_or(1000) as f64;
    let side = (latent(keys, given, made_for?)? / patch) as f64;
    let (tokens, count, area) = (side * side, layers as f64, (patch * patch) as f64);
    let rows = tokens * batch;
    let mut pass = step(given, precision);
    pass.convolution("patches", 1.0, rows, [channels, width, area, 1.0]);
    pass.linear("time_in", 1.0, [batch, TIME_WIDTH, width], true);
    pass.linear("time_out", 1.0, [batch, width, width], true);
    // One class more stands for none.
    pass.table("classes", classes + 1.0, width, batch);
    pass.linear("modulation", count, [batch, width, 6.0 * width], true);
    pass.linear("qkv", count, [rows, width, 3.0 * width], true);
    pass.attention("attention", count, Heads::plain(heads as f64, head as f64), rows, [tokens, tokens, batch]);
    pass.linear("attention_out", count, [rows, width, width], true);
    pass.linear("mlp_in", count, [rows, width, 4.0 * width], true);
    pass.linear("mlp_out", count, [rows, 4.0 * width, width], true);
    pass.norm("norms", 2.0 * count + 1.0, rows, width, 0.0);
    pass.linear("last_modulation", 1.0, [batch, width, 2.0 * width], true);
    pass.linear("unpatch", 1.0, [rows, width, area * outputs], true);
    Ok((Sizes { layers, width: width as u64, vocabulary: 0, idle: 0.0 }, vec![pass]))
}

/// Flux: layers with weights for texts and images apart, then layers that share them and do all in parallel.
pub(super) fn flux<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let [double, single, heads, head, joint, pooled, channels] = [
        "num_layers",
        "num_single_layers",
        "num_attention_heads",
        "attention_head_dim",
        "joint_attention_dim",
        "pooled_projection_dim",
        "in_channels",
    ]
    .map(|key| keys.number(key));
    let (double, single, heads, head) = (double?, single?, heads?, head?);
    let (joint, pooled, channels) = (joint? as f64, pooled? as f64, channels? as f64);
    let (width, batch) = ((heads * head) as f64, given.batch as f64);
    // Two by two elements of the latent make a token.
    let side = (latent(keys, given, 128)? / 2) as f64;
    let (image, text) = (side * side, given.input.unwrap_or(FLUX_TEXT) as f64);
    let (tokens, apart, together) = (image + text, double as f64, single as f64);
    let rows = tokens * batch;
    let heads = Heads::plain(heads as f64, head as f64);
    let mut pass = step(given, precision);
    pass.linear("image_in", 1.0, [image * batch, channels, width], true);
    pass.linear("text_in", 1.0, [text * batch, joint, width], true);
    let guided = if keys.flag("guidance_embeds", false)? { 2.0 } else { 1.0 };
    pass.linear("time_in", guided, [batch, TIME_WIDTH, width], true);
    pass.linear("pooled_in", 1.0, [batch, pooled, width], true);
    pass.linear("time_out", guided + 1.0, [batch, width, width], true);
    pass.linear("modulation", 2.0 * apart, [batch, width, 6.0 * width], true);
    for (names, stream) in [
        (["image_qkv", "image_attention_out", "image_mlp_in", "image_mlp_out"], image * batch),
        (["text_qkv", "text_attention_out", "text_mlp_in", "text_mlp_out"], text * batch),
    ] {
        pass.linear(names[0], apart, [stream, width, 3.0 * width], true);
        pass.linear(names[1], apart, [stream, width, width], true);
        pass.linear(names[2], apart, [stream, width, 4.0 * width], true);
        pass.linear(names[3], apart, [stream, 4.0 * width, width], true);
    }
    pass.attention("joint_attention", apart, heads, rows, [tokens, tokens, batch]);
    pass.norm("norms", 2.0 * apart, rows, width, 0.0);
    // Queries and keys are normed head by head, of texts and images apart.
    pass.hold(apart * 4.0 * head as f64);
    pass.linear("single_modulation", together, [batch, width, 3.0 * width], true);
    pass.linear("single_in", together, [rows, width, 7.0 * width], true);
    pass.attention("single_attention", together, heads, rows, [tokens, tokens, batch]);
    pass.linear("single_out", together, [rows, 5.0 * width, width], true);
    pass.norm("single_norms", together, rows, width, 0.0);
    pass.hold(together * 2.0 * head as f64);
    pass.linear("last_modulation", 1.0, [batch, width, 2.0 * width], true);
    pass.linear("image_out", 1.0, [image * batch, width, channels], true);
    Ok((Sizes { layers: double + single, width: width as u64, vocabulary: 0, idle: 0.0 }, vec![pass]))
}

/// The parts of a U-Net that are alike at every resolution.
struct Blocks<'p, 'a> {
    pass: &'p mut Forward<'a>,
    batch: f64,
    /// Width of the embedding of the time.
    time: f64,
    /// Tokens and width of the text.
    text: [f64; 2],
    head: f64,
}

impl Blocks<'_, '_> {
    /// Two convolutions of three by three, with the time in between, beside a residual.
    fn residual(&mut self, names: [&'static str; 3], side: f64, [inputs, outputs]: [f64; 2]) {
        let positions = side * side * self.batch;
        self.pass.norm("group_norms", 1.0, positions, inputs, 2.0);
        self.pass.convolution(names[0], 1.0, positions, [inputs, outputs, 9.0, 1.0]);
        self.pass.linear("time_projections", 1.0, [self.batch, self.time, outputs], true);
        self.pass.norm("group_norms", 1.0, positions, outputs, 2.0);
        self.pass.convolution(names[1], 1.0, positions, [outputs, outputs, 9.0, 1.0]);
        if inputs != outputs {
            self.pass.convolution(names[2], 1.0, positions, [inputs, outputs, 1.0, 1.0]);
        }
    }

    /// Layers of attention to the image and to the text.
    fn transformer(&mut self, side: f64, width: f64, layers: f64) {
        let (tokens, batch) = (side * side, self.batch);
        let (rows, [text, from]) = (tokens * batch, self.text);
        let heads = Heads::plain(width / self.head, self.head);
        let pass = &mut *self.pass;
        pass.norm("group_norms", 1.0, rows, width, 2.0);
        pass.linear("transformer_ends", 2.0, [rows, width, width], true);
        pass.linear("qkv", layers, [rows, width, 3.0 * width], false);
        pass.attention("attention", layers, heads, rows, [tokens, tokens, batch]);
        pass.linear("attention_out", layers, [rows, width, width], true);
        pass.linear("cross_q", layers, [rows, width, width], false);
        pass.linear("cross_kv", layers, [text * batch, from, 2.0 * width], false);
        pass.attention("cross_attention", layers, heads, rows, [text, text, batch]);
        pass.linear("cross_out", layers, [rows, width, width], true);
        pass.linear("mlp_in", layers, [rows, width, 8.0 * width], true);
        pass.linear("mlp_out", layers, [rows, 4.0 * width, width], true);
        pass.norm("norms", 3.0 * layers, rows, width, 2.0);
    }

    fn resample(&mut self, name: &'static str, side: f64, width: f64) {
        self.pass.convolution(name, 1.0, side * side * self.batch, [width, width, 9.0, 1.0]);
    }
}

/// The U-Net of Stable Diffusion XL: residual blocks and transformers at three resolutions, down and up again.
pub(super) fn unet<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let list = |key: &str| -> Result<Vec<f64>> {
        match keys.get(key) {
            Some(Value::Array(all)) if (1..=8).contains(&all.len()) => all
                .iter()
                .map(|one| match one.as_u64() {
                    Some(number @ 0..=65_536) => Ok(number as f64),
                    _ => Err(keys.wrong(key, one, "whole numbers up to 65536")),
                })
                .collect(),
            Some(other) => Err(keys.wrong(key, other, "a list of one to eight whole numbers")),
            None => Err(Error::Spec(format!("{}: key {key:?} is missing, which a U-Net needs", keys.name))),
        }
    };
    let (widths, depths) = (list("block_out_channels")?, list("transformer_layers_per_block")?);
    if widths.len() != depths.len() || widths.contains(&0.0) {
        return Err(Error::Spec(format!(
            "{}: block_out_channels and transformer_layers_per_block need as many entries, the first above 0",
            keys.name
        )));
    }
    // The key of the published configurations counts heads of the first resolution; their width is the same everywhere.
    let heads = list("attention_head_dim")?.first().copied().unwrap_or(1.0).max(1.0);
    let [channels, per_block, text_width, made_for] =
        ["in_channels", "layers_per_block", "cross_attention_dim", "sample_size"].map(|key| keys.number(key));
    let (channels, per_block) = (channels? as f64, per_block?);
    let added = keys.maybe("projection_class_embeddings_input_dim")?;
    let latent = latent(keys, given, made_for?)?;
    let attending = |level: usize| {
        keys.get("down_block_types")
            .and_then(|all| all.get(level))
            .is_none_or(|kind| kind.as_str().is_some_and(|kind| kind.contains("CrossAttn")))
    };
    let (levels, batch) = (widths.len(), given.batch as f64);
    let side = |level: usize| (latent >> level) as f64;
    let (first, last) = (widths[0], widths[levels - 1]);
    let time = 4.0 * first;
    let mut pass = step(given, precision);
    pass.convolution("conv_in", 1.0, side(0) * side(0) * batch, [channels, first, 9.0, 1.0]);
    pass.linear("time_in", 1.0, [batch, first, time], true);
    pass.linear("time_out", 1.0, [batch, time, time], true);
    if let Some(added) = added {
        pass.linear("sizes_in", 1.0, [batch, added as f64, time], true);
        pass.linear("sizes_out", 1.0, [batch, time, time], true);
    }
    let text = [given.input.unwrap_or(UNET_TEXT) as f64, text_width? as f64];
    let mut blocks = Blocks { pass: &mut pass, batch, time, text, head: first / heads };
    let mut skips = vec![first];
    let mut width = first;
    let down = ["down_conv1", "down_conv2", "down_shortcut"];
    for level in 0..levels {
        for _ in 0..per_block {
            blocks.residual(down, side(level), [width, widths[level]]);
            width = widths[level];
            if attending(level) {
                blocks.transformer(side(level), width, depths[level]);
            }
            skips.push(width);
        }
        if level + 1 < levels {
            blocks.resample("downsample", side(level + 1), width);
            skips.push(width);
        }
    }
    blocks.residual(["middle_conv1", "middle_conv2", "middle_shortcut"], side(levels - 1), [last, last]);
    blocks.transformer(side(levels - 1), last, depths[levels - 1]);
    blocks.residual(["middle_conv1", "middle_conv2", "middle_shortcut"], side(levels - 1), [last, last]);
    let up = ["up_conv1", "up_conv2", "up_shortcut"];
    for level in (0..levels).rev() {
        for _ in 0..=per_block {
            let skip = skips.pop().unwrap_or(first);
            blocks.residual(up, side(level), [width + skip, widths[level]]);
            width = widths[level];
            if attending(level) {
                blocks.transformer(side(level), width, depths[level]);
            }
        }
        if level > 0 {
            blocks.resample("upsample", side(level - 1), width);
        }
    }
    pass.norm("group_norms", 1.0, side(0) * side(0) * batch, first, 2.0);
    pass.convolution("conv_out", 1.0, side(0) * side(0) * batch, [first, channels, 9.0, 1.0]);
    let layers = (levels as u64) * (2 * per_block + 1) + 2;
    Ok((Sizes { layers, width: last as u64, vocabulary: 0, idle: 0.0 }, vec![pass]))
}
