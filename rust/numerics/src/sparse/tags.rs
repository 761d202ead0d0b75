//! The hardware's tags: positions of four consecutive slots along the compressed axis in one 16-bit word.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::code::{Code, buffers, check_format, is_nonzero, magnitude_mask, slots};
use super::pattern::{PER_TAG, SparsityPattern};
use super::pieces::{Groups, write};
use super::view::SparseView;
use crate::array::{AlignedBytes, ArrayMut, ArrayView, element_count};
use crate::error::{Error, Result};
use crate::par;

const POSITION_BITS: usize = 4;
/// Tags a task makes.
const TASK: usize = 1 << 14;

impl SparseView<'_> {
    /// Writes the hardware's tags, in C order of [`SparsityPattern::tags_shape`]: along the compressed axis four consecutive
    /// positions of 4 bits in a word, the first in the low bits; what lies beyond the last slot is zero.
    ///
    /// # Errors
    /// [`Error::Value`] when there is not one word a tag.
    ///
    /// ```
    /// use trn3_numerics::{ArrayView, SparseView};
    ///
    /// let values = ArrayView::new(&[1.0f32, 2.0, 3.0, 4.0], &[4])?;
    /// let sparse = SparseView::new(values, &[1, 5, 6, 15], "4:16".parse()?, 0)?;
    /// let mut tags = [0u16];
    /// sparse.to_tags(&mut tags)?;
    /// assert_eq!(tags, [0xf651]);
    /// # Ok::<(), trn3_numerics::Error>(())
    /// ```
    pub fn to_tags(&self, tags: &mut [u16]) -> Result<()> {
        let (shape, axis) = (self.values().shape(), self.axis());
        check_count("out", tags.len(), self.pattern().tags_shape(shape, axis)?)?;
        let (length, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let per_line = length.div_ceil(PER_TAG);
        let indices = self.indices();
        par::for_each(tags.chunks_mut(TASK).enumerate(), |(task, tags)| {
            for (at, tag) in tags.iter_mut().enumerate() {
                let (row, column) = ((task * TASK + at) / inner, (task * TASK + at) % inner);
                let (line, first) = (row / per_line, row % per_line * PER_TAG);
                let slots = first..length.min(first + PER_TAG);
                *tag = slots.rev().fold(0, |tag, slot| {
                    tag << POSITION_BITS | u16::from(indices[(line * length + slot) * inner + column])
                });
            }
        })
    }
}

/// Reads the hardware's tags (as [`SparseView::to_tags`] writes them): `values_out` and `indices` become what
/// [`SparseView::new`] takes.
///
/// Tags may name the positions of a group in any order, and any position for a slot whose value is zero. A group whose
/// positions ascend already stays as it is; any other one is sorted, its unused slots moved to the lowest free
/// positions, as [`crate::compress`] leaves them.
///
/// # Errors
/// [`Error::Value`] when a position is N or more, or one position comes twice with nonzero values; it names the first
/// such group in C order. [`Error::Dtype`], [`Error::Shape`] and [`Error::Value`] for arguments that do not fit. The
/// outputs then hold unspecified values.
///
/// ```
/// use trn3_numerics::{ArrayMut, ArrayView, from_tags};
///
/// let values = ArrayView::new(&[1.0f32, 2.0], &[2])?;
/// let (mut sorted, mut indices) = ([0.0f32; 2], [0u8; 2]);
/// from_tags(&values, &[0x03], "2:4".parse()?, 0, ArrayMut::new(&mut sorted, &[2])?, &mut indices)?;
/// assert_eq!((sorted, indices), ([2.0, 1.0], [0, 3]));
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn from_tags(
    values: &ArrayView<'_>,
    tags: &[u16],
    pattern: SparsityPattern,
    axis: usize,
    values_out: ArrayMut<'_>,
    indices: &mut [u8],
) -> Result<()> {
    let format = values.format();
    check_format("values", format)?;
    check_count("tags", tags.len(), pattern.tags_shape(values.shape(), axis)?)?;
    values_out.expect("out", format, values.shape())?;
    if indices.len() != values.len() {
        let needed = format!("one a value is needed: {}", values.len());
        return Err(Error::value("indices", format!("{} bytes", indices.len()), needed));
    }
    let keep = pattern.keep();
    let groups = Groups::new(values.shape(), axis, keep);
    let reader =
        Reader { tags, pattern, inner: groups.inner(), per_line: values.shape()[axis].div_ceil(PER_TAG), groups };
    let (item, magnitude) = (format.item_size(), magnitude_mask(format));
    let first_bad = AtomicUsize::new(usize::MAX);
    let pieces = groups.split(values_out.into_bytes(), keep, item).into_iter().zip(groups.split(indices, keep, 1));
    par::for_each(pieces.enumerate(), |(index, (mut values_out, mut indices_out))| {
        let piece = groups.piece(index);
        let [mut a, mut b, mut c, mut d] = buffers();
        let stored = groups.read(values, keep, &piece, &mut a, &mut d);
        let sorted = b.bytes_mut(stored.len());
        let indices = c.bytes_mut(stored.len() / item);
        let columns = piece.columns.len();
        for (at, group) in piece.groups.enumerate() {
            for column in 0..columns {
                let positions = reader.positions(group, piece.columns.start + column);
                let first = at * keep * columns + column;
                let tagged = Tagged { pattern, magnitude, positions, first, step: columns };
                let sound = match item {
                    1 => tagged.sort::<u8>(stored, sorted, indices),
                    2 => tagged.sort::<u16>(stored, sorted, indices),
                    _ => tagged.sort::<u32>(stored, sorted, indices),
                };
                if !sound {
                    let lane = group * groups.inner() + piece.columns.start + column;
                    first_bad.fetch_min(lane, Ordering::Relaxed);
                }
            }
        }
        write(&mut values_out, sorted);
        write(&mut indices_out, indices);
    })?;
    let lane = first_bad.into_inner();
    if lane == usize::MAX { Ok(()) } else { Err(reader.refusal(values, axis, lane)) }
}

fn check_count(argument: &'static str, count: usize, shape: Vec<usize>) -> Result<()> {
    if count != element_count(&shape) {
        let needed = format!("one for each of the shape {shape:?} is needed: {}", element_count(&shape));
        return Err(Error::value(argument, format!("{count} tags"), needed));
    }
    Ok(())
}

struct Reader<'a> {
    tags: &'a [u16],
    pattern: SparsityPattern,
    inner: usize,
    /// Tags along the axis.
    per_line: usize,
    groups: Groups,
}

impl Reader<'_> {
    /// The positions of a group's slots; the last ones are zero where a group has fewer than four.
    fn positions(&self, group: usize, column: usize) -> [u8; 4] {
        let (line, along) = self.groups.along_axis(group);
        let mut positions = [0; 4];
        for (slot, position) in positions.iter_mut().enumerate().take(self.pattern.keep()) {
            let place = along * self.pattern.keep() + slot;
            let tag = self.tags[(line * self.per_line + place / PER_TAG) * self.inner + column];
            *position = (tag >> (place % PER_TAG * POSITION_BITS) & 15) as u8;
        }
        positions
    }

    fn refusal(&self, values: &ArrayView<'_>, axis: usize, lane: usize) -> Error {
        let keep = self.pattern.keep();
        let mut place = self.groups.position(lane, values.shape(), axis);
        let positions = self.positions(lane / self.inner, lane % self.inner);
        let group = format!("in group {place:?} along axis {axis}");
        let limit = self.pattern.group();
        if let Some(position) = positions.iter().find(|&&position| usize::from(position) >= limit) {
            let got = format!("position {position} {group}");
            return Error::value("tags", got, format!("positions of pattern {} are below {limit}", self.pattern));
        }
        place[axis] *= keep;
        let mut scratch = AlignedBytes::default();
        let codes = values.line(&place, axis, false, keep, &mut scratch).chunks(values.format().item_size());
        let mut used = 0u32;
        let mut twice = 0;
        for (code, position) in codes.zip(positions) {
            if is_nonzero(code, values.format()) {
                if used >> position & 1 == 1 {
                    twice = position;
                }
                used |= 1 << position;
            }
        }
        Error::value("tags", format!("position {twice} twice {group}"), "nonzero values need a position each")
    }
}

/// The slots of a group in a piece, and what its tags say of them.
struct Tagged {
    pattern: SparsityPattern,
    /// Bits of a code that are not its sign.
    magnitude: u32,
    positions: [u8; 4],
    /// The first slot.
    first: usize,
    /// The distance to the next.
    step: usize,
}

impl Tagged {
    /// Brings the group into ascending order; false where its positions are not sound.
    #[inline]
    fn sort<C: Code>(&self, stored: &[u8], sorted: &mut [u8], indices: &mut [u8]) -> bool {
        let Self { pattern, magnitude, positions, first, step } = *self;
        let keep = pattern.keep();
        let (stored, sorted) = (bytemuck::cast_slice::<u8, C>(stored), bytemuck::cast_slice_mut::<u8, C>(sorted));
        let positions = &positions[..keep];
        if positions.iter().any(|&position| usize::from(position) >= pattern.group()) {
            return false;
        }
        let mut used = 0u32;
        let mut by_position = [C::zeroed(); 16];
        for (slot, &position) in positions.iter().enumerate() {
            let code = stored[first + slot * step];
            if code.into() & magnitude != 0 {
                if used >> position & 1 == 1 {
                    return false;
                }
                used |= 1 << position;
                by_position[usize::from(position)] = code;
            }
        }
        if positions.windows(2).all(|pair| pair[0] < pair[1]) {
            for (slot, &position) in positions.iter().enumerate() {
                sorted[first + slot * step] = stored[first + slot * step];
                indices[first + slot * step] = position;
            }
        } else {
            let mut rest = slots(used, keep).unwrap_or(used);
            for slot in 0..keep {
                let position = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                sorted[first + slot * step] = by_position[position];
                indices[first + slot * step] = position as u8;
            }
        }
        true
    }
}
