//! Rows of numbers taken to one each, and rows turned to columns: sixteen side by side.
//!
//! Each row's own order stays, whatever lies beside it.

use crate::error::Result;
use crate::fpenv;
use crate::lane_steps::{PairStep, check_length, larger, smaller};
use crate::simd::{LANES, Lanes, active_level, dispatch};

/// Numbers that are joined in one run by [`join_rows`]; results of runs join in ascending order **(choice)**.
pub const JOINED_RUN: usize = 4096;

dispatch! {
    fn join_lines(step: PairStep, columns: usize, values: &[f32], out: &mut [f32]) = join_scalar, join_lanes;

    fn fold_lines(step: PairStep, columns: usize, values: &[f32], state: &mut [f32]) = fold_scalar, fold_lanes;

    fn turn_lines(columns: usize, words: &[u32], out: &mut [u32]) = turn_scalar, turn_lanes;
}

#[inline(always)]
fn join_scalar(step: PairStep, columns: usize, values: &[f32], out: &mut [f32]) {
    let joined = |row: &[f32], join: &dyn Fn(f32, f32) -> f32| {
        let runs = row.chunks(JOINED_RUN).map(|run| run.iter().fold(step.identity(), |sum, &value| join(sum, value)));
        runs.reduce(join).unwrap_or(step.identity())
    };
    for (row, out) in values.chunks(columns.max(1)).zip(out) {
        *out = match step {
            PairStep::Multiply => joined(row, &|x, y| x * y),
            PairStep::Maximum => joined(row, &larger),
            PairStep::Minimum => joined(row, &smaller),
            _ => joined(row, &|x, y| x + y),
        };
    }
}

/// Takes columns from `start` to `end` of up to sixteen rows into a value each, sixteen columns turned at a time: each row's
/// own order stays.
#[inline(always)]
fn join_columns<L: Lanes>(
    l: L,
    columns: usize,
    rows: &[f32],
    (start, end): (usize, usize),
    count: usize,
    sums: &mut [f32; LANES],
    join: impl Fn(f32, f32) -> f32,
) {
    for first in (start..end).step_by(LANES) {
        let width = LANES.min(end - first);
        let mut tile = [l.splat_i(0); LANES];
        for (row, slot) in tile[..count].iter_mut().enumerate() {
            let line = &rows[row * columns + first..][..width];
            *slot = match line.first_chunk::<LANES>() {
                Some(line) => l.bits(l.load_f(line)),
                None => {
                    let mut padded = [0.0; LANES];
                    padded[..width].copy_from_slice(line);
                    l.bits(l.load_f(&padded))
                }
            };
        }
        l.transpose(&mut tile);
        for column in &tile[..width] {
            let mut numbers = [0.0; LANES];
            l.store_f(l.float(*column), &mut numbers);
            for lane in 0..LANES {
                sums[lane] = join(sums[lane], numbers[lane]);
            }
        }
    }
}

/// Sixteen rows side by side.
#[inline(always)]
fn join_sixteen<L: Lanes>(
    l: L,
    columns: usize,
    values: &[f32],
    out: &mut [f32],
    identity: f32,
    join: impl Fn(f32, f32) -> f32,
) {
    for (rows, out) in values.chunks(LANES * columns).zip(out.chunks_mut(LANES)) {
        let mut totals = [identity; LANES];
        for (run, start) in (0..columns).step_by(JOINED_RUN).enumerate() {
            let mut sums = [identity; LANES];
            let end = (start + JOINED_RUN).min(columns);
            join_columns(l, columns, rows, (start, end), out.len(), &mut sums, &join);
            for lane in 0..LANES {
                totals[lane] = if run == 0 { sums[lane] } else { join(totals[lane], sums[lane]) };
            }
        }
        out.copy_from_slice(&totals[..out.len()]);
    }
}

#[inline(always)]
fn join_lanes<L: Lanes>(l: L, step: PairStep, columns: usize, values: &[f32], out: &mut [f32]) {
    let identity = step.identity();
    match step {
        PairStep::Multiply => join_sixteen(l, columns, values, out, identity, |x, y| x * y),
        PairStep::Maximum => join_sixteen(l, columns, values, out, identity, larger),
        PairStep::Minimum => join_sixteen(l, columns, values, out, identity, smaller),
        _ => join_sixteen(l, columns, values, out, identity, |x, y| x + y),
    }
}

#[inline(always)]
fn fold_scalar(step: PairStep, columns: usize, values: &[f32], state: &mut [f32]) {
    let mut fold = |step: &dyn Fn(f32, f32) -> f32| {
        for (row, state) in values.chunks(columns).zip(&mut *state) {
            *state = row.iter().fold(*state, |state, &value| step(state, value));
        }
    };
    match step {
        PairStep::Add => fold(&|x, y| x + y),
        PairStep::Subtract => fold(&|x, y| x - y),
        PairStep::Multiply => fold(&|x, y| x * y),
        PairStep::Divide => fold(&|x, y| x * (1.0 / y)),
        PairStep::Maximum => fold(&larger),
        PairStep::Minimum => fold(&smaller),
    }
}

#[inline(always)]
fn fold_sixteen<L: Lanes>(l: L, columns: usize, values: &[f32], state: &mut [f32], step: impl Fn(f32, f32) -> f32) {
    for (rows, state) in values.chunks(LANES * columns).zip(state.chunks_mut(LANES)) {
        let mut sums = [0.0; LANES];
        sums[..state.len()].copy_from_slice(state);
        join_columns(l, columns, rows, (0, columns), state.len(), &mut sums, &step);
        state.copy_from_slice(&sums[..state.len()]);
    }
}

#[inline(always)]
fn fold_lanes<L: Lanes>(l: L, step: PairStep, columns: usize, values: &[f32], state: &mut [f32]) {
    match step {
        PairStep::Add => fold_sixteen(l, columns, values, state, |x, y| x + y),
        PairStep::Subtract => fold_sixteen(l, columns, values, state, |x, y| x - y),
        PairStep::Multiply => fold_sixteen(l, columns, values, state, |x, y| x * y),
        PairStep::Divide => fold_sixteen(l, columns, values, state, |x, y| x * (1.0 / y)),
        PairStep::Maximum => fold_sixteen(l, columns, values, state, larger),
        PairStep::Minimum => fold_sixteen(l, columns, values, state, smaller),
    }
}

#[inline(always)]
fn turn_scalar(columns: usize, words: &[u32], out: &mut [u32]) {
    let rows = words.len() / columns;
    for (column, line) in out.chunks_exact_mut(rows).enumerate() {
        line.iter_mut().zip(words[column..].iter().step_by(columns)).for_each(|(to, from)| *to = *from);
    }
}

/// Blocks of sixteen by sixteen, and by the definition what is left at the edges.
#[inline(always)]
fn turn_lanes<L: Lanes>(l: L, columns: usize, words: &[u32], out: &mut [u32]) {
    let rows = words.len() / columns;
    let (whole_rows, whole_columns) = (rows - rows % LANES, columns - columns % LANES);
    for top in (0..whole_rows).step_by(LANES) {
        for left in (0..whole_columns).step_by(LANES) {
            let mut tile = [l.splat_i(0); LANES];
            for (row, slot) in tile.iter_mut().enumerate() {
                if let Some(line) = words[(top + row) * columns + left..].first_chunk() {
                    *slot = l.load_i(line);
                }
            }
            l.transpose(&mut tile);
            for (column, line) in tile.iter().enumerate() {
                if let Some(to) = out[(left + column) * rows + top..].first_chunk_mut() {
                    l.store_i(*line, to);
                }
            }
        }
    }
    for (column, line) in out.chunks_exact_mut(rows).enumerate() {
        let first = if column < whole_columns { whole_rows } else { 0 };
        for (row, to) in line.iter_mut().enumerate().skip(first) {
            *to = words[row * columns + column];
        }
    }
}

/// Joins each row of `columns` numbers to one, in ascending order from the step's identity, in runs of [`JOINED_RUN`].
/// Which NaN a result is, is not specified. The calling thread works alone.
///
/// # Errors
/// [`crate::Error::Shape`] where `values` are not a row a result; [`crate::Error::Value`] when `TRN3_SIMD` is wrong.
///
/// ```
/// use trn3_numerics::{PairStep, join_rows};
///
/// let mut sums = [0.0; 2];
/// join_rows(PairStep::Add, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut sums)?;
/// assert_eq!(sums, [6.0, 15.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn join_rows(step: PairStep, columns: usize, values: &[f32], out: &mut [f32]) -> Result<()> {
    check_length("values", columns * out.len() == values.len(), columns * out.len())?;
    if columns == 0 {
        out.fill(step.identity());
        return Ok(());
    }
    let level = active_level()?;
    fpenv::with_default_environment(|| join_lines(level, step, columns, values, out));
    Ok(())
}

/// Takes each row of `columns` numbers into its value of `state`, in ascending order: state = state step number. Which NaN a
/// result is, is not specified. The calling thread works alone.
///
/// # Errors
/// [`crate::Error::Shape`] where `values` are not a row a value; [`crate::Error::Value`] when `TRN3_SIMD` is wrong.
///
/// ```
/// use trn3_numerics::{PairStep, fold_rows};
///
/// let mut state = [10.0, 20.0];
/// fold_rows(PairStep::Subtract, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut state)?;
/// assert_eq!(state, [4.0, 5.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn fold_rows(step: PairStep, columns: usize, values: &[f32], state: &mut [f32]) -> Result<()> {
    check_length("values", columns * state.len() == values.len(), columns * state.len())?;
    if columns > 0 {
        let level = active_level()?;
        fpenv::with_default_environment(|| fold_lines(level, step, columns, values, state));
    }
    Ok(())
}

/// Writes rows of `columns` words as columns: the transpose.
///
/// # Errors
/// [`crate::Error::Shape`] where `words` are no whole rows or `out` has another length; [`crate::Error::Value`] when `TRN3_SIMD` is wrong.
///
/// ```
/// let mut turned = [0; 6];
/// trn3_numerics::turn_words(3, &[1, 2, 3, 4, 5, 6], &mut turned)?;
/// assert_eq!(turned, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn turn_words(columns: usize, words: &[u32], out: &mut [u32]) -> Result<()> {
    check_length("out", words.len() == out.len(), words.len())?;
    check_length("words", words.is_empty() || columns > 0 && words.len().is_multiple_of(columns), words.len())?;
    if !words.is_empty() {
        turn_lines(active_level()?, columns, words, out);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_steps::tests::{levels, numbers};
    use crate::simd::with_level;

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| if value.is_nan() { f32::NAN } else { *value }.to_bits()).collect()
    }

    #[test]
    fn test_rows_join_in_order_at_every_level() {
        for (step, columns) in [(PairStep::Add, 5000), (PairStep::Multiply, 7), (PairStep::Maximum, 40)] {
            let values: Vec<f32> = numbers(19 * columns).iter().map(|x| if x.is_finite() { *x } else { 0.5 }).collect();
            let mut expected = [0.0; 19];
            join_scalar(step, columns, &values, &mut expected);
            for level in levels() {
                let mut found = [0.0; 19];
                with_level(level, || join_rows(step, columns, &values, &mut found)).unwrap().unwrap();
                assert_eq!(bits(&found), bits(&expected), "{step:?} at {level}");
            }
        }
        let mut found = [0.0; 2];
        join_rows(PairStep::Maximum, 2, &[1.0, f32::NAN, f32::NAN, 2.0], &mut found).unwrap();
        assert!(found.iter().all(|value| value.is_nan()));
    }

    #[test]
    fn test_rows_fold_in_order_at_every_level() {
        use PairStep::*;
        for step in [Add, Subtract, Multiply, Divide, Maximum, Minimum] {
            for (rows, columns) in [(1, 1), (15, 16), (16, 17), (37, 5), (64, 130)] {
                let values = numbers(rows * columns);
                let first: Vec<f32> = numbers(rows).into_iter().rev().collect();
                let mut expected = first.clone();
                fold_scalar(step, columns, &values, &mut expected);
                for level in levels() {
                    let mut found = first.clone();
                    with_level(level, || fold_rows(step, columns, &values, &mut found)).unwrap().unwrap();
                    assert_eq!(bits(&found), bits(&expected), "{step:?} of {rows} rows at {level}");
                }
            }
        }
        let mut kept = [3.0, 4.0];
        fold_rows(Add, 0, &[], &mut kept).unwrap();
        assert_eq!(kept, [3.0, 4.0]);
        assert!(fold_rows(Add, 2, &[1.0; 3], &mut kept).is_err());
    }

    #[test]
    fn test_words_are_turned_at_every_level() {
        for (rows, columns) in [(1, 1), (3, 40), (16, 16), (33, 17), (5, 64), (128, 128), (130, 31)] {
            let words: Vec<u32> = (0..(rows * columns) as u32).collect();
            for level in levels() {
                let mut out = vec![0; words.len()];
                with_level(level, || turn_words(columns, &words, &mut out)).unwrap().unwrap();
                for (place, word) in words.iter().enumerate() {
                    assert_eq!(out[place % columns * rows + place / columns], *word, "{rows} x {columns} at {level}");
                }
            }
        }
        assert!(turn_words(0, &[], &mut []).is_ok());
        assert!(turn_words(0, &[1], &mut [0]).is_err());
        assert!(turn_words(2, &[1, 2, 3], &mut [0; 3]).is_err());
    }
}
