//! The commonest instructions in float64, for runs beside the real one: the same formulas, nothing rounded to float32.

use trn3_numerics::Activation as Function;

use crate::error::Result;
use crate::isa::ScalarOperand;
use crate::isa::accumulate::{ReduceCommand, Reduction, Registers};
use crate::isa::alu::AluOp;
use crate::state::State;
use crate::view::View;

/// The tile in float64.
pub(super) fn read(state: &mut State, view: &View) -> Result<Vec<f64>> {
    let mut values = Vec::new();
    let site = state.site;
    state.memory.read_f64(view, &mut values, site)?;
    Ok(values)
}

/// One value for each of `partitions`; `missing` where not given. Numbers of the kernel are as it wrote them.
pub(super) fn scalars(state: &mut State, operand: &ScalarOperand, partitions: usize, missing: f64) -> Result<Vec<f64>> {
    match operand {
        ScalarOperand::None => Ok(vec![missing; partitions]),
        ScalarOperand::Constant(value) => Ok(vec![*value; partitions]),
        ScalarOperand::Vector(view) => read(state, view),
    }
}

/// x = op(x, scalar) in rows of `columns`, a scalar a row; op(scalar, x) if `reverse`.
pub(super) fn scalar(op: AluOp, values: &mut [f64], columns: usize, scalars: &[f64], reverse: bool) {
    for (row, &scalar) in values.chunks_exact_mut(columns.max(1)).zip(scalars) {
        for x in row {
            *x = if reverse && !op.is_unary() { apply(op, scalar, *x) } else { apply(op, *x, scalar) };
        }
    }
}

/// One step of an operator.
pub(super) fn apply(op: AluOp, x: f64, y: f64) -> f64 {
    use AluOp::*;
    let truth = |holds: bool| if holds { 1.0 } else { 0.0 };
    let by = |first: bool, second: bool| match (first, second) {
        (true, _) => x,
        (false, true) => y,
        // Neither holds of NaN, which the sum brings through.
        (false, false) => x + y,
    };
    match op {
        Add => x + y,
        Subtract => x - y,
        Multiply => x * y,
        Maximum => by(x >= y, y > x),
        Minimum => by(x <= y, y < x),
        Equal => truth(x == y),
        NotEqual => truth(x != y),
        GreaterEqual => truth(x >= y),
        Greater => truth(x > y),
        LessEqual => truth(x <= y),
        Less => truth(x < y),
        LogicalAnd => truth(x != 0.0 && y != 0.0),
        LogicalOr => truth(x != 0.0 || y != 0.0),
        LogicalXor => truth((x != 0.0) != (y != 0.0)),
        AbsMax => by(x.abs() > y.abs(), y.abs() >= x.abs()),
        AbsMin => by(x.abs() < y.abs(), y.abs() <= x.abs()),
        Abs => x.abs(),
        Square => x * x,
        Relu if x.is_nan() => x,
        Relu => x.max(0.0),
        Rsqrt => 1.0 / x.sqrt(),
        Reciprocal => 1.0 / x,
        Power => libm::pow(x, y),
        Bypass | Average => x,
        Invert | BitwiseAnd | BitwiseOr | BitwiseXor | LeftShift | RightShift => f64::NAN,
    }
}

/// Folds rows of `columns` into running values, in ascending order.
pub(super) fn fold(op: AluOp, running: &mut [f64], values: &[f64], columns: usize) {
    for (running, row) in running.iter_mut().zip(values.chunks_exact(columns.max(1))) {
        *running = row.iter().fold(*running, |running, x| apply(op, running, *x));
    }
}

/// A function of ScalarE, for those whose float64 value libm has.
pub(super) fn function(function: Function) -> Option<fn(f64) -> f64> {
    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + libm::exp(-x))
    }
    Some(match function {
        Function::Copy => |x| x,
        Function::Square => |x| x * x,
        Function::Relu => |x| if x > 0.0 || x.is_nan() { x } else { 0.0 },
        Function::Abs => f64::abs,
        Function::Exp => libm::exp,
        Function::Log => libm::log,
        Function::Sqrt => f64::sqrt,
        Function::Rsqrt => |x| 1.0 / x.sqrt(),
        Function::Reciprocal => |x| 1.0 / x,
        Function::Tanh => libm::tanh,
        Function::Sigmoid => sigmoid,
        Function::Silu => |x| x * sigmoid(x),
        Function::Erf => libm::erf,
        Function::Gelu => |x| 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        _ => return None,
    })
}

/// Takes values into the running ones and writes the result, as [`Reduction::join`] does.
pub(super) fn join(
    reduction: &Reduction,
    state: &mut State,
    registers: Registers,
    dst: &View,
    values: &[f64],
) -> Result<()> {
    let start = reduction.start(state, registers, dst)?;
    let mut running: Vec<f64> = start.into_iter().map(f64::from).collect();
    if reduction.command.accumulates() {
        fold(reduction.op, &mut running, values, dst.free_size());
    }
    if reduction.command != ReduceCommand::Idle {
        reduction.set(state, registers, dst, running.iter().map(|value| *value as f32));
    }
    if let Some(result) = &reduction.result {
        if reduction.negate {
            running.iter_mut().for_each(|value| *value = -*value);
        }
        state.memory.write_f64(result, &running)?;
    }
    Ok(())
}
