//! Calls of kernels that the user wrote.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use trn3_machine::isa::custom::instruction_name;
use trn3_machine::view::View;

use crate::emitter::Emitter;
use crate::error::{GraphError, Reason, Result};
use crate::graph::{Execution, TensorOperation};
use crate::kernel::{GraphKernel, KernelCall};
use crate::row::{OperationRow, Read, Surroundings, attributes};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// A call of a kernel: `custom_call(operands...)`, whose results are what the kernel gives, of the types written down.
#[derive(Clone, Debug)]
pub struct CustomCall {
    /// The kernel.
    pub kernel: Arc<dyn GraphKernel>,
}

/// The kernel's results, held to the types that the graph has for them.
fn called(kernel: &dyn GraphKernel, operands: &[&Tensor], results: &[TensorType]) -> Result<Vec<Tensor>> {
    let made = kernel.call(operands, results)?;
    let found: Vec<&TensorType> = made.iter().map(Tensor::kind).collect();
    if found.iter().copied().eq(results) {
        return Ok(made);
    }
    let listed = |kinds: Vec<&TensorType>| kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (found, wanted) = (listed(found), listed(results.iter().collect()));
    Err(GraphError::Argument(format!("{} gave ({found}); the graph has ({wanted})", kernel.name())))
}

impl TensorOperation for CustomCall {
    fn name(&self) -> &'static str {
        "custom_call"
    }

    fn check(&self, _: &[&TensorType], results: &[&TensorType]) -> Reason {
        if results.is_empty() { Err("has no results; allowed: one or more".to_owned()) } else { Ok(()) }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        called(&*self.kernel, operands, results)
    }

    /// Each call is a run of its own, whatever is known of what it takes.
    fn has_effect(&self) -> bool {
        true
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

impl CustomCall {
    /// Issues the kernel's own run: from tensors in HBM to tensors in HBM.
    ///
    /// # Errors
    /// What the kernel and the machine refuse.
    pub(crate) fn issue(
        &self,
        emitter: &mut Emitter,
        (kinds, made): (&[&TensorType], &[TensorType]),
        operands: &[View],
        results: &[View],
    ) -> Result<()> {
        let kinds: Vec<TensorType> = kinds.iter().map(|kind| (*kind).clone()).collect();
        let time = self.kernel.time(&kinds)?;
        let (kernel, made) = (Arc::clone(&self.kernel), made.to_vec());
        let compute = move |inputs: &[Vec<u8>]| {
            let tensors = inputs.iter().zip(&kinds).map(|(bytes, kind)| Tensor::from_bytes(kind.clone(), bytes));
            let tensors = tensors.collect::<Result<Vec<Tensor>>>()?;
            called(&*kernel, &tensors.iter().collect::<Vec<_>>(), &made)
        };
        emitter.issue(KernelCall {
            name: instruction_name(self.kernel.name()),
            inputs: operands.to_vec(),
            outputs: results.to_vec(),
            time,
            compute: Arc::new(compute),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallText {
    kernel: usize,
}

fn read(surroundings: &dyn Surroundings, _: &'static str, map: Map<String, Value>) -> Read {
    let text: CallText = attributes(map)?;
    Ok(Arc::new(CustomCall { kernel: surroundings.kernel(text.kernel)? }))
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "custom_call",
    jax: &["stablehlo.custom_call"],
    aten: &[],
    template: "the kernel's own run, whose time is composed",
    accuracy: "that of the kernel",
    read,
}];
