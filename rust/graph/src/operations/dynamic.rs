//! Slices whose place is data.

use serde::Deserialize;
use trn3_machine::view::View;

use crate::emitter::Emitter;
use crate::error::{GraphError, Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, TensorOperation};
use crate::options::ExecutionOptions;
use crate::pieces::emit_copied;
use crate::row::{OperationRow, plain};
use crate::strided::{Block, pick, row_major};
use crate::tensor::{Tensor, change_words};
use crate::tensor_type::TensorType;

/// Refuses starts that are not one whole number an axis.
fn check_starts(starts: &[&TensorType], operand: &TensorType) -> Reason {
    if starts.len() != operand.rank() {
        return Err(format!("{} starts came for {operand}; each axis has one", starts.len()));
    }
    match starts.iter().find(|start| start.rank() != 0 || !start.is_integer()) {
        Some(start) => Err(format!("a start is {start}; allowed: integers of shape []")),
        None => Ok(()),
    }
}

/// Refuses a part that reaches beyond an operand of as many axes.
fn check_part(name: &str, part: &[usize], operand: &TensorType) -> Reason {
    let is_inside = part.len() == operand.rank() && part.iter().zip(&operand.shape).all(|(part, whole)| part <= whole);
    if is_inside {
        Ok(())
    } else {
        Err(format!("{name} is {part:?} of {operand}; allowed: up to the length of each axis"))
    }
}

/// Where the part begins: starts that it would not fit behind are moved until it does.
fn place(starts: &[&Tensor], part: &[usize], whole: &[usize]) -> Result<isize> {
    let mut place = 0;
    for (axis, step) in row_major(whole).into_iter().enumerate() {
        let start = starts[axis].integers()?[0].clamp(0, (whole[axis] - part[axis]) as i64);
        place += start as isize * step;
    }
    Ok(place)
}

/// The part of a tensor in memory. The sequencer has the starts when it gets there; in a run without values, those that it
/// does not know are 0 **(choice)**: a transfer takes as long from anywhere.
fn placed(emitter: &mut Emitter, whole: &View, starts: &[View], part: &[usize]) -> Result<View> {
    let mut view = whole.clone();
    for (axis, start) in starts.iter().enumerate() {
        let kind = TensorType::new(start.dtype, &[]);
        let known = emitter.value(start, &kind)?;
        let start = known.map_or(Ok(0), |value| value.integers().map(|value| value[0]))?;
        view.offset += start.clamp(0, (whole.shape[axis] - part[axis]) as i64) * whole.strides[axis];
        view.shape[axis] = part[axis];
    }
    Ok(view)
}

/// A part of the operand: `dynamic_slice(x, starts...)`, one start an axis. Starts are moved so that the part lies inside.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamicSlice {
    /// Lengths of the part.
    pub slice_sizes: Vec<usize>,
}

impl TensorOperation for DynamicSlice {
    fn name(&self) -> &'static str {
        "dynamic_slice"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let Some((x, starts)) = operands.split_first() else { return Err("no operand came".to_owned()) };
        let [y] = exactly("results", results)?;
        check_starts(starts, x)?;
        check_part("slice_sizes", &self.slice_sizes, x)?;
        check_same("the result", y, "the slice", &x.with_shape(&self.slice_sizes))
    }

    fn execute(&self, operands: &[&Tensor], _: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let x = operands[0];
        let offset = place(&operands[1..], &self.slice_sizes, x.shape())?;
        Ok(vec![pick(x, &self.slice_sizes, &row_major(x.shape()), offset)?])
    }

    fn emit(&self, emitter: &mut Emitter, operands: &[View], results: &[View], _: &ExecutionOptions) -> Result<bool> {
        let part = placed(emitter, &operands[0], &operands[1..], &self.slice_sizes)?;
        emitter.copy(&results[0], &part)?;
        Ok(true)
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// The operand with a part replaced: `dynamic_update_slice(x, update, starts...)`. Starts are moved so that the part lies
/// inside.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamicUpdateSlice {}

impl TensorOperation for DynamicUpdateSlice {
    fn name(&self) -> &'static str {
        "dynamic_update_slice"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x, update, starts @ ..] = operands else {
            return Err(format!("{} operands came; allowed: x, update, starts", operands.len()));
        };
        let [y] = exactly("results", results)?;
        check_starts(starts, x)?;
        check_part("the update's shape", &update.shape, x)?;
        check_same("the update", update, "a part of the operand", &x.with_shape(&update.shape))?;
        check_same("the result", y, "the operand", x)
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], execution: &dyn Execution) -> Result<Vec<Tensor>> {
        self.execute_owned(operands.iter().copied().cloned().collect(), results, execution)
    }

    /// Where nobody else holds the operand, its own memory is written: a loop that fills an array row by row copies none.
    fn execute_owned(&self, mut operands: Vec<Tensor>, _: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let rest = operands.split_off(1);
        let (Some(mut x), Some((update, starts))) = (operands.pop(), rest.split_first()) else {
            return Err(GraphError::Argument("an operand and an update have to come".to_owned()));
        };
        let starts: Vec<&Tensor> = starts.iter().collect();
        let start = place(&starts, update.shape(), x.shape())?;
        let block = Block::new(update.shape(), &row_major(x.shape()));
        change_words!(x.words_mut(), update.words(), (x, update) => block.join(x, start, update, |_, value| value));
        Ok(vec![x])
    }

    fn emit(&self, emitter: &mut Emitter, operands: &[View], results: &[View], _: &ExecutionOptions) -> Result<bool> {
        let [x, update, starts @ ..] = operands else { return Ok(false) };
        emit_copied(emitter, &results[0], x)?;
        let part = placed(emitter, &results[0], starts, &update.shape)?;
        emitter.copy(&part, update)?;
        Ok(true)
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[
    OperationRow {
        name: "dynamic_slice",
        jax: &["stablehlo.dynamic_slice"],
        aten: &[],
        template: "dma_copy from where the starts say",
        accuracy: "exact",
        read: plain::<DynamicSlice>,
    },
    OperationRow {
        name: "dynamic_update_slice",
        jax: &["stablehlo.dynamic_update_slice"],
        aten: &["slice_scatter", "select_scatter"],
        template: "dma_copy, and one to where the starts say",
        accuracy: "exact",
        read: plain::<DynamicUpdateSlice>,
    },
];
