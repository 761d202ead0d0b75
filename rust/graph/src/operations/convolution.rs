//! Convolutions, as products of patches and kernels.

use serde::Deserialize;
use trn3_machine::view::View;

use super::windows::{WindowAxis, Windows, distances};
use crate::emitter::Emitter;
use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, OperationCut, TensorOperation};
use crate::options::{ExecutionOptions, MatmulPath};
use crate::product::{Matrices, integer_product, product_in_runs};
use crate::row::{OperationRow, plain};
use crate::strided::{are_axes, permuted, pick, row_major};
use crate::tensor::{Tensor, on_words};
use crate::tensor_type::TensorType;

/// Elements of patches that are laid out at a time.
const PATCHES: usize = 1 << 24;
/// Input features from which on each place of the window is a product of its own **(choice)**: with fewer, most of the
/// array's rows would be idle, and patches are laid out.
const FEATURES: usize = 32;

/// Which axis of an image array is what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageLayout {
    /// Images.
    pub batch: usize,
    /// Features.
    pub feature: usize,
    /// Positions.
    pub spatial: Vec<usize>,
}

/// Which axis of a kernel array is what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelLayout {
    /// Features of the input, of one group.
    pub input_feature: usize,
    /// Features of the output.
    pub output_feature: usize,
    /// Positions.
    pub spatial: Vec<usize>,
}

impl ImageLayout {
    pub(super) fn axes(&self) -> Vec<usize> {
        [&[self.batch], self.spatial.as_slice(), &[self.feature]].concat()
    }
}

impl KernelLayout {
    pub(super) fn axes(&self) -> Vec<usize> {
        [self.spatial.as_slice(), &[self.input_feature, self.output_feature]].concat()
    }
}

/// `convolution(lhs, rhs)` as StableHLO defines it: each output is one row of patches [positions, kernel * input features]
/// by one column of kernels [kernel * input features, output features] on the array. The contraction goes along the
/// window's positions in row-major order, after any reversal, and at each along the input features **(choice)**, in
/// chains of 128 as the matrix product's. With 32 input features or more a chain ends with its position **(choice)**.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Convolution {
    /// From one window to the next.
    pub window_strides: Vec<usize>,
    /// Empty places before and after each axis; negative ones cut.
    pub padding: Vec<[i64; 2]>,
    /// From one element of the input to the next.
    pub lhs_dilation: Vec<usize>,
    /// From one element of the kernel to the next.
    pub rhs_dilation: Vec<usize>,
    /// The input's axes.
    pub lhs_layout: ImageLayout,
    /// The kernel's axes.
    pub rhs_layout: KernelLayout,
    /// The output's axes.
    pub out_layout: ImageLayout,
    /// Groups of features, each with kernels of its own.
    #[serde(default = "one")]
    pub feature_groups: usize,
    /// Groups of images, each with kernels of its own.
    #[serde(default = "one")]
    pub batch_groups: usize,
    /// Spatial axes along which the kernel is taken from its end; none where the list is empty.
    #[serde(default)]
    pub reversal: Vec<bool>,
}

const fn one() -> usize {
    1
}

impl Convolution {
    pub(super) fn windows(&self, lhs: &[usize], rhs: &[usize]) -> Windows {
        let axis = |axis: usize| WindowAxis {
            length: lhs[self.lhs_layout.spatial[axis]],
            window: rhs[self.rhs_layout.spatial[axis]],
            stride: self.window_strides[axis],
            base_dilation: self.lhs_dilation[axis],
            window_dilation: self.rhs_dilation[axis],
            padding: self.padding[axis],
        };
        Windows { axes: (0..self.window_strides.len()).map(axis).collect() }
    }

    /// Steps of the contraction that chains do not go beyond: the features of one place of the window, where they fill enough
    /// of the array's rows and windows are no fewer than places. None: chains go on from place to place.
    pub(super) fn run(&self, lhs: &[usize], rhs: &[usize], path: MatmulPath) -> Option<usize> {
        let features = rhs[self.rhs_layout.input_feature];
        let windows = self.windows(lhs, rhs);
        let is_plain = matches!(path, MatmulPath::AsTyped | MatmulPath::Bf16);
        let is_wide = features >= FEATURES && windows.places() <= windows.shape().iter().product();
        (is_plain && is_wide && !windows.axes.is_empty()).then_some(features)
    }

    /// Kernels as [group, kernel * input features, output features].
    fn kernels(&self, rhs: &Tensor, groups: usize) -> Result<Tensor> {
        let (shape, mut strides) = (rhs.shape(), row_major(rhs.shape()));
        let mut offset = 0;
        for (&axis, _) in self.rhs_layout.spatial.iter().zip(&self.reversal).filter(|(_, is_reversed)| **is_reversed) {
            offset += (shape[axis] as isize - 1) * strides[axis];
            strides[axis] = -strides[axis];
        }
        let order = self.rhs_layout.axes();
        let features = shape[self.rhs_layout.output_feature] / groups;
        let mut lengths: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let mut steps: Vec<isize> = order.iter().map(|&axis| strides[axis]).collect();
        lengths[order.len() - 1] = features;
        lengths.insert(0, groups);
        steps.insert(0, steps[order.len() - 1] * features as isize);
        let k = lengths[1..=order.len() - 1].iter().product();
        let kernels = pick(rhs, &lengths, &steps, offset)?;
        kernels.reinterpreted(rhs.kind().with_shape(&[groups, k, features]))
    }

    /// Lists that have not one entry a spatial axis.
    fn check_lists(&self, axes: usize) -> Reason {
        let lists = [
            ("window_strides", self.window_strides.len()),
            ("padding", self.padding.len()),
            ("lhs_dilation", self.lhs_dilation.len()),
            ("rhs_dilation", self.rhs_dilation.len()),
            ("rhs_layout.spatial", self.rhs_layout.spatial.len()),
            ("out_layout.spatial", self.out_layout.spatial.len()),
            ("reversal", if self.reversal.is_empty() { axes } else { self.reversal.len() }),
        ];
        match lists.into_iter().find(|&(_, length)| length != axes) {
            Some((name, length)) => Err(format!("{name} has {length} entries for {axes} spatial axes")),
            None => Ok(()),
        }
    }
}

impl TensorOperation for Convolution {
    fn name(&self) -> &'static str {
        "convolution"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [lhs, rhs] = exactly("operands", operands)?;
        let [out] = exactly("results", results)?;
        self.check_lists(self.lhs_layout.spatial.len())?;
        let layouts = [
            ("lhs_layout", self.lhs_layout.axes(), lhs),
            ("rhs_layout", self.rhs_layout.axes(), rhs),
            ("out_layout", self.out_layout.axes(), out),
        ];
        for (name, axes, kind) in layouts {
            if axes.len() != kind.rank() || !are_axes(&axes, kind.rank()) {
                return Err(format!("{name} has the axes {axes:?} of {kind}; allowed: each axis once"));
            }
        }
        if lhs.dtype != rhs.dtype || !(lhs.is_float() || lhs.is_integer()) {
            return Err(format!("lhs is {lhs} and rhs is {rhs}; allowed: floats or integers of one type"));
        }
        let (images, inputs) = (lhs.shape[self.lhs_layout.batch], lhs.shape[self.lhs_layout.feature]);
        let (kernel_inputs, outputs) =
            (rhs.shape[self.rhs_layout.input_feature], rhs.shape[self.rhs_layout.output_feature]);
        let (features, batches) = (self.feature_groups, self.batch_groups);
        let is_grouped = features > 0
            && batches > 0
            && (features == 1 || batches == 1)
            && inputs == kernel_inputs * features
            && images.is_multiple_of(batches)
            && outputs.is_multiple_of(features * batches);
        if !is_grouped {
            return Err(format!(
                "feature_groups is {features} and batch_groups {batches} for lhs {lhs} and rhs {rhs}; one of them is 1, \
                 and groups are of one size"
            ));
        }
        let windows = self.windows(&lhs.shape, &rhs.shape);
        if let Some(axis) = windows.axes.iter().position(|axis| !axis.is_sound()) {
            return Err(format!(
                "spatial axis {axis} has {:?}; windows, strides and dilations are positive",
                windows.axes[axis]
            ));
        }
        let mut shape = vec![0; out.rank()];
        shape[self.out_layout.batch] = images / batches;
        shape[self.out_layout.feature] = outputs;
        self.out_layout.spatial.iter().zip(windows.shape()).for_each(|(&axis, length)| shape[axis] = length);
        if out.shape != shape {
            return Err(format!("the result is {out}; its shape has to be {shape:?}"));
        }
        if out.is_float() == lhs.is_float() && (out.is_float() || out.is_integer()) {
            Ok(())
        } else {
            check_same("the result", out, "of the operands' type", &out.with_dtype(lhs.dtype))
        }
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], execution: &dyn Execution) -> Result<Vec<Tensor>> {
        let kind = &results[0];
        let (lhs, rhs) = (permuted(operands[0], &self.lhs_layout.axes())?, operands[1]);
        let groups = self.feature_groups * self.batch_groups;
        let windows = self.windows(operands[0].shape(), rhs.shape());
        let kernels = self.kernels(rhs, groups)?;
        let right = Matrices::new(&kernels, &[0], &[1], &[2])?;
        let run = self.run(operands[0].shape(), rhs.shape(), execution.options().matmul);
        let patches = Patches::new(self, &windows, &lhs);
        let (rows, k, features) = (patches.rows(), kernels.shape()[1], kernels.shape()[2]);
        let at_a_time = (PATCHES / (groups * k).max(1)).max(1);
        let mut sums = Sums { floats: Vec::new(), integers: Vec::new() };
        for first in (0..rows).step_by(at_a_time) {
            let count = at_a_time.min(rows - first);
            let laid_out = patches.laid_out(&lhs, first, count)?;
            let left = Matrices::new(&laid_out, &[0], &[1], &[2])?;
            if kind.is_float() {
                let made = product_in_runs(execution.options().matmul, run, &left, &right)?;
                interleave(&made, &mut sums.floats, groups, count, features);
            } else {
                interleave(&integer_product(&left, &right)?, &mut sums.integers, groups, count, features);
            }
        }
        let axes = self.out_layout.axes();
        let lengths: Vec<usize> = axes.iter().map(|&axis| kind.shape[axis]).collect();
        let dense = kind.with_shape(&lengths);
        let made = if kind.is_float() {
            Tensor::from_floats(dense, sums.floats)?
        } else {
            Tensor::from_integers(dense, sums.integers)?
        };
        let mut order = vec![0; axes.len()];
        axes.iter().enumerate().for_each(|(place, &axis)| order[axis] = place);
        Ok(vec![permuted(&made, &order)?])
    }

    fn emit(
        &self,
        emitter: &mut Emitter,
        operands: &[View],
        results: &[View],
        options: &ExecutionOptions,
    ) -> Result<bool> {
        if !operands[0].dtype.is_float() {
            return Ok(false);
        }
        self.emit_groups(emitter, operands, &results[0], options)?;
        Ok(true)
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        let (image, made) = (self.lhs_layout.batch, self.out_layout.batch);
        let cut = OperationCut { operands: vec![Some(image), None], results: vec![made; results.len()] };
        if self.batch_groups == 1 && operands.len() == 2 { vec![cut] } else { Vec::new() }
    }

    fn arithmetic(&self, operands: &[&TensorType], results: &[&TensorType]) -> u64 {
        let kernel = operands[1].elements() / operands[1].shape[self.rhs_layout.output_feature].max(1);
        2 * results[0].elements() as u64 * kernel as u64
    }
}

/// Outputs, of the one kind or the other.
struct Sums {
    floats: Vec<f32>,
    integers: Vec<i64>,
}

/// Appends [groups, rows, features] as [rows, groups, features].
fn interleave<T: Copy>(made: &[T], out: &mut Vec<T>, groups: usize, rows: usize, features: usize) {
    for row in 0..rows {
        (0..groups).for_each(|group| out.extend_from_slice(&made[(group * rows + row) * features..][..features]));
    }
}

/// Patches of images [batch, spatial..., features].
struct Patches<'w> {
    windows: &'w Windows,
    /// Images of a group.
    images: usize,
    /// Windows of an image.
    positions: usize,
    groups: usize,
    /// Input features of a group.
    features: usize,
    /// Elements from one image to the next, and from one group to the next.
    image_step: usize,
    group_step: usize,
    window_strides: Vec<usize>,
    element_strides: Vec<usize>,
}

impl<'w> Patches<'w> {
    fn new(convolution: &Convolution, windows: &'w Windows, lhs: &Tensor) -> Self {
        let shape = lhs.shape();
        let strides = distances(shape);
        let features = shape[shape.len() - 1] / convolution.feature_groups;
        let images = shape[0] / convolution.batch_groups;
        let of_windows = windows.shape();
        Self {
            windows,
            images,
            positions: of_windows.iter().product(),
            groups: convolution.feature_groups * convolution.batch_groups,
            features,
            image_step: strides[0],
            group_step: if convolution.batch_groups > 1 { images * strides[0] } else { features },
            window_strides: distances(&of_windows),
            element_strides: strides[1..strides.len() - 1].to_vec(),
        }
    }

    fn rows(&self) -> usize {
        self.images * self.positions
    }

    /// `count` rows from `first` on, as [groups, rows, kernel * features]; zeros where there is no element.
    fn laid_out(&self, lhs: &Tensor, first: usize, count: usize) -> Result<Tensor> {
        fn filled<T: Copy + Default>(patches: &Patches<'_>, source: &[T], first: usize, count: usize) -> Vec<T> {
            let (features, places) = (patches.features, patches.windows.places());
            let k = places * features;
            let mut out = vec![T::default(); patches.groups * count * k];
            let images = first / patches.positions.max(1)..(first + count).div_ceil(patches.positions.max(1));
            for place in 0..places {
                patches.windows.for_each_row(place, &patches.window_strides, &patches.element_strides, |row| {
                    for image in images.clone() {
                        for step in 0..row.count {
                            let window = image * patches.positions + row.windows[0] + step * row.windows[1];
                            if !(first..first + count).contains(&window) {
                                continue;
                            }
                            let from = image * patches.image_step + row.elements[0] + step * row.elements[1];
                            let to = (window - first) * k + place * features;
                            for group in 0..patches.groups {
                                let from = from + group * patches.group_step;
                                let to = to + group * count * k;
                                out[to..to + features].copy_from_slice(&source[from..from + features]);
                            }
                        }
                    }
                });
            }
            out
        }
        let words = on_words!(lhs.words(), words => filled(self, words, first, count));
        let k = self.windows.places() * self.features;
        Tensor::new(lhs.kind().with_shape(&[self.groups, count, k]), words)
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "convolution",
    jax: &["stablehlo.convolution"],
    aten: &["convolution", "convolution_backward"],
    template: "nc_matmul for each place of the window over images on chip; with few features or MX over patches that \
               dma_copy lays out; integers by a function of GpSimdE",
    accuracy: "float32 sums in chains of 128, then rounded to the type; integers exact",
    read: plain::<Convolution>,
}];
