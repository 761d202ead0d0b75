//! Collectives: where the ranks of a graph that runs on several of them meet.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use trn3_machine::dtype::DType;
use trn3_system::collective::{Arithmetic, Operation, Order, Reduction, reduce};

use super::ReduceFunction;
use super::layout::joined;
use crate::error::{GraphError, Reason, Result};
use crate::fits::{check_count, check_same, exactly};
use crate::graph::{Execution, TensorOperation};
use crate::row::{OperationRow, Read, Surroundings, attributes, no_attributes};
use crate::strided::{pick, row_major};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// What the ranks of a group do together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectiveKind {
    /// Every rank gets what all ranks' tensors are joined to.
    AllReduce {
        /// How elements are joined: sum, largest or smallest.
        function: ReduceFunction,
    },
    /// Every rank gets all ranks' tensors, one after another along an axis.
    AllGather {
        /// The axis.
        dimension: usize,
    },
    /// The rank at place i of its group gets part i along an axis of what all ranks' tensors are joined to.
    ReduceScatter {
        /// The axis.
        dimension: usize,
        /// How elements are joined.
        function: ReduceFunction,
    },
    /// The rank at place i gets part i along an axis of every rank, one after another along another axis.
    AllToAll {
        /// The axis that is cut.
        split_dimension: usize,
        /// The axis that the parts follow one another along.
        concat_dimension: usize,
    },
    /// Sources send to targets; who gets nothing has zeros.
    Permute {
        /// Source and target of each message.
        pairs: Vec<(u32, u32)>,
    },
    /// Every rank gets the tensor of the first of its group.
    Broadcast,
}

/// A collective with the groups of ranks that meet in it: each rank of the graph stands in one. What several ranks' elements
/// are joined to is the sum in ascending places of the group, in float32 and rounded once; integers wrap.
#[derive(Clone, Debug)]
pub struct GroupCollective {
    /// What they do.
    pub kind: CollectiveKind,
    /// Ranks of each group, all of one length. Of a permutation: all ranks that send or receive.
    pub groups: Vec<Vec<u64>>,
}

impl GroupCollective {
    /// The group of a rank; None where a permutation leaves it out.
    pub fn group(&self, rank: u32) -> Option<&[u64]> {
        self.groups.iter().find(|group| group.contains(&u64::from(rank))).map(Vec::as_slice)
    }

    /// Ranks of a group.
    pub fn size(&self) -> usize {
        self.groups.first().map_or(1, Vec::len)
    }

    /// Which of the system's collectives it is.
    pub fn operation(&self) -> Operation {
        match self.kind {
            CollectiveKind::AllReduce { .. } => Operation::AllReduce,
            CollectiveKind::AllGather { .. } => Operation::AllGather,
            CollectiveKind::ReduceScatter { .. } => Operation::ReduceScatter,
            CollectiveKind::AllToAll { .. } => Operation::AllToAll,
            CollectiveKind::Permute { .. } => Operation::Permute,
            CollectiveKind::Broadcast => Operation::Broadcast,
        }
    }

    /// Who sends to whom, of a permutation.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        match &self.kind {
            CollectiveKind::Permute { pairs } => pairs.iter().map(|&(from, to)| (from.into(), to.into())).collect(),
            _ => Vec::new(),
        }
    }

    /// What each member of a group takes, by place, of what all bring.
    ///
    /// # Errors
    /// [`GraphError::Argument`] where the system's arithmetic refuses.
    pub(crate) fn exchange(&self, group: &[u64], brought: &[&Tensor], result: &TensorType) -> Result<Vec<Tensor>> {
        let count = brought.len();
        match &self.kind {
            CollectiveKind::AllReduce { function } => Ok(vec![joined_by(*function, brought)?; count]),
            CollectiveKind::ReduceScatter { dimension, function } => {
                let sum = joined_by(*function, brought)?;
                (0..count).map(|place| part(&sum, *dimension, place, count)).collect()
            }
            CollectiveKind::AllGather { dimension } => Ok(vec![joined(brought, *dimension, result)?; count]),
            CollectiveKind::AllToAll { split_dimension, concat_dimension } => {
                let taken = |place| {
                    let parts = brought.iter().map(|tensor| part(tensor, *split_dimension, place, count));
                    let parts = parts.collect::<Result<Vec<Tensor>>>()?;
                    joined(&parts.iter().collect::<Vec<_>>(), *concat_dimension, result)
                };
                (0..count).map(taken).collect()
            }
            CollectiveKind::Broadcast => Ok(vec![brought[0].clone(); count]),
            CollectiveKind::Permute { pairs } => {
                let taken = |rank: &u64| {
                    let source = pairs.iter().find(|(_, target)| u64::from(*target) == *rank).map(|pair| pair.0);
                    let place = source.and_then(|source| group.iter().position(|&rank| rank == u64::from(source)));
                    place.map_or_else(|| zeros(result), |place| Ok(brought[place].clone()))
                };
                group.iter().map(taken).collect()
            }
        }
    }
}

/// Elements of nothing that was sent.
pub(crate) fn zeros(kind: &TensorType) -> Result<Tensor> {
    Tensor::from_bytes(kind.clone(), &vec![0; kind.bytes()])
}

/// What tensors are joined to, by the engine of the system's collectives.
fn joined_by(function: ReduceFunction, tensors: &[&Tensor]) -> Result<Tensor> {
    let kind = tensors[0].kind().clone();
    let refuse = |error: trn3_system::Error| GraphError::Argument(error.to_string());
    // Truth values are bytes, of which the larger one says `or`.
    let element = if kind.is_bool() { DType::UInt8 } else { kind.dtype }.name().parse().map_err(refuse)?;
    let reduction = match function {
        ReduceFunction::Maximum => Reduction::Max,
        ReduceFunction::Minimum => Reduction::Min,
        _ if kind.is_bool() => Reduction::Max,
        _ => Reduction::Add,
    };
    let arithmetic = Arithmetic { reduction, order: Order::Index, ..Arithmetic::new(element) };
    let inputs: Vec<&[u8]> = tensors.iter().map(|tensor| tensor.bytes()).collect();
    let mut sum = vec![0; kind.bytes()];
    reduce(&arithmetic, &inputs, &mut sum).map_err(refuse)?;
    Tensor::from_bytes(kind, &sum)
}

/// One of `count` parts along an axis.
fn part(tensor: &Tensor, dimension: usize, place: usize, count: usize) -> Result<Tensor> {
    let mut shape = tensor.shape().to_vec();
    shape[dimension] /= count;
    let strides = row_major(tensor.shape());
    pick(tensor, &shape, &strides, strides[dimension] * (place * shape[dimension]) as isize)
}

fn check_joins(function: ReduceFunction, kind: &TensorType) -> Reason {
    let is_known = matches!(function, ReduceFunction::Add | ReduceFunction::Maximum | ReduceFunction::Minimum);
    if !is_known {
        return Err(format!("function is {function:?}; allowed between ranks: add, maximum, minimum"));
    }
    if function.takes(kind) { Ok(()) } else { Err(format!("the operand is {kind}, which {function:?} does not join")) }
}

/// The type with an axis as many times as long, or that part of it.
fn scaled(
    name: &str,
    kind: &TensorType,
    axis: usize,
    (times, parts): (usize, usize),
) -> std::result::Result<TensorType, String> {
    let Some(&length) = kind.shape.get(axis) else {
        return Err(format!("{name} is {axis} of {kind}; allowed: one of its axes"));
    };
    if !length.is_multiple_of(parts) {
        return Err(format!("axis {axis} of {kind} is cut into {parts} parts; allowed: a number that divides it"));
    }
    let mut shape = kind.shape.clone();
    shape[axis] = length / parts * times;
    Ok(kind.with_shape(&shape))
}

impl TensorOperation for GroupCollective {
    fn name(&self) -> &'static str {
        match self.kind {
            CollectiveKind::AllReduce { .. } => "all_reduce",
            CollectiveKind::AllGather { .. } => "all_gather",
            CollectiveKind::ReduceScatter { .. } => "reduce_scatter",
            CollectiveKind::AllToAll { .. } => "all_to_all",
            CollectiveKind::Permute { .. } => "collective_permute",
            CollectiveKind::Broadcast => "collective_broadcast",
        }
    }

    /// Others wait for it.
    fn has_effect(&self) -> bool {
        true
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        let size = self.size();
        let expected = match self.kind {
            CollectiveKind::AllReduce { function } => {
                check_joins(function, x)?;
                x.clone()
            }
            CollectiveKind::AllGather { dimension } => scaled("dimension", x, dimension, (size, 1))?,
            CollectiveKind::ReduceScatter { dimension, function } => {
                check_joins(function, x)?;
                scaled("dimension", x, dimension, (1, size))?
            }
            CollectiveKind::AllToAll { split_dimension, concat_dimension } => {
                let cut = scaled("split_dimension", x, split_dimension, (1, size))?;
                scaled("concat_dimension", &cut, concat_dimension, (size, 1))?
            }
            CollectiveKind::Permute { .. } | CollectiveKind::Broadcast => x.clone(),
        };
        check_same("the result", y, "what a rank takes", &expected)
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], execution: &dyn Execution) -> Result<Vec<Tensor>> {
        Ok(vec![execution.meet(self, operands[0], &results[0])?])
    }

    fn collective(&self) -> Option<&GroupCollective> {
        Some(self)
    }

    fn arithmetic(&self, operands: &[&TensorType], _: &[&TensorType]) -> u64 {
        match self.kind {
            CollectiveKind::AllReduce { .. } | CollectiveKind::ReduceScatter { .. } => operands[0].elements() as u64,
            _ => 0,
        }
    }
}

/// The number of the rank that runs.
#[derive(Clone, Copy, Debug)]
pub struct PartitionId {}

impl TensorOperation for PartitionId {
    fn name(&self) -> &'static str {
        "partition_id"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        check_count("operands", operands.len(), 0)?;
        let [y] = exactly("results", results)?;
        check_same("the result", y, "a rank's number", &TensorType::new(DType::UInt32, &[]))
    }

    fn execute(&self, _: &[&Tensor], results: &[TensorType], execution: &dyn Execution) -> Result<Vec<Tensor>> {
        Ok(vec![Tensor::from_integers(results[0].clone(), [i64::from(execution.rank())])?])
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JoiningText {
    replica_groups: Vec<Vec<u64>>,
    function: ReduceFunction,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GatheringText {
    replica_groups: Vec<Vec<u64>>,
    dimension: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScatteringText {
    replica_groups: Vec<Vec<u64>>,
    dimension: usize,
    function: ReduceFunction,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToAllText {
    replica_groups: Vec<Vec<u64>>,
    split_dimension: usize,
    concat_dimension: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PermutationText {
    pairs: Vec<(u32, u32)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BroadcastText {
    replica_groups: Vec<Vec<u64>>,
}

/// Groups that hold each rank of the graph once; none stand for one of all.
fn checked_groups(groups: Vec<Vec<u64>>, ranks: u32) -> Result<Vec<Vec<u64>>> {
    if groups.is_empty() {
        return Ok(vec![(0..u64::from(ranks)).collect()]);
    }
    let refuse = |reason: String| {
        let allowed = format!("allowed: groups of one length that hold each rank from 0 to {} once", ranks - 1);
        Err(GraphError::Format(format!("replica_groups {reason}; {allowed}")))
    };
    let mut seen = vec![false; ranks as usize];
    for &rank in groups.iter().flatten() {
        match usize::try_from(rank).ok().and_then(|rank| seen.get_mut(rank)) {
            None => return refuse(format!("has rank {rank} of {ranks}")),
            Some(true) => return refuse(format!("has rank {rank} twice")),
            Some(place) => *place = true,
        }
    }
    if let Some(missing) = seen.iter().position(|seen| !seen) {
        return refuse(format!("has no rank {missing}"));
    }
    match groups.iter().find(|group| group.len() != groups[0].len()) {
        Some(other) => refuse(format!("has groups of {} and of {} ranks", groups[0].len(), other.len())),
        None => Ok(groups),
    }
}

/// All ranks that send or receive, as one group.
fn checked_pairs(pairs: &[(u32, u32)], ranks: u32) -> Result<Vec<Vec<u64>>> {
    let refuse = |reason: String| {
        let allowed = format!("each rank from 0 to {} sends at most once and receives at most once", ranks - 1);
        Err(GraphError::Format(format!("pairs {reason}; {allowed}")))
    };
    let (mut sends, mut receives) = (vec![false; ranks as usize], vec![false; ranks as usize]);
    for (rank, seen, does) in pairs.iter().flat_map(|&(from, to)| [(from, true, "sends"), (to, false, "receives")]) {
        let list = if seen { &mut sends } else { &mut receives };
        match list.get_mut(rank as usize) {
            None => return refuse(format!("have rank {rank} of {ranks}")),
            Some(true) => return refuse(format!("have rank {rank}, which {does} twice")),
            Some(place) => *place = true,
        }
    }
    let members = (0..ranks as usize).filter(|&rank| sends[rank] || receives[rank]).map(|rank| rank as u64);
    let members: Vec<u64> = members.collect();
    Ok(if members.is_empty() { Vec::new() } else { vec![members] })
}

fn read(surroundings: &dyn Surroundings, name: &'static str, map: Map<String, Value>) -> Read {
    let (kind, groups) = match name {
        "all_reduce" => {
            let JoiningText { replica_groups, function } = attributes(map)?;
            (CollectiveKind::AllReduce { function }, replica_groups)
        }
        "all_gather" => {
            let GatheringText { replica_groups, dimension } = attributes(map)?;
            (CollectiveKind::AllGather { dimension }, replica_groups)
        }
        "reduce_scatter" => {
            let ScatteringText { replica_groups, dimension, function } = attributes(map)?;
            (CollectiveKind::ReduceScatter { dimension, function }, replica_groups)
        }
        "all_to_all" => {
            let ToAllText { replica_groups, split_dimension, concat_dimension } = attributes(map)?;
            (CollectiveKind::AllToAll { split_dimension, concat_dimension }, replica_groups)
        }
        "collective_permute" => {
            let PermutationText { pairs } = attributes(map)?;
            let groups = checked_pairs(&pairs, surroundings.ranks())?;
            return Ok(Arc::new(GroupCollective { kind: CollectiveKind::Permute { pairs }, groups }));
        }
        _ => {
            let BroadcastText { replica_groups } = attributes(map)?;
            (CollectiveKind::Broadcast, replica_groups)
        }
    };
    Ok(Arc::new(GroupCollective { kind, groups: checked_groups(groups, surroundings.ranks())? }))
}

fn read_partition_id(_: &dyn Surroundings, _: &'static str, map: Map<String, Value>) -> Read {
    no_attributes(&map)?;
    Ok(Arc::new(PartitionId {}))
}

const TEMPLATE: &str = "one transfer on the queues of collectives, for as long as the system's collective takes";
const SUMS: &str = "float32 in ascending ranks, rounded once; integers and extremes exact";

const fn row(
    name: &'static str,
    jax: &'static [&'static str],
    aten: &'static [&'static str],
    accuracy: &'static str,
) -> OperationRow {
    OperationRow { name, jax, aten, template: TEMPLATE, accuracy, read }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[
    row("all_reduce", &["stablehlo.all_reduce"], &["_c10d_functional.all_reduce"], SUMS),
    row("all_gather", &["stablehlo.all_gather"], &["_c10d_functional.all_gather_into_tensor"], "exact"),
    row("reduce_scatter", &["stablehlo.reduce_scatter"], &["_c10d_functional.reduce_scatter_tensor"], SUMS),
    row("all_to_all", &["stablehlo.all_to_all"], &["_c10d_functional.all_to_all_single"], "exact"),
    row("collective_permute", &["stablehlo.collective_permute"], &[], "exact"),
    row("collective_broadcast", &["stablehlo.collective_broadcast"], &["_c10d_functional.broadcast"], "exact"),
    OperationRow {
        name: "partition_id",
        jax: &["stablehlo.partition_id"],
        aten: &[],
        template: "known before the run",
        accuracy: "exact",
        read: read_partition_id,
    },
];
