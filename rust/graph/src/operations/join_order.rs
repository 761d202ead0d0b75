//! The order in which a reduction of floats joins its elements: what both executions keep to.

use trn3_numerics::for_each;

use crate::error::Result;

/// Elements that are reduced in one run; the results of runs join in ascending order **(choice)**: no instruction reduces
/// rows of any length.
pub(crate) const RUN: usize = 4096;
/// Lanes that long rows and columns are cut into: the partitions of a core and the rows of its array **(choice)**.
pub(crate) const LANES: usize = 128;
/// Rows from which each is joined on a partition of its own, however long it is **(choice)**.
const ENOUGH_ROWS: usize = 16;
/// Rows that are reduced side by side, to have work while a sum is on its way.
const SIDE_BY_SIDE: usize = 16;
/// Columns that a thread joins.
const STRIP: usize = 256;

/// Steps that a reduction goes by: first what the innermost axes hold, a row for each position of the others, then the
/// columns that are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinOrder {
    /// Axes from this one on are joined in the first step, together.
    pub(crate) tail: usize,
    /// Rows of the first step.
    pub(crate) rows: usize,
    /// Elements of each; 1 where the first step has nothing to do.
    pub(crate) length: usize,
    /// What the second step joins; None where there is none.
    pub(crate) columns: Option<ColumnAxes>,
}

/// Axes of the second step, by what happens to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnAxes {
    /// Axes that stay and stand before one that goes.
    pub(crate) before: Vec<usize>,
    /// Axes that go.
    pub(crate) joined: Vec<usize>,
    /// Axes that stay after these.
    pub(crate) inner: Vec<usize>,
}

impl JoinOrder {
    /// The steps of a reduction of `shape` over `dimensions`.
    pub(crate) fn new(shape: &[usize], dimensions: &[usize]) -> Self {
        let stays = |axis: &usize| shape[*axis] != 1 && !dimensions.contains(axis);
        let tail = (0..shape.len()).rev().find(stays).map_or(0, |axis| axis + 1);
        let joined: Vec<usize> = (0..tail).filter(|axis| shape[*axis] != 1 && dimensions.contains(axis)).collect();
        let columns = joined.last().copied().map(|last| ColumnAxes {
            before: (0..last).filter(|axis| !joined.contains(axis)).collect(),
            inner: (last + 1..tail).collect(),
            joined,
        });
        let length = |axes: &[usize]| axes.iter().product();
        Self { tail, rows: length(&shape[..tail]), length: length(&shape[tail..]), columns }
    }

    /// Of few long rows, how many elements a lane of one has: the last lane has the rest.
    pub(crate) fn lane_width(&self) -> Option<usize> {
        (self.rows < ENOUGH_ROWS && self.length > RUN).then(|| self.length.div_ceil(LANES))
    }

    /// Whether every result is a row joined in ascending order, in runs.
    pub(crate) fn is_by_rows(&self) -> bool {
        self.columns.is_none() && self.lane_width().is_none()
    }
}

impl ColumnAxes {
    /// Lengths of the three together.
    pub(crate) fn lengths(&self, shape: &[usize]) -> [usize; 3] {
        [&self.before, &self.joined, &self.inner].map(|axes| axes.iter().map(|&axis| shape[axis]).product())
    }

    /// The axes in this order.
    pub(crate) fn permutation(&self) -> Vec<usize> {
        [&self.before[..], &self.joined, &self.inner].concat()
    }
}

/// Joins rows of `length`, several side by side.
pub(crate) fn join_rows(values: &[f32], length: usize, identity: f32, join: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len() / length.max(1));
    for group in values.chunks(SIDE_BY_SIDE * length) {
        let lanes = group.len() / length;
        let mut totals = [identity; SIDE_BY_SIDE];
        for (run, start) in (0..length).step_by(RUN).enumerate() {
            let mut sums = [identity; SIDE_BY_SIDE];
            for column in start..(start + RUN).min(length) {
                for (lane, sum) in sums[..lanes].iter_mut().enumerate() {
                    *sum = join(*sum, group[lane * length + column]);
                }
            }
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total = if run == 0 { sum } else { join(*total, sum) };
            }
        }
        out.extend_from_slice(&totals[..lanes]);
    }
    out
}

/// Joins rows of `length` in lanes of `width`: each lane as a row, then the full lanes in ascending order, then with the
/// short one.
pub(crate) fn join_long_rows(
    values: &[f32],
    length: usize,
    width: usize,
    identity: f32,
    join: impl Fn(f32, f32) -> f32 + Copy,
) -> Vec<f32> {
    let of_row = |row: &[f32]| {
        let (full, short) = row.split_at(length - length % width);
        let total = join_rows(full, width, identity, join).into_iter().fold(identity, join);
        if short.is_empty() { total } else { join(total, join_rows(short, short.len(), identity, join)[0]) }
    };
    values.chunks(length).map(of_row).collect()
}

/// Joins the middle axis of `values` [before, joined, inner].
///
/// Each of 128 lanes has as many consecutive elements as all can have; what is left over is a lane less. Where the array
/// adds (`is_sum`), the first elements of all lanes are a chain, then the second ones, and so on; else each lane is joined
/// by itself and then one lane to another. What is left over comes last, in ascending order.
pub(crate) fn join_columns(
    values: &[f32],
    [before, joined, inner]: [usize; 3],
    identity: f32,
    is_sum: bool,
    join: impl Fn(f32, f32) -> f32 + Copy + Sync,
) -> Result<Vec<f32>> {
    let mut totals = vec![identity; before * inner];
    let deep = joined / LANES;
    let (outer, along, steps) = if is_sum { (deep, LANES, (1, deep)) } else { (LANES, deep, (deep, 1)) };
    let chains = if deep == 0 { 0 } else { outer };
    let strips: Vec<(usize, usize, &mut [f32])> = totals
        .chunks_mut(inner)
        .enumerate()
        .flat_map(|(place, row)| {
            let strip = move |(strip, totals)| (place * joined * inner, strip * STRIP, totals);
            row.chunks_mut(STRIP).enumerate().map(strip)
        })
        .collect();
    for_each(strips.into_iter(), |(start, column, totals)| {
        let width = totals.len();
        let chain = |rows: &mut dyn Iterator<Item = usize>| {
            let mut sums = [identity; STRIP];
            for row in rows {
                let row = &values[start + row * inner + column..][..width];
                sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum = join(*sum, value));
            }
            sums
        };
        for number in 0..=chains {
            let sums = if number < chains {
                chain(&mut (0..along).map(|place| number * steps.0 + place * steps.1))
            } else if deep * LANES < joined {
                chain(&mut (deep * LANES..joined))
            } else {
                break;
            };
            let both = |(total, sum): (&mut f32, f32)| *total = if number == 0 { sum } else { join(*total, sum) };
            totals.iter_mut().zip(sums).for_each(both);
        }
    })?;
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_innermost_axes_come_first_then_columns() {
        let order = |shape: &[usize], dimensions: &[usize]| JoinOrder::new(shape, dimensions);
        let columns = |before: &[usize], joined: &[usize], inner: &[usize]| {
            Some(ColumnAxes { before: before.to_vec(), joined: joined.to_vec(), inner: inner.to_vec() })
        };
        let of = |tail, rows, length, columns| JoinOrder { tail, rows, length, columns };
        assert_eq!(order(&[30, 40], &[1]), of(1, 30, 40, None));
        assert_eq!(order(&[30, 40], &[0]), of(2, 1200, 1, columns(&[], &[0], &[1])));
        assert_eq!(order(&[30, 40], &[0, 1]), of(0, 1, 1200, None));
        assert_eq!(order(&[2, 3, 4, 5], &[0, 2, 3]), of(2, 6, 20, columns(&[], &[0], &[1])));
        assert_eq!(order(&[2, 3, 4, 5], &[0, 2]), of(4, 120, 1, columns(&[1], &[0, 2], &[3])));
        assert_eq!(order(&[7, 1, 1], &[1]), of(1, 7, 1, None));
        assert_eq!(order(&[], &[]), of(0, 1, 1, None));
    }

    #[test]
    fn test_long_columns_go_by_lanes_of_consecutive_elements() {
        // What joins with the identity starts a chain.
        let names: Vec<f32> = (0..260).map(|value| value as f32).collect();
        let starts = |is_sum| -> Vec<f32> {
            let order = std::sync::Mutex::new(Vec::new());
            let note = |sum: f32, value: f32| {
                order.lock().unwrap().push((sum, value));
                value
            };
            join_columns(&names, [1, 260, 1], -1.0, is_sum, note).unwrap();
            order.into_inner().unwrap().into_iter().filter(|(sum, _)| *sum == -1.0).map(|(_, value)| value).collect()
        };
        // Chains of sums: element 0 of each lane of two, element 1, and four left over.
        assert_eq!(starts(true), vec![0.0, 1.0, 256.0]);
        let lanes: Vec<f32> = (0..128).map(|lane| 2.0 * lane as f32).chain([256.0]).collect();
        assert_eq!(starts(false), lanes);
    }
}
