//! Regions: operations that share tiles on chip, and what may join one.

use std::any::Any;
use std::collections::HashMap;

use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;

use crate::core_shares::even_axis;
use crate::graph::{Body, GraphNode};
use crate::operations::{BroadcastInDim, JoinOrder, Reduce, Reshape, Transpose};
use crate::tensor_type::TensorType;

/// Operations of a region without reductions at most **(choice)**.
const ELEMENTWISE_OPERATIONS: usize = 24;
/// Operations of a region with reductions at most **(choice)**.
const ROW_OPERATIONS: usize = 64;
/// Rows from which a reduction shares tiles with what is elementwise, which else fills more partitions **(choice)**.
const LEAST_ROWS: usize = 16;
/// Elements of a row up to which it does so in any case **(choice)**.
const SHORT_ROW: usize = 1024;

/// Operations that are computed together, tile by tile, so that what only they use never leaves the chip.
///
/// All work on one space: axes of some lengths, none of them 1. Each value has some of its axes: all of them, or those
/// that a reduction leaves, the rows; a value that is repeated along the others is looked at, not laid out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    /// The operations, by their places among those of the body, in order.
    pub(crate) nodes: Vec<usize>,
    /// Lengths of the axes.
    pub(crate) space: Vec<usize>,
    /// Which axes reductions join: the columns; None without reductions.
    pub(crate) columns: Option<Vec<bool>>,
    /// Of each value that is made or taken, the space's axis of each of its axes that is longer than 1; scalars that are
    /// taken have none.
    pub(crate) axes: HashMap<u32, Vec<usize>>,
    /// Values that it makes.
    made: Vec<u32>,
    operations: usize,
}

/// What joining says of the values that an operation takes and makes.
struct Joining {
    result: Vec<usize>,
    taken: Vec<u32>,
    columns: Option<Vec<bool>>,
}

/// Lengths that are not 1.
pub(crate) fn long_axes(kind: &TensorType) -> Vec<usize> {
    kind.shape.iter().copied().filter(|&length| length != 1).collect()
}

/// Of each axis that is longer than 1, its number among these.
fn numbered(kind: &TensorType) -> Vec<Option<usize>> {
    let mut next = 0..;
    kind.shape.iter().map(|&length| (length != 1).then(|| next.next()).flatten()).collect()
}

/// What a partition has on chip for the tiles of a region, in bytes: half of it, so that one piece can be loaded while
/// another is computed **(choice)**.
pub(crate) fn room(arch: &ArchSpec) -> usize {
    (arch.sbuf_partition_bytes - arch.sbuf_reserved_bytes) as usize / 2
}

pub(crate) fn is_look(node: &GraphNode) -> bool {
    let any: &dyn Any = &*node.operation;
    any.is::<Reshape>() || any.is::<Transpose>() || any.is::<BroadcastInDim>()
}

impl Region {
    /// A region of one operation, where it may have company.
    pub(crate) fn of(body: &Body, place: usize, room: usize) -> Option<Self> {
        let node = &body.nodes()[place];
        let first: &TensorType =
            if as_any(node).is::<Reduce>() { kind(body, node.operands[0]) } else { kind(body, node.first_result) };
        let mut region = Self { space: long_axes(first), ..Self::default() };
        region.join(body, place, room).then_some(region)
    }

    /// Whether it makes the value.
    pub(crate) fn makes(&self, value: u32) -> bool {
        self.made.contains(&value)
    }

    /// Whether it takes the value, which has an element more than one.
    pub(crate) fn takes(&self, value: u32) -> bool {
        self.axes.get(&value).is_some_and(|axes| !axes.is_empty())
    }

    /// Rows: positions of the axes that reductions leave.
    pub(crate) fn rows(&self) -> usize {
        let columns = self.columns.as_deref().unwrap_or(&[]);
        let is_row = |axis: &usize| !columns.get(*axis).copied().unwrap_or(false);
        (0..self.space.len()).filter(is_row).map(|axis| self.space[axis]).product()
    }

    /// Elements of a row.
    pub(crate) fn row_elements(&self) -> usize {
        let columns = self.columns.iter().flatten().zip(&self.space);
        columns.filter(|(is_column, _)| **is_column).map(|(_, &length)| length).product()
    }

    /// The axis along which cores have parts of it: rows only, since columns are joined.
    pub(crate) fn cut(&self) -> Option<usize> {
        let columns = self.columns.as_deref().unwrap_or(&[]);
        let is_column = |axis: usize| columns.get(axis).copied().unwrap_or(false);
        let lengths: Vec<usize> =
            self.space.iter().enumerate().map(|(axis, &length)| if is_column(axis) { 1 } else { length }).collect();
        even_axis(&lengths)
    }

    /// Whether a value has no columns.
    pub(crate) fn is_row(&self, value: u32) -> bool {
        self.columns.is_some() && self.axes.get(&value).is_some_and(|axes| axes.len() < self.space.len())
    }

    /// Takes an operation in, if it can work on the same tiles; `room` is what a partition has on chip, in bytes.
    pub(crate) fn join(&mut self, body: &Body, place: usize, room: usize) -> bool {
        let node = &body.nodes()[place];
        let Some(joining) = self.joining(body, node) else { return false };
        let most = if joining.columns.is_some() { ROW_OPERATIONS } else { ELEMENTWISE_OPERATIONS };
        let counts = usize::from(!is_look(node));
        let has_changed =
            joining.taken.iter().any(|value| self.axes.get(value).is_some_and(|axes| *axes != joining.result));
        let is_reduction = as_any(node).is::<Reduce>();
        if self.operations + counts > most || has_changed && !is_reduction {
            return false;
        }
        let before = self.columns.clone();
        self.columns = joining.columns;
        let all: Vec<usize> = (0..self.space.len()).collect();
        for &value in &joining.taken {
            let axes = if is_reduction { all.clone() } else { joining.result.clone() };
            self.axes.entry(value).or_insert(axes);
        }
        for &value in &node.operands {
            self.axes.entry(value).or_default();
        }
        self.axes.insert(node.first_result, joining.result);
        self.made.push(node.first_result);
        self.nodes.push(place);
        self.operations += counts;
        if self.columns.is_none() || self.live_bytes(body) <= room {
            return true;
        }
        self.nodes.pop();
        self.made.pop();
        self.operations -= counts;
        self.axes.remove(&node.first_result);
        self.columns = before;
        let (nodes, made) = (&self.nodes, &self.made);
        let is_taken = |value: &u32| nodes.iter().any(|&place| body.nodes()[place].operands.contains(value));
        self.axes.retain(|value, _| made.contains(value) || is_taken(value));
        false
    }

    fn joining(&self, body: &Body, node: &GraphNode) -> Option<Joining> {
        if node.results != 1 {
            return None;
        }
        let any = as_any(node);
        if let Some(reduce) = any.downcast_ref::<Reduce>() {
            return self.reduction(body, node, reduce);
        }
        let result = kind(body, node.first_result);
        if is_look(node) {
            let axes = self.look(body, node, result)?;
            return Some(Joining { result: axes, taken: Vec::new(), columns: self.columns.clone() });
        }
        if !node.operation.is_elementwise() {
            return None;
        }
        let is_scalar = |value: &&u32| kind(body, **value).elements() == 1 && result.elements() != 1;
        if node.operands.iter().any(|value| is_scalar(&value) && self.makes(*value)) {
            return None;
        }
        let wide: Vec<u32> = node.operands.iter().filter(|value| !is_scalar(value)).copied().collect();
        let mut within = wide.iter().filter(|&&value| self.makes(value)).map(|value| &self.axes[value]);
        let axes = match within.next() {
            Some(axes) if within.all(|other| other == axes) => axes.clone(),
            Some(_) => return None,
            None => (0..self.space.len()).collect(),
        };
        let lengths: Vec<usize> = axes.iter().map(|&axis| self.space[axis]).collect();
        (lengths == long_axes(result)).then_some(())?;
        Some(Joining { result: axes, taken: wide, columns: self.columns.clone() })
    }

    /// A reduction of what has all axes, along the innermost one and others.
    fn reduction(&self, body: &Body, node: &GraphNode, reduce: &Reduce) -> Option<Joining> {
        let (value, x) = (node.operands[0], kind(body, node.operands[0]));
        let is_by_rows = JoinOrder::new(&x.shape, &reduce.dimensions).is_by_rows();
        if !x.is_float() || x.elements() == 0 || !is_by_rows || self.makes(node.operands[1]) {
            return None;
        }
        let axes = match self.axes.get(&value) {
            Some(axes) => axes.clone(),
            None => (0..self.space.len()).collect(),
        };
        if long_axes(x) != axes.iter().map(|&axis| self.space[axis]).collect::<Vec<_>>()
            || axes.len() < self.space.len()
        {
            return None;
        }
        let numbers = numbered(x);
        let mut reduced: Vec<usize> = reduce.dimensions.iter().filter_map(|&axis| numbers[axis]).collect();
        reduced.sort_unstable();
        let joined: Vec<usize> = reduced.iter().map(|&number| axes[number]).collect();
        // The order of a sum is that of the operand's axes; rows are loaded whole, so their elements follow one another.
        if !joined.is_sorted() || joined.last() != Some(&self.space.len().checked_sub(1)?) {
            return None;
        }
        let columns: Vec<bool> = (0..self.space.len()).map(|axis| joined.contains(&axis)).collect();
        if self.columns.as_ref().is_some_and(|known| *known != columns) {
            return None;
        }
        let shape = Self { space: self.space.clone(), columns: Some(columns.clone()), ..Self::default() };
        if shape.rows() < LEAST_ROWS && shape.row_elements() > SHORT_ROW {
            return None;
        }
        let result = axes.into_iter().filter(|&axis| !columns[axis]).collect();
        Some(Joining { result, taken: vec![value], columns: Some(columns) })
    }

    /// The axes of another look at a value that the region makes.
    fn look(&self, body: &Body, node: &GraphNode, result: &TensorType) -> Option<Vec<usize>> {
        let value = node.operands[0];
        let (x, axes) = (kind(body, value), self.makes(value).then(|| &self.axes[&value])?);
        let any = as_any(node);
        let numbers = numbered(x);
        if any.is::<Reshape>() {
            return (long_axes(x) == long_axes(result)).then(|| axes.clone());
        }
        let is_innermost = |found: &[usize]| {
            found.len() < self.space.len() || found.last() == self.space.len().checked_sub(1).as_ref()
        };
        if let Some(turn) = any.downcast_ref::<Transpose>() {
            let found: Vec<usize> =
                turn.permutation.iter().filter_map(|&axis| numbers[axis]).map(|number| axes[number]).collect();
            return is_innermost(&found).then_some(found);
        }
        let repeat = any.downcast_ref::<BroadcastInDim>()?;
        let mut missing = (0..self.space.len()).filter(|axis| !axes.contains(axis));
        let mut found = Vec::with_capacity(self.space.len());
        for (axis, &length) in result.shape.iter().enumerate().filter(|(_, length)| **length != 1) {
            let source = repeat.dimensions.iter().position(|&target| target == axis).and_then(|source| numbers[source]);
            let place = match source {
                Some(number) => axes[number],
                None => missing.next().filter(|&place| self.space[place] == length)?,
            };
            found.push(place);
        }
        let is_whole = found.len() == axes.len() || found.len() == self.space.len();
        (is_whole && is_innermost(&found)).then_some(found)
    }

    /// Bytes of a partition that hold one row of everything that is needed at the same time, at most; what operations
    /// need for themselves is a row in float32.
    pub(crate) fn live_bytes(&self, body: &Body) -> usize {
        let elements = self.row_elements();
        let of = |value: u32| {
            let has_columns = self.axes.get(&value).is_some_and(|axes| axes.len() == self.space.len());
            if has_columns { elements * kind(body, value).dtype.size() } else { DType::Float32.size() }
        };
        let last_use = |value: u32, from: usize| {
            let uses = |&place: &usize| body.nodes()[self.nodes[place]].operands.contains(&value);
            (from..self.nodes.len()).rev().find(uses).unwrap_or(from)
        };
        // Looks hold what they look at: their uses are its uses, by the numbers that stand for it.
        let mut stands: HashMap<u32, u32> = HashMap::new();
        let mut spans: HashMap<u32, (usize, usize)> = HashMap::new();
        for (place, &number) in self.nodes.iter().enumerate() {
            let node = &body.nodes()[number];
            for value in &node.operands {
                let value = *stands.get(value).unwrap_or(value);
                let span = spans.entry(value).or_insert((place, place));
                span.1 = place;
            }
            if is_look(node) {
                let source = *stands.get(&node.operands[0]).unwrap_or(&node.operands[0]);
                stands.insert(node.first_result, source);
            } else {
                spans.insert(node.first_result, (place, last_use(node.first_result, place)));
            }
        }
        let at = |place: usize| {
            spans.iter().filter(move |(_, span)| span.0 <= place && place <= span.1).map(|(&value, _)| of(value)).sum()
        };
        let most: usize = (0..self.nodes.len()).map(at).max().unwrap_or(0);
        most + elements * DType::Float32.size()
    }
}

fn as_any(node: &GraphNode) -> &dyn Any {
    &*node.operation
}

fn kind(body: &Body, value: u32) -> &TensorType {
    &body.types()[value as usize]
}
