//! Running sums along rows: every chain in its order, sixteen chains at a time.

use super::NAN;
use super::numbers::{Brain, Half, Numbers, Single};
use crate::format::Format;
use crate::simd::{LANES, Lanes};

/// Adds the next elements of up to sixteen rows of equal length to the rows' running sums, in ascending order.
#[inline(always)]
pub(crate) fn sum_rows<L: Lanes>(l: L, format: Format, rows: &[&[u8]], sums: &mut [f32]) {
    match format {
        Format::Bf16 => sum_rows_of::<L, Brain>(l, rows, sums),
        Format::F16 => sum_rows_of::<L, Half>(l, rows, sums),
        _ => sum_rows_of::<L, Single>(l, rows, sums),
    }
}

#[inline(always)]
fn sum_rows_of<L: Lanes, N: Numbers>(l: L, rows: &[&[u8]], sums: &mut [f32]) {
    let Some(first) = rows.first() else { return };
    // Lanes without a row of their own repeat the first; their sums go nowhere.
    let mut codes = [bytemuck::cast_slice::<u8, N::Code>(first); LANES];
    for (lane, row) in rows.iter().enumerate() {
        codes[lane] = bytemuck::cast_slice(row);
    }
    let columns = codes[0].len();
    let mut tiles = [codes[0].as_chunks::<LANES>().0; LANES];
    for lane in 1..rows.len() {
        tiles[lane] = codes[lane].as_chunks::<LANES>().0;
    }
    let mut chains = [0.0; LANES];
    chains[..sums.len()].copy_from_slice(sums);
    match rows.len() {
        1 => sum_few::<L, N, 1>(l, &tiles, &mut chains),
        2 => sum_few::<L, N, 2>(l, &tiles, &mut chains),
        3 | 4 => sum_few::<L, N, 4>(l, &tiles, &mut chains),
        _ => sum_tiles::<L, N>(l, &tiles, &mut chains),
    }
    for ((sum, chain), codes) in sums.iter_mut().zip(chains).zip(codes) {
        *sum = chain;
        for code in &codes[columns / LANES * LANES..] {
            *sum += N::value(*code);
        }
        if sum.is_nan() {
            *sum = f32::from_bits(NAN);
        }
    }
}

type Tiles<'a, C> = [&'a [[C; LANES]]; LANES];

/// Sixteen independent chains in one register: each tile of sixteen columns is transposed so that a column is a vector.
#[inline(always)]
fn sum_tiles<L: Lanes, N: Numbers>(l: L, tiles: &Tiles<'_, N::Code>, chains: &mut [f32; LANES]) {
    let mut chain = l.load_f(chains);
    let mut vectors = [l.splat_i(0); LANES];
    for tile in 0..tiles[0].len() {
        for lane in 0..LANES {
            vectors[lane] = l.bits(N::load(l, &tiles[lane][tile]));
        }
        l.transpose(&mut vectors);
        for column in vectors {
            chain = l.add_f(chain, l.float(column));
        }
    }
    l.store_f(chain, chains);
}

/// The first few chains alone: one number at a time, as CPUs add single numbers with less delay than whole registers.
#[inline(always)]
fn sum_few<L: Lanes, N: Numbers, const FEW: usize>(l: L, tiles: &Tiles<'_, N::Code>, chains: &mut [f32; LANES]) {
    let mut values = [[0.0; LANES]; FEW];
    let mut few = [0.0; FEW];
    few.copy_from_slice(&chains[..FEW]);
    for tile in 0..tiles[0].len() {
        for lane in 0..FEW {
            l.store_f(N::load(l, &tiles[lane][tile]), &mut values[lane]);
        }
        for column in 0..LANES {
            for lane in 0..FEW {
                few[lane] += values[lane][column];
            }
        }
    }
    chains[..FEW].copy_from_slice(&few);
}
