//! Conversions between element types.

use serde::Deserialize;
use trn3_machine::dtype::DType;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::view::View;

use super::unary_tiles::truncated;
use crate::emitter::Emitter;
use crate::emitter::stored;
use crate::error::{Reason, Result};
use crate::fits::exactly;
use crate::graph::{Execution, TensorOperation};
use crate::row::{OperationRow, plain};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// The same numbers in another element type: floats to nearest, floats to integers toward zero and no further than the
/// type goes (NaN is 0), integers to integers by their low bits, anything but zero is true.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Convert {}

impl TensorOperation for Convert {
    fn name(&self) -> &'static str {
        "convert"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        for kind in [x, y] {
            if !(kind.is_float() || kind.dtype.is_integer()) {
                return Err(format!("{kind} came; allowed: floats, integers, bool"));
            }
        }
        if x.shape == y.shape { Ok(()) } else { Err(format!("the result is {y} for {x}; shapes have to be the same")) }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let (x, kind) = (operands[0], results[0].clone());
        if *x.kind() == kind {
            return Ok(vec![x.clone()]);
        }
        let made = match (x.kind().is_float(), kind.is_float()) {
            (true, true) => x.in_dtype(kind.dtype)?,
            // An integer beyond 2^24 is rounded once, to float32, and by narrower types again: so do the engines.
            (false, true) => Tensor::from_floats(kind, x.integers()?.into_iter().map(|value| value as f32).collect())?,
            (true, false) if kind.is_bool() => {
                Tensor::from_integers(kind, x.floats()?.iter().map(|&value| i64::from(value != 0.0)))?
            }
            (true, false) => {
                let (low, high) = range(kind.dtype);
                Tensor::from_integers(kind, x.floats()?.iter().map(|&value| (value as i64).clamp(low, high)))?
            }
            (false, false) => Tensor::from_integers(kind, x.integers()?)?,
        };
        Ok(vec![made])
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn emit_tile(&self, emitter: &mut Emitter, operands: &[View], result: &View) -> Result<bool> {
        let (from, to) = (operands[0].dtype, result.dtype);
        if to.is_float() || from == to {
            emitter.cast(result, &operands[0])?;
            return Ok(true);
        }
        // A byte may be a truth value, which anything but zero makes true.
        if to == DType::UInt8 {
            return Ok(false);
        }
        if from.is_float() {
            let whole = truncated(emitter, &operands[0])?;
            emitter.cast(result, &whole)?;
        } else {
            emit_low_bits(emitter, &operands[0], result)?;
        }
        Ok(true)
    }
}

/// Whole numbers by their low bits. Engines saturate where integers get narrower: so the others are masked first.
fn emit_low_bits(emitter: &mut Emitter, x: &View, result: &View) -> Result<()> {
    let sized = |view: &View, types: [DType; 3]| View { dtype: types[view.dtype.size() / 2], ..view.clone() };
    let signed = |view: &View| sized(view, [DType::Int8, DType::Int16, DType::Int32]);
    let unsigned = |view: &View| sized(view, [DType::UInt8, DType::UInt16, DType::UInt32]);
    let (from, to) = (x.dtype.size(), result.dtype.size());
    if from == to {
        return emitter.cast(&signed(result), &signed(x));
    }
    if from < to {
        // Fewer bits than float32 holds: the sign goes along.
        return if x.dtype.is_signed_integer() {
            emitter.cast(&signed(result), x)
        } else {
            emitter.cast(&unsigned(result), x)
        };
    }
    let low = emitter.like(x, unsigned(x).dtype)?;
    emitter.scalar(&low, &unsigned(x), &[(AluOp::BitwiseAnd, Some(((1u64 << (8 * to)) - 1) as f64))])?;
    emitter.cast(&unsigned(result), &low)
}

/// The least and the greatest number of an integer type.
fn range(dtype: DType) -> (i64, i64) {
    let bits = 8 * dtype.size() as u32;
    if dtype.is_signed_integer() { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) }
}

/// The same bits as another type of the same width, or with a last axis that takes up the difference.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BitcastConvert {}

impl TensorOperation for BitcastConvert {
    fn name(&self) -> &'static str {
        "bitcast_convert"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        let (from, to) = (x.dtype.size(), y.dtype.size());
        let fits = match from.cmp(&to) {
            std::cmp::Ordering::Equal => x.shape == y.shape,
            std::cmp::Ordering::Greater => y.shape.split_last() == Some((&(from / to), &x.shape)),
            std::cmp::Ordering::Less => x.shape.split_last() == Some((&(to / from), &y.shape)),
        };
        if fits { Ok(()) } else { Err(format!("{y} came of {x}; a last axis has to take up the difference of widths")) }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        Ok(vec![Tensor::from_bytes(results[0].clone(), operands[0].bytes())?])
    }

    fn look(&self, operand: &View, result: &TensorType) -> Option<View> {
        let is_same_width = operand.dtype.size() == result.dtype.size();
        is_same_width.then(|| View { dtype: stored(result.dtype), ..operand.clone() })
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[
    OperationRow {
        name: "convert",
        jax: &["stablehlo.convert", "stablehlo.reduce_precision"],
        aten: &["_to_copy", "to"],
        template: "tensor_copy; to integers after steps on VectorE, to bytes a function of GpSimdE",
        accuracy: "rounded to nearest; to integers toward zero",
        read: plain::<Convert>,
    },
    OperationRow {
        name: "bitcast_convert",
        jax: &["stablehlo.bitcast_convert"],
        aten: &["view.dtype"],
        template: "a view of another type; of another width a function of GpSimdE",
        accuracy: "exact",
        read: plain::<BitcastConvert>,
    },
];
