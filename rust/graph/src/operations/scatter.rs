//! Windows joined into an array at places that are data.

use std::sync::Arc;

use half::{bf16, f16};
use serde::Deserialize;
use trn3_machine::dtype::DType;
use trn3_machine::view::View;
use trn3_numerics::{CastOptions, Format, cast_one};

use super::indexing::{Indexing, Outside, are_ascending};
use super::reduce::ReduceFunction;
use crate::emitter::Emitter;
use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, TensorOperation};
use crate::options::ExecutionOptions;
use crate::row::{OperationRow, plain};
use crate::strided::{Block, permuted, row_major};
use crate::tensor::{Tensor, change_words};
use crate::tensor_type::TensorType;

/// What becomes of an element that an update comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScatterFunction {
    /// The update takes its place.
    Replace,
    /// Their sum does.
    Add,
    /// Their product does.
    Multiply,
    /// The larger does.
    Maximum,
    /// The smaller does.
    Minimum,
}

impl ScatterFunction {
    fn joined_by(self) -> Option<ReduceFunction> {
        match self {
            ScatterFunction::Replace => None,
            ScatterFunction::Add => Some(ReduceFunction::Add),
            ScatterFunction::Multiply => Some(ReduceFunction::Multiply),
            ScatterFunction::Maximum => Some(ReduceFunction::Maximum),
            ScatterFunction::Minimum => Some(ReduceFunction::Minimum),
        }
    }
}

/// The operand with windows joined into it, one for each index: `scatter(x, indices, updates)`, as StableHLO defines it.
/// Windows come one after another in ascending order of their indices, each step computed in float32 and rounded to the
/// type when it is written **(choice)**. A window that would reach beyond the operand is left out whole, as XLA has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scatter {
    /// Axes of the updates along which windows lie.
    pub update_window_dims: Vec<usize>,
    /// Axes of the operand that windows do not have.
    pub inserted_window_dims: Vec<usize>,
    /// Axes of the operand that go along with axes of the indices.
    #[serde(default)]
    pub input_batching_dims: Vec<usize>,
    /// Those axes of the indices.
    #[serde(default)]
    pub scatter_indices_batching_dims: Vec<usize>,
    /// The operand's axis of each component of an index.
    pub scatter_dims_to_operand_dims: Vec<usize>,
    /// The axis of components; the rank of the indices where they are single numbers.
    pub index_vector_dim: usize,
    /// What joins.
    pub function: ScatterFunction,
}

impl Scatter {
    fn indexing(&self) -> Indexing<'_> {
        Indexing {
            components: &self.scatter_dims_to_operand_dims,
            vector: self.index_vector_dim,
            operand_batching: &self.input_batching_dims,
            indices_batching: &self.scatter_indices_batching_dims,
        }
    }

    /// Lengths of a window along every axis of the operand; `None` where there are not as many as windows have axes.
    fn sizes(&self, rank: usize, updates: &[usize]) -> Option<Vec<usize>> {
        let is_missing = |axis| self.inserted_window_dims.contains(&axis) || self.input_batching_dims.contains(&axis);
        let mut lengths = self.update_window_dims.iter().map(|&axis| updates[axis]);
        let sizes: Option<Vec<usize>> =
            (0..rank).map(|axis| if is_missing(axis) { Some(1) } else { lengths.next() }).collect();
        sizes.filter(|_| lengths.next().is_none())
    }

    /// Axes of the updates: those of indices, then those of windows.
    fn order(&self, rank: usize) -> Vec<usize> {
        let scattered = (0..rank).filter(|axis| !self.update_window_dims.contains(axis));
        scattered.chain(self.update_window_dims.iter().copied()).collect()
    }
}

impl TensorOperation for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x, indices, updates] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        check_same("the result", y, "the operand", x)?;
        check_same("the updates' elements", &updates.with_shape(&[]), "the operand's", &x.with_shape(&[]))?;
        if self.function != ScatterFunction::Replace && !(x.is_float() || x.is_integer() || x.is_bool()) {
            return Err(format!("the operand is {x}, which {:?} does not join", self.function));
        }
        let names = ["scatter_dims_to_operand_dims", "input_batching_dims", "scatter_indices_batching_dims"];
        self.indexing().check(names, x, indices)?;
        let came = &self.update_window_dims;
        if !are_ascending(came, updates.rank()) {
            return Err(format!("update_window_dims is {came:?} of {updates}; allowed: ascending axes"));
        }
        let missing = [self.inserted_window_dims.as_slice(), &self.input_batching_dims].concat();
        let are_distinct = missing.iter().enumerate().all(|(place, axis)| !missing[..place].contains(axis));
        let sizes = self.sizes(x.rank(), &updates.shape);
        let (true, true, Some(sizes)) = (are_distinct, missing.iter().all(|&axis| axis < x.rank()), sizes) else {
            return Err(format!(
                "inserted_window_dims is {:?}, input_batching_dims {:?} and update_window_dims {came:?} for {x}; each axis \
                 of it has to be one of these",
                self.inserted_window_dims, self.input_batching_dims
            ));
        };
        if let Some(axis) = (0..x.rank()).find(|&axis| sizes[axis] > x.shape[axis]) {
            return Err(format!("windows are {} long along axis {axis} of {x}", sizes[axis]));
        }
        let batch = self.indexing().batch(&indices.shape);
        let order = self.order(updates.rank());
        if batch.iter().copied().eq(order[..order.len() - came.len()].iter().map(|&axis| updates.shape[axis])) {
            Ok(())
        } else {
            Err(format!("updates are {updates} with windows along {came:?}; indices {indices} name windows {batch:?}"))
        }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let [x, indices, updates] = [operands[0], operands[1], operands[2]];
        let kind = results[0].clone();
        let Some(sizes) = self.sizes(x.shape().len(), updates.shape()) else { return Ok(vec![x.clone()]) };
        let windows = permuted(updates, &self.order(updates.shape().len()))?;
        let job = Job {
            block: Block::new(&sizes, &row_major(x.shape())),
            size: sizes.iter().product(),
            places: self.indexing().places(indices, x.shape(), &sizes, Outside::Dropped)?,
        };
        let Some(function) = self.function.joined_by() else {
            let mut made = x.clone();
            change_words!(made.words_mut(), windows.words(), (x, updates) => job.join(x, updates, |_, value| value));
            return Ok(vec![made]);
        };
        let made = if kind.is_float() {
            let (mut values, updates) = (x.floats()?.into_owned(), windows.floats()?);
            let operator = function.operator();
            match kind.dtype {
                DType::Float32 => job.join(&mut values, &updates, |x, y| operator.apply(x, y)),
                DType::BFloat16 => {
                    job.join(&mut values, &updates, |x, y| bf16::from_f32(operator.apply(x, y)).to_f32())
                }
                DType::Float16 => job.join(&mut values, &updates, |x, y| f16::from_f32(operator.apply(x, y)).to_f32()),
                _ => job.join(&mut values, &updates, |x, y| written(kind.dtype, operator.apply(x, y))),
            }
            Tensor::from_floats(kind, values)?
        } else {
            let (mut values, updates) = (x.integers()?, windows.integers()?);
            // Wrapping at the end is wrapping at each step: the larger and the smaller never leave the type.
            job.join(&mut values, &updates, |x, y| function.of_integers(&kind, x, y));
            Tensor::from_integers(kind, values)?
        };
        Ok(vec![made])
    }

    /// Whole rows of a table, as the gradient of an embedding is, and single elements.
    fn emit(&self, emitter: &mut Emitter, operands: &[View], results: &[View], _: &ExecutionOptions) -> Result<bool> {
        let [x, indices, updates] = [&operands[0], &operands[1], &operands[2]];
        let Some(sizes) = self.sizes(x.rank(), &updates.shape) else { return Ok(false) };
        let Some(rows) = self.indexing().rows(&indices.shape, &x.shape, &sizes, Outside::Dropped)? else {
            return Ok(false);
        };
        let order = self.order(updates.rank());
        let updates = View {
            shape: order.iter().map(|&axis| updates.shape[axis]).collect(),
            strides: order.iter().map(|&axis| updates.strides[axis]).collect(),
            ..updates.clone()
        };
        let row = Scatter {
            update_window_dims: vec![1],
            inserted_window_dims: vec![0],
            input_batching_dims: Vec::new(),
            scatter_indices_batching_dims: Vec::new(),
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            function: self.function,
        };
        let join: Option<Arc<dyn TensorOperation>> =
            if self.function == ScatterFunction::Replace { None } else { Some(Arc::new(row)) };
        rows.emit_scatter(emitter, (x, indices, &updates), &results[0], join)
    }

    fn arithmetic(&self, operands: &[&TensorType], _: &[&TensorType]) -> u64 {
        if self.function == ScatterFunction::Replace { 0 } else { operands[2].elements() as u64 }
    }
}

/// One value rounded to a type, as writing it does.
fn written(dtype: DType, value: f32) -> f32 {
    let format = dtype.format().unwrap_or(Format::F32);
    let code = cast_one(Format::F32, value.to_bits(), format, CastOptions::default(), 0);
    let back = code.and_then(|code| cast_one(format, code, Format::F32, CastOptions::default(), 0));
    back.map_or(f32::NAN, f32::from_bits)
}

/// Where windows of updates go.
struct Job {
    block: Block,
    size: usize,
    places: Vec<Option<isize>>,
}

impl Job {
    fn join<T: Copy>(&self, target: &mut [T], updates: &[T], mut join: impl FnMut(T, T) -> T) {
        for (place, values) in self.places.iter().zip(updates.chunks(self.size.max(1))) {
            if let Some(place) = *place {
                self.block.join(target, place, values, &mut join);
            }
        }
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "scatter",
    jax: &["stablehlo.scatter"],
    aten: &["scatter", "scatter_add", "scatter_reduce", "index_put", "embedding_dense_backward"],
    template: "of whole rows or single elements dma_copy by their indices, joined by a function of GpSimdE; else that \
               function on all",
    accuracy: "each step rounded to nearest; integers exact",
    read: plain::<Scatter>,
}];
