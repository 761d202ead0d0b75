//! Conversions between floating-point types by draws.

use serde::Deserialize;
use trn3_numerics::{ArrayMut, ArrayView, CastOptions, Draws, Overflow, Rounding, Xorwow, cast};

use super::mx_dot::check_seed;
use crate::error::{Reason, Result};
use crate::fits::exactly;
use crate::graph::{Execution, TensorOperation};
use crate::mx_product::LANES;
use crate::row::{OperationRow, plain};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// The same numbers in another floating-point type, each rounded to one of its neighbours, to the nearer with the greater
/// probability, so that it is right on average: `stochastic_convert(x, seed)`.
///
/// `seed` is a uint32 of no axes; with the attribute `stream` above it, it seeds an XORWOW generator of 128 lanes, each of
/// which gives draws to a run of neighbours, as partitions do for the rows of a tile.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StochasticConvert {
    /// Which draws of a seed.
    #[serde(default)]
    pub stream: u32,
}

impl TensorOperation for StochasticConvert {
    fn name(&self) -> &'static str {
        "stochastic_convert"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x, seed] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        check_seed(seed)?;
        if !(x.is_float() && y.is_float()) {
            return Err(format!("{y} came of {x}; allowed: floats"));
        }
        if x.shape == y.shape { Ok(()) } else { Err(format!("the result is {y} for {x}; shapes have to be the same")) }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let (x, kind) = (operands[0], results[0].clone());
        let seed = operands[1].integers()?.first().copied().unwrap_or_default();
        let mut generator = Xorwow::seed(u64::from(self.stream) << 32 | seed as u64, LANES, 1)?;
        let values = x.floats()?;
        let Some(format) = kind.dtype.format() else {
            return Ok(vec![Tensor::from_floats(kind, values.into_owned())?]);
        };
        let length = [values.len()];
        let mut bytes = vec![0u8; kind.bytes()];
        let options = CastOptions { rounding: Rounding::Stochastic, overflow: Overflow::Ieee };
        let source = ArrayView::new(&values[..], &length)?.into();
        cast(&source, ArrayMut::from_codes(format, &mut bytes, &length)?, options, Draws::Xorwow(&mut generator))?;
        Ok(vec![Tensor::from_bytes(kind, &bytes)?])
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "stochastic_convert",
    jax: &[],
    aten: &["trn3.stochastic_convert"],
    template: "a function of GpSimdE",
    accuracy: "one of the two neighbours, right on average",
    read: plain::<StochasticConvert>,
}];
