//! What index expressions span over a tensor: a grid, and for each axis of the tensor whole numbers along it.

use std::ops::Range;

use super::grid::{even_steps, strides, visit};

/// Whole numbers along the axes of a grid, in C order; an axis of length 1 stretches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridNumbers {
    /// Lengths.
    pub shape: Vec<usize>,
    /// As many numbers as the lengths' product.
    pub values: Vec<i64>,
}

/// What an axis of a tensor is indexed by.
#[derive(Clone, Debug)]
pub enum AxisIndex {
    /// Numbers that span axes together with those of other axes; without lengths, a single one.
    Numbers(GridNumbers),
    /// Numbers that span an axis of their own.
    Run(Vec<i64>),
}

/// Why there is no grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoGrid {
    /// The expressions' shapes do not fit together.
    Shapes(Vec<Vec<usize>>),
    /// The index of the partitions runs along so many axes, or unevenly along one.
    Partitions(usize),
}

/// Range and steps of an axis' numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisReach {
    /// The least number.
    pub low: i64,
    /// The greatest.
    pub high: i64,
    /// The first number and the steps along each axis, if there are such steps.
    pub steps: Option<(i64, Vec<i64>)>,
}

impl GridNumbers {
    /// Their range and their steps.
    ///
    /// ```
    /// use trn3_machine::view::span::GridNumbers;
    ///
    /// let reach = GridNumbers { shape: vec![1, 3], values: vec![9, 7, 5] }.reach();
    /// assert_eq!((reach.low, reach.high, reach.steps), (5, 9, Some((9, vec![0, -2]))));
    /// ```
    pub fn reach(&self) -> AxisReach {
        let low = self.values.iter().copied().min().unwrap_or(0);
        let high = self.values.iter().copied().max().unwrap_or(0);
        AxisReach { low, high, steps: even_steps(&self.shape, &self.values) }
    }

    /// Axes that are longer than 1.
    fn long_axes(&self) -> Vec<usize> {
        (0..self.shape.len()).filter(|&axis| self.shape[axis] > 1).collect()
    }

    /// The same numbers with an axis moved to the front.
    fn with_first(&self, axis: usize) -> Self {
        let mut order: Vec<usize> = (0..self.shape.len()).filter(|&other| other != axis).collect();
        order.insert(0, axis);
        let strides = strides(&self.shape);
        let moved = |from: &[usize]| order.iter().map(|&axis| from[axis]).collect::<Vec<_>>();
        let (shape, strides) = (moved(&self.shape), moved(&strides));
        let whole: Vec<Range<usize>> = shape.iter().map(|&length| 0..length).collect();
        let mut values = Vec::with_capacity(self.values.len());
        visit(&whole, &strides, |_, offset| values.push(self.values[offset]));
        Self { shape, values }
    }
}

/// The grid that indexes span, and each axis' numbers on it, all of the grid's rank.
///
/// As in NumPy, the axes of expressions come in the place of the expressions where these are neighbours, else first.
/// With `partition` (the axis of a tensor on chip that is its partitions) the grid's first axis is the one that this
/// axis' numbers run along, and there are two axes at least.
///
/// # Errors
/// [`NoGrid`].
///
/// ```
/// use trn3_machine::view::span::{AxisIndex, GridNumbers, span};
///
/// let rows = GridNumbers { shape: vec![2, 1], values: vec![4, 5] };
/// let (grid, numbers) = span(&[AxisIndex::Numbers(rows), AxisIndex::Run(vec![0, 1, 2])], Some(0))?;
/// assert_eq!(grid, [2, 1, 3]);
/// assert_eq!(numbers[1].shape, [1, 1, 3]);
/// # Ok::<(), trn3_machine::view::span::NoGrid>(())
/// ```
pub fn span(indexes: &[AxisIndex], partition: Option<usize>) -> Result<(Vec<usize>, Vec<GridNumbers>), NoGrid> {
    let expressions: Vec<(usize, &GridNumbers)> = indexes
        .iter()
        .enumerate()
        .filter_map(|(axis, index)| if let AxisIndex::Numbers(numbers) = index { Some((axis, numbers)) } else { None })
        .collect();
    let shapes = || expressions.iter().map(|(_, numbers)| numbers.shape.clone());
    let common = together(shapes()).ok_or_else(|| NoGrid::Shapes(shapes().collect()))?;
    let first = first_axis(&expressions);
    let mut runs = 0;
    let rank = common.len() + indexes.len() - expressions.len();
    let place = |index: &AxisIndex| {
        let mut shape = vec![1; rank];
        let values = match index {
            AxisIndex::Numbers(numbers) => {
                let end = first + common.len();
                shape[end - numbers.shape.len()..end].copy_from_slice(&numbers.shape);
                &numbers.values
            }
            AxisIndex::Run(values) => {
                shape[if runs < first { runs } else { runs + common.len() }] = values.len();
                runs += 1;
                values
            }
        };
        GridNumbers { shape, values: values.clone() }
    };
    let mut numbers: Vec<GridNumbers> = indexes.iter().map(place).collect();
    if let Some(partition) = partition {
        partitions_first(&mut numbers, partition)?;
    } else if rank == 0 {
        numbers.iter_mut().for_each(|each| each.shape = vec![1]);
    }
    let grid = together(numbers.iter().map(|each| each.shape.clone()));
    Ok((grid.ok_or_else(|| NoGrid::Shapes(shapes().collect()))?, numbers))
}

/// How many runs stand before the expressions' axes: as many as before the first of them, if they are neighbours.
fn first_axis(expressions: &[(usize, &GridNumbers)]) -> usize {
    let mut spread: Vec<usize> =
        expressions.iter().filter(|(_, numbers)| !numbers.shape.is_empty()).map(|(axis, _)| *axis).collect();
    if spread.is_empty() {
        spread.extend(expressions.first().map(|(axis, _)| *axis));
    }
    let (Some(&start), Some(&end)) = (spread.first(), spread.last()) else { return 0 };
    let is_expression = |axis: usize| expressions.iter().any(|(other, _)| *other == axis);
    if (start..=end).all(is_expression) { (0..start).filter(|&axis| !is_expression(axis)).count() } else { 0 }
}

fn partitions_first(numbers: &mut [GridNumbers], partition: usize) -> Result<(), NoGrid> {
    let axes = numbers[partition].long_axes();
    match axes[..] {
        [] if together(numbers.iter().map(|each| each.shape.clone())).is_none_or(|grid| grid.first() != Some(&1)) => {
            numbers.iter_mut().for_each(|each| each.shape.insert(0, 1));
        }
        [] => {}
        [axis] if numbers[partition].reach().steps.is_some() => {
            if axis != 0 {
                numbers.iter_mut().for_each(|each| *each = each.with_first(axis));
            }
        }
        _ => return Err(NoGrid::Partitions(axes.len())),
    }
    if numbers[partition].shape.len() < 2 {
        numbers.iter_mut().for_each(|each| each.shape.push(1));
    }
    Ok(())
}

/// The shape that shapes stretch to; None if they do not fit.
fn together(shapes: impl Iterator<Item = Vec<usize>>) -> Option<Vec<usize>> {
    shapes.into_iter().try_fold(Vec::new(), |mut grid: Vec<usize>, shape| {
        while grid.len() < shape.len() {
            grid.insert(0, 1);
        }
        let missing = grid.len() - shape.len();
        for (length, &own) in grid[missing..].iter_mut().zip(&shape) {
            if *length == 1 {
                *length = own;
            } else if own != 1 && own != *length {
                return None;
            }
        }
        Some(grid)
    })
}
