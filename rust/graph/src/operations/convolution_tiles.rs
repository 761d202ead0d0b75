//! Convolutions on TensorE: windows of an image on chip, as they lie, against the kernel of each place.

use std::ops::Range;

use smallvec::smallvec;
use trn3_machine::dtype::DType;
use trn3_machine::isa::tensor::transpose::NcTranspose;
use trn3_machine::view::View;

use super::patch_tiles::ConvolutionPart;
use super::windows::{WindowAxis, Windows};
use crate::core_shares::along;
use crate::emitter::Emitter;
use crate::error::Result;
use crate::product_tiles::{emit_step, in_dtype, pieces};

/// Bytes of a partition that images take on chip, and kernels **(choice)**: half of it is left for what comes and goes.
const IMAGE_BYTES: usize = 48 << 10;
const KERNEL_BYTES: usize = 48 << 10;
/// Transposes of kernels that leave PSUM together.
const TURNED_TOGETHER: usize = 4;

/// Elements of an axis that a stretch of its padded length meets: the first, how many, and where the first stands.
fn met(axis: &WindowAxis, start: usize, length: usize) -> (usize, usize, usize) {
    let (dilation, low, start) = (axis.base_dilation as i64, axis.padding[0], start as i64);
    let first = (start - low).max(0).div_euclid(dilation) + i64::from((start - low).max(0) % dilation != 0);
    let end = ((start + length as i64 - 1 - low).div_euclid(dilation) + 1).min(axis.length as i64);
    let at = (first * dilation + low - start).max(0);
    (first as usize, (end - first).max(0) as usize, at as usize)
}

/// Padded elements that so many windows of an axis reach over.
fn reached(axis: &WindowAxis, windows: usize) -> usize {
    (windows - 1) * axis.stride + (axis.window - 1) * axis.window_dilation + 1
}

/// Boxes of at most `most` positions: first and number of each axis.
fn boxes(shape: &[usize], most: usize) -> Vec<Vec<(usize, usize)>> {
    let Some((&length, inner)) = shape.split_first() else { return vec![Vec::new()] };
    let below: usize = inner.iter().product();
    let inside = boxes(inner, most);
    let mut all = Vec::new();
    for part in pieces(length, (most / below.max(1)).max(1)) {
        all.extend(inside.iter().map(|inner| [&[part], &inner[..]].concat()));
    }
    all
}

/// Kernels on chip: for each tile of input features [features, places, output features].
struct Kernels {
    tiles: Vec<View>,
}

/// A band of an image on chip, padded: for each tile of input features [features, spatial...].
struct Band {
    tiles: Vec<View>,
    /// The first padded line of axis 0.
    start: usize,
}

impl ConvolutionPart {
    /// Computes it from images on chip; whether they fit.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(super) fn emit_direct(&self, emitter: &mut Emitter, windows: &Windows, dtype: DType) -> Result<bool> {
        let (made, places) = (windows.shape(), windows.places());
        let last = self.x.rank() - 1;
        let deep = emitter.arch().partitions as usize;
        let features = pieces(self.x.shape[last], deep);
        let inner: usize =
            windows.axes[1..].iter().zip(&made[1..]).map(|(axis, &count)| reached(axis, count)).product();
        let line_bytes = features.len() * inner * dtype.size();
        let lines = IMAGE_BYTES / line_bytes.max(1);
        if reached(&windows.axes[0], 1) > lines {
            return Ok(false);
        }
        let high = ((lines - reached(&windows.axes[0], 1)) / windows.axes[0].stride + 1).min(made[0]);
        let a_feature = features.len() * places * dtype.size();
        let tall = emitter.arch().stationary_columns as usize;
        let wide = (KERNEL_BYTES / a_feature.max(1) / tall).max(1) * tall;
        // Bands of one image as of several: each core has some.
        let high = if self.x.shape[0] < emitter.cores() { high.min(made[0].div_ceil(emitter.cores())) } else { high };
        let bands = |image: usize| pieces(made[0], high).into_iter().map(move |rows| (image, rows));
        let bands: Vec<(usize, (usize, usize))> = (0..self.x.shape[0]).flat_map(bands).collect();
        let longest = [&self.x, &self.kernel, &self.y].map(View::len).into_iter().max().unwrap_or(0);
        let needs = |items: &Range<usize>| {
            let images = bands[items.clone()].iter().map(|&(image, _)| along(&self.x, 0, &(image..image + 1)));
            [self.kernel.clone()].into_iter().chain(images).collect()
        };
        emitter.divided(longest, bands.len(), &needs, &mut |emitter, items| {
            for outputs in pieces(self.y.shape[last], wide) {
                let kernels = self.kernels(emitter, windows, &features, outputs, dtype)?;
                for &(image, rows) in &bands[items.clone()] {
                    let band = self.band(emitter, windows, image, rows, &features, dtype)?;
                    self.multiply(emitter, windows, (&kernels, outputs), (&band, image, rows))?;
                }
            }
            Ok(())
        })?;
        Ok(true)
    }

    /// Kernels of output features `outputs`: where it is the input features that lie closer, they are turned on TensorE.
    fn kernels(
        &self,
        emitter: &mut Emitter,
        windows: &Windows,
        features: &[(usize, usize)],
        outputs: (usize, usize),
        dtype: DType,
    ) -> Result<Kernels> {
        let (places, kernel) = (windows.places(), &self.kernel);
        let (from, to) = (kernel.rank() - 2, kernel.rank() - 1);
        let (in_step, out_step) = (kernel.strides[from], kernel.strides[to]);
        let mut tiles = Vec::with_capacity(features.len());
        for &(first, count) in features {
            let tile = emitter.sbuf(&[count, places, outputs.1], dtype)?;
            let at = |place: usize, output: usize| {
                self.kernel_place(windows, place) + first as i64 * in_step + output as i64 * out_step
            };
            if out_step <= in_step {
                let natural = if kernel.dtype == dtype { tile.clone() } else { emitter.like(&tile, kernel.dtype)? };
                for place in 0..places {
                    let source = View {
                        shape: smallvec![count, outputs.1],
                        strides: smallvec![in_step, out_step],
                        offset: at(place, outputs.0),
                        ..kernel.clone()
                    };
                    emitter.copy(&natural.select(1, place as i64)?, &source)?;
                }
                if kernel.dtype != dtype {
                    emitter.cast(&tile, &natural)?;
                }
            } else {
                self.turned_kernels(emitter, &tile, (count, places), outputs, &at)?;
            }
            tiles.push(tile);
        }
        Ok(Kernels { tiles })
    }

    fn turned_kernels(
        &self,
        emitter: &mut Emitter,
        tile: &View,
        (count, places): (usize, usize),
        outputs: (usize, usize),
        at: &dyn Fn(usize, usize) -> i64,
    ) -> Result<()> {
        let (kernel, most) = (&self.kernel, emitter.arch().partitions as usize);
        let (in_step, out_step) = (kernel.strides[kernel.rank() - 2], kernel.strides[kernel.rank() - 1]);
        for (start, height) in pieces(outputs.1, most) {
            // Places that follow one another come in one transfer, each row of input features whole.
            let offsets: Vec<i64> = (0..places).map(|place| at(place, outputs.0 + start)).collect();
            let step = if places > 1 { offsets[1] - offsets[0] } else { 1 };
            let are_even = step > 0 && offsets.windows(2).all(|pair| pair[1] - pair[0] == step);
            let natural = emitter.sbuf(&[height, count, places], kernel.dtype)?;
            let source = |offset: i64, places: usize| View {
                shape: smallvec![height, count, places],
                strides: smallvec![out_step, in_step, step.max(1)],
                offset,
                ..kernel.clone()
            };
            if are_even {
                emitter.copy(&natural, &source(offsets[0], places))?;
            } else {
                for (place, &offset) in offsets.iter().enumerate() {
                    emitter.copy(&natural.slice(2, place as i64, place as i64 + 1, 1)?, &source(offset, 1))?;
                }
            }
            let natural = in_dtype(emitter, natural, tile.dtype)?;
            for (first, together) in pieces(places, TURNED_TOGETHER) {
                let turned = emitter.psum(&[count, together, height], tile.dtype)?;
                for place in 0..together {
                    let data = natural.select(2, (first + place) as i64)?;
                    emitter.issue(NcTranspose { dst: turned.select(1, place as i64)?, data, engine: None })?;
                }
                let into = tile.slice(1, first as i64, (first + together) as i64, 1)?;
                emitter.cast(&into.slice(2, start as i64, (start + height) as i64, 1)?, &turned)?;
            }
        }
        Ok(())
    }

    /// What rows `rows` of the result need of an image.
    fn band(
        &self,
        emitter: &mut Emitter,
        windows: &Windows,
        image: usize,
        rows: (usize, usize),
        features: &[(usize, usize)],
        dtype: DType,
    ) -> Result<Band> {
        let made = windows.shape();
        let start = rows.0 * windows.axes[0].stride;
        let mut lengths = Vec::with_capacity(made.len());
        let mut stretches = Vec::with_capacity(made.len());
        for (number, axis) in windows.axes.iter().enumerate() {
            let (from, count) = if number == 0 { (start, rows.1) } else { (0, made[number]) };
            lengths.push(reached(axis, count));
            stretches.push(met(axis, from, lengths[number]));
        }
        let is_full = windows
            .axes
            .iter()
            .zip(&stretches)
            .zip(&lengths)
            .all(|((axis, stretch), &length)| axis.base_dilation == 1 && stretch.1 == length);
        let mut tiles = Vec::with_capacity(features.len());
        for &(first, count) in features {
            let tile = emitter.sbuf(&[&[count], &lengths[..]].concat(), dtype)?;
            tiles.push(tile.clone());
            if !is_full {
                emitter.fill(&tile, 0.0)?;
            }
            if stretches.iter().any(|stretch| stretch.1 == 0) {
                continue;
            }
            let mut target = tile;
            let last = self.x.rank() - 1;
            let mut source = View {
                shape: smallvec![count],
                strides: smallvec![self.x.strides[last]],
                offset: self.x.offset + image as i64 * self.x.strides[0] + first as i64 * self.x.strides[last],
                ..self.x.clone()
            };
            for (number, (&(element, elements, at), axis)) in stretches.iter().zip(&windows.axes).enumerate() {
                target.offset += at as i64 * target.strides[number + 1];
                target.shape[number + 1] = elements;
                target.strides[number + 1] *= axis.base_dilation as i64;
                source.offset += element as i64 * self.x.strides[number + 1];
                source.shape.push(elements);
                source.strides.push(self.x.strides[number + 1]);
            }
            lay(emitter, &target, &source, is_full)?;
        }
        Ok(Band { tiles, start })
    }

    /// The result's rows `rows` of an image.
    fn multiply(
        &self,
        emitter: &mut Emitter,
        windows: &Windows,
        (kernels, outputs): (&Kernels, (usize, usize)),
        (band, image, rows): (&Band, usize, (usize, usize)),
    ) -> Result<()> {
        let arch = emitter.arch();
        let (tall, wide) = (arch.stationary_columns as usize, arch.moving_columns as usize);
        let last = self.y.rank() - 1;
        // Whichever follows one another in memory is along the free axis of the sums.
        let are_features_inner = self.y.strides[last] == 1 && self.y.strides[last - 1] != 1;
        let (box_size, width) = if are_features_inner { (tall, wide) } else { (wide, tall) };
        let mut shape = windows.shape();
        shape[0] = rows.1;
        for window_box in boxes(&shape, box_size) {
            let positions: usize = window_box.iter().map(|(_, count)| count).product();
            for (first, count) in pieces(outputs.1, width) {
                let sums = if are_features_inner { [positions, count] } else { [count, positions] };
                let sum = emitter.psum(&sums, DType::Float32)?;
                let mut step = 0;
                for place in 0..windows.places() {
                    for (tile, kernel) in band.tiles.iter().zip(&kernels.tiles) {
                        let image = windows_at(tile, windows, place, &window_box, (rows.0, band.start));
                        let kernel =
                            kernel.select(1, place as i64)?.slice(1, first as i64, (first + count) as i64, 1)?;
                        let [stationary, moving] =
                            if are_features_inner { [&image, &kernel] } else { [&kernel, &image] };
                        emit_step(emitter, &sum, stationary, moving, step > 0)?;
                        step += 1;
                    }
                }
                let tile = emitter.like(&sum, self.y.dtype)?;
                emitter.cast(&tile, &sum)?;
                let mut out = View {
                    shape: smallvec![],
                    strides: smallvec![],
                    offset: self.y.offset
                        + image as i64 * self.y.strides[0]
                        + (outputs.0 + first) as i64 * self.y.strides[last],
                    ..self.y.clone()
                };
                for (number, &(start, count)) in window_box.iter().enumerate() {
                    let start = start + if number == 0 { rows.0 } else { 0 };
                    out.offset += start as i64 * self.y.strides[number + 1];
                    out.shape.push(count);
                    out.strides.push(self.y.strides[number + 1]);
                }
                let place = if are_features_inner { out.rank() } else { 0 };
                out.shape.insert(place, count);
                out.strides.insert(place, self.y.strides[last]);
                emitter.copy(&out, &tile)?;
            }
        }
        Ok(())
    }
}

/// The elements that the windows of a box have at one place: [features, windows...].
fn windows_at(
    tile: &View,
    windows: &Windows,
    place: usize,
    window_box: &[(usize, usize)],
    (row, line): (usize, usize),
) -> View {
    let mut view = tile.clone();
    let places = windows.indices(place);
    for (number, (axis, &(start, count))) in windows.axes.iter().zip(window_box).enumerate() {
        let (start, before) = if number == 0 { (row + start, line) } else { (start, 0) };
        let at = start * axis.stride + places[number] * axis.window_dilation - before;
        view.offset += at as i64 * tile.strides[number + 1];
        view.shape[number + 1] = count;
        view.strides[number + 1] = axis.stride as i64 * tile.strides[number + 1];
    }
    view
}

/// Lays [features, spatial...] of an image into a tile. Where it is the features that follow one another, positions are
/// loaded as partitions and turned on TensorE; where the tile has gaps, a copy on chip makes them.
fn lay(emitter: &mut Emitter, target: &View, source: &View, is_full: bool) -> Result<()> {
    let last = source.rank() - 1;
    let is_turned = source.strides[0] == 1 && source.strides[last] != 1 && source.shape[0] > 1;
    if !is_turned {
        if is_full && source.dtype == target.dtype {
            return emitter.copy(target, source);
        }
        let natural = emitter.sbuf(&source.shape, source.dtype)?;
        emitter.copy(&natural, source)?;
        return emitter.cast(target, &natural);
    }
    let most = emitter.arch().partitions as usize;
    for part in boxes(&source.shape[1..], most) {
        let cut = |view: &View| {
            let mut view = view.clone();
            for (axis, &(start, count)) in part.iter().enumerate() {
                view.offset += start as i64 * view.strides[axis + 1];
                view.shape[axis + 1] = count;
            }
            view
        };
        let (mut from, into) = (cut(source), cut(target));
        let positions: usize = part.iter().map(|(_, count)| count).product();
        let features = from.shape.remove(0);
        let step = from.strides.remove(0);
        from.shape.push(features);
        from.strides.push(step);
        let loaded = emitter.sbuf(&[positions, features], source.dtype)?;
        emitter.copy(&loaded, &from)?;
        let data = in_dtype(emitter, loaded, target.dtype)?;
        let turned = emitter.psum(&into.shape, target.dtype)?;
        emitter.issue(NcTranspose { dst: turned.clone(), data, engine: None })?;
        emitter.cast(&into, &turned)?;
    }
    Ok(())
}
