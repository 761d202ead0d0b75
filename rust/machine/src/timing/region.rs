//! What memory an instruction touches, as rectangles of rows and bytes: the grain at which hazards are found.

use std::ops::Range;

use smallvec::SmallVec;

/// A memory in which hazards are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// SBUF: rows are partitions, columns are bytes of a partition.
    Sbuf,
    /// PSUM: rows are partitions, columns are bytes of a partition.
    Psum,
    /// One HBM tensor, by the number of its storage: rows and columns as [`crate::view::View::regions`] cuts it.
    Hbm(u64),
    /// A register, by number: one row, one column.
    Register(u64),
}

/// Rows and columns of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rect {
    /// Partitions, or rows of an HBM tensor.
    pub rows: Range<u64>,
    /// Bytes of a row.
    pub columns: Range<u64>,
}

/// What of one memory an operand covers: exact for contiguous and strided tiles, never too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The memory.
    pub space: Space,
    /// Disjoint rectangles.
    pub rects: SmallVec<[Rect; 2]>,
}
