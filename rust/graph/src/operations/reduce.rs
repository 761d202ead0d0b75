//! Reductions over axes.

use std::borrow::Cow;

use serde::Deserialize;
use trn3_machine::dtype::DType;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::view::View;

use super::join_order::{JoinOrder, join_columns, join_long_rows, join_rows};
use crate::emitter::Emitter;
use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, OperationCut, TensorOperation};
use crate::options::ExecutionOptions;
use crate::reduction_tiles::emit_reduction;
use crate::row::{OperationRow, plain};
use crate::strided::{are_axes, permuted};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// What elements are joined by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReduceFunction {
    /// Sum.
    Add,
    /// Product.
    Multiply,
    /// The largest; NaN if any is.
    Maximum,
    /// The smallest; NaN if any is.
    Minimum,
    /// Bits that all have.
    And,
    /// Bits that any has.
    Or,
    /// Bits that an odd number has.
    Xor,
}

impl ReduceFunction {
    /// The operator of VectorE.
    pub fn operator(self) -> AluOp {
        match self {
            ReduceFunction::Add => AluOp::Add,
            ReduceFunction::Multiply => AluOp::Multiply,
            ReduceFunction::Maximum => AluOp::Maximum,
            ReduceFunction::Minimum => AluOp::Minimum,
            ReduceFunction::And => AluOp::BitwiseAnd,
            ReduceFunction::Or => AluOp::BitwiseOr,
            ReduceFunction::Xor => AluOp::BitwiseXor,
        }
    }

    /// Whether elements of this type may be joined.
    pub(crate) fn takes(self, kind: &TensorType) -> bool {
        let is_bits = matches!(self, ReduceFunction::And | ReduceFunction::Or | ReduceFunction::Xor);
        kind.is_float() && !is_bits || kind.is_integer() || kind.is_bool()
    }

    /// One step on whole numbers; the caller wraps. A sum of truth values is `or`, a product `and`.
    pub(crate) fn of_integers(self, kind: &TensorType, x: i64, y: i64) -> i64 {
        match self {
            ReduceFunction::Add if kind.is_bool() => x | y,
            ReduceFunction::Add => x.wrapping_add(y),
            ReduceFunction::Multiply => x.wrapping_mul(y),
            ReduceFunction::Maximum => x.max(y),
            ReduceFunction::Minimum => x.min(y),
            ReduceFunction::And => x & y,
            ReduceFunction::Or => x | y,
            ReduceFunction::Xor => x ^ y,
        }
    }
}

/// Axes joined to one element each: `reduce(x, init)`. Floats are joined in float32 from the operator's identity, and once
/// with `init` at the end.
///
/// First the innermost axes, where they go: each row in ascending order of places, runs of 4,096 one after another; of
/// fewer than 16 rows longer than that, each goes by 128 lanes of consecutive elements, of which the last has fewer. Then
/// other axes that go: each column by 128 lanes of as many consecutive elements as all can have. Sums are those of the
/// array, a chain of the lanes' first elements, one of the second ones, and so on; others join lane by lane. What is left
/// over comes last **(choice)**. What is largest or smallest is the same in any order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reduce {
    /// Axes that go.
    pub dimensions: Vec<usize>,
    /// What joins.
    pub function: ReduceFunction,
}

/// `x` with the reduced axes last, as rows: how many rows, how long.
fn rows_of(x: &Tensor, dimensions: &[usize]) -> Result<(Tensor, usize, usize)> {
    let mut order: Vec<usize> = (0..x.shape().len()).filter(|axis| !dimensions.contains(axis)).collect();
    let count = order.iter().map(|&axis| x.shape()[axis]).product();
    let mut reduced = dimensions.to_vec();
    reduced.sort_unstable();
    let length = reduced.iter().map(|&axis| x.shape()[axis]).product();
    order.extend(reduced);
    Ok((permuted(x, &order)?, count, length))
}

impl Reduce {
    fn of_floats(&self, x: &Tensor, init: f32, count: usize) -> Result<Vec<f32>> {
        fn joined(
            (order, x, is_sum): (&JoinOrder, &Tensor, bool),
            operator: AluOp,
            join: impl Fn(f32, f32) -> f32 + Copy + Sync,
        ) -> Result<Vec<f32>> {
            let (values, identity) = (x.floats()?, operator.identity());
            let rows = match order.lane_width() {
                Some(width) => Cow::Owned(join_long_rows(&values, order.length, width, identity, join)),
                None if order.length == 1 && order.columns.is_some() => values,
                None => Cow::Owned(join_rows(&values, order.length, identity, join)),
            };
            let Some(columns) = &order.columns else { return Ok(rows.into_owned()) };
            let shape = &x.shape()[..order.tail];
            let lengths = columns.lengths(shape);
            let permutation = columns.permutation();
            if permutation.is_sorted() {
                return join_columns(&rows, lengths, identity, is_sum, join);
            }
            let rows = Tensor::from_floats(TensorType::new(DType::Float32, shape), rows.into_owned())?;
            join_columns(&permuted(&rows, &permutation)?.floats()?, lengths, identity, is_sum, join)
        }
        let operator = self.function.operator();
        if x.kind().elements() == 0 {
            return Ok(vec![operator.apply(init, operator.identity()); count]);
        }
        let order = JoinOrder::new(x.shape(), &self.dimensions);
        let what = (&order, x, self.function == ReduceFunction::Add);
        // A step of its own for each operator: the choice is made outside of the loop.
        let mut out = match self.function {
            ReduceFunction::Add => joined(what, operator, |x, y| AluOp::Add.apply(x, y))?,
            ReduceFunction::Multiply => joined(what, operator, |x, y| AluOp::Multiply.apply(x, y))?,
            ReduceFunction::Maximum => joined(what, operator, |x, y| AluOp::Maximum.apply(x, y))?,
            _ => joined(what, operator, |x, y| AluOp::Minimum.apply(x, y))?,
        };
        out.iter_mut().for_each(|value| *value = operator.apply(init, *value));
        Ok(out)
    }
}

/// Refuses a result that is not the operand without the reduced axes.
fn check_reduced(x: &TensorType, dimensions: &[usize], name: &str, result: &TensorType, dtype: DType) -> Reason {
    if !are_axes(dimensions, x.rank()) {
        return Err(format!("dimensions are {dimensions:?} of {x}; allowed: axes, each at most once"));
    }
    let shape: Vec<usize> = (0..x.rank()).filter(|axis| !dimensions.contains(axis)).map(|axis| x.shape[axis]).collect();
    check_same(name, result, "what is left of the operand", &TensorType::new(dtype, &shape))
}

/// Axes of the first operand that stay.
fn kept_cuts(operands: &[&TensorType], reduced: &[usize], results: usize) -> Vec<OperationCut> {
    let kept = (0..operands[0].rank()).filter(|axis| !reduced.contains(axis));
    let cut = |(place, axis)| {
        let mut of_operands = vec![None; operands.len()];
        of_operands[0] = Some(axis);
        OperationCut { operands: of_operands, results: vec![place; results] }
    };
    kept.enumerate().map(cut).collect()
}

impl TensorOperation for Reduce {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x, init] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        if !self.function.takes(x) {
            return Err(format!("the operand is {x}, which {:?} does not join", self.function));
        }
        check_same("init", init, "a scalar of the operand", &TensorType::new(x.dtype, &[]))?;
        check_reduced(x, &self.dimensions, "the result", y, x.dtype)
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let (x, kind) = (operands[0], results[0].clone());
        if kind.is_float() {
            let values = self.of_floats(x, operands[1].floats()?[0], kind.elements())?;
            return Ok(vec![Tensor::from_floats(kind, values)?]);
        }
        let init = operands[1].integers()?[0];
        let (rows, count, length) = rows_of(x, &self.dimensions)?;
        let values = rows.integers()?;
        let joined = (0..count).map(|row| {
            let row = &values[row * length..(row + 1) * length];
            row.iter().fold(init, |sum, &value| self.function.of_integers(&kind, sum, value))
        });
        Ok(vec![Tensor::from_integers(kind.clone(), joined)?])
    }

    fn emit(&self, emitter: &mut Emitter, operands: &[View], results: &[View], _: &ExecutionOptions) -> Result<bool> {
        let x = &operands[0];
        if !x.dtype.is_float() {
            return Ok(false);
        }
        emit_reduction(emitter, self.function, x, &self.dimensions, &operands[1], &results[0])?;
        Ok(true)
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        kept_cuts(operands, &self.dimensions, results.len())
    }

    fn arithmetic(&self, operands: &[&TensorType], _: &[&TensorType]) -> u64 {
        operands[0].elements() as u64
    }
}

/// Which end is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extreme {
    /// The largest.
    Maximum,
    /// The smallest.
    Minimum,
}

/// The largest or smallest element along an axis and its place: the first of equal ones, the first NaN where there is one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgReduce {
    /// The axis.
    pub dimension: usize,
    /// Which end.
    pub function: Extreme,
}

impl TensorOperation for ArgReduce {
    fn name(&self) -> &'static str {
        "arg_reduce"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [value, index] = exactly("results", results)?;
        if !(x.is_float() || x.is_integer() || x.is_bool()) || x.shape.get(self.dimension) == Some(&0) {
            return Err(format!(
                "the operand is {x}; allowed: floats, integers and bool, of at least one element along axis {}",
                self.dimension
            ));
        }
        check_reduced(x, &[self.dimension], "the value", value, x.dtype)?;
        check_reduced(x, &[self.dimension], "the index", index, DType::Int32)
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        fn first<T: Copy + PartialOrd>(row: &[T], function: Extreme) -> usize {
            let mut best = 0;
            for (place, &value) in row.iter().enumerate() {
                let is_better = match function {
                    Extreme::Maximum => value > row[best],
                    Extreme::Minimum => value < row[best],
                };
                // What does not equal itself is NaN.
                let is_nan = value.partial_cmp(&value).is_none() && row[best].partial_cmp(&row[best]).is_some();
                if is_better || is_nan {
                    best = place;
                }
            }
            best
        }
        let (rows, _, length) = rows_of(operands[0], &[self.dimension])?;
        let places: Vec<usize> = if rows.kind().is_float() {
            rows.floats()?.chunks(length).map(|row| first(row, self.function)).collect()
        } else {
            rows.integers()?.chunks(length).map(|row| first(row, self.function)).collect()
        };
        let (value, index) = (results[0].clone(), results[1].clone());
        let size = value.dtype.size();
        let picked = rows.bytes().chunks(length * size).zip(&places);
        let bytes: Vec<u8> = picked.flat_map(|(row, place)| &row[place * size..(place + 1) * size]).copied().collect();
        let index = Tensor::from_integers(index, places.iter().map(|&place| place as i64))?;
        Ok(vec![Tensor::from_bytes(value, &bytes)?, index])
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        kept_cuts(operands, &[self.dimension], results.len())
    }

    fn arithmetic(&self, operands: &[&TensorType], _: &[&TensorType]) -> u64 {
        operands[0].elements() as u64
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[
    OperationRow {
        name: "reduce",
        jax: &["stablehlo.reduce"],
        aten: &["sum", "amax", "amin", "prod", "any", "all", "mean"],
        template: "tensor_reduce along the innermost axes; along others sums by nc_matmul with ones, else lanes by \
                   tensor_tensor, nc_transpose and tensor_reduce; of integers a function of GpSimdE",
        accuracy: "float32: rows in ascending order, runs of 4,096; columns and few long rows in 128 lanes; integers exact",
        read: plain::<Reduce>,
    },
    OperationRow {
        name: "arg_reduce",
        jax: &["stablehlo.reduce"],
        aten: &["argmax", "argmin", "max.dim", "min.dim"],
        template: "a function of GpSimdE",
        accuracy: "exact",
        read: plain::<ArgReduce>,
    },
];
