//! Which memory a view covers, for hazards.

use smallvec::SmallVec;

use crate::storage::Buffer;
use crate::timing::region::{Rect, Region, Space};
use crate::view::{Dynamic, View};

/// Rectangles a region has at most; past it, gaps are counted as covered, the narrowest of the longest axis first.
const MOST_RECTS: u64 = 32;
/// Runs that are cut into rows one by one (a head, whole rows and a tail each).
const MOST_CUT_RUNS: u64 = MOST_RECTS / 3;

/// An axis in bytes or rows: `count` places, `stride` apart.
#[derive(Clone, Copy, Debug)]
struct Steps {
    stride: u64,
    count: u64,
}

type Axes = SmallVec<[Steps; 8]>;

/// A run, repeated along axes that leave gaps; axes that carry one another on are one.
struct Runs {
    run: u64,
    gaps: Axes,
}

impl View {
    /// The memory this view covers; never too little. What its index tile or register covers is apart
    /// ([`View::index_view`], [`View::index_register`]).
    ///
    /// On chip rows are partitions and columns bytes of a partition. An HBM tensor is cut into rows of one length for
    /// all its views, the storage's `pitch`; which length only decides how exact regions are. **(choice)** The first
    /// view asked sets it: of its axes that leave gaps the longest gives the stride, taken down to the largest stride
    /// of the declared shape that divides it; a view without gaps gives the bytes of the declared shape's last axis.
    ///
    /// Up to 32 rectangles are exact; past that gaps count as covered. A dynamic offset covers all it may reach, picked
    /// rows all rows of the bound, picked columns the whole of their partitions.
    pub fn regions(&self) -> Region {
        let storage = &*self.storage;
        let size = self.dtype.size() as u64;
        let base = self.offset as u64 * size;
        let space = match storage.buffer {
            Buffer::Sbuf => Space::Sbuf,
            Buffer::Psum => Space::Psum,
            Buffer::PrivateHbm | Buffer::SharedHbm => Space::Hbm(storage.id),
        };
        if self.is_empty() {
            return Region { space, rects: SmallVec::new() };
        }
        if let Some(rect) = self.sole_rect(base, size) {
            return Region { space, rects: SmallVec::from_iter([rect]) };
        }
        let mut axes = self.axes(size);
        axes.sort_unstable_by_key(|steps| steps.stride);
        if !storage.buffer.is_on_chip() {
            let pitch = *storage.pitch.get_or_init(|| self.choose_pitch(size, &axes));
            return Region { space, rects: cover(base, size, &axes, pitch) };
        }
        let row = storage.free_bytes() as u64;
        let mut rects = match self.dynamic.as_deref() {
            Some(Dynamic::Columns { .. }) => cover(base - base % row, row, &axes, row),
            _ => cover(base, size, &axes, row),
        };
        if let Some(place) = storage.place {
            let (row, byte) = (place.partition as u64, place.byte as u64);
            for rect in &mut rects {
                rect.rows = rect.rows.start + row..rect.rows.end + row;
                rect.columns = rect.columns.start + byte..rect.columns.end + byte;
            }
        }
        Region { space, rects }
    }

    /// The rectangle that a tile on chip is, where it is one run in each of neighbouring partitions, as nearly all are.
    fn sole_rect(&self, base: u64, size: u64) -> Option<Rect> {
        let place = self.storage.place.filter(|_| self.dynamic.is_none())?;
        let pitch = self.storage.free_bytes() as u64;
        let (mut run, mut rows) = (size, 1);
        for (&count, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if count <= 1 || stride <= 0 {
                continue;
            }
            let stride = stride as u64 * size;
            match stride {
                _ if rows > 1 => return None,
                _ if stride == pitch => rows = count as u64,
                _ if stride == run => run *= count as u64,
                _ => return None,
            }
        }
        let (row, column) = if base < pitch { (0, base) } else { (base / pitch, base % pitch) };
        let (row, byte) = (row + place.partition as u64, column + place.byte as u64);
        let rect = Rect { rows: row..row + rows, columns: byte..byte + run };
        (column + run <= pitch).then_some(rect)
    }

    /// Axes with more than one place, in bytes, those of the dynamic part included.
    fn axes(&self, size: u64) -> Axes {
        let mut axes = Axes::new();
        let mut push = |stride: i64, count: usize| {
            if count > 1 && stride > 0 {
                axes.push(Steps { stride: stride as u64 * size, count: count as u64 });
            }
        };
        let dynamic = self.dynamic.as_deref();
        for (axis, (&count, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            match dynamic {
                Some(&Dynamic::Rows { stride, bound, .. }) if axis == 0 => push(stride, bound),
                Some(Dynamic::Columns { .. }) if axis > 0 => {}
                _ => push(stride, count),
            }
        }
        if let Some(&Dynamic::Scalar { stride, bound, .. }) = dynamic {
            push(stride, bound);
        }
        axes
    }

    fn choose_pitch(&self, size: u64, axes: &[Steps]) -> u64 {
        let storage = &*self.storage;
        let whole = (storage.byte_size() as u64).max(1);
        // Strides of the declared shape, from the largest on.
        let mut declared = SmallVec::<[u64; 6]>::new();
        let mut stride = storage.dtype.size() as u64;
        for &length in storage.shape.iter().skip(1).rev() {
            stride *= length as u64;
            declared.push(stride);
        }
        let runs = Runs::new(size, axes.iter().copied());
        let longest = (0..runs.gaps.len()).max_by_key(|&at| (runs.gaps[at].count, runs.gaps[at].stride));
        let Some(longest) = longest else {
            let element = storage.dtype.size() as u64;
            return declared.iter().copied().find(|&stride| stride > element).unwrap_or(whole);
        };
        let inner = runs.run + runs.gaps[..longest].iter().map(|gap| gap.stride * (gap.count - 1)).sum::<u64>();
        let stride = runs.gaps[longest].stride;
        declared.iter().copied().rev().find(|&row| row >= inner && stride.is_multiple_of(row)).unwrap_or(stride)
    }
}

impl Runs {
    /// Axes in ascending order of stride on top of runs of `run`.
    fn new(run: u64, axes: impl Iterator<Item = Steps>) -> Self {
        let mut runs = Self { run, gaps: Axes::new() };
        for steps in axes {
            match runs.gaps.last_mut() {
                None if steps.stride <= runs.run => runs.run += steps.stride * (steps.count - 1),
                // Every place of the outer axis is a place of the inner one, carried on.
                Some(inner) if steps.stride % inner.stride == 0 && steps.stride / inner.stride <= inner.count => {
                    inner.count += steps.stride / inner.stride * (steps.count - 1);
                }
                _ => runs.gaps.push(steps),
            }
        }
        runs
    }

    /// Number of runs.
    fn count(&self) -> u64 {
        self.gaps.iter().fold(1, |product, steps| product.saturating_mul(steps.count))
    }

    /// From the first place to the last.
    fn reach(&self) -> u64 {
        self.run + self.gaps.iter().map(|steps| steps.stride * (steps.count - 1)).sum::<u64>()
    }

    /// Counts the narrowest gaps as covered.
    fn widen(&mut self) {
        if self.gaps.is_empty() {
            return;
        }
        let steps = self.gaps.remove(0);
        let run = self.run + steps.stride * (steps.count - 1);
        *self = Runs::new(run, std::mem::take(&mut self.gaps).into_iter());
    }

    /// The runs as disjoint ranges in ascending order.
    fn ranges(&self, start: u64) -> SmallVec<[(u64, u64); 4]> {
        let mut starts: SmallVec<[u64; 8]> = SmallVec::from_slice(&[start]);
        for steps in &self.gaps {
            let inner = starts.len();
            for step in 1..steps.count {
                for at in 0..inner {
                    let shifted = starts[at] + step * steps.stride;
                    starts.push(shifted);
                }
            }
        }
        if self.gaps.len() > 1 {
            starts.sort_unstable();
        }
        let mut ranges: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        for start in starts {
            match ranges.last_mut() {
                Some((_, end)) if start <= *end => *end = (*end).max(start + self.run),
                _ => ranges.push((start, start + self.run)),
            }
        }
        ranges
    }
}

/// Elements of `size` bytes at `base` and along `axes` (ascending strides), as rectangles of rows of `pitch` bytes.
fn cover(base: u64, size: u64, axes: &[Steps], pitch: u64) -> SmallVec<[Rect; 2]> {
    let (row, column) = (base / pitch, base % pitch);
    let is_row = |steps: &&Steps| steps.stride.is_multiple_of(pitch);
    let mut columns = Runs::new(size, axes.iter().filter(|steps| !is_row(steps)).copied());
    if column + columns.reach() > pitch {
        return cut(base, Runs::new(size, axes.iter().copied()), pitch);
    }
    let in_rows = |steps: &Steps| Steps { stride: steps.stride / pitch, count: steps.count };
    let mut rows = Runs::new(1, axes.iter().filter(is_row).map(in_rows));
    let mut rects = SmallVec::new();
    if columns.gaps.is_empty() && rows.gaps.is_empty() {
        rects.push(Rect { rows: row..row + rows.run, columns: column..column + columns.run });
        return rects;
    }
    while columns.count().saturating_mul(rows.count()) > MOST_RECTS {
        let first = |runs: &Runs| runs.gaps.first().map_or(0, |steps| steps.count);
        if first(&columns) >= first(&rows) { columns.widen() } else { rows.widen() }
    }
    let column_ranges = columns.ranges(column);
    for (first, end) in rows.ranges(row) {
        rects.extend(column_ranges.iter().map(|&(from, to)| Rect { rows: first..end, columns: from..to }));
    }
    rects
}

/// Runs that do not keep to rows, each cut at the rows' ends.
fn cut(base: u64, mut runs: Runs, pitch: u64) -> SmallVec<[Rect; 2]> {
    while runs.count() > MOST_CUT_RUNS {
        runs.widen();
    }
    let mut rects = SmallVec::new();
    for (start, end) in runs.ranges(base) {
        let (mut row, column) = (start / pitch, start % pitch);
        let (last, tail) = (end / pitch, end % pitch);
        if row == last {
            rects.push(Rect { rows: row..row + 1, columns: column..tail });
            continue;
        }
        if column > 0 {
            rects.push(Rect { rows: row..row + 1, columns: column..pitch });
            row += 1;
        }
        if row < last {
            rects.push(Rect { rows: row..last, columns: 0..pitch });
        }
        if tail > 0 {
            rects.push(Rect { rows: last..last + 1, columns: 0..tail });
        }
    }
    rects
}
