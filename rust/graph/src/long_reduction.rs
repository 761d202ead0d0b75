//! Reductions of whole numbers that do not fit on chip: halves, joined.

use std::sync::Arc;

use trn3_machine::view::View;

use crate::emitter::{Emitter, stored};
use crate::error::Result;
use crate::fallback::emit_whole;
use crate::graph::TensorOperation;
use crate::operations::{Reduce, ReduceFunction};
use crate::options::ExecutionOptions;
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// As [`emit_whole`], of a reduction along whose kept axes no cut helps: whole numbers join in any order.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_long_reduction(
    emitter: &mut Emitter,
    reduce: &Reduce,
    (x, made): (&TensorType, &TensorType),
    (operand, init): (&View, &View),
    result: &View,
    options: &ExecutionOptions,
) -> Result<bool> {
    let scalar = x.with_shape(&[]);
    let whole: Arc<dyn TensorOperation> = Arc::new(reduce.clone());
    let operands = [operand.clone(), init.clone()];
    let (kinds, results) = ([x, &scalar], [made.clone()]);
    if emit_whole(emitter, &whole, (&kinds, &results), &operands, std::slice::from_ref(result), options)? {
        return Ok(true);
    }
    let Some(&axis) = reduce.dimensions.iter().max_by_key(|&&axis| x.shape[axis]).filter(|&&axis| x.shape[axis] > 1)
    else {
        return Ok(false);
    };
    let other = match reduce.function {
        ReduceFunction::Add | ReduceFunction::Xor => number(emitter, &scalar, 0)?,
        ReduceFunction::Multiply => number(emitter, &scalar, 1)?,
        // What joins twice is as good as what joins once.
        _ => init.clone(),
    };
    let both = made.with_shape(&[&[2], &made.shape[..]].concat());
    let parts = emitter.hbm("halves", &both)?;
    let middle = x.shape[axis].div_ceil(2);
    for (place, (start, length)) in [(0, middle), (middle, x.shape[axis] - middle)].into_iter().enumerate() {
        let mut half = x.clone();
        half.shape[axis] = length;
        let source = operand.slice(axis, start as i64, (start + length) as i64, 1)?;
        let into = View { shape: result.shape.clone(), strides: result.strides.clone(), ..parts.clone() };
        let into = View { offset: (place * made.elements()) as i64, ..into };
        let start = if place == 0 { init } else { &other };
        if !emit_long_reduction(emitter, reduce, (&half, made), (&source, start), &into, options)? {
            return Ok(false);
        }
    }
    let join = Reduce { dimensions: vec![0], function: reduce.function };
    emit_long_reduction(emitter, &join, (&both, made), (&parts, &other), result, options)
}

fn number(emitter: &mut Emitter, kind: &TensorType, value: i64) -> Result<View> {
    let tensor = Tensor::from_integers(kind.with_dtype(stored(kind.dtype)), [value])?;
    emitter.given("neutral", kind, Some(&tensor))
}
