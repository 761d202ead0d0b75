//! Loops of the float32 operators over rows of elements: each operator's loop is its own, so that the compiler can
//! vectorise it, and the choice among them is made once an instruction.

use crate::machine::isa::alu::AluOp;

/// Writes `$body` out for every float32 operator, `$step` being its step of two values.
macro_rules! with_step {
    ($op:expr, $step:ident => $body:expr) => {
        with_step!(@ $op, $step => $body;
            Add Subtract Multiply Maximum Minimum Equal NotEqual GreaterEqual Greater LessEqual Less
            LogicalAnd LogicalOr LogicalXor AbsMax AbsMin Abs Square Relu Reciprocal)
    };
    (@ $op:expr, $step:ident => $body:expr; $($name:ident)*) => {
        match $op {
            $(AluOp::$name => {
                let $step = |x: f32, y: f32| AluOp::$name.apply(x, y);
                $body
            })*
            other => {
                let $step = |x: f32, y: f32| other.apply(x, y);
                $body
            }
        }
    };
}
pub(super) use with_step;

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
pub(super) fn fold(op: AluOp, state: &mut [f32], values: &[f32], columns: usize) {
    with_step!(op, step => fold_with(step, state, values, columns));
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

/// x * y + z, rounded once: what a fused unit gives, on machines without one too.
///
/// The product of two float32 is exact in float64. Its sum with z is rounded to odd there, and a number rounded to odd
/// with two more bits than needed rounds on as the exact one would.
#[inline(always)]
pub(super) fn fused(x: f32, y: f32, z: f32) -> f32 {
    let (product, z) = (f64::from(x) * f64::from(y), f64::from(z));
    let sum = product + z;
    let part = sum - product;
    let error = (product - (sum - part)) + (z - part);
    let bits = sum.to_bits();
    // One step towards the error if the sum is even, inexact and no infinity or NaN.
    let away = (error > 0.0) == (sum > 0.0);
    let stepped = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let is_even = bits & 1 == 0;
    let rounded = if error != 0.0 && is_even && sum.abs() < f64::INFINITY { stepped } else { bits };
    f64::from_bits(rounded) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn test_fused_rounds_once(x in any::<u32>(), y in any::<u32>(), z in any::<u32>()) {
            let [x, y, z] = [x, y, z].map(f32::from_bits);
            let (got, expected) = (fused(x, y, z), x.mul_add(y, z));
            prop_assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan());
        }

        #[test]
        fn test_fused_rounds_once_near_cancellation(x in 1u32..1 << 24, y in 1u32..1 << 24, shift in -40i32..40, z in any::<bool>()) {
            let (x, y) = (x as f32, y as f32);
            let z = (x * y) * 2f32.powi(shift) * if z { 1.0 } else { -1.0 };
            prop_assert_eq!(fused(x, y, z).to_bits(), x.mul_add(y, z).to_bits());
        }

        #[test]
        fn test_fold_is_ascending_in_every_row(rows in 1usize..20, columns in 0usize..9, seed in any::<u32>()) {
            let values: Vec<f32> =
                (0..rows * columns).map(|i| ((i as u32).wrapping_mul(seed | 1) % 1000) as f32 * 0.37).collect();
            let mut state = vec![0.5; rows];
            fold(AluOp::Subtract, &mut state, &values, columns);
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
