//! The skip-zero product, by the definition.

/// One K tile of one output: the nonzero slots of the tile in ascending k, `(k, value)`, extend a chain from +0 by one
/// float32 rounding a step; a stored zero does nothing, whatever `a` holds there.
pub(crate) fn chain(a: &[f32], slots: impl Iterator<Item = (usize, f32)>) -> f32 {
    slots.filter(|&(_, value)| value != 0.0).fold(0.0, |sum, (k, value)| a[k].mul_add(value, sum))
}
