//! Block scales, elements against them and dequantisation, by the definition.

use super::dequantize::Dequantizer;
use super::quantizer::Quantizer;
use super::{BLOCK, ScaleRule};
use crate::cast::scalar::{encode, stored};
use crate::format::Format;

/// floor(log2 |x|) for finite nonzero x.
fn floor_log2(x: f32) -> i32 {
    // Exact: every float32, subnormals too, is a normal float64.
    (f64::from(x.abs()).to_bits() >> 52) as i32 - 1023
}

/// The scale byte of a block: E + 127, or 255 where the block holds a NaN or an infinity.
fn scale_byte(block: &[f32], format: Format, rule: ScaleRule) -> u8 {
    if block.iter().any(|x| !x.is_finite()) {
        return 255;
    }
    let amax = block.iter().fold(0.0f32, |amax, x| amax.max(x.abs()));
    if amax == 0.0 {
        return 0;
    }
    let max_exponent = format.spec().max_exponent();
    let exponent = match rule {
        ScaleRule::Trn3 => floor_log2(amax) - (max_exponent - 1),
        ScaleRule::Ocp => floor_log2(amax) - max_exponent,
        ScaleRule::Rceil => {
            let largest = f64::from(format.decode_code(format.spec().max_code));
            let fits = |exponent: i32| f64::from(amax) <= largest * 2f64.powi(exponent);
            let first = floor_log2(amax) - max_exponent;
            if fits(first) { first } else { first + 1 }
        }
    };
    (exponent.clamp(-127, 127) + 127) as u8
}

/// x * 2^-E, which is exact but where the result is too small to round to anything but zero.
fn divide_by_scale(x: f32, byte: u8) -> f32 {
    if byte == 255 { f32::NAN } else { (f64::from(x) * 2f64.powi(127 - i32::from(byte))) as f32 }
}

/// The scale byte and element codes of one block.
fn quantize_block(q: &Quantizer, block: &[f32; BLOCK], draws: &[u32; BLOCK], codes: &mut [u8; BLOCK]) -> u8 {
    let byte = scale_byte(block, q.format, q.rule);
    for index in 0..BLOCK {
        let scaled = divide_by_scale(block[index], byte);
        let e = &q.encoder;
        codes[index] = encode(scaled, e.format, e.rounding, e.overflow, draws[index]) as u8;
    }
    byte
}

/// See [`super::quantize_rows`].
pub(super) fn quantize_rows(q: &Quantizer, src: &[f32], draws: &[u32], elements: &mut [u8], scales: &mut [u8]) {
    let (draws, _) = draws.as_chunks::<BLOCK>();
    let blocks = src.as_chunks::<BLOCK>().0.iter().zip(elements.as_chunks_mut::<BLOCK>().0);
    for (index, ((block, codes), scale)) in blocks.zip(scales).enumerate() {
        *scale = quantize_block(q, block, draws.get(index).unwrap_or(&[0; BLOCK]), codes);
    }
}

/// See [`super::quantize_columns`].
pub(super) fn quantize_columns(
    q: &Quantizer,
    rows: &[&[f32]],
    draws: &[&[u32]],
    elements: &mut [&mut [u8]],
    scales: &mut [u8],
    _ahead: usize,
) {
    for (column, scale) in scales.iter_mut().enumerate() {
        let (mut block, mut drawn, mut codes) = ([0.0; BLOCK], [0; BLOCK], [0; BLOCK]);
        for row in 0..BLOCK {
            block[row] = rows[row][column];
            drawn[row] = draws[row].get(column).copied().unwrap_or(0);
        }
        *scale = quantize_block(q, &block, &drawn, &mut codes);
        for row in 0..BLOCK {
            elements[row][column] = codes[row];
        }
    }
}

/// The product, which is rounded to float32 where it leaves its range, rounded.
fn dequantize_one(d: &Dequantizer, code: u8, byte: u8) -> u32 {
    let scale = Format::F8E8M0Fnu.decode_code(u32::from(byte));
    let e = &d.encoder;
    stored(d.format.decode_code(u32::from(code)) * scale, e.format, e.rounding, e.overflow, 0)
}

/// See [`super::dequantize_rows`].
pub(super) fn dequantize_rows(d: &Dequantizer, elements: &[u8], scales: &[u8], out: &mut [u8]) {
    for (block, (codes, scale)) in elements.chunks(BLOCK).zip(scales).enumerate() {
        let item = d.encoder.format.item_size();
        dequantize_columns(d, codes, &[*scale; BLOCK], &mut out[block * BLOCK * item..][..codes.len() * item]);
    }
}

/// See [`super::dequantize_columns`].
pub(super) fn dequantize_columns(d: &Dequantizer, elements: &[u8], scales: &[u8], out: &mut [u8]) {
    let item = d.encoder.format.item_size();
    for ((code, scale), value) in elements.iter().zip(scales.iter().cycle()).zip(out.chunks_exact_mut(item)) {
        value.copy_from_slice(&dequantize_one(d, *code, *scale).to_le_bytes()[..item]);
    }
}

/// See [`super::scale_each`].
pub(super) fn scale_each(values: &mut [f32], factors: &[f32]) {
    for (value, factor) in values.iter_mut().zip(factors) {
        *value *= factor;
    }
}

/// See [`super::scale_blocks`].
pub(super) fn scale_blocks(values: &mut [f32], factors: &[f32]) {
    for (block, factor) in values.chunks_mut(BLOCK).zip(factors) {
        for value in block {
            *value *= factor;
        }
    }
}
