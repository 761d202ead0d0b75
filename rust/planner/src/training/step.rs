//! Time of one step: operations of a micro-batch, collectives of each class, bubble, optimizer.

use super::layout::TrainingLayout;
use super::recipe::{Recipe, Recompute, TrainingSettings};
use crate::communication::{Communication, ExchangeCost, Group, StepCollective};
use crate::constants::Constants;
use crate::dtype::{DataType, TensorPrecision};
use crate::hardware::Rank;
use crate::memory::weight_bytes;
use crate::roofline::{Efficiency, Kind, TokenStep, operations_with};
use crate::shapes::Model;
use crate::tensor_class::TensorClass;

/// Seconds of the parts of a step, and what one rank does in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// A whole step.
    pub step: f64,
    /// Arithmetic and traffic of forward passes.
    pub forward: f64,
    /// Of backward passes.
    pub backward: f64,
    /// Of what is computed again.
    pub recompute: f64,
    /// Of both passes, the share of arithmetic (the rest is traffic to memory).
    pub arithmetic_share: f64,
    /// Collectives of tensor parallelism that nothing hides.
    pub tensor: Exposed,
    /// Of context parallelism.
    pub context: Exposed,
    /// Of experts.
    pub experts: Exposed,
    /// Messages between stages.
    pub pipeline: Exposed,
    /// Of data parallelism.
    pub data: Exposed,
    /// Stages that wait for others.
    pub bubble: f64,
    /// The optimizer.
    pub optimizer: f64,
    /// What collectives that run under arithmetic take from it.
    pub contention: f64,
    /// Operations of one rank by format, in the order of [`DataType::ALL`].
    pub flops: [f64; 7],
    /// Bytes that one rank moves to and from memory.
    pub hbm_bytes: f64,
    /// Bytes that a chip sends.
    pub link_bytes: f64,
}

/// Time of a class of collectives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposed {
    /// Seconds of a step, hidden ones included.
    pub total: f64,
    /// Seconds that nothing hides.
    pub exposed: f64,
    /// The level of the system that binds.
    pub binding: String,
}

/// Collectives of one class while they are added up.
#[derive(Default)]
struct Sum {
    seconds: f64,
    bytes: f64,
    binding: String,
    longest: f64,
}

impl Sum {
    fn add(&mut self, cost: ExchangeCost, times: f64) {
        let seconds = cost.seconds * times;
        self.seconds += seconds;
        self.bytes += cost.link_bytes * times;
        if seconds > self.longest {
            self.longest = seconds;
            self.binding = cost.binding;
        }
    }

    fn hide(self, seconds: f64) -> Exposed {
        Exposed { total: self.seconds, exposed: (self.seconds - seconds).max(0.0), binding: self.binding }
    }
}

/// The time of one step; the layout must have been checked.
pub fn step(
    model: &Model,
    rank: &Rank,
    recipe: &Recipe,
    layout: &TrainingLayout,
    communication: &dyn Communication,
    settings: &TrainingSettings,
    strict_priority: bool,
) -> Times {
    let micro_batches = layout.micro_batches(recipe) as f64;
    let compute = Compute::of_micro_batch(model, rank, recipe, layout, settings);
    let again = compute.again;
    let (tensor, context, experts) = micro_batch_collectives(model, recipe, layout, communication);
    let message = message(model, recipe, layout, communication);
    let data = data_collectives(model, recipe, layout, communication);

    let hidden = settings.tp_overlap;
    let exposed = |sum: &Sum| sum.seconds * (1.0 - hidden);
    let one = compute.forward + compute.backward + again + exposed(&tensor) + exposed(&context) + exposed(&experts);
    let bubble = (layout.pp - 1) as f64 / layout.interleave as f64 * one;
    // A stage works on other micro-batches while messages travel, except when the pipeline fills and drains.
    let crossings = 2.0 * (layout.pp - 1) as f64;
    let mut pipeline = Sum::default();
    let sent = 2.0 * micro_batches * layout.interleave as f64;
    if layout.pp > 1 {
        pipeline.add(message.clone(), sent);
    }
    let pipeline_hidden = message.seconds * (sent - crossings).max(0.0);
    let whole = |sum: Sum| {
        let total = Sum { seconds: sum.seconds * micro_batches, bytes: sum.bytes * micro_batches, ..sum };
        let hide = total.seconds * hidden;
        (total.bytes, total.hide(hide))
    };
    let (tensor_bytes, tensor) = whole(tensor);
    let (context_bytes, context) = whole(context);
    let (expert_bytes, experts) = whole(experts);
    // What is done once can hide under the last backward pass, what is done for each micro-batch under all of it.
    let once = data.once.seconds.min(settings.dp_overlap * compute.backward);
    let each_hidden = data.each.seconds.min(settings.dp_overlap * (compute.forward + compute.backward + again));
    let data_bytes = data.once.bytes + data.each.bytes * micro_batches;
    let data_total = data.once.seconds + data.each.seconds * micro_batches;
    let data_exposed = data_total - once - each_hidden * micro_batches;
    let data = Exposed {
        total: data_total,
        exposed: data_exposed,
        binding: if data.once.seconds >= data.each.seconds { data.once.binding } else { data.each.binding },
    };
    let (pipeline_bytes, pipeline) = (pipeline.bytes, pipeline.hide(pipeline_hidden));
    let link_bytes = tensor_bytes + context_bytes + expert_bytes + data_bytes + pipeline_bytes;
    let all: f64 = [&tensor, &context, &experts, &pipeline, &data].iter().map(|part| part.total).sum();
    let shown: f64 = [&tensor, &context, &experts, &pipeline, &data].iter().map(|part| part.exposed).sum();
    // Every byte of a collective is read from memory at one end and written at the other.
    let collective_traffic = 2.0 * link_bytes / f64::from(rank.per_chip);
    let contention =
        if strict_priority || all <= 0.0 { 0.0 } else { collective_traffic * (1.0 - shown / all) / rank.memory_rate };
    let states = optimizer_bytes(model, recipe, layout) * settings.optimizer_passes;
    let optimizer = states / rank.memory_rate;
    let (forward, backward) = (compute.forward * micro_batches, compute.backward * micro_batches);
    let recompute = again * micro_batches;
    Times {
        step: forward + backward + recompute + shown + bubble + contention + optimizer,
        forward,
        backward,
        recompute,
        arithmetic_share: compute.arithmetic_share,
        tensor,
        context,
        experts,
        pipeline,
        data,
        bubble,
        optimizer,
        contention,
        flops: compute.flops.map(|flops| flops * micro_batches),
        hbm_bytes: compute.bytes * micro_batches + collective_traffic + states,
        link_bytes,
    }
}

/// Operations of one micro-batch on one rank.
struct Compute {
    forward: f64,
    backward: f64,
    again: f64,
    arithmetic_share: f64,
    flops: [f64; 7],
    bytes: f64,
}

impl Compute {
    fn of_micro_batch(
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
        let mut this =
            Self { forward: 0.0, backward: 0.0, again: 0.0, arithmetic_share: 0.0, flops: [0.0; 7], bytes: 0.0 };
        let mut arithmetic = 0.0;
        for operation in &operations {
            // Nothing is sampled in training; gradients of logits come with the projection's own.
            if operation.kind == Kind::Sample {
                continue;
            }
            let split_rows = layout.sequence_parallel && operation.kind == Kind::Norm;
            let part = if split_rows { 1.0 / layout.tp as f64 } else { 1.0 };
            let timing = rank.time(operation, &efficiency);
            let forward = (timing.compute + timing.memory) * part / settings.achieved_fraction;
            let repeats = match layout.recompute {
                Recompute::None => 0.0,
                Recompute::Selective => f64::from(operation.kind == Kind::Attention),
                // Tables at both ends are outside of layers.
                Recompute::Full => {
                    f64::from(!matches!(operation.class, TensorClass::Embedding | TensorClass::Unembedding))
                }
            };
            this.forward += forward;
            this.backward += settings.backward * forward;
            this.again += repeats * forward;
            let times = 1.0 + settings.backward + repeats;
            arithmetic += timing.compute * part / settings.achieved_fraction * times;
            this.flops[operation.dtype.index()] += operation.count * operation.flops * part * times;
            this.bytes += operation.count * operation.bytes() * part * times;
        }
        this.arithmetic_share = arithmetic / (this.forward + this.backward + this.again);
        this
    }
}

/// Collectives of one micro-batch on an average stage: of tensor parallelism, of contexts, of experts.
fn micro_batch_collectives(
    model: &Model,
    recipe: &Recipe,
    layout: &TrainingLayout,
    communication: &dyn Communication,
) -> (Sum, Sum, Sum) {
    let element = recipe.precision.activations.bytes();
    let tokens = layout.micro_batch as f64 * recipe.sequence as f64 / layout.cp as f64;
    let layers = model.layers as f64 / layout.pp as f64;
    let passes = if layout.recompute == Recompute::Full { 3.0 } else { 2.0 };
    let (mut tensor, mut context, mut experts) = (Sum::default(), Sum::default(), Sum::default());
    if layout.tp > 1 {
        let group = Group { ranks: layout.tp, stride: 1 };
        let bytes = tokens * model.width as f64 * element;
        // Attention and feed-forward block each end in a sum, forward and backward.
        let times = 2.0 * passes * layers;
        if layout.sequence_parallel {
            tensor.add(communication.cost(StepCollective::AllGather, group, bytes), times);
            tensor.add(communication.cost(StepCollective::ReduceScatter, group, bytes), times);
        } else {
            tensor.add(communication.cost(StepCollective::AllReduce, group, bytes), times);
        }
    }
    if layout.cp > 1 {
        let group = Group { ranks: layout.cp, stride: layout.tp };
        let heads = model.attention.kv_heads() as f64;
        let kept = model.attention.kv_elements() as f64 * (heads / layout.tp as f64).max(1.0) / heads;
        let bytes = layout.micro_batch as f64 * recipe.sequence as f64 * kept * element;
        // Keys and values are gathered in every pass over attention; their gradients are summed once.
        let again = if layout.recompute == Recompute::None { 0.0 } else { 1.0 };
        context.add(communication.cost(StepCollective::AllGather, group, bytes), (1.0 + again) * layers);
        context.add(communication.cost(StepCollective::ReduceScatter, group, bytes), layers);
    }
    if let Some(sparse) = &model.experts
        && layout.ep > 1
    {
        let group = Group { ranks: layout.ep, stride: 1 };
        let spread = if layout.sequence_parallel { layout.tp as f64 } else { 1.0 };
        let bytes = tokens / spread * sparse.active as f64 * model.width as f64 * element;
        let times = 2.0 * passes * sparse.layers as f64 / layout.pp as f64;
        experts.add(communication.cost(StepCollective::AllToAll, group, bytes), times);
    }
    (tensor, context, experts)
}

/// One message from a stage to the next.
fn message(model: &Model, recipe: &Recipe, layout: &TrainingLayout, communication: &dyn Communication) -> ExchangeCost {
    if layout.pp == 1 {
        return ExchangeCost::nothing();
    }
    let spread = if layout.sequence_parallel { layout.tp as f64 } else { 1.0 };
    let tokens = layout.micro_batch as f64 * recipe.sequence as f64 / layout.cp as f64;
    let bytes = tokens * model.width as f64 * recipe.precision.activations.bytes() / spread;
    let group = Group { ranks: 2, stride: layout.tp * layout.cp * layout.dp };
    communication.cost(StepCollective::Send, group, bytes)
}

/// Collectives of data parallelism: those of a step and those of each micro-batch.
struct Data {
    once: Sum,
    each: Sum,
}

fn data_collectives(
    model: &Model,
    recipe: &Recipe,
    layout: &TrainingLayout,
    communication: &dyn Communication,
) -> Data {
    let mut data = Data { once: Sum::default(), each: Sum::default() };
    let split = layout.split();
    let stored = DataType::Bf16.bytes();
    let elements = weight_bytes(model, &TensorPrecision::uniform(DataType::Bf16), &split) / stored;
    let of_experts = model.parameters().of(TensorClass::Experts) as f64 / (split.stage() * split.pp) as f64;
    let groups = [
        (elements - of_experts, Group { ranks: layout.data_ranks(), stride: layout.tp }),
        (
            of_experts,
            Group { ranks: layout.expert_data_ranks(), stride: layout.tp * layout.cp * layout.expert_replicas() },
        ),
    ];
    for (elements, group) in groups {
        if group.ranks == 1 || elements <= 0.0 {
            continue;
        }
        let (gradients, weights) = (elements * recipe.moments.gradient_bytes(), elements * stored);
        let cost = |collective, bytes| communication.cost(collective, group, bytes);
        match layout.zero {
            0 => data.once.add(cost(StepCollective::AllReduce, gradients), 1.0),
            1 => {
                data.once.add(cost(StepCollective::ReduceScatter, gradients), 1.0);
                data.once.add(cost(StepCollective::AllGather, weights), 1.0);
            }
            2 => {
                data.each.add(cost(StepCollective::ReduceScatter, gradients), 1.0);
                data.once.add(cost(StepCollective::AllGather, weights), 1.0);
            }
            _ => {
                data.each.add(cost(StepCollective::ReduceScatter, gradients), 1.0);
                data.each.add(cost(StepCollective::AllGather, weights), 2.0);
            }
        }
    }
    data
}

/// Bytes that the optimizer of one rank reads and writes.
fn optimizer_bytes(model: &Model, recipe: &Recipe, layout: &TrainingLayout) -> f64 {
    let split = layout.split();
    let stored = DataType::Bf16.bytes();
    let elements = weight_bytes(model, &TensorPrecision::uniform(DataType::Bf16), &split) / stored;
    let share = if layout.zero > 0 { elements / layout.data_ranks() as f64 } else { elements };
    share * (2.0 * recipe.moments.state_bytes() + recipe.moments.gradient_bytes() + stored)
}
