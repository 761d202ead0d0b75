//! Raw access patterns: the storage addressed anew by strides and counts.

use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::view::index::{check_scalar, check_tile};
use crate::view::{Dynamic, ScalarIndex, View, tuple_text};

/// Axes of a hardware pattern on chip: the partitions and four free ones.
const ON_CHIP_AXES: usize = 5;

impl View {
    /// The storage read by a pattern of `(stride, count)` pairs, outermost first, in elements of the result's type.
    ///
    /// Shape and strides of this view do not matter, with one exception: a dynamic offset is scaled by this view's
    /// stride along `indirect_dim`. `offset` is added to this view's own offset (None: nothing is added); a front end
    /// may want to say so when the latter is not 0, since some documents hold it to be ignored. With `dtype` the
    /// storage, this view's offset and its scaling stride are re-expressed in that type **(choice)**.
    ///
    /// On chip the first pair is the partitions: its stride is the elements of a partition, or anything if its count is
    /// 1; no pattern leaves its partition **(choice)**.
    ///
    /// - `scalar_offset`: position += value * stride of `indirect_dim`; values whose every element lies in the storage
    ///   are in bounds **(choice)**, on chip in the same partitions unless that stride is one of partitions.
    /// - `vector_offset`: row p starts at `index[p]` * stride of axis 0, whatever the first pair's stride says; HBM and
    ///   `indirect_dim` 0 only. One index a row: the partitions of the first column, then those of the next
    ///   **(choice)**. Values in `[0, shape[0])` of this view are in bounds, less those whose row would end outside the
    ///   storage.
    ///
    /// # Errors
    /// [`Error::Validation`] of `ap`: what the hardware's patterns cannot say (partition stride, number of axes,
    /// negative strides). [`Error::OutOfBounds`]: an element outside the storage. [`Error::Value`]: no elements, both
    /// kinds of dynamic offset, a view that is indirect already, another `indirect_dim` or memory than allowed, a count
    /// that is not the number of indexes, sizes that `dtype` does not divide. [`Error::Type`]: indexes that are no
    /// 32-bit integers.
    pub fn ap(
        &self,
        pattern: &[(i64, i64)],
        offset: Option<i64>,
        scalar_offset: Option<ScalarIndex>,
        vector_offset: Option<View>,
        indirect_dim: usize,
        dtype: Option<DType>,
    ) -> Result<View> {
        if self.is_indirect() {
            return Err(self.refuse(
                "ap: the tensor is at a dynamic address already; call ap on the tensor the address was taken from",
            ));
        }
        let dtype = dtype.unwrap_or(self.dtype);
        let free =
            self.recount("elements of the storage", self.storage.free_elements() as i64, self.storage.dtype, dtype)?;
        self.check_pattern(pattern, free, dtype)?;
        let mut out = self.hollow();
        out.dtype = dtype;
        out.shape.extend(pattern.iter().map(|&(_, count)| count as usize));
        out.strides.extend(pattern.iter().map(|&(stride, _)| stride));
        let base = self.recount("offset", self.offset, self.dtype, dtype)?;
        out.offset = base.checked_add(offset.unwrap_or(0)).filter(|&start| start >= 0).ok_or_else(|| {
            let given = offset.unwrap_or(0);
            Error::OutOfBounds(format!(
                "Out-of-bound access for tensor `{}` in ap: offset {given} from {base} is before its start",
                self.storage.name
            ))
        })?;
        let reach = out.reach(free, vector_offset.is_some())?;
        let scale = || {
            let axis = self.axis("ap: indirect_dim", indirect_dim)?;
            let stride = self.recount("stride of indirect_dim", self.strides[axis], self.dtype, dtype)?;
            if stride < 1 {
                return Err(
                    self.refuse(format_args!("ap: indirect_dim {axis} is broadcast; its stride must be above 0"))
                );
            }
            Ok(stride)
        };
        out.dynamic = match (scalar_offset, vector_offset) {
            (None, None) => None,
            (Some(_), Some(_)) => {
                return Err(self.refuse("ap: scalar_offset and vector_offset are both given; at most one is allowed"));
            }
            (Some(index), None) => {
                check_scalar("ap: scalar_offset", &index)?;
                let stride = scale()?;
                let bound = reach.values(indirect_dim, stride);
                Some(Arc::new(Dynamic::Scalar { index, stride, bound }))
            }
            (None, Some(index)) => {
                if self.is_on_chip() || indirect_dim != 0 {
                    let buffer = self.storage.buffer;
                    return Err(self.refuse(format_args!(
                        "ap: vector_offset with indirect_dim {indirect_dim} of a tensor in {buffer}; \
                         must be indirect_dim 0 in HBM"
                    )));
                }
                check_tile("ap: vector_offset", &index)?;
                if index.len() != out.shape[0] {
                    let (indexes, shape) = (index.len(), tuple_text(&index.shape));
                    return Err(self.refuse(format_args!(
                        "ap: count of the first pair is {}, must be the {indexes} indexes of vector_offset {shape}",
                        out.shape[0]
                    )));
                }
                let stride = scale()?;
                let bound = reach.values(0, stride).min(self.shape[0]);
                Some(Arc::new(Dynamic::Rows { index, stride, bound }))
            }
        };
        Ok(out)
    }

    /// `value` elements of `from`, counted in elements of `to`.
    fn recount(&self, what: &str, value: i64, from: DType, to: DType) -> Result<i64> {
        let (old, new) = (from.size() as i64, to.size() as i64);
        if old == new {
            return Ok(value);
        }
        value.checked_mul(old).filter(|bytes| bytes % new == 0).map(|bytes| bytes / new).ok_or_else(|| {
            self.refuse(format_args!("ap: {what} is {value} of {old} bytes, which {to} of {new} bytes does not divide"))
        })
    }

    /// What a pattern may be, whatever lies at its positions.
    fn check_pattern(&self, pattern: &[(i64, i64)], free: i64, dtype: DType) -> Result<()> {
        let axes = pattern.len();
        let invalid = |got: String, allowed: String| Err(Error::validation("ap", "pattern", got, allowed));
        if self.is_on_chip() && !(2..=ON_CHIP_AXES).contains(&axes) {
            return invalid(
                format!("{axes} pairs for tensor `{}` in {}", self.storage.name, self.storage.buffer),
                format!(
                    "SBUF and PSUM tensors must have at least 2 dimensions (partition-dim and free-dim), \
                     patterns at most {ON_CHIP_AXES} pairs"
                ),
            );
        }
        if axes == 0 {
            return invalid("no pairs".to_string(), "at least one".to_string());
        }
        let mut elements = 1i64;
        for &(stride, count) in pattern {
            if stride < 0 {
                return invalid(format!("stride {stride} of pair [{stride}, {count}]"), "at least 0".to_string());
            }
            let product = elements.checked_mul(count).filter(|_| count >= 1);
            elements = product.ok_or_else(|| {
                self.refuse(format_args!("ap: count of pair [{stride}, {count}] must be at least 1 and countable"))
            })?;
        }
        let (stride, count) = pattern[0];
        if self.is_on_chip() && count > 1 && stride != free {
            return invalid(
                format!(
                    "ap() pattern has invalid partition stride. Partition step {stride} must equal tensor free \
                     dimension {free}"
                ),
                format!("of tensor `{}` in elements of {dtype}; with count 1 any", self.storage.name),
            );
        }
        Ok(())
    }

    /// Where the pattern's last element lies, if inside the storage of `free` elements (on chip: a partition).
    fn reach(&self, free: i64, rows_picked: bool) -> Result<Reach> {
        if free == 0 {
            return Err(self.refuse("ap: the storage has no elements"));
        }
        let name = &self.storage.name;
        let first_free = usize::from(self.is_on_chip() || rows_picked);
        let axes = self.shape.iter().zip(&self.strides).skip(first_free);
        // Wide enough for any pair of 64-bit numbers.
        let span: i128 = axes.map(|(&count, &stride)| (count as i128 - 1) * i128::from(stride)).sum();
        let (partition, start) =
            if self.is_on_chip() { (self.offset / free, self.offset % free) } else { (0, self.offset) };
        let last = i128::from(start) + span;
        if last >= i128::from(free) {
            return Err(Error::OutOfBounds(if self.is_on_chip() {
                format!(
                    "Out-of-bound access for tensor `{name}` on dimension 1: index range [{start}, {last}] exceed \
                     dimension size of {free} (elements of a partition)"
                )
            } else {
                format!(
                    "Out-of-bound access for tensor `{name}` in ap: index range [{start}, {last}] exceed size of {free}"
                )
            }));
        }
        let last_partition = partition + if self.is_on_chip() { self.shape[0] as i64 - 1 } else { 0 };
        let partitions =
            if self.is_on_chip() { self.storage.shape.first().map_or(1, |&length| length as i64) } else { 1 };
        if last_partition >= partitions {
            return Err(Error::OutOfBounds(format!(
                "Out-of-bound access for tensor `{name}` on dimension 0: index range [{partition}, {last_partition}] \
                 exceed dimension size of {partitions}"
            )));
        }
        let row = if self.is_on_chip() { free } else { i64::MAX };
        Ok(Reach { row, free_left: free - 1 - last as i64, partitions_left: partitions - 1 - last_partition })
    }
}

/// What is left behind the last element of a pattern.
struct Reach {
    /// Elements of a partition on chip.
    row: i64,
    /// Elements of the partition (in HBM: of the tensor) after the last one.
    free_left: i64,
    /// Partitions after the last one.
    partitions_left: i64,
}

impl Reach {
    /// How many values 0, 1, ... of a dynamic offset along an axis of this stride keep the pattern inside.
    fn values(&self, axis: usize, stride: i64) -> usize {
        let of_partitions = axis == 0 && stride % self.row == 0;
        let steps = if of_partitions { self.partitions_left / (stride / self.row) } else { self.free_left / stride };
        steps as usize + 1
    }
}
