//! Convolutions as plain products: patches laid out as a matrix in HBM, by one transfer for each place of the window.

use smallvec::smallvec;
use trn3_machine::view::View;

use super::convolution::Convolution;
use super::windows::{Reach, Windows, distances};
use crate::emitter::{Emitter, merged_axes};
use crate::error::Result;
use crate::options::{ExecutionOptions, MatmulPath};
use crate::pieces::emit_filled;
use crate::product_path::emit_path;
use crate::product_tiles::MatrixView;
use crate::tensor_type::TensorType;

/// One group of a convolution, its axes in order.
pub(super) struct ConvolutionPart {
    /// [images, spatial..., features].
    pub(super) x: View,
    /// [spatial..., features, output features].
    pub(super) kernel: View,
    /// [images, spatial..., output features].
    pub(super) y: View,
    /// Spatial axes along which the kernel is taken from its end.
    reversal: Vec<bool>,
}

fn ordered(view: &View, axes: &[usize]) -> View {
    View {
        shape: axes.iter().map(|&axis| view.shape[axis]).collect(),
        strides: axes.iter().map(|&axis| view.strides[axis]).collect(),
        ..view.clone()
    }
}

/// Part `number` of `groups` equal ones along an axis.
fn group_of(view: &View, axis: usize, number: usize, groups: usize) -> View {
    let mut part = view.clone();
    part.shape[axis] /= groups;
    part.offset += (number * part.shape[axis]) as i64 * part.strides[axis];
    part
}

impl Convolution {
    /// Instructions of a convolution of floats.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(super) fn emit_groups(
        &self,
        emitter: &mut Emitter,
        operands: &[View],
        result: &View,
        options: &ExecutionOptions,
    ) -> Result<()> {
        let x = ordered(&operands[0], &self.lhs_layout.axes());
        let kernel = ordered(&operands[1], &self.rhs_layout.axes());
        let y = ordered(result, &self.out_layout.axes());
        if y.is_empty() {
            return Ok(());
        }
        if x.is_empty() || kernel.is_empty() {
            return emit_filled(emitter, &y, 0.0);
        }
        let windows = self.windows(&operands[0].shape, &operands[1].shape);
        let (groups, last) = (self.feature_groups * self.batch_groups, x.rank() - 1);
        let run = self.run(&operands[0].shape, &operands[1].shape, options.matmul);
        for number in 0..groups {
            let part = ConvolutionPart {
                x: group_of(&x, if self.batch_groups > 1 { 0 } else { last }, number, groups),
                kernel: group_of(&kernel, last, number, groups),
                y: group_of(&y, last, number, groups),
                reversal: self.reversal.clone(),
            };
            let dtype =
                if options.matmul == MatmulPath::AsTyped { x.dtype } else { trn3_machine::dtype::DType::BFloat16 };
            if run.is_none() || !part.emit_direct(emitter, &windows, dtype)? {
                part.emit_patches(emitter, &windows, options.matmul, run)?;
            }
        }
        Ok(())
    }
}

impl ConvolutionPart {
    /// Where the kernel's matrix of one place begins.
    pub(super) fn kernel_place(&self, windows: &Windows, place: usize) -> i64 {
        let mut offset = self.kernel.offset;
        for (axis, index) in windows.indices(place).into_iter().enumerate() {
            let is_reversed = self.reversal.get(axis).copied().unwrap_or(false);
            let index = if is_reversed { windows.axes[axis].window - 1 - index } else { index };
            offset += index as i64 * self.kernel.strides[axis];
        }
        offset
    }

    /// The kernel as [places * features, output features].
    fn kernel_matrix(&self, emitter: &mut Emitter, windows: &Windows) -> Result<MatrixView> {
        let (last, kernel) = (self.kernel.rank() - 1, &self.kernel);
        let (features, outputs) = (kernel.shape[last - 1], kernel.shape[last]);
        let k = windows.places() * features;
        let is_straight = !self.reversal.contains(&true);
        if let (true, Some((_, step))) = (is_straight, merged_axes(kernel, 0..last)) {
            let view =
                View { shape: smallvec![k, outputs], strides: smallvec![step, kernel.strides[last]], ..kernel.clone() };
            return Ok(MatrixView { view });
        }
        let dense = emitter.hbm("kernels", &TensorType::new(kernel.dtype, &[k, outputs]))?;
        for place in 0..windows.places() {
            let source = View {
                shape: smallvec![features, outputs],
                strides: smallvec![kernel.strides[last - 1], kernel.strides[last]],
                offset: self.kernel_place(windows, place),
                ..kernel.clone()
            };
            let rows = ((place * features) as i64, ((place + 1) * features) as i64);
            emitter.copy(&dense.slice(0, rows.0, rows.1, 1)?, &source)?;
        }
        Ok(MatrixView { view: dense })
    }

    fn emit_patches(
        &self,
        emitter: &mut Emitter,
        windows: &Windows,
        path: MatmulPath,
        run: Option<usize>,
    ) -> Result<()> {
        let (images, last) = (self.x.shape[0], self.x.rank() - 1);
        let (features, outputs) = (self.x.shape[last], self.y.shape[last]);
        let positions: usize = windows.shape().iter().product();
        let k = windows.places() * features;
        let kernel = self.kernel_matrix(emitter, windows)?;
        // Images go together where their results lie so that one stride serves all.
        let together = if merged_axes(&self.y, 0..last).is_some() { images } else { 1 };
        for first in (0..images).step_by(together) {
            let rows = together * positions;
            let patches = self.patches(emitter, windows, (first, together), k)?;
            let mut part = self.y.clone();
            part.offset += first as i64 * part.strides[0];
            part.shape[0] = together;
            let dense = match merged_axes(&part, 0..last) {
                Some((_, step)) => {
                    let strides = smallvec![step, part.strides[last]];
                    View { shape: smallvec![rows, outputs], strides, ..part.clone() }
                }
                None => emitter.hbm("sums", &TensorType::new(part.dtype, &[rows, outputs]))?,
            };
            let is_apart = merged_axes(&part, 0..last).is_none();
            let [out, patches, kernel] =
                [MatrixView { view: dense.clone() }, MatrixView { view: patches }, kernel.clone()];
            if dense.strides[0] == 1 && dense.strides[1] != 1 {
                emit_path(emitter, path, run, &kernel.turned(), &patches.turned(), &out.turned())?;
            } else {
                emit_path(emitter, path, run, &patches, &kernel, &out)?;
            }
            if is_apart {
                emitter.copy(&part, &dense)?;
            }
        }
        Ok(())
    }

    /// Patches of images as [images * positions, places * features] in HBM, in the order of the image's own memory: where
    /// features follow one another rows do, else columns.
    fn patches(
        &self,
        emitter: &mut Emitter,
        windows: &Windows,
        (first, images): (usize, usize),
        k: usize,
    ) -> Result<View> {
        let (x, last, made) = (&self.x, self.x.rank() - 1, windows.shape());
        let positions: usize = made.iter().product();
        let (rows, features) = (images * positions, x.shape[last]);
        let are_rows = x.strides[last] == 1;
        let shape = if are_rows { [rows, k] } else { [k, rows] };
        let dense = emitter.hbm("patches", &TensorType::new(x.dtype, &shape))?;
        let [row, column] = if are_rows { [k as i64, 1] } else { [1, rows as i64] };
        // One transfer for each place, of all windows; or for each window, of all places: whichever are fewer.
        let by_place = windows.places() <= positions;
        let turned = windows.turned();
        let (one, other) = if by_place { (windows, &turned) } else { (&turned, windows) };
        let steps = |windows: &Windows, step: i64| -> Vec<i64> {
            distances(&windows.axes.iter().map(|axis| axis.window).collect::<Vec<_>>())
                .into_iter()
                .map(|distance| distance as i64 * step)
                .collect()
        };
        let (place_steps, window_steps) = (steps(windows, column * features as i64), steps(&turned, row));
        let (fixed, moving) = if by_place { (&place_steps, &window_steps) } else { (&window_steps, &place_steps) };
        let reaches: Vec<Vec<Reach>> = (0..one.places())
            .map(|number| {
                one.indices(number).into_iter().zip(&one.axes).map(|(index, axis)| axis.reach(index)).collect()
            })
            .collect();
        let filled: usize = reaches.iter().map(|axes| axes.iter().map(|reach| reach.count).product::<usize>()).sum();
        if filled != one.places() * other.places() {
            emit_filled(emitter, &dense, 0.0)?;
        }
        for (number, axes) in reaches.iter().enumerate().filter(|(_, axes)| axes.iter().all(|reach| reach.count > 0)) {
            let mut into =
                View { shape: smallvec![images], strides: smallvec![row * positions as i64], ..dense.clone() };
            let mut from = View {
                shape: smallvec![images],
                strides: smallvec![x.strides[0]],
                offset: x.offset + first as i64 * x.strides[0],
                ..x.clone()
            };
            for (axis, (reach, index)) in axes.iter().zip(one.indices(number)).enumerate() {
                into.offset += index as i64 * fixed[axis] + reach.windows[0] as i64 * moving[axis];
                into.shape.push(reach.count);
                into.strides.push(reach.windows[1] as i64 * moving[axis]);
                from.offset += reach.elements[0] as i64 * x.strides[axis + 1];
                from.shape.push(reach.count);
                from.strides.push(reach.elements[1] as i64 * x.strides[axis + 1]);
            }
            let features_last = |view: &mut View, step: i64| {
                let at = if are_rows { view.rank() } else { 0 };
                view.shape.insert(at, features);
                view.strides.insert(at, step);
            };
            features_last(&mut into, column);
            features_last(&mut from, x.strides[last]);
            emitter.copy(&into, &from)?;
        }
        Ok(View { shape: smallvec![rows, k], strides: smallvec![row, column], ..dense })
    }
}
