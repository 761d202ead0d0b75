//! Values times the scales of their blocks.

use crate::mx::BLOCK;
use crate::simd::{LANES, Lanes};

/// Multiplies each value by its factor.
#[inline(always)]
pub(crate) fn scale_each<L: Lanes>(l: L, values: &mut [f32], factors: &[f32]) {
    let (vectors, tail) = values.as_chunks_mut::<LANES>();
    let (by, tail_by) = factors.as_chunks::<LANES>();
    for (vector, factors) in vectors.iter_mut().zip(by) {
        l.store_f(l.mul_f(l.load_f(vector), l.load_f(factors)), vector);
    }
    for (value, factor) in tail.iter_mut().zip(tail_by) {
        *value *= factor;
    }
}

/// Multiplies each block of 32 values by its factor; the last block may be shorter.
#[inline(always)]
pub(crate) fn scale_blocks<L: Lanes>(l: L, values: &mut [f32], factors: &[f32]) {
    let (blocks, tail) = values.as_chunks_mut::<BLOCK>();
    for (block, factor) in blocks.iter_mut().zip(factors) {
        let factor = l.splat_f(*factor);
        for vector in block.as_chunks_mut::<LANES>().0 {
            l.store_f(l.mul_f(l.load_f(vector), factor), vector);
        }
    }
    if let (false, Some(factor)) = (tail.is_empty(), factors.last()) {
        for value in tail {
            *value *= factor;
        }
    }
}
