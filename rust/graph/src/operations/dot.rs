//! Products of tensors.

use std::ops::Range;

use serde::Deserialize;
use trn3_machine::view::View;

use crate::core_shares::LONG;
use crate::emitter::Emitter;
use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, OperationCut, TensorOperation};
use crate::options::ExecutionOptions;
use crate::product::{Matrices, integer_product, product};
use crate::product_path::emit_path;
use crate::product_tiles::{MatrixView, matrices};
use crate::row::{OperationRow, plain};
use crate::strided::{are_axes, row_major};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// Products summed over the contracting axes, for each position of the batch axes: `dot_general(lhs, rhs)` is
/// [batch..., what is left of lhs..., what is left of rhs...].
///
/// The array's own order: chains of 128 fused steps in float32 over the contracting axes in the order given, joined one
/// after another, rounded once to the result's type. Float operands are of one type, whole numbers exact and wrapping.
/// Quantised ones are rounded to 16 bits first, as quantize_mx takes them, and sum in chains of 512.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DotGeneral {
    /// Axes that are summed over: of lhs, of rhs, pair by pair.
    pub contracting: [Vec<usize>; 2],
    /// Axes that go along: of lhs, of rhs, pair by pair.
    #[serde(default)]
    pub batch: [Vec<usize>; 2],
}

impl DotGeneral {
    /// Axes of one side that are neither summed over nor go along.
    pub(crate) fn free(&self, side: usize, rank: usize) -> Vec<usize> {
        let is_free = |axis: &usize| !self.contracting[side].contains(axis) && !self.batch[side].contains(axis);
        (0..rank).filter(is_free).collect()
    }

    /// Emits the product of every position of the batch axes.
    ///
    /// # Errors
    /// Those of `product`.
    pub(super) fn emit_each(
        &self,
        emitter: &mut Emitter,
        operands: &[View],
        out: &View,
        product: &dyn Fn(&mut Emitter, &MatrixView, &MatrixView, &MatrixView) -> Result<()>,
    ) -> Result<()> {
        let (lhs, rhs) = (&operands[0], &operands[1]);
        let (left_rows, right_columns) = (self.free(0, lhs.rank()), self.free(1, rhs.rank()));
        let (first, second) = (self.batch[0].len(), self.batch[0].len() + left_rows.len());
        let left = matrices(emitter, lhs, &self.batch[0], &left_rows, &self.contracting[0])?;
        let right = matrices(emitter, rhs, &self.batch[1], &self.contracting[1], &right_columns)?;
        let axes = |range: std::ops::Range<usize>| range.collect::<Vec<_>>();
        let (batch, rows, columns) = (axes(0..first), axes(first..second), axes(second..second + right_columns.len()));
        // Of scalars memory has an axis that their types do not: the product's axes are those of its operands.
        let of = |view: &View, axes: &[usize]| axes.iter().map(|&axis| view.shape[axis]).collect::<Vec<_>>();
        let lengths = [of(lhs, &self.batch[0]), of(lhs, &left_rows), of(rhs, &right_columns)].concat();
        let strides = row_major(&lengths).into_iter().map(|stride| stride as i64).collect();
        let out = View { shape: lengths.into(), strides, ..out.clone() };
        let made = matrices(emitter, &out, &batch, &rows, &columns)?;
        // Few of an odd number are divided one by one.
        let is_even = made.len().is_multiple_of(emitter.cores()) || made.len() >= LONG;
        let count = if is_even { made.len() } else { 1 };
        let items = |items: &Range<usize>| if is_even { items.clone() } else { 0..made.len() };
        let needs = |share: &Range<usize>| {
            let both = |at: usize| [left[at].view.clone(), right[at].view.clone()];
            items(share).flat_map(both).collect()
        };
        let longest = [lhs, rhs, &out].map(View::len).into_iter().max().unwrap_or(0);
        emitter.divided(longest, count, &needs, &mut |emitter, share| {
            items(&share).try_for_each(|at| product(emitter, &left[at], &right[at], &made[at]))
        })
    }

    fn check_side(&self, side: usize, name: &str, kind: &TensorType) -> Reason {
        let axes = [&self.contracting[side][..], &self.batch[side][..]].concat();
        if are_axes(&axes, kind.rank()) {
            return Ok(());
        }
        let (contracting, batch) = (&self.contracting[side], &self.batch[side]);
        Err(format!(
            "{name} is {kind} with contracting axes {contracting:?} and batch axes {batch:?}; allowed: axes, each once"
        ))
    }
}

impl TensorOperation for DotGeneral {
    fn name(&self) -> &'static str {
        "dot_general"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [lhs, rhs] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        self.check_side(0, "lhs", lhs)?;
        self.check_side(1, "rhs", rhs)?;
        for (what, [left, right]) in [("contracting", &self.contracting), ("batch", &self.batch)] {
            let of = |kind: &TensorType, axes: &[usize]| axes.iter().map(|&axis| kind.shape[axis]).collect::<Vec<_>>();
            let (left, right) = (of(lhs, left), of(rhs, right));
            if left != right {
                return Err(format!(
                    "{what} axes have lengths {left:?} in lhs and {right:?} in rhs; they have to be the same"
                ));
            }
        }
        let is_product =
            lhs.dtype == rhs.dtype && (lhs.is_float() && y.is_float() || lhs.is_integer() && y.is_integer());
        if !is_product {
            return Err(format!("{y} came of {lhs} and {rhs}; allowed: floats of one type, or integers of one type"));
        }
        let mut shape: Vec<usize> = self.batch[0].iter().map(|&axis| lhs.shape[axis]).collect();
        shape.extend(self.free(0, lhs.rank()).into_iter().map(|axis| lhs.shape[axis]));
        shape.extend(self.free(1, rhs.rank()).into_iter().map(|axis| rhs.shape[axis]));
        check_same("the result", y, "the product", &y.with_shape(&shape))
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], execution: &dyn Execution) -> Result<Vec<Tensor>> {
        let (lhs, rhs, kind) = (operands[0], operands[1], results[0].clone());
        let left = Matrices::new(lhs, &self.batch[0], &self.free(0, lhs.shape().len()), &self.contracting[0])?;
        let right = Matrices::new(rhs, &self.batch[1], &self.contracting[1], &self.free(1, rhs.shape().len()))?;
        if kind.is_float() {
            return Ok(vec![Tensor::from_floats(kind, product(execution.options().matmul, &left, &right)?)?]);
        }
        Ok(vec![Tensor::from_integers(kind, integer_product(&left, &right)?)?])
    }

    fn emit(
        &self,
        emitter: &mut Emitter,
        operands: &[View],
        results: &[View],
        options: &ExecutionOptions,
    ) -> Result<bool> {
        if !operands[0].dtype.is_float() {
            return Ok(false);
        }
        self.emit_each(emitter, operands, &results[0], &|emitter, left, right, out| {
            emit_path(emitter, options.matmul, None, left, right, out)
        })?;
        Ok(true)
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        let (batch, left) = (self.batch[0].len(), self.free(0, operands[0].rank()));
        let right = self.free(1, operands[1].rank());
        let cut = |place, sides: [Option<usize>; 2]| OperationCut {
            operands: sides.to_vec(),
            results: vec![place; results.len()],
        };
        let pairs = self.batch[0].iter().zip(&self.batch[1]).enumerate();
        let mut cuts: Vec<OperationCut> = pairs.map(|(place, (&x, &y))| cut(place, [Some(x), Some(y)])).collect();
        cuts.extend(left.iter().enumerate().map(|(place, &axis)| cut(batch + place, [Some(axis), None])));
        let first = batch + left.len();
        cuts.extend(right.iter().enumerate().map(|(place, &axis)| cut(first + place, [None, Some(axis)])));
        cuts
    }

    fn arithmetic(&self, operands: &[&TensorType], results: &[&TensorType]) -> u64 {
        let depth: usize = self.contracting[0].iter().map(|&axis| operands[0].shape[axis]).product();
        2 * (depth * results[0].elements()) as u64
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "dot_general",
    jax: &["stablehlo.dot_general", "stablehlo.dot"],
    aten: &["mm", "bmm", "addmm", "matmul"],
    template: "nc_matmul over tiles of 128 k, transposes on TensorE; MX: quantize_mx (MXFP4: a function of GpSimdE) and \
               nc_matmul_mx over 512 k; integers by a function of GpSimdE",
    accuracy: "float32 chains of 128, rounded once; MX after quantisation along the contraction",
    read: plain::<DotGeneral>,
}];
