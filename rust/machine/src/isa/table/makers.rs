//! What rows of the table make of several arguments, or of one under another name.

use super::values;
use crate::isa::ScalarOperand;
use crate::isa::accumulate::{ReduceCommand, Reduction};
use crate::isa::alu::AluOp;
use crate::isa::dma::Options;
use crate::isa::gpsimd::affine::Affine;

/// The argument, held under another name.
pub fn renamed<T>(argument: T) -> T {
    argument
}

/// A reduction by a command that starts from no given values; sums where no operator is given.
pub fn reduction(op: impl Into<Option<AluOp>>, command: values::Command, result: values::MaybeTile) -> Reduction {
    Reduction::new(op.into().unwrap_or(AluOp::Add), command, result)
}

/// A reduction that starts anew and writes its result.
pub fn reset_reduction(op: values::MaybeOp, result: values::MaybeTile) -> Reduction {
    reduction(op, ReduceCommand::ResetReduce, result)
}

/// A sum.
pub fn running_sum(command: values::Command, initial: values::Scalar, result: values::MaybeTile) -> Reduction {
    whole_reduction(AluOp::Add, command, initial, result, false)
}

/// A reduction with all that may be said of one.
pub fn whole_reduction(
    op: values::Op,
    command: values::Command,
    initial: ScalarOperand,
    result: values::MaybeTile,
    negate: values::Flag,
) -> Reduction {
    Reduction { op, command, initial, result, negate }
}

/// A function of an element's place.
pub fn affine(
    pattern: values::Pairs,
    offset: values::IntegerOrRegister,
    channel_multiplier: values::Integer,
) -> Affine {
    Affine { pattern, offset, channel_multiplier }
}

/// How data are moved.
pub fn options(priority: values::Priority, mode: values::DgeMode, out_of_bounds: values::OobMode) -> Options {
    Options { priority, mode, out_of_bounds, ring: 0 }
}

/// Moved as the model chooses, but for rows outside the tensor.
pub fn rows_outside(out_of_bounds: values::OobMode) -> Options {
    Options { out_of_bounds, ..Options::default() }
}
