//! How a system is served: what its runtime, its kernels and its compiler add to rooflines, generation by generation.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::Serialize;

use super::dtype::DataType;
use super::hardware::{Chip, Rank, serving};
use super::roofline::{Efficiency, Kind, LayerOperation, OperationBound, OperationTiming};
use trn3_facts::{Facts, factor, is_drawing, parameters};
use trn3_system::Result;

/// Figures of a serving stack on one generation of chips; each with its source in `models/serving_NAME.toml` of the facts, or
/// in `models/serving.toml`, which all that run on Neuron share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServingRecipe {
    /// Its name: `trainium1`, `trainium2`, `trainium3`, `gpu`; `floor` where nothing is known of a system.
    pub name: String,
    /// What its figures rest on, for readers.
    pub basis: String,
    /// Seconds of a layer of decoding beside its operations and collectives.
    pub layer_overhead: f64,
    /// The least and the most that the same layer may take.
    pub layer_overhead_range: [f64; 2],
    /// Seconds of a layer of a prompt beside them.
    pub prompt_layer_overhead: f64,
    /// Seconds before a prompt's first operation: host, queue and launch.
    pub request_start: f64,
    /// Seconds to start a guess that is a program of its own.
    pub guess_start: f64,
    /// Width of a rank's shard of the feed-forward block at which products run at half of their rate.
    pub half_rate_width: f64,
    /// Share of the array's peak that the widest products reach.
    pub product_share: f64,
    /// Share of the rate of dense products that those of experts reach.
    pub expert_share: f64,
    /// Share of the array's peak that attention of a prompt reaches.
    pub attention_share: f64,
    /// Seconds of a score of a prompt on one physical core, where scores are no part of one fused kernel.
    pub score_time: f64,
    /// Share of the rate of memory at which weights and activations stream.
    pub stream_share: f64,
    /// Share of the rate of memory at which keys and values are read.
    pub kv_share: f64,
    /// Whether streams reach the memory's peak, whatever single DMA engines move.
    pub streams_at_peak: bool,
    /// Passes of activations for the norms of a layer.
    pub norm_passes: f64,
    /// Whether the norms of a prompt are shared out over its ranks.
    pub norms_shared: bool,
    /// The shortest compiled prompt, in tokens; one where prompts run as they are.
    pub least_bucket: u64,
    /// Tokens from one compiled prompt to the next, beyond twice as many.
    pub bucket_step: u64,
    /// Tokens of a block of one expert in a prompt: a block is computed whole; none where experts take their tokens alone.
    pub expert_block: f64,
    /// Whether keys and values are kept in the narrow format of the weights.
    pub kv_as_weights: bool,
}

impl ServingRecipe {
    /// The recipe of a chip, read once unless its constants are being drawn.
    ///
    /// ```
    /// use trn3_planner::{Chip, ServingRecipe};
    ///
    /// let recipe = ServingRecipe::of(&Chip::built_in("trainium2").unwrap()).unwrap();
    /// assert_eq!((recipe.bucket(100), recipe.bucket(129), recipe.bucket(10_000)), (128, 256, 12_288));
    /// assert_eq!(ServingRecipe::of(&Chip::built_in("tpu_v7").unwrap()).unwrap().layer_overhead, 0.0);
    /// ```
    ///
    /// # Errors
    /// [`trn3_system::Error::Unknown`] if a chip names a recipe that there is not.
    pub fn of(chip: &Chip) -> Result<Self> {
        static READ: Mutex<BTreeMap<String, ServingRecipe>> = Mutex::new(BTreeMap::new());
        let Some(name) = &chip.recipe else { return Self::floor(chip) };
        if is_drawing() {
            return Self::read(name);
        }
        let mut known = READ.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(recipe) = known.get(name) {
            return Ok(recipe.clone());
        }
        let recipe = Self::read(name)?;
        known.insert(name.clone(), recipe.clone());
        Ok(recipe)
    }

    fn read(name: &str) -> Result<Self> {
        let (own, shared) = (parameters(&format!("serving_{name}"))?, serving()?);
        let of = |key: &str| -> &Facts { if own.quantities.contains_key(key) { &own } else { &shared } };
        let read = |key: &str| of(key).si(key);
        let range = |key: &str| -> Result<[f64; 2]> {
            let figure = of(key).quantity(key)?;
            let (value, unit) = (read(key)?, factor(&figure.unit).unwrap_or(f64::NAN));
            Ok(figure.range().map_or([value, value], |(low, high)| [low * unit, high * unit]))
        };
        let says = |key: &str| read(key).map(|value| value > 0.0);
        Ok(Self {
            name: name.to_owned(),
            basis: own.title.clone(),
            layer_overhead: read("layer_overhead")?,
            layer_overhead_range: range("layer_overhead")?,
            prompt_layer_overhead: read("prompt_layer_overhead")?,
            request_start: read("request_start")?,
            guess_start: read("guess_start")?,
            half_rate_width: read("half_rate_width")?,
            product_share: read("product_share")?,
            expert_share: read("expert_share")?,
            attention_share: read("attention_share")?,
            score_time: read("score_time")?,
            stream_share: read("stream_share")?,
            kv_share: read("kv_share")?,
            streams_at_peak: says("streams_at_peak")?,
            norm_passes: read("norm_passes")?,
            norms_shared: says("norms_shared")?,
            least_bucket: read("least_bucket")? as u64,
            bucket_step: read("bucket_step")? as u64,
            expert_block: read("expert_block")?,
            kv_as_weights: says("kv_as_weights")?,
        })
    }

    /// Peaks of array and memory alone, and no overhead: for systems of which no measurement is known.
    fn floor(chip: &Chip) -> Result<Self> {
        let basis = format!("{}: peak and floor only, as no measured row of it is known", chip.title);
        Ok(Self::bare("floor".to_owned(), basis, serving()?.si("norm_passes")?))
    }

    /// The same without anything that is fitted: peaks, and prompts as long as they are.
    pub(super) fn peak(self) -> Self {
        Self {
            norms_shared: self.norms_shared,
            kv_as_weights: self.kv_as_weights,
            ..Self::bare(self.name, self.basis, self.norm_passes)
        }
    }

    /// A recipe that adds nothing to rooflines.
    fn bare(name: String, basis: String, norm_passes: f64) -> Self {
        Self {
            name,
            basis,
            norm_passes,
            layer_overhead: 0.0,
            layer_overhead_range: [0.0, 0.0],
            prompt_layer_overhead: 0.0,
            request_start: 0.0,
            guess_start: 0.0,
            half_rate_width: 0.0,
            product_share: 1.0,
            expert_share: 1.0,
            attention_share: 1.0,
            score_time: 0.0,
            stream_share: 1.0,
            kv_share: 1.0,
            streams_at_peak: false,
            norms_shared: false,
            least_bucket: 1,
            bucket_step: 1,
            expert_block: 0.0,
            kv_as_weights: false,
        }
    }

    /// Tokens that a prompt takes: those of the shortest compiled one that holds it.
    pub fn bucket(&self, tokens: u64) -> u64 {
        if self.least_bucket <= 1 {
            return tokens;
        }
        let power = tokens.next_power_of_two().max(self.least_bucket);
        if power <= 2 * self.bucket_step { power } else { tokens.next_multiple_of(self.bucket_step) }
    }

    /// The part of it that lists of operations depend on.
    pub(super) fn efficiency(&self) -> Efficiency {
        Efficiency { half_rate_width: self.half_rate_width, norm_passes: self.norm_passes }
    }

    /// How long an operation takes on a logical core: its arithmetic or its traffic, and scores that no kernel fuses.
    pub fn time(&self, rank: &Rank, operation: &LayerOperation) -> OperationTiming {
        let peak = rank.peaks[operation.dtype.index()].or(rank.peaks[DataType::Bf16.index()]).unwrap_or(f64::NAN);
        let share = match operation.kind {
            Kind::Attention if operation.scores > 0.0 => self.attention_share,
            Kind::Attention => self.product_share,
            Kind::GroupedMatmul => self.product_share * self.expert_share * self.efficiency().of_shard(operation.shard),
            _ => self.product_share * self.efficiency().of_shard(operation.shard),
        };
        let scores = operation.count * operation.scores * self.score_time / f64::from(rank.lnc);
        let compute = operation.count * operation.flops / (peak * share) + scores;
        let streamed = (operation.weight_bytes + operation.activation_bytes) / self.stream_share;
        let memory = operation.count * (streamed + operation.kv_bytes / self.kv_share) / rank.memory_rate;
        let bound = if compute > memory { OperationBound::Compute } else { OperationBound::Memory };
        OperationTiming { seconds: compute.max(memory), compute, memory, bound }
    }
}

/// What a plan's time is of: the kind of measurement that tells how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServedPhase {
    /// Time to the first token.
    Prefill,
    /// Time a token.
    Decode,
    /// Time a token with guesses.
    Speculation,
}

/// The class of a plan's time: which stack, which phase, one sequence or several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PlanClass {
    /// Name of the recipe: `trainium1`, `trainium2`, `trainium3`, `gpu`, `floor`.
    pub generation: String,
    /// Which of its times.
    pub phase: ServedPhase,
    /// Whether more than one sequence is decoded at once.
    pub batched: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(chip: &str) -> ServingRecipe {
        ServingRecipe::of(&Chip::built_in(chip).expect("loads")).expect("reads")
    }

    #[test]
    fn test_every_generation_has_a_recipe_and_others_none() {
        for (chip, name) in [
            ("trainium1", "trainium1"),
            ("trainium2", "trainium2"),
            ("trainium3", "trainium3"),
            ("h100", "gpu"),
            ("b200", "gpu"),
            ("tpu_v7", "floor"),
        ] {
            assert_eq!(recipe(chip).name, name, "{chip}");
        }
    }

    #[test]
    fn test_overheads_lie_in_their_ranges() {
        for chip in ["trainium1", "trainium2", "trainium3", "h100"] {
            let ServingRecipe { layer_overhead, layer_overhead_range: [low, high], .. } = recipe(chip);
            assert!(0.0 < low && low <= layer_overhead && layer_overhead <= high, "{chip}");
        }
        // What was fitted to dense models on Trainium2 is none of a GPU's.
        assert!(recipe("h100").layer_overhead < recipe("trainium2").layer_overhead / 2.0);
    }

    #[test]
    fn test_buckets_hold_their_prompts_and_never_shrink() {
        let recipe = recipe("trainium2");
        let mut last = 0;
        for tokens in 1..40_000 {
            let bucket = recipe.bucket(tokens);
            assert!(bucket >= tokens && bucket >= last && bucket <= (2 * tokens).max(128), "{tokens}");
            last = bucket;
        }
    }
}
