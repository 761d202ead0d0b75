//! Block scales: the largest magnitude of each block, its scale byte, and the elements encoded against it.

use super::BLOCK;
use super::quantizer::Quantizer;
use crate::cast::Rounding;
use crate::cast::simd::{NEAREST, STOCHASTIC, ZERO, encode_finite};
use crate::simd::{LANES, Lanes, READ_AHEAD, WRITE_AHEAD, prefetch};

/// [`READ_AHEAD`] down a block's rows, which are more streams than hardware follows; a strip's rows are 4 KiB pieces.
const STRIP_READ_AHEAD: usize = 512;

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
fn quantize_group<L: Lanes, const ROUNDING: u8>(
    l: L,
    q: &Quantizer,
    src: &[[f32; LANES]; 2 * LANES],
    draws: &[[u32; LANES]],
    elements: &mut [[u8; LANES]; 2 * LANES],
    scale_bytes: &mut [u8; LANES],
) {
    let mut largest = [l.splat_i(0); LANES];
    for block in 0..LANES {
        prefetch(&src[2 * block], READ_AHEAD);
        prefetch(&src[2 * block + 1], READ_AHEAD);
        prefetch(&elements[2 * block], WRITE_AHEAD);
        largest[block] = l.max_u(magnitude(l, &src[2 * block]), magnitude(l, &src[2 * block + 1]));
    }
    l.transpose(&mut largest);
    let mut of_block = largest[0];
    for lane in 1..LANES {
        of_block = l.max_u(of_block, largest[lane]);
    }
    let (bytes, multipliers) = scales(l, q, of_block);
    l.store_u8(bytes, scale_bytes);
    let mut factors = [0; LANES];
    l.store_i(multipliers, &mut factors);
    for half in 0..2 * LANES {
        let factor = l.splat_f(f32::from_bits(factors[half / 2]));
        let drawn = if ROUNDING == STOCHASTIC { l.load_i(&draws[half]) } else { l.splat_i(0) };
        let scaled = l.mul_f(l.load_f(&src[half]), factor);
        l.store_u8(encode_finite::<L, ROUNDING>(l, &q.encoder, scaled, drawn), &mut elements[half]);
    }
    if l.any(l.eq(bytes, l.splat_i(255))) {
        for block in 0..LANES {
            if scale_bytes[block] == 255 {
                elements[2 * block] = [q.nan_code; LANES];
                elements[2 * block + 1] = [q.nan_code; LANES];
            }
        }
    }
}

#[inline(always)]
fn quantize_rows_rounding<L: Lanes, const ROUNDING: u8>(
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
    let (outputs, _) = elements.as_chunks_mut::<LANES>();
    let whole = vectors.len() / GROUP * GROUP;
    let (groups, rest) = vectors.split_at(whole);
    let (group_outputs, rest_outputs) = outputs.split_at_mut(whole);
    let (group_scales, rest_scales) = scale_bytes.as_chunks_mut::<LANES>();
    let group_outputs = group_outputs.as_chunks_mut::<GROUP>().0;
    for (index, (group, output)) in groups.as_chunks::<GROUP>().0.iter().zip(group_outputs).enumerate() {
        let drawn = if ROUNDING == STOCHASTIC { &drawn[index * GROUP..][..GROUP] } else { &[] };
        quantize_group::<L, ROUNDING>(l, q, group, drawn, output, &mut group_scales[index]);
    }
    if !rest.is_empty() {
        let (mut group, mut output, mut bytes) = ([[0.0; LANES]; GROUP], [[0; LANES]; GROUP], [0; LANES]);
        let mut padded = [[0; LANES]; GROUP];
        group[..rest.len()].copy_from_slice(rest);
        if ROUNDING == STOCHASTIC {
            padded[..rest.len()].copy_from_slice(&drawn[whole..]);
        }
        quantize_group::<L, ROUNDING>(l, q, &group, &padded, &mut output, &mut bytes);
        rest_outputs.copy_from_slice(&output[..rest.len()]);
        rest_scales.copy_from_slice(&bytes[..rest.len() / 2]);
    }
}

/// Quantises consecutive blocks of 32; `draws` are one an element when rounding stochastically.
#[inline(always)]
pub(crate) fn quantize_rows<L: Lanes>(
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

/// One lane-wide column strip of a block that runs down 32 rows.
#[inline(always)]
fn quantize_strip<L: Lanes, const ROUNDING: u8>(
    l: L,
    q: &Quantizer,
    largest: L::I,
    at: usize,
    rows: &[&[f32]],
    draws: &[&[u32]],
    elements: &mut [&mut [u8]],
) -> L::I {
    let (bytes, multipliers) = scales(l, q, largest);
    let factor = l.float(multipliers);
    let finite = l.lt_u(largest, l.splat_i(NOT_FINITE));
    let nan_code = l.splat_i(u32::from(q.nan_code));
    for row in 0..BLOCK {
        let scaled = l.mul_f(l.load_f(chunk(rows[row], at)), factor);
        let drawn = if ROUNDING == STOCHASTIC { l.load_i(chunk(draws[row], at)) } else { l.splat_i(0) };
        let codes = encode_finite::<L, ROUNDING>(l, &q.encoder, scaled, drawn);
        l.store_u8(l.select(finite, codes, nan_code), chunk_mut(elements[row], at));
    }
    bytes
}

#[inline(always)]
fn chunk<T>(row: &[T], at: usize) -> &[T; LANES] {
    &row[at..].as_chunks().0[0]
}

#[inline(always)]
fn chunk_mut<T>(row: &mut [T], at: usize) -> &mut [T; LANES] {
    &mut row[at..].as_chunks_mut().0[0]
}

#[inline(always)]
fn quantize_columns_rounding<L: Lanes, const ROUNDING: u8>(
    l: L,
    q: &Quantizer,
    rows: &[&[f32]],
    draws: &[&[u32]],
    elements: &mut [&mut [u8]],
    scale_bytes: &mut [u8],
) {
    let width = scale_bytes.len();
    let whole = width / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let mut largest = l.splat_i(0);
        for row in rows {
            prefetch(chunk(row, at), STRIP_READ_AHEAD);
            largest = l.max_u(largest, magnitude(l, chunk(row, at)));
        }
        let bytes = quantize_strip::<L, ROUNDING>(l, q, largest, at, rows, draws, elements);
        l.store_u8(bytes, chunk_mut(scale_bytes, at));
    }
    let tail = width - whole;
    if tail > 0 {
        let (mut values, mut drawn, mut codes) = ([[0.0; LANES]; BLOCK], [[0; LANES]; BLOCK], [[0; LANES]; BLOCK]);
        for row in 0..BLOCK {
            values[row][..tail].copy_from_slice(&rows[row][whole..]);
            if ROUNDING == STOCHASTIC {
                drawn[row][..tail].copy_from_slice(&draws[row][whole..]);
            }
        }
        let mut largest = l.splat_i(0);
        for row in &values {
            largest = l.max_u(largest, magnitude(l, row));
        }
        let (mut value_rows, mut draw_rows) = ([&values[0][..]; BLOCK], [&drawn[0][..]; BLOCK]);
        for row in 0..BLOCK {
            value_rows[row] = &values[row];
            draw_rows[row] = &drawn[row];
        }
        let mut code_rows = codes.each_mut().map(|row| &mut row[..]);
        let bytes = quantize_strip::<L, ROUNDING>(l, q, largest, 0, &value_rows, &draw_rows, &mut code_rows);
        let mut stored = [0; LANES];
        l.store_u8(bytes, &mut stored);
        scale_bytes[whole..].copy_from_slice(&stored[..tail]);
        for row in 0..BLOCK {
            elements[row][whole..].copy_from_slice(&codes[row][..tail]);
        }
    }
}

/// Quantises blocks that run down 32 rows, one a column.
#[inline(always)]
pub(crate) fn quantize_columns<L: Lanes>(
    l: L,
    q: &Quantizer,
    rows: &[&[f32]],
    draws: &[&[u32]],
    elements: &mut [&mut [u8]],
    scale_bytes: &mut [u8],
) {
    match q.encoder.rounding {
        Rounding::Nearest => quantize_columns_rounding::<L, NEAREST>(l, q, rows, draws, elements, scale_bytes),
        Rounding::Zero => quantize_columns_rounding::<L, ZERO>(l, q, rows, draws, elements, scale_bytes),
        Rounding::Stochastic => quantize_columns_rounding::<L, STOCHASTIC>(l, q, rows, draws, elements, scale_bytes),
    }
}

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
