//! Comparisons.

use serde::Deserialize;
use trn3_machine::dtype::DType;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::view::View;

use crate::emitter::Emitter;
use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, TensorOperation};
use crate::row::{OperationRow, plain};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Equal.
    Eq,
    /// Not equal; true where either is NaN.
    Ne,
    /// At least.
    Ge,
    /// Greater.
    Gt,
    /// At most.
    Le,
    /// Less.
    Lt,
}

impl Direction {
    /// The operator of engines.
    fn operator(self) -> AluOp {
        match self {
            Direction::Eq => AluOp::Equal,
            Direction::Ne => AluOp::NotEqual,
            Direction::Ge => AluOp::GreaterEqual,
            Direction::Gt => AluOp::Greater,
            Direction::Le => AluOp::LessEqual,
            Direction::Lt => AluOp::Less,
        }
    }

    /// Whether it holds of two values.
    #[inline(always)]
    pub fn holds<T: PartialOrd>(self, x: T, y: T) -> bool {
        match self {
            Direction::Eq => x == y,
            Direction::Ne => x != y,
            Direction::Ge => x >= y,
            Direction::Gt => x > y,
            Direction::Le => x <= y,
            Direction::Lt => x < y,
        }
    }
}

/// Truth values of a comparison, element by element. With NaN all are false but `ne`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// What is asked.
    pub direction: Direction,
}

impl TensorOperation for Compare {
    fn name(&self) -> &'static str {
        "compare"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x, y] = exactly("operands", operands)?;
        let [result] = exactly("results", results)?;
        check_same("lhs", x, "rhs", y)?;
        if !(x.is_float() || x.dtype.is_integer()) {
            return Err(format!("the operands are {x}; allowed: floats, integers, bool"));
        }
        check_same("the result", result, "the operands' shape as bool", &x.with_dtype(DType::Bool))
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let (x, y, kind) = (operands[0], operands[1], results[0].clone());
        let truth = if x.kind().is_float() {
            let (x, y) = (x.floats()?, y.floats()?);
            let pairs = x.iter().zip(y.iter());
            Tensor::from_integers(kind, pairs.map(|(x, y)| i64::from(self.direction.holds(x, y))))?
        } else {
            let pairs = x.integers()?.into_iter().zip(y.integers()?);
            Tensor::from_integers(kind, pairs.map(|(x, y)| i64::from(self.direction.holds(x, y))))?
        };
        Ok(vec![truth])
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn emit_tile(&self, emitter: &mut Emitter, operands: &[View], result: &View) -> Result<bool> {
        let (x, y) = (&operands[0], &operands[1]);
        if x.dtype.is_integer() && x.dtype.size() == 4 {
            // Exact on GpSimdE alone, where all three tiles are of 32 bits.
            let words = emitter.like(x, x.dtype)?;
            emitter.pair(&words, x, y, self.direction.operator())?;
            emitter.cast(result, &words)?;
        } else {
            emitter.pair(result, x, y, self.direction.operator())?;
        }
        Ok(true)
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "compare",
    jax: &["stablehlo.compare"],
    aten: &["eq", "ne", "ge", "gt", "le", "lt"],
    template: "tensor_tensor equal, not_equal, greater_equal, greater, less_equal, less",
    accuracy: "exact",
    read: plain::<Compare>,
}];
