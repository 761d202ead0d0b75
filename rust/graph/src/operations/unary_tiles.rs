//! Functions of one element that no engine has in one instruction, as the steps of their arithmetic.

use trn3_machine::dtype::DType;
use trn3_machine::isa::ScalarOperand;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::elementwise::{Reciprocal, ScalarTensorTensor};
use trn3_machine::isa::select::{CopySource, TensorCopyPredicated};
use trn3_machine::view::View;
use trn3_numerics::ActivationFunction;

use super::rounding_steps::{PER_TURN, TURN};
use super::unary_function::UnaryFunction;
use crate::emitter::Emitter;
use crate::error::Result;

/// From here on the last place of a float32 is 1: what is added to it is rounded to a whole number, and magnitudes
/// from here on are whole.
const UNIT: f64 = 8_388_608.0;
const SIGN: f64 = 2_147_483_648.0;

/// The tile in float32.
pub(super) fn wide(emitter: &mut Emitter, x: &View) -> Result<View> {
    if x.dtype == DType::Float32 {
        return Ok(x.clone());
    }
    let wide = emitter.like(x, DType::Float32)?;
    emitter.cast(&wide, x)?;
    Ok(wide)
}

fn words(tile: &View) -> View {
    View { dtype: DType::UInt32, ..tile.clone() }
}

/// Elements of `tile` get the sign of those of `x`, whose own is the same or none.
fn keep_sign(emitter: &mut Emitter, tile: &View, x: &View) -> Result<()> {
    let signs = emitter.like(tile, DType::UInt32)?;
    emitter.scalar(&signs, &words(x), &[(AluOp::BitwiseAnd, Some(SIGN))])?;
    emitter.pair(&words(tile), &words(tile), &signs, AluOp::BitwiseOr)
}

/// Elements of `x` where `steps` of it make 0 (or not 0 where `is_true`).
fn keep_where(
    emitter: &mut Emitter,
    tile: &View,
    x: &View,
    (of, steps): (&View, &[(AluOp, Option<f64>)]),
    is_true: bool,
) -> Result<()> {
    let predicate = emitter.like(tile, DType::UInt8)?;
    emitter.scalar(&predicate, of, steps)?;
    emitter.issue(TensorCopyPredicated {
        dst: tile.clone(),
        src: CopySource::Tile(x.clone()),
        predicate,
        reverse_pred: !is_true,
    })
}

/// The whole numbers nearest to magnitudes below [`UNIT`], ties to even.
fn nearest(emitter: &mut Emitter, x: &View) -> Result<View> {
    let rounded = emitter.like(x, DType::Float32)?;
    emitter.scalar(&rounded, x, &[(AluOp::Abs, None), (AluOp::Add, Some(UNIT))])?;
    emitter.scalar(&rounded, &rounded, &[(AluOp::Subtract, Some(UNIT))])?;
    Ok(rounded)
}

/// tile = tile joined with 1 where the comparison holds of tile and x.
fn correct(emitter: &mut Emitter, tile: &View, x: &View, comparison: AluOp, join: AluOp) -> Result<()> {
    let steps = emitter.like(tile, DType::Float32)?;
    emitter.pair(&steps, tile, x, comparison)?;
    emitter.pair(tile, tile, &steps, join)
}

/// What was rounded, with the large ones and the signs of `x`.
fn finish(emitter: &mut Emitter, tile: &View, x: &View) -> Result<()> {
    keep_where(emitter, tile, x, (x, &[(AluOp::Abs, None), (AluOp::Less, Some(UNIT))]), false)?;
    keep_sign(emitter, tile, x)
}

/// Whole numbers below the magnitudes of `x`, with its signs: float32.
pub(super) fn truncated(emitter: &mut Emitter, x: &View) -> Result<View> {
    let x = wide(emitter, x)?;
    let size = emitter.like(&x, DType::Float32)?;
    emitter.scalar(&size, &x, &[(AluOp::Abs, None)])?;
    let tile = nearest(emitter, &size)?;
    correct(emitter, &tile, &size, AluOp::Greater, AluOp::Subtract)?;
    finish(emitter, &tile, &x)?;
    Ok(tile)
}

fn rounded(emitter: &mut Emitter, function: UnaryFunction, x: &View) -> Result<View> {
    if function == UnaryFunction::RoundNearestAfz {
        let size = emitter.like(x, DType::Float32)?;
        emitter.scalar(&size, x, &[(AluOp::Abs, None)])?;
        let tile = nearest(emitter, &size)?;
        correct(emitter, &tile, &size, AluOp::Greater, AluOp::Subtract)?;
        emitter.pair(&size, &size, &tile, AluOp::Subtract)?;
        emitter.scalar(&size, &size, &[(AluOp::GreaterEqual, Some(0.5))])?;
        emitter.pair(&tile, &tile, &size, AluOp::Add)?;
        finish(emitter, &tile, x)?;
        return Ok(tile);
    }
    let tile = nearest(emitter, x)?;
    keep_sign(emitter, &tile, x)?;
    match function {
        UnaryFunction::Floor => correct(emitter, &tile, x, AluOp::Greater, AluOp::Subtract)?,
        UnaryFunction::Ceil => correct(emitter, &tile, x, AluOp::Less, AluOp::Add)?,
        _ => {}
    }
    finish(emitter, &tile, x)?;
    Ok(tile)
}

/// The sine of what is `quarters` quarter turns on, after a reduction of its range.
fn sine(emitter: &mut Emitter, result: &View, x: &View, quarters: f32) -> Result<()> {
    use std::f32::consts::{FRAC_PI_2, PI};
    let turns = emitter.like(x, DType::Float32)?;
    let scaled = [(AluOp::Multiply, Some(f64::from(PER_TURN))), (AluOp::Add, Some(f64::from(quarters * 0.25)))];
    emitter.scalar(&turns, x, &scaled)?;
    let turns = rounded(emitter, UnaryFunction::RoundNearestEven, &turns)?;
    let mut rest = x.clone();
    for part in TURN {
        let less = emitter.like(x, DType::Float32)?;
        emitter.issue(ScalarTensorTensor {
            dst: less.clone(),
            data: turns.clone(),
            op0: AluOp::Multiply,
            operand0: ScalarOperand::Constant(f64::from(part)),
            op1: AluOp::Subtract,
            operand1: rest,
            reverse0: false,
            reverse1: true,
        })?;
        rest = less;
    }
    let turned = (AluOp::Add, Some(f64::from(quarters * FRAC_PI_2)));
    emitter.scalar(&rest, &rest, &[turned, (AluOp::Maximum, Some(f64::from(-PI)))])?;
    emitter.scalar(&rest, &rest, &[(AluOp::Minimum, Some(f64::from(PI)))])?;
    emitter.activation(result, ActivationFunction::Sin, &rest)
}

fn log_plus_one(emitter: &mut Emitter, x: &View) -> Result<View> {
    let [sum, log, less] =
        [emitter.like(x, DType::Float32)?, emitter.like(x, DType::Float32)?, emitter.like(x, DType::Float32)?];
    emitter.scalar(&sum, x, &[(AluOp::Add, Some(1.0))])?;
    emitter.activation(&log, ActivationFunction::Log, &sum)?;
    emitter.pair(&log, &log, x, AluOp::Multiply)?;
    emitter.scalar(&less, &sum, &[(AluOp::Subtract, Some(1.0))])?;
    emitter.issue(Reciprocal { dst: less.clone(), data: less.clone() })?;
    emitter.pair(&log, &log, &less, AluOp::Multiply)?;
    keep_where(emitter, &log, x, (&sum, &[(AluOp::Equal, Some(1.0))]), true)?;
    keep_where(emitter, &log, &sum, (&sum, &[(AluOp::Greater, Some(f64::from(f32::MAX)))]), true)?;
    Ok(log)
}

fn cube_root(emitter: &mut Emitter, x: &View) -> Result<View> {
    let root = emitter.like(x, DType::Float32)?;
    emitter.scalar(&root, x, &[(AluOp::Abs, None)])?;
    emitter.activation(&root, ActivationFunction::Log, &root)?;
    emitter.scalar(&root, &root, &[(AluOp::Multiply, Some(f64::from(1.0f32 / 3.0)))])?;
    emitter.activation(&root, ActivationFunction::Exp, &root)?;
    keep_sign(emitter, &root, x)?;
    Ok(root)
}

/// The steps of a function of floats; whether it has such.
///
/// # Errors
/// What the machine refuses.
pub(super) fn emit_steps(emitter: &mut Emitter, function: UnaryFunction, x: &View, result: &View) -> Result<bool> {
    use UnaryFunction::{
        Cbrt, Ceil, Cosine, Floor, IsFinite, LogPlusOne, RoundNearestAfz, RoundNearestEven, Sine, Tan,
    };
    if !matches!(
        function,
        Cbrt | Ceil | Cosine | Floor | IsFinite | LogPlusOne | RoundNearestAfz | RoundNearestEven | Sine | Tan
    ) {
        return Ok(false);
    }
    let x = wide(emitter, x)?;
    let made = match function {
        IsFinite => {
            let steps = [(AluOp::Abs, None), (AluOp::LessEqual, Some(f64::from(f32::MAX)))];
            emitter.scalar(result, &x, &steps)?;
            return Ok(true);
        }
        Sine | Cosine => {
            sine(emitter, result, &x, if function == Sine { 0.0 } else { 1.0 })?;
            return Ok(true);
        }
        Tan => {
            let [sines, cosines] = [emitter.like(&x, DType::Float32)?, emitter.like(&x, DType::Float32)?];
            sine(emitter, &sines, &x, 0.0)?;
            sine(emitter, &cosines, &x, 1.0)?;
            emitter.issue(Reciprocal { dst: cosines.clone(), data: cosines.clone() })?;
            emitter.pair(result, &sines, &cosines, AluOp::Multiply)?;
            return Ok(true);
        }
        LogPlusOne => log_plus_one(emitter, &x)?,
        Cbrt => cube_root(emitter, &x)?,
        _ => rounded(emitter, function, &x)?,
    };
    // Bits were joined: a NaN among them becomes the one that arithmetic makes.
    emitter.scalar(result, &made, &[(AluOp::Multiply, Some(1.0))])?;
    Ok(true)
}

/// The steps of a function of whole numbers of 32 bits, which GpSimdE has; whether it has such.
///
/// # Errors
/// What the machine refuses.
pub(super) fn emit_whole_steps(
    emitter: &mut Emitter,
    function: UnaryFunction,
    x: &View,
    result: &View,
) -> Result<bool> {
    // A byte may be a truth value, whose complement is another.
    if function == UnaryFunction::Not && x.dtype != DType::UInt8 {
        emitter.scalar(result, x, &[(AluOp::Invert, None)])?;
        return Ok(true);
    }
    let is_signed = x.dtype == DType::Int32;
    if !(is_signed || x.dtype == DType::UInt32) {
        return Ok(false);
    }
    let zero = emitter.like(x, x.dtype)?;
    emitter.fill(&zero, 0.0)?;
    match function {
        UnaryFunction::Negate => emitter.pair(result, &zero, x, AluOp::Subtract)?,
        UnaryFunction::Abs if is_signed => {
            let less = emitter.like(x, x.dtype)?;
            emitter.pair(&less, &zero, x, AluOp::Subtract)?;
            emitter.pair(result, x, &less, AluOp::Maximum)?;
        }
        UnaryFunction::Abs => emitter.cast(result, x)?,
        UnaryFunction::Sign => {
            let [above, below] = [emitter.like(x, x.dtype)?, emitter.like(x, x.dtype)?];
            emitter.pair(&above, x, &zero, AluOp::Greater)?;
            emitter.pair(&below, x, &zero, AluOp::Less)?;
            emitter.pair(result, &above, &below, AluOp::Subtract)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
