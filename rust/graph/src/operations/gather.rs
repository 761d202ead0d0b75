//! Windows picked at places that are data.

use serde::Deserialize;
use trn3_machine::view::View;

use super::indexing::{Indexing, Outside, are_ascending};
use crate::emitter::Emitter;
use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, OperationCut, TensorOperation};
use crate::options::ExecutionOptions;
use crate::row::{OperationRow, plain};
use crate::strided::{Block, permuted, row_major};
use crate::tensor::{Tensor, on_words};
use crate::tensor_type::TensorType;

/// Windows of the operand, one for each index: `gather(x, indices)`, as StableHLO defines it. A window that would reach
/// beyond the operand is moved until it lies inside.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gather {
    /// Axes of the result along which windows lie.
    pub offset_dims: Vec<usize>,
    /// Axes of the operand, of length 1 in windows, that the result does not have.
    pub collapsed_slice_dims: Vec<usize>,
    /// Axes of the operand that go along with axes of the indices.
    #[serde(default)]
    pub operand_batching_dims: Vec<usize>,
    /// Those axes of the indices.
    #[serde(default)]
    pub start_indices_batching_dims: Vec<usize>,
    /// The operand's axis of each component of an index.
    pub start_index_map: Vec<usize>,
    /// The axis of components; the rank of the indices where they are single numbers.
    pub index_vector_dim: usize,
    /// Lengths of a window.
    pub slice_sizes: Vec<usize>,
}

impl Gather {
    fn indexing(&self) -> Indexing<'_> {
        Indexing {
            components: &self.start_index_map,
            vector: self.index_vector_dim,
            operand_batching: &self.operand_batching_dims,
            indices_batching: &self.start_indices_batching_dims,
        }
    }

    /// Lengths of a window along the axes that the result has.
    fn kept(&self) -> Vec<usize> {
        let is_kept =
            |axis: &usize| !self.collapsed_slice_dims.contains(axis) && !self.operand_batching_dims.contains(axis);
        (0..self.slice_sizes.len()).filter(is_kept).map(|axis| self.slice_sizes[axis]).collect()
    }

    /// The axis of [indices..., window...] that each axis of the result is.
    fn order(&self, batch: usize, rank: usize) -> Vec<usize> {
        let mut batch_axes = 0..batch;
        let of = |axis| self.offset_dims.iter().position(|&offset| offset == axis).map(|place| batch + place);
        (0..rank).map(|axis| of(axis).or_else(|| batch_axes.next()).unwrap_or(axis)).collect()
    }
}

impl TensorOperation for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x, indices] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        let names = ["start_index_map", "operand_batching_dims", "start_indices_batching_dims"];
        self.indexing().check(names, x, indices)?;
        let dropped = [self.collapsed_slice_dims.as_slice(), &self.operand_batching_dims].concat();
        let sizes = &self.slice_sizes;
        let is_inside = sizes.len() == x.rank() && sizes.iter().zip(&x.shape).all(|(size, length)| size <= length);
        if !is_inside {
            return Err(format!("slice_sizes is {sizes:?} of {x}; allowed: up to the length of each axis"));
        }
        let fits = dropped.iter().all(|&axis| sizes.get(axis) == Some(&1))
            && dropped.iter().enumerate().all(|(place, axis)| !dropped[..place].contains(axis));
        if !fits {
            return Err(format!(
                "collapsed_slice_dims is {:?} and operand_batching_dims {:?} of {x}; allowed: axes, each once, of \
                 slice_sizes 1",
                self.collapsed_slice_dims, self.operand_batching_dims
            ));
        }
        let (batch, kept) = (self.indexing().batch(&indices.shape), self.kept());
        let rank = batch.len() + kept.len();
        if self.offset_dims.len() != kept.len() || !are_ascending(&self.offset_dims, rank) {
            let came = &self.offset_dims;
            return Err(format!("offset_dims is {came:?}; allowed: {} ascending axes of {rank}", kept.len()));
        }
        let lengths = [batch.as_slice(), &kept].concat();
        let shape: Vec<usize> = self.order(batch.len(), rank).into_iter().map(|axis| lengths[axis]).collect();
        check_same("the result", y, "the windows", &x.with_shape(&shape))
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let (x, indices, kind) = (operands[0], operands[1], &results[0]);
        let indexing = self.indexing();
        let places = indexing.places(indices, x.shape(), &self.slice_sizes, Outside::Moved)?;
        let block = Block::new(&self.slice_sizes, &row_major(x.shape()));
        let words = on_words!(x.words(), words => {
            let mut out = Vec::with_capacity(kind.elements());
            places.into_iter().flatten().for_each(|place| block.read(words, place, &mut out));
            out
        });
        let batch = indexing.batch(indices.shape());
        let lengths = [batch.as_slice(), &self.kept()].concat();
        let windows = Tensor::new(kind.with_shape(&lengths), words)?;
        Ok(vec![permuted(&windows, &self.order(batch.len(), lengths.len()))?])
    }

    /// Whole rows of a table, as embeddings are, and single elements: transfers whose addresses are the indices.
    fn emit(&self, emitter: &mut Emitter, operands: &[View], results: &[View], _: &ExecutionOptions) -> Result<bool> {
        let (x, indices, out) = (&operands[0], &operands[1], &results[0]);
        let behind = out.rank() - self.offset_dims.len().min(out.rank());
        let is_last = self.offset_dims.iter().copied().eq(behind..out.rank());
        // Windows of one element lie in the order of their indices, whichever axes are theirs.
        let is_single = self.slice_sizes.iter().all(|&size| size == 1);
        let rows = self.indexing().rows(&indices.shape, &x.shape, &self.slice_sizes, Outside::Moved)?;
        match rows {
            Some(rows) if is_last || is_single => rows.emit_gather(emitter, x, indices, out),
            _ => Ok(false),
        }
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        let (behind, batch) = (results[0].rank(), self.indexing().batch(&operands[1].shape).len());
        let order = self.order(batch, behind);
        let is_alone = self.operand_batching_dims.is_empty();
        let axes = (0..batch).filter(|_| is_alone);
        axes.map(|axis| OperationCut {
            operands: vec![None, Some(if axis < self.index_vector_dim { axis } else { axis + 1 })],
            results: vec![order.iter().position(|&of| of == axis).unwrap_or(axis)],
        })
        .collect()
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "gather",
    jax: &["stablehlo.gather"],
    aten: &["embedding", "index", "index_select", "gather"],
    template: "dma_copy of whole rows or single elements by their indices; else a function of GpSimdE",
    accuracy: "exact",
    read: plain::<Gather>,
}];
