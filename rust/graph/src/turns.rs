//! How often a loop turns, where that depends on nothing but what is known before the run.

use std::collections::BTreeSet;

use trn3_numerics::check_interrupt;

use crate::error::{GraphError, Result};
use crate::execute::ByOperation;
use crate::graph::{Body, Execution, Graph};
use crate::operations::While;
use crate::options::ExecutionOptions;
use crate::tensor::Tensor;

/// Turns that are counted; more are taken for a loop without end **(choice)**.
const MOST_TURNS: u64 = 1 << 24;

/// The carries that some of a body's outputs depend on.
fn needed(body: &Body, outputs: impl IntoIterator<Item = usize>) -> (BTreeSet<usize>, Vec<bool>) {
    let mut is_needed = vec![false; body.types().len()];
    outputs.into_iter().for_each(|output| is_needed[body.outputs()[output] as usize] = true);
    for node in body.nodes().iter().rev() {
        if node.result_numbers().any(|value| is_needed[value as usize]) {
            node.operands.iter().for_each(|&value| is_needed[value as usize] = true);
        }
    }
    let inputs = (0..body.inputs().len()).filter(|&input| is_needed[input]).collect();
    (inputs, is_needed)
}

/// The part of a body that makes some of its outputs of some of its inputs.
fn slice(body: &Body, carries: &[usize], outputs: &[usize]) -> Result<Body> {
    let (_, is_needed) = needed(body, outputs.iter().copied());
    let mut numbers = vec![u32::MAX; body.types().len()];
    for (number, &carry) in (0u32..).zip(carries) {
        numbers[carry] = number;
    }
    let mut made = Body::new(carries.iter().map(|&carry| body.types()[carry].clone()).collect());
    for node in body.nodes() {
        if !node.result_numbers().any(|value| is_needed[value as usize]) {
            continue;
        }
        let operands = node.operands.iter().map(|&value| numbers[value as usize]).collect();
        let kinds = node.result_numbers().map(|value| body.types()[value as usize].clone()).collect();
        let first = made.push(node.operation.clone(), operands, kinds, node.location)?;
        node.result_numbers().zip(first..).for_each(|(old, new)| numbers[old as usize] = new);
    }
    made.set_outputs(outputs.iter().map(|&output| numbers[body.outputs()[output] as usize]).collect())?;
    Ok(made)
}

/// Turns of a loop whose carries start like this, as far as they are known: the part of condition and body that decides
/// is run by operation.
///
/// # Errors
/// [`GraphError::Format`] where it depends on what is not known, and beyond 2^24 turns; what operations refuse.
pub(crate) fn turns(
    graph: &Graph,
    operation: &While,
    initial: &[Option<Tensor>],
    options: &ExecutionOptions,
) -> Result<u64> {
    let (mut carries, _) = needed(&operation.condition, [0]);
    loop {
        let (more, _) = needed(&operation.body, carries.iter().copied());
        let before = carries.len();
        carries.extend(more);
        if carries.len() == before {
            break;
        }
    }
    let carries: Vec<usize> = carries.into_iter().collect();
    let unknown = || {
        let text = "turns as often as a value says that a run without values does not know; allowed: a count that \
                    follows from constants";
        GraphError::Format(text.to_owned())
    };
    let values: Option<Vec<Tensor>> = carries.iter().map(|&carry| initial[carry].clone()).collect();
    let mut values = values.ok_or_else(unknown)?;
    let condition = slice(&operation.condition, &carries, &[0])?;
    let body = slice(&operation.body, &carries, &carries)?;
    let execution = ByOperation::new(options, &graph.locations);
    for turns in 0..=MOST_TURNS {
        check_interrupt()?;
        if execution.run(&condition, values.clone())?[0].bytes() == [0] {
            return Ok(turns);
        }
        values = execution.run(&body, values)?;
    }
    Err(GraphError::Format(format!("turns more than {MOST_TURNS} times")))
}
