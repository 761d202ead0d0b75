//! Structured sparsity: at most M nonzeros in each group of N, kept as values and their positions.

mod groups;
pub(crate) mod tags;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::Pod;

use crate::array::{AlignedBytes, ArrayMut, ArrayView, element_count};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::par;
use crate::sparse::groups::{Groups, write};

/// At most so many nonzeros in each group of so many elements along the contraction axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    keep: u8,
    group: u8,
}

impl Pattern {
    /// The patterns the hardware has.
    pub const ALL: [Pattern; 7] = [
        Pattern { keep: 4, group: 16 },
        Pattern { keep: 4, group: 12 },
        Pattern { keep: 4, group: 8 },
        Pattern { keep: 2, group: 8 },
        Pattern { keep: 2, group: 4 },
        Pattern { keep: 1, group: 4 },
        Pattern { keep: 1, group: 2 },
    ];

    /// M: slots of a group.
    pub const fn keep(self) -> usize {
        self.keep as usize
    }

    /// N: length of a group.
    pub const fn group(self) -> usize {
        self.group as usize
    }

    /// Bits that hold a position in a group: ceil(log2 N).
    pub const fn index_bits(self) -> u32 {
        usize::BITS - (self.group() - 1).leading_zeros()
    }

    /// The shape of the values and indices of a dense array that is compressed along `axis`.
    ///
    /// # Errors
    /// [`Error::Value`] for an axis that the array does not have, [`Error::Shape`] when its length is not a multiple of N.
    ///
    /// ```
    /// let pattern: trn3_numerics::Pattern = "4:16".parse()?;
    /// assert_eq!(pattern.compressed_shape(&[64, 10], 0)?, [16, 10]);
    /// # Ok::<(), trn3_numerics::Error>(())
    /// ```
    pub fn compressed_shape(self, dense: &[usize], axis: usize) -> Result<Vec<usize>> {
        rescaled("w", dense, axis, self.group(), self.keep(), self)
    }

    /// The shape of the dense array whose values have the shape `compressed`.
    ///
    /// # Errors
    /// [`Error::Value`] for an axis that the array does not have, [`Error::Shape`] when its length is not a multiple of M.
    pub fn dense_shape(self, compressed: &[usize], axis: usize) -> Result<Vec<usize>> {
        rescaled("values", compressed, axis, self.keep(), self.group(), self)
    }

    /// The shape of the tags of values of the shape `compressed`.
    ///
    /// # Errors
    /// As [`Self::dense_shape`].
    pub fn tags_shape(self, compressed: &[usize], axis: usize) -> Result<Vec<usize>> {
        let mut shape = self.dense_shape(compressed, axis)?;
        shape[axis] = compressed[axis].div_ceil(crate::sparse::tags::PER_TAG);
        Ok(shape)
    }
}

fn rescaled(
    argument: &'static str,
    shape: &[usize],
    axis: usize,
    from: usize,
    to: usize,
    pattern: Pattern,
) -> Result<Vec<usize>> {
    if axis >= shape.len() {
        return Err(Error::value("axis", axis, format!("{argument} has {} axes", shape.len())));
    }
    if !shape[axis].is_multiple_of(from) {
        let needed = format!(
            "with pattern {pattern} its axis {axis} of length {} must be a multiple of {from} long",
            shape[axis]
        );
        return Err(Error::shape(argument, shape, needed));
    }
    let mut rescaled = shape.to_vec();
    let length = (shape[axis] / from).checked_mul(to);
    rescaled[axis] = length.unwrap_or(usize::MAX);
    // Axes of length 0 do not excuse the others: products of lengths are taken in many places.
    let elements = rescaled.iter().try_fold(1usize, |all, &length| all.checked_mul(length.max(1)));
    if elements.is_none_or(|elements| elements > isize::MAX as usize / size_of::<f32>()) {
        return Err(Error::shape(argument, shape, format!("with pattern {pattern} its other form fits in no memory")));
    }
    Ok(rescaled)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.keep, self.group)
    }
}

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Pattern::ALL.into_iter().find(|pattern| pattern.to_string() == name).ok_or_else(|| {
            let names = Pattern::ALL.map(|pattern| pattern.to_string()).join(", ");
            Error::value("pattern", format!("{name:?}"), format!("allowed: {names}"))
        })
    }
}

/// A compressed array: M values for each group of N along `axis`, and where in the group each of them stands.
///
/// The indices of a group ascend and are distinct. A slot whose value is zero is unused: it stands for nothing at all.
#[derive(Clone, Debug)]
pub struct SparseView<'a> {
    values: ArrayView<'a>,
    indices: &'a [u8],
    pattern: Pattern,
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
    pub fn new(values: ArrayView<'a>, indices: &'a [u8], pattern: Pattern, axis: usize) -> Result<Self> {
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
    pub fn pattern(&self) -> Pattern {
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

/// Compresses a dense array along `axis`: `values` has [`Pattern::compressed_shape`] and w's format, `indices` one byte
/// for each value in C order.
///
/// Values keep their bits, NaN payloads too. Each nonzero (NaN is one, -0.0 is not) has a slot; a group with fewer than M
/// leaves slots unused, with value +0 at the lowest positions that hold no nonzero. All indices of a group ascend.
///
/// # Errors
/// [`Error::Value`] when a group holds more than M nonzeros; it names the first such group in C order of the array of
/// groups, which is w's shape with `axis` divided by N. [`Error::Dtype`] for block scales, [`Error::Shape`] and
/// [`Error::Value`] for axes and shapes that do not fit. The outputs then hold unspecified values.
///
/// ```
/// use trn3_numerics::{ArrayMut, ArrayView, compress};
///
/// let w = ArrayView::new(&[0.0f32, 5.0, 0.0, 0.0, 6.0, 0.0, 0.0, 7.0], &[8])?;
/// let (mut values, mut indices) = ([0.0f32; 4], [0u8; 4]);
/// compress(&w, "2:4".parse()?, 0, ArrayMut::new(&mut values, &[4])?, &mut indices)?;
/// assert_eq!(values, [0.0, 5.0, 6.0, 7.0]);
/// assert_eq!(indices, [0, 1, 0, 3]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn compress(
    w: &ArrayView<'_>,
    pattern: Pattern,
    axis: usize,
    values: ArrayMut<'_>,
    indices: &mut [u8],
) -> Result<()> {
    let format = w.format();
    check_format("w", format)?;
    let shape = pattern.compressed_shape(w.shape(), axis)?;
    values.expect("values", format, &shape)?;
    if indices.len() != element_count(&shape) {
        let needed = format!("one a value is needed: {}", element_count(&shape));
        return Err(Error::value("indices", format!("{} bytes", indices.len()), needed));
    }
    let (keep, group) = (pattern.keep(), pattern.group());
    let groups = Groups::new(w.shape(), axis, group);
    let item = format.item_size();
    let first_bad = AtomicUsize::new(usize::MAX);
    let pieces = groups.split(values.into_bytes(), keep, item).into_iter().zip(groups.split(indices, keep, 1));
    par::for_each(pieces.enumerate(), |(index, (mut values_out, mut indices_out))| {
        let piece = groups.piece(index);
        let [mut a, mut b, mut c, mut d] = buffers();
        let dense = groups.read(w, group, &piece, &mut a, &mut d);
        let values = b.bytes_mut(dense.len() / group * keep);
        let indices = c.bytes_mut(values.len() / item);
        let (columns, magnitude) = (piece.columns.len(), magnitude_mask(format));
        let bad = match item {
            1 => compress_piece::<u8>(pattern, magnitude, columns, dense, values, indices),
            2 => compress_piece::<u16>(pattern, magnitude, columns, dense, values, indices),
            _ => compress_piece::<u32>(pattern, magnitude, columns, dense, values, indices),
        };
        if let Some((at, column)) = bad {
            let lane = (piece.groups.start + at) * groups.inner() + piece.columns.start + column;
            first_bad.fetch_min(lane, Ordering::Relaxed);
        }
        write(&mut values_out, values);
        write(&mut indices_out, indices);
    })?;
    let lane = first_bad.into_inner();
    if lane == usize::MAX {
        return Ok(());
    }
    let position = groups.position(lane, w.shape(), axis);
    let count = count_nonzeros(w, pattern, axis, &position);
    let got = format!("not {pattern} sparse: group {position:?} along axis {axis} holds {count} nonzeros");
    Err(Error::value("w", got, format!("at most {keep} are allowed, and prune() leaves no more")))
}

/// Keeps the M largest magnitudes of each group of N along `axis` and sets the others to +0.
///
/// Ties go to the lower index; NaN counts as largest, whatever its payload. What is kept keeps its bits. `out` has w's
/// shape and format.
///
/// # Errors
/// [`Error::Dtype`] for block scales, [`Error::Shape`] and [`Error::Value`] for axes and shapes that do not fit.
///
/// ```
/// use trn3_numerics::{ArrayMut, ArrayView, prune};
///
/// let w = ArrayView::new(&[1.0f32, -3.0, 2.0, 3.0], &[1, 4])?;
/// let mut out = [0.0f32; 4];
/// prune(&w, "2:4".parse()?, 1, ArrayMut::new(&mut out, &[1, 4])?)?;
/// assert_eq!(out, [0.0, -3.0, 0.0, 3.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn prune(w: &ArrayView<'_>, pattern: Pattern, axis: usize, out: ArrayMut<'_>) -> Result<()> {
    let format = w.format();
    check_format("w", format)?;
    pattern.compressed_shape(w.shape(), axis)?;
    out.expect("out", format, w.shape())?;
    let group = pattern.group();
    let groups = Groups::new(w.shape(), axis, group);
    let pieces = groups.split(out.into_bytes(), group, format.item_size());
    par::for_each(pieces.into_iter().enumerate(), |(index, mut out)| {
        let piece = groups.piece(index);
        let [mut a, mut b, _, mut d] = buffers();
        let dense = groups.read(w, group, &piece, &mut a, &mut d);
        let pruned = b.bytes_mut(dense.len());
        let columns = piece.columns.len();
        match format.item_size() {
            1 => prune_piece::<u8>(pattern, format, columns, dense, pruned),
            2 => prune_piece::<u16>(pattern, format, columns, dense, pruned),
            _ => prune_piece::<u32>(pattern, format, columns, dense, pruned),
        }
        write(&mut out, pruned);
    })
}

pub(crate) fn check_format(argument: &'static str, format: Format) -> Result<()> {
    if format == Format::F8E8M0Fnu {
        let allowed = Format::ALL.into_iter().filter(|&other| other != format).map(|format| format.to_string());
        return Err(Error::dtype(argument, format, allowed.collect::<Vec<_>>().join(", ")));
    }
    Ok(())
}

/// Input, two outputs and a line, for one piece.
pub(crate) fn buffers() -> [AlignedBytes; 4] {
    Default::default()
}

/// One-byte elements of which only the bytes are read.
fn bytes_view<'a>(bytes: &'a [u8], shape: &[usize]) -> Result<ArrayView<'a>> {
    ArrayView::from_codes(Format::F8E8M0Fnu, bytes, shape)
}

/// A stored code of 1, 2 or 4 bytes.
pub(crate) trait Code: Pod + Into<u32> {
    /// Orders elements of a group by magnitude, equal ones by position, the lower first; no two are equal.
    type Key: Copy + Default + PartialOrd;

    fn key(magnitude: u32, position: usize) -> Self::Key;
    fn position(key: Self::Key) -> usize;
}

macro_rules! code {
    ($code:ty, $key:ty) => {
        impl Code for $code {
            type Key = $key;

            #[inline(always)]
            fn key(magnitude: u32, position: usize) -> $key {
                (magnitude as $key) << 4 | (15 - position) as $key
            }
            #[inline(always)]
            fn position(key: $key) -> usize {
                15 - (key & 15) as usize
            }
        }
    };
}
code!(u8, i32);
code!(u16, i32);
code!(u32, u64);

/// The bits of a stored code that are not its sign.
pub(crate) fn magnitude_mask(format: Format) -> u32 {
    match format.item_size() {
        4 => 0x7fff_ffff,
        _ => (1 << (format.spec().bits - 1)) - 1,
    }
}

/// The stored magnitude of the largest number, infinity included; NaN lies above.
fn largest_magnitude(format: Format) -> u32 {
    let spec = format.spec();
    let storage_shift = if format.item_size() == 4 { 32 - spec.bits } else { 0 };
    spec.infinity.unwrap_or(spec.max_code) << storage_shift
}

/// Gives a group M positions: its nonzeros, then the lowest others; `None` where it has more than M.
#[inline(always)]
pub(crate) fn slots(nonzeros: u32, keep: usize) -> Option<u32> {
    let count = nonzeros.count_ones() as usize;
    let mut chosen = nonzeros;
    for _ in count..keep {
        // Sets the lowest bit that is not set.
        chosen |= chosen + 1;
    }
    (count <= keep).then_some(chosen)
}

fn compress_piece<C: Code>(
    pattern: Pattern,
    magnitude: u32,
    columns: usize,
    dense: &[u8],
    values: &mut [u8],
    indices: &mut [u8],
) -> Option<(usize, usize)> {
    let (keep, group) = (pattern.keep(), pattern.group());
    let zero = C::zeroed();
    let mut first_bad = None;
    let dense = bytemuck::cast_slice::<u8, C>(dense).chunks_exact(group * columns);
    let values = bytemuck::cast_slice_mut::<u8, C>(values).chunks_exact_mut(keep * columns);
    let indices = indices.chunks_exact_mut(keep * columns);
    let mut nonzeros = vec![0u32; columns];
    for (at, ((dense, values), indices)) in dense.zip(values).zip(indices).enumerate() {
        nonzeros.fill(0);
        for (position, row) in dense.chunks_exact(columns).enumerate() {
            for (mask, &code) in nonzeros.iter_mut().zip(row) {
                *mask |= u32::from(code.into() & magnitude != 0) << position;
            }
        }
        for (column, &mask) in nonzeros.iter().enumerate() {
            let Some(mut rest) = slots(mask, keep) else {
                first_bad = first_bad.or(Some((at, column)));
                continue;
            };
            for slot in 0..keep {
                let position = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let used = mask >> position & 1 == 1;
                values[slot * columns + column] = if used { dense[position * columns + column] } else { zero };
                indices[slot * columns + column] = position as u8;
            }
        }
    }
    first_bad
}

/// Groups whose largest magnitudes are sought side by side, so that compilers vectorise the search.
const ABREAST: usize = 64;

fn prune_piece<C: Code>(pattern: Pattern, format: Format, columns: usize, dense: &[u8], pruned: &mut [u8]) {
    let (keep, group) = (pattern.keep(), pattern.group());
    let (magnitude, nan) = (magnitude_mask(format), largest_magnitude(format) + 1);
    let (dense, pruned) = (bytemuck::cast_slice::<u8, C>(dense), bytemuck::cast_slice_mut::<u8, C>(pruned));
    pruned.fill(C::zeroed());
    let lanes = dense.len() / group;
    for first in (0..lanes).step_by(ABREAST) {
        let count = ABREAST.min(lanes - first);
        // Where each group's first element is.
        let mut starts = [0; ABREAST];
        for (start, lane) in starts[..count].iter_mut().zip(first..) {
            *start = lane / columns * group * columns + lane % columns;
        }
        let mut largest = [[C::Key::default(); ABREAST]; 4];
        for position in 0..group {
            let mut keys = [C::Key::default(); ABREAST];
            for (key, start) in keys[..count].iter_mut().zip(starts) {
                *key = C::key((dense[start + position * columns].into() & magnitude).min(nan), position);
            }
            for largest in &mut largest[..keep] {
                for (largest, key) in largest.iter_mut().zip(&mut keys) {
                    (*largest, *key) = if *key > *largest { (*key, *largest) } else { (*largest, *key) };
                }
            }
        }
        for (lane, start) in starts[..count].iter().enumerate() {
            for largest in &largest[..keep] {
                let at = start + C::position(largest[lane]) * columns;
                pruned[at] = dense[at];
            }
        }
    }
}

fn expand<C: Code>(pattern: Pattern, magnitude: u32, columns: usize, values: &[u8], indices: &[u8], dense: &mut [u8]) {
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

fn count_nonzeros(w: &ArrayView<'_>, pattern: Pattern, axis: usize, group: &[usize]) -> usize {
    let mut position = group.to_vec();
    position[axis] *= pattern.group();
    let mut scratch = AlignedBytes::default();
    let codes = w.line(&position, axis, false, pattern.group(), &mut scratch);
    codes.chunks(w.format().item_size()).filter(|code| is_nonzero(code, w.format())).count()
}

/// Whether a stored code is neither zero nor minus zero.
pub(crate) fn is_nonzero(code: &[u8], format: Format) -> bool {
    let code = match *code {
        [a] => u32::from(a),
        [a, b] => u32::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
        _ => 0,
    };
    code & magnitude_mask(format) != 0
}
