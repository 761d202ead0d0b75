//! Functions of two elements.

use std::sync::Arc;

use serde_json::{Map, Value};
use trn3_machine::dtype::DType;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::elementwise::Reciprocal;
use trn3_machine::view::View;

use super::rounding_steps as steps;
use crate::emitter::Emitter;
use crate::error::{GraphError, Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, TensorOperation};
use crate::row::{OperationRow, Read, Surroundings, no_attributes};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the table says what each is")]
pub enum BinaryFunction {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Maximum,
    Minimum,
    Power,
    Atan2,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
}

use BinaryFunction::*;

const FUNCTIONS: [(BinaryFunction, &str); 15] = [
    (Add, "add"),
    (Subtract, "subtract"),
    (Multiply, "multiply"),
    (Divide, "divide"),
    (Remainder, "remainder"),
    (Maximum, "maximum"),
    (Minimum, "minimum"),
    (Power, "power"),
    (Atan2, "atan2"),
    (And, "and"),
    (Or, "or"),
    (Xor, "xor"),
    (ShiftLeft, "shift_left"),
    (ShiftRightArithmetic, "shift_right_arithmetic"),
    (ShiftRightLogical, "shift_right_logical"),
];

/// A function of two tensors of one type, element by element. Floats are computed in float32 and rounded to their type;
/// integers are exact and wrap; truth values are words of one bit, whose sum is `or` and whose product is `and`.
#[derive(Clone, Copy, Debug)]
pub struct Binary {
    /// Which function.
    pub function: BinaryFunction,
}

impl BinaryFunction {
    fn takes_float(self) -> bool {
        matches!(self, Add | Subtract | Multiply | Divide | Remainder | Maximum | Minimum | Power | Atan2)
    }

    fn takes_integer(self) -> bool {
        self != Atan2
    }

    fn takes_bool(self) -> bool {
        matches!(self, Add | Multiply | Maximum | Minimum | And | Or | Xor)
    }

    /// One step on integers of `bits` bits; the caller wraps the result.
    pub(super) fn of_integers(self, x: i64, y: i64, bits: u32) -> i64 {
        let pattern = |value: i64| value as u64 & (u64::MAX >> (64 - bits));
        let shift = (0..i64::from(bits)).contains(&y).then_some(y as u32);
        match self {
            Add => AluOp::Add.apply_integer(x, y),
            Subtract => AluOp::Subtract.apply_integer(x, y),
            Multiply => AluOp::Multiply.apply_integer(x, y),
            Maximum => x.max(y),
            Minimum => x.min(y),
            // As XLA has it: all bits of the quotient, and the dividend as the rest.
            Divide => x.checked_div(y).unwrap_or(-1),
            Remainder => x.checked_rem(y).unwrap_or(x),
            Power => power(x, y),
            And => x & y,
            Or => x | y,
            Xor => x ^ y,
            ShiftLeft => shift.map_or(0, |shift| x << shift),
            ShiftRightArithmetic => {
                let signed = (x << (64 - bits)) >> (64 - bits);
                signed >> shift.unwrap_or(bits - 1)
            }
            ShiftRightLogical => shift.map_or(0, |shift| (pattern(x) >> shift) as i64),
            Atan2 => 0,
        }
    }

    fn of_bools(self, x: i64, y: i64) -> i64 {
        match self {
            Add | Maximum | Or => x | y,
            Multiply | Minimum | And => x & y,
            _ => x ^ y,
        }
    }

    pub(crate) fn of_floats(self, x: &[f32], y: &[f32]) -> Result<Vec<f32>> {
        Ok(match self {
            Add => zipped(x, y, |x, y| x + y),
            Subtract => zipped(x, y, |x, y| x - y),
            Multiply => zipped(x, y, |x, y| x * y),
            Divide => zipped(x, y, steps::divided),
            Remainder => zipped(x, y, |x, y| x % y),
            Maximum => zipped(x, y, |x, y| AluOp::Maximum.apply(x, y)),
            Minimum => zipped(x, y, |x, y| AluOp::Minimum.apply(x, y)),
            Power => zipped(x, y, |x, y| AluOp::Power.apply(x, y)),
            Atan2 => steps::angle(x, y)?,
            _ => return Err(GraphError::Argument("takes no floating-point elements".to_owned())),
        })
    }
}

fn zipped(x: &[f32], y: &[f32], function: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    x.iter().zip(y).map(|(&x, &y)| function(x, y)).collect()
}

/// Whole powers by squaring, wrapping; negative ones are 0 but for the bases 1 and -1.
fn power(base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (1, _) => 1,
        (-1, _) => {
            if exponent & 1 == 0 {
                1
            } else {
                -1
            }
        }
        (_, ..0) => 0,
        _ => {
            let (mut base, mut exponent, mut result) = (base, exponent, 1i64);
            while exponent > 0 {
                if exponent & 1 == 1 {
                    result = result.wrapping_mul(base);
                }
                base = base.wrapping_mul(base);
                exponent >>= 1;
            }
            result
        }
    }
}

impl TensorOperation for Binary {
    fn name(&self) -> &'static str {
        FUNCTIONS.iter().find(|(function, _)| *function == self.function).map_or("", |(_, name)| name)
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x, y] = exactly("operands", operands)?;
        let [result] = exactly("results", results)?;
        check_same("lhs", x, "rhs", y)?;
        let fits = x.is_float() && self.function.takes_float()
            || x.is_integer() && self.function.takes_integer()
            || x.is_bool() && self.function.takes_bool();
        if !fits {
            return Err(format!("the operands are {x}, which it does not take"));
        }
        check_same("the result", result, "the operands", x)
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let (x, y, kind) = (operands[0], operands[1], results[0].clone());
        if kind.is_float() {
            return Ok(vec![Tensor::from_floats(kind, self.function.of_floats(&x.floats()?, &y.floats()?)?)?]);
        }
        let (is_bool, bits) = (kind.is_bool(), 8 * kind.dtype.size() as u32);
        let function = self.function;
        let pairs = x.integers()?.into_iter().zip(y.integers()?);
        let values =
            pairs.map(|(x, y)| if is_bool { function.of_bools(x, y) } else { function.of_integers(x, y, bits) });
        Ok(vec![Tensor::from_integers(kind, values)?])
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn emit_tile(&self, emitter: &mut Emitter, operands: &[View], result: &View) -> Result<bool> {
        let (x, y) = (&operands[0], &operands[1]);
        let is_float = x.dtype.is_float();
        // GpSimdE has whole numbers of 32 bits; narrower ones would go through float32, and not wrap.
        let is_word = x.dtype.is_integer() && x.dtype.size() == 4;
        let operator = match self.function {
            Add if is_float || is_word => AluOp::Add,
            Subtract if is_float || is_word => AluOp::Subtract,
            Multiply if is_float || is_word => AluOp::Multiply,
            Maximum if is_float || is_word => AluOp::Maximum,
            Minimum if is_float || is_word => AluOp::Minimum,
            Power if is_float => AluOp::Power,
            And => AluOp::BitwiseAnd,
            Or => AluOp::BitwiseOr,
            Xor => AluOp::BitwiseXor,
            ShiftLeft => AluOp::LeftShift,
            ShiftRightLogical => AluOp::RightShift,
            Divide if is_float => {
                // What is repeated along an axis has one reciprocal.
                let mut data = y.clone();
                (1..y.rank()).filter(|&axis| y.strides[axis] == 0).for_each(|axis| data.shape[axis] = 1);
                let mut reciprocal = emitter.like(&data, DType::Float32)?;
                emitter.issue(Reciprocal { dst: reciprocal.clone(), data })?;
                (1..y.rank()).filter(|&axis| y.strides[axis] == 0).for_each(|axis| reciprocal.strides[axis] = 0);
                reciprocal.shape = y.shape.clone();
                emitter.pair(result, x, &reciprocal, AluOp::Multiply)?;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        emitter.pair(result, x, y, operator)?;
        Ok(true)
    }
}

fn read(_: &dyn Surroundings, name: &'static str, map: Map<String, Value>) -> Read {
    no_attributes(&map)?;
    let row = FUNCTIONS.iter().find(|(_, known)| *known == name);
    let (function, _) = row.ok_or_else(|| GraphError::Format("is no function of two elements".to_owned()))?;
    Ok(Arc::new(Binary { function: *function }))
}

const ROUNDED: &str = "correctly rounded; integers exact";

const fn row(
    name: &'static str,
    jax: &'static [&'static str],
    aten: &'static [&'static str],
    template: &'static str,
    accuracy: &'static str,
) -> OperationRow {
    OperationRow { name, jax, aten, template, accuracy, read }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[
    row("add", &["stablehlo.add"], &["add"], "tensor_tensor add; of narrow integers a function of GpSimdE", ROUNDED),
    row("subtract", &["stablehlo.subtract"], &["sub"], "tensor_tensor subtract", ROUNDED),
    row("multiply", &["stablehlo.multiply"], &["mul"], "tensor_tensor multiply", ROUNDED),
    row(
        "divide",
        &["stablehlo.divide"],
        &["div"],
        "reciprocal, tensor_tensor multiply; integers by a function of GpSimdE",
        "1.5 ulp of float32, then rounded to the type; integers exact",
    ),
    row("remainder", &["stablehlo.remainder"], &["fmod", "remainder"], "a function of GpSimdE", "exact"),
    row("maximum", &["stablehlo.maximum"], &["maximum"], "tensor_tensor maximum", "exact"),
    row("minimum", &["stablehlo.minimum"], &["minimum"], "tensor_tensor minimum", "exact"),
    row(
        "power",
        &["stablehlo.power"],
        &["pow"],
        "tensor_tensor power on GpSimdE",
        "0.51 ulp of float32, then rounded to the type; integers exact",
    ),
    row("atan2", &["stablehlo.atan2"], &["atan2"], "a function of GpSimdE", "4 ulp of float32"),
    row("and", &["stablehlo.and"], &["bitwise_and", "logical_and"], "tensor_tensor bitwise_and", "exact"),
    row("or", &["stablehlo.or"], &["bitwise_or", "logical_or"], "tensor_tensor bitwise_or", "exact"),
    row("xor", &["stablehlo.xor"], &["bitwise_xor", "logical_xor"], "tensor_tensor bitwise_xor", "exact"),
    row("shift_left", &["stablehlo.shift_left"], &["bitwise_left_shift"], "tensor_tensor left_shift", "exact"),
    row(
        "shift_right_arithmetic",
        &["stablehlo.shift_right_arithmetic"],
        &["bitwise_right_shift"],
        "a function of GpSimdE",
        "exact",
    ),
    row("shift_right_logical", &["stablehlo.shift_right_logical"], &[], "tensor_tensor right_shift", "exact"),
];
