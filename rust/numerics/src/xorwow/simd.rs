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

/// See [`super::group::fill_streams`].
#[inline(always)]
pub(super) fn fill<L: Lanes>(l: L, state: &mut [Block], filling: Filling, out: &mut [[u32; LANES]]) {
    if let [one] = state {
        fill_output::<L, 1>(l, std::array::from_mut(one), filling, out);
    } else if let Ok(four) = <&mut [Block; 4]>::try_from(state) {
        fill_output::<L, 4>(l, four, filling, out);
    }
}

#[inline(always)]
fn fill_output<L: Lanes, const GENERATORS: usize>(
    l: L,
    state: &mut [Block; GENERATORS],
    filling: Filling,
    out: &mut [[u32; LANES]],
) {
    match filling.output {
        Output::Draws => fill_rows::<L, GENERATORS, false>(l, state, filling, [0.0; 2], out),
        Output::Uniform { low, high } => fill_rows::<L, GENERATORS, true>(l, state, filling, [low, high - low], out),
    }
}

#[inline(always)]
fn fill_rows<L: Lanes, const GENERATORS: usize, const UNIFORM: bool>(
    l: L,
    state: &mut [Block; GENERATORS],
    Filling { steps, stride, .. }: Filling,
    range: [f32; 2],
    out: &mut [[u32; LANES]],
) {
    let mut generators = [[l.splat_i(0); WORDS]; GENERATORS];
    for generator in 0..GENERATORS {
        generators[generator] = load(l, &state[generator]);
    }
    for at in 0..steps / LANES {
        let mut tile = [l.splat_i(0); LANES];
        // One generator after the other: the registers do not hold the states of four.
        for generator in 0..GENERATORS {
            for turn in 0..LANES / GENERATORS {
                tile[turn * GENERATORS + generator] = step(l, &mut generators[generator]);
            }
        }
        write::<L, UNIFORM>(l, tile, range, &mut out[at..], stride);
    }
    if !steps.is_multiple_of(LANES) {
        let mut tile = [l.splat_i(0); LANES];
        for index in 0..steps % LANES {
            tile[index] = step(l, &mut generators[index % GENERATORS]);
        }
        write::<L, UNIFORM>(l, tile, range, &mut out[steps / LANES..], stride);
    }
    for generator in 0..GENERATORS {
        store(l, generators[generator], &mut state[generator]);
    }
}

/// Writes sixteen draws of every stream, `stride` vectors apart.
#[inline(always)]
fn write<L: Lanes, const UNIFORM: bool>(
    l: L,
    mut tile: [L::I; LANES],
    [low, width]: [f32; 2],
    out: &mut [[u32; LANES]],
    stride: usize,
) {
    l.transpose(&mut tile);
    let out = &mut out[..(LANES - 1) * stride + 1];
    for stream in 0..LANES {
        let draws = tile[stream];
        let values = if UNIFORM {
            let fraction = l.mul_f(l.int_to_float(l.shr(draws, 8)), l.splat_f(1.0 / 16_777_216.0));
            l.bits(l.add_f(l.splat_f(low), l.mul_f(l.splat_f(width), fraction)))
        } else {
            draws
        };
        prefetch_second(&out[stream * stride], STREAM_WRITE_AHEAD);
        l.store_i(values, &mut out[stream * stride]);
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
