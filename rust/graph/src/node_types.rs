//! What is asked of an operation in its body.

use std::any::Any;

use crate::graph::{Body, GraphNode};
use crate::tensor_type::TensorType;

/// The operation, to find out which one it is.
pub(crate) fn as_any(node: &GraphNode) -> &dyn Any {
    &*node.operation
}

pub(crate) fn operand_types<'b>(body: &'b Body, node: &GraphNode) -> Vec<&'b TensorType> {
    node.operands.iter().map(|&value| &body.types()[value as usize]).collect()
}

pub(crate) fn result_types<'b>(body: &'b Body, node: &GraphNode) -> &'b [TensorType] {
    &body.types()[node.first_result as usize..(node.first_result + node.results) as usize]
}
