//! Functions of one element.

use std::sync::Arc;

use serde_json::{Map, Value};
use trn3_machine::dtype::DType;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::view::View;
use trn3_numerics::ActivationFunction;

use super::rounding_steps as steps;
use super::unary_function::UnaryFunction;
use super::unary_tiles::{emit_steps, emit_whole_steps};
use crate::emitter::Emitter;
use crate::error::{GraphError, Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, TensorOperation};
use crate::row::{OperationRow, Read, Surroundings, no_attributes};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

use UnaryFunction::*;

const FUNCTIONS: [(UnaryFunction, &str); 27] = [
    (Abs, "abs"),
    (Negate, "negate"),
    (Sign, "sign"),
    (Ceil, "ceil"),
    (Floor, "floor"),
    (RoundNearestEven, "round_nearest_even"),
    (RoundNearestAfz, "round_nearest_afz"),
    (Exponential, "exponential"),
    (ExponentialMinusOne, "exponential_minus_one"),
    (Log, "log"),
    (LogPlusOne, "log_plus_one"),
    (Logistic, "logistic"),
    (Tanh, "tanh"),
    (Tan, "tan"),
    (Sine, "sine"),
    (Cosine, "cosine"),
    (Arctan, "arctan"),
    (Sqrt, "sqrt"),
    (Rsqrt, "rsqrt"),
    (Cbrt, "cbrt"),
    (Erf, "erf"),
    (Erfc, "erfc"),
    (ErfInv, "erf_inv"),
    (IsFinite, "is_finite"),
    (Not, "not"),
    (PopulationCount, "population_count"),
    (CountLeadingZeros, "count_leading_zeros"),
];

/// A function of every element. Floats are computed in float32 and rounded to their type; integers are exact and wrap.
#[derive(Clone, Copy, Debug)]
pub struct Unary {
    /// Which function.
    pub function: UnaryFunction,
}

impl UnaryFunction {
    fn takes_float(self) -> bool {
        !matches!(self, Not | PopulationCount | CountLeadingZeros)
    }

    fn takes_integer(self) -> bool {
        matches!(self, Abs | Negate | Sign | Not | PopulationCount | CountLeadingZeros)
    }

    fn takes_bool(self) -> bool {
        self == Not
    }

    fn of_integer(self, value: i64, bits: u32) -> i64 {
        let pattern = value as u64 & (u64::MAX >> (64 - bits));
        match self {
            Abs => value.abs(),
            Negate => -value,
            Sign => value.signum(),
            Not => !value,
            PopulationCount => i64::from(pattern.count_ones()),
            _ => i64::from(pattern.leading_zeros()) - (64 - i64::from(bits)),
        }
    }

    /// The activation function that it is, of ScalarE.
    fn activation(self) -> Option<ActivationFunction> {
        Some(match self {
            Sign => ActivationFunction::Sign,
            Exponential => ActivationFunction::Exp,
            Log => ActivationFunction::Log,
            Logistic => ActivationFunction::Sigmoid,
            Tanh => ActivationFunction::Tanh,
            Arctan => ActivationFunction::Arctan,
            Sqrt => ActivationFunction::Sqrt,
            Rsqrt => ActivationFunction::Rsqrt,
            Erf => ActivationFunction::Erf,
            _ => return None,
        })
    }

    pub(crate) fn of_floats(self, values: &[f32]) -> Result<Vec<f32>> {
        if let Some(function) = self.activation() {
            return steps::activated(values.to_vec(), function);
        }
        let each = |function: fn(f32) -> f32| Ok(values.iter().copied().map(function).collect());
        match self {
            Abs => each(|x| AluOp::Abs.apply(x, 0.0)),
            Negate => each(|x| -x),
            Ceil => each(f32::ceil),
            Floor => each(f32::floor),
            RoundNearestEven => each(f32::round_ties_even),
            RoundNearestAfz => each(f32::round),
            ExponentialMinusOne => steps::exponential_minus_one(values),
            LogPlusOne => steps::log_plus_one(values),
            Sine => steps::sine(values),
            Cosine => steps::cosine(values),
            Tan => {
                let (sines, cosines) = (steps::sine(values)?, steps::cosine(values)?);
                Ok(sines.into_iter().zip(cosines).map(|(sine, cosine)| steps::divided(sine, cosine)).collect())
            }
            Cbrt => steps::cube_root(values),
            Erfc => {
                Ok(steps::activated(values.to_vec(), ActivationFunction::Erf)?.iter().map(|erf| 1.0 - erf).collect())
            }
            ErfInv => steps::inverse_erf(values),
            _ => Err(GraphError::Argument("has no floating-point elements".to_owned())),
        }
    }
}

impl TensorOperation for Unary {
    fn name(&self) -> &'static str {
        FUNCTIONS.iter().find(|(function, _)| *function == self.function).map_or("", |(_, name)| name)
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        let fits = x.is_float() && self.function.takes_float()
            || x.is_integer() && self.function.takes_integer()
            || x.is_bool() && self.function.takes_bool();
        if !fits {
            return Err(format!("the operand is {x}, which it does not take"));
        }
        if self.function == IsFinite {
            return check_same("the result", y, "the operand's shape as bool", &x.with_dtype(DType::Bool));
        }
        check_same("the result", y, "the operand", x)
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let (x, kind) = (operands[0], results[0].clone());
        if self.function == IsFinite {
            return Ok(vec![Tensor::from_integers(
                kind,
                x.floats()?.iter().map(|value| i64::from(value.is_finite())),
            )?]);
        }
        if x.kind().is_float() {
            return Ok(vec![Tensor::from_floats(kind, self.function.of_floats(&x.floats()?)?)?]);
        }
        if x.kind().is_bool() {
            return Ok(vec![Tensor::from_integers(kind, x.integers()?.into_iter().map(|value| 1 - value))?]);
        }
        let bits = 8 * kind.dtype.size() as u32;
        let values = x.integers()?.into_iter().map(|value| self.function.of_integer(value, bits));
        Ok(vec![Tensor::from_integers(kind, values)?])
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn emit_tile(&self, emitter: &mut Emitter, operands: &[View], result: &View) -> Result<bool> {
        let x = &operands[0];
        if !x.dtype.is_float() {
            return emit_whole_steps(emitter, self.function, x, result);
        }
        if let Some(function) = self.function.activation() {
            emitter.activation(result, function, x)?;
            return Ok(true);
        }
        match self.function {
            Abs => emitter.scalar(result, x, &[(AluOp::Abs, None)])?,
            Negate => emitter.scalar(result, x, &[(AluOp::Multiply, Some(-1.0))])?,
            ExponentialMinusOne => {
                let [half, power] = [emitter.like(x, DType::Float32)?, emitter.like(x, DType::Float32)?];
                emitter.scalar(&half, x, &[(AluOp::Multiply, Some(0.5))])?;
                emitter.activation(&half, ActivationFunction::Tanh, &half)?;
                emitter.activation(&power, ActivationFunction::Exp, x)?;
                emitter.scalar(&power, &power, &[(AluOp::Add, Some(1.0))])?;
                emitter.pair(result, &half, &power, AluOp::Multiply)?;
            }
            Erfc => {
                let erf = emitter.like(x, DType::Float32)?;
                emitter.activation(&erf, ActivationFunction::Erf, x)?;
                emitter.scalar(result, &erf, &[(AluOp::Multiply, Some(-1.0)), (AluOp::Add, Some(1.0))])?;
            }
            _ => return emit_steps(emitter, self.function, x, result),
        }
        Ok(true)
    }
}

fn read(_: &dyn Surroundings, name: &'static str, map: Map<String, Value>) -> Read {
    no_attributes(&map)?;
    let row = FUNCTIONS.iter().find(|(_, known)| *known == name);
    let (function, _) = row.ok_or_else(|| GraphError::Format("is no function of one element".to_owned()))?;
    Ok(Arc::new(Unary { function: *function }))
}

const ROUNDED: &str = "correctly rounded";
const ROUNDING: &str = "steps on VectorE, the sign kept";
const TABLE: &str = "0.51 ulp of float32, then rounded to the type";

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
    row(
        "abs",
        &["stablehlo.abs"],
        &["abs"],
        "tensor_scalar abs; of 32-bit integers tensor_tensor on GpSimdE, of narrow ones a function of it",
        ROUNDED,
    ),
    row(
        "negate",
        &["stablehlo.negate"],
        &["neg"],
        "tensor_scalar multiply by -1; of 32-bit integers tensor_tensor on GpSimdE, of narrow ones a function of it",
        ROUNDED,
    ),
    row(
        "sign",
        &["stablehlo.sign"],
        &["sign"],
        "activation sign; of 32-bit integers tensor_tensor on GpSimdE, of narrow ones a function of it",
        ROUNDED,
    ),
    row("ceil", &["stablehlo.ceil"], &["ceil"], ROUNDING, ROUNDED),
    row("floor", &["stablehlo.floor"], &["floor"], ROUNDING, ROUNDED),
    row("round_nearest_even", &["stablehlo.round_nearest_even"], &["round"], ROUNDING, ROUNDED),
    row("round_nearest_afz", &["stablehlo.round_nearest_afz"], &[], ROUNDING, ROUNDED),
    row(
        "exponential",
        &["stablehlo.exponential"],
        &["exp"],
        "activation exp",
        "0.9 ulp of float32, then rounded to the type",
    ),
    row(
        "exponential_minus_one",
        &["stablehlo.exponential_minus_one"],
        &["expm1"],
        "activations tanh and exp, products on VectorE",
        "4 ulp of float32",
    ),
    row("log", &["stablehlo.log"], &["log"], "activation log", TABLE),
    row(
        "log_plus_one",
        &["stablehlo.log_plus_one"],
        &["log1p"],
        "activation log, steps on VectorE",
        "4 ulp of float32",
    ),
    row("logistic", &["stablehlo.logistic"], &["sigmoid"], "activation sigmoid", TABLE),
    row("tanh", &["stablehlo.tanh"], &["tanh"], "activation tanh", TABLE),
    row(
        "tan",
        &["stablehlo.tan"],
        &["tan"],
        "the sine, the cosine, reciprocal, a product",
        "8 ulp of float32 away from the poles",
    ),
    row("sine", &["stablehlo.sine"], &["sin"], "steps on VectorE, activation sin", "1e-6 up to 2^11 turns"),
    row("cosine", &["stablehlo.cosine"], &["cos"], "steps on VectorE, activation sin", "1e-6 up to 2^11 turns"),
    row("arctan", &["chlo.atan"], &["atan"], "activation arctan", TABLE),
    row("sqrt", &["stablehlo.sqrt"], &["sqrt"], "activation sqrt", ROUNDED),
    row("rsqrt", &["stablehlo.rsqrt"], &["rsqrt"], "activation rsqrt", TABLE),
    row("cbrt", &["stablehlo.cbrt"], &[], "activations log and exp, steps on VectorE", "1e-5 relative"),
    row("erf", &["chlo.erf"], &["erf"], "activation erf", TABLE),
    row("erfc", &["chlo.erfc"], &["erfc"], "1 - activation erf", "1e-7 absolute"),
    row("erf_inv", &["chlo.erf_inv"], &["erfinv"], "a function of GpSimdE", "1e-6 relative up to 1 - 1e-6"),
    row("is_finite", &["stablehlo.is_finite"], &[], "tensor_scalar abs, less_equal", "exact"),
    row(
        "not",
        &["stablehlo.not"],
        &["bitwise_not", "logical_not"],
        "tensor_scalar invert; of bytes a function of GpSimdE",
        "exact",
    ),
    row("population_count", &["stablehlo.popcnt"], &[], "a function of GpSimdE", "exact"),
    row("count_leading_zeros", &["stablehlo.count_leading_zeros"], &[], "a function of GpSimdE", "exact"),
];
