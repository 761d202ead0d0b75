//! Arithmetic and traffic of one micro-batch on one rank.

use super::layout::TrainingLayout;
use super::recipe::{Recipe, Recompute, TrainingSettings};
use crate::constants::Constants;
use crate::dtype::DataType;
use crate::hardware::Rank;
use crate::operations::operations_with;
use crate::roofline::{Efficiency, Kind, LayerOperation, TokenStep};
use crate::shapes::Model;
use crate::tensor_class::TensorClass;

/// Operations of one micro-batch on one rank.
pub(super) struct Compute {
    /// Seconds of the forward pass.
    pub forward: f64,
    /// Of the backward pass.
    pub backward: f64,
    /// Of what is computed again.
    pub again: f64,
    /// Of all of them, the share of arithmetic.
    pub arithmetic_share: f64,
    /// Operations by format.
    pub flops: [f64; DataType::ALL.len()],
    /// Bytes to and from memory.
    pub bytes: f64,
}

/// What attention that is not fused adds to an operation.
#[derive(Default)]
struct Unfused {
    /// Bytes of one pass over the scores.
    pass: f64,
    /// Operations on scores that the mask hides, which no kernel leaves out.
    masked: f64,
}

impl Unfused {
    fn of(operation: &LayerOperation, recipe: &Recipe, settings: &TrainingSettings) -> Self {
        if operation.kind != Kind::Attention || settings.fuses_attention(recipe.sequence) {
            return Self::default();
        }
        let scores = operation.groups * operation.m * operation.n;
        let masked = (4.0 * scores * operation.k - operation.flops).max(0.0);
        Self { pass: operation.count * scores * DataType::Fp32.bytes(), masked: operation.count * masked }
    }
}

impl Compute {
    pub(super) fn of_micro_batch(
        model: &Model,
        rank: &Rank,
        recipe: &Recipe,
        layout: &TrainingLayout,
        settings: &TrainingSettings,
    ) -> Self {
        let sequences = (layout.micro_batch * layout.expert_replicas()) as f64;
        let step = TokenStep::training(sequences, recipe.sequence as f64);
        let passes = Constants::load().map_or(Efficiency::PEAK.norm_passes, |constants| constants.norm_passes);
        let efficiency = Efficiency { half_rate_width: 0.0, norm_passes: passes };
        let operations = operations_with(model, &recipe.precision, &layout.split(), step, &efficiency);
        let mut this = Self {
            forward: 0.0,
            backward: 0.0,
            again: 0.0,
            arithmetic_share: 0.0,
            flops: [0.0; DataType::ALL.len()],
            bytes: 0.0,
        };
        let mut arithmetic = 0.0;
        for operation in &operations {
            // Nothing is sampled in training; gradients of logits come with the projection's own.
            if operation.kind == Kind::Sample {
                continue;
            }
            let split_rows = layout.sequence_parallel && operation.kind == Kind::Norm;
            let part = if split_rows { 1.0 / layout.tp as f64 } else { 1.0 };
            let unfused = Unfused::of(operation, recipe, settings);
            let timing = rank.time(operation, &efficiency);
            // A block without scores has no operations to scale.
            let all_pairs = 1.0 + unfused.masked / (operation.count * operation.flops).max(f64::MIN_POSITIVE);
            let array = timing.compute * all_pairs * part / settings.achieved_fraction;
            let forward = array + timing.memory * part;
            let repeats = match layout.recompute {
                Recompute::None => 0.0,
                Recompute::Selective => f64::from(operation.kind == Kind::Attention),
                // Tables at both ends are outside of layers.
                Recompute::Full => {
                    f64::from(!matches!(operation.class, TensorClass::Embedding | TensorClass::Unembedding))
                }
            };
            let times = 1.0 + settings.backward + repeats;
            let [first, back, repeated] = settings.score_passes.map(|passes| passes * unfused.pass);
            let spilled = [first, back, repeats * repeated];
            this.forward += forward + spilled[0] / rank.memory_rate;
            this.backward += settings.backward * forward + spilled[1] / rank.memory_rate;
            this.again += repeats * forward + spilled[2] / rank.memory_rate;
            arithmetic += array * times;
            this.flops[operation.dtype.index()] += (operation.count * operation.flops + unfused.masked) * part * times;
            this.bytes += operation.count * operation.bytes() * part * times + spilled.iter().sum::<f64>();
        }
        this.arithmetic_share = arithmetic / (this.forward + this.backward + this.again);
        this
    }
}
