//! Values of collectives: what the ranks brought goes through the one engine to what each takes away.

use trn3_machine::dtype::DType;
use trn3_machine::isa::rank_call::RankOperation;
use trn3_machine::storage::{try_copy, try_zeros};
use trn3_machine::view::View;
use trn3_numerics::Format;
use trn3_system::collective::{
    Arithmetic, CollectiveTask, ElementType, Operation, Order, Reduction, Schedule, execute, output_length, reduce,
};
use trn3_system::{Error, Result};

use super::rules::ring_pairs;
use super::{RankArrival, RankFabric};

/// Elements of a tensor in C order, as bytes.
pub(super) type Bytes = Vec<u8>;
/// The tensors of one rank; None where one stays as it is.
pub(super) type Taken = Vec<Option<Bytes>>;

/// What bytes are for, where the host has no room for them.
const RESULT: &str = "what a rank takes from a collective";

/// What the host had room for.
pub(super) fn room<T>(made: trn3_machine::Result<T>) -> Result<T> {
    made.map_err(|error| Error::Memory(error.to_string()))
}

/// Moves the tensors of one core of each rank, by index in the group. `brought[i]` are those of rank i, in the order of
/// [`RankArrival::srcs`].
pub(super) fn moved(fabric: &RankFabric, lane: &[&RankArrival], brought: &[Vec<Bytes>]) -> Result<Vec<Taken>> {
    let Some(first) = lane.first() else { return Ok(Vec::new()) };
    let tensors = first.call.dsts.len();
    let mut taken = vec![Vec::with_capacity(tensors); lane.len()];
    for number in 0..tensors {
        let inputs: Vec<&[u8]> = brought.iter().map(|own| &own[number][..]).collect();
        let outputs: Vec<Option<Bytes>> = match first.call.operation {
            RankOperation::AllReduce | RankOperation::ReduceScatter => {
                reduced(lane, number, &inputs)?.into_iter().map(Some).collect()
            }
            RankOperation::CollectivePermuteImplicitReduce => {
                let combine = |(at, own): (usize, &Vec<Bytes>)| combined(lane[at], number, own);
                let inputs = brought.iter().enumerate().map(combine).collect::<Result<Vec<Bytes>>>()?;
                let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                permuted(fabric, first, number, &inputs, &ring_pairs(std::slice::from_ref(&first.group)))?
            }
            RankOperation::CollectivePermuteImplicit => {
                permuted(fabric, first, number, &inputs, &ring_pairs(std::slice::from_ref(&first.group)))?
            }
            RankOperation::CollectivePermute => permuted(fabric, first, number, &inputs, &first.pairs)?,
            operation => {
                let gathers = operation == RankOperation::AllGather;
                let bytes: usize = inputs.iter().map(|input| input.len()).sum();
                let size = if gathers { bytes } else { inputs.first().map_or(0, |input| input.len()) };
                let task = fabric.task(
                    if gathers { Operation::AllGather } else { Operation::AllToAll },
                    std::slice::from_ref(&first.group),
                    &[],
                )?;
                let outputs = executed(fabric, &task, size, first.call.srcs[number].dtype, &inputs)?;
                let along = if first.call.dim == 1 { Some(&first.call.srcs[number]) } else { None };
                outputs.into_iter().map(|output| joined(output, along, lane.len()).map(Some)).collect::<Result<_>>()?
            }
        };
        taken.iter_mut().zip(outputs).for_each(|(own, output)| own.push(output));
    }
    Ok(taken)
}

/// How tensors of one rank are added: in float32 by index, rounded once to the type of the result.
fn arithmetic(arrival: &RankArrival, number: usize) -> Result<Arithmetic> {
    let (source, result) = (arrival.call.srcs[number].dtype, arrival.call.dsts[number].dtype);
    // What a tfloat32 holds is a float32 that was rounded before.
    let element = if source == DType::TFloat32 { ElementType::Float(Format::F32) } else { source.name().parse()? };
    let is_same = source == result && result != DType::TFloat32;
    Ok(Arithmetic {
        reduction: match arrival.call.reduction.as_str() {
            "add" => Reduction::Add,
            "maximum" => Reduction::Max,
            "minimum" => Reduction::Min,
            other => return Err(Error::Value(format!("op is {other:?}; allowed: add, maximum, minimum"))),
        },
        out: if is_same { None } else { result.format() },
        order: Order::Index,
        ..Arithmetic::new(element)
    })
}

fn sum(arithmetic: &Arithmetic, inputs: &[&[u8]]) -> Result<Bytes> {
    let elements = inputs.first().map_or(0, |input| input.len()) / arithmetic.element.bytes();
    let mut sum = room(try_zeros(elements * arithmetic.result().bytes(), RESULT))?;
    reduce(arithmetic, inputs, &mut sum)?;
    Ok(sum)
}

/// What all ranks' tensors reduce to: all of it for each, or chunk i for index i.
fn reduced(lane: &[&RankArrival], number: usize, inputs: &[&[u8]]) -> Result<Vec<Bytes>> {
    let sum = sum(&arithmetic(lane[0], number)?, inputs)?;
    if lane[0].call.operation == RankOperation::AllReduce {
        return lane.iter().map(|_| room(try_copy(&sum, RESULT))).collect();
    }
    let part = sum.len() / lane.len();
    sum.chunks(part.max(1)).map(|part| room(try_copy(part, RESULT))).collect()
}

/// What two tensors of one rank reduce to.
fn combined(arrival: &RankArrival, number: usize, own: &[Bytes]) -> Result<Bytes> {
    sum(&arithmetic(arrival, number)?, &[&own[number], &own[arrival.call.srcs.len() + number]])
}

/// What each rank gets of those who send to it.
fn permuted(
    fabric: &RankFabric,
    first: &RankArrival,
    number: usize,
    inputs: &[&[u8]],
    pairs: &[(u64, u64)],
) -> Result<Taken> {
    let task = fabric.task(Operation::Permute, std::slice::from_ref(&first.group), pairs)?;
    let size = inputs.first().map_or(0, |input| input.len());
    let outputs = executed(fabric, &task, size, first.call.dsts[number].dtype, inputs)?;
    let gets = |rank: u64| pairs.iter().any(|&(_, target)| target == rank);
    Ok(outputs.into_iter().zip(&first.group).map(|(output, &rank)| gets(rank).then_some(output)).collect())
}

/// Moves elements through the fastest schedule of an operation of one group; it computes nothing.
fn executed(
    fabric: &RankFabric,
    task: &CollectiveTask,
    size: usize,
    dtype: DType,
    inputs: &[&[u8]],
) -> Result<Vec<Bytes>> {
    let estimator = fabric.estimator();
    let Some(group) = task.groups.first() else { return Ok(Vec::new()) };
    let form = estimator.slowest(task, size as f64)?.algorithm;
    let schedule = Schedule::new(estimator.fabric(), group, task.operation, form, &task.extra)?;
    let element = ElementType::Opaque { bytes: dtype.size() };
    let elements = inputs.first().map_or(0, |input| input.len()) / dtype.size();
    let length = output_length(&schedule, elements) * dtype.size();
    let mut outputs = inputs.iter().map(|_| room(try_zeros(length, RESULT))).collect::<Result<Vec<Bytes>>>()?;
    let mut places: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    execute(&schedule, &Arithmetic::new(element), inputs, &mut places, None)?;
    Ok(outputs)
}

/// Tensors that follow one another, or tiles of two dimensions that are joined along the second.
fn joined(output: Bytes, tile: Option<&View>, ranks: usize) -> Result<Bytes> {
    let Some(tile) = tile else { return Ok(output) };
    let row = tile.free_size() * tile.dtype.size();
    let rows = tile.partitions();
    let pieces = (0..rows).flat_map(|row| (0..ranks).map(move |rank| rank * rows + row));
    let mut joined = room(try_zeros(output.len(), RESULT))?;
    for (place, piece) in joined.chunks_exact_mut(row.max(1)).zip(pieces) {
        place.copy_from_slice(&output[piece * row..(piece + 1) * row]);
    }
    Ok(joined)
}
