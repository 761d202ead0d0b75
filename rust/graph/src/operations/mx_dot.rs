//! Products of operands that the operation itself quantises.

use serde::Deserialize;
use trn3_machine::dtype::DType;
use trn3_machine::view::View;
use trn3_numerics::SparsityPattern;

use super::DotGeneral;
use crate::emitter::Emitter;
use crate::error::{Reason, Result};
use crate::fits::check_same;
use crate::graph::{Execution, OperationCut, TensorOperation};
use crate::mx_product::{MxBlocks, MxProduct, MxSide};
use crate::mx_tiles::{Scaled, ScaledSide};
use crate::options::ExecutionOptions;
use crate::product::Matrices;
use crate::product_tiles::emit_product;
use crate::row::{OperationRow, plain, text};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// A product like [`DotGeneral`] whose operands are quantised along the contraction as the attributes say, whatever the
/// graph's own `matmul` is: `mx_dot(lhs, rhs)`, and where anything of it is random, `mx_dot(lhs, rhs, seed)`.
///
/// The array's own order for MX operands: chains of 512 over the contracting axes in the order given. `seed` is a uint32
/// of no axes; with the attribute `stream` above it, it seeds an XORWOW generator of 128 lanes, so that operations of one
/// seed have draws of their own. The draws are, in this order: of the first `hadamard` lanes one each, for signs (only
/// with `hadamard`); one for each element of lhs as [batch..., rows, contraction], and of rhs as [batch..., contraction,
/// columns], each contraction filled up with zeros to whole blocks (only for sides that are rounded stochastically).
///
/// A second result, two of float32, is the share of elements of each side that were clipped: larger in magnitude than the
/// largest number of the block.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MxDot {
    /// Axes that are summed over: of lhs, of rhs, pair by pair.
    pub contracting: [Vec<usize>; 2],
    /// Axes that go along: of lhs, of rhs, pair by pair.
    #[serde(default)]
    pub batch: [Vec<usize>; 2],
    /// How lhs is quantised; absent on both sides, nothing is, and the product is that of [`DotGeneral`].
    #[serde(default)]
    pub lhs: Option<MxSide>,
    /// How rhs is quantised.
    #[serde(default)]
    pub rhs: Option<MxSide>,
    /// Length of the blocks along the contraction, 16 or 32, that a Hadamard matrix with random signs turns on both sides
    /// before they are quantised; 0 for none. It is orthonormal, so that the product is what it was, and rounded to float32.
    #[serde(default)]
    pub hadamard: usize,
    /// What is left of rhs, the stationary side, along the contraction: the largest of each group.
    #[serde(default, deserialize_with = "text::optional")]
    pub sparsity: Option<SparsityPattern>,
    /// Which draws of a seed.
    #[serde(default)]
    pub stream: u32,
}

const HADAMARD: [usize; 3] = [0, 16, 32];

impl MxDot {
    /// The axes of the product.
    pub fn dot(&self) -> DotGeneral {
        DotGeneral { contracting: self.contracting.clone(), batch: self.batch.clone() }
    }

    /// Whether it takes a seed.
    pub fn is_random(&self) -> bool {
        self.hadamard > 0 || [self.lhs, self.rhs].into_iter().flatten().any(MxSide::is_stochastic)
    }

    fn check_recipe(&self) -> Reason {
        if self.lhs.is_some() != self.rhs.is_some() {
            return Err("one side is quantised and the other is not; allowed: both, or neither".to_owned());
        }
        if !HADAMARD.contains(&self.hadamard) {
            return Err(format!("hadamard is {}; allowed: {HADAMARD:?}", self.hadamard));
        }
        if self.hadamard > 0 && (self.lhs.is_none() || self.sparsity.is_some()) {
            return Err(format!("hadamard is {}; allowed with quantised sides that are not sparse", self.hadamard));
        }
        Ok(())
    }
}

impl TensorOperation for MxDot {
    fn name(&self) -> &'static str {
        "mx_dot"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        self.check_recipe()?;
        let wanted = 2 + usize::from(self.is_random());
        if operands.len() != wanted {
            let what = if self.is_random() { "lhs, rhs and a seed" } else { "lhs and rhs: nothing of it is random" };
            return Err(format!("{} operands came; it has {wanted}, {what}", operands.len()));
        }
        if let Some(seed) = operands.get(2) {
            check_seed(seed)?;
        }
        if let Some(integers) = operands[..2].iter().find(|kind| !kind.is_float()) {
            return Err(format!("{integers} came; allowed: floats"));
        }
        match results {
            [y] => self.dot().check(&operands[..2], &[y]),
            [y, clipped] => {
                self.dot().check(&operands[..2], &[y])?;
                check_same("the second result", clipped, "the share clipped", &TensorType::new(DType::Float32, &[2]))
            }
            _ => Err(format!("{} results came; it has 1 or 2", results.len())),
        }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], execution: &dyn Execution) -> Result<Vec<Tensor>> {
        let (lhs, rhs, dot) = (operands[0], operands[1], self.dot());
        let left = Matrices::new(lhs, &dot.batch[0], &dot.free(0, lhs.shape().len()), &dot.contracting[0])?;
        let right = Matrices::new(rhs, &dot.batch[1], &dot.contracting[1], &dot.free(1, rhs.shape().len()))?;
        let seed = operands.get(2).map(|seed| seed.integers()).transpose()?.and_then(|seed| seed.first().copied());
        let recipe = MxProduct {
            sides: [self.lhs, self.rhs],
            hadamard: self.hadamard,
            sparsity: self.sparsity,
            seed: u64::from(self.stream) << 32 | seed.unwrap_or_default() as u64,
            counts: results.len() > 1,
        };
        let (values, clipped) = recipe.product(execution.options().matmul, &left, &right)?;
        let mut made = vec![Tensor::from_floats(results[0].clone(), values)?];
        if let Some(kind) = results.get(1) {
            made.push(Tensor::from_floats(kind.clone(), clipped.to_vec())?);
        }
        Ok(made)
    }

    /// Recipes of quantisation alone: to nearest along the contraction, with nothing pruned, turned or counted.
    fn emit(
        &self,
        emitter: &mut Emitter,
        operands: &[View],
        results: &[View],
        options: &ExecutionOptions,
    ) -> Result<bool> {
        if self.is_random() || self.sparsity.is_some() || results.len() > 1 {
            return Ok(false);
        }
        let [Some(left), Some(right)] = [self.lhs, self.rhs] else {
            return self.dot().emit(emitter, &operands[..2], results, options);
        };
        if [left, right].iter().any(|side| side.blocks == MxBlocks::Free) {
            return Ok(false);
        }
        let side = |side: MxSide| ScaledSide { format: side.format, rule: side.scale_rule, is_narrowed: false };
        let path = Scaled { sides: [side(left), side(right)] };
        self.dot().emit_each(emitter, &operands[..2], &results[0], &|emitter, left, right, out| {
            emit_product(emitter, &path, None, left, right, out)
        })?;
        Ok(true)
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        // Draws are of the whole, and so is a share.
        if self.is_random() || results.len() > 1 { Vec::new() } else { self.dot().cuts(&operands[..2], results) }
    }

    fn arithmetic(&self, operands: &[&TensorType], results: &[&TensorType]) -> u64 {
        self.dot().arithmetic(&operands[..2], &results[..1])
    }
}

/// Refuses what is no seed.
///
/// # Errors
/// The reason.
pub(super) fn check_seed(seed: &TensorType) -> Reason {
    if seed.dtype == DType::UInt32 && seed.rank() == 0 {
        return Ok(());
    }
    Err(format!("the seed is {seed}; allowed: uint32[]"))
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "mx_dot",
    jax: &[],
    aten: &["trn3.mx_dot"],
    template: "quantize_mx of 16-bit operands, of others and of MXFP4 a function of GpSimdE, and nc_matmul_mx; pruned, \
               turned, stochastic or counted a function of GpSimdE",
    accuracy: "float32 chains of 512 after quantisation along the contraction, rounded once",
    read: plain::<MxDot>,
}];
