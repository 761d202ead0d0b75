//! The rules that VectorE's instructions have for their operators and scalars.

use crate::check::Check;
use crate::error::Result;
use crate::isa::ScalarOperand;
use crate::isa::alu::AluOp;
use crate::view::View;

/// The generation has the operator.
pub(super) fn check_generation(check: &Check<'_>, operand: &'static str, op: AluOp) -> Result<()> {
    if check.arch.generation >= op.least_generation() {
        return Ok(());
    }
    let got = format!("{op} on {} (gen{})", check.arch.name, check.arch.generation);
    Err(check.refuse(operand, got, format!("available from gen{} on", op.least_generation())))
}

/// An operator that VectorE computes in float32, of one operand or two.
pub(super) fn check_arithmetic(check: &Check<'_>, operand: &'static str, op: AluOp) -> Result<()> {
    if !op.is_vector_arithmetic() {
        return Err(check.refuse(operand, format!("is {op}"), "an arithmetic operator of VectorE"));
    }
    check_generation(check, operand, op)
}

/// An operator of two operands that VectorE computes in float32.
pub(super) fn check_binary(check: &Check<'_>, operand: &'static str, op: AluOp) -> Result<()> {
    check_arithmetic(check, operand, op)?;
    if op.is_unary() {
        return Err(check.refuse(operand, format!("is {op}, which has one operand"), "an operator of two operands"));
    }
    Ok(())
}

/// The scalar fits the operator: none or 0 for a unary one, else a number or a [P, 1] tile, float32 for arithmetic and
/// of an integer type for bit operators.
pub(super) fn check_scalar(
    check: &Check<'_>,
    operand: &'static str,
    op: AluOp,
    scalar: &ScalarOperand,
    tile: &View,
) -> Result<()> {
    if op.is_unary() {
        return match scalar {
            ScalarOperand::None => Ok(()),
            ScalarOperand::Constant(0.0) => Ok(()),
            ScalarOperand::Constant(value) => {
                Err(check.refuse(operand, format!("is {value} for {op}"), format!("{op} is unary: None or 0")))
            }
            ScalarOperand::Vector(_) => {
                Err(check.refuse(operand, format!("is a tile for {op}"), format!("{op} is unary: None or 0")))
            }
        };
    }
    match scalar {
        ScalarOperand::None => {
            Err(check.refuse(operand, format!("is None for {op}"), "a number or a tile of shape [P, 1]"))
        }
        ScalarOperand::Constant(value) if op.is_bitvec() => {
            let is_word = value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(u32::MAX)).contains(value);
            if is_word {
                return Ok(());
            }
            Err(check.refuse(operand, format!("is {value} for {op}"), "a whole number of 32 bits"))
        }
        ScalarOperand::Vector(view) if op.is_bitvec() => {
            check.vector(operand, view, tile)?;
            check.no_columns(operand, view)?;
            check.integer(operand, view)
        }
        _ => check.float32_scalar(operand, scalar, tile),
    }
}
