//! Functions that some levels compute in float32 first, and what that leaves to the definition's float64.

use super::moving::moving;
use super::{ActivationFunction, activate_exactly};
use crate::simd::{ActiveLevel, LANES, PerLevel, Tables, Traffic, kernel, per_level};

/// Vectors after which it is looked at whether any lane is in doubt.
pub(super) const GROUP: usize = 2;
/// How many arguments are left to float64 together: more make its last vector, which is rarely full, cost less.
const MANY: usize = 128;

/// Arguments whose results are in doubt.
pub(super) struct Doubtful {
    /// Those of a group may follow the many, and what is behind the lanes that are set.
    arguments: [u32; MANY + (GROUP + 1) * LANES],
    places: [u32; MANY + (GROUP + 1) * LANES],
    count: usize,
    /// How many values are computed, but for those that are in doubt.
    pub(super) done: usize,
}

/// How many values are copied where they are their own source: what is in doubt is read once more, after its result.
const COPIED: usize = 2048;

impl Doubtful {
    const NONE: Self =
        Self { arguments: [0; MANY + (GROUP + 1) * LANES], places: [0; MANY + (GROUP + 1) * LANES], count: 0, done: 0 };

    pub(super) fn is_full(&self) -> bool {
        self.count > MANY
    }

    /// Keeps the lanes of a mask, the first of all lanes being that of the value at `place`.
    #[inline(always)]
    pub(super) fn add<L: Tables>(&mut self, l: L, mask: L::M, x: L::F, place: usize) {
        const LANE: [u32; LANES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let places = l.add_i(l.splat_i(place as u32), l.load_i(&LANE));
        let room = (self.arguments[self.count..].first_chunk_mut(), self.places[self.count..].first_chunk_mut());
        if let (Some(to_arguments), Some(to_places)) = room {
            l.pack(mask, places, to_places);
            self.count += l.pack(mask, l.bits(x), to_arguments);
        }
    }

    /// Computes what is in doubt.
    fn settle(&mut self, level: ActiveLevel, function: ActivationFunction, values: &mut [f32]) {
        // Whole vectors, whatever is in their last lanes.
        let count = self.count.next_multiple_of(LANES);
        let results = bytemuck::cast_slice_mut(&mut self.arguments[..count]);
        activate_exactly(level, function, 0.0, None, results, Traffic::Near);
        for (place, result) in self.places[..self.count].iter().zip(results) {
            // There is none behind the end of the values, whose last vector is a whole one too.
            if let Some(value) = values.get_mut(*place as usize) {
                *value = *result;
            }
        }
        self.count = 0;
    }
}

type Quick = fn(ActivationFunction, &[f32], &mut [f32], &mut Doubtful);

macro_rules! quick {
    ($level:ident) => {
        Some(kernel!(
            $level,
            super::simd::quick::activate,
            (function: ActivationFunction, source: &[f32], values: &mut [f32], doubtful: &mut Doubtful)
        ))
    };
}

static QUICK: PerLevel<Option<Quick>> = per_level! {
    scalar: None,
    portable: None,
    avx2: None,
    avx512: quick!(avx512),
    avx512bf16: quick!(avx512bf16),
};

/// As [`activate_exactly`], which it leaves as little to as a level can.
pub(super) fn activate(
    level: ActiveLevel,
    function: ActivationFunction,
    parameter: f32,
    source: Option<&[f32]>,
    values: &mut [f32],
    traffic: Traffic,
) {
    use ActivationFunction::{Arctan, Gelu, Log, Sin, Tanh};
    match QUICK.at(level) {
        Some(quick) if matches!(function, Tanh | Gelu | Log | Sin | Arctan) => {
            let complete = |source: &[f32], values: &mut [f32]| {
                let mut doubtful = Doubtful::NONE;
                while doubtful.done < values.len() {
                    quick(function, source, values, &mut doubtful);
                    doubtful.settle(level, function, values);
                }
            };
            if let Some(source) = source {
                return complete(source, values);
            }
            for values in values.chunks_mut(COPIED) {
                let mut copy = [0.0; COPIED];
                copy[..values.len()].copy_from_slice(values);
                complete(&copy[..values.len()], values);
            }
        }
        _ => match moving(level, function, values.len(), traffic) {
            Some(moving) => moving(function, parameter, source, values),
            None => activate_exactly(level, function, parameter, source, values, traffic),
        },
    }
}
