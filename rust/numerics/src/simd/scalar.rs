//! The scalar level's kernel table: loops over the definitions, nothing else.

use super::dispatch::Kernels;
use crate::cast::simd::Encoder;
use crate::format::Format;
use crate::mx::BLOCK;
use crate::mx::simd::Quantizer;
use crate::{activation, cast, exp, mx, xorwow};

pub(super) static KERNELS: Kernels = Kernels {
    encode,
    decode,
    activate: activation::scalar::activate,
    multiply_add: activation::scalar::multiply_add,
    exp: exp::scalar::exp_slice,
    sum_rows: exp::scalar::sum_rows,
    quantize_rows,
    quantize_columns,
    xorwow_fill: xorwow::scalar::fill,
    xorwow_jump: xorwow::scalar::jump,
    scale_each,
    scale_blocks,
    chains: None,
};

fn encode(e: &Encoder, src: &[f32], draws: &[u32], dst: &mut [u8]) {
    let item = e.format.item_size();
    for (index, (value, code)) in src.iter().zip(dst.chunks_exact_mut(item)).enumerate() {
        let draw = draws.get(index).copied().unwrap_or(0);
        let bits = cast::scalar::encode(*value, e.format, e.rounding, e.overflow, draw);
        let stored = if e.format == Format::Tf32 { bits << 13 } else { bits };
        code.copy_from_slice(&stored.to_le_bytes()[..item]);
    }
}

fn decode(format: Format, src: &[u8], dst: &mut [f32]) {
    for (code, value) in src.chunks_exact(format.item_size()).zip(dst) {
        let mut bytes = [0; 4];
        bytes[..code.len()].copy_from_slice(code);
        let bits = u32::from_le_bytes(bytes);
        *value = match format {
            Format::F32 | Format::Tf32 => f32::from_bits(bits),
            _ => format.decode_code(bits),
        };
    }
}

/// The scale byte and element codes of one block.
fn quantize_block(q: &Quantizer, block: &[f32; BLOCK], draws: &[u32; BLOCK], codes: &mut [u8; BLOCK]) -> u8 {
    let byte = mx::scalar::scale_byte(block, q.format, q.rule);
    for index in 0..BLOCK {
        let scaled = mx::scalar::divide_by_scale(block[index], byte);
        let e = &q.encoder;
        codes[index] = cast::scalar::encode(scaled, e.format, e.rounding, e.overflow, draws[index]) as u8;
    }
    byte
}

fn quantize_rows(q: &Quantizer, src: &[f32], draws: &[u32], elements: &mut [u8], scales: &mut [u8]) {
    let (draws, _) = draws.as_chunks::<BLOCK>();
    let blocks = src.as_chunks::<BLOCK>().0.iter().zip(elements.as_chunks_mut::<BLOCK>().0);
    for (index, ((block, codes), scale)) in blocks.zip(scales).enumerate() {
        *scale = quantize_block(q, block, draws.get(index).unwrap_or(&[0; BLOCK]), codes);
    }
}

fn quantize_columns(q: &Quantizer, rows: &[&[f32]], draws: &[&[u32]], elements: &mut [&mut [u8]], scales: &mut [u8]) {
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

fn scale_each(values: &mut [f32], factors: &[f32]) {
    for (value, factor) in values.iter_mut().zip(factors) {
        *value *= factor;
    }
}

fn scale_blocks(values: &mut [f32], factors: &[f32]) {
    for (block, factor) in values.chunks_mut(BLOCK).zip(factors) {
        for value in block {
            *value *= factor;
        }
    }
}
