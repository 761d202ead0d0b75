//! What goes back through pooling to the element that each window chose.

use serde::Deserialize;

use super::compare::Direction;
use super::reduce::ReduceFunction;
use super::reduce_window::check_windows;
use super::windows::{WindowAxis, Windows, distances};
use crate::error::{Reason, Result};
use crate::fits::{check_same, exactly};
use crate::graph::{Execution, OperationCut, TensorOperation};
use crate::row::{OperationRow, plain};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// `select_and_scatter(operand, source, init)` as StableHLO defines it: each window of the operand chooses one of its
/// elements, and the source's element of that window goes there; what lies outside of the operand is never chosen.
///
/// Of two elements in ascending order the first stays chosen where `select` holds of both, so NaN gives way. What comes
/// to one place is joined in float32 in ascending order of the windows from the operator's identity, once with `init`,
/// and rounded at the end **(choice)**.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectAndScatter {
    /// Lengths of the window.
    pub window: Vec<usize>,
    /// From one window to the next.
    pub strides: Vec<usize>,
    /// Empty places before and after each axis; negative ones cut.
    pub padding: Vec<[i64; 2]>,
    /// `ge` or `le`.
    pub select: Direction,
    /// What joins at one place.
    pub scatter: ReduceFunction,
}

/// No element of the operand.
const NOTHING: usize = usize::MAX;

impl SelectAndScatter {
    fn windows(&self, shape: &[usize]) -> Windows {
        let axis = |axis: usize| WindowAxis {
            length: shape[axis],
            window: self.window[axis],
            stride: self.strides[axis],
            base_dilation: 1,
            window_dilation: 1,
            padding: self.padding[axis],
        };
        Windows { axes: (0..shape.len()).map(axis).collect() }
    }

    /// The element that each window chooses.
    fn chosen<T: PartialOrd + Copy>(&self, values: &[T], shape: &[usize]) -> Vec<usize> {
        let windows = self.windows(shape);
        let made = windows.shape();
        let (window_strides, element_strides) = (distances(&made), distances(shape));
        let mut chosen = vec![NOTHING; made.iter().product()];
        for place in 0..windows.places() {
            windows.for_each_row(place, &window_strides, &element_strides, |row| {
                for number in 0..row.count {
                    let best = &mut chosen[row.windows[0] + number * row.windows[1]];
                    let other = row.elements[0] + number * row.elements[1];
                    if *best == NOTHING || !self.select.holds(values[*best], values[other]) {
                        *best = other;
                    }
                }
            });
        }
        chosen
    }
}

/// Joins what comes to each of `count` places.
fn joined<T: Copy>(chosen: &[usize], source: &[T], count: usize, start: T, join: impl Fn(T, T) -> T) -> Vec<T> {
    let mut sums = vec![start; count];
    for (&place, &value) in chosen.iter().zip(source).filter(|(place, _)| **place != NOTHING) {
        sums[place] = join(sums[place], value);
    }
    sums
}

impl TensorOperation for SelectAndScatter {
    fn name(&self) -> &'static str {
        "select_and_scatter"
    }

    fn check(&self, operands: &[&TensorType], results: &[&TensorType]) -> Reason {
        let [x, source, init] = exactly("operands", operands)?;
        let [y] = exactly("results", results)?;
        if !matches!(self.select, Direction::Ge | Direction::Le) {
            return Err(format!("select is {:?}; allowed: ge, le", self.select));
        }
        if !self.scatter.takes(x) {
            return Err(format!("the operand is {x}, which {:?} does not join", self.scatter));
        }
        check_same("init", init, "a scalar of the operand", &x.with_shape(&[]))?;
        let lists = [("window", self.window.len()), ("strides", self.strides.len()), ("padding", self.padding.len())];
        check_windows(&lists, x, || self.windows(&x.shape))?;
        check_same("the source", source, "the windows", &x.with_shape(&self.windows(&x.shape).shape()))?;
        check_same("the result", y, "the operand", x)
    }

    fn execute(&self, operands: &[&Tensor], results: &[TensorType], _: &dyn Execution) -> Result<Vec<Tensor>> {
        let [x, source, init] = [operands[0], operands[1], operands[2]];
        let kind = results[0].clone();
        let count = kind.elements();
        if kind.is_float() {
            let operator = self.scatter.operator();
            let chosen = self.chosen(&x.floats()?, x.shape());
            let join = |x, y| operator.apply(x, y);
            let mut sums = joined(&chosen, &source.floats()?, count, operator.identity(), join);
            let init = init.floats()?[0];
            sums.iter_mut().for_each(|sum| *sum = operator.apply(init, *sum));
            return Ok(vec![Tensor::from_floats(kind, sums)?]);
        }
        let chosen = self.chosen(&x.integers()?, x.shape());
        let join = |x, y| self.scatter.of_integers(&kind, x, y);
        let sums = joined(&chosen, &source.integers()?, count, init.integers()?[0], join);
        Ok(vec![Tensor::from_integers(kind.clone(), sums)?])
    }

    fn cuts(&self, operands: &[&TensorType], results: &[&TensorType]) -> Vec<OperationCut> {
        self.windows(&operands[0].shape).cuts(operands.len(), results.len())
    }

    fn arithmetic(&self, operands: &[&TensorType], _: &[&TensorType]) -> u64 {
        let windows = operands[1].elements() as u64;
        windows * (self.window.iter().product::<usize>() as u64 + 1)
    }
}

/// The table's rows.
pub(super) const ROWS: &[OperationRow] = &[OperationRow {
    name: "select_and_scatter",
    jax: &["stablehlo.select_and_scatter"],
    aten: &["max_pool2d_with_indices_backward"],
    template: "a function of GpSimdE",
    accuracy: "float32 sums in ascending order, then rounded to the type; integers exact",
    read: plain::<SelectAndScatter>,
}];
