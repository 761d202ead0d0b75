//! Canonicalise: what is computed twice is computed once, what nobody needs is not, and moves of moves are one move.
//!
//! Kept true: every value that is left has the bits that it had, NaNs included, and its number. An operation is left out
//! when no output depends on it, when an earlier one of the same attributes takes the same operands, or when its result
//! is its operand: a reshape, slice, broadcast, transpose or conversion that changes nothing. A reshape takes what the
//! reshape before it took, likewise transposes, broadcasts, slices, and conversions where the first one is exact. What
//! [has an effect](TensorOperation::has_effect) stays. Bodies of loops and cases are done the same way.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use trn3_machine::dtype::DType;

use crate::graph::{Body, GraphNode, TensorOperation};
use crate::operations::{Binary, Unary};
use crate::operations::{
    BroadcastInDim, Case, Constant, Convert, DotGeneral, Reduce, Reshape, Slice, Transpose, While,
};
use crate::tensor_type::TensorType;

/// Bytes of constants that are compared with one another **(choice)**: longer ones are the same where their memory is.
const COMPARED_BYTES: usize = 64;

/// The body in canonical form, with the same numbers.
pub(crate) fn canonical(body: &Body) -> Body {
    let mut rewriting = Rewriting {
        types: body.types(),
        same: (0..body.types().len() as u32).collect(),
        maker: vec![None; body.types().len()],
        nodes: Vec::with_capacity(body.nodes().len()),
        seen: HashMap::new(),
    };
    for node in body.nodes() {
        rewriting.take(node);
    }
    let outputs: Vec<u32> = body.outputs().iter().map(|&value| rewriting.same[value as usize]).collect();
    let nodes = needed(rewriting.nodes, &outputs, body.types().len());
    body.rewritten(nodes, outputs)
}

/// The operations that outputs depend on, or that have an effect.
fn needed(nodes: Vec<GraphNode>, outputs: &[u32], values: usize) -> Vec<GraphNode> {
    let mut is_needed = vec![false; values];
    outputs.iter().for_each(|&value| is_needed[value as usize] = true);
    let mut kept: Vec<GraphNode> = Vec::with_capacity(nodes.len());
    for node in nodes.into_iter().rev() {
        let is_used = node.result_numbers().any(|value| is_needed[value as usize]);
        if is_used || node.operation.has_effect() {
            node.operands.iter().for_each(|&value| is_needed[value as usize] = true);
            kept.push(node);
        }
    }
    kept.reverse();
    kept
}

/// What two operations have to share to be one: name, attributes, operands, types of the results.
type Key = (&'static str, String, Vec<u32>, Vec<TensorType>);

struct Rewriting<'b> {
    types: &'b [TensorType],
    /// Of each value, the one that stands for it.
    same: Vec<u32>,
    /// Of each value, the operation that makes it, by its place in `nodes`.
    maker: Vec<Option<usize>>,
    nodes: Vec<GraphNode>,
    seen: HashMap<Key, u32>,
}

impl Rewriting<'_> {
    fn take(&mut self, node: &GraphNode) {
        let mut node = node.clone();
        node.operands.iter_mut().for_each(|value| *value = self.same[*value as usize]);
        if let Some(operation) = with_canonical_bodies(&node) {
            node.operation = operation;
        }
        while let Some((operation, operand)) = self.merged(&node) {
            (node.operation, node.operands) = (operation, vec![operand]);
        }
        if self.changes_nothing(&node) {
            self.same[node.first_result as usize] = node.operands[0];
            return;
        }
        if let Some(key) = key(&node, self.results(&node)) {
            if let Some(&earlier) = self.seen.get(&key) {
                (node.result_numbers().zip(earlier..)).for_each(|(mine, value)| self.same[mine as usize] = value);
                return;
            }
            self.seen.insert(key, node.first_result);
        }
        node.result_numbers().for_each(|value| self.maker[value as usize] = Some(self.nodes.len()));
        self.nodes.push(node);
    }

    fn kind(&self, value: u32) -> &TensorType {
        &self.types[value as usize]
    }

    fn results(&self, node: &GraphNode) -> &[TensorType] {
        &self.types[node.first_result as usize..(node.first_result + node.results) as usize]
    }

    fn maker(&self, value: u32) -> Option<&GraphNode> {
        self.maker[value as usize].map(|place| &self.nodes[place])
    }

    /// One operation for this one and the one that makes its operand, on what that takes.
    fn merged(&self, node: &GraphNode) -> Option<(Arc<dyn TensorOperation>, u32)> {
        let &[operand] = &node.operands[..] else { return None };
        let before = self.maker(operand)?;
        let &[source] = &before.operands[..] else { return None };
        let (first, second): (&dyn Any, &dyn Any) = (&*before.operation, &*node.operation);
        let operation: Arc<dyn TensorOperation> = if second.is::<Reshape>() && first.is::<Reshape>() {
            Arc::clone(&node.operation)
        } else if let (Some(first), Some(second)) = (first.downcast_ref(), second.downcast_ref()) {
            Arc::new(transposed_twice(first, second))
        } else if let (Some(first), Some(second)) = (first.downcast_ref(), second.downcast_ref()) {
            Arc::new(broadcast_twice(first, second))
        } else if let (Some(first), Some(second)) = (first.downcast_ref(), second.downcast_ref()) {
            if self.kind(node.first_result).elements() == 0 {
                return None;
            }
            Arc::new(sliced_twice(first, second))
        } else if first.is::<Convert>() && second.is::<Convert>() {
            let (from, through) = (self.kind(source).dtype, self.kind(operand).dtype);
            let to = self.kind(node.first_result).dtype;
            // There and back makes NaNs canonical, where nothing did before.
            if !may_skip(from, through, to) || from == to && !self.is_computed(source) {
                return None;
            }
            Arc::clone(&node.operation)
        } else {
            return None;
        };
        Some((operation, source))
    }

    /// Whether the result is the operand, bit for bit.
    fn changes_nothing(&self, node: &GraphNode) -> bool {
        let &[operand] = &node.operands[..] else { return false };
        if node.results != 1 || self.kind(operand) != self.kind(node.first_result) {
            return false;
        }
        let any: &dyn Any = &*node.operation;
        let in_order = |axes: &[usize]| axes.iter().copied().eq(0..axes.len());
        any.is::<Reshape>()
            || any.is::<Slice>()
            || any.is::<Convert>()
            || any.downcast_ref().is_some_and(|operation: &Transpose| in_order(&operation.permutation))
            || any.downcast_ref().is_some_and(|operation: &BroadcastInDim| in_order(&operation.dimensions))
    }

    /// Whether arithmetic made the value: its NaNs are the canonical one.
    fn is_computed(&self, value: u32) -> bool {
        self.maker(value).is_some_and(|node| {
            let any: &dyn Any = &*node.operation;
            any.is::<Binary>() || any.is::<Unary>() || any.is::<DotGeneral>() || any.is::<Reduce>()
        })
    }
}

/// What the operation is the same by; None for what stays by itself.
fn key(node: &GraphNode, results: &[TensorType]) -> Option<Key> {
    if node.operation.has_effect() || !node.operation.bodies().is_empty() {
        return None;
    }
    let any: &dyn Any = &*node.operation;
    let attributes = match any.downcast_ref::<Constant>() {
        Some(constant) if constant.value.bytes().len() <= COMPARED_BYTES => format!("{:?}", constant.value.bytes()),
        Some(constant) => format!("{:p}", constant.value.bytes()),
        None => format!("{:?}", node.operation),
    };
    Some((node.operation.name(), attributes, node.operands.clone(), results.to_vec()))
}

fn with_canonical_bodies(node: &GraphNode) -> Option<Arc<dyn TensorOperation>> {
    let any: &dyn Any = &*node.operation;
    if let Some(operation) = any.downcast_ref::<While>() {
        return Some(Arc::new(While { condition: canonical(&operation.condition), body: canonical(&operation.body) }));
    }
    let operation = any.downcast_ref::<Case>()?;
    Some(Arc::new(Case { branches: operation.branches.iter().map(canonical).collect() }))
}

fn transposed_twice(first: &Transpose, second: &Transpose) -> Transpose {
    Transpose { permutation: second.permutation.iter().map(|&axis| first.permutation[axis]).collect() }
}

fn broadcast_twice(first: &BroadcastInDim, second: &BroadcastInDim) -> BroadcastInDim {
    BroadcastInDim { dimensions: first.dimensions.iter().map(|&axis| second.dimensions[axis]).collect() }
}

/// Of slices that have elements.
fn sliced_twice(first: &Slice, second: &Slice) -> Slice {
    let place = |axis: usize, place: usize| first.start[axis] + place * first.stride[axis];
    let axes = 0..first.start.len();
    Slice {
        start: axes.clone().map(|axis| place(axis, second.start[axis])).collect(),
        limit: axes.clone().map(|axis| place(axis, second.limit[axis] - 1) + 1).collect(),
        stride: axes.map(|axis| first.stride[axis] * second.stride[axis]).collect(),
    }
}

/// Whether a conversion `from` by way of `through` gives the bits that it gives at once.
fn may_skip(from: DType, through: DType, to: DType) -> bool {
    let is_whole = |dtype: DType| dtype.is_integer() && dtype != DType::Bool;
    if through == DType::Float32 {
        // Every narrower float is a float32; whole numbers become floats by way of it in any case.
        return from.is_float() || is_whole(from) && to.is_float();
    }
    // Low bits of low bits, or of what was widened by its sign or zeros.
    [from, through, to].into_iter().all(is_whole) && through.size() >= to.size()
}
