//! Tensors in HBM cut into tiles: which axis becomes partitions, and how much of the others goes at once.

use smallvec::SmallVec;
use trn3_machine::view::View;

use crate::emitter::Emitter;
use crate::error::Result;

/// Free axes that an access pattern on chip has.
const FREE_AXES: usize = 4;

/// One axis of several views that have their elements side by side.
#[derive(Clone, Debug)]
struct SharedAxis {
    length: usize,
    /// Of each view, in elements.
    strides: SmallVec<[i64; 4]>,
}

impl SharedAxis {
    fn advanced(&self, offsets: &[i64], steps: usize) -> SmallVec<[i64; 4]> {
        offsets.iter().zip(&self.strides).map(|(offset, stride)| offset + stride * steps as i64).collect()
    }

    fn part(&self, length: usize) -> Self {
        Self { length, strides: self.strides.clone() }
    }
}

/// Axes of views of one shape, as few as say the same.
fn collapsed(views: &[&View], is_meant: impl Fn(usize) -> bool) -> Vec<SharedAxis> {
    let shape = &views[0].shape;
    let mut axes: Vec<SharedAxis> = Vec::with_capacity(shape.len());
    for (axis, &length) in shape.iter().enumerate().filter(|&(axis, &length)| length != 1 && is_meant(axis)) {
        let strides: SmallVec<[i64; 4]> = views.iter().map(|view| view.strides[axis]).collect();
        match axes.last_mut() {
            Some(outer)
                if outer.strides.iter().zip(&strides).all(|(&outer, &inner)| outer == inner * length as i64) =>
            {
                outer.length *= length;
                outer.strides = strides;
            }
            _ => axes.push(SharedAxis { length, strides }),
        }
    }
    axes
}

/// The axis that fills most partitions; the innermost one, whose elements follow one another, only where no other does
/// at least half as well.
fn partition_axis(axes: &[SharedAxis], partitions: usize) -> usize {
    let filled = |axis: &SharedAxis| axis.length.min(partitions);
    let last = axes.len() - 1;
    let best = (0..last).max_by_key(|&axis| (filled(&axes[axis]), last - axis));
    best.filter(|&axis| 2 * filled(&axes[axis]) >= filled(&axes[last])).unwrap_or(last)
}

/// Cuts views of one shape into tiles of at most `partitions` partitions with at most `most` elements each, and calls
/// `visit` with the views of each: axis 0 the partitions, up to four free axes.
///
/// # Errors
/// Those of `visit`.
pub(crate) fn for_each_piece(
    views: &[&View],
    partitions: usize,
    most: usize,
    visit: &mut dyn FnMut(&[View]) -> Result<()>,
) -> Result<()> {
    let offsets: SmallVec<[i64; 4]> = views.iter().map(|view| view.offset).collect();
    let axes = collapsed(views, |_| true);
    if views[0].shape.contains(&0) {
        return Ok(());
    }
    let unit = || SharedAxis { length: 1, strides: SmallVec::from_elem(1, views.len()) };
    let mut axes = if axes.is_empty() { vec![unit()] } else { axes };
    let rows = axes.remove(partition_axis(&axes, partitions));
    let visit = &mut |pieces: &[View], _| visit(pieces);
    Cut { views, most, tail: &[], visit }.all(&rows, axes, partitions, &offsets)
}

/// As [`for_each_piece`], with rows whole: the axes that `columns` names are the last free axes of every piece, none of them
/// cut and none partitions. `visit` is told how many they are. At most `most` elements go at once, or one row.
///
/// # Errors
/// Those of `visit`.
pub(crate) fn for_each_row_piece(
    views: &[&View],
    columns: &[bool],
    partitions: usize,
    most: usize,
    visit: &mut dyn FnMut(&[View], usize) -> Result<()>,
) -> Result<()> {
    let offsets: SmallVec<[i64; 4]> = views.iter().map(|view| view.offset).collect();
    let (tail, mut axes) = (collapsed(views, |axis| columns[axis]), collapsed(views, |axis| !columns[axis]));
    let row: usize = tail.iter().map(|axis| axis.length).product();
    if axes.is_empty() {
        axes.push(SharedAxis { length: 1, strides: SmallVec::from_elem(1, views.len()) });
    }
    let filled = |axis: &SharedAxis| axis.length.min(partitions);
    let best = (0..axes.len()).max_by_key(|&axis| (filled(&axes[axis]), std::cmp::Reverse(axis))).unwrap_or(0);
    let rows = axes.remove(best);
    Cut { views, most: (most / row.max(1)).max(1), tail: &tail, visit }.all(&rows, axes, partitions, &offsets)
}

struct Cut<'c> {
    views: &'c [&'c View],
    /// Elements that go at once, of the axes that may be cut.
    most: usize,
    /// Axes that stay whole, the innermost ones.
    tail: &'c [SharedAxis],
    visit: &'c mut dyn FnMut(&[View], usize) -> Result<()>,
}

impl Cut<'_> {
    fn all(&mut self, rows: &SharedAxis, axes: Vec<SharedAxis>, partitions: usize, offsets: &[i64]) -> Result<()> {
        let deep = rows.length / partitions;
        if deep > 0 {
            // Each partition has consecutive rows: they are a free axis.
            let strides = rows.strides.iter().map(|stride| stride * deep as i64).collect();
            let mut free = vec![rows.part(deep)];
            free.extend(axes.iter().cloned());
            free.retain(|axis| axis.length > 1);
            self.free(&SharedAxis { length: partitions, strides }, &free, offsets)?;
        }
        let done = deep * partitions;
        if rows.length > done {
            self.free(&rows.part(rows.length - done), &axes, &rows.advanced(offsets, done))?;
        }
        Ok(())
    }

    fn free(&mut self, rows: &SharedAxis, free: &[SharedAxis], offsets: &[i64]) -> Result<()> {
        let elements: usize = free.iter().map(|axis| axis.length).product();
        let room = FREE_AXES.saturating_sub(self.tail.len());
        if elements <= self.most && free.len() <= room || free.is_empty() {
            let mut axes = vec![rows.clone()];
            axes.extend_from_slice(free);
            axes.extend_from_slice(self.tail);
            if axes.len() == 1 {
                axes.push(SharedAxis { length: 1, strides: SmallVec::from_elem(1, self.views.len()) });
            }
            let pieces = self.pieces(&axes, offsets);
            return (self.visit)(&pieces, self.tail.len());
        }
        let Some((outer, inner)) = free.split_first() else { return Ok(()) };
        let below: usize = inner.iter().map(|axis| axis.length).product();
        let step = if free.len() > room { 1 } else { (self.most / below).max(1) };
        for start in (0..outer.length).step_by(step) {
            let mut part = vec![outer.part(step.min(outer.length - start))];
            part.extend_from_slice(inner);
            part.retain(|axis| axis.length > 1);
            self.free(rows, &part, &outer.advanced(offsets, start))?;
        }
        Ok(())
    }

    fn pieces(&self, axes: &[SharedAxis], offsets: &[i64]) -> Vec<View> {
        let piece = |(number, view): (usize, &&View)| View {
            storage: view.storage.clone(),
            dtype: view.dtype,
            shape: axes.iter().map(|axis| axis.length).collect(),
            strides: axes.iter().map(|axis| axis.strides[number]).collect(),
            offset: offsets[number],
            dynamic: None,
        };
        self.views.iter().enumerate().map(piece).collect()
    }
}

/// Elements of a partition that are written at a time where all are one number **(choice)**.
const FILLED: usize = 4096;

/// Every element of a tensor in HBM is this number: a tile of it, sent again and again.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_filled(emitter: &mut Emitter, out: &View, value: f64) -> Result<()> {
    let partitions = emitter.arch().partitions as usize;
    let tile = emitter.sbuf(&[partitions.min(out.len()), FILLED.min(out.len())], out.dtype)?;
    emitter.fill(&tile, value)?;
    emit_sent(emitter, out, &tile)
}

/// What lies in HBM as another tensor there. One number that is looked at as many goes through a tile: DMA would take it
/// element by element.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_copied(emitter: &mut Emitter, out: &View, x: &View) -> Result<()> {
    let is_one = x.shape.iter().zip(&x.strides).all(|(&length, &stride)| length == 1 || stride == 0);
    if !is_one || x.is_indirect() || x.len() <= FILLED {
        return emitter.copy(out, x);
    }
    let partitions = emitter.arch().partitions as usize;
    let number = emitter.load(&View {
        shape: [partitions, 1].into_iter().collect(),
        strides: [0, 1].into_iter().collect(),
        ..x.clone()
    })?;
    let tile = emitter.sbuf(&[partitions, FILLED], out.dtype)?;
    let strides = [number.strides[0], 0].into_iter().collect();
    emitter.cast(&tile, &View { shape: tile.shape.clone(), strides, ..number })?;
    emit_sent(emitter, out, &tile)
}

/// Sends parts of a tile whose elements are all alike.
fn emit_sent(emitter: &mut Emitter, out: &View, tile: &View) -> Result<()> {
    let partitions = emitter.arch().partitions as usize;
    for_each_piece(&[out], partitions, FILLED, &mut |pieces| {
        let (rows, columns) = (pieces[0].partitions() as i64, pieces[0].free_size() as i64);
        emitter.copy(&pieces[0], &tile.slice(0, 0, rows, 1)?.slice(1, 0, columns, 1)?)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use trn3_machine::arch::ArchSpec;
    use trn3_machine::dtype::DType;

    use super::*;
    use crate::tensor_type::TensorType;

    fn elements(view: &View) -> Vec<i64> {
        let mut places = vec![view.offset];
        for (&length, &stride) in view.shape.iter().zip(&view.strides) {
            places =
                places.iter().flat_map(|place| (0..length as i64).map(move |step| place + step * stride)).collect();
        }
        places
    }

    #[test]
    fn test_pieces_hold_every_element_once_and_side_by_side() {
        let mut emitter = Emitter::new(Arc::new(ArchSpec::load("trn3").unwrap()), false).unwrap();
        let shapes: [&[usize]; 8] =
            [&[1], &[5], &[129], &[4, 1000], &[300, 7], &[3, 130, 2], &[2, 3, 4, 5, 6, 2], &[128, 4096]];
        for shape in shapes {
            let one = emitter.hbm("one", &TensorType::new(DType::Float32, shape)).unwrap();
            let mut turned = one.clone();
            turned.shape.reverse();
            let back = emitter.hbm("back", &TensorType::new(DType::Float32, &turned.shape)).unwrap();
            let mut other = back.clone();
            other.shape.reverse();
            other.strides.reverse();
            let pairs: HashSet<(i64, i64)> = elements(&one).into_iter().zip(elements(&other)).collect();
            let mut found = Vec::new();
            for_each_piece(&[&one, &other], 128, 512, &mut |pieces| {
                assert!(pieces[0].partitions() <= 128 && pieces[0].free_size() <= 512, "{shape:?}");
                assert!(pieces[0].rank() <= 1 + FREE_AXES && pieces[0].rank() >= 2, "{shape:?}");
                found.extend(elements(&pieces[0]).into_iter().zip(elements(&pieces[1])));
                Ok(())
            })
            .unwrap();
            assert_eq!(found.len(), pairs.len(), "{shape:?}");
            assert_eq!(found.into_iter().collect::<HashSet<_>>(), pairs, "{shape:?}");
        }
    }
}
