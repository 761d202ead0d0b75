//! Choices between elements.

use serde::Deserialize;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::select::{CopySource, TensorCopyPredicated};
use trn3_machine::view::View;

use crate::emitter::Emitter;
use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, TensorOperation};
use crate::row::{OperationRow, plain};
use crate::tensor::{Tensor, Words, on_words};
use crate::tensor_type::TensorType;

/// Where a predicate holds the one, else the other: `select(predicate, on_true, on_false)`; the predicate may be a scalar.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Select {}

impl TensorOperation for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [predicate, on_true, on_false] = exactly("operands", operands)?;
        let [result] = exactly("results", results)?;
        check_same("on_true", on_true, "on_false", on_false)?;
        check_same("the result", result, "on_true", on_true)?;
        if predicate.is_bool() && (predicate.rank() == 0 || predicate.shape == on_true.shape) {
            return Ok(());
        }
        Err(format!("the predicate is {predicate}; allowed: bool, of shape [] or {:?}", on_true.shape))
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let [predicate, on_true, on_false] = [operands[0], operands[1], operands[2]];
        let Words::One(truth) = predicate.words() else { return Ok(vec![on_false.clone()]) };
        if predicate.kind().rank() == 0 {
            return Ok(vec![if truth[0] != 0 { on_true.clone() } else { on_false.clone() }]);
        }
        fn chosen<T: Copy>(truth: &[u8], on_true: &[T], on_false: &[T]) -> Vec<T> {
            truth
                .iter()
                .zip(on_true.iter().zip(on_false))
                .map(|(&truth, (&x, &y))| if truth != 0 { x } else { y })
                .collect()
        }
        let words = match (on_true.words(), on_false.words()) {
            (Words::One(x), Words::One(y)) => Words::One(chosen(truth, x, y).into()),
            (Words::Two(x), Words::Two(y)) => Words::Two(chosen(truth, x, y).into()),
            (Words::Four(x), Words::Four(y)) => Words::Four(chosen(truth, x, y).into()),
            (words, _) => on_words!(words, words => words.to_vec()),
        };
        Ok(vec![Tensor::new(results[0].clone(), words)?])
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn emit_tile(&self, emitter: &mut Emitter, operands: &[View], result: &View) -> Result<bool> {
        emitter.cast(result, &operands[2])?;
        emitter.issue(TensorCopyPredicated {
            dst: result.clone(),
            src: CopySource::Tile(operands[1].clone()),
            predicate: operands[0].clone(),
            reverse_pred: false,
        })?;
        Ok(true)
    }
}

/// Elements brought between two bounds: `clamp(low, operand, high)`; bounds may be scalars.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clamp {}

impl TensorOperation for Clamp {
    fn name(&self) -> &'static str {
        "clamp"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [low, operand, high] = exactly("operands", operands)?;
        let [result] = exactly("results", results)?;
        check_same("the result", result, "the operand", operand)?;
        for (name, bound) in [("low", low), ("high", high)] {
            if bound.dtype != operand.dtype || !(bound.rank() == 0 || bound.shape == operand.shape) {
                return Err(format!(
                    "{name} is {bound} for an operand of {operand}; allowed: that type, or a scalar of it"
                ));
            }
        }
        if operand.is_float() || operand.is_integer() {
            Ok(())
        } else {
            Err(format!("the operand is {operand}; allowed: floats, integers"))
        }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        fn each<T: Copy, R>(low: &[T], x: &[T], high: &[T], clamp: impl Fn(T, T, T) -> R) -> Vec<R> {
            let at = |bound: &[T], place: usize| bound[if bound.len() == 1 { 0 } else { place }];
            x.iter().enumerate().map(|(place, &x)| clamp(at(low, place), x, at(high, place))).collect()
        }
        let kind = results[0].clone();
        if kind.is_float() {
            let [low, x, high] = [operands[0].floats()?, operands[1].floats()?, operands[2].floats()?];
            let clamp = |low, x, high| AluOp::Minimum.apply(AluOp::Maximum.apply(low, x), high);
            return Ok(vec![Tensor::from_floats(kind, each(&low, &x, &high, clamp))?]);
        }
        let [low, x, high] = [operands[0].integers()?, operands[1].integers()?, operands[2].integers()?];
        Ok(vec![Tensor::from_integers(kind, each(&low, &x, &high, |low, x: i64, high| x.max(low).min(high)))?])
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn emit_tile(&self, emitter: &mut Emitter, operands: &[View], result: &View) -> Result<bool> {
        emitter.pair(result, &operands[0], &operands[1], AluOp::Maximum)?;
        emitter.pair(result, result, &operands[2], AluOp::Minimum)?;
        Ok(true)
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[
    OperationRow {
        name: "select",
        jax: &["stablehlo.select"],
        aten: &["where"],
        template: "tensor_copy_predicated",
        accuracy: "exact",
        read: plain::<Select>,
    },
    OperationRow {
        name: "clamp",
        jax: &["stablehlo.clamp"],
        aten: &["clamp"],
        template: "tensor_tensor maximum and minimum",
        accuracy: "exact",
        read: plain::<Clamp>,
    },
];
