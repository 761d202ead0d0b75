//! Who wrote and read each byte last: as the machine's hazards, but every reader since the last write is kept.
//!
//! A memory is a map of column segments, each of which holds, for disjoint row ranges, the last writer and the readers
//! since. Readers are chains whose tails cells share, so that splitting a cell copies a number, and a write that covers many
//! cells walks a shared tail once.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use trn3_machine::timing::region::Rect;

const NOBODY: u32 = u32::MAX;

/// A range of rows of a segment, used alike.
#[derive(Clone, Copy, Debug)]
struct Cell {
    top: u64,
    bottom: u64,
    writer: u32,
    /// The last reader, by its place among all.
    readers: u32,
}

/// A range of columns with the rows that were used, in order and disjoint.
#[derive(Clone, Debug)]
struct Segment {
    end: u64,
    cells: SmallVec<[Cell; 1]>,
}

impl Segment {
    fn is_exactly(&self, rect: &Rect) -> bool {
        self.end == rect.columns.end
            && self.cells.len() == 1
            && self.cells[0].top == rect.rows.start
            && self.cells[0].bottom == rect.rows.end
    }

    /// Index of the first cell that ends below a row.
    fn first(&self, row: u64) -> usize {
        self.cells.partition_point(|cell| cell.bottom <= row)
    }

    /// Applies a change to all rows of a range, which are split off and made as needed.
    fn change(&mut self, top: u64, bottom: u64, change: &mut impl FnMut(&mut Cell)) {
        let mut index = self.first(top);
        let mut row = top;
        while row < bottom {
            let next = self.cells.get(index).map_or(u64::MAX, |cell| cell.top);
            if next > row {
                let mut cell = Cell { top: row, bottom: next.min(bottom), writer: NOBODY, readers: NOBODY };
                row = cell.bottom;
                change(&mut cell);
                self.cells.insert(index, cell);
            } else {
                if next < row {
                    let above = Cell { bottom: row, ..self.cells[index] };
                    self.cells[index].top = row;
                    self.cells.insert(index, above);
                    index += 1;
                }
                if self.cells[index].bottom > bottom {
                    let below = Cell { top: bottom, ..self.cells[index] };
                    self.cells[index].bottom = bottom;
                    self.cells.insert(index + 1, below);
                }
                row = self.cells[index].bottom;
                change(&mut self.cells[index]);
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
            let below = Cell { top: bottom, ..self.cells[first] };
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

/// One memory.
#[derive(Clone, Debug, Default)]
struct Map {
    segments: BTreeMap<u64, Segment>,
}

impl Map {
    fn visit(&self, rect: &Rect, visit: &mut impl FnMut(&Cell)) {
        let (top, bottom) = (rect.rows.start, rect.rows.end);
        for (&start, segment) in self.segments.range(..rect.columns.end).rev() {
            if segment.end <= rect.columns.start {
                break;
            }
            let first = segment.first(top);
            segment.cells[first..].iter().take_while(|cell| cell.top < bottom).for_each(&mut *visit);
            if start <= rect.columns.start {
                break;
            }
        }
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

    fn change(&mut self, rect: &Rect, change: &mut impl FnMut(&mut Cell)) {
        if let Some(segment) = self.segments.get_mut(&rect.columns.start)
            && segment.is_exactly(rect)
        {
            change(&mut segment.cells[0]);
            return;
        }
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
            let mut cell = Cell { top: rect.rows.start, bottom: rect.rows.end, writer: NOBODY, readers: NOBODY };
            change(&mut cell);
            self.segments.insert(start, Segment { end, cells: SmallVec::from_buf([cell]) });
        }
    }

    fn write(&mut self, rect: &Rect, writer: u32) {
        let (top, bottom) = (rect.rows.start, rect.rows.end);
        let written = Cell { top, bottom, writer, readers: NOBODY };
        if let Some(segment) = self.segments.get_mut(&rect.columns.start)
            && segment.is_exactly(rect)
        {
            segment.cells[0] = written;
            return;
        }
        let (left, right) = (rect.columns.start, rect.columns.end);
        self.split(left);
        self.split(right);
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
            segment.cells.insert(index, written);
            run = segment.end;
        }
        if run < right {
            runs.push((run, right));
        }
        for start in emptied {
            self.segments.remove(&start);
        }
        for (start, end) in runs {
            self.segments.insert(start, Segment { end, cells: SmallVec::from_buf([written]) });
        }
    }
}

/// A reader of a cell.
#[derive(Clone, Copy, Debug)]
struct Reader {
    step: u32,
    /// The one before.
    before: u32,
    /// The step that walked past last.
    seen: u32,
}

/// Uses of all memories so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    maps: Vec<Map>,
    readers: Vec<Reader>,
}

impl Uses {
    /// Of so many memories.
    pub(crate) fn new(memories: usize) -> Self {
        Self { maps: vec![Map::default(); memories], readers: Vec::new() }
    }

    /// Visits the last writers of some bytes, and for one who writes them the readers since; says which a step is.
    pub(crate) fn visit(
        &mut self,
        map: usize,
        rects: &[Rect],
        now: u32,
        writes: bool,
        visit: &mut impl FnMut(u32, bool),
    ) {
        let readers = &mut self.readers;
        for rect in rects.iter().filter(|rect| !is_empty(rect)) {
            self.maps[map].visit(rect, &mut |cell| {
                if cell.writer != NOBODY {
                    visit(cell.writer, true);
                }
                let mut at = if writes { cell.readers } else { NOBODY };
                while at != NOBODY && readers[at as usize].seen != now {
                    let reader = &mut readers[at as usize];
                    reader.seen = now;
                    visit(reader.step, false);
                    at = reader.before;
                }
            });
        }
    }

    /// Notes that a step uses some bytes.
    pub(crate) fn note(&mut self, map: usize, rects: &[Rect], now: u32, writes: bool) {
        for rect in rects.iter().filter(|rect| !is_empty(rect)) {
            if writes {
                self.maps[map].write(rect, now);
                continue;
            }
            let readers = &mut self.readers;
            // Cells that had the same readers so far go on with the same chain.
            let mut made: Option<(u32, u32)> = None;
            self.maps[map].change(rect, &mut |cell| {
                if cell.readers != NOBODY && readers[cell.readers as usize].step == now {
                    return;
                }
                let head = match made {
                    Some((before, head)) if before == cell.readers => head,
                    _ => {
                        readers.push(Reader { step: now, before: cell.readers, seen: NOBODY });
                        readers.len() as u32 - 1
                    }
                };
                made = Some((cell.readers, head));
                cell.readers = head;
            });
        }
    }
}

fn is_empty(rect: &Rect) -> bool {
    rect.rows.start >= rect.rows.end || rect.columns.start >= rect.columns.end
}
