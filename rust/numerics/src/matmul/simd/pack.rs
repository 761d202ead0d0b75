//! Packing operands into panels: for each step of k, the words of a panel's outer positions side by side.

use crate::simd::{LANES, Lanes};

/// How codes become the words of panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// 32-bit codes, one a word.
    Words,
    /// bfloat16 codes, each as the float32 of its value.
    Widened,
    /// Two bfloat16 codes a word, the first in the high half.
    Pairs,
}

impl Form {
    /// Bytes of a code.
    #[inline(always)]
    pub(crate) const fn item(self) -> usize {
        match self {
            Form::Words => 4,
            Form::Widened | Form::Pairs => 2,
        }
    }

    /// Bytes that become one word.
    #[inline(always)]
    const fn bytes(self) -> usize {
        match self {
            Form::Widened => 2,
            Form::Words | Form::Pairs => 4,
        }
    }
}

/// One of the forms, as kernels are made for it.
trait Codes {
    const FORM: Form;
    /// Sixteen words of as many consecutive codes as they take.
    fn load<L: Lanes>(l: L, from: &[u8]) -> L::I;
}

struct Words;
struct Widened;
struct Pairs;

impl Codes for Words {
    const FORM: Form = Form::Words;
    #[inline(always)]
    fn load<L: Lanes>(l: L, from: &[u8]) -> L::I {
        l.load_words(&from.as_chunks().0[0])
    }
}

impl Codes for Widened {
    const FORM: Form = Form::Widened;
    #[inline(always)]
    fn load<L: Lanes>(l: L, from: &[u8]) -> L::I {
        let codes: [u16; LANES] = bytemuck::pod_read_unaligned(&from[..2 * LANES]);
        l.shl(l.load_u16(&codes), 16)
    }
}

impl Codes for Pairs {
    const FORM: Form = Form::Pairs;
    #[inline(always)]
    fn load<L: Lanes>(l: L, from: &[u8]) -> L::I {
        l.swap_halves(l.load_words(&from.as_chunks().0[0]))
    }
}

/// Packs rows of consecutive k (one row an outer position, as bytes) into a panel of `width` positions: word w of row i
/// goes to `panel[w * width + i]`. What lies beyond a row's end is zero; `rows` holds one for every position (empty
/// ones for the padding). Panels of `NARROW` positions, fewer than lanes, have a path of their own.
#[inline(always)]
pub(crate) fn pack_rows<L: Lanes, const NARROW: usize>(
    l: L,
    form: Form,
    rows: &[&[u8]],
    width: usize,
    panel: &mut [u32],
) {
    assert_eq!(rows.len(), width, "a row for each position");
    match form {
        Form::Words => rows_of::<L, Words, NARROW>(l, rows, panel),
        Form::Widened => rows_of::<L, Widened, NARROW>(l, rows, panel),
        Form::Pairs => rows_of::<L, Pairs, NARROW>(l, rows, panel),
    }
}

#[inline(always)]
fn rows_of<L: Lanes, C: Codes, const NARROW: usize>(l: L, rows: &[&[u8]], panel: &mut [u32]) {
    match rows.try_into() {
        Ok(rows) => narrow::<L, C, NARROW>(l, rows, panel),
        Err(_) => wide::<L, C>(l, rows, panel),
    }
}

/// Sixteen words of a row from a word on, zero beyond its end.
#[inline(always)]
fn words<L: Lanes, C: Codes>(l: L, row: &[u8], first: usize) -> L::I {
    let from = first * C::FORM.bytes();
    match row.get(from..from + C::FORM.bytes() * LANES) {
        Some(bytes) => C::load(l, bytes),
        None => {
            let mut padded = [0; 4 * LANES];
            let tail = row.get(from..).unwrap_or(&[]);
            padded[..tail.len()].copy_from_slice(tail);
            C::load(l, &padded)
        }
    }
}

/// Few rows: a transposed block holds several runs of their words.
#[inline(always)]
fn narrow<L: Lanes, C: Codes, const ROWS: usize>(l: L, rows: &[&[u8]; ROWS], panel: &mut [u32]) {
    let runs = LANES / ROWS;
    let panel = panel.as_chunks_mut::<ROWS>().0;
    for (block, panel) in panel.chunks_mut(runs * LANES).enumerate() {
        let mut lanes = [l.splat_i(0); LANES];
        for run in 0..runs {
            for (row, bytes) in rows.iter().enumerate() {
                lanes[run * ROWS + row] = words::<L, C>(l, bytes, (block * runs + run) * LANES);
            }
        }
        l.transpose(&mut lanes);
        for (word, lanes) in lanes.iter().enumerate() {
            let mut stored = [0; LANES];
            l.store_i(*lanes, &mut stored);
            for (run, words) in stored.as_chunks::<ROWS>().0.iter().enumerate() {
                if let Some(slot) = panel.get_mut(run * LANES + word) {
                    *slot = *words;
                }
            }
        }
    }
}

/// Rows by sixteens.
#[inline(always)]
fn wide<L: Lanes, C: Codes>(l: L, rows: &[&[u8]], panel: &mut [u32]) {
    let width = rows.len();
    let count = panel.len() / width;
    for (group, rows) in rows.chunks(LANES).enumerate() {
        for first in (0..count).step_by(LANES) {
            let mut block = [l.splat_i(0); LANES];
            for (slot, row) in block.iter_mut().zip(rows) {
                *slot = words::<L, C>(l, row, first);
            }
            l.transpose(&mut block);
            for (word, lanes) in block.iter().enumerate().take(count - first) {
                let slot = &mut panel[(first + word) * width + group * LANES..][..rows.len()];
                match slot.try_into() {
                    Ok(slot) => l.store_i(*lanes, slot),
                    Err(_) => {
                        let mut stored = [0; LANES];
                        l.store_i(*lanes, &mut stored);
                        slot.copy_from_slice(&stored[..rows.len()]);
                    }
                }
            }
        }
    }
}

/// Packs codes of consecutive outer positions at one k (`first`; for pairs `second` is as many at the next k) into the word
/// `word` of as many panels as they reach, each of `width` positions and `stride` words. What lies beyond their end is
/// zero.
#[inline(always)]
pub(crate) fn pack_line<L: Lanes>(
    l: L,
    form: Form,
    [first, second]: [&[u8]; 2],
    [word, width, stride]: [usize; 3],
    panels: &mut [u32],
) {
    let count = width * form.item();
    for (panel, out) in panels.chunks_mut(stride).enumerate() {
        let out = &mut out[word * width..][..width];
        let codes = first.len().min(panel * count)..first.len().min((panel + 1) * count);
        if codes.len() < count {
            out.fill(0);
        }
        let high = &first[codes.clone()];
        match form {
            Form::Words => bytemuck::cast_slice_mut::<u32, u8>(out)[..high.len()].copy_from_slice(high),
            Form::Widened => halves(l, high, None, out),
            Form::Pairs => halves(l, high, Some(&second[codes]), out),
        }
    }
}

/// Words of the codes of `high` in their high halves, and those of `low`, if there are any, in the low ones.
#[inline(always)]
fn halves<L: Lanes>(l: L, high: &[u8], low: Option<&[u8]>, out: &mut [u32]) {
    const VECTOR: usize = 2 * LANES;
    let load = |bytes: &[u8; VECTOR]| l.load_u16(&bytemuck::pod_read_unaligned(bytes));
    let (vectors, tail) = high.as_chunks::<VECTOR>();
    let (low_vectors, low_tail) = low.unwrap_or(&[]).as_chunks::<VECTOR>();
    let whole = vectors.len() * LANES;
    for (at, (high, output)) in vectors.iter().zip(out.as_chunks_mut::<LANES>().0).enumerate() {
        let word = l.shl(load(high), 16);
        l.store_i(if low.is_some() { l.or(word, load(&low_vectors[at])) } else { word }, output);
    }
    let code = |bytes: &[u8], at: usize| bytes.as_chunks().0.get(at).map_or(0, |code| u16::from_ne_bytes(*code));
    for (at, output) in out[whole..].iter_mut().enumerate().take(tail.len() / 2) {
        *output = u32::from(code(tail, at)) << 16 | u32::from(code(low_tail, at));
    }
}

/// The high halves of float32 values, which are all that those hold: their bfloat16 codes.
#[inline(always)]
pub(crate) fn high_halves<L: Lanes>(l: L, values: &[f32], codes: &mut [u16]) {
    let (vectors, tail) = values.as_chunks::<LANES>();
    let (outputs, out_tail) = codes.as_chunks_mut::<LANES>();
    for (values, output) in vectors.iter().zip(outputs) {
        l.store_u16(l.shr(l.bits(l.load_f(values)), 16), output);
    }
    for (value, output) in tail.iter().zip(out_tail) {
        *output = (value.to_bits() >> 16) as u16;
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
