//! Streams one after another, by the definition.

use super::generator::{WORDS, step, uniform};
use super::output::{Filling, Output};
use super::polynomial::Polynomial;

/// The states of one generator of some streams, a row for each word.
type Block<const STREAMS: usize> = [[u32; STREAMS]; WORDS];

fn stream<const STREAMS: usize>(block: &Block<STREAMS>, index: usize) -> [u32; WORDS] {
    block.map(|words| words[index])
}

fn set_stream<const STREAMS: usize>(block: &mut Block<STREAMS>, index: usize, state: [u32; WORDS]) {
    for (words, word) in block.iter_mut().zip(state) {
        words[index] = word;
    }
}

/// See [`super::group::fill_streams`].
pub(super) fn fill<const STREAMS: usize>(state: &mut [Block<STREAMS>], filling: Filling, out: &mut [[u32; STREAMS]]) {
    let count = state.len();
    for (index, row) in out.as_flattened_mut().chunks_mut(filling.stride * STREAMS).enumerate() {
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

/// Advances streams and hands over their draws, sixteen at a time: the stream, the place in units of sixteen, the draws.
pub(crate) fn make<const STREAMS: usize>(
    state: &mut [Block<STREAMS>],
    steps: usize,
    mut work: impl FnMut(usize, usize, &[u32; STREAMS]),
) {
    let filling = Filling { output: Output::Draws, steps: STREAMS, stride: 1 };
    for place in 0..steps / STREAMS {
        let mut tile = [[0; STREAMS]; STREAMS];
        fill(state, filling, &mut tile);
        for (stream, draws) in tile.iter().enumerate() {
            work(stream, place, draws);
        }
    }
}

/// See [`super::group::jump_streams`].
pub(super) fn jump<const STREAMS: usize>(polynomial: &Polynomial, weyl: u32, block: &mut Block<STREAMS>) {
    for index in 0..STREAMS {
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
