//! Block scales: the largest magnitude of each block, its scale byte, and the elements encoded against it.

use crate::cast::Rounding;
use crate::cast::simd::{NEAREST, STOCHASTIC, ZERO, store_finite};
use crate::mx::quantizer::Quantizer;
use crate::mx::{BLOCK, STRIP};
use crate::simd::{LANES, Lanes, STREAM_READ_AHEAD, STREAM_WRITE_AHEAD, Sums, prefetch_second};

/// Vectors whose codes are a cache line.
const LINE: usize = 4;

const NOT_FINITE: u32 = 0x7f80_0000;

/// Scale bytes and multipliers 2^-E of sixteen blocks, from the bits of their largest magnitudes.
///
/// A zero or subnormal largest magnitude has exponent field 0 and every rule clamps it to byte 0. Bytes of 254 do not
/// occur (every rule subtracts at least 1), so the multiplier is never subnormal.
#[inline(always)]
fn scales<L: Lanes>(l: L, q: &Quantizer, largest: L::I) -> (L::I, L::I) {
    let carries = l.lt_u(l.splat_i(q.carry_above), l.and(largest, l.splat_i(0x7f_ffff)));
    let field = l.shr(largest, 23);
    let field = l.select(carries, l.add_i(field, l.splat_i(1)), field);
    let byte = l.max_s(l.sub_i(field, l.splat_i(q.below)), l.splat_i(0));
    let multiplier = l.shl(l.sub_i(l.splat_i(254), byte), 23);
    let finite = l.lt_u(largest, l.splat_i(NOT_FINITE));
    (l.select(finite, byte, l.splat_i(255)), multiplier)
}

#[inline(always)]
fn magnitude<L: Lanes>(l: L, values: &[f32; LANES]) -> L::I {
    l.and(l.bits(l.load_f(values)), l.splat_i(0x7fff_ffff))
}

/// Sixteen consecutive blocks.
#[inline(always)]
fn quantize_group<L: Sums, const ROUNDING: u8>(
    l: L,
    q: &Quantizer,
    src: &[[f32; LANES]; 2 * LANES],
    draws: &[[u32; LANES]],
    elements: &mut [[u8; LINE * LANES]; 2 * LANES / LINE],
    scale_bytes: &mut [u8; LANES],
) {
    let mut largest = [l.splat_i(0); LANES];
    for block in 0..LANES {
        largest[block] = l.max_u(magnitude(l, &src[2 * block]), magnitude(l, &src[2 * block + 1]));
    }
    let (bytes, multipliers) = scales(l, q, l.max_across(largest));
    l.store_u8(bytes, scale_bytes);
    let mut factors = [0; LANES];
    l.store_i(multipliers, &mut factors);
    for line in 0..2 * LANES / LINE {
        prefetch_second(&elements[line], STREAM_WRITE_AHEAD);
        let (mut values, mut drawn) = ([l.splat_f(0.0); LINE], [l.splat_i(0); LINE]);
        for place in 0..LINE {
            let half = line * LINE + place;
            prefetch_second(&src[half], STREAM_READ_AHEAD);
            let factor = l.splat_f(f32::from_bits(factors[half / 2]));
            values[place] = l.mul_f(l.load_f(&src[half]), factor);
            if ROUNDING == STOCHASTIC {
                drawn[place] = l.load_i(&draws[half]);
            }
        }
        store_finite::<L, ROUNDING>(l, &q.encoder, values, drawn, &mut elements[line]);
    }
    if l.any(l.eq(bytes, l.splat_i(255))) {
        let blocks = elements.as_flattened_mut().as_chunks_mut::<BLOCK>().0;
        for (block, byte) in blocks.iter_mut().zip(scale_bytes) {
            if *byte == 255 {
                *block = [q.nan_code; BLOCK];
            }
        }
    }
}

#[inline(always)]
fn quantize_rows_rounding<L: Sums, const ROUNDING: u8>(
    l: L,
    q: &Quantizer,
    src: &[f32],
    draws: &[u32],
    elements: &mut [u8],
    scale_bytes: &mut [u8],
) {
    const GROUP: usize = 2 * LANES;
    let (vectors, _) = src.as_chunks::<LANES>();
    let (drawn, _) = draws.as_chunks::<LANES>();
    let (groups, rest) = vectors.as_chunks::<GROUP>();
    let (outputs, rest_outputs) = elements.as_chunks_mut::<{ GROUP * LANES }>();
    let (group_scales, rest_scales) = scale_bytes.as_chunks_mut::<LANES>();
    for (index, (group, output)) in groups.iter().zip(outputs).enumerate() {
        let drawn = if ROUNDING == STOCHASTIC { &drawn[index * GROUP..][..GROUP] } else { &[] };
        let output = bytemuck::cast_mut(output);
        quantize_group::<L, ROUNDING>(l, q, group, drawn, output, &mut group_scales[index]);
    }
    if !rest.is_empty() {
        let (mut group, mut output, mut bytes) = ([[0.0; LANES]; GROUP], [[0; LINE * LANES]; GROUP / LINE], [0; LANES]);
        let mut padded = [[0; LANES]; GROUP];
        group[..rest.len()].copy_from_slice(rest);
        if ROUNDING == STOCHASTIC {
            padded[..rest.len()].copy_from_slice(&drawn[groups.len() * GROUP..]);
        }
        quantize_group::<L, ROUNDING>(l, q, &group, &padded, &mut output, &mut bytes);
        rest_outputs.copy_from_slice(&output.as_flattened()[..rest_outputs.len()]);
        rest_scales.copy_from_slice(&bytes[..rest.len() / 2]);
    }
}

/// Quantises consecutive blocks of 32; `draws` are one an element when rounding stochastically.
#[inline(always)]
pub(crate) fn quantize_rows<L: Sums>(
    l: L,
    q: &Quantizer,
    src: &[f32],
    draws: &[u32],
    elements: &mut [u8],
    scale_bytes: &mut [u8],
) {
    match q.encoder.rounding {
        Rounding::Nearest => quantize_rows_rounding::<L, NEAREST>(l, q, src, draws, elements, scale_bytes),
        Rounding::Zero => quantize_rows_rounding::<L, ZERO>(l, q, src, draws, elements, scale_bytes),
        Rounding::Stochastic => quantize_rows_rounding::<L, STOCHASTIC>(l, q, src, draws, elements, scale_bytes),
    }
}

const WIDTH: usize = LINE * LANES;
/// Rows gone through together: as many streams as hardware follows, and columns' magnitudes and scales are fetched once for
/// all of them.
const ROWS: usize = 4;

/// So many lines' columns of a row.
#[inline(always)]
fn lines<T>(row: &[T], count: usize) -> &[[[T; LANES]; LINE]] {
    &row.as_chunks().0.as_chunks().0[..count]
}

/// Some lines of columns: every row is gone through for the largest magnitudes, and again for the codes. Memory works
/// in both passes, at what comes `ahead` elements on.
#[inline(always)]
fn quantize_lines<L: Sums, const ROUNDING: u8>(
    l: L,
    q: &Quantizer,
    rows: &[&[f32]],
    draws: &[&[u32]],
    elements: &mut [&mut [u8]],
    scale_bytes: &mut [[u8; WIDTH]],
    ahead: usize,
) {
    let values_ahead = ahead * size_of::<f32>();
    let count = scale_bytes.len();
    let mut columns = [[[0; LANES]; LINE]; STRIP / WIDTH];
    let columns = &mut columns[..count];
    for first in (0..BLOCK).step_by(ROWS) {
        let mut values: [&[[[f32; LANES]; LINE]]; ROWS] = [&[]; ROWS];
        for row in 0..ROWS {
            values[row] = lines(rows[first + row], count);
        }
        for index in 0..count {
            for place in 0..LINE {
                // The others' are asked for by the longer pass.
                prefetch_second(&values[0][index][place], values_ahead);
                let mut largest = l.load_i(&columns[index][place]);
                for row in 0..ROWS {
                    largest = l.max_u(largest, magnitude(l, &values[row][index][place]));
                }
                l.store_i(largest, &mut columns[index][place]);
            }
        }
    }
    let mut most = l.splat_i(0);
    for (columns, scale_bytes) in columns.iter_mut().zip(scale_bytes.iter_mut()) {
        let mut bytes = [l.splat_i(0); LINE];
        for place in 0..LINE {
            let (byte, multiplier) = scales(l, q, l.load_i(&columns[place]));
            l.store_i(multiplier, &mut columns[place]);
            (bytes[place], most) = (byte, l.max_u(most, byte));
        }
        l.store_u8_quad(bytes, scale_bytes);
    }
    for (group, outputs) in elements.as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
        let outputs = outputs.each_mut().map(|row| &mut row.as_chunks_mut::<WIDTH>().0[..count]);
        let (mut values, mut drawn): ([&[[[f32; LANES]; LINE]]; ROWS], [&[[[u32; LANES]; LINE]]; ROWS]) =
            Default::default();
        for row in 0..ROWS {
            values[row] = lines(rows[group * ROWS + row], count);
            if ROUNDING == STOCHASTIC {
                drawn[row] = lines(draws[group * ROWS + row], count);
            }
        }
        for index in 0..count {
            for row in 0..ROWS {
                prefetch_second(&outputs[row][index], ahead);
                let (mut scaled, mut draws) = ([l.splat_f(0.0); LINE], [l.splat_i(0); LINE]);
                for place in 0..LINE {
                    let value = &values[row][index][place];
                    if row != 0 {
                        prefetch_second(value, values_ahead);
                    }
                    scaled[place] = l.mul_f(l.load_f(value), l.float(l.load_i(&columns[index][place])));
                    if ROUNDING == STOCHASTIC {
                        draws[place] = l.load_i(&drawn[row][index][place]);
                    }
                }
                store_finite::<L, ROUNDING>(l, &q.encoder, scaled, draws, &mut outputs[row][index]);
            }
        }
    }
    if l.any(l.eq(most, l.splat_i(255))) {
        for (column, _) in scale_bytes.as_flattened().iter().enumerate().filter(|(_, byte)| **byte == 255) {
            for elements in elements.iter_mut() {
                elements[column] = q.nan_code;
            }
        }
    }
}

#[inline(always)]
fn quantize_columns_rounding<L: Sums, const ROUNDING: u8>(
    l: L,
    q: &Quantizer,
    rows: &[&[f32]],
    draws: &[&[u32]],
    elements: &mut [&mut [u8]],
    scale_bytes: &mut [u8],
    ahead: usize,
) {
    let (lines, tail_bytes) = scale_bytes.as_chunks_mut::<WIDTH>();
    let whole = lines.len() * WIDTH;
    quantize_lines::<L, ROUNDING>(l, q, rows, draws, elements, lines, ahead);
    let tail = tail_bytes.len();
    if tail > 0 {
        let (mut values, mut drawn, mut codes) = ([[0.0; WIDTH]; BLOCK], [[0; WIDTH]; BLOCK], [[0; WIDTH]; BLOCK]);
        for row in 0..BLOCK {
            values[row][..tail].copy_from_slice(&rows[row][whole..]);
            if ROUNDING == STOCHASTIC {
                drawn[row][..tail].copy_from_slice(&draws[row][whole..]);
            }
        }
        let (value_rows, draw_rows) = (values.each_ref().map(|row| &row[..]), drawn.each_ref().map(|row| &row[..]));
        let mut code_rows = codes.each_mut().map(|row| &mut row[..]);
        let mut bytes = [[0; WIDTH]];
        quantize_lines::<L, ROUNDING>(l, q, &value_rows, &draw_rows, &mut code_rows, &mut bytes, 0);
        tail_bytes.copy_from_slice(&bytes[0][..tail]);
        for row in 0..BLOCK {
            elements[row][whole..].copy_from_slice(&codes[row][..tail]);
        }
    }
}

/// Quantises blocks that run down 32 rows, one a column, of which there are [`STRIP`] at most. What comes next lies
/// `ahead` elements on.
#[inline(always)]
pub(crate) fn quantize_columns<L: Sums>(
    l: L,
    q: &Quantizer,
    rows: &[&[f32]],
    draws: &[&[u32]],
    elements: &mut [&mut [u8]],
    scale_bytes: &mut [u8],
    ahead: usize,
) {
    match q.encoder.rounding {
        Rounding::Nearest => quantize_columns_rounding::<L, NEAREST>(l, q, rows, draws, elements, scale_bytes, ahead),
        Rounding::Zero => quantize_columns_rounding::<L, ZERO>(l, q, rows, draws, elements, scale_bytes, ahead),
        Rounding::Stochastic => {
            quantize_columns_rounding::<L, STOCHASTIC>(l, q, rows, draws, elements, scale_bytes, ahead)
        }
    }
}
