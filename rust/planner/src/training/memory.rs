//! Memory of a rank in training, by class.

use serde::Serialize;

use super::layout::TrainingLayout;
use super::recipe::{Recipe, Recompute};
use crate::constants::Constants;
use crate::dtype::{DataType, TensorPrecision};
use crate::hardware::{Chip, Rank};
use crate::memory::{Category, Footprint, add_runtime, weight_bytes};
use crate::shapes::{Attention, Model};
use crate::tensor_class::TensorClass;
use trn3_system::Result;

/// Bytes that one token of one layer leaves for the backward pass on one rank, in BF16, without dropout.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Activations {
    /// Inputs of norms and of the two blocks: split over `tp` with sequence parallelism alone.
    pub shared: f64,
    /// What lies inside of the blocks: always split over `tp`.
    pub inside: f64,
    /// Scores of attention after the softmax, for one query.
    pub scores: f64,
    /// The input of the layer: what full recomputation keeps.
    pub input: f64,
}

impl Activations {
    /// What is kept of a token.
    pub fn kept(&self, recompute: Recompute) -> f64 {
        match recompute {
            Recompute::None => self.shared + self.inside + self.scores,
            Recompute::Selective => self.shared + self.inside,
            Recompute::Full => self.input,
        }
    }
}

/// Activations of a layer for each of a rank's tokens.
pub fn activations(model: &Model, recipe: &Recipe, layout: &TrainingLayout) -> Activations {
    let element = DataType::Bf16.bytes();
    let width = model.width as f64;
    let tp = layout.tp as f64;
    let spread = if layout.sequence_parallel { tp } else { 1.0 };
    let attention = match model.attention {
        Attention::Grouped { heads, kv_heads, head_width, .. } => {
            // Queries, keys, values, and what enters the projection back.
            (2.0 * heads as f64 / tp + 2.0 * (kv_heads as f64 / tp).max(1.0)) * head_width as f64
        }
        Attention::Latent { heads, query_rank, kv_rank, nope, rope, value } => {
            let heads = heads as f64 / tp;
            heads * (2 * (nope + rope) + 2 * value) as f64 + (query_rank.unwrap_or(0) + kv_rank + rope) as f64
        }
    };
    let layers = model.layers as f64;
    let block = |inputs: u64, columns: f64| (inputs as f64 + 1.0) * columns;
    let dense = block(model.feed_forward.inputs(), model.feed_forward.width as f64 / tp);
    let sparse = model.experts.as_ref().map_or(0.0, |experts| {
        // Tokens are copied to their experts; on average each rank of the group gets as many as it gives.
        let copies = experts.active as f64 / tp;
        let shared = experts.shared.map_or(0.0, |shared| block(shared.inputs(), shared.width as f64 / tp));
        copies * (2.0 * width + block(experts.block.inputs(), experts.block.width as f64)) + shared
    });
    let sparse_layers = model.experts.as_ref().map_or(0.0, |experts| experts.layers as f64);
    let blocks = (dense * (layers - sparse_layers) + sparse * sparse_layers) / layers;
    // A window holds back the keys that its layers see.
    let seen = model.kv_tokens(recipe.sequence as f64) / layers;
    Activations {
        shared: 4.0 * width * element / spread,
        inside: (attention + blocks) * element,
        scores: model.attention.heads() as f64 / tp * seen * element,
        input: width * element / spread,
    }
}

/// Weights of a rank that are multiplied in a narrower format than they are kept in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct NarrowCopies {
    /// How many.
    elements: f64,
    /// Bytes of their copies.
    pub bytes: f64,
}

impl NarrowCopies {
    /// Bytes read and written to make them, once a step.
    pub(super) fn cast_bytes(&self) -> f64 {
        self.elements * DataType::Bf16.bytes() + self.bytes
    }
}

/// The narrow copies of a rank's weights: one for the product forward and one, transposed, for that of the input's
/// gradient, as blocks of a format run along what is summed over.
pub(super) fn narrow_copies(model: &Model, recipe: &Recipe, layout: &TrainingLayout) -> NarrowCopies {
    let wide = TensorPrecision::uniform(DataType::Bf16);
    let split = layout.split();
    let all = weight_bytes(model, &wide, &split);
    let mut copies = NarrowCopies::default();
    for class in recipe.narrow_classes(model) {
        let mut one = wide.clone();
        one.set(class, DataType::Fp8);
        let saved = DataType::Bf16.bytes() - DataType::Fp8.bytes();
        let elements = (all - weight_bytes(model, &one, &split)) / saved;
        copies.elements += elements;
        copies.bytes += 2.0 * elements * recipe.precision.of(class).bytes();
    }
    copies
}

/// Bytes of one rank of the fullest stage.
///
/// # Errors
/// None in practice: the constants are part of the crate.
pub fn footprint(
    model: &Model,
    recipe: &Recipe,
    layout: &TrainingLayout,
    chip: &Chip,
    rank: &Rank,
) -> Result<Footprint> {
    let constants = Constants::load()?;
    let split = layout.split();
    let stored = DataType::Bf16.bytes();
    let elements = weight_bytes(model, &TensorPrecision::uniform(DataType::Bf16), &split) / stored;
    let expert_elements = model.parameters().of(TensorClass::Experts) as f64 / (split.stage() * split.pp) as f64;
    let others = elements - expert_elements;
    let share = |stage: u8| {
        if layout.zero < stage {
            elements
        } else {
            others / layout.data_ranks() as f64 + expert_elements / layout.expert_data_ranks() as f64
        }
    };
    let mut footprint = Footprint::empty();
    let copies = narrow_copies(model, recipe, layout).bytes;
    footprint.add(Category::Tensors, share(3) * (stored + copies / elements));
    footprint.add(Category::Gradients, share(2) * recipe.moments.gradient_bytes());
    footprint.add(Category::Optimizer, share(1) * recipe.moments.state_bytes());
    let layers = model.layers as f64 / layout.pp as f64;
    if layout.zero == 3 && layout.data_ranks() > 1 {
        // Weights of the layer at work and of the next one are gathered.
        footprint.add(Category::Scratchpad, 2.0 * (elements * stored + copies) / layers);
    }
    let tokens = layout.micro_batch as f64 * recipe.sequence as f64 / layout.cp as f64;
    let kinds = activations(model, recipe, layout);
    let (stages, parts) = (layout.pp as f64, layout.interleave as f64);
    let flying = if layout.pp == 1 {
        1.0
    } else {
        // The first stage starts a micro-batch for every stage behind it before the first one comes back.
        let first = if parts > 1.0 { stages * (1.0 + (stages - 1.0) / (stages * parts)) } else { stages };
        first.min(layout.micro_batches(recipe) as f64)
    };
    let kept = kinds.kept(layout.recompute);
    let work = match layout.recompute {
        Recompute::None => 0.0,
        // One layer at a time has what is computed again.
        Recompute::Selective => kinds.scores,
        Recompute::Full => kinds.kept(Recompute::None) - kinds.input,
    };
    let logits = tokens * model.vocabulary as f64 / layout.tp as f64 * DataType::Fp32.bytes();
    let first = flying * layers * kept * tokens;
    let last = layers * kept * tokens + logits;
    let held = if layout.pp == 1 { last } else { first.max(last) };
    footprint.add(Category::Activations, held + work * tokens);
    add_runtime(&mut footprint, chip, rank, layout.ranks() > 1, false, &constants);
    Ok(footprint)
}
