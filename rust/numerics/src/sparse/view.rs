//! A compressed array, checked, and the dense one that it stands for.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::code::{Code, buffers, check_format, magnitude_mask};
use super::pattern::SparsityPattern;
use super::pieces::{Groups, write};
use crate::array::{ArrayMut, ArrayView};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::par;

/// A compressed array: M values for each group of N along `axis`, and where in the group each of them stands.
///
/// The indices of a group ascend and are distinct. A slot whose value is zero is unused: it stands for nothing at all.
#[derive(Clone, Debug)]
pub struct SparseView<'a> {
    values: ArrayView<'a>,
    indices: &'a [u8],
    pattern: SparsityPattern,
    axis: usize,
}

impl<'a> SparseView<'a> {
    /// Values of any layout with their indices, one byte a value in C order.
    ///
    /// # Errors
    /// [`Error::Dtype`] for block scales; [`Error::Shape`] and [`Error::Value`] when the axis does not hold whole groups,
    /// the indices are not one a value, or those of a group do not ascend below N.
    ///
    /// ```
    /// use trn3_numerics::{ArrayMut, ArrayView, SparseView};
    ///
    /// let values = ArrayView::new(&[5.0f32, 7.0], &[2])?;
    /// let sparse = SparseView::new(values, &[1, 3], "2:4".parse()?, 0)?;
    /// let mut dense = [f32::NAN; 4];
    /// sparse.to_dense(ArrayMut::new(&mut dense, &[4])?)?;
    /// assert_eq!(dense, [0.0, 5.0, 0.0, 7.0]);
    /// # Ok::<(), trn3_numerics::Error>(())
    /// ```
    pub fn new(values: ArrayView<'a>, indices: &'a [u8], pattern: SparsityPattern, axis: usize) -> Result<Self> {
        check_format("values", values.format())?;
        pattern.dense_shape(values.shape(), axis)?;
        if indices.len() != values.len() {
            let needed = format!("one a value is needed: {}", values.len());
            return Err(Error::value("indices", format!("{} bytes", indices.len()), needed));
        }
        let sparse = Self { values, indices, pattern, axis };
        sparse.check_indices()?;
        Ok(sparse)
    }

    /// The stored values.
    pub fn values(&self) -> &ArrayView<'a> {
        &self.values
    }

    /// Positions in the group, in C order of the values.
    pub fn indices(&self) -> &'a [u8] {
        self.indices
    }

    /// The pattern.
    pub fn pattern(&self) -> SparsityPattern {
        self.pattern
    }

    /// The compressed axis.
    pub fn axis(&self) -> usize {
        self.axis
    }

    /// The shape of the dense array.
    pub fn dense_shape(&self) -> Vec<usize> {
        let mut shape = self.values.shape().to_vec();
        shape[self.axis] = shape[self.axis] / self.pattern.keep() * self.pattern.group();
        shape
    }

    fn check_indices(&self) -> Result<()> {
        if self.indices.is_empty() {
            return Ok(());
        }
        let (keep, group) = (self.pattern.keep(), self.pattern.group());
        let groups = Groups::new(self.values.shape(), self.axis, keep);
        let inner = groups.inner().max(1);
        let first_bad = AtomicUsize::new(usize::MAX);
        let chunk = (1usize << 16).next_multiple_of(keep * inner);
        par::for_each(self.indices.chunks(chunk).enumerate(), |(task, indices)| {
            for (at, rows) in indices.chunks(keep * inner).enumerate() {
                let mut bad = false;
                for row in 0..keep {
                    let (before, this) = rows.split_at(row * inner);
                    bad |= this[..inner].iter().fold(false, |bad, &index| bad | (usize::from(index) >= group));
                    let pairs = before.iter().skip(row.saturating_sub(1) * inner).zip(&this[..inner]);
                    bad |= pairs.fold(false, |bad, (before, index)| bad | (before >= index));
                }
                if bad {
                    first_bad.fetch_min(task * chunk / (keep * inner) + at, Ordering::Relaxed);
                }
            }
        })?;
        let first = first_bad.into_inner();
        if first == usize::MAX {
            return Ok(());
        }
        let rows = &self.indices[first * keep * inner..][..keep * inner];
        let column = |column: usize| (0..keep).map(|row| rows[row * inner + column]).collect::<Vec<_>>();
        let is_bad = |indices: &[u8]| {
            indices.iter().any(|&index| usize::from(index) >= group)
                || indices.windows(2).any(|pair| pair[0] >= pair[1])
        };
        let bad = (0..inner).find(|&at| is_bad(&column(at))).unwrap_or(0);
        let position = groups.position(first * inner + bad, self.values.shape(), self.axis);
        let got = format!("{:?} in group {position:?} along axis {}", column(bad), self.axis);
        Err(Error::value(
            "indices",
            got,
            format!("they must ascend and be below {group} with pattern {}", self.pattern),
        ))
    }

    /// Writes the dense array: stored values at their positions, +0 everywhere else (and for a stored -0).
    ///
    /// # Errors
    /// [`Error::Dtype`] and [`Error::Shape`] when `out` has not the values' format and [`Self::dense_shape`].
    pub fn to_dense(&self, out: ArrayMut<'_>) -> Result<()> {
        out.expect("out", self.values.format(), &self.dense_shape())?;
        let format = self.values.format();
        let (keep, group) = (self.pattern.keep(), self.pattern.group());
        let groups = Groups::new(self.values.shape(), self.axis, keep);
        let indices = bytes_view(self.indices, self.values.shape())?;
        let item = format.item_size();
        let pieces = groups.split(out.into_bytes(), group, item);
        par::for_each(pieces.into_iter().enumerate(), |(index, mut out)| {
            let piece = groups.piece(index);
            let [mut a, mut b, mut c, mut d] = buffers();
            let values = groups.read(&self.values, keep, &piece, &mut a, &mut d);
            let indices = groups.read(&indices, keep, &piece, &mut b, &mut d);
            let dense = c.bytes_mut(values.len() / keep * group);
            let (columns, magnitude) = (piece.columns.len(), magnitude_mask(format));
            match item {
                1 => expand::<u8>(self.pattern, magnitude, columns, values, indices, dense),
                2 => expand::<u16>(self.pattern, magnitude, columns, values, indices, dense),
                _ => expand::<u32>(self.pattern, magnitude, columns, values, indices, dense),
            }
            write(&mut out, dense);
        })
    }
}

/// One-byte elements of which only the bytes are read.
fn bytes_view<'a>(bytes: &'a [u8], shape: &[usize]) -> Result<ArrayView<'a>> {
    ArrayView::from_codes(Format::F8E8M0Fnu, bytes, shape)
}

fn expand<C: Code>(
    pattern: SparsityPattern,
    magnitude: u32,
    columns: usize,
    values: &[u8],
    indices: &[u8],
    dense: &mut [u8],
) {
    let (keep, group) = (pattern.keep(), pattern.group());
    let dense = bytemuck::cast_slice_mut::<u8, C>(dense);
    dense.fill(C::zeroed());
    let values = bytemuck::cast_slice::<u8, C>(values).chunks_exact(keep * columns);
    let indices = indices.chunks_exact(keep * columns);
    for ((values, indices), dense) in values.zip(indices).zip(dense.chunks_exact_mut(group * columns)) {
        for (values, indices) in values.chunks_exact(columns).zip(indices.chunks_exact(columns)) {
            for (column, (&value, &index)) in values.iter().zip(indices).enumerate() {
                if value.into() & magnitude != 0 {
                    dense[usize::from(index) * columns + column] = value;
                }
            }
        }
    }
}
