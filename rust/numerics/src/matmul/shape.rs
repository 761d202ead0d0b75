//! Which operands make a product, and of what shape.

use crate::error::{Error, Result};
use crate::format::Format;

fn is_float32(format: Format) -> bool {
    matches!(format, Format::F32 | Format::Tf32)
}

const OPERANDS: &str = "bfloat16, float16, float32, tfloat32, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4 (float32 and tfloat32 \
     only with each other)";

/// Checks that the array's operands may meet; `a` and `b` are how the caller knows them.
pub(crate) fn check_formats(names: [&'static str; 2], a: Format, b: Format) -> Result<()> {
    for (name, format) in names.into_iter().zip([a, b]) {
        if matches!(format, Format::F4E2M1Fn | Format::F8E8M0Fnu) {
            return Err(Error::dtype(name, format, OPERANDS));
        }
    }
    if is_float32(a) != is_float32(b) {
        return Err(Error::dtype(names[1], format!("{b} where {} has {a}", names[0]), OPERANDS));
    }
    Ok(())
}

/// The result shape of a [..., M, K] by [..., K, N] product, batch axes broadcast as NumPy's.
///
/// # Errors
/// [`Error::Shape`] naming the operand that does not fit.
///
/// ```
/// assert_eq!(trn3_numerics::product_shape(&[5, 1, 2, 3], &[4, 3, 7])?, [5, 4, 2, 7]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn product_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    for (name, shape) in [("a", a), ("b", b)] {
        if shape.len() < 2 {
            return Err(Error::shape(name, shape, "it needs at least two axes"));
        }
    }
    let ((batch_a, [m, k]), (batch_b, [k_b, n])) = (split(a), split(b));
    if k != k_b {
        return Err(Error::shape("b", b, format!("its second-last axis must be {k} long, as a's last in shape {a:?}")));
    }
    let rank = batch_a.len().max(batch_b.len());
    let length = |batch: &[usize], axis: usize| (axis + batch.len()).checked_sub(rank).map_or(1, |axis| batch[axis]);
    let mut shape = Vec::with_capacity(rank + 2);
    for axis in 0..rank {
        let (of_a, of_b) = (length(batch_a, axis), length(batch_b, axis));
        if of_a != of_b && of_a != 1 && of_b != 1 {
            return Err(Error::shape("b", b, format!("its batch axes must broadcast with a's in shape {a:?}")));
        }
        shape.push(if of_a == 1 { of_b } else { of_a });
    }
    shape.extend([m, n]);
    Ok(shape)
}

pub(super) fn split(shape: &[usize]) -> (&[usize], [usize; 2]) {
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    (batch, [matrix[0], matrix[1]])
}

/// The position of an element that has the C-order index `index`.
pub(crate) fn unravel(mut index: usize, shape: &[usize]) -> Vec<usize> {
    let mut position = vec![0; shape.len()];
    for (slot, &length) in position.iter_mut().zip(shape).rev() {
        *slot = index % length;
        index /= length;
    }
    position
}
