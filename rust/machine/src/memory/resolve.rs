//! From views to bytes: which bytes of which memory an operand is, its dynamic part evaluated.

use std::ops::Range;

use smallvec::SmallVec;

use super::bits::{ByteMask, Partitions};
use super::bounds::OutOfBounds;
use crate::error::{Error, Result};
use crate::storage::Buffer;
use crate::view::View;

/// How an instruction addresses an operand; what a view alone does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressing {
    /// Partitions that share a list of column indices: 16, or 32 for TensorE.
    pub group: usize,
    /// What becomes of rows whose index lies outside the tensor.
    pub out_of_bounds: OutOfBounds,
}

impl Default for Addressing {
    fn default() -> Self {
        Self { group: 16, out_of_bounds: OutOfBounds::Error }
    }
}

/// A view as an instruction takes it. A `&View` is one, addressed the usual way.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'v> {
    /// The view.
    pub view: &'v View,
    /// How it is addressed.
    pub addressing: Addressing,
    /// Arrays borrowed from it have their last two axes exchanged.
    pub transposed: bool,
}

impl<'v> From<&'v View> for Operand<'v> {
    fn from(view: &'v View) -> Self {
        Self { view, addressing: Addressing::default(), transposed: false }
    }
}

impl Operand<'_> {
    /// The operand of an instruction whose groups of partitions are this large.
    #[must_use]
    pub fn in_groups(mut self, group: usize) -> Self {
        self.addressing.group = group;
        self
    }

    /// The operand of a transfer that treats indices outside the tensor so.
    #[must_use]
    pub fn out_of_bounds(mut self, mode: OutOfBounds) -> Self {
        self.addressing.out_of_bounds = mode;
        self
    }

    /// The operand whose borrowed array has its last two axes exchanged.
    #[must_use]
    pub fn transposed(mut self) -> Self {
        self.transposed = !self.transposed;
        self
    }
}

/// The dynamic part of a view, evaluated; in elements of the view's type.
#[derive(Debug)]
pub(super) enum Start {
    /// Added to the offset.
    Shift(i64),
    /// Where each row of axis 0 starts, instead of by its stride; None: the row is left out.
    Rows(Vec<Option<i64>>),
    /// What each free element is shifted by in each group of partitions, in steps of the last axis.
    Columns { group: usize, lists: Vec<Vec<i64>> },
}

/// Sizes of the memory a view lies in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) partitions: usize,
    pub(super) partition_bytes: usize,
    pub(super) pitch: usize,
}

/// Elements in nested loops: byte distances, neighbours merged where they are one loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Count and stride of the loops around the lines, outermost first.
    pub(super) outer: SmallVec<[(usize, isize); 4]>,
    /// Elements of a line.
    pub(super) count: usize,
    /// From one element of a line to the next.
    pub(super) stride: isize,
}

impl Layout {
    fn new(shape: &[usize], strides: &[i64], item: usize) -> Self {
        let mut loops: SmallVec<[(usize, isize); 6]> = SmallVec::new();
        for (&count, &stride) in shape.iter().zip(strides).rev().filter(|(count, _)| **count != 1) {
            let stride = stride as isize * item as isize;
            match loops.last_mut() {
                Some((inner, step)) if *inner as isize * *step == stride => *inner *= count,
                _ => loops.push((count, stride)),
            }
        }
        let (count, stride) = if loops.is_empty() { (1, item as isize) } else { loops.remove(0) };
        Self { outer: loops.into_iter().rev().collect(), count, stride }
    }

    pub(super) fn len(&self) -> usize {
        self.count * self.outer.iter().map(|(count, _)| count).product::<usize>()
    }

    /// Where each line starts, from `start` on, in C order.
    #[inline]
    pub(super) fn each_line(&self, start: usize, mut visit: impl FnMut(usize)) {
        match self.outer.as_slice() {
            [] => visit(start),
            &[(count, stride)] => {
                for index in 0..count as isize {
                    visit((start as isize + index * stride) as usize);
                }
            }
            outer => {
                let mut position: SmallVec<[usize; 4]> = SmallVec::from_elem(0, outer.len());
                let mut at = start as isize;
                for _ in 0..outer.iter().map(|(count, _)| count).product::<usize>() {
                    visit(at as usize);
                    for (index, &(count, stride)) in position.iter_mut().zip(outer).rev() {
                        *index += 1;
                        at += stride;
                        if *index < count {
                            break;
                        }
                        at -= stride * count as isize;
                        *index = 0;
                    }
                }
            }
        }
    }
}

/// Where the rows of axis 0 start, in bytes of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Regular { first: usize, count: usize, stride: isize },
    Listed(Vec<Option<usize>>),
}

/// What of each row is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    Regular(Layout),
    /// Byte offsets from the row's start, a list for each group of rows.
    Listed {
        group: usize,
        lists: Vec<Vec<usize>>,
    },
}

/// Which bytes an operand is: rows, and places in each row. All lie inside the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) buffer: Buffer,
    /// Bytes of an element.
    pub(super) item: usize,
    /// Bytes from one partition to the next; 0 in HBM.
    pub(super) pitch: usize,
    pub(super) rows: Rows,
    pub(super) columns: Columns,
}

/// Elements one after the other: `None` where a row is left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) start: Option<usize>,
    pub(super) count: usize,
    pub(super) stride: isize,
}

impl Resolved {
    pub(super) fn len(&self) -> usize {
        let rows = match &self.rows {
            Rows::Regular { count, .. } => *count,
            Rows::Listed(starts) => starts.len(),
        };
        rows * self.row_len()
    }

    /// From the first to the last byte of all elements; empty where there is none.
    pub(super) fn span(&self) -> Range<usize> {
        let columns = match &self.columns {
            _ if self.row_len() == 0 => return 0..0,
            Columns::Regular(layout) => reach_of(layout, self.item),
            Columns::Listed { lists, .. } => {
                let all = || lists.iter().flatten().copied();
                let (low, high) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
                (low as isize, (high + self.item) as isize)
            }
        };
        let (first, last) = match &self.rows {
            Rows::Regular { count: 0, .. } => return 0..0,
            Rows::Regular { first, count, stride } => {
                let last = (*first as isize + (*count as isize - 1) * stride) as usize;
                (*first.min(&last), *first.max(&last))
            }
            Rows::Listed(starts) => {
                let starts = || starts.iter().flatten().copied();
                match (starts().min(), starts().max()) {
                    (Some(first), Some(last)) => (first, last),
                    _ => return 0..0,
                }
            }
        };
        (first as isize + columns.0) as usize..(last as isize + columns.1) as usize
    }

    /// Elements of a row.
    pub(super) fn row_len(&self) -> usize {
        match &self.columns {
            Columns::Regular(layout) => layout.len(),
            Columns::Listed { lists, .. } => lists.first().map_or(0, Vec::len),
        }
    }

    /// Partition of a byte, and where it lies in that; in HBM there is one.
    #[inline]
    pub(super) fn position(&self, at: usize) -> (usize, usize) {
        match at.checked_div(self.pitch) {
            Some(partition) => (partition, at % self.pitch),
            None => (0, at),
        }
    }

    /// Which rows are performed; None: all.
    pub(super) fn performed(&self) -> Option<Vec<bool>> {
        match &self.rows {
            Rows::Listed(starts) if starts.iter().any(Option::is_none) => {
                Some(starts.iter().map(Option::is_some).collect())
            }
            _ => None,
        }
    }

    /// Calls `visit` for each line, in C order.
    #[inline]
    pub(super) fn each_line(&self, mut visit: impl FnMut(Line)) {
        let mut row = |index: usize, start: Option<usize>| match (&self.columns, start) {
            (Columns::Regular(layout), Some(start)) => {
                let (count, stride) = (layout.count, layout.stride);
                layout.each_line(start, |start| visit(Line { start: Some(start), count, stride }));
            }
            (Columns::Listed { group, lists }, Some(start)) => {
                for &column in &lists[index / group] {
                    visit(Line { start: Some(start + column), count: 1, stride: self.item as isize });
                }
            }
            (_, None) => visit(Line { start: None, count: self.row_len(), stride: self.item as isize }),
        };
        match &self.rows {
            Rows::Regular { first, count, stride } => {
                for index in 0..*count {
                    row(index, Some((*first as isize + index as isize * stride) as usize));
                }
            }
            Rows::Listed(starts) => starts.iter().enumerate().for_each(|(index, &start)| row(index, start)),
        }
    }

    /// Rows and columns of the one run in every row, where that is all there is: first byte, bytes, and the rows'
    /// first, count and stride.
    pub(super) fn runs(&self) -> Option<(usize, usize, isize, usize)> {
        match (&self.rows, &self.columns) {
            (Rows::Regular { first, count, stride }, Columns::Regular(layout))
                if layout.outer.is_empty() && (layout.stride == self.item as isize || layout.count == 1) =>
            {
                Some((*first, *count, *stride, layout.count * self.item))
            }
            _ => None,
        }
    }

    /// Calls `visit` with the partitions and bytes of an on-chip operand, piece by piece.
    pub(super) fn each_footprint(&self, mut visit: impl FnMut(Partitions, &ByteMask) -> bool) -> bool {
        let Rows::Regular { first, count, stride } = self.rows else { return true };
        let (partition, byte) = (first / self.pitch, first % self.pitch);
        let step = stride / self.pitch as isize;
        match &self.columns {
            Columns::Regular(layout) => {
                if count == 0 || layout.len() == 0 {
                    return true;
                }
                let mask = if layout.outer.is_empty() && layout.stride == self.item as isize {
                    ByteMask::run(&(byte..byte + layout.count * self.item))
                } else {
                    let mut mask = ByteMask::empty(&span(layout, byte, self.item));
                    layout.each_line(byte, |start| add_line(&mut mask, start, layout, self.item));
                    mask
                };
                visit(Partitions { first: partition, count, step }, &mask)
            }
            Columns::Listed { group, lists } => lists.iter().enumerate().all(|(index, list)| {
                let (Some(low), Some(high)) = (list.iter().min(), list.iter().max()) else { return true };
                let mut mask = ByteMask::empty(&(byte + low..byte + high + self.item));
                list.iter().for_each(|column| mask.add(byte + column..byte + column + self.item));
                let rows = (count - index * group).min(*group);
                let first = (partition as isize + (index * group) as isize * step) as usize;
                visit(Partitions { first, count: rows, step }, &mask)
            }),
        }
    }
}

fn add_line(mask: &mut ByteMask, start: usize, layout: &Layout, item: usize) {
    if layout.stride == item as isize {
        mask.add(start..start + layout.count * item);
        return;
    }
    for index in 0..layout.count as isize {
        let at = (start as isize + index * layout.stride) as usize;
        mask.add(at..at + item);
    }
}

/// From the first to the last byte.
fn span(layout: &Layout, start: usize, item: usize) -> Range<usize> {
    let (low, high) = reach_of(layout, item);
    (start as isize + low) as usize..(start as isize + high) as usize
}

/// Lowest byte and end of the highest one, from the first element on.
fn reach_of(layout: &Layout, item: usize) -> (isize, isize) {
    let loops = layout.outer.iter().copied().chain([(layout.count, layout.stride)]);
    let (mut low, mut high) = (0, 0);
    for (count, stride) in loops {
        let reach = (count as isize - 1) * stride;
        if reach < 0 { low += reach } else { high += reach }
    }
    (low, high + item as isize)
}

/// Lowest and highest element that loops reach from 0.
fn reach(shape: &[usize], strides: &[i64]) -> (i64, i64) {
    let (mut low, mut high) = (0i64, 0i64);
    for (&count, &stride) in shape.iter().zip(strides) {
        let far = (count as i64 - 1).saturating_mul(stride);
        if far < 0 { low = low.saturating_add(far) } else { high = high.saturating_add(far) }
    }
    (low, high)
}

/// The bytes of a view whose dynamic part is `start`.
///
/// # Errors
/// [`Error::OutOfBounds`] when an element lies outside the tensor; [`Error::Value`] for a view that no tensor has.
pub(super) fn locate(view: &View, geometry: Option<Geometry>, start: Start) -> Result<Resolved> {
    let (storage, item) = (&view.storage, view.dtype.size());
    if view.strides.len() != view.shape.len() {
        let (shape, strides) = (&view.shape, &view.strides);
        return Err(Error::Value(format!("view of `{}`: {strides:?} strides for shape {shape:?}", storage.name)));
    }
    if view.is_empty() {
        // No element, so no place: whatever the offset and strides are.
        let rows = Rows::Regular { first: 0, count: 0, stride: 0 };
        let columns = Columns::Regular(Layout::new(&[], &[], item));
        let pitch = geometry.map_or(0, |geometry| geometry.pitch);
        return Ok(Resolved { buffer: storage.buffer, item, pitch, rows, columns });
    }
    match geometry {
        Some(geometry) => locate_on_chip(view, geometry, item, start),
        None => locate_in_hbm(view, item, start),
    }
}

fn outside(view: &View, low: i64, high: i64, size: i64, what: &str) -> Error {
    Error::OutOfBounds(format!(
        "Out-of-bound access for tensor `{}`: {what} range [{low}, {high}] exceed size of {size}",
        view.storage.name
    ))
}

fn locate_on_chip(view: &View, geometry: Geometry, item: usize, start: Start) -> Result<Resolved> {
    let storage = &view.storage;
    let refuse = |text: String| Error::Value(format!("view of `{}`: {text}", storage.name));
    let place =
        storage.current_place().ok_or_else(|| refuse(format!("a tensor in {} has no place", storage.buffer)))?;
    if place.partition + place.partitions > geometry.partitions || place.byte + place.bytes > geometry.partition_bytes {
        return Err(refuse(format!("its place {place:?} lies outside the memory of this machine")));
    }
    if place.bytes < item || !place.bytes.is_multiple_of(item) {
        return Err(refuse(format!("{} bytes of a partition are no whole number of {}", place.bytes, view.dtype)));
    }
    let free = (place.bytes / item) as i64;
    let rows = view.shape.first().copied().unwrap_or(1);
    let stride = view.strides.first().copied().unwrap_or(0);
    let (shape, strides) = (view.shape.get(1..).unwrap_or(&[]), view.strides.get(1..).unwrap_or(&[]));
    if rows > 1 && stride % free != 0 {
        return Err(refuse(format!(
            "partition step {stride} must be a multiple of the tensor's free dimension {free}"
        )));
    }
    let step = if rows > 1 { stride / free } else { 0 };
    let shift = if let Start::Shift(shift) = start { shift } else { 0 };
    let position = view.offset.saturating_add(shift);
    let (partition, element) = (position.div_euclid(free), position.rem_euclid(free));
    let far = (rows as i64 - 1).saturating_mul(step).saturating_add(partition);
    let (low, high) = (far.min(partition), far.max(partition));
    if low < 0 || high >= place.partitions as i64 {
        return Err(outside(view, low, high, place.partitions as i64, "partition index"));
    }
    let partition = place.partition + partition as usize;
    let origin = (partition * geometry.pitch + place.byte) as i64;
    let stride = if step == 0 { 0 } else { step as isize * geometry.pitch as isize };
    let regular = |first: i64| Rows::Regular { first: first as usize, count: rows, stride };
    let (rows, columns) = match start {
        Start::Columns { group, lists } => {
            let last = strides.last().copied().unwrap_or(1);
            let mut places = Vec::with_capacity(lists.len());
            for list in lists {
                let elements = list.iter().map(|column| column.saturating_mul(last).saturating_add(element));
                if let Some(bad) = elements.clone().find(|at| !(0..free).contains(at)) {
                    return Err(outside(view, bad, bad, free, "column index"));
                }
                places.push(elements.map(|at| at as usize * item).collect());
            }
            (regular(origin), Columns::Listed { group, lists: places })
        }
        Start::Rows(_) => {
            return Err(refuse(format!("rows are gathered from HBM only, the tensor is in {}", storage.buffer)));
        }
        Start::Shift(_) => {
            let (low, high) = reach(shape, strides);
            let (low, high) = (low.saturating_add(element), high.saturating_add(element));
            if low < 0 || high >= free {
                return Err(outside(view, low, high, free, "free index"));
            }
            (regular(origin + element * item as i64), Columns::Regular(Layout::new(shape, strides, item)))
        }
    };
    Ok(Resolved { buffer: storage.buffer, item, pitch: geometry.pitch, rows, columns })
}

fn locate_in_hbm(view: &View, item: usize, start: Start) -> Result<Resolved> {
    let storage = &view.storage;
    let elements = (storage.byte_size() / item) as i64;
    let resolved = |rows: Rows, layout: Layout| Resolved {
        buffer: storage.buffer,
        item,
        pitch: 0,
        rows,
        columns: Columns::Regular(layout),
    };
    match start {
        Start::Shift(shift) => {
            let first = view.offset.saturating_add(shift);
            let (low, high) = reach(&view.shape, &view.strides);
            let (low, high) = (low.saturating_add(first), high.saturating_add(first));
            if low < 0 || high >= elements {
                return Err(outside(view, low, high, elements, "element index"));
            }
            let rows = Rows::Regular { first: first as usize * item, count: 1, stride: 0 };
            Ok(resolved(rows, Layout::new(&view.shape, &view.strides, item)))
        }
        Start::Rows(starts) => {
            let (shape, strides) = (view.shape.get(1..).unwrap_or(&[]), view.strides.get(1..).unwrap_or(&[]));
            let (low, high) = reach(shape, strides);
            let place = |start: i64| {
                let first = view.offset.saturating_add(start);
                let (low, high) = (low.saturating_add(first), high.saturating_add(first));
                if low < 0 || high >= elements {
                    return Err(outside(view, low, high, elements, "element index"));
                }
                Ok(first as usize * item)
            };
            let starts = starts.into_iter().map(|start| start.map(place).transpose()).collect::<Result<Vec<_>>>()?;
            Ok(resolved(Rows::Listed(starts), Layout::new(shape, strides, item)))
        }
        Start::Columns { .. } => {
            Err(Error::Value(format!("view of `{}`: columns are gathered on chip only, not from HBM", storage.name)))
        }
    }
}
