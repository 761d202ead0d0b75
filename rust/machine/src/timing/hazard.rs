//! Hazards: which earlier instructions an access has to wait for, found on rectangles of rows and bytes.
//!
//! Every memory is a map of column segments; each segment holds, for disjoint row ranges, the last writer and the
//! readers since. A write takes the place of everything below it, for it waited for all of that itself, and merges
//! the segments it spans. Readers are kept one an engine, the one that ends last: what an access waits for depends on
//! the producer's engine and end alone.

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;

use super::graph::EdgeKind;
use super::record::NO_INSTRUCTION;
use super::region::{Rect, Region, Space};
use crate::engine::Engine;

const ENGINES: usize = Engine::ALL.len();

/// An instruction's use of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When the use is over, in picoseconds.
    pub end: u64,
    /// The instruction.
    pub id: u32,
    /// Its engine.
    pub engine: Engine,
}

impl Access {
    const NONE: Access = Access { end: 0, id: NO_INSTRUCTION, engine: Engine::Sync };

    fn is_some(self) -> bool {
        self.id != NO_INSTRUCTION
    }

    /// Whether this one ends later; of two ends at once, the later instruction's counts.
    fn outlasts(self, other: Access) -> bool {
        !other.is_some() || (self.end, self.id) >= (other.end, other.id)
    }
}

/// What an instruction has to wait for: of each engine the access that ends last.
#[derive(Clone, Debug)]
pub struct Waits {
    latest: [Access; ENGINES],
    /// Every access that it comes after, and why, where that is kept.
    seen: Option<SmallVec<[(Access, EdgeKind); 6]>>,
}

impl Default for Waits {
    fn default() -> Self {
        Self { latest: [Access::NONE; ENGINES], seen: None }
    }
}

impl Waits {
    /// As the default, and every access is kept.
    pub(crate) fn keeping(keeps: bool) -> Self {
        Self { seen: keeps.then(SmallVec::new), ..Self::default() }
    }

    /// Every access that it comes after, some of them twice, where that was kept.
    pub(crate) fn seen(&self) -> &[(Access, EdgeKind)] {
        self.seen.as_deref().unwrap_or_default()
    }

    fn see(&mut self, access: Access, kind: EdgeKind) {
        if let Some(seen) = &mut self.seen
            && access.is_some()
            && seen.last().is_none_or(|last| *last != (access, kind))
        {
            seen.push((access, kind));
        }
    }

    /// The last access of each engine that is waited for.
    pub fn accesses(&self) -> impl Iterator<Item = Access> + '_ {
        self.latest.iter().copied().filter(|access| access.is_some())
    }

    fn note(&mut self, access: Access) {
        if access.is_some() {
            let latest = &mut self.latest[access.engine as usize];
            if access.outlasts(*latest) {
                *latest = access;
            }
        }
    }
}

/// Readers since the last write: at most one an engine.
type Readers = SmallVec<[Access; 2]>;

/// A range of rows of a segment, used alike.
#[derive(Clone, Debug)]
struct Cell {
    top: u64,
    bottom: u64,
    writer: Access,
    readers: Readers,
}

impl Cell {
    fn new(top: u64, bottom: u64) -> Self {
        Self { top, bottom, writer: Access::NONE, readers: Readers::new() }
    }

    fn read(&mut self, access: Access) {
        match self.readers.iter_mut().find(|reader| reader.engine == access.engine) {
            Some(reader) if access.outlasts(*reader) => *reader = access,
            Some(_) => {}
            None => self.readers.push(access),
        }
    }

    fn write(&mut self, access: Access) {
        self.writer = access;
        self.readers.clear();
    }

    /// A write that did not wait for its own engine: what of that ends later is still waited for.
    fn accumulate(&mut self, access: Access) {
        let mut last = access;
        if self.writer.engine == access.engine && self.writer.is_some() && !access.outlasts(self.writer) {
            last = self.writer;
        }
        self.writer = last;
        self.readers.retain(|reader| reader.engine == access.engine && !access.outlasts(*reader));
    }
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
                let mut cell = Cell::new(row, next.min(bottom));
                row = cell.bottom;
                change(&mut cell);
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
            let mut cell = Cell::new(rect.rows.start, rect.rows.end);
            change(&mut cell);
            self.segments.insert(start, Segment { end, cells: SmallVec::from_buf([cell]) });
        }
    }

    fn write(&mut self, rect: &Rect, access: Access) {
        if let Some(segment) = self.segments.get_mut(&rect.columns.start)
            && segment.is_exactly(rect)
        {
            segment.cells[0].write(access);
            return;
        }
        let (left, right) = (rect.columns.start, rect.columns.end);
        let (top, bottom) = (rect.rows.start, rect.rows.end);
        self.split(left);
        self.split(right);
        let mut written = Cell::new(top, bottom);
        written.write(access);
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
            segment.cells.insert(index, written.clone());
            run = segment.end;
        }
        if run < right {
            runs.push((run, right));
        }
        for start in emptied {
            self.segments.remove(&start);
        }
        for (start, end) in runs {
            self.segments.insert(start, Segment { end, cells: SmallVec::from_buf([written.clone()]) });
        }
    }
}

/// Uses of every memory so far.
#[derive(Clone, Debug, Default)]
pub struct Hazards {
    sbuf: Map,
    psum: Map,
    others: HashMap<Space, Map>,
}

impl Hazards {
    fn map(&self, space: Space) -> Option<&Map> {
        match space {
            Space::Sbuf => Some(&self.sbuf),
            Space::Psum => Some(&self.psum),
            Space::Hbm(_) | Space::Register(_) => self.others.get(&space),
        }
    }

    fn map_mut(&mut self, space: Space) -> &mut Map {
        match space {
            Space::Sbuf => &mut self.sbuf,
            Space::Psum => &mut self.psum,
            Space::Hbm(_) | Space::Register(_) => self.others.entry(space).or_default(),
        }
    }

    /// Notes what a read of a region waits for: the last writers of its bytes. `own`: an engine whose accesses are not
    /// waited for, because it adds to what it wrote.
    pub fn before_read(&self, region: &Region, own: Option<Engine>, waits: &mut Waits) {
        if let Some(map) = self.map(region.space) {
            for rect in region.rects.iter().filter(|rect| !is_empty(rect)) {
                map.visit(rect, &mut |cell| {
                    let is_own = own == Some(cell.writer.engine);
                    waits.see(cell.writer, if is_own { EdgeKind::Sum } else { EdgeKind::Result });
                    if !is_own {
                        waits.note(cell.writer);
                    }
                });
            }
        }
    }

    /// Notes what a write of a region waits for: the last writers of its bytes and their readers since. `own` as for
    /// [`Hazards::before_read`].
    pub fn before_write(&self, region: &Region, own: Option<Engine>, waits: &mut Waits) {
        if let Some(map) = self.map(region.space) {
            let on_chip = matches!(region.space, Space::Sbuf | Space::Psum);
            let kind = if on_chip { EdgeKind::Reuse } else { EdgeKind::Overwrite };
            for rect in region.rects.iter().filter(|rect| !is_empty(rect)) {
                map.visit(rect, &mut |cell| {
                    for access in std::iter::once(cell.writer).chain(cell.readers.iter().copied()) {
                        let is_own = own == Some(access.engine);
                        waits.see(access, if is_own { EdgeKind::Sum } else { kind });
                        if !is_own {
                            waits.note(access);
                        }
                    }
                });
            }
        }
    }

    /// Records a read.
    pub fn read(&mut self, region: &Region, access: Access) {
        let map = self.map_mut(region.space);
        for rect in region.rects.iter().filter(|rect| !is_empty(rect)) {
            map.change(rect, &mut |cell| cell.read(access));
        }
    }

    /// Records a write. `accumulates`: it did not wait for accesses of its own engine.
    pub fn write(&mut self, region: &Region, access: Access, accumulates: bool) {
        let map = self.map_mut(region.space);
        for rect in region.rects.iter().filter(|rect| !is_empty(rect)) {
            if accumulates {
                map.change(rect, &mut |cell| cell.accumulate(access));
            } else {
                map.write(rect, access);
            }
        }
    }

    /// Segments kept of a memory.
    #[cfg(test)]
    pub(crate) fn segments(&self, space: Space) -> usize {
        self.map(space).map_or(0, |map| map.segments.len())
    }

    /// Drops all that is known of a memory: nothing will touch it again.
    pub fn forget(&mut self, space: Space) {
        match space {
            Space::Sbuf => self.sbuf = Map::default(),
            Space::Psum => self.psum = Map::default(),
            Space::Hbm(_) | Space::Register(_) => {
                self.others.remove(&space);
            }
        }
    }
}

fn is_empty(rect: &Rect) -> bool {
    rect.rows.start >= rect.rows.end || rect.columns.start >= rect.columns.end
}
