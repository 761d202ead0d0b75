//! Elementwise operations and reductions of rows that run together, block by block, as steps on lanes.

use std::any::Any;
use std::collections::{HashMap, HashSet};

use trn3_machine::dtype::DType;
use trn3_numerics::PairStep;

use super::look::{Look, is_lane};
use crate::graph::{Body, GraphNode};
use crate::operations::{
    Binary, BinaryFunction, Clamp, Compare, Convert, Direction, JoinOrder, Reduce, ReduceFunction, Select,
};
use crate::operations::{Unary, UnaryFunction};
use crate::strided::Axes;

/// Elements of a block: a few lanes of them stay in the first cache, all of a chain in the second **(choice)**.
const BLOCK: usize = 4096;
/// Rows that are reduced side by side.
const SIDE_BY_SIDE: usize = 16;
/// Rows longer than this are reduced by themselves.
const LONGEST_ROW: usize = 1 << 15;

/// One step on lanes.
#[derive(Clone, Copy, Debug)]
pub(super) enum LaneFunction {
    /// An input brought together.
    Load(usize),
    /// A row's number in each of its columns.
    Spread,
    Pair(PairStep),
    OtherPair(BinaryFunction),
    Truths(BinaryFunction),
    Single(UnaryFunction),
    Compare(Direction),
    Select,
    Clamp,
    Convert,
    /// Rows joined to a number each; the second operand comes to it at the end.
    Join(PairStep),
}

#[derive(Clone, Debug)]
pub(super) struct LaneStep {
    pub(super) function: LaneFunction,
    pub(super) operands: Vec<usize>,
    pub(super) result: usize,
}

/// How a block of an input is found.
#[derive(Clone, Debug)]
pub(super) enum Reading {
    /// The same number for all.
    Scalar,
    /// As it lies.
    Along,
    /// By lengths and strides.
    Strided(Axes),
}

#[derive(Clone, Debug)]
pub(super) struct ChainInput {
    pub(super) value: u32,
    pub(super) reading: Reading,
}

/// Where a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the input's own memory.
    Input(usize),
    /// In a buffer of the block.
    Slot(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) dtype: DType,
    /// One number a row, else one an element.
    pub(super) per_row: bool,
    pub(super) place: Place,
}

/// Operations that run together.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// Places of the operations in the body, ascending.
    pub(crate) nodes: Vec<usize>,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) inputs: Vec<ChainInput>,
    pub(super) lanes: Vec<Lane>,
    pub(super) steps: Vec<LaneStep>,
    /// Lanes that are kept, with the numbers of their values.
    pub(super) outputs: Vec<(usize, u32)>,
    pub(super) slots: usize,
    of_value: HashMap<u32, usize>,
}

/// Whether an operation may stand in a chain, whatever its neighbours.
pub(super) fn is_step(body: &Body, node: &GraphNode) -> bool {
    let kinds = node.operands.iter().copied().chain(node.result_numbers()).map(|value| &body.types()[value as usize]);
    kinds.clone().all(|kind| is_lane(kind.dtype) && kind.elements() > 0)
        && (function(body, node).is_some() || row_length(body, node).is_some())
}

/// Of a reduction along the last axes: how many elements are joined.
pub(super) fn row_length(body: &Body, node: &GraphNode) -> Option<usize> {
    let reduce = (&*node.operation as &dyn Any).downcast_ref::<Reduce>()?;
    let x = &body.types()[node.operands[0] as usize];
    let first = x.rank() - reduce.dimensions.len();
    let length: usize = x.shape[first..].iter().product();
    let is_last = x.is_float() && reduce.dimensions.iter().all(|&axis| axis >= first);
    let is_row = JoinOrder::new(&x.shape, &reduce.dimensions).is_by_rows();
    (is_last && is_row && length > 1 && length <= LONGEST_ROW).then_some(length)
}

fn function(body: &Body, node: &GraphNode) -> Option<LaneFunction> {
    let operation: &dyn Any = &*node.operation;
    let is_truth = body.types()[node.operands.first().copied()? as usize].is_bool();
    if let Some(binary) = operation.downcast_ref::<Binary>() {
        return Some(match binary.function {
            other if is_truth => LaneFunction::Truths(other),
            BinaryFunction::Add => LaneFunction::Pair(PairStep::Add),
            BinaryFunction::Subtract => LaneFunction::Pair(PairStep::Subtract),
            BinaryFunction::Multiply => LaneFunction::Pair(PairStep::Multiply),
            BinaryFunction::Divide => LaneFunction::Pair(PairStep::Divide),
            BinaryFunction::Maximum => LaneFunction::Pair(PairStep::Maximum),
            BinaryFunction::Minimum => LaneFunction::Pair(PairStep::Minimum),
            other => LaneFunction::OtherPair(other),
        });
    }
    if let Some(unary) = operation.downcast_ref::<Unary>() {
        return Some(LaneFunction::Single(unary.function));
    }
    if let Some(compare) = operation.downcast_ref::<Compare>() {
        return (!is_truth).then_some(LaneFunction::Compare(compare.direction));
    }
    if operation.is::<Select>() {
        return Some(LaneFunction::Select);
    }
    if operation.is::<Clamp>() {
        return Some(LaneFunction::Clamp);
    }
    operation.is::<Convert>().then_some(LaneFunction::Convert)
}

impl Chain {
    /// The chain of these operations, in the order of the body; None where they do not go together.
    pub(super) fn new(body: &Body, looks: &[Option<Look>], nodes: &[usize]) -> Option<Self> {
        let mut columns = None;
        let mut elements = 0;
        for &place in nodes {
            let node = &body.nodes()[place];
            elements = elements.max(body.types()[node.first_result as usize].elements());
            if let Some(length) = row_length(body, node) {
                if columns.is_some_and(|known| known != length) {
                    return None;
                }
                columns = Some(length);
                elements = elements.max(body.types()[node.operands[0] as usize].elements());
            }
        }
        let columns = columns.unwrap_or(1);
        let mut chain = Self {
            nodes: nodes.to_vec(),
            rows: elements / columns,
            columns,
            inputs: Vec::new(),
            lanes: Vec::new(),
            steps: Vec::new(),
            outputs: Vec::new(),
            slots: 0,
            of_value: HashMap::new(),
        };
        let members: HashSet<u32> = nodes.iter().map(|&place| body.nodes()[place].first_result).collect();
        let mut read = HashMap::new();
        nodes.iter().try_for_each(|&place| chain.add(body, looks, &members, &mut read, &body.nodes()[place]))?;
        Some(chain)
    }

    /// Elements of a block, in rows.
    pub(super) fn block_rows(&self) -> usize {
        match self.columns {
            1 => BLOCK,
            columns if columns > BLOCK / 2 => (8 * BLOCK / columns).max(1),
            columns => (BLOCK / columns).max(1).next_multiple_of(SIDE_BY_SIDE),
        }
    }

    /// Values that come from outside.
    pub(crate) fn given(&self) -> impl Iterator<Item = u32> {
        let mut seen = HashSet::new();
        self.inputs.iter().map(|input| input.value).filter(move |value| seen.insert(*value))
    }

    fn is_per_row(&self, count: usize) -> Option<bool> {
        match count {
            _ if count == self.rows * self.columns => Some(false),
            _ if count == self.rows => Some(true),
            _ => None,
        }
    }

    fn add(
        &mut self,
        body: &Body,
        looks: &[Option<Look>],
        members: &HashSet<u32>,
        read: &mut HashMap<(u32, bool), usize>,
        node: &GraphNode,
    ) -> Option<()> {
        let result = &body.types()[node.first_result as usize];
        let per_row = self.is_per_row(result.elements())?;
        let reduced = (&*node.operation as &dyn Any).downcast_ref::<Reduce>();
        let function = match reduced {
            Some(reduce) => LaneFunction::Join(match reduce.function {
                ReduceFunction::Add => PairStep::Add,
                ReduceFunction::Multiply => PairStep::Multiply,
                ReduceFunction::Maximum => PairStep::Maximum,
                ReduceFunction::Minimum => PairStep::Minimum,
                _ => return None,
            }),
            None => function(body, node)?,
        };
        if reduced.is_some() && !per_row {
            return None;
        }
        let mut operands = Vec::with_capacity(node.operands.len());
        for (place, &value) in node.operands.iter().enumerate() {
            let is_row = per_row && !(reduced.is_some() && place == 0);
            operands.push(self.operand(body, looks, members, read, value, is_row)?);
        }
        // Nothing to do: the lane has a second name.
        let is_same = matches!(function, LaneFunction::Convert) && self.lanes[operands[0]].dtype == result.dtype;
        let lane = if is_same { operands[0] } else { self.step(function, operands, result.dtype, per_row) };
        self.of_value.insert(node.first_result, lane);
        Some(())
    }

    fn step(&mut self, function: LaneFunction, operands: Vec<usize>, dtype: DType, per_row: bool) -> usize {
        self.lanes.push(Lane { dtype, per_row, place: Place::Slot(usize::MAX) });
        let result = self.lanes.len() - 1;
        self.steps.push(LaneStep { function, operands, result });
        result
    }

    /// The lane of an operand, with what it takes to have it.
    fn operand(
        &mut self,
        body: &Body,
        looks: &[Option<Look>],
        members: &HashSet<u32>,
        read: &mut HashMap<(u32, bool), usize>,
        value: u32,
        per_row: bool,
    ) -> Option<usize> {
        if let Some(&lane) = self.of_value.get(&value) {
            return (self.lanes[lane].per_row == per_row || self.columns == 1).then_some(lane);
        }
        let kind = &body.types()[value as usize];
        let look = looks[value as usize].as_ref();
        if let Some(&lane) = look.and_then(|look| self.of_value.get(&look.base)) {
            let look = look?;
            let is_row = self.lanes[lane].per_row;
            let count = if is_row { self.rows } else { self.rows * self.columns };
            if is_row == per_row && look.is_whole(count) {
                return Some(lane);
            }
            if !(is_row && !per_row && look.spreads(self.rows, self.columns)) {
                return None;
            }
            if let Some(&known) = read.get(&(value, per_row)) {
                return Some(known);
            }
            let spread = self.step(LaneFunction::Spread, vec![lane], kind.dtype, false);
            read.insert((value, per_row), spread);
            return Some(spread);
        }
        if look.is_some_and(|look| members.contains(&look.base)) || members.contains(&value) {
            return None;
        }
        if let Some(&known) = read.get(&(value, per_row)) {
            return Some(known);
        }
        let wanted = if per_row { self.rows } else { self.rows * self.columns };
        let count = kind.elements();
        if count != wanted && count != 1 {
            return None;
        }
        let (value_read, reading) = match look {
            Some(look) if body.types()[look.base as usize].elements() == 1 => (look.base, Reading::Scalar),
            Some(look) if look.is_whole(body.types()[look.base as usize].elements()) => (look.base, Reading::Along),
            Some(look) if count > 1 && look.has_runs() => (look.base, Reading::Strided(look.axes())),
            _ => (value, Reading::Along),
        };
        let reading =
            if count == 1 && wanted > 1 && matches!(reading, Reading::Along) { Reading::Scalar } else { reading };
        let is_direct = match reading {
            Reading::Scalar => true,
            Reading::Along => kind.dtype != DType::BFloat16,
            Reading::Strided(_) => false,
        };
        self.inputs.push(ChainInput { value: value_read, reading });
        let input = self.inputs.len() - 1;
        let lane = if is_direct {
            self.lanes.push(Lane { dtype: kind.dtype, per_row, place: Place::Input(input) });
            self.lanes.len() - 1
        } else {
            self.step(LaneFunction::Load(input), Vec::new(), kind.dtype, per_row)
        };
        read.insert((value, per_row), lane);
        Some(lane)
    }

    /// Says which values are kept, and gives lanes their buffers: those of what nobody needs any more come again.
    pub(super) fn finish(&mut self, is_kept: impl Fn(u32) -> bool) {
        let mut kept: Vec<(usize, u32)> =
            self.of_value.iter().map(|(&value, &lane)| (lane, value)).filter(|&(_, value)| is_kept(value)).collect();
        kept.sort_unstable();
        self.outputs = kept;
        let mut last_use = vec![0; self.lanes.len()];
        for (place, step) in self.steps.iter().enumerate() {
            step.operands.iter().chain([&step.result]).for_each(|&lane| last_use[lane] = place);
        }
        let mut free: HashMap<(bool, bool), Vec<usize>> = HashMap::new();
        for (place, step) in self.steps.iter().enumerate() {
            let class = |lane: &Lane| (lane.dtype == DType::Bool, lane.per_row);
            let slot = free.entry(class(&self.lanes[step.result])).or_default().pop().unwrap_or_else(|| {
                self.slots += 1;
                self.slots - 1
            });
            self.lanes[step.result].place = Place::Slot(slot);
            let mut done: Vec<usize> =
                step.operands.iter().chain([&step.result]).copied().filter(|&lane| last_use[lane] == place).collect();
            done.sort_unstable();
            done.dedup();
            for lane in done {
                if let Place::Slot(slot) = self.lanes[lane].place {
                    free.entry(class(&self.lanes[lane])).or_default().push(slot);
                }
            }
        }
    }
}
