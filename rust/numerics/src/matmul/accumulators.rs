//! Float32 accumulators that several threads work on, each on a rectangle of its own.
#![allow(unsafe_code)]

use std::marker::PhantomData;

/// A rectangle of float32 accumulators in a row-major matrix that is mutably borrowed for `'a`.
#[derive(Debug)]
pub(crate) struct Accumulators<'a> {
    pub(super) first: *mut f32,
    /// Elements from one row to the next.
    pub(super) row_stride: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    matrix: PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for a mutable borrow of plain floats; `part` asks its callers to keep parts disjoint.
unsafe impl Send for Accumulators<'_> {}
// SAFETY: a shared reference gives access only through `part`, which is unsafe.
unsafe impl Sync for Accumulators<'_> {}

impl<'a> Accumulators<'a> {
    /// The whole of a row-major matrix.
    pub(crate) fn new(values: &'a mut [f32], columns: usize) -> Self {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        Self { first: values.as_mut_ptr(), row_stride: columns, rows, columns, matrix: PhantomData }
    }

    /// As [`Self::part`], if it holds any.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn tile(&self, row: usize, column: usize, rows: usize, columns: usize) -> Option<Self> {
        // SAFETY: by the caller's promise.
        (row < self.rows && column < self.columns).then(|| unsafe { self.part(row, column, rows, columns) })
    }

    /// The part that starts at `(row, column)`, of at most the given size.
    ///
    /// # Safety
    /// Parts in use at the same time must not overlap, nor may the whole be used meanwhile.
    unsafe fn part(&self, row: usize, column: usize, rows: usize, columns: usize) -> Self {
        let (rows, columns) = (rows.min(self.rows - row), columns.min(self.columns - column));
        // SAFETY: (row, column) lies in the matrix, or at its end where the part is empty.
        let first = unsafe { self.first.add(row * self.row_stride + column) };
        Self { first, rows, columns, row_stride: self.row_stride, matrix: PhantomData }
    }

    /// Gives `work` the rectangle `[row, column, rows, columns]`, of at most the given size.
    ///
    /// Rectangles in use at the same time must not overlap.
    pub(crate) fn with_rectangle(&self, [row, column, rows, columns]: [usize; 4], work: impl FnOnce(&mut Self)) {
        // SAFETY: rectangles in use are disjoint, by the caller's promise.
        work(&mut unsafe { self.part(row, column, rows, columns) });
    }

    /// Calls `work(row, its values)` for each row.
    pub(crate) fn for_each_row(&mut self, mut work: impl FnMut(usize, &mut [f32])) {
        for row in 0..self.rows {
            // SAFETY: rows are disjoint and inside the matrix; the maker of the part keeps others away.
            work(row, unsafe { std::slice::from_raw_parts_mut(self.first.add(row * self.row_stride), self.columns) });
        }
    }
}
