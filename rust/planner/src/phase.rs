//! One phase of a job on one stage: its operations, collectives and overheads, and what binds it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::communication::{Communication, ExchangeCost, Group, StepCollective};
use super::dtype::{DataType, TensorPrecision};
use super::hardware::{Chip, Rank};
use super::machine_times::MachineTimes;
use super::operations::{operations_of, operations_with};
use super::recipe::ServingRecipe;
use super::roofline::{Efficiency, Kind, LayerOperation, OperationBound, Split, TokenStep};
use super::shapes::Model;

/// A share of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhasePart {
    /// An operation, a collective, or an overhead.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
    /// What it waits for: `TensorEngine`, `HBM`, `DMA engines`, `links: LEVEL`, `layer overhead`, `measured kernels`.
    pub resource: String,
}

/// A collective of a stage, `count` times a step, or a message to the next stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerExchange {
    /// What it is for: `attention all-reduce`, `expert dispatch`, ...
    pub name: &'static str,
    /// How often a step of one stage has it; on average over the stages.
    pub count: f64,
    /// What it does.
    pub collective: StepCollective,
    /// The ranks that take part.
    pub group: Group,
    /// Its size, as [`StepCollective`] counts it.
    pub bytes: f64,
}

/// What one chip does in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Activity {
    /// Operations by format.
    pub flops: BTreeMap<&'static str, f64>,
    /// Bytes read from and written to HBM.
    pub hbm_bytes: f64,
    /// Bytes sent over links.
    pub link_bytes: f64,
    /// How long it takes, seconds.
    pub seconds: f64,
}

/// A phase on one stage of the pipeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServingPhase {
    /// Seconds of one stage.
    pub seconds: f64,
    /// What they are made of, in the order of the model.
    pub parts: Vec<PhasePart>,
    /// Seconds by resource.
    pub by_resource: BTreeMap<String, f64>,
    /// The resource that takes most of the time.
    pub bottleneck: String,
    /// What a chip does meanwhile.
    pub activity: Activity,
}

impl ServingPhase {
    /// Adds a part to the end.
    pub(super) fn add(&mut self, name: &str, seconds: f64, resource: &str) {
        let mut parts = Parts { parts: std::mem::take(&mut self.parts), total: self.seconds };
        parts.push(name, seconds, resource);
        let mut activity = std::mem::take(&mut self.activity);
        activity.seconds = parts.total;
        *self = parts.finish(activity);
    }
}

/// What a phase is computed with; the same for every phase of a plan.
pub(super) struct Costs<'a> {
    pub model: &'a Model,
    pub precision: &'a TensorPrecision,
    pub rank: &'a Rank,
    pub communication: &'a dyn Communication,
    pub recipe: &'a ServingRecipe,
    pub expert_imbalance: f64,
    /// Measured times of one operation, by [`LayerOperation::key`].
    pub kernel_times: &'a BTreeMap<String, f64>,
    /// Times of all other products on the simulated core, if they are asked for.
    pub machine_times: Option<&'a MachineTimes>,
}

/// Which operations of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepPart {
    /// Every one.
    All,
    /// Scores and weighted values, which depend on the context.
    Attention,
    /// All others, with collectives and overheads: they depend on the number of tokens alone.
    Linear,
}

impl StepPart {
    fn has(self, kind: Kind) -> bool {
        match self {
            Self::All => true,
            Self::Attention => kind == Kind::Attention,
            Self::Linear => kind != Kind::Attention,
        }
    }
}

impl Costs<'_> {
    /// The phase of a step: of a prompt where nothing came before its tokens, of decoding else.
    pub(super) fn phase(&self, split: &Split, step: TokenStep) -> ServingPhase {
        let is_prompt = step.past == 0.0;
        let mut phase = self.part_of(split, step, is_prompt, StepPart::All);
        if is_prompt {
            // Once a request, and a stage is one of `pp` alike.
            phase.add("request start", self.recipe.request_start / split.pp as f64, "host");
        }
        phase
    }

    /// A part of a step without the start of a request; of a prompt, or of a piece of one after tokens that are kept, if
    /// `is_prompt`.
    pub(super) fn part_of(&self, split: &Split, step: TokenStep, is_prompt: bool, part: StepPart) -> ServingPhase {
        let mut parts = Parts::default();
        let mut activity = Activity::default();
        let on_chip = f64::from(self.rank.per_chip);
        for operation in operations_of(self.model, self.precision, split, step, self.recipe, is_prompt) {
            if !part.has(operation.kind) {
                continue;
            }
            let (seconds, resource) = self.time(&operation);
            *activity.flops.entry(operation.dtype.name()).or_default() += operation.count * operation.flops * on_chip;
            activity.hbm_bytes += operation.count * operation.bytes() * on_chip;
            parts.push(operation.name, seconds, resource);
        }
        activity.flops.retain(|_, flops| *flops > 0.0);
        if part != StepPart::Attention {
            for (name, count, cost) in self.collectives(split, step) {
                activity.link_bytes += count * cost.link_bytes;
                parts.push(name, count * cost.seconds, &format!("links: {}", cost.binding));
            }
            let layers = self.model.layers as f64 / split.pp as f64;
            let overhead = if is_prompt { self.recipe.prompt_layer_overhead } else { self.recipe.layer_overhead };
            parts.push("layer overhead", layers * overhead, "layer overhead");
        }
        activity.seconds = parts.total;
        parts.finish(activity)
    }

    fn time(&self, operation: &LayerOperation) -> (f64, &'static str) {
        if !self.kernel_times.is_empty()
            && let Some(seconds) = self.kernel_times.get(&operation.key())
        {
            return (operation.count * seconds, "measured kernels");
        }
        if let Some(seconds) = self.machine_times.and_then(|times| times.time(operation)) {
            return (operation.count * seconds, "measured kernels");
        }
        let timing = self.recipe.time(self.rank, operation);
        let slowest = if operation.kind == Kind::GroupedMatmul { self.expert_imbalance } else { 1.0 };
        let memory = if self.rank.memory_rate < self.rank.hbm_rate { "DMA engines" } else { "HBM" };
        (timing.seconds * slowest, if timing.bound == OperationBound::Compute { "TensorEngine" } else { memory })
    }

    /// The collectives of a stage: name, how often, what one costs.
    fn collectives(&self, split: &Split, step: TokenStep) -> Vec<(&'static str, f64, ExchangeCost)> {
        let cost = |one: &LayerExchange| self.communication.cost(one.collective, one.group, one.bytes);
        self.exchanges(split, step).iter().map(|one| (one.name, one.count, cost(one))).collect()
    }

    /// The collectives of a stage, without their costs.
    pub(super) fn exchanges(&self, split: &Split, step: TokenStep) -> Vec<LayerExchange> {
        let Split { tp, cp, dp, ep, pp } = *split;
        let model = self.model;
        let stages = pp as f64;
        let layers = model.layers as f64 / stages;
        let bytes = self.precision.activations.bytes();
        let rows = step.sequences * step.tokens / (dp * cp) as f64;
        let activations = rows * model.width as f64 * bytes;
        let tensor = Group { ranks: tp, stride: 1 };
        let mut all: Vec<LayerExchange> = Vec::with_capacity(8);
        let mut add = |name, count: f64, collective, group: Group, bytes: f64| {
            if count > 0.0 && group.ranks > 1 {
                all.push(LayerExchange { name, count, collective, group, bytes });
            }
        };
        add("embedding all-reduce", 1.0 / stages, StepCollective::AllReduce, tensor, activations);
        if cp > 1 {
            let context = Group { ranks: cp, stride: tp };
            let heads = model.attention.kv_heads_of_rank(tp) as f64 / model.attention.kv_heads() as f64;
            let keys = model.kv_bytes_per_token_per_layer(self.precision.kv) * heads;
            if step.past == 0.0 {
                add("context all-gather", layers, StepCollective::AllGather, context, rows * cp as f64 * keys);
            } else {
                add(
                    "context all-reduce",
                    layers,
                    StepCollective::AllReduce,
                    context,
                    activations * cp as f64 / tp as f64,
                );
            }
        }
        // Blocks side by side are added up in one all-reduce.
        let apart = if model.parallel { 0.0 } else { layers };
        add("attention all-reduce", apart, StepCollective::AllReduce, tensor, activations);
        add("mlp all-reduce", model.dense_layers() as f64 / stages, StepCollective::AllReduce, tensor, activations);
        if let Some(experts) = &model.experts {
            let count = experts.layers as f64 / stages;
            if dp * cp == 1 {
                // Every rank of the stage has every token already: the sum over ranks is all that is left.
                add("experts all-reduce", count, StepCollective::AllReduce, tensor, activations);
            } else {
                let apart = Group { ranks: ep, stride: split.expert_tp() };
                let picked = experts.active as f64;
                add("expert dispatch", count, StepCollective::AllToAll, apart, activations * picked / tp as f64);
                let within = Group { ranks: split.expert_tp(), stride: 1 };
                let received = activations * (dp * cp) as f64 * picked / ep as f64;
                add("expert all-gather", count, StepCollective::AllGather, within, received);
                add("expert reduce-scatter", count, StepCollective::ReduceScatter, within, received);
                add("expert combine", count, StepCollective::AllToAll, apart, activations * picked / tp as f64);
                let shared = experts.shared.is_some();
                let last = if shared { StepCollective::AllReduce } else { StepCollective::AllGather };
                add("experts all-gather", count, last, tensor, activations);
            }
        }
        if pp > 1 {
            let next = Group { ranks: 2, stride: split.stage() };
            add("stage transfer", 1.0, StepCollective::Send, next, activations / tp as f64);
        }
        // The best logit of each rank and its place.
        let picked = step.sequences / dp as f64 * step.logits;
        add("sampling all-gather", 1.0 / stages, StepCollective::AllGather, tensor, picked * 8.0 * tp as f64);
        all
    }
}

#[derive(Default)]
struct Parts {
    parts: Vec<PhasePart>,
    total: f64,
}

impl Parts {
    fn push(&mut self, name: &str, seconds: f64, resource: &str) {
        if seconds > 0.0 {
            self.total += seconds;
            self.parts.push(PhasePart { name: name.to_owned(), seconds, resource: resource.to_owned() });
        }
    }

    fn finish(self, activity: Activity) -> ServingPhase {
        let mut by_resource: BTreeMap<String, f64> = BTreeMap::new();
        for part in &self.parts {
            *by_resource.entry(part.resource.clone()).or_default() += part.seconds;
        }
        let largest = by_resource.iter().max_by(|left, right| left.1.total_cmp(right.1));
        let bottleneck = largest.map_or_else(|| "nothing".to_owned(), |(name, _)| name.clone());
        ServingPhase { seconds: self.total, parts: self.parts, by_resource, bottleneck, activity }
    }
}

/// What a step of decoding must read at least: every matrix once and all keys and values.
///
/// Of experts those that some token picks; routers, norms and biases, under one percent, are left out.
///
/// ```
/// use trn3_planner::{DataType, TensorPrecision, built_in_model, decode_bytes};
///
/// let model = built_in_model("gpt-oss-120b").unwrap();
/// let bytes = decode_bytes(&model, &TensorPrecision::named(DataType::MxFp4, true), 1.0, 10_000.0);
/// assert_eq!(format!("{:.1}", bytes / 1e9), "5.3");
/// ```
pub fn decode_bytes(model: &Model, precision: &TensorPrecision, batch: f64, context: f64) -> f64 {
    let read = |operation: &LayerOperation| match operation.name {
        "router" => 0.0,
        _ => operation.count * operation.weight_bytes,
    };
    let step = TokenStep::decode(batch, context);
    let weights: f64 = operations_with(model, precision, &Split::WHOLE, step, &Efficiency::PEAK).iter().map(read).sum();
    weights + batch * model.kv_bytes(context, precision.kv)
}

/// Formats of weights that a chip does not multiply, replaced by BF16, and a sentence for each.
pub(super) fn supported(precision: &TensorPrecision, chip: &Chip, assumptions: &mut Vec<String>) -> TensorPrecision {
    use super::tensor_class::TensorClass;

    let mut supported = precision.clone();
    let mut replaced: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for class in TensorClass::ALL {
        let dtype = precision.of(class);
        if !chip.supports(dtype.multiplied()) {
            supported.set(class, DataType::Bf16);
            replaced.entry(dtype.name()).or_default().push(class.name());
        }
    }
    let (kept, passed) = (supported.kv.multiplied(), supported.activations);
    for (what, dtype, product) in
        [("keys and values", &mut supported.kv, kept), ("activations", &mut supported.activations, passed)]
    {
        if !chip.supports(product) {
            replaced.entry(dtype.name()).or_default().push(what);
            *dtype = DataType::Bf16;
        }
    }
    for (dtype, classes) in replaced {
        assumptions.push(format!(
            "{} does not multiply {dtype}: {} are stored and multiplied in bf16 there",
            chip.title,
            classes.join(", ")
        ));
    }
    supported
}
