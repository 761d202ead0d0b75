//! Values that no operand gives.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Reason, Result};
use crate::fits::{check_count, check_same, exactly};
use crate::graph::{Execution, TensorOperation};
use crate::row::{OperationRow, Read, Surroundings, attributes, plain};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// An array that came with the graph.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Its elements.
    pub value: Tensor,
}

impl TensorOperation for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        check_count("operands", operands.len(), 0)?;
        let [result] = exactly("results", results)?;
        check_same("the result", result, "the array", self.value.kind())
    }

    fn execute(&self, _: &[&Tensor], _: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        Ok(vec![self.value.clone()])
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantText {
    data: usize,
}

fn read_constant(surroundings: &dyn Surroundings, _: &'static str, map: Map<String, Value>) -> Read {
    let text: ConstantText = attributes(map)?;
    Ok(Arc::new(Constant { value: surroundings.data(text.data)?.clone() }))
}

/// 0, 1, 2 ... along one axis.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IotaOperation {
    /// The axis.
    pub dimension: usize,
}

impl TensorOperation for IotaOperation {
    fn name(&self) -> &'static str {
        "iota"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        check_count("operands", operands.len(), 0)?;
        let [result] = exactly("results", results)?;
        if self.dimension >= result.rank() || !(result.is_float() || result.is_integer()) {
            return Err(format!("dimension is {} of {result}; allowed: an axis of floats or integers", self.dimension));
        }
        Ok(())
    }

    fn execute(&self, _: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let kind = &results[0];
        let inner: usize = kind.shape[self.dimension + 1..].iter().product();
        let length = kind.shape[self.dimension];
        let numbers = (0..kind.elements()).map(|place| place / inner.max(1) % length.max(1));
        let made = if kind.is_float() {
            Tensor::from_floats(kind.clone(), numbers.map(|number| number as f32).collect())?
        } else {
            Tensor::from_integers(kind.clone(), numbers.map(|number| number as i64))?
        };
        Ok(vec![made])
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[
    OperationRow {
        name: "constant",
        jax: &["stablehlo.constant"],
        aten: &["full", "scalar_tensor", "lift_fresh_copy"],
        template: "a tensor in HBM",
        accuracy: "exact",
        read: read_constant,
    },
    OperationRow {
        name: "iota",
        jax: &["stablehlo.iota"],
        aten: &["arange"],
        template: "worked out before the run, a tensor in HBM",
        accuracy: "rounded to nearest",
        read: plain::<IotaOperation>,
    },
];
