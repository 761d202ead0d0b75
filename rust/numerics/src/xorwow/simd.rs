//! Sixteen XORWOW streams in step: a state word of all streams is one vector, and sixteen draws of all streams are
//! transposed so that every stream's run is written in order.

use super::generator::{WEYL_STEP, WORDS};
use super::output::{Filling, Output};
use super::polynomial::Polynomial;
use crate::simd::{LANES, Lanes, STREAM_WRITE_AHEAD, prefetch_second};

/// The states of one generator of sixteen streams, a row for each word.
pub(crate) type Block = [[u32; LANES]; WORDS];

#[inline(always)]
fn load<L: Lanes>(l: L, block: &Block) -> [L::I; WORDS] {
    let mut state = [l.splat_i(0); WORDS];
    for word in 0..WORDS {
        state[word] = l.load_i(&block[word]);
    }
    state
}

#[inline(always)]
fn store<L: Lanes>(l: L, state: [L::I; WORDS], block: &mut Block) {
    for word in 0..WORDS {
        l.store_i(state[word], &mut block[word]);
    }
}

/// The xorshift part of a step.
#[inline(always)]
fn shift<L: Lanes>(l: L, state: &mut [L::I; WORDS]) -> L::I {
    let [x, y, z, w, v, d] = *state;
    let t = l.xor(x, l.shr(x, 2));
    // What hangs on the step before comes last.
    let next = l.xor_three(l.xor(t, l.add_i(t, t)), v, l.shl(v, 4));
    *state = [y, z, w, v, next, d];
    next
}

#[inline(always)]
fn step<L: Lanes>(l: L, state: &mut [L::I; WORDS]) -> L::I {
    let next = shift(l, state);
    state[5] = l.add_i(state[5], l.splat_i(WEYL_STEP));
    l.add_i(next, state[5])
}

/// What becomes of the draws of sixteen streams.
pub(crate) trait Sink<L: Lanes> {
    /// Takes the sixteen draws of a stream that stand at a place, counted in vectors.
    fn put(&mut self, l: L, stream: usize, place: usize, draws: L::I);
}

/// Draws, or numbers of a range, that go to rows `stride` vectors apart.
struct Rows<'a, const UNIFORM: bool> {
    range: [f32; 2],
    stride: usize,
    out: &'a mut [[u32; LANES]],
}

impl<L: Lanes, const UNIFORM: bool> Sink<L> for Rows<'_, UNIFORM> {
    #[inline(always)]
    fn put(&mut self, l: L, stream: usize, place: usize, draws: L::I) {
        let [low, width] = self.range;
        let values = if UNIFORM {
            let fraction = l.mul_f(l.int_to_float(l.shr(draws, 8)), l.splat_f(1.0 / 16_777_216.0));
            l.bits(l.add_f(l.splat_f(low), l.mul_f(l.splat_f(width), fraction)))
        } else {
            draws
        };
        let row = &mut self.out[stream * self.stride + place];
        prefetch_second(row, STREAM_WRITE_AHEAD);
        l.store_i(values, row);
    }
}

/// See [`super::group::fill_streams`].
#[inline(always)]
pub(super) fn fill<L: Lanes>(
    l: L,
    state: &mut [Block],
    Filling { output, steps, stride }: Filling,
    out: &mut [[u32; LANES]],
) {
    match output {
        Output::Draws => make(l, state, steps, &mut Rows::<false> { range: [0.0; 2], stride, out }),
        Output::Uniform { low, high } => {
            make(l, state, steps, &mut Rows::<true> { range: [low, high - low], stride, out });
        }
    }
}

/// Advances sixteen streams of one or four generators and hands over their draws, in whole vectors: what is in the last
/// ones beyond `steps` is unspecified.
#[inline(always)]
pub(crate) fn make<L: Lanes>(l: L, state: &mut [Block], steps: usize, sink: &mut impl Sink<L>) {
    if let [one] = state {
        make_each::<L, 1>(l, std::array::from_mut(one), steps, sink);
    } else if let Ok(four) = <&mut [Block; 4]>::try_from(state) {
        make_each::<L, 4>(l, four, steps, sink);
    }
}

#[inline(always)]
fn make_each<L: Lanes, const GENERATORS: usize>(
    l: L,
    state: &mut [Block; GENERATORS],
    steps: usize,
    sink: &mut impl Sink<L>,
) {
    let mut generators = [[l.splat_i(0); WORDS]; GENERATORS];
    for generator in 0..GENERATORS {
        generators[generator] = load(l, &state[generator]);
    }
    for place in 0..steps / LANES {
        let mut tile = [l.splat_i(0); LANES];
        // One generator after the other: the registers do not hold the states of four.
        for generator in 0..GENERATORS {
            for turn in 0..LANES / GENERATORS {
                tile[turn * GENERATORS + generator] = step(l, &mut generators[generator]);
            }
        }
        hand_over(l, tile, place, sink);
    }
    if !steps.is_multiple_of(LANES) {
        let mut tile = [l.splat_i(0); LANES];
        for index in 0..steps % LANES {
            tile[index] = step(l, &mut generators[index % GENERATORS]);
        }
        hand_over(l, tile, steps / LANES, sink);
    }
    for generator in 0..GENERATORS {
        store(l, generators[generator], &mut state[generator]);
    }
}

#[inline(always)]
fn hand_over<L: Lanes>(l: L, mut tile: [L::I; LANES], place: usize, sink: &mut impl Sink<L>) {
    l.transpose(&mut tile);
    for stream in 0..LANES {
        sink.put(l, stream, place, tile[stream]);
    }
}

/// See [`super::group::jump_streams`].
#[inline(always)]
pub(super) fn jump<L: Lanes>(l: L, polynomial: &Polynomial, weyl: u32, block: &mut Block) {
    let mut state = load(l, block);
    let mut sum = [l.splat_i(0); WORDS];
    sum[5] = l.add_i(state[5], l.splat_i(weyl));
    for power in 0..=polynomial.degree() {
        let mask = l.splat_i(u32::from(polynomial.coefficient(power)).wrapping_neg());
        for (sum, word) in sum.iter_mut().zip(state).take(WORDS - 1) {
            *sum = l.xor(*sum, l.and(word, mask));
        }
        shift(l, &mut state);
    }
    store(l, sum, block);
}
