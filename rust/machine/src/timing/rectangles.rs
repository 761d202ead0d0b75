//! What rectangles of a memory hold: columns cut into segments, each of which has disjoint rows in order.
//!
//! What is put into a rectangle takes the place of all below it, and merges the segments it spans, so that a memory that is
//! used alike over and over stays as small as what was used last.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::region::Rect;

/// A range of rows of a segment that holds the same.
#[derive(Clone, Debug)]
struct Cell<T> {
    top: u64,
    bottom: u64,
    content: T,
}

/// A range of columns with the rows that hold something, in order and disjoint.
#[derive(Clone, Debug)]
struct Segment<T> {
    end: u64,
    cells: SmallVec<[Cell<T>; 1]>,
}

impl<T: Clone + Default> Segment<T> {
    fn is_exactly(&self, rect: &Rect) -> bool {
        self.end == rect.columns.end
            && self.cells.len() == 1
            && self.cells[0].top == rect.rows.start
            && self.cells[0].bottom == rect.rows.end
    }

    fn of(rect: &Rect, content: T) -> Self {
        let cell = Cell { top: rect.rows.start, bottom: rect.rows.end, content };
        Self { end: rect.columns.end, cells: SmallVec::from_buf([cell]) }
    }

    fn visit(&self, rect: &Rect, visit: &mut impl FnMut(&T)) {
        let cells = self.cells[self.first(rect.rows.start)..].iter();
        cells.take_while(|cell| cell.top < rect.rows.end).for_each(|cell| visit(&cell.content));
    }

    /// Index of the first cell that ends below a row.
    fn first(&self, row: u64) -> usize {
        self.cells.partition_point(|cell| cell.bottom <= row)
    }

    /// Applies a change to all rows of a range, which are split off and made as needed.
    fn change(&mut self, top: u64, bottom: u64, change: &mut impl FnMut(&mut T)) {
        let mut index = self.first(top);
        let mut row = top;
        while row < bottom {
            let next = self.cells.get(index).map_or(u64::MAX, |cell| cell.top);
            if next > row {
                let mut cell = Cell { top: row, bottom: next.min(bottom), content: T::default() };
                row = cell.bottom;
                change(&mut cell.content);
                self.cells.insert(index, cell);
            } else {
                if next < row {
                    let mut above = self.cells[index].clone();
                    above.bottom = row;
                    self.cells[index].top = row;
                    self.cells.insert(index, above);
                    index += 1;
                }
                if self.cells[index].bottom > bottom {
                    let mut below = self.cells[index].clone();
                    below.top = bottom;
                    self.cells[index].bottom = bottom;
                    self.cells.insert(index + 1, below);
                }
                row = self.cells[index].bottom;
                change(&mut self.cells[index].content);
            }
            index += 1;
        }
    }

    /// Takes all rows of a range out.
    fn clear(&mut self, top: u64, bottom: u64) {
        let first = self.first(top);
        if first == self.cells.len() || self.cells[first].top >= bottom {
            return;
        }
        if self.cells[first].top < top && self.cells[first].bottom > bottom {
            let mut below = self.cells[first].clone();
            below.top = bottom;
            self.cells[first].bottom = top;
            self.cells.insert(first + 1, below);
            return;
        }
        for cell in self.cells[first..].iter_mut().take_while(|cell| cell.top < bottom) {
            if cell.top < top {
                cell.bottom = top;
            } else if cell.bottom > bottom {
                cell.top = bottom;
            } else {
                cell.bottom = cell.top;
            }
        }
        self.cells.retain(|cell| cell.top < cell.bottom);
    }
}

/// What the rectangles of one memory hold; rectangles without rows or columns hold nothing.
///
/// # Examples
/// ```
/// use trn3_machine::timing::rectangles::RectangleMap;
/// use trn3_machine::timing::region::Rect;
///
/// let mut held = RectangleMap::<u32>::default();
/// held.put(&Rect { rows: 0..128, columns: 0..64 }, 1);
/// held.change(&Rect { rows: 0..32, columns: 32..96 }, &mut |held| *held += 10);
/// let mut seen = Vec::new();
/// held.visit(&Rect { rows: 0..128, columns: 32..96 }, &mut |held| seen.push(*held));
/// seen.sort();
/// assert_eq!(seen, [1, 10, 11]);
/// ```
#[derive(Clone, Debug)]
pub struct RectangleMap<T> {
    /// The first column and the segment where there is one alone, as in most tensors: a node of a tree takes as much as eleven.
    sole: Option<(u64, Segment<T>)>,
    /// All of them, where there are more.
    segments: BTreeMap<u64, Segment<T>>,
}

impl<T> Default for RectangleMap<T> {
    fn default() -> Self {
        Self { sole: None, segments: BTreeMap::new() }
    }
}

impl<T: Clone + Default> RectangleMap<T> {
    /// Visits what parts of a rectangle hold; what holds nothing is passed over.
    pub fn visit(&self, rect: &Rect, visit: &mut impl FnMut(&T)) {
        if is_empty(rect) {
            return;
        }
        if let Some((start, segment)) = &self.sole {
            if *start < rect.columns.end && rect.columns.start < segment.end {
                segment.visit(rect, visit);
            }
            return;
        }
        // Mostly it is what was used before.
        if let Some(segment) = self.segments.get(&rect.columns.start)
            && segment.end >= rect.columns.end
        {
            segment.visit(rect, visit);
            return;
        }
        for (&start, segment) in self.segments.range(..rect.columns.end).rev() {
            if segment.end <= rect.columns.start {
                break;
            }
            segment.visit(rect, visit);
            if start <= rect.columns.start {
                break;
            }
        }
    }

    /// Applies a change to what all parts of a rectangle hold; parts that hold nothing hold the default before.
    pub fn change(&mut self, rect: &Rect, change: &mut impl FnMut(&mut T)) {
        if is_empty(rect) {
            return;
        }
        if self.is_untouched() {
            let mut content = T::default();
            change(&mut content);
            self.sole = Some((rect.columns.start, Segment::of(rect, content)));
            return;
        }
        if let Some(segment) = self.beginning(rect.columns.start)
            && segment.end == rect.columns.end
        {
            segment.change(rect.rows.start, rect.rows.end, change);
            return;
        }
        self.spread();
        let (left, right) = (rect.columns.start, rect.columns.end);
        self.split(left);
        self.split(right);
        let mut gaps: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        let mut column = left;
        for (&start, segment) in self.segments.range_mut(left..right) {
            if start > column {
                gaps.push((column, start));
            }
            segment.change(rect.rows.start, rect.rows.end, change);
            column = segment.end;
        }
        if column < right {
            gaps.push((column, right));
        }
        for (start, end) in gaps {
            let mut content = T::default();
            change(&mut content);
            self.segments.insert(start, Segment { end, ..Segment::of(rect, content) });
        }
    }

    /// Makes a rectangle hold something, whatever it held.
    pub fn put(&mut self, rect: &Rect, content: T) {
        if is_empty(rect) {
            return;
        }
        if let Some(segment) = self.beginning(rect.columns.start)
            && segment.is_exactly(rect)
        {
            segment.cells[0].content = content;
            return;
        }
        if self.is_untouched() {
            self.sole = Some((rect.columns.start, Segment::of(rect, content)));
            return;
        }
        self.spread();
        let (left, right) = (rect.columns.start, rect.columns.end);
        let (top, bottom) = (rect.rows.start, rect.rows.end);
        self.split(left);
        self.split(right);
        let cell = Cell { top, bottom, content };
        // Segments without other rows, and gaps, become one segment with the next such neighbours.
        let mut emptied: SmallVec<[u64; 8]> = SmallVec::new();
        let mut runs: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        let mut run = left;
        for (&start, segment) in self.segments.range_mut(left..right) {
            segment.clear(top, bottom);
            if segment.cells.is_empty() {
                emptied.push(start);
                continue;
            }
            if run < start {
                runs.push((run, start));
            }
            let index = segment.first(top);
            segment.cells.insert(index, cell.clone());
            run = segment.end;
        }
        if run < right {
            runs.push((run, right));
        }
        for start in emptied {
            self.segments.remove(&start);
        }
        for (start, end) in runs {
            self.segments.insert(start, Segment { end, cells: SmallVec::from_buf([cell.clone()]) });
        }
    }

    fn is_untouched(&self) -> bool {
        self.sole.is_none() && self.segments.is_empty()
    }

    /// The segment that begins with a column.
    fn beginning(&mut self, column: u64) -> Option<&mut Segment<T>> {
        match &mut self.sole {
            Some((start, segment)) => (*start == column).then_some(segment),
            None => self.segments.get_mut(&column),
        }
    }

    /// The only segment becomes one of many.
    fn spread(&mut self) {
        self.segments.extend(self.sole.take());
    }

    fn split(&mut self, column: u64) {
        if let Some((&start, segment)) = self.segments.range_mut(..column).next_back()
            && start < column
            && segment.end > column
        {
            let right = segment.clone();
            segment.end = column;
            self.segments.insert(column, right);
        }
    }

    /// Segments that the columns are cut into.
    #[cfg(test)]
    pub(crate) fn segments(&self) -> usize {
        self.segments.len() + usize::from(self.sole.is_some())
    }
}

fn is_empty(rect: &Rect) -> bool {
    rect.rows.start >= rect.rows.end || rect.columns.start >= rect.columns.end
}
