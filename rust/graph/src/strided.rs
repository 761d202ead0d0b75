//! Elements picked by strides: what every operation that only moves elements is made of.

use trn3_numerics::for_each;

use crate::error::Result;
use crate::tensor::{Tensor, on_words};

/// Distances of a row-major array, in elements.
pub(crate) fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
}

/// Calls `visit` with the place of the first element of each row, rows in row-major order; a row is the last axis.
pub(crate) fn for_each_row(shape: &[usize], strides: &[isize], offset: isize, mut visit: impl FnMut(isize)) {
    if shape.contains(&0) {
        return;
    }
    let outer = shape.len().saturating_sub(1);
    let mut index = vec![0usize; outer];
    let mut place = offset;
    loop {
        visit(place);
        let mut axis = outer;
        loop {
            let Some(next) = axis.checked_sub(1) else { return };
            axis = next;
            index[axis] += 1;
            place += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            place -= strides[axis] * shape[axis] as isize;
            index[axis] = 0;
        }
    }
}

/// Lengths, strides and the first place of elements, neighbours merged.
pub(crate) type Axes = (Vec<usize>, Vec<isize>, isize);

/// Elements that a thread gathers at a time.
const PIECE: usize = 1 << 15;

fn gathered<T: Copy + Default + Send + Sync>(
    source: &[T],
    shape: &[usize],
    strides: &[isize],
    offset: isize,
) -> Result<Vec<T>> {
    let mut out = vec![T::default(); shape.iter().product()];
    let (shape, strides) = coalesced(shape, strides);
    let axes = (shape, strides, offset);
    for_each(out.chunks_mut(PIECE).enumerate(), |(piece, out)| read_look(&axes, source, piece * PIECE, out, |x| x))?;
    Ok(out)
}

/// The elements at `offset + sum of strides * index`, as a tensor of `shape`. Every place lies inside: callers have
/// checked their arguments.
pub(crate) fn pick(source: &Tensor, shape: &[usize], strides: &[isize], offset: isize) -> Result<Tensor> {
    let words = on_words!(source.words(), words => gathered(words, shape, strides, offset)?);
    Tensor::new(source.kind().with_shape(shape), words)
}

/// The same elements with axes in another order.
pub(crate) fn permuted(source: &Tensor, permutation: &[usize]) -> Result<Tensor> {
    if permutation.iter().copied().eq(0..permutation.len()) {
        return Ok(source.clone());
    }
    let strides = row_major(source.shape());
    let shape: Vec<usize> = permutation.iter().map(|&axis| source.shape()[axis]).collect();
    let strides: Vec<isize> = permutation.iter().map(|&axis| strides[axis]).collect();
    pick(source, &shape, &strides, 0)
}

/// Whether `axes` are axes of an array of `rank`, each once.
pub(crate) fn are_axes(axes: &[usize], rank: usize) -> bool {
    let mut seen = vec![false; rank];
    axes.iter().all(|&axis| axis < rank && !std::mem::replace(&mut seen[axis], true))
}

/// Axes, as lengths and strides, as one; `None` where no stride serves all.
pub(crate) fn merged(axes: impl DoubleEndedIterator<Item = (usize, isize)>) -> Option<(usize, isize)> {
    let mut axes = axes.rev().filter(|&(length, _)| length != 1);
    let Some((mut total, step)) = axes.next() else { return Some((1, 1)) };
    for (length, stride) in axes {
        if stride != step * total as isize {
            return None;
        }
        total *= length;
    }
    Some((total, step))
}

/// The same axes with neighbours merged where one stride serves both, and without those of length 1; never none.
pub(crate) fn coalesced(shape: &[usize], strides: &[isize]) -> (Vec<usize>, Vec<isize>) {
    let mut axes: Vec<(usize, isize)> = Vec::with_capacity(shape.len());
    for axis in shape.iter().copied().zip(strides.iter().copied()).filter(|&(length, _)| length != 1) {
        let both = axes.last().and_then(|&last| merged([last, axis].into_iter()));
        match (both, axes.last_mut()) {
            (Some(both), Some(last)) => *last = both,
            _ => axes.push(axis),
        }
    }
    if axes.is_empty() {
        axes.push((1, 1));
    }
    axes.into_iter().unzip()
}

/// Copies the elements `start..` of a look, run by run.
pub(crate) fn read_look<T: Copy, U: Copy>(
    axes: &Axes,
    source: &[T],
    start: usize,
    out: &mut [U],
    convert: impl Fn(T) -> U,
) {
    let (shape, strides, offset) = axes;
    let inner = shape.len() - 1;
    let mut index = vec![0usize; shape.len()];
    let (mut rest, mut place) = (start, *offset);
    for axis in (0..shape.len()).rev() {
        index[axis] = rest % shape[axis];
        rest /= shape[axis];
        place += index[axis] as isize * strides[axis];
    }
    let mut out = out;
    while !out.is_empty() {
        let count = (shape[inner] - index[inner]).min(out.len());
        let (run, tail) = out.split_at_mut(count);
        match strides[inner] {
            1 => run
                .iter_mut()
                .zip(&source[place as usize..place as usize + count])
                .for_each(|(to, &x)| *to = convert(x)),
            0 => run.fill(convert(source[place as usize])),
            step => (0..).zip(run).for_each(|(at, to)| *to = convert(source[(place + at * step) as usize])),
        }
        out = tail;
        place += count as isize * strides[inner];
        index[inner] += count;
        let mut axis = inner;
        while index[axis] == shape[axis] && axis > 0 {
            place -= shape[axis] as isize * strides[axis];
            index[axis] = 0;
            axis -= 1;
            index[axis] += 1;
            place += strides[axis];
        }
    }
}

/// A block of an array, as rows relative to its first element: for the same block at many places.
pub(crate) struct Block {
    rows: Vec<isize>,
    length: usize,
    step: isize,
}

impl Block {
    /// The block of this shape in an array of these strides.
    pub(crate) fn new(shape: &[usize], strides: &[isize]) -> Self {
        let (shape, strides) = coalesced(shape, strides);
        let mut rows = Vec::new();
        for_each_row(&shape, &strides, 0, |place| rows.push(place));
        Self { rows, length: shape[shape.len() - 1], step: strides[strides.len() - 1] }
    }

    /// Appends the elements of the block whose first one is at `start`.
    pub(crate) fn read<T: Copy>(&self, source: &[T], start: isize, out: &mut Vec<T>) {
        for row in &self.rows {
            let first = start + row;
            if self.step == 1 {
                out.extend_from_slice(&source[first as usize..first as usize + self.length]);
            } else {
                out.extend((0..self.length as isize).map(|column| source[(first + column * self.step) as usize]));
            }
        }
    }

    /// Joins values, one for each element of the block in row-major order, into the block whose first one is at `start`.
    pub(crate) fn join<T: Copy>(&self, target: &mut [T], start: isize, values: &[T], mut join: impl FnMut(T, T) -> T) {
        for (row, values) in self.rows.iter().zip(values.chunks(self.length.max(1))) {
            let first = start + row;
            if self.step == 1 {
                let row = &mut target[first as usize..first as usize + self.length];
                row.iter_mut().zip(values).for_each(|(element, &value)| *element = join(*element, value));
            } else {
                for (column, &value) in (0isize..).zip(values) {
                    let element = &mut target[(first + column * self.step) as usize];
                    *element = join(*element, value);
                }
            }
        }
    }
}
