//! Structured sparsity of dense tensors.

use serde::Deserialize;
use trn3_numerics::SparsityPattern;

use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, TensorOperation};
use crate::mx_product::pruned_tensor;
use crate::row::{OperationRow, plain, text};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// The largest magnitudes of each group along an axis, and zeros for the others: `prune(x)`. Of equal ones the first stay;
/// NaN counts as the largest.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prune {
    /// How many of how many stay, as "4:16".
    #[serde(deserialize_with = "text::parsed")]
    pub pattern: SparsityPattern,
    /// Along which axis groups lie.
    pub axis: usize,
}

impl TensorOperation for Prune {
    fn name(&self) -> &'static str {
        "prune"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        if !x.is_float() {
            return Err(format!("{x} came; allowed: floats"));
        }
        let group = self.pattern.group();
        if !x.shape.get(self.axis).is_some_and(|length| length.is_multiple_of(group)) {
            return Err(format!(
                "{x} came, for axis {}; allowed: an axis whose length is a multiple of {group}",
                self.axis
            ));
        }
        check_same("the result", y, "the operand", x)
    }

    fn execute(&self, operands: &[&Tensor], _: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        Ok(vec![pruned_tensor(operands[0], self.pattern, self.axis)?])
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "prune",
    jax: &[],
    aten: &["trn3.prune"],
    template: "a function of GpSimdE",
    accuracy: "exact",
    read: plain::<Prune>,
}];
