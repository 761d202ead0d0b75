//! Images in patches: ViT, and the pairs of towers for images and texts of CLIP and SigLIP.

use super::forward::{Forward, Heads};
use super::{Given, Sizes};
use crate::dtype::TensorPrecision;
use crate::keys::Keys;
use trn3_system::{Error, Result};

type Built<'a> = Result<(Sizes, Vec<Forward<'a>>)>;

/// The stack of one tower: biases and norms that shift.
struct Tower {
    layers: f64,
    width: f64,
    heads: f64,
    block: f64,
}

impl Tower {
    fn of(keys: &Keys<'_>, prefix: &str) -> Result<Self> {
        let number = |key: &str| keys.number(&format!("{prefix}{key}")).map(|value| value as f64);
        Ok(Self {
            layers: number("num_hidden_layers")?,
            width: number("hidden_size")?,
            heads: number("num_attention_heads")?,
            block: number("intermediate_size")?,
        })
    }

    fn fill(&self, pass: &mut Forward<'_>, [tokens, batch]: [f64; 2], causal: bool, norms_outside: f64) {
        let Self { layers, width, heads, block } = *self;
        let rows = tokens * batch;
        let seen = if causal { (tokens + 1.0) / 2.0 } else { tokens };
        pass.linear("qkv", layers, [rows, width, 3.0 * width], true);
        pass.attention("attention", layers, Heads::plain(heads, width / heads), rows, [seen, tokens, batch]);
        pass.linear("attention_out", layers, [rows, width, width], true);
        pass.linear("mlp_in", layers, [rows, width, block], true);
        pass.linear("mlp_out", layers, [rows, block, width], true);
        pass.norm("norms", 2.0 * layers + norms_outside, rows, width, 2.0);
    }
}

/// Cuts an image into patches: how many, and the sizes that its tables are made for.
fn patches(
    pass: &mut Forward<'_>,
    keys: &Keys<'_>,
    prefix: &str,
    width: f64,
    given: &Given,
    [class_token, bias]: [bool; 2],
) -> Result<f64> {
    let number = |key: &str| keys.number(&format!("{prefix}{key}"));
    let (patch, made_for) = (number("patch_size")?, number("image_size")?);
    let channels = keys.maybe(&format!("{prefix}num_channels"))?.unwrap_or(3) as f64;
    let image = given.image.unwrap_or(made_for);
    if image < patch {
        return Err(Error::Value(format!("an image of {image} pixels; {} needs {patch} at least", keys.name)));
    }
    let side = |image: u64| (image / patch) as f64;
    let extra = f64::from(class_token);
    let batch = given.batch as f64;
    let area = (patch * patch) as f64;
    pass.convolution("patches", 1.0, side(image) * side(image) * batch, [channels, width, area, 1.0]);
    if !bias {
        pass.hold(-width);
    }
    let tokens = side(image) * side(image) + extra;
    pass.table("positions", side(made_for) * side(made_for) + extra, width, tokens);
    pass.hold(extra * width);
    Ok(tokens)
}

/// ViT with its classifier.
pub(super) fn vit<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let tower = Tower::of(keys, "")?;
    let batch = given.batch as f64;
    let mut pass = Forward::new("image", "images", batch, precision);
    let tokens = patches(&mut pass, keys, "", tower.width, given, [true, true])?;
    tower.fill(&mut pass, [tokens, batch], false, 1.0);
    let labels = keys.maybe("num_labels")?.unwrap_or(1000) as f64;
    pass.linear("classifier", 1.0, [batch, tower.width, labels], true);
    let sizes = Sizes { layers: tower.layers as u64, width: tower.width as u64, vocabulary: 0, idle: 0.0 };
    Ok((sizes, vec![pass]))
}

/// CLIP projects the last token of a text and the class token of an image; SigLIP pools images by attention.
pub(super) fn towers<'a>(keys: &Keys<'_>, given: &Given, precision: &'a TensorPrecision) -> Built<'a> {
    let (image, text) = (Tower::of(keys, "vision_config.")?, Tower::of(keys, "text_config.")?);
    let clip = keys.family == "clip";
    let batch = given.batch as f64;
    let mut seen = Forward::new("image", "images", batch, precision);
    let tokens = patches(&mut seen, keys, "vision_config.", image.width, given, [clip, !clip])?;
    image.fill(&mut seen, [tokens, batch], false, if clip { 2.0 } else { 1.0 });
    let mut read = Forward::new("text", "texts", batch, precision);
    let vocabulary = keys.number("text_config.vocab_size")?;
    let positions = keys.number("text_config.max_position_embeddings")?;
    let length = given.input.unwrap_or(positions) as f64;
    if length > positions as f64 {
        return Err(Error::Value(format!("a text of {length} tokens; {} reads {positions} at most", keys.name)));
    }
    read.table("embedding", vocabulary as f64, text.width, length * batch);
    read.table("positions", positions as f64, text.width, length);
    text.fill(&mut read, [length, batch], clip, 1.0);
    if clip {
        let shared = keys.number("projection_dim")? as f64;
        seen.linear("projection", 1.0, [batch, image.width, shared], false);
        read.linear("projection", 1.0, [batch, text.width, shared], false);
        read.hold(1.0);
    } else {
        pool(&mut seen, &image, [tokens, batch]);
        read.linear("projection", 1.0, [batch, text.width, text.width], true);
        read.hold(2.0);
    }
    let sizes = Sizes {
        layers: (image.layers + text.layers) as u64,
        width: image.width.max(text.width) as u64,
        vocabulary,
        idle: 0.0,
    };
    Ok((sizes, vec![seen, read]))
}

/// One learned query attends to all patches; a feed-forward block follows.
fn pool(pass: &mut Forward<'_>, tower: &Tower, [tokens, batch]: [f64; 2]) {
    let Tower { width, heads, block, .. } = *tower;
    pass.hold(width);
    pass.linear("pool_q", 1.0, [batch, width, width], true);
    pass.linear("pool_kv", 1.0, [tokens * batch, width, 2.0 * width], true);
    pass.attention("pool_attention", 1.0, Heads::plain(heads, width / heads), batch, [tokens, tokens, batch]);
    pass.linear("pool_out", 1.0, [batch, width, width], true);
    pass.linear("pool_mlp_in", 1.0, [batch, width, block], true);
    pass.linear("pool_mlp_out", 1.0, [batch, block, width], true);
    pass.norm("pool_norm", 1.0, batch, width, 2.0);
}
