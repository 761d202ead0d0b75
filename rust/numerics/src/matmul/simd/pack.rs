//! Packing operands into panels: for each step of k, the words of a panel's outer positions side by side.

use crate::simd::{LANES, Lanes};

const WORD_BYTES: usize = 4 * LANES;

/// Packs rows of consecutive k (one row an outer position, as bytes) into a panel of `width` positions: word w of row i
/// goes to `panel[w * width + i]`. With `PAIRS`, a word is two 16-bit codes, the first moved to the high half. What
/// lies beyond a row's end is zero; `rows` holds one for every position (empty ones for the padding).
#[inline(always)]
pub(crate) fn pack_rows<L: Lanes, const PAIRS: bool>(l: L, rows: &[&[u8]], width: usize, panel: &mut [u32]) {
    let words = panel.len() / width;
    for (group, rows) in rows.chunks(LANES).enumerate() {
        let room = LANES.min(width - group * LANES);
        for first in (0..words).step_by(LANES) {
            let mut block = [l.splat_i(0); LANES];
            for (slot, row) in block.iter_mut().zip(rows) {
                let from = first * 4;
                *slot = match row.get(from..from + WORD_BYTES) {
                    Some(bytes) => l.load_words(&bytes.as_chunks().0[0]),
                    None => {
                        let mut padded = [0; WORD_BYTES];
                        let tail = row.get(from..).unwrap_or(&[]);
                        padded[..tail.len()].copy_from_slice(tail);
                        l.load_words(&padded)
                    }
                };
                if PAIRS {
                    *slot = l.swap_halves(*slot);
                }
            }
            l.transpose(&mut block);
            for (word, lane_words) in block.iter().enumerate().take(words - first) {
                let mut stored = [0; LANES];
                l.store_i(*lane_words, &mut stored);
                let at = (first + word) * width + group * LANES;
                panel[at..at + room].copy_from_slice(&stored[..room]);
            }
        }
    }
}

/// Packs two rows of consecutive outer positions, k in `first` and k + 1 in `second`, into words with k in the high half.
#[inline(always)]
pub(crate) fn pack_pair<L: Lanes>(l: L, first: &[u16], second: &[u16], words: &mut [u32]) {
    let (firsts, first_tail) = first.as_chunks::<LANES>();
    let (seconds, second_tail) = second.as_chunks::<LANES>();
    let (outputs, tail_out) = words.as_chunks_mut::<LANES>();
    for ((first, second), output) in firsts.iter().zip(seconds).zip(outputs) {
        l.store_i(l.or(l.shl(l.load_u16(first), 16), l.load_u16(second)), output);
    }
    for ((first, second), output) in first_tail.iter().zip(second_tail).zip(tail_out) {
        *output = u32::from(*first) << 16 | u32::from(*second);
    }
}

/// The smallest nonzero magnitude among bfloat16 codes, 0x7fff if there is none.
#[inline(always)]
pub(crate) fn min_magnitude<L: Lanes>(l: L, codes: &[u16]) -> u16 {
    let (vectors, tail) = codes.as_chunks::<LANES>();
    // Less one, zero becomes the largest number.
    let mut least = l.splat_i(u32::MAX);
    for codes in vectors {
        let magnitude = l.and(l.load_u16(codes), l.splat_i(0x7fff));
        least = l.min_u(least, l.sub_i(magnitude, l.splat_i(1)));
    }
    let mut lanes = [0; LANES];
    l.store_i(least, &mut lanes);
    let tail = tail.iter().map(|code| u32::from(code & 0x7fff).wrapping_sub(1));
    let least = lanes.into_iter().chain(tail).fold(u32::MAX, u32::min);
    least.min(0x7ffe) as u16 + 1
}
