//! Collectives of a step: those of each micro-batch, messages between stages, and what replicas exchange.

use super::compute::Compute;
use super::layout::TrainingLayout;
use super::recipe::{Recipe, Recompute, TrainingSettings};
use crate::communication::{Communication, ExchangeCost, Group, StepCollective};
use crate::dtype::{DataType, TensorPrecision};
use crate::memory::weight_bytes;
use crate::shapes::Model;
use crate::tensor_class::TensorClass;

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
pub(super) struct Sum {
    pub seconds: f64,
    pub bytes: f64,
    pub binding: String,
    pub longest: f64,
}

impl Sum {
    pub(super) fn add(&mut self, cost: ExchangeCost, times: f64) {
        let seconds = cost.seconds * times;
        self.seconds += seconds;
        self.bytes += cost.link_bytes * times;
        if seconds > self.longest {
            self.longest = seconds;
            self.binding = cost.binding;
        }
    }

    pub(super) fn hide(self, seconds: f64) -> Exposed {
        Exposed { total: self.seconds, exposed: (self.seconds - seconds).max(0.0), binding: self.binding }
    }
}

/// Collectives of one micro-batch on an average stage: of tensor parallelism, of contexts, of experts.
pub(super) fn micro_batch_collectives(
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
pub(super) fn message(
    model: &Model,
    recipe: &Recipe,
    layout: &TrainingLayout,
    communication: &dyn Communication,
) -> ExchangeCost {
    if layout.pp == 1 {
        return ExchangeCost::nothing();
    }
    let spread = if layout.sequence_parallel { layout.tp as f64 } else { 1.0 };
    let tokens = layout.micro_batch as f64 * recipe.sequence as f64 / layout.cp as f64;
    let bytes = tokens * model.width as f64 * recipe.precision.activations.bytes() / spread;
    let group = Group { ranks: 2, stride: layout.tp * layout.cp * layout.dp };
    communication.cost(StepCollective::Send, group, bytes)
}

/// Collectives of data parallelism.
#[derive(Default)]
pub(super) struct Data {
    /// Of gradients, after the last backward pass of a step.
    reduce: Sum,
    /// Of weights, after the optimizer.
    gather: Sum,
    /// Those of each micro-batch.
    each: Sum,
    /// Of the reduction's time, what its last bucket takes.
    last: f64,
}

impl Data {
    /// What of it shows, with its bytes: a bucket goes while arithmetic fills the ones behind it, so the last one never
    /// hides, and neither do weights that come behind the optimizer.
    pub(super) fn expose(self, micro_batches: f64, compute: &Compute, overlap: f64) -> (f64, Exposed) {
        let Self { reduce, gather, each, last } = self;
        let ready = 1.0 - last;
        let under = |seconds: f64, work: f64| (seconds * ready).min(overlap * work * ready);
        let hidden = under(reduce.seconds, compute.backward)
            + micro_batches * under(each.seconds, compute.forward + compute.backward + compute.again);
        let total = reduce.seconds + gather.seconds + each.seconds * micro_batches;
        let bytes = reduce.bytes + gather.bytes + each.bytes * micro_batches;
        let parts = [(reduce.seconds, reduce.binding), (gather.seconds, gather.binding), (each.seconds, each.binding)];
        let binding = parts.into_iter().max_by(|left, right| left.0.total_cmp(&right.0)).unwrap_or_default().1;
        (bytes, Exposed { total, exposed: total - hidden, binding })
    }
}

pub(super) fn data_collectives(
    model: &Model,
    recipe: &Recipe,
    layout: &TrainingLayout,
    communication: &dyn Communication,
    settings: &TrainingSettings,
) -> Data {
    let mut data = Data::default();
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
        let buckets = (gradients / settings.gradient_bucket).ceil().max(1.0);
        data.last = data.last.max(1.0 / buckets);
        // Each bucket is a collective of its own, with a start of its own.
        let add = |sum: &mut Sum, collective, bytes: f64, times: f64| {
            sum.add(communication.cost(collective, group, bytes / buckets), buckets * times);
        };
        match layout.zero {
            0 => add(&mut data.reduce, StepCollective::AllReduce, gradients, 1.0),
            1 => {
                add(&mut data.reduce, StepCollective::ReduceScatter, gradients, 1.0);
                add(&mut data.gather, StepCollective::AllGather, weights, 1.0);
            }
            2 => {
                add(&mut data.each, StepCollective::ReduceScatter, gradients, 1.0);
                add(&mut data.gather, StepCollective::AllGather, weights, 1.0);
            }
            _ => {
                add(&mut data.each, StepCollective::ReduceScatter, gradients, 1.0);
                add(&mut data.each, StepCollective::AllGather, weights, 2.0);
            }
        }
    }
    data
}
