//! Operations that move elements and compute nothing.

use serde::Deserialize;
use smallvec::SmallVec;
use trn3_machine::view::{Strides, View};

use crate::emitter::Emitter;
use crate::error::{Reason, Result};
use crate::fits::exactly;
use crate::graph::{Execution, OperationCut, TensorOperation};
use crate::options::ExecutionOptions;
use crate::pieces::emit_copied;
use crate::row::{OperationRow, plain};
use crate::strided::{are_axes, permuted, pick, row_major};
use crate::tensor::{Tensor, Words};
use crate::tensor_type::TensorType;

/// Another look at the operand's memory.
fn looked(operand: &View, result: &TensorType, mut strides: Strides, offset: i64) -> View {
    if strides.is_empty() {
        strides.push(1);
    }
    let shape =
        if result.shape.is_empty() { [1].into_iter().collect() } else { result.shape.iter().copied().collect() };
    View { shape, strides, offset: operand.offset + offset, ..operand.clone() }
}

/// Refuses a result that is not of this type.
fn check_result(result: &TensorType, expected: &TensorType) -> Reason {
    if result == expected { Ok(()) } else { Err(format!("the result is {result}; it has to be {expected}")) }
}

/// Elements along new axes again: axis i of the operand is axis `dimensions[i]` of the result, or of length 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BroadcastInDim {
    /// The result's axis of each axis of the operand.
    pub dimensions: Vec<usize>,
}

impl TensorOperation for BroadcastInDim {
    fn name(&self) -> &'static str {
        "broadcast_in_dim"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        let fits = x.dtype == y.dtype
            && self.dimensions.len() == x.rank()
            && are_axes(&self.dimensions, y.rank())
            && self.dimensions.iter().zip(&x.shape).all(|(&axis, &length)| length == 1 || length == y.shape[axis]);
        if fits {
            Ok(())
        } else {
            Err(format!(
                "{x} came with dimensions {:?} for {y}; each axis is that of the result, or of length 1",
                self.dimensions
            ))
        }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let (x, shape) = (operands[0], &results[0].shape);
        let own = row_major(x.shape());
        let mut strides = vec![0; shape.len()];
        for (axis, (&target, &length)) in self.dimensions.iter().zip(x.shape()).enumerate() {
            strides[target] = if length == 1 { 0 } else { own[axis] };
        }
        Ok(vec![pick(x, shape, &strides, 0)?])
    }

    fn look(&self, operand: &View, result: &TensorType) -> Option<View> {
        let mut strides: Strides = SmallVec::from_elem(0, result.rank().max(1));
        for (axis, &target) in self.dimensions.iter().enumerate() {
            strides[target] = if operand.shape[axis] == 1 { 0 } else { operand.strides[axis] };
        }
        Some(looked(operand, result, strides, 0))
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// The same elements in another shape.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reshape {}

impl TensorOperation for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        let fits = x.dtype == y.dtype && x.elements() == y.elements();
        if fits {
            Ok(())
        } else {
            Err(format!("the result is {y} of {x}; as many elements of the same type are allowed"))
        }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        Ok(vec![operands[0].reinterpreted(results[0].clone())?])
    }

    /// Axes of the operand that follow one another without gaps may be cut anew.
    fn look(&self, operand: &View, result: &TensorType) -> Option<View> {
        let mut runs: Vec<(usize, i64)> = Vec::new();
        for (&length, &stride) in operand.shape.iter().zip(&operand.strides).filter(|(length, _)| **length != 1) {
            match runs.last_mut() {
                Some((outer, step)) if *step == stride * length as i64 => (*outer, *step) = (*outer * length, stride),
                _ => runs.push((length, stride)),
            }
        }
        let mut strides: Strides = SmallVec::from_elem(1, result.rank().max(1));
        for (axis, &length) in result.shape.iter().enumerate().rev() {
            if length == 1 {
                continue;
            }
            let (left, step) = runs.last_mut()?;
            strides[axis] = *step;
            if !left.is_multiple_of(length) {
                return None;
            }
            (*left, *step) = (*left / length, *step * length as i64);
            if *left == 1 {
                runs.pop();
            }
        }
        Some(looked(operand, result, strides, 0))
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// Axes in another order: axis i of the result is axis `permutation[i]` of the operand.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transpose {
    /// The operand's axis of each axis of the result.
    pub permutation: Vec<usize>,
}

impl TensorOperation for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        if self.permutation.len() != x.rank() || !are_axes(&self.permutation, x.rank()) {
            return Err(format!("permutation is {:?} of {x}; allowed: each axis once", self.permutation));
        }
        let shape: Vec<usize> = self.permutation.iter().map(|&axis| x.shape[axis]).collect();
        check_result(y, &x.with_shape(&shape))
    }

    fn execute(&self, operands: &[&Tensor], _: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        Ok(vec![permuted(operands[0], &self.permutation)?])
    }

    fn look(&self, operand: &View, result: &TensorType) -> Option<View> {
        let strides = self.permutation.iter().map(|&axis| operand.strides[axis]).collect();
        Some(looked(operand, result, strides, 0))
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// Elements from `start` to before `limit`, each `stride`-th, along each axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// First element of each axis.
    pub start: Vec<usize>,
    /// The first element after the slice.
    pub limit: Vec<usize>,
    /// Elements from one to the next.
    pub stride: Vec<usize>,
}

impl TensorOperation for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        let rank = x.rank();
        let has_rank = [&self.start, &self.limit, &self.stride].iter().all(|list| list.len() == rank);
        let is_inside = |axis: usize| {
            self.start[axis] <= self.limit[axis] && self.limit[axis] <= x.shape[axis] && self.stride[axis] > 0
        };
        if !has_rank || !(0..rank).all(is_inside) {
            let came = format!("{:?} to {:?} by {:?}", self.start, self.limit, self.stride);
            return Err(format!("{came} came of {x}; a slice lies inside, with a positive stride"));
        }
        let shape: Vec<usize> =
            (0..rank).map(|axis| (self.limit[axis] - self.start[axis]).div_ceil(self.stride[axis])).collect();
        check_result(y, &x.with_shape(&shape))
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let own = row_major(operands[0].shape());
        let offset = own.iter().zip(&self.start).map(|(step, &start)| step * start as isize).sum();
        let strides: Vec<isize> = own.iter().zip(&self.stride).map(|(step, &stride)| step * stride as isize).collect();
        Ok(vec![pick(operands[0], &results[0].shape, &strides, offset)?])
    }

    fn look(&self, operand: &View, result: &TensorType) -> Option<View> {
        let steps = operand.strides.iter().zip(&self.stride);
        let strides = steps.map(|(step, &stride)| step * stride as i64).collect();
        let offset = operand.strides.iter().zip(&self.start).map(|(step, &start)| step * start as i64).sum();
        Some(looked(operand, result, strides, offset))
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// The operand amid a padding value: `pad(operand, value)`; `interior` goes between neighbours, negative edges cut.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pad {
    /// Elements before each axis.
    pub low: Vec<i64>,
    /// Elements after each axis.
    pub high: Vec<i64>,
    /// Elements between two neighbours.
    pub interior: Vec<usize>,
}

impl TensorOperation for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x, value] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        let rank = x.rank();
        if self.low.len() != rank || self.high.len() != rank || self.interior.len() != rank {
            return Err(format!(
                "low, high and interior have {}, {} and {} axes of {x}",
                self.low.len(),
                self.high.len(),
                self.interior.len()
            ));
        }
        if *value != TensorType::new(x.dtype, &[]) {
            return Err(format!("the padding value is {value}; allowed: a scalar of {}", x.dtype));
        }
        let mut shape = Vec::with_capacity(rank);
        for axis in 0..rank {
            let spread = (x.shape[axis] + x.shape[axis].saturating_sub(1) * self.interior[axis]) as i64;
            let length = spread.checked_add(self.low[axis]).and_then(|sum| sum.checked_add(self.high[axis]));
            let length = length.and_then(|length| usize::try_from(length).ok());
            shape.push(length.ok_or_else(|| {
                format!("padding {} and {} leaves nothing of axis {axis} of {x}", self.low[axis], self.high[axis])
            })?);
        }
        check_result(y, &x.with_shape(&shape))
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        /// Row by row: where neighbours stay neighbours, what is inside is copied at once.
        fn padded<T: Copy>(pad: &Pad, x: &[T], value: T, from: &[usize], to: &[usize]) -> Vec<T> {
            let mut out = vec![value; to.iter().product()];
            let Some((&length, outer)) = from.split_last() else {
                out.copy_from_slice(x);
                return out;
            };
            let last = outer.len();
            let (low, step) = (pad.low[last], pad.interior[last] as i64 + 1);
            let place = |column: usize| low + column as i64 * step;
            let inside = (0..length).position(|column| place(column) >= 0).unwrap_or(length)
                ..(0..length).rposition(|column| place(column) < to[last] as i64).map_or(0, |column| column + 1);
            if inside.is_empty() {
                return out;
            }
            let strides = row_major(to);
            let mut index = vec![0usize; last];
            for row in x.chunks(length) {
                let at = |axis: usize| pad.low[axis] + (index[axis] * (pad.interior[axis] + 1)) as i64;
                if (0..last).all(|axis| (0..to[axis] as i64).contains(&at(axis))) {
                    let start = (0..last).map(|axis| at(axis) as isize * strides[axis]).sum::<isize>();
                    let first = (start as i64 + place(inside.start)) as usize;
                    let row = &row[inside.clone()];
                    if step == 1 {
                        out[first..first + row.len()].copy_from_slice(row);
                    } else {
                        out[first..].iter_mut().step_by(step as usize).zip(row).for_each(|(to, &from)| *to = from);
                    }
                }
                for axis in (0..last).rev() {
                    index[axis] += 1;
                    if index[axis] < from[axis] {
                        break;
                    }
                    index[axis] = 0;
                }
            }
            out
        }
        let (x, value, kind) = (operands[0], operands[1], results[0].clone());
        let (from, to) = (x.shape(), kind.shape.as_slice());
        let words = match (x.words(), value.words()) {
            (Words::One(x), Words::One(value)) => Words::One(padded(self, x, value[0], from, to).into()),
            (Words::Two(x), Words::Two(value)) => Words::Two(padded(self, x, value[0], from, to).into()),
            (Words::Four(x), Words::Four(value)) => Words::Four(padded(self, x, value[0], from, to).into()),
            (words, _) => words.clone(),
        };
        Ok(vec![Tensor::new(kind, words)?])
    }

    /// Every element is the padding value first; then what stays of the operand goes to its places.
    fn emit(&self, emitter: &mut Emitter, operands: &[View], results: &[View], _: &ExecutionOptions) -> Result<bool> {
        let (x, value, out) = (&operands[0], &operands[1], &results[0]);
        if out.is_empty() {
            return Ok(true);
        }
        let strides = out.shape.iter().map(|_| 0).collect();
        emit_copied(emitter, out, &View { shape: out.shape.clone(), strides, ..value.clone() })?;
        let (mut from, mut to) = (x.clone(), out.clone());
        for axis in 0..self.low.len() {
            let (low, step) = (self.low[axis], self.interior[axis] as i64 + 1);
            let room = out.shape[axis] as i64 - low;
            let first = (-low).max(0).div_euclid(step) + i64::from((-low).max(0).rem_euclid(step) > 0);
            let last = (room.max(0) + step - 1).div_euclid(step).min(x.shape[axis] as i64);
            if last <= first {
                return Ok(true);
            }
            from.offset += first * x.strides[axis];
            to.offset += (low + first * step) * out.strides[axis];
            to.strides[axis] = out.strides[axis] * step;
            from.shape[axis] = (last - first) as usize;
            to.shape[axis] = from.shape[axis];
        }
        emitter.copy(&to, &from)?;
        Ok(true)
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// Tensors one after another along an axis, as a value of a type that was checked.
pub(super) fn joined(tensors: &[&Tensor], dimension: usize, kind: &TensorType) -> Result<Tensor> {
    let outer: usize = kind.shape[..dimension].iter().product();
    let parts: Vec<(&[u8], usize)> =
        tensors.iter().map(|tensor| (tensor.bytes(), tensor.kind().bytes() / outer.max(1))).collect();
    let mut bytes = Vec::with_capacity(kind.bytes());
    for row in 0..outer {
        parts.iter().for_each(|(part, width)| bytes.extend_from_slice(&part[row * width..(row + 1) * width]));
    }
    Tensor::from_bytes(kind.clone(), &bytes)
}

/// Operands one after another along an axis.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concatenate {
    /// The axis.
    pub dimension: usize,
}

impl TensorOperation for Concatenate {
    fn name(&self) -> &'static str {
        "concatenate"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [y] = exactly("results", results)?;
        let axis = self.dimension;
        let Some(first) = operands.first() else { return Err("no operands came; allowed: one or more".to_owned()) };
        let is_like = |other: &&TensorType| {
            let same = |(place, (x, y)): (usize, (&usize, &usize))| place == axis || x == y;
            other.dtype == first.dtype
                && other.rank() == first.rank()
                && other.shape.iter().zip(&first.shape).enumerate().all(same)
        };
        if axis >= first.rank() {
            return Err(format!("dimension is {axis} of {first}"));
        }
        if let Some(other) = operands.iter().find(|other| !is_like(other)) {
            return Err(format!("{other} came after {first}; operands differ along axis {axis} alone"));
        }
        let mut shape = first.shape.clone();
        shape[axis] = operands.iter().map(|kind| kind.shape[axis]).sum();
        check_result(y, &first.with_shape(&shape))
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        Ok(vec![joined(operands, self.dimension, &results[0])?])
    }

    fn emit(&self, emitter: &mut Emitter, operands: &[View], results: &[View], _: &ExecutionOptions) -> Result<bool> {
        let mut start = 0;
        for operand in operands {
            let mut part = results[0].clone();
            part.offset += start * part.strides[self.dimension];
            part.shape.clone_from(&operand.shape);
            start += operand.shape[self.dimension] as i64;
            if !part.is_empty() {
                emit_copied(emitter, &part, operand)?;
            }
        }
        Ok(true)
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

/// Axes from their ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reverse {
    /// Which.
    pub dimensions: Vec<usize>,
}

impl TensorOperation for Reverse {
    fn name(&self) -> &'static str {
        "reverse"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        if !are_axes(&self.dimensions, x.rank()) {
            return Err(format!("dimensions are {:?} of {x}; allowed: axes, each at most once", self.dimensions));
        }
        check_result(y, x)
    }

    fn execute(&self, operands: &[&Tensor], _: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let x = operands[0];
        let mut strides = row_major(x.shape());
        let mut offset = 0;
        for &axis in self.dimensions.iter().filter(|&&axis| x.shape()[axis] > 0) {
            offset += strides[axis] * (x.shape()[axis] as isize - 1);
            strides[axis] = -strides[axis];
        }
        Ok(vec![pick(x, x.shape(), &strides, offset)?])
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        let axes = (0..results[0].rank()).filter(|axis| !self.dimensions.contains(axis));
        axes.map(|axis| OperationCut::same(axis, operands.len(), results.len())).collect()
    }

    fn arithmetic(&self, _: &[&TensorType], _: &[&TensorType]) -> u64 {
        0
    }
}

const fn row<T: serde::de::DeserializeOwned + TensorOperation>(
    name: &'static str,
    jax: &'static [&'static str],
    aten: &'static [&'static str],
    template: &'static str,
) -> OperationRow {
    OperationRow { name, jax, aten, template, accuracy: "exact", read: plain::<T> }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[
    row::<BroadcastInDim>("broadcast_in_dim", &["stablehlo.broadcast_in_dim"], &["expand"], "a view with strides of 0"),
    row::<Reshape>("reshape", &["stablehlo.reshape"], &["view", "_unsafe_view", "squeeze", "unsqueeze"], "a view"),
    row::<Transpose>(
        "transpose",
        &["stablehlo.transpose"],
        &["permute", "t", "transpose"],
        "a view; dma_copy or nc_transpose where rows have to follow one another",
    ),
    row::<Slice>("slice", &["stablehlo.slice"], &["slice", "select", "split_with_sizes"], "a view"),
    row::<Pad>("pad", &["stablehlo.pad"], &["constant_pad_nd"], "memset and dma_copy"),
    row::<Concatenate>("concatenate", &["stablehlo.concatenate"], &["cat", "stack"], "dma_copy"),
    row::<Reverse>("reverse", &["stablehlo.reverse"], &["flip"], "a function of GpSimdE"),
];
