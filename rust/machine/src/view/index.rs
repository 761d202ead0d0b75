//! Indexing with integers, ranges and values known only at execution: what `tensor[...]` means.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::storage::Buffer;
use crate::view::{Dynamic, ScalarIndex, View};

/// One key of an index expression. Axes without a key are taken whole.
#[derive(Clone, Debug)]
pub enum Index {
    /// One position; negative ones count from the end.
    At(i64),
    /// `start:stop:step`. Negative bounds count from the end and nothing is clamped; `start` may be `stop`, for none, and
    /// `stop` behind the end as long as the last position is not.
    Range {
        /// First position; None: 0.
        start: Option<i64>,
        /// One past the last position; None: the length.
        stop: Option<i64>,
        /// Distance between positions, at least 1; None: 1.
        step: Option<i64>,
    },
    /// As many whole axes as the other keys leave.
    Ellipsis,
    /// `size` positions from one that is known at execution (`nl.ds` with a register or a tile as start).
    Dynamic {
        /// First position.
        index: ScalarIndex,
        /// Number of positions.
        size: usize,
    },
    /// One position that is known at execution.
    DynamicAt(ScalarIndex),
    /// The whole axis.
    All,
}

impl View {
    /// `self[keys]`.
    ///
    /// On chip one position on axis 0 keeps that axis, with length 1; one position on a free axis drops it, except the
    /// last free axis where no other would be left. In HBM one position drops its axis, except where none would be
    /// left. A position known at execution does as an integer does **(choice)**.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]: a position outside the axis. [`Error::Value`]: a range that ends before it begins, a step below 1, too many
    /// keys, a second dynamic key, a key on an axis whose positions an index tile already picks, a dynamic key on the
    /// partition axis. [`Error::Type`]: a dynamic index that is no 32-bit integer.
    pub fn index(&self, keys: &[Index]) -> Result<View> {
        let rank = self.rank();
        let ellipses = keys.iter().filter(|key| matches!(key, Index::Ellipsis)).count();
        let named = keys.len() - ellipses;
        if named > rank {
            return Err(self.refuse(format_args!("{named} indexes for {rank} dimensions")));
        }
        if ellipses > 1 {
            return Err(self.refuse(format_args!("{ellipses} ellipses in one index; at most one is allowed")));
        }
        let mut out = self.hollow();
        let mut axis = 0;
        for key in keys {
            match key {
                Index::Ellipsis => {
                    for _ in named..rank {
                        self.keep(axis, &mut out);
                        axis += 1;
                    }
                    continue;
                }
                Index::All => self.keep(axis, &mut out),
                Index::At(position) => {
                    let position = self.position(axis, *position)?;
                    self.movable(axis, "an index")?;
                    out.offset += position * self.strides[axis];
                    self.drop_axis(axis, &mut out);
                }
                Index::Range { start, stop, step } => {
                    let (start, length, step) = self.range(axis, *start, *stop, *step)?;
                    if (start, length, step) != (0, self.shape[axis], 1) {
                        self.movable(axis, "a slice")?;
                    }
                    out.offset += start * self.strides[axis];
                    out.shape.push(length);
                    out.strides.push(self.strides[axis].saturating_mul(step));
                }
                Index::Dynamic { index, size } => {
                    out.dynamic = Some(self.scalar(axis, index, *size)?);
                    out.shape.push(*size);
                    out.strides.push(self.strides[axis]);
                    if keys.iter().filter(|key| matches!(key, Index::Dynamic { .. } | Index::DynamicAt(_))).count() > 1
                    {
                        return Err(self.second_dynamic());
                    }
                }
                Index::DynamicAt(index) => {
                    out.dynamic = Some(self.scalar(axis, index, 1)?);
                    self.drop_axis(axis, &mut out);
                    if keys.iter().filter(|key| matches!(key, Index::Dynamic { .. } | Index::DynamicAt(_))).count() > 1
                    {
                        return Err(self.second_dynamic());
                    }
                }
            }
            axis += 1;
        }
        for axis in axis..rank {
            self.keep(axis, &mut out);
        }
        let least = if self.is_on_chip() { 2 } else { 1 };
        if out.rank() < least {
            out.shape.push(1);
            out.strides.push(self.strides.last().copied().unwrap_or(1));
        }
        Ok(out)
    }

    /// This view without axes, for a transform to fill.
    pub(super) fn hollow(&self) -> View {
        View {
            storage: Arc::clone(&self.storage),
            dtype: self.dtype,
            shape: SmallVec::new(),
            strides: SmallVec::new(),
            offset: self.offset,
            dynamic: self.dynamic.clone(),
        }
    }

    /// An error of a view method that names the tensor.
    pub(super) fn refuse(&self, text: impl std::fmt::Display) -> Error {
        Error::Value(format!("tensor `{}` of shape {}: {text}", self.storage.name, super::tuple_text(&self.shape)))
    }

    /// Axis `axis`, or an error that names the method and the argument.
    pub(super) fn axis(&self, method: &str, axis: usize) -> Result<usize> {
        if axis < self.rank() {
            return Ok(axis);
        }
        Err(self.refuse(format_args!("{method}: dim is {axis}, must be in [0, {})", self.rank())))
    }

    /// Whether an index tile picks the positions of the axis.
    pub(super) fn is_picked(&self, axis: usize) -> bool {
        match self.dynamic.as_deref() {
            Some(Dynamic::Rows { .. }) => axis == 0,
            Some(Dynamic::Columns { .. }) => true,
            _ => false,
        }
    }

    /// Refuses what would move the positions of an axis that an index tile picks.
    pub(super) fn movable(&self, axis: usize, what: &str) -> Result<()> {
        if self.is_picked(axis) {
            return Err(self.refuse(format_args!(
                "{what} on dimension {axis}, whose positions an index tensor picks; transform before picking, or the \
                 index tensor"
            )));
        }
        Ok(())
    }

    /// The error of a second dynamic offset.
    pub(super) fn second_dynamic(&self) -> Error {
        self.refuse("a view has at most one dynamic index; this would be a second")
    }

    fn keep(&self, axis: usize, out: &mut View) {
        out.shape.push(self.shape[axis]);
        out.strides.push(self.strides[axis]);
    }

    /// On chip the partition axis stays.
    fn drop_axis(&self, axis: usize, out: &mut View) {
        if axis == 0 && self.is_on_chip() {
            out.shape.push(1);
            out.strides.push(self.strides[0]);
        }
    }

    fn out_of_bound(&self, axis: usize, what: impl std::fmt::Display) -> Error {
        Error::OutOfBounds(format!(
            "Out-of-bound access for tensor `{}` on dimension {axis}: {what} exceed dimension size of {}",
            self.storage.name, self.shape[axis]
        ))
    }

    fn position(&self, axis: usize, position: i64) -> Result<i64> {
        let length = self.shape[axis] as i64;
        let resolved = if position < 0 { position + length } else { position };
        if !(0..length).contains(&resolved) {
            return Err(self.out_of_bound(axis, format_args!("index {position}")));
        }
        Ok(resolved)
    }

    /// Start, length and step.
    fn range(
        &self,
        axis: usize,
        start: Option<i64>,
        stop: Option<i64>,
        step: Option<i64>,
    ) -> Result<(i64, usize, i64)> {
        let size = self.shape[axis] as i64;
        let resolve = |bound: i64| if bound < 0 { bound + size } else { bound };
        let (start, stop, step) = (start.map_or(0, resolve), stop.map_or(size, resolve), step.unwrap_or(1));
        if step < 1 {
            return Err(
                self.refuse(format_args!("step of the slice on dimension {axis} is {step}, must be at least 1"))
            );
        }
        // What counts is the last position reached: a stop may lie up to a step behind it, and past the end.
        let length = if stop > start { (stop.saturating_sub(start) - 1) / step + 1 } else { 0 };
        let last = start.saturating_add((length - 1).saturating_mul(step));
        if start < 0 || start > size || last >= size || length == 0 && stop > size {
            let last = if length == 0 { stop.saturating_sub(1) } else { last };
            return Err(self.out_of_bound(axis, format_args!("index range [{start}, {last}]")));
        }
        if start > stop {
            return Err(self.refuse(format_args!("slice {start}:{stop} on dimension {axis} ends before it begins")));
        }
        Ok((start, length as usize, step))
    }

    /// The dynamic part of `size` positions along `axis` from `index` on.
    pub(super) fn scalar(&self, axis: usize, index: &ScalarIndex, size: usize) -> Result<Arc<Dynamic>> {
        if self.dynamic.is_some() {
            return Err(self.second_dynamic());
        }
        if axis == 0 && self.is_on_chip() {
            return Err(self.refuse("a dynamic index on dimension 0, the partitions, whose start must be known"));
        }
        if size > self.shape[axis] {
            let length = self.shape[axis];
            let text = format!("dynamic slice of {size} on dimension {axis}, must be in [0, {length}]");
            return Err(self.refuse(text));
        }
        if self.strides[axis] == 0 && self.shape[axis] > 1 {
            return Err(self.refuse(format_args!("a dynamic index on dimension {axis}, which is broadcast")));
        }
        check_scalar("a dynamic index", index)?;
        let bound = self.shape[axis] - size + 1;
        Ok(Arc::new(Dynamic::Scalar { index: index.clone(), stride: self.strides[axis], bound }))
    }
}

/// Whether `index` can stand for a dynamic offset: a register, or one 32-bit integer at a known place in SBUF.
pub(super) fn check_scalar(what: &str, index: &ScalarIndex) -> Result<()> {
    let ScalarIndex::Element(view) = index else { return Ok(()) };
    check_tile(what, view)?;
    if view.len() != 1 {
        let shape = super::tuple_text(&view.shape);
        return Err(Error::Value(format!("{what}: tensor of shape {shape}, must have one element")));
    }
    Ok(())
}

/// Whether `index` can hold offsets: 32-bit integers at a known place in SBUF.
pub(super) fn check_tile(what: &str, index: &View) -> Result<()> {
    let name = &index.storage.name;
    if index.storage.buffer != Buffer::Sbuf {
        return Err(Error::Value(format!("{what}: `{name}` is in {}, must be in sbuf", index.storage.buffer)));
    }
    if !matches!(index.dtype, DType::Int32 | DType::UInt32) {
        return Err(Error::Type(format!("{what}: `{name}` is {}; allowed: int32, uint32", index.dtype)));
    }
    if index.is_indirect() {
        return Err(Error::Value(format!("{what}: `{name}` is itself at a dynamic address; its place must be known")));
    }
    Ok(())
}
