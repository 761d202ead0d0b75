//! One axis cut, moved, split, merged or repeated; elements read as another type; rows picked by an index tile.

use std::fmt::Display;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::storage::{Buffer, Shape};
use crate::view::index::{check_scalar, check_tile};
use crate::view::{Dynamic, Index, ScalarIndex, Strides, View, tuple_text};

impl View {
    /// Positions `start, start + step, ...` below `end` of one axis.
    ///
    /// # Errors
    /// Unless `0 <= start < end <= shape[dim]` and `step >= 1`; on an axis whose positions an index tile picks.
    pub fn slice(&self, dim: usize, start: i64, end: i64, step: i64) -> Result<View> {
        let dim = self.axis("slice", dim)?;
        if start < 0 || start > end || end > self.shape[dim] as i64 {
            return Err(Error::OutOfBounds(format!(
                "slice of tensor `{}` on dimension {dim}: start {start}, end {end}; must be 0 <= start <= end <= {}",
                self.storage.name, self.shape[dim]
            )));
        }
        self.with_key(dim, Index::Range { start: Some(start), stop: Some(end), step: Some(step) })
    }

    /// One position of an axis, which goes, as by an integer index ([`View::index`] says when it stays).
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]: no such position. [`Error::Value`]: an axis whose positions an index tile picks.
    pub fn select(&self, dim: usize, position: i64) -> Result<View> {
        self.with_key(self.axis("select", dim)?, Index::At(position))
    }

    /// One position of an axis that is known only at execution; the address grows by value * stride.
    ///
    /// # Errors
    /// [`Error::Value`]: a second dynamic index, the partition axis, a broadcast axis, an index tile of more than one
    /// element or outside SBUF. [`Error::Type`]: an index that is no 32-bit integer.
    pub fn select_dynamic(&self, dim: usize, index: ScalarIndex) -> Result<View> {
        check_scalar("select", &index)?;
        self.with_key(self.axis("select", dim)?, Index::DynamicAt(index))
    }

    fn with_key(&self, dim: usize, key: Index) -> Result<View> {
        let mut keys: SmallVec<[Index; 6]> = SmallVec::from_elem(Index::All, dim);
        keys.push(key);
        self.index(&keys)
    }

    /// Rows of axis 0 picked by an SBUF tile `index` of shape (P, 1): row p of the result is row `index[p]`. HBM only.
    ///
    /// # Errors
    /// [`Error::Value`]: another axis than 0, a tensor on chip, a view that is indirect already, an axis 0 whose stride
    /// is not the largest, an index tile of another shape. [`Error::Type`]: an index that is no 32-bit integer.
    pub fn vector_select(&self, dim: usize, index: View) -> Result<View> {
        if self.axis("vector_select", dim)? != 0 {
            return Err(self.refuse(format_args!("vector_select: dim is {dim}, must be 0")));
        }
        if self.is_on_chip() {
            let buffer = self.storage.buffer;
            return Err(self.refuse(format_args!("vector_select: tensor is in {buffer}, must be in HBM")));
        }
        if self.is_indirect() {
            return Err(self.second_dynamic());
        }
        check_tile("vector_select", &index)?;
        if index.free_size() != 1 {
            let shape = tuple_text(&index.shape);
            return Err(self.refuse(format_args!("vector_select: index has shape {shape}, must be (P, 1)")));
        }
        let mut inner = self.shape.iter().zip(&self.strides).skip(1);
        if inner.any(|(&length, &stride)| length > 1 && stride > self.strides[0]) || self.strides[0] == 0 {
            let strides = tuple_text(&self.strides);
            return Err(
                self.refuse(format_args!("vector_select: dimension 0 must have the largest stride of {strides}"))
            );
        }
        let mut out = self.clone();
        out.shape[0] = index.shape[0];
        out.dynamic = Some(Arc::new(Dynamic::Rows { index, stride: self.strides[0], bound: self.shape[0] }));
        Ok(out)
    }

    /// Columns gathered, or as a destination scattered, by an SBUF tile `index` of free-axis offsets (NeuronCore-v4).
    ///
    /// `index` has shape (P, K) with P partitions as the tensor; the view has shape (P, `num_elem`). Offset i of the
    /// group g of `group` partitions is `index[g * group + i % group, i / group]`. The consuming engine decides how
    /// large a group is; `group` serves for the default of `num_elem` alone: all offsets of one group **(choice)**.
    ///
    /// # Errors
    /// [`Error::Value`]: a tensor in HBM, an indirect one, free axes that are not evenly spaced, another number of
    /// partitions, `num_elem` outside 1 to the number of offsets, an index outside SBUF. [`Error::Type`]: an index that
    /// is no integer.
    pub fn indirect(&self, index: View, num_elem: Option<usize>, group: usize) -> Result<View> {
        if !self.is_on_chip() {
            let buffer = self.storage.buffer;
            return Err(self.refuse(format_args!("indirect: tensor is in {buffer}, must be in sbuf or psum")));
        }
        if self.is_indirect() {
            return Err(self.second_dynamic());
        }
        if !index.dtype.is_integer() || index.dtype == DType::Bool {
            let (name, dtype) = (&index.storage.name, index.dtype);
            return Err(Error::Type(format!("indirect: index `{name}` is {dtype}, must be an integer type")));
        }
        if index.storage.buffer != Buffer::Sbuf || index.is_indirect() {
            let (name, buffer) = (&index.storage.name, index.storage.buffer);
            return Err(
                self.refuse(format_args!("indirect: index `{name}` is in {buffer}, must be at a known place in sbuf"))
            );
        }
        if index.partitions() != self.partitions() {
            let (got, wanted) = (index.partitions(), self.partitions());
            return Err(self.refuse(format_args!("indirect: index has {got} partitions, must have {wanted}")));
        }
        let Some(stride) = self.even_stride(1, self.rank() - 1) else {
            let strides = tuple_text(&self.strides);
            return Err(self.refuse(format_args!("indirect: free axes of strides {strides} are not evenly spaced")));
        };
        let offsets = index.len();
        let elements = num_elem.unwrap_or(index.partitions().min(group) * index.free_size());
        if !(1..=offsets).contains(&elements) {
            return Err(self.refuse(format_args!("indirect: num_elem is {elements}, must be in [1, {offsets}]")));
        }
        let mut out = self.hollow();
        out.shape.extend([self.shape[0], elements]);
        out.strides.extend([self.strides[0], stride]);
        out.dynamic = Some(Arc::new(Dynamic::Columns { index, bound: self.free_size() }));
        Ok(out)
    }

    /// Axes in another order: axis i of the result is axis `dims[i]`.
    ///
    /// # Errors
    /// [`Error::Value`]: `dims` is no permutation; it moves axis 0 on chip or of a view whose rows an index tile picks.
    pub fn permute(&self, dims: &[usize]) -> Result<View> {
        let rank = self.rank();
        let complete = (0..rank).all(|axis| dims.contains(&axis));
        if dims.len() != rank || !complete {
            let dims = tuple_text(dims);
            return Err(self.refuse(format_args!("permute: dims is {dims}, must be a permutation of 0..{rank}")));
        }
        for (to, &from) in dims.iter().enumerate() {
            if to != from {
                self.movable(from, "permute")?;
            }
        }
        if self.is_on_chip() && dims[0] != 0 {
            return Err(self.refuse(format_args!("permute: dims[0] is {}, must be 0: partitions stay", dims[0])));
        }
        let mut out = self.hollow();
        out.shape.extend(dims.iter().map(|&axis| self.shape[axis]));
        out.strides.extend(dims.iter().map(|&axis| self.strides[axis]));
        Ok(out)
    }

    /// An axis of length 1 repeated `size` times, with stride 0.
    ///
    /// # Errors
    /// [`Error::Value`]: an axis of another length; the partition axis; an axis that an index tile picks; `size` 0.
    pub fn broadcast(&self, dim: usize, size: usize) -> Result<View> {
        let dim = self.axis("broadcast", dim)?;
        self.not_partitions("broadcast", dim)?;
        self.movable(dim, "broadcast")?;
        let overflows = self.len().checked_mul(size).is_none_or(|elements| elements > isize::MAX as usize);
        if self.shape[dim] != 1 || size == 0 || overflows {
            let length = self.shape[dim];
            let text =
                format!("broadcast: dimension {dim} of length {length} to {size}; must be 1 to a countable size");
            return Err(self.refuse(text));
        }
        let mut out = self.clone();
        out.shape[dim] = size;
        out.strides[dim] = 0;
        Ok(out)
    }

    /// A new axis of length 1 before axis `dim` (at the end for `dim == rank`).
    ///
    /// # Errors
    /// [`Error::Value`]: `dim` above the rank; 0 on chip or where an index tile picks axis 0.
    pub fn expand_dim(&self, dim: usize) -> Result<View> {
        if dim > self.rank() {
            return Err(self.refuse(format_args!("expand_dim: dim is {dim}, must be in [0, {}]", self.rank())));
        }
        self.not_partitions("expand_dim", dim)?;
        self.movable(dim, "expand_dim")?;
        let mut out = self.clone();
        let stride = if dim < self.rank() { self.strides[dim].saturating_mul(self.shape[dim] as i64) } else { 1 };
        out.shape.insert(dim, 1);
        out.strides.insert(dim, stride);
        Ok(out)
    }

    /// An axis of length 1 dropped.
    ///
    /// # Errors
    /// [`Error::Value`]: an axis of another length; the partition axis; an axis that an index tile picks; the last axis
    /// in HBM, the last free axis on chip.
    pub fn squeeze_dim(&self, dim: usize) -> Result<View> {
        let dim = self.axis("squeeze_dim", dim)?;
        self.not_partitions("squeeze_dim", dim)?;
        self.movable(dim, "squeeze_dim")?;
        if self.shape[dim] != 1 {
            return Err(
                self.refuse(format_args!("squeeze_dim: dimension {dim} has length {}, must be 1", self.shape[dim]))
            );
        }
        self.least_rank("squeeze_dim", self.rank() - 1)?;
        let mut out = self.clone();
        out.shape.remove(dim);
        out.strides.remove(dim);
        Ok(out)
    }

    /// One axis split into several, row-major; one length may be -1.
    ///
    /// # Errors
    /// [`Error::Value`]: the product is not the axis's length; more than one part for the partition axis or for an axis
    /// that an index tile picks.
    pub fn reshape_dim(&self, dim: usize, shape: &[i64]) -> Result<View> {
        let dim = self.axis("reshape_dim", dim)?;
        let parts = self.lengths("reshape_dim", shape, self.shape[dim])?;
        if parts.len() != 1 {
            self.not_partitions("reshape_dim", dim)?;
            self.movable(dim, "reshape_dim")?;
            self.least_rank("reshape_dim", self.rank() - 1 + parts.len())?;
        }
        let mut strides: Strides = SmallVec::from_elem(self.strides[dim], parts.len());
        for part in (1..parts.len()).rev() {
            strides[part - 1] = strides[part].saturating_mul(parts[part] as i64);
        }
        let mut out = self.hollow();
        out.shape.extend(self.shape[..dim].iter().chain(&parts).chain(&self.shape[dim + 1..]).copied());
        out.strides.extend(self.strides[..dim].iter().chain(&strides).chain(&self.strides[dim + 1..]).copied());
        Ok(out)
    }

    /// Axes `first` to `last`, both included, merged into one. Axes of length 1 merge whatever their stride
    /// **(choice)**.
    ///
    /// # Errors
    /// [`Error::Value`]: elements that are not evenly spaced; the partition axis with others, or an axis that an index
    /// tile picks.
    pub fn flatten_dims(&self, first: usize, last: usize) -> Result<View> {
        let last = self.axis("flatten_dims", last)?;
        if first > last {
            return Err(
                self.refuse(format_args!("flatten_dims: first is {first}, last is {last}; must be first <= last"))
            );
        }
        if first == last {
            return Ok(self.clone());
        }
        self.not_partitions("flatten_dims", first)?;
        self.movable(first, "flatten_dims")?;
        self.least_rank("flatten_dims", self.rank() - (last - first))?;
        let Some(stride) = self.even_stride(first, last) else {
            let strides = tuple_text(&self.strides);
            return Err(self.refuse(format_args!(
                "flatten_dims: dimensions {first} to {last} of strides {strides} are not evenly spaced; \
                 each stride must be the next one times its length"
            )));
        };
        let mut out = self.hollow();
        let length = self.shape[first..=last].iter().product();
        out.shape.extend(self.shape[..first].iter().copied());
        out.strides.extend(self.strides[..first].iter().copied());
        out.shape.push(length);
        out.strides.push(stride);
        out.shape.extend(self.shape[last + 1..].iter().copied());
        out.strides.extend(self.strides[last + 1..].iter().copied());
        Ok(out)
    }

    /// Distance between neighbours when axes `first` to `last` are walked row-major; None if it varies.
    fn even_stride(&self, first: usize, last: usize) -> Option<i64> {
        let mut merged: Option<(i64, i64)> = None;
        for axis in (first..=last).rev().filter(|&axis| self.shape[axis] != 1) {
            let (length, stride) = (self.shape[axis] as i64, self.strides[axis]);
            merged = match merged {
                None => Some((length, stride)),
                Some((inner, step)) if stride == inner.saturating_mul(step) => Some((inner * length, step)),
                Some(_) => return None,
            };
        }
        Some(merged.map_or(self.strides[last], |(_, step)| step))
    }

    /// The elements, row-major, under another shape, if strides can say so without a copy; one length may be -1.
    ///
    /// # Errors
    /// [`Error::Value`]: another number of elements; another number of partitions, or of rows that an index tile picks;
    /// a layout that would need a copy; fewer than two axes on chip, none in HBM.
    pub fn reshape(&self, shape: &[i64]) -> Result<View> {
        let lengths = self.lengths("reshape", shape, self.len())?;
        self.least_rank("reshape", lengths.len())?;
        if lengths.first() != self.shape.first() {
            self.movable(0, "reshape")?;
        }
        let kept = usize::from(self.is_on_chip() || self.is_picked(0));
        if kept == 1 && lengths[0] != self.shape[0] {
            let (from, to) = (self.shape[0], lengths[0]);
            return Err(self.refuse(format_args!("Partition dim size must be preserved, got {from} -> {to}")));
        }
        if self.rank() > 1 && lengths != self.shape {
            self.movable(1, "reshape")?;
        }
        // Runs of evenly spaced elements, innermost first.
        let mut blocks: SmallVec<[(usize, i64); 6]> = SmallVec::new();
        for axis in (kept..self.rank()).rev().filter(|&axis| self.shape[axis] != 1) {
            let (length, stride) = (self.shape[axis], self.strides[axis]);
            match blocks.last_mut() {
                Some((inner, step)) if stride == step.saturating_mul(*inner as i64) => *inner *= length,
                _ => blocks.push((length, stride)),
            }
        }
        let mut strides: Strides = SmallVec::from_elem(0, lengths.len());
        if kept == 1 {
            strides[0] = self.strides[0];
        }
        let mut blocks = blocks.into_iter();
        let (mut left, mut stride) = blocks.next().unwrap_or((1, 1));
        for axis in (kept..lengths.len()).rev() {
            let length = lengths[axis];
            if length != 1 && left == 1 {
                (left, stride) = blocks.next().unwrap_or((1, 1));
            }
            if left % length != 0 {
                let (to, strides) = (tuple_text(&lengths), tuple_text(&self.strides));
                return Err(self.refuse(format_args!(
                    "reshape to {to} needs a copy: length {length} of dimension {axis} does not divide the {left} \
                     evenly spaced elements that strides {strides} leave"
                )));
            }
            strides[axis] = stride;
            left /= length;
            stride = stride.saturating_mul(length as i64);
        }
        let mut out = self.hollow();
        out.shape = lengths;
        out.strides = strides;
        Ok(out)
    }

    /// Axes split, reordered and merged by name: each group of names of `source` is one axis of this view, each of
    /// `target` one of the result; `sizes` gives lengths, of which one of a source group may be missing. A group
    /// without names is an axis of length 1.
    ///
    /// # Errors
    /// [`Error::Value`]: names that differ between the two sides or appear twice; two unknown lengths in one group; and
    /// what [`View::reshape_dim`], [`View::permute`] and [`View::flatten_dims`] refuse.
    pub fn rearrange(&self, source: &[&[&str]], target: &[&[&str]], sizes: &[(&str, usize)]) -> Result<View> {
        if source.len() != self.rank() {
            let (got, rank) = (source.len(), self.rank());
            return Err(self.refuse(format_args!("rearrange: source has {got} groups, must have {rank}")));
        }
        let from: SmallVec<[&str; 8]> = source.iter().flat_map(|group| group.iter().copied()).collect();
        let to: SmallVec<[&str; 8]> = target.iter().flat_map(|group| group.iter().copied()).collect();
        let twice = |names: &[&str]| (1..names.len()).any(|at| names[..at].contains(&names[at]));
        if twice(&from) || twice(&to) || from.len() != to.len() || !to.iter().all(|name| from.contains(name)) {
            let (from, to) = (tuple_text(&from), tuple_text(&to));
            return Err(self.refuse(format_args!("rearrange: names {from} and {to} must be the same, each once")));
        }
        if let Some((name, _)) = sizes.iter().find(|(name, _)| !from.contains(name)) {
            return Err(
                self.refuse(format_args!("rearrange: sizes names {name}, must be one of {}", tuple_text(&from)))
            );
        }
        let mut view = self.clone();
        let mut axis = 0;
        for group in source {
            if group.is_empty() {
                view = view.squeeze_dim(axis)?;
                continue;
            }
            let parts: SmallVec<[i64; 6]> = group
                .iter()
                .map(|name| sizes.iter().find(|(known, _)| known == name).map_or(-1, |&(_, size)| size as i64))
                .collect();
            if parts.iter().filter(|&&part| part == -1).count() > 1 {
                let group = tuple_text(group);
                return Err(self.refuse(format_args!("rearrange: more than one length of {group} is unknown")));
            }
            view = view.reshape_dim(axis, &parts)?;
            axis += group.len();
        }
        let order: SmallVec<[usize; 8]> =
            to.iter().filter_map(|name| from.iter().position(|known| known == name)).collect();
        view = view.permute(&order)?;
        for (axis, group) in target.iter().enumerate() {
            view = if group.is_empty() {
                view.expand_dim(axis)?
            } else {
                view.flatten_dims(axis, axis + group.len() - 1)?
            };
        }
        Ok(view)
    }

    /// The same bytes as elements of another type; the last axis grows or shrinks with the size of an element.
    ///
    /// # Errors
    /// [`Error::Value`]: when the sizes differ, a last axis of stride above 1, a length, stride or offset that the new
    /// size does not divide, or a dynamic address.
    pub fn reinterpret(&self, dtype: DType) -> Result<View> {
        let (old, new) = (self.dtype.size() as i64, dtype.size() as i64);
        let mut out = self.clone();
        out.dtype = dtype;
        if old == new {
            return Ok(out);
        }
        let refuse = |text: &dyn Display| self.refuse(format_args!("view of {} as {dtype}: {text}", self.dtype));
        if self.is_indirect() {
            return Err(refuse(&"the size of an element cannot change after a dynamic index"));
        }
        self.least_rank("view", self.rank())?;
        let last = self.rank() - 1;
        if self.strides[last] != 1 && self.shape[last] != 1 {
            let stride = self.strides[last];
            return Err(refuse(&format_args!("stride of the last dimension is {stride}, must be 1")));
        }
        let rescale = |what: &str, value: i64| {
            value.checked_mul(old).filter(|bytes| bytes % new == 0).map(|bytes| bytes / new).ok_or_else(|| {
                refuse(&format_args!("{what} is {value} elements of {old} bytes, must be a multiple of {new} bytes"))
            })
        };
        out.shape[last] = rescale("length of the last dimension", self.shape[last] as i64)? as usize;
        out.strides[last] = 1;
        out.offset = rescale("offset", self.offset)?;
        for axis in 0..last {
            out.strides[axis] = match rescale("stride", self.strides[axis]) {
                // Never used; any will do.
                Err(_) if self.shape[axis] == 1 => 1,
                stride => stride?,
            };
        }
        Ok(out)
    }

    /// `shape` with its -1, if any, replaced so that the product is `elements`.
    fn lengths(&self, method: &str, shape: &[i64], elements: usize) -> Result<Shape> {
        let unknown = shape.iter().filter(|&&length| length == -1).count();
        let known = shape.iter().filter(|&&length| length != -1).try_fold(1usize, |product, &length| {
            usize::try_from(length).ok().filter(|&length| length > 0).and_then(|length| product.checked_mul(length))
        });
        let filled = match known {
            Some(known) if unknown == 0 && known == elements => 1,
            Some(known) if unknown == 1 && elements.is_multiple_of(known) => elements / known,
            _ => {
                let shape = tuple_text(shape);
                return Err(self.refuse(format_args!(
                    "{method}: shape {shape} must have {elements} elements, with lengths above 0 and at most one -1"
                )));
            }
        };
        Ok(shape.iter().map(|&length| if length == -1 { filled } else { length as usize }).collect())
    }

    fn not_partitions(&self, method: &str, dim: usize) -> Result<()> {
        if dim == 0 && self.is_on_chip() {
            return Err(self.refuse(format_args!("{method}: dim is 0, the partitions, which stay as they are")));
        }
        Ok(())
    }

    fn least_rank(&self, method: &str, rank: usize) -> Result<()> {
        if self.is_on_chip() && rank < 2 {
            return Err(self.refuse(format_args!(
                "{method}: SBUF and PSUM tensors must have at least 2 dimensions (partition-dim and free-dim)"
            )));
        }
        if rank < 1 {
            return Err(self.refuse(format_args!("{method}: a tensor must have at least 1 dimension")));
        }
        Ok(())
    }
}
