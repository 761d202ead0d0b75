//! Windows at places that an array of indices names: what `gather` and `scatter` have in common.

use trn3_machine::dtype::DType;

use crate::error::{Reason, Result};
use crate::row_tiles::{Component, NamedRows};
use crate::strided::{are_axes, row_major};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// What becomes of a window that would reach beyond the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// It is moved until it lies inside.
    Moved,
    /// It is left out.
    Dropped,
}

/// How an array of indices names windows of an operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indexing<'a> {
    /// The operand's axis of each component of an index.
    pub(super) components: &'a [usize],
    /// The axis of components; components are single numbers where the indices have no such axis.
    pub(super) vector: usize,
    /// Axes of the operand that go along with axes of the indices.
    pub(super) operand_batching: &'a [usize],
    /// Those axes of the indices.
    pub(super) indices_batching: &'a [usize],
}

/// Whether axes ascend and belong to an array of `rank`.
pub(super) fn are_ascending(axes: &[usize], rank: usize) -> bool {
    axes.iter().all(|&axis| axis < rank) && axes.windows(2).all(|pair| pair[0] < pair[1])
}

impl Indexing<'_> {
    /// Refuses indices that do not fit an operand; `names` are those of the attributes.
    pub(super) fn check(&self, names: [&str; 3], operand: &TensorType, indices: &TensorType) -> Reason {
        let [components, operand_batching, indices_batching] = names;
        if !indices.is_integer() {
            return Err(format!("the indices are {indices}; allowed: integers"));
        }
        if self.vector > indices.rank() {
            return Err(format!("index_vector_dim is {} of {indices}; allowed: up to {}", self.vector, indices.rank()));
        }
        let count = indices.shape.get(self.vector).copied().unwrap_or(1);
        if self.components.len() != count {
            let came = self.components;
            return Err(format!("{components} is {came:?}; indices {indices} have {count} components"));
        }
        let named = [self.components, self.operand_batching].concat();
        if !are_axes(&named, operand.rank()) {
            return Err(format!(
                "{components} is {:?} and {operand_batching} {:?} of {operand}; allowed: axes, each once",
                self.components, self.operand_batching
            ));
        }
        let fits = |(&of_operand, &of_indices): (&usize, &usize)| {
            operand.shape.get(of_operand).is_some_and(|length| indices.shape.get(of_indices) == Some(length))
        };
        let is_batched = self.operand_batching.len() == self.indices_batching.len()
            && are_axes(self.indices_batching, indices.rank())
            && !self.indices_batching.contains(&self.vector)
            && self.operand_batching.iter().zip(self.indices_batching).all(fits);
        if is_batched {
            Ok(())
        } else {
            Err(format!(
                "{operand_batching} is {:?} of {operand} and {indices_batching} {:?} of {indices}; allowed: axes of equal \
                 lengths, without that of the components",
                self.operand_batching, self.indices_batching
            ))
        }
    }

    /// The shape of the indices without the axis of components: one window each.
    pub(super) fn batch(&self, indices: &[usize]) -> Vec<usize> {
        (0..indices.len()).filter(|&axis| axis != self.vector).map(|axis| indices[axis]).collect()
    }

    /// The first element of each window of `sizes`, in row-major order of the indices.
    pub(super) fn places(
        &self,
        indices: &Tensor,
        operand: &[usize],
        sizes: &[usize],
        outside: Outside,
    ) -> Result<Vec<Option<isize>>> {
        let numbers = indices.integers()?;
        let strides = row_major(operand);
        let batch = self.batch(indices.shape());
        let inner: usize = indices.shape().iter().skip(self.vector + 1).product();
        // Steps in the operand for each step along an axis of the batch.
        let mut along = vec![0; batch.len()];
        for (&of_operand, &of_indices) in self.operand_batching.iter().zip(self.indices_batching) {
            along[of_indices - usize::from(of_indices > self.vector)] = strides[of_operand];
        }
        let count: usize = batch.iter().product();
        let mut places = Vec::with_capacity(count);
        for window in 0..count {
            let first = window / inner * inner * self.components.len() + window % inner;
            let (mut place, mut is_inside) = (0, true);
            for (component, &axis) in self.components.iter().enumerate() {
                let start = numbers[first + component * inner];
                let moved = start.clamp(0, (operand[axis] - sizes[axis]) as i64);
                is_inside &= start == moved;
                place += moved as isize * strides[axis];
            }
            let mut rest = window;
            for (&length, step) in batch.iter().zip(&along).rev() {
                place += (rest % length) as isize * step;
                rest /= length;
            }
            places.push((is_inside || outside == Outside::Moved).then_some(place));
        }
        Ok(places)
    }

    /// The windows as rows of a table; None where they are none: along the first axes a window has one element, along the
    /// others all, and components of an index lie side by side.
    pub(super) fn rows(
        &self,
        indices: &[usize],
        operand: &[usize],
        sizes: &[usize],
        outside: Outside,
    ) -> Result<Option<NamedRows>> {
        let whole = sizes.iter().zip(operand).rev().take_while(|(size, length)| size == length).count();
        let split = operand.len() - whole;
        let is_last = self.vector >= indices.len() || self.vector + 1 == indices.len();
        if !is_last || sizes[..split].iter().any(|&size| size != 1) {
            return Ok(None);
        }
        let steps = |axis: usize| if axis < split { operand[axis + 1..split].iter().product() } else { 0 };
        let component = |&axis: &usize| Component { limit: operand[axis] - sizes[axis], step: steps(axis) };
        let width: usize = operand[split..].iter().product();
        let base = if self.operand_batching.is_empty() {
            None
        } else {
            let kind = TensorType::new(DType::Int32, indices);
            let zeros = Tensor::from_integers(kind.clone(), std::iter::repeat_n(0, kind.elements()))?;
            let places = self.places(&zeros, operand, sizes, Outside::Moved)?;
            Some(places.into_iter().flatten().map(|place| (place / width.max(1) as isize) as i64).collect())
        };
        Ok(Some(NamedRows {
            rows: operand[..split].iter().product(),
            width,
            components: self.components.iter().map(component).collect(),
            base,
            drops: outside == Outside::Dropped,
        }))
    }
}
