//! Functions that do little but move values, between caches.

use super::{ActivationFunction, simd};
use crate::simd::{ActiveLevel, PerLevel, Traffic, kernel, per_level};

type Moving = fn(ActivationFunction, f32, Option<&[f32]>, &mut [f32]);

macro_rules! halved {
    () => {
        Some(kernel!(
            avx2,
            simd::activate_moving,
            (function: ActivationFunction, parameter: f32, source: Option<&[f32]>, values: &mut [f32])
        ))
    };
}

static MOVING: PerLevel<Option<Moving>> = per_level! {
    scalar: None,
    portable: None,
    avx2: halved!(),
    avx512: halved!(),
    avx512bf16: halved!(),
};

/// How to compute a function with vectors of half a level's width, where that is faster.
///
/// What is near ([`Traffic::Near`]) and long is so on AMD's Zen 4 alone, which splits 512-bit operations: vectors as long
/// as lines take 3 % longer from its third cache and back, and 10 % where the input is off lines while the output is not.
pub(super) fn moving(
    level: ActiveLevel,
    function: ActivationFunction,
    count: usize,
    traffic: Traffic,
) -> Option<Moving> {
    use ActivationFunction::{Abs, Copy, Prelu, Reciprocal, Relu, Sign, Square};
    let moves = matches!(function, Copy | Square | Relu | Prelu | Reciprocal | Sign | Abs);
    if moves && traffic == Traffic::Near && count >= simd::ALIGNED { *MOVING.at(level) } else { None }
}
