//! Walking an array group by group along one axis: pieces of contiguous memory, on all threads.

use std::ops::Range;

use crate::array::{AlignedBytes, ArrayView};

/// Dense elements of a piece: its input and outputs stay in L2.
const PIECE: usize = 1 << 15;
/// Columns of a piece where a group has more of them than a piece should hold.
const COLUMNS: usize = PIECE / 16;

/// An array seen as `groups` groups in C order, each of some rows along the axis and `inner` columns behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    count: usize,
    inner: usize,
    /// Groups along the axis.
    per_line: usize,
    /// Groups of a piece.
    step: usize,
}

/// Some whole groups, or some columns of one group.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) groups: Range<usize>,
    pub(crate) columns: Range<usize>,
}

impl Groups {
    /// Groups of `rows` along `axis` of an array of this shape; the axis holds a whole number of them.
    pub(crate) fn new(shape: &[usize], axis: usize, rows: usize) -> Self {
        let inner: usize = shape[axis + 1..].iter().product();
        let per_line = shape[axis] / rows;
        let count = shape[..axis].iter().product::<usize>() * per_line;
        Self { count, inner, per_line, step: (COLUMNS / inner.max(1)).max(1) }
    }

    /// Columns of a group.
    pub(crate) fn inner(&self) -> usize {
        self.inner
    }

    fn is_empty(&self) -> bool {
        self.count == 0 || self.inner == 0
    }

    /// Columns of a piece.
    fn width(&self) -> usize {
        if self.inner > COLUMNS { COLUMNS } else { self.inner }
    }

    /// Pieces in the order of [`Self::split`].
    pub(crate) fn piece(&self, index: usize) -> Piece {
        let per_group = self.inner.div_ceil(self.width());
        let (first, column) = (index / per_group * self.step, index % per_group * self.width());
        Piece {
            groups: first..self.count.min(first + self.step),
            columns: column..self.inner.min(column + self.width()),
        }
    }

    /// The position of a group and column in the array of groups, for messages; `lane` counts them in C order.
    pub(crate) fn position(&self, lane: usize, shape: &[usize], axis: usize) -> Vec<usize> {
        let mut rest = lane;
        let mut position = vec![0; shape.len()];
        for (at, slot) in position.iter_mut().enumerate().rev() {
            let length = if at == axis { self.per_line } else { shape[at] };
            *slot = rest % length;
            rest /= length;
        }
        position
    }

    /// The line and the place in it of a group.
    pub(crate) fn along_axis(&self, group: usize) -> (usize, usize) {
        (group / self.per_line, group % self.per_line)
    }

    /// Cuts an output of `rows` rows of `item` bytes a group into pieces; a piece is its memory in order.
    pub(crate) fn split<'o>(&self, out: &'o mut [u8], rows: usize, item: usize) -> Vec<Vec<&'o mut [u8]>> {
        if self.is_empty() {
            return Vec::new();
        }
        let group_bytes = rows * self.inner * item;
        if self.inner == self.width() {
            return out.chunks_mut(self.step * group_bytes).map(|piece| vec![piece]).collect();
        }
        let mut pieces = Vec::new();
        for group in out.chunks_mut(group_bytes) {
            let rows = group.chunks_mut(self.inner * item);
            let mut rows: Vec<_> = rows.map(|row| row.chunks_mut(self.width() * item)).collect();
            for _ in 0..self.inner.div_ceil(self.width()) {
                pieces.push(rows.iter_mut().filter_map(Iterator::next).collect());
            }
        }
        pieces
    }

    /// The codes of a piece as [group, row, column], native and aligned.
    pub(crate) fn read<'s>(
        &self,
        view: &'s ArrayView<'_>,
        rows: usize,
        piece: &Piece,
        scratch: &'s mut AlignedBytes,
        line: &mut AlignedBytes,
    ) -> &'s [u8] {
        let row_start = |group: usize, row: usize| (group * rows + row) * self.inner;
        if piece.columns.len() == self.inner {
            return view.chunk(row_start(piece.groups.start, 0)..row_start(piece.groups.end, 0), scratch);
        }
        let bytes = piece.columns.len() * view.format().item_size();
        let staged = scratch.bytes_mut(rows * bytes);
        for (row, staged) in staged.chunks_mut(bytes).enumerate() {
            let start = row_start(piece.groups.start, row) + piece.columns.start;
            staged.copy_from_slice(view.chunk(start..start + piece.columns.len(), line));
        }
        staged
    }
}

/// Copies a piece's staged memory out to where its parts lie.
pub(crate) fn write(piece: &mut [&mut [u8]], staged: &[u8]) {
    let mut rest = staged;
    for part in piece {
        let (head, tail) = rest.split_at(part.len());
        part.copy_from_slice(head);
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_pieces_cover_the_output_once_in_their_own_order() {
        for (shape, axis) in
            [(vec![3, 32, 5], 1), (vec![64], 0), (vec![2, 32, 2 * COLUMNS + 7], 1), (vec![32, 9000], 0)]
        {
            let groups = Groups::new(&shape, axis, 16);
            let rows = 2;
            let mut out = vec![0u8; groups.count * rows * groups.inner];
            let pieces = groups.split(&mut out, rows, 1);
            for (index, mut parts) in pieces.into_iter().enumerate() {
                let piece = groups.piece(index);
                let size = piece.groups.len() * rows * piece.columns.len();
                assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), size);
                let staged: Vec<u8> = piece
                    .groups
                    .flat_map(|group| (0..rows).map(move |row| group * rows + row))
                    .flat_map(|row| piece.columns.clone().map(move |column| (row * 31 + column * 7 + 1) as u8))
                    .collect();
                write(&mut parts, &staged);
            }
            for (index, byte) in out.into_iter().enumerate() {
                let (row, column) = (index / groups.inner, index % groups.inner);
                assert_eq!(byte, (row * 31 + column * 7 + 1) as u8, "{shape:?}");
            }
        }
    }
}
