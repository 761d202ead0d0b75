//! Loops of the float32 operators over rows of elements: each operator's loop is its own, so that the compiler can
//! vectorise it, and the choice among them is made once an instruction.

use trn3_numerics::{PairStep, fold_rows};

use crate::error::Result;
use crate::isa::alu::AluOp;

/// Writes `$body` out for each of these operators, `$known` being the one at hand, and once for all others: inside each
/// copy the operator is a constant, on which nothing branches.
macro_rules! with_known {
    ($op:expr, $known:ident => $body:expr; $($name:ident)*) => {
        match $op {
            $(AluOp::$name => {
                let $known = AluOp::$name;
                $body
            })*
            $known => $body,
        }
    };
}

/// Writes `$body` out for every float32 operator, `$step` being its step of two values.
macro_rules! with_step {
    ($op:expr, $step:ident => $body:expr) => {
        $crate::isa::steps::with_known!($op, known => {
            let $step = |x: f32, y: f32| known.apply(x, y);
            $body
        }; Add Subtract Multiply Maximum Minimum Equal NotEqual GreaterEqual Greater LessEqual Less
           LogicalAnd LogicalOr LogicalXor AbsMax AbsMin Abs Square Relu Reciprocal)
    };
}
pub(super) use with_known;

/// x = op(x, y) on bit patterns, element by element.
pub(super) fn pair_bits(op: AluOp, x: &mut [u32], y: &[u32], width: u32) {
    with_known!(op, known => x.iter_mut().zip(y).for_each(|(x, y)| *x = known.apply_bits(*x, *y, width));
        BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift);
}

/// x = op(x, scalar) on bit patterns in rows of `columns`, a scalar a row; op(scalar, x) if `reverse`.
pub(super) fn scalar_bits(op: AluOp, x: &mut [u32], columns: usize, scalars: &[u32], reverse: bool, width: u32) {
    with_known!(op, known => {
        for (row, &scalar) in x.chunks_exact_mut(columns.max(1)).zip(scalars) {
            if reverse && !known.is_unary() {
                row.iter_mut().for_each(|x| *x = known.apply_bits(scalar, *x, width));
            } else {
                row.iter_mut().for_each(|x| *x = known.apply_bits(*x, scalar, width));
            }
        }
    }; BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift Invert);
}

/// x = op(x, y) on 32-bit integers, wrapping; `signed` says which of the two are.
pub(super) fn pair_integers(op: AluOp, x: &mut [u32], y: &[u32], signed: [bool; 2]) {
    let extend = |bits: u32, signed: bool| if signed { i64::from(bits as i32) } else { i64::from(bits) };
    with_known!(op, known => {
        x.iter_mut().zip(y).for_each(|(x, y)| {
            *x = known.apply_integer(extend(*x, signed[0]), extend(*y, signed[1])) as u32;
        });
    }; Add Subtract Multiply Maximum Minimum Equal NotEqual GreaterEqual Greater LessEqual Less);
}

/// x = op(x, y), element by element.
pub(super) fn pair(op: AluOp, x: &mut [f32], y: &[f32]) {
    with_step!(op, step => x.iter_mut().zip(y).for_each(|(x, y)| *x = step(*x, *y)));
}

/// x = op(y, x), element by element.
pub(super) fn pair_reversed(op: AluOp, x: &mut [f32], y: &[f32]) {
    with_step!(op, step => x.iter_mut().zip(y).for_each(|(x, y)| *x = step(*y, *x)));
}

/// x = op(x, scalar) in rows of `columns`, a scalar a row; op(scalar, x) if `reverse`. Unary operators ignore the
/// scalar, and which side it is on.
pub(super) fn scalar(op: AluOp, values: &mut [f32], columns: usize, scalars: &[f32], reverse: bool) {
    with_step!(op, step => {
        for (row, &scalar) in rows_mut(values, columns).zip(scalars) {
            if reverse && !op.is_unary() {
                row.iter_mut().for_each(|x| *x = step(scalar, *x));
            } else {
                row.iter_mut().for_each(|x| *x = step(*x, scalar));
            }
        }
    });
}

/// Rows of `columns` elements; none of an empty tile.
pub(super) fn rows(values: &[f32], columns: usize) -> std::slice::ChunksExact<'_, f32> {
    values.chunks_exact(columns.max(1))
}

/// Rows of `columns` elements; none of an empty tile.
pub(super) fn rows_mut(values: &mut [f32], columns: usize) -> std::slice::ChunksExactMut<'_, f32> {
    values.chunks_exact_mut(columns.max(1))
}

/// Rows whose chains run side by side: one alone would wait for each step of its own.
const LANES: usize = 8;

/// state = op(state, x) for every x of its row in ascending order, rows of `columns` elements.
///
/// # Errors
/// [`crate::Error::Numerics`] where the SIMD level asked for is none.
pub(super) fn fold(op: AluOp, state: &mut [f32], values: &[f32], columns: usize) -> Result<()> {
    let step = match op {
        AluOp::Add => PairStep::Add,
        AluOp::Subtract => PairStep::Subtract,
        AluOp::Multiply => PairStep::Multiply,
        AluOp::Maximum => PairStep::Maximum,
        AluOp::Minimum => PairStep::Minimum,
        _ => {
            with_step!(op, step => fold_with(step, state, values, columns));
            return Ok(());
        }
    };
    Ok(fold_rows(step, columns, values, state)?)
}

#[inline(always)]
fn fold_with(step: impl Fn(f32, f32) -> f32, state: &mut [f32], values: &[f32], columns: usize) {
    if columns == 0 {
        return;
    }
    let (groups, rest) = state.as_chunks_mut::<LANES>();
    for (lanes, block) in groups.iter_mut().zip(values.chunks_exact(LANES * columns)) {
        let rows: [&[f32]; LANES] = std::array::from_fn(|lane| &block[lane * columns..][..columns]);
        for column in 0..columns {
            for lane in 0..LANES {
                lanes[lane] = step(lanes[lane], rows[lane][column]);
            }
        }
    }
    let done = groups.len() * LANES * columns;
    for (state, row) in rest.iter_mut().zip(values[done..].chunks_exact(columns)) {
        *state = row.iter().fold(*state, |state, x| step(state, *x));
    }
}

/// x = running = (x inner running) outer y along each row of `columns`, several rows side by side.
///
/// Operators come as such, not as a closure: compilers do not always inline the call of one.
#[inline(always)]
pub(super) fn recur(inner: AluOp, outer: AluOp, running: &mut [f32], x: &mut [f32], y: &[f32], columns: usize) {
    let (groups, rest) = running.as_chunks_mut::<LANES>();
    let done = groups.len() * LANES * columns;
    for (group, lanes) in groups.iter_mut().enumerate() {
        let block = group * LANES * columns..(group + 1) * LANES * columns;
        let (x, y) = (&mut x[block.clone()], &y[block]);
        for column in 0..columns {
            for lane in 0..LANES {
                let at = lane * columns + column;
                lanes[lane] = outer.apply(inner.apply(x[at], lanes[lane]), y[at]);
                x[at] = lanes[lane];
            }
        }
    }
    for (row, running) in rest.iter_mut().enumerate() {
        for at in done + row * columns..done + (row + 1) * columns {
            *running = outer.apply(inner.apply(x[at], *running), y[at]);
            x[at] = *running;
        }
    }
}

/// As [`recur`] with each operator's operands exchanged or not.
pub(super) fn recur_reversed(
    (inner, reverse_inner): (AluOp, bool),
    (outer, reverse_outer): (AluOp, bool),
    running: &mut [f32],
    x: &mut [f32],
    y: &[f32],
    columns: usize,
) {
    for (row, running) in running.iter_mut().enumerate() {
        for at in row * columns..(row + 1) * columns {
            let value = if reverse_inner { inner.apply(*running, x[at]) } else { inner.apply(x[at], *running) };
            *running = if reverse_outer { outer.apply(y[at], value) } else { outer.apply(value, y[at]) };
            x[at] = *running;
        }
    }
}

/// x = running = op(x, running) along each row of `columns`.
pub(super) fn cumulate(op: AluOp, running: &mut [f32], x: &mut [f32], columns: usize) {
    with_step!(op, step => {
        for (running, row) in running.iter_mut().zip(rows_mut(x, columns)) {
            for x in row {
                *running = step(*x, *running);
                *x = *running;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn test_fold_is_ascending_in_every_row(rows in 1usize..20, columns in 0usize..9, seed in any::<u32>()) {
            let values: Vec<f32> =
                (0..rows * columns).map(|i| ((i as u32).wrapping_mul(seed | 1) % 1000) as f32 * 0.37).collect();
            let mut state = vec![0.5; rows];
            fold(AluOp::Subtract, &mut state, &values, columns).expect("a level");
            for row in 0..rows {
                let mut expected = 0.5f32;
                for column in 0..columns {
                    expected -= values[row * columns + column];
                }
                prop_assert_eq!(state[row], expected);
            }
        }
    }

    #[test]
    fn test_scalar_ignores_reversal_of_unary_operators() {
        let mut values = [3.0, -4.0];
        scalar(AluOp::Square, &mut values, 2, &[0.0], true);
        assert_eq!(values, [9.0, 16.0]);
    }
}
