//! Time of one step: operations of a micro-batch, collectives of each class, bubble, optimizer.

use super::compute::Compute;
use super::exchange::{Exposed, Sum, data_collectives, message, micro_batch_collectives};
use super::layout::TrainingLayout;
use super::memory::narrow_copies;
use super::recipe::{Recipe, TrainingSettings};
use crate::communication::Communication;
use crate::dtype::{DataType, TensorPrecision};
use crate::hardware::Rank;
use crate::memory::weight_bytes;
use crate::shapes::Model;

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
    pub flops: [f64; DataType::ALL.len()],
    /// Bytes that one rank moves to and from memory.
    pub hbm_bytes: f64,
    /// Bytes that a chip sends.
    pub link_bytes: f64,
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
    let data = data_collectives(model, recipe, layout, communication, settings);

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
    let (data_bytes, data) = data.expose(micro_batches, &compute, settings.dp_overlap);
    let (pipeline_bytes, pipeline) = (pipeline.bytes, pipeline.hide(pipeline_hidden));
    let link_bytes = tensor_bytes + context_bytes + expert_bytes + data_bytes + pipeline_bytes;
    let all: f64 = [&tensor, &context, &experts, &pipeline, &data].iter().map(|part| part.total).sum();
    let shown: f64 = [&tensor, &context, &experts, &pipeline, &data].iter().map(|part| part.exposed).sum();
    // Every byte of a collective is read from memory at one end and written at the other.
    let collective_traffic = 2.0 * link_bytes / f64::from(rank.per_chip);
    let contention =
        if strict_priority || all <= 0.0 { 0.0 } else { collective_traffic * (1.0 - shown / all) / rank.memory_rate };
    let states = optimizer_bytes(model, recipe, layout) * settings.optimizer_passes
        + narrow_copies(model, recipe, layout).cast_bytes();
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

/// Bytes that the optimizer of one rank reads and writes.
fn optimizer_bytes(model: &Model, recipe: &Recipe, layout: &TrainingLayout) -> f64 {
    let split = layout.split();
    let stored = DataType::Bf16.bytes();
    let elements = weight_bytes(model, &TensorPrecision::uniform(DataType::Bf16), &split) / stored;
    let share = if layout.zero > 0 { elements / layout.data_ranks() as f64 } else { elements };
    share * (2.0 * recipe.moments.state_bytes() + recipe.moments.gradient_bytes() + stored)
}
