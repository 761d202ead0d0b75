//! Values that are another look at a value in memory: broadcasts, other shapes, slices, other orders of axes.

use std::any::Any;

use trn3_machine::dtype::DType;

use crate::graph::{Body, GraphNode};
use crate::operations::{BroadcastInDim, Reshape, Slice, Transpose};
use crate::strided::{Axes, coalesced, row_major};

/// The shortest run of neighbours that is read in place; elements further apart are brought together first.
const SHORTEST_RUN: usize = 8;

/// Where the elements of a value lie in the memory of another.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// The value in memory.
    pub(super) base: u32,
    shape: Vec<usize>,
    strides: Vec<isize>,
    offset: isize,
}

impl Look {
    /// The value itself.
    fn whole(base: u32, shape: &[usize]) -> Self {
        Self { base, shape: shape.to_vec(), strides: row_major(shape), offset: 0 }
    }

    /// The result of an operation that only looks at its operand; None for all others.
    pub(super) fn of(body: &Body, node: &GraphNode, known: &[Option<Look>]) -> Option<Self> {
        let [operand] = node.operands[..] else { return None };
        let shape = &body.types()[node.first_result as usize].shape;
        if shape.contains(&0) {
            return None;
        }
        let from = known[operand as usize]
            .clone()
            .unwrap_or_else(|| Look::whole(operand, &body.types()[operand as usize].shape));
        let operation: &dyn Any = &*node.operation;
        if let Some(broadcast) = operation.downcast_ref::<BroadcastInDim>() {
            let mut strides = vec![0; shape.len()];
            for (axis, &target) in broadcast.dimensions.iter().enumerate() {
                strides[target] = if from.shape[axis] == 1 { 0 } else { from.strides[axis] };
            }
            return Some(Self { shape: shape.clone(), strides, ..from });
        }
        if operation.is::<Reshape>() {
            return from.reshaped(shape);
        }
        if let Some(slice) = operation.downcast_ref::<Slice>() {
            let offset = from.offset
                + from.strides.iter().zip(&slice.start).map(|(step, &at)| step * at as isize).sum::<isize>();
            let strides = from.strides.iter().zip(&slice.stride).map(|(step, &by)| step * by as isize).collect();
            return Some(Self { shape: shape.clone(), strides, offset, ..from });
        }
        if let Some(transpose) = operation.downcast_ref::<Transpose>() {
            let strides = transpose.permutation.iter().map(|&axis| from.strides[axis]).collect();
            return Some(Self { shape: shape.clone(), strides, ..from });
        }
        None
    }

    /// The same elements in another shape, where strides can say so.
    fn reshaped(self, shape: &[usize]) -> Option<Self> {
        let (lengths, steps) = coalesced(&self.shape, &self.strides);
        let mut runs: Vec<(usize, isize)> = lengths.into_iter().zip(steps).collect();
        let mut strides = vec![0; shape.len()];
        for (axis, &length) in shape.iter().enumerate().rev().filter(|(_, length)| **length != 1) {
            let (left, step) = runs.last_mut()?;
            if !left.is_multiple_of(length) {
                return None;
            }
            strides[axis] = *step;
            (*left, *step) = (*left / length, *step * length as isize);
            if *left == 1 {
                runs.pop();
            }
        }
        Some(Self { shape: shape.to_vec(), strides, ..self })
    }

    /// Lengths and strides with neighbours merged.
    pub(super) fn axes(&self) -> Axes {
        let (shape, strides) = coalesced(&self.shape, &self.strides);
        (shape, strides, self.offset)
    }

    /// Whether it is `count` elements as they lie.
    pub(super) fn is_whole(&self, count: usize) -> bool {
        let (shape, strides, offset) = self.axes();
        offset == 0 && (shape[..] == [count] && strides[..] == [1] || count == 1 && shape[..] == [1])
    }

    /// Whether each of `rows` elements is there `columns` times in a row.
    pub(super) fn spreads(&self, rows: usize, columns: usize) -> bool {
        let (shape, strides, offset) = self.axes();
        offset == 0 && shape[..] == [rows, columns] && strides[..] == [1, 0]
    }

    /// Whether it is read well where it lies.
    pub(super) fn has_runs(&self) -> bool {
        let (shape, strides, _) = self.axes();
        matches!(strides.last(), Some(0 | 1)) && shape.last().is_some_and(|&run| run >= SHORTEST_RUN)
    }
}

/// Whether elements of a type may be in lanes.
pub(super) fn is_lane(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::BFloat16 | DType::Bool)
}
