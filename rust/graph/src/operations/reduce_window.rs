//! Windows joined to one element each: pooling, and sums that run along an axis.

use serde::Deserialize;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::view::View;

use super::reduce::ReduceFunction;
use super::window_tiles::WindowTiles;
use super::windows::{WindowAxis, Windows, distances};
use crate::emitter::Emitter;
use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, OperationCut, TensorOperation};
use crate::options::ExecutionOptions;
use crate::row::{OperationRow, plain};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// `reduce_window(x, init)` as StableHLO defines it; what lies outside of the operand is left out, as XLA has it.
///
/// Floats are joined in float32 in ascending order of their places in the window from the operator's identity, once with
/// `init`, and rounded at the end **(choice)**. A window that runs towards the end of an axis, as long as the axis and with
/// all its padding behind, is joined in descending order: so each result is one step from its neighbour's **(choice)**.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReduceWindow {
    /// Lengths of the window.
    pub window: Vec<usize>,
    /// From one window to the next.
    pub strides: Vec<usize>,
    /// From one element of the operand to the next.
    pub base_dilations: Vec<usize>,
    /// From one element of the window to the next.
    pub window_dilations: Vec<usize>,
    /// Empty places before and after each axis; negative ones cut.
    pub padding: Vec<[i64; 2]>,
    /// What joins.
    pub function: ReduceFunction,
}

/// Refuses lists that have not one entry an axis, and windows of nothing.
pub(super) fn check_windows(lists: &[(&str, usize)], kind: &TensorType, windows: impl FnOnce() -> Windows) -> Reason {
    if let Some((name, length)) = lists.iter().find(|(_, length)| *length != kind.rank()) {
        return Err(format!("{name} has {length} entries for {kind}; each axis has one"));
    }
    let windows = windows();
    match windows.axes.iter().position(|axis| !axis.is_sound()) {
        Some(axis) => {
            Err(format!("axis {axis} has {:?}; windows, strides and dilations are positive", windows.axes[axis]))
        }
        None => Ok(()),
    }
}

/// A window that grows by one element from each result to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Running {
    axis: usize,
    is_towards_the_end: bool,
}

impl ReduceWindow {
    fn windows(&self, shape: &[usize]) -> Windows {
        let axis = |axis: usize| WindowAxis {
            length: shape[axis],
            window: self.window[axis],
            stride: self.strides[axis],
            base_dilation: self.base_dilations[axis],
            window_dilation: self.window_dilations[axis],
            padding: self.padding[axis],
        };
        Windows { axes: (0..shape.len()).map(axis).collect() }
    }

    fn running(&self, windows: &Windows) -> Option<Running> {
        let plain = |axis: &WindowAxis| axis.stride == 1 && axis.base_dilation == 1 && axis.window_dilation == 1;
        let mut long = (0..windows.axes.len()).filter(|&axis| windows.axes[axis].window > 1);
        let (axis, None) = (long.next()?, long.next()) else { return None };
        let is_plain = windows.axes.iter().all(plain)
            && (0..windows.axes.len()).all(|other| other == axis || windows.axes[other].padding == [0, 0]);
        let WindowAxis { length, window, padding, .. } = windows.axes[axis];
        let before = window as i64 - 1;
        match padding {
            _ if !is_plain || window != length => None,
            [low, 0] if low == before => Some(Running { axis, is_towards_the_end: false }),
            [0, high] if high == before => Some(Running { axis, is_towards_the_end: true }),
            _ => None,
        }
    }

    fn joined<T: Copy>(&self, x: &[T], shape: &[usize], identity: T, join: impl Fn(T, T) -> T + Copy) -> Vec<T> {
        let windows = self.windows(shape);
        match self.running(&windows) {
            Some(running) => {
                let inner: usize = shape[running.axis + 1..].iter().product();
                run_along(x, shape[running.axis], inner, running.is_towards_the_end, identity, join)
            }
            None => slide(x, shape, &windows, identity, join),
        }
    }
}

/// Every window's elements, in ascending order: the window's places one after another, for all windows at once.
fn slide<T: Copy>(x: &[T], shape: &[usize], windows: &Windows, identity: T, join: impl Fn(T, T) -> T + Copy) -> Vec<T> {
    let made = windows.shape();
    let (window_strides, element_strides) = (distances(&made), distances(shape));
    let mut out = vec![identity; made.iter().product()];
    for place in 0..windows.places() {
        windows.for_each_row(place, &window_strides, &element_strides, |row| {
            let ([first, step], [from, by]) = (row.windows, row.elements);
            if step == 1 && by == 1 {
                let sums = &mut out[first..first + row.count];
                sums.iter_mut().zip(&x[from..from + row.count]).for_each(|(sum, &value)| *sum = join(*sum, value));
            } else {
                for number in 0..row.count {
                    let sum = &mut out[first + number * step];
                    *sum = join(*sum, x[from + number * by]);
                }
            }
        });
    }
    out
}

/// Sums that run along the middle axis of [.., length, inner], from either end.
fn run_along<T: Copy>(
    x: &[T],
    length: usize,
    inner: usize,
    is_towards_the_end: bool,
    identity: T,
    join: impl Fn(T, T) -> T + Copy,
) -> Vec<T> {
    let mut out = vec![identity; x.len()];
    let mut sums = vec![identity; inner];
    for (made, given) in out.chunks_mut((length * inner).max(1)).zip(x.chunks((length * inner).max(1))) {
        sums.fill(identity);
        for step in 0..length {
            let first = if is_towards_the_end { length - 1 - step } else { step } * inner;
            for column in 0..inner {
                sums[column] = join(sums[column], given[first + column]);
            }
            made[first..first + inner].copy_from_slice(&sums);
        }
    }
    out
}

impl TensorOperation for ReduceWindow {
    fn name(&self) -> &'static str {
        "reduce_window"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x, init] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        if !self.function.takes(x) {
            return Err(format!("the operand is {x}, which {:?} does not join", self.function));
        }
        check_same("init", init, "a scalar of the operand", &x.with_shape(&[]))?;
        let lists = [
            ("window", self.window.len()),
            ("strides", self.strides.len()),
            ("base_dilations", self.base_dilations.len()),
            ("window_dilations", self.window_dilations.len()),
            ("padding", self.padding.len()),
        ];
        check_windows(&lists, x, || self.windows(&x.shape))?;
        check_same("the result", y, "the windows", &x.with_shape(&self.windows(&x.shape).shape()))
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let (x, kind) = (operands[0], results[0].clone());
        if kind.is_float() {
            let (values, init) = (x.floats()?, operands[1].floats()?[0]);
            let operator = self.function.operator();
            let start = operator.identity();
            // A step of its own for each operator: the choice is made outside of the loop.
            let mut sums = match self.function {
                ReduceFunction::Add => self.joined(&values, x.shape(), start, |x, y| AluOp::Add.apply(x, y)),
                ReduceFunction::Multiply => self.joined(&values, x.shape(), start, |x, y| AluOp::Multiply.apply(x, y)),
                ReduceFunction::Maximum => self.joined(&values, x.shape(), start, |x, y| AluOp::Maximum.apply(x, y)),
                _ => self.joined(&values, x.shape(), start, |x, y| AluOp::Minimum.apply(x, y)),
            };
            sums.iter_mut().for_each(|sum| *sum = operator.apply(init, *sum));
            return Ok(vec![Tensor::from_floats(kind, sums)?]);
        }
        // Whole numbers are exact in any order: windows begin with `init`.
        let (values, init) = (x.integers()?, operands[1].integers()?[0]);
        let sums = self.joined(&values, x.shape(), init, |x, y| self.function.of_integers(&kind, x, y));
        Ok(vec![Tensor::from_integers(kind.clone(), sums)?])
    }

    fn emit(&self, emitter: &mut Emitter, operands: &[View], results: &[View], _: &ExecutionOptions) -> Result<bool> {
        let (x, init, out) = (&operands[0], &operands[1], &results[0]);
        if !x.dtype.is_float() || x.rank() != self.window.len() {
            return Ok(false);
        }
        let windows = self.windows(&x.shape);
        let tiles = WindowTiles { op: self.function.operator(), windows: &windows, x, init, out };
        match self.running(&windows) {
            Some(running) if running.is_towards_the_end => Ok(false),
            Some(running) => tiles.emit_running(emitter, running.axis),
            None => tiles.emit(emitter),
        }
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        self.windows(&operands[0].shape).cuts(operands.len(), results.len())
    }

    fn arithmetic(&self, operands: &[&TensorType], results: &[&TensorType]) -> u64 {
        let windows = self.windows(&operands[0].shape);
        let places = if self.running(&windows).is_some() { 1 } else { windows.places() };
        results[0].elements() as u64 * places as u64
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "reduce_window",
    jax: &["stablehlo.reduce_window"],
    aten: &["max_pool2d_with_indices", "avg_pool2d", "cumsum", "cumprod"],
    template: "tensor_tensor of strided views, one place of the window after another; running sums tensor_tensor_scan; \
               those from the end, and integers, a function of GpSimdE",
    accuracy: "float32 sums in ascending order, then rounded to the type; integers exact",
    read: plain::<ReduceWindow>,
}];
