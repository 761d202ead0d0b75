//! The scalar level's kernel table: loops over the definitions, nothing else.

use super::cast::Encoder;
use super::dispatch::{Kernels, Level};
use crate::format::Format;
use crate::scalar;

pub(super) static KERNELS: Kernels = Kernels { level: Level::Scalar, encode, decode };

fn encode(e: &Encoder, src: &[f32], draws: &[u32], dst: &mut [u8]) {
    let item = e.format.item_size();
    for (index, (value, code)) in src.iter().zip(dst.chunks_exact_mut(item)).enumerate() {
        let draw = draws.get(index).copied().unwrap_or(0);
        let bits = scalar::cast::encode(*value, e.format, e.rounding, e.overflow, draw);
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
