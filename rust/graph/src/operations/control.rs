//! Loops and cases.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use trn3_machine::dtype::DType;
use trn3_numerics::check_interrupt;

use crate::error::{Reason, Result};
use crate::fits::exactly;
use crate::graph::{Body, Execution, TensorOperation};
use crate::row::{OperationRow, Read, Surroundings, attributes};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// A body run again while a condition on its own values holds: `while(carries...)`, whose results are the last ones.
#[derive(Clone, Debug)]
pub struct While {
    /// Of the carries, whether to go on: one bool.
    pub condition: Body,
    /// Of the carries, the next ones.
    pub body: Body,
}

/// Refuses bodies that do not take these or give those.
fn check_body(name: &str, body: &Body, takes: &[&TensorType], gives: &[&TensorType]) -> Reason {
    let listed = |kinds: &[&TensorType]| kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let inputs: Vec<&TensorType> = body.inputs().iter().collect();
    if inputs != takes {
        return Err(format!("{name} takes ({}); it is given ({})", listed(&inputs), listed(takes)));
    }
    let outputs = body.output_types();
    if outputs != gives {
        return Err(format!("{name} gives ({}); it has to give ({})", listed(&outputs), listed(gives)));
    }
    Ok(())
}

impl TensorOperation for While {
    fn name(&self) -> &'static str {
        "while"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let truth = TensorType::new(DType::Bool, &[]);
        check_body("the condition", &self.condition, operands, &[&truth])?;
        check_body("the body", &self.body, operands, results)?;
        if operands == results { Ok(()) } else { Err("the results are not of the operands' types".to_owned()) }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], execution: &dyn Execution) -> Result<Vec<Tensor>> {
        self.execute_owned(operands.iter().copied().cloned().collect(), results, execution)
    }

    fn execute_owned(
        &self,
        mut carries: Vec<Tensor>,
        _: &[TensorType],
        execution: &dyn Execution,
    ) -> Result<Vec<Tensor>> {
        loop {
            check_interrupt()?;
            let goes_on = execution.run(&self.condition, carries.clone())?;
            if goes_on[0].bytes() == [0] {
                return Ok(carries);
            }
            carries = execution.run(&self.body, carries)?;
        }
    }

    fn bodies(&self) -> Vec<&Body> {
        vec![&self.condition, &self.body]
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// One of several bodies: `case(index, operands...)`, each branch of the operands; an index outside takes the last.
#[derive(Clone, Debug)]
pub struct Case {
    /// The bodies.
    pub branches: Vec<Body>,
}

impl TensorOperation for Case {
    fn name(&self) -> &'static str {
        "case"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let Some((index, given)) = operands.split_first() else { return Err("no index came".to_owned()) };
        exactly::<_, 1>("indices", &[*index])?;
        if **index != TensorType::new(DType::Int32, &[]) {
            return Err(format!("the index is {index}; allowed: int32[]"));
        }
        if self.branches.is_empty() {
            return Err("there are no branches; allowed: one or more".to_owned());
        }
        let check = |(number, body)| check_body(&format!("branch {number}"), body, given, results);
        self.branches.iter().enumerate().try_for_each(check)
    }

    fn execute(&self, operands: &[&Tensor], _: &[TensorType], execution: &dyn Execution) -> Result<Vec<Tensor>> {
        let index = usize::try_from(operands[0].integers()?[0]).unwrap_or(usize::MAX).min(self.branches.len() - 1);
        execution.run(&self.branches[index], operands[1..].iter().copied().cloned().collect())
    }

    fn bodies(&self) -> Vec<&Body> {
        self.branches.iter().collect()
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhileText {
    condition: Value,
    body: Value,
}

fn read_while(surroundings: &dyn Surroundings, _: &'static str, map: Map<String, Value>) -> Read {
    let text: WhileText = attributes(map)?;
    Ok(Arc::new(While { condition: surroundings.body(text.condition)?, body: surroundings.body(text.body)? }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseText {
    branches: Vec<Value>,
}

fn read_case(surroundings: &dyn Surroundings, _: &'static str, map: Map<String, Value>) -> Read {
    let text: CaseText = attributes(map)?;
    let branches: Result<Vec<Body>> = text.branches.into_iter().map(|body| surroundings.body(body)).collect();
    Ok(Arc::new(Case { branches: branches? }))
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[
    OperationRow {
        name: "while",
        jax: &["stablehlo.while"],
        aten: &["higher_order.while_loop"],
        template: "the body's instructions, once a turn; the condition is read by the sequencer",
        accuracy: "that of the body",
        read: read_while,
    },
    OperationRow {
        name: "case",
        jax: &["stablehlo.case", "stablehlo.if"],
        aten: &["higher_order.cond"],
        template: "the branch's instructions; the index is read by the sequencer",
        accuracy: "that of the branch",
        read: read_case,
    },
];
