//! From dense arrays: compressing what is sparse already, and pruning what is not.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::code::{Code, buffers, check_format, is_nonzero, magnitude_mask, slots};
use super::pattern::SparsityPattern;
use super::pieces::{Groups, write};
use crate::array::{AlignedBytes, ArrayMut, ArrayView, element_count};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::par;

/// Compresses a dense array along `axis`: `values` has [`SparsityPattern::compressed_shape`] and w's format, `indices` one byte
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
    pattern: SparsityPattern,
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
pub fn prune(w: &ArrayView<'_>, pattern: SparsityPattern, axis: usize, out: ArrayMut<'_>) -> Result<()> {
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

/// The stored magnitude of the largest number, infinity included; NaN lies above.
fn largest_magnitude(format: Format) -> u32 {
    let spec = format.spec();
    let storage_shift = if format.item_size() == 4 { 32 - spec.bits } else { 0 };
    spec.infinity.unwrap_or(spec.max_code) << storage_shift
}

fn compress_piece<C: Code>(
    pattern: SparsityPattern,
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

fn prune_piece<C: Code>(pattern: SparsityPattern, format: Format, columns: usize, dense: &[u8], pruned: &mut [u8]) {
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

fn count_nonzeros(w: &ArrayView<'_>, pattern: SparsityPattern, axis: usize, group: &[usize]) -> usize {
    let mut position = group.to_vec();
    position[axis] *= pattern.group();
    let mut scratch = AlignedBytes::default();
    let codes = w.line(&position, axis, false, pattern.group(), &mut scratch);
    codes.chunks(w.format().item_size()).filter(|code| is_nonzero(code, w.format())).count()
}
