//! The systolic array, by the definition.

/// One K tile of one output: a chain from +0 in ascending k, one float32 rounding a step.
pub(crate) fn chain(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).fold(0.0, |sum, (&a, &b)| a.mul_add(b, sum))
}
