//! Windows joined on VectorE: strided views of tiles, one place of the window after another.

use smallvec::smallvec;
use trn3_machine::dtype::DType;
use trn3_machine::isa::ScalarOperand;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::scan::TensorTensorScan;
use trn3_machine::isa::tensor_scalar::TensorScalar;
use trn3_machine::view::View;

use super::windows::{Reach, Windows};
use crate::emitter::{Emitter, merged_axes};
use crate::error::Result;
use crate::product_tiles::pieces;
use crate::reduction_tiles::flat;

/// Bytes of a partition that what is joined takes on chip, with the sums **(choice)**.
const TILE_BYTES: usize = 96 << 10;
/// Steps of a sum that runs along an axis which are on chip at a time **(choice)**.
const SCANNED: usize = 4096;

/// What is joined, by what and to what.
pub(super) struct WindowTiles<'v> {
    pub(super) op: AluOp,
    pub(super) windows: &'v Windows,
    pub(super) x: &'v View,
    pub(super) init: &'v View,
    pub(super) out: &'v View,
}

fn part(view: &View, axis: usize, start: usize, length: usize) -> View {
    let mut view = view.clone();
    view.offset += start as i64 * view.strides[axis];
    view.shape[axis] = length;
    view
}

/// The elements of a tile that a reach names along its free axes: windows or elements.
fn along(tile: &View, reaches: &[Reach], steps: impl Fn(&Reach) -> [usize; 2]) -> View {
    let mut view = tile.clone();
    for (axis, reach) in reaches.iter().enumerate() {
        let [first, step] = steps(reach);
        view.offset += first as i64 * view.strides[axis + 1];
        view.shape[axis + 1] = reach.count;
        view.strides[axis + 1] *= step as i64;
    }
    view
}

impl WindowTiles<'_> {
    /// The value that windows begin with, on every partition, in float32.
    fn start(&self, emitter: &mut Emitter, partitions: usize) -> Result<View> {
        let everywhere = View { shape: smallvec![partitions, 1], strides: smallvec![0, 1], ..self.init.clone() };
        let loaded = emitter.load(&everywhere)?;
        if loaded.dtype == DType::Float32 {
            return Ok(loaded);
        }
        let wide = emitter.like(&loaded, DType::Float32)?;
        emitter.cast(&wide, &loaded)?;
        Ok(wide)
    }

    /// out = init op sums, in the result's type.
    fn finish(&self, emitter: &mut Emitter, sums: &View) -> Result<View> {
        let start = self.start(emitter, sums.partitions())?;
        let made = emitter.like(sums, self.out.dtype)?;
        emitter.issue(TensorScalar {
            dst: made.clone(),
            data: sums.clone(),
            op0: self.op,
            operand0: ScalarOperand::Vector(start),
            reverse0: true,
            op1: None,
            operand1: ScalarOperand::None,
            reverse1: false,
            engine: None,
        })?;
        Ok(made)
    }

    fn identity(&self) -> f64 {
        f64::from(self.op.identity())
    }

    /// Joins the windows; whether it can.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(super) fn emit(&self, emitter: &mut Emitter) -> Result<bool> {
        if self.out.is_empty() {
            return Ok(true);
        }
        let axes = &self.windows.axes;
        let slides: Vec<usize> = (0..axes.len()).filter(|&axis| !axes[axis].is_plain()).collect();
        let Some((&first, _)) = slides.split_first() else { return Ok(false) };
        if self.x.is_empty() || self.windows.places() == 0 {
            return Ok(false);
        }
        // Where elements of an axis that slides follow one another, all such axes lie on a partition.
        let is_inner = slides.iter().any(|&axis| self.x.strides[axis] == 1 && self.x.shape[axis] > 1);
        if is_inner && self.emit_planes(emitter, &slides)? {
            return Ok(true);
        }
        self.emit_lines(emitter, first)
    }

    /// Partitions are the axes that do not slide.
    fn emit_planes(&self, emitter: &mut Emitter, slides: &[usize]) -> Result<bool> {
        let plain: Vec<usize> = (0..self.x.rank()).filter(|axis| !slides.contains(axis)).collect();
        let merged = |view: &View| merged_axes(view, plain.iter().copied());
        let (Some(given), Some(made)) = (merged(self.x), merged(self.out)) else { return Ok(false) };
        let flat = |view: &View, (rows, step): (usize, i64)| View {
            shape: [rows].into_iter().chain(slides.iter().map(|&axis| view.shape[axis])).collect(),
            strides: [step].into_iter().chain(slides.iter().map(|&axis| view.strides[axis])).collect(),
            ..view.clone()
        };
        let (x, out) = (flat(self.x, given), flat(self.out, made));
        let bytes = x.free_size() * x.dtype.size() + out.free_size() * (size_of::<f32>() + out.dtype.size());
        if bytes > TILE_BYTES || slides.len() > 4 {
            return Ok(false);
        }
        let most = emitter.arch().partitions as usize;
        for (start, count) in pieces(given.0, most) {
            let source = part(&x, 0, start, count);
            let tile = emitter.sbuf(&source.shape, source.dtype)?;
            emitter.copy(&tile, &source)?;
            let target = part(&out, 0, start, count);
            let sums = emitter.sbuf(&target.shape, DType::Float32)?;
            emitter.fill(&sums, self.identity())?;
            for place in 0..self.windows.places() {
                let indices = self.windows.indices(place);
                let reaches: Vec<Reach> =
                    slides.iter().map(|&axis| self.windows.axes[axis].reach(indices[axis])).collect();
                self.join(emitter, &sums, &tile, &reaches)?;
            }
            let made = self.finish(emitter, &sums)?;
            emitter.copy(&target, &made)?;
        }
        Ok(true)
    }

    fn join(&self, emitter: &mut Emitter, sums: &View, tile: &View, reaches: &[Reach]) -> Result<()> {
        if reaches.iter().any(|reach| reach.count == 0) {
            return Ok(());
        }
        let into = along(sums, reaches, |reach| reach.windows);
        let from = along(tile, reaches, |reach| reach.elements);
        emitter.pair(&into, &into, &from, self.op)
    }

    /// Partitions are windows along the first axis that slides: each of its places is loaded anew. Places without an
    /// element hold what changes no sum.
    fn emit_lines(&self, emitter: &mut Emitter, first: usize) -> Result<bool> {
        let axes = &self.windows.axes;
        let inner = first + 1..axes.len();
        let free = |view: &View| -> usize { view.shape[inner.clone()].iter().product() };
        let bytes = free(self.x) * self.x.dtype.size() + free(self.out) * (size_of::<f32>() + self.out.dtype.size());
        if axes[first].base_dilation != 1 || inner.len() > 4 || bytes > TILE_BYTES {
            return Ok(false);
        }
        let of_inner = Windows { axes: axes[inner.clone()].to_vec() };
        let most = emitter.arch().partitions as usize;
        for outer in self.outer(first) {
            let (x, out) = (self.at(self.x, &outer, first), self.at(self.out, &outer, first));
            for (start, count) in pieces(out.shape[0], most) {
                let target = part(&out, 0, start, count);
                let shape = |view: &View| [&[count], &view.shape[1..]].concat();
                let sums = emitter.sbuf(&shape(&out), DType::Float32)?;
                emitter.fill(&sums, self.identity())?;
                for place in 0..axes[first].window {
                    let reach = axes[first].reach(place);
                    // Of the windows that have an element there, those of this piece.
                    let low = reach.windows[0].max(start);
                    let high = (reach.windows[0] + reach.count).min(start + count);
                    if high <= low {
                        continue;
                    }
                    let tile = emitter.sbuf(&shape(&x), x.dtype)?;
                    if (low, high) != (start, start + count) {
                        emitter.fill(&tile, self.identity())?;
                    }
                    let element = reach.elements[0] + (low - reach.windows[0]) * reach.elements[1];
                    let mut source = part(&x, 0, element, high - low);
                    source.strides[0] *= reach.elements[1] as i64;
                    emitter.copy(&part(&tile, 0, low - start, high - low), &source)?;
                    for place in 0..of_inner.places() {
                        let indices = of_inner.indices(place);
                        let reaches: Vec<Reach> =
                            of_inner.axes.iter().zip(indices).map(|(axis, index)| axis.reach(index)).collect();
                        self.join(emitter, &sums, &tile, &reaches)?;
                    }
                }
                let made = self.finish(emitter, &sums)?;
                emitter.copy(&target, &made)?;
            }
        }
        Ok(true)
    }

    /// Every index of the axes before one.
    fn outer(&self, first: usize) -> Vec<Vec<usize>> {
        let mut all = vec![Vec::new()];
        for &length in &self.x.shape[..first] {
            let longer = |index: &Vec<usize>| {
                let index = index.clone();
                (0..length).map(move |next| [&index[..], &[next]].concat())
            };
            all = all.iter().flat_map(longer).collect();
        }
        all
    }

    fn at(&self, view: &View, outer: &[usize], first: usize) -> View {
        let steps = outer.iter().zip(&view.strides);
        let mut strides: trn3_machine::view::Strides = view.strides[first..].iter().copied().collect();
        let mut shape = smallvec::SmallVec::from_slice(&view.shape[first..]);
        if shape.len() == 1 {
            strides.push(1);
            shape.push(1);
        }
        let offset = view.offset + steps.map(|(&index, step)| index as i64 * step).sum::<i64>();
        View { shape, strides, offset, ..view.clone() }
    }

    /// Sums that run along an axis from its start: one scan a row.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(super) fn emit_running(&self, emitter: &mut Emitter, axis: usize) -> Result<bool> {
        if self.out.is_empty() {
            return Ok(true);
        }
        let kept: Vec<usize> = (0..self.x.rank()).filter(|&other| other != axis).collect();
        let ordered = |view: &View| View {
            shape: kept.iter().chain([&axis]).map(|&axis| view.shape[axis]).collect(),
            strides: kept.iter().chain([&axis]).map(|&axis| view.strides[axis]).collect(),
            ..view.clone()
        };
        let length = self.x.shape[axis];
        let rows = self.x.len() / length;
        let (x, made) = (ordered(self.x), ordered(self.out));
        let x = flat(emitter, &x, kept.len(), [rows, length])?;
        let dense = match merged_axes(&made, 0..kept.len()) {
            Some((_, step)) => View {
                shape: smallvec![rows, length],
                strides: smallvec![step, made.strides[kept.len()]],
                ..made.clone()
            },
            None => {
                let kind = crate::tensor_type::TensorType::new(made.dtype, &[rows, length]);
                emitter.hbm("sums", &kind)?
            }
        };
        let most = emitter.arch().partitions as usize;
        for (first, count) in pieces(rows, most) {
            let mut before = ScalarOperand::None;
            for (start, steps) in pieces(length, SCANNED) {
                let tile = emitter.load(&part(&part(&x, 0, first, count), 1, start, steps))?;
                let [ones, sums] = [emitter.like(&tile, DType::Float32)?, emitter.like(&tile, DType::Float32)?];
                emitter.fill(&ones, 1.0)?;
                if matches!(before, ScalarOperand::None) {
                    let identity = emitter.sbuf(&[count, 1], DType::Float32)?;
                    emitter.fill(&identity, self.identity())?;
                    before = ScalarOperand::Vector(identity);
                }
                emitter.issue(TensorTensorScan {
                    dst: sums.clone(),
                    data0: ones,
                    data1: tile,
                    initial: before,
                    op0: AluOp::Multiply,
                    op1: self.op,
                    reverse0: false,
                    reverse1: false,
                })?;
                before = ScalarOperand::Vector(part(&sums, 1, steps - 1, 1));
                let made = self.finish(emitter, &sums)?;
                emitter.copy(&part(&part(&dense, 0, first, count), 1, start, steps), &made)?;
            }
        }
        if dense.storage.id != made.storage.id {
            emitter.copy(&made, &View { shape: made.shape.clone(), strides: row_strides(&made.shape), ..dense })?;
        }
        Ok(true)
    }
}

fn row_strides(shape: &[usize]) -> trn3_machine::view::Strides {
    crate::strided::row_major(shape).into_iter().map(|step| step as i64).collect()
}
