//! XORWOW generators, by the definition.

use crate::simd::lanes::LANES;
use crate::xorwow::polynomial::Polynomial;
use crate::xorwow::simd::{Block, Filling, Output};

/// Words of a generator's state: the xorshift words x, y, z, w, v and the Weyl counter d.
pub(crate) const WORDS: usize = 6;

/// What the Weyl counter advances by.
pub(crate) const WEYL_STEP: u32 = 362_437;

/// Advances a generator by one step and returns its draw.
pub(crate) const fn step(state: &mut [u32; WORDS]) -> u32 {
    let [x, y, z, w, v, d] = *state;
    let t = x ^ (x >> 2);
    let v_next = (v ^ (v << 4)) ^ (t ^ (t << 1));
    let d_next = d.wrapping_add(WEYL_STEP);
    *state = [y, z, w, v, v_next, d_next];
    v_next.wrapping_add(d_next)
}

/// The number between `low` and `high` that a draw stands for; `width` is `high - low`.
pub(crate) fn uniform(draw: u32, low: f32, width: f32) -> f32 {
    let fraction = (draw >> 8) as f32 * (1.0 / 16_777_216.0);
    low + width * fraction
}

fn stream(block: &Block, index: usize) -> [u32; WORDS] {
    block.map(|words| words[index])
}

fn set_stream(block: &mut Block, index: usize, state: [u32; WORDS]) {
    for (words, word) in block.iter_mut().zip(state) {
        words[index] = word;
    }
}

/// See [`crate::xorwow::simd::fill`].
pub(crate) fn fill(state: &mut [Block], filling: Filling, out: &mut [[u32; LANES]]) {
    let count = state.len();
    for (index, row) in out.as_flattened_mut().chunks_mut(filling.stride * LANES).enumerate() {
        let mut generators = [[0; WORDS]; 4];
        for (generator, block) in generators.iter_mut().zip(state.iter()) {
            *generator = stream(block, index);
        }
        for (turn, value) in row.iter_mut().take(filling.steps).enumerate() {
            let draw = step(&mut generators[turn % count]);
            *value = match filling.output {
                Output::Draws => draw,
                Output::Uniform { low, high } => uniform(draw, low, high - low).to_bits(),
            };
        }
        for (block, generator) in state.iter_mut().zip(generators) {
            set_stream(block, index, generator);
        }
    }
}

/// See [`crate::xorwow::simd::jump`].
pub(crate) fn jump(polynomial: &Polynomial, weyl: u32, block: &mut Block) {
    for index in 0..LANES {
        let mut state = stream(block, index);
        let mut sum = [0, 0, 0, 0, 0, state[5].wrapping_add(weyl)];
        for power in 0..=polynomial.degree() {
            if polynomial.coefficient(power) {
                for (sum, word) in sum.iter_mut().zip(state).take(WORDS - 1) {
                    *sum ^= word;
                }
            }
            step(&mut state);
        }
        set_stream(block, index, sum);
    }
}
