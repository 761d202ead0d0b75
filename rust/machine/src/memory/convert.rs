//! Between the bytes of elements and float32: the rounding rules are the arithmetic core's.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use half::bf16;
use trn3_numerics::{ArrayMut, ArrayView, CastOptions, Draws, Format, Rounding, Source, cast};

use super::lines;
use super::resolve::Resolved;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::view::View;

/// Below this many elements a call of the arithmetic core costs more than its work.
const FEW: usize = 64;

const NAN: f32 = f32::from_bits(0x7fc0_0000);

/// What reading memory gives that nothing was written to, as bits. What it stands for has to show in results and may not
/// look like a value that a kernel computes **(choice)**:
///
/// | elements | read as | why |
/// | --- | --- | --- |
/// | floats, block scales | NaN | spreads to whatever it touches |
/// | integers | 4 | no NaN, and neither 0 nor 1, which kernels clear and count with |
/// | bool | 1 | what is not 0 |
/// | four to a word | NaN in each; 4 where the type has none | as their parts |
/// | bytes of a tile that holds block scales | 0 | engines skip the rows between those of the quadrants, and kernels store such tiles whole |
///
/// The finding is the same for all of them.
pub(super) fn unwritten(view: &View) -> u32 {
    let dtype = view.dtype;
    if holds_scales(view) {
        return 0;
    }
    match dtype {
        DType::Bool => 1,
        DType::Float4E2M1FnX4 => 0x4444,
        _ => {
            let nan = dtype.format().and_then(|format| format.spec().nan);
            match (dtype, nan) {
                (DType::Float8E4M3FnX4 | DType::Float8E5M2X4, Some(nan)) => nan * 0x0101_0101,
                (DType::Float32 | DType::TFloat32, _) => NAN.to_bits(),
                (_, Some(nan)) => nan,
                (_, None) => 4,
            }
        }
    }
}

fn holds_scales(view: &View) -> bool {
    view.dtype.size() == 1 && view.storage.tenancy.scaled.load(Ordering::Relaxed)
}

/// As [`unwritten`], as a value.
pub(super) fn unwritten_value(view: &View) -> f32 {
    match view.dtype {
        DType::UInt8 if holds_scales(view) => 0.0,
        DType::Bool => 1.0,
        dtype if dtype.is_integer() => 4.0,
        _ => NAN,
    }
}

/// Refuses the types that hold four elements in one.
pub(super) fn check_unpacked(dtype: DType) -> Result<()> {
    match dtype.is_packed() {
        true => Err(Error::Type(format!("dtype is {dtype}; packed elements have no value of their own"))),
        false => Ok(()),
    }
}

/// The values of every code of the 8-bit formats.
static NARROW: LazyLock<[[f32; 256]; 4]> = LazyLock::new(|| {
    [Format::F8E4M3, Format::F8E4M3Fn, Format::F8E5M2, Format::F8E8M0Fnu]
        .map(|format| std::array::from_fn(|code| format.decode_code(code as u32)))
});

/// Decodes the elements of an operand one by one; slots of rows left out stay as they are.
pub(super) fn read(dtype: DType, bytes: &[u8], from: &Resolved, out: &mut [f32]) {
    match dtype {
        DType::Bool => lines::read(bytes, from, out, |[byte]: [u8; 1]| f32::from(u8::from(byte != 0))),
        DType::Int8 => lines::read(bytes, from, out, |code: [u8; 1]| f32::from(i8::from_le_bytes(code))),
        DType::UInt8 => lines::read(bytes, from, out, |[byte]: [u8; 1]| f32::from(byte)),
        DType::Int16 => lines::read(bytes, from, out, |code: [u8; 2]| f32::from(i16::from_le_bytes(code))),
        DType::UInt16 => lines::read(bytes, from, out, |code: [u8; 2]| f32::from(u16::from_le_bytes(code))),
        DType::Int32 => lines::read(bytes, from, out, |code: [u8; 4]| i32::from_le_bytes(code) as f32),
        DType::UInt32 => lines::read(bytes, from, out, |code: [u8; 4]| u32::from_le_bytes(code) as f32),
        DType::Float32 => lines::read(bytes, from, out, f32::from_le_bytes),
        DType::TFloat32 => {
            lines::read(bytes, from, out, |code: [u8; 4]| f32::from_bits(u32::from_le_bytes(code) & TF32_BITS));
        }
        DType::BFloat16 => {
            lines::read(bytes, from, out, |code: [u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(code)) << 16));
        }
        DType::Float16 => {
            lines::read(bytes, from, out, |code: [u8; 2]| canonical(half::f16::from_le_bytes(code).to_f32()));
        }
        DType::Float8E4M3 => read_narrow(&NARROW[0], bytes, from, out),
        DType::Float8E4M3Fn => read_narrow(&NARROW[1], bytes, from, out),
        DType::Float8E5M2 => read_narrow(&NARROW[2], bytes, from, out),
        DType::Float8E8M0Fnu => read_narrow(&NARROW[3], bytes, from, out),
        // Refused before: they have no value.
        DType::Float8E4M3FnX4 | DType::Float8E5M2X4 | DType::Float4E2M1FnX4 => out.fill(NAN),
    }
}

fn read_narrow(values: &[f32; 256], bytes: &[u8], from: &Resolved, out: &mut [f32]) {
    lines::read(bytes, from, out, |[byte]: [u8; 1]| values[usize::from(byte)]);
}

/// The value of one element of a floating-point type.
pub(super) fn value(dtype: DType, code: &[u8]) -> f32 {
    let mut values = Vec::new();
    self::values(dtype, code, &mut values);
    values.first().copied().unwrap_or(NAN)
}

/// The values of contiguous elements of a floating-point type; `out` is replaced.
pub(super) fn values(dtype: DType, codes: &[u8], out: &mut Vec<f32>) {
    out.clear();
    match dtype {
        DType::BFloat16 => out
            .extend(codes.as_chunks().0.iter().map(|code| f32::from_bits(u32::from(u16::from_le_bytes(*code)) << 16))),
        DType::Float16 => {
            out.extend(codes.as_chunks().0.iter().map(|code| half::f16::from_le_bytes(*code).to_f32()));
        }
        DType::Float8E4M3 => out.extend(codes.iter().map(|code| NARROW[0][usize::from(*code)])),
        DType::Float8E4M3Fn => out.extend(codes.iter().map(|code| NARROW[1][usize::from(*code)])),
        DType::Float8E5M2 => out.extend(codes.iter().map(|code| NARROW[2][usize::from(*code)])),
        _ => out.extend(codes.as_chunks().0.iter().map(|code| f32::from_le_bytes(*code))),
    }
}

/// The bits of a tfloat32 that count.
pub(super) const TF32_BITS: u32 = !0x1fff;

/// One NaN stands for all, so that no result depends on which unit made it.
pub(super) fn canonical(value: f32) -> f32 {
    if value.is_nan() { NAN } else { value }
}

/// Whether many elements of the type are better decoded by the arithmetic core than one by one.
pub(super) fn decodes_in_bulk(dtype: DType, count: usize) -> bool {
    count >= FEW && matches!(dtype, DType::Float16) || count >= FEW && dtype.size() == 1 && !dtype.is_integer()
}

/// Decodes contiguous codes.
pub(super) fn decode(dtype: DType, codes: &[u8], out: &mut [f32]) -> Result<()> {
    let format = float_format(dtype)?;
    let shape = [out.len()];
    let source: Source<'_> = ArrayView::from_codes(format, codes, &shape)?.into();
    cast(&source, ArrayMut::new(out, &shape)?, CastOptions::default(), Draws::None)?;
    Ok(())
}

fn float_format(dtype: DType) -> Result<Format> {
    check_unpacked(dtype)?;
    dtype.format().ok_or_else(|| Error::Type(format!("dtype is {dtype}; a floating-point type is needed")))
}

/// To the nearest integer, ties to even, then into `low..=high`, and NaN to 0; for ranges of at most 16 bits. Without
/// a branch, so that it is done side by side.
#[inline]
fn round_narrow(value: f32, low: f32, high: f32) -> u32 {
    /// Next to this the last place is 1, and halves of it are rounded away; its own bits are subtracted again.
    const UNIT: f32 = 12_582_912.0;
    let number = if value.is_nan() { 0.0 } else { value };
    let number = if number > low { number } else { low };
    let number = if number < high { number } else { high };
    (number + UNIT).to_bits().wrapping_sub(UNIT.to_bits())
}

/// As [`round_narrow`] for ranges of 32 bits.
#[inline]
fn round_wide(value: f32, low: f64, high: f64) -> u32 {
    /// As in [`round_narrow`]; the low 32 bits of its own are 0.
    const UNIT: f64 = 6_755_399_441_055_744.0;
    let number = if value.is_nan() { 0.0 } else { f64::from(value) };
    let number = if number > low { number } else { low };
    let number = if number < high { number } else { high };
    (number + UNIT).to_bits() as u32
}

/// Where encoded elements go.
trait Sink {
    fn put<const N: usize>(&mut self, values: &[f32], one: impl Fn(f32) -> [u8; N]);
}

/// Contiguous codes.
struct Codes<'a>(&'a mut [u8]);

impl Sink for Codes<'_> {
    fn put<const N: usize>(&mut self, values: &[f32], one: impl Fn(f32) -> [u8; N]) {
        for (value, code) in values.iter().zip(self.0.as_chunks_mut::<N>().0) {
            *code = one(*value);
        }
    }
}

/// The elements of an operand.
struct Elements<'a> {
    bytes: &'a mut [u8],
    to: &'a Resolved,
}

impl Sink for Elements<'_> {
    fn put<const N: usize>(&mut self, values: &[f32], one: impl Fn(f32) -> [u8; N]) {
        lines::write(self.bytes, self.to, values, one);
    }
}

/// Encodes what is best encoded one by one; says whether that was so.
fn put(dtype: DType, values: &[f32], sink: &mut impl Sink) -> bool {
    let is_short = values.len() < FEW;
    match dtype {
        DType::Bool => sink.put(values, |value| [u8::from(value != 0.0)]),
        DType::Int8 => sink.put(values, |value| [round_narrow(value, -128.0, 127.0) as u8]),
        DType::UInt8 => sink.put(values, |value| [round_narrow(value, 0.0, 255.0) as u8]),
        DType::Int16 => sink.put(values, |value| (round_narrow(value, -32768.0, 32767.0) as u16).to_le_bytes()),
        DType::UInt16 => sink.put(values, |value| (round_narrow(value, 0.0, 65535.0) as u16).to_le_bytes()),
        DType::Int32 => sink.put(values, |value| round_wide(value, -2_147_483_648.0, 2_147_483_647.0).to_le_bytes()),
        DType::UInt32 => sink.put(values, |value| round_wide(value, 0.0, 4_294_967_295.0).to_le_bytes()),
        DType::Float32 => sink.put(values, |value| canonical(value).to_le_bytes()),
        DType::BFloat16 if is_short => sink.put(values, |value| bf16::from_f32(canonical(value)).to_le_bytes()),
        DType::Float16 if is_short => sink.put(values, |value| half::f16::from_f32(canonical(value)).to_le_bytes()),
        _ => return false,
    }
    true
}

/// Encodes values straight into their places, where that is the fastest way; says whether it was.
pub(super) fn write(dtype: DType, values: &[f32], options: CastOptions, bytes: &mut [u8], to: &Resolved) -> bool {
    (dtype.is_integer() || options == CastOptions::default()) && put(dtype, values, &mut Elements { bytes, to })
}

/// Encodes float32 values as contiguous codes.
///
/// # Errors
/// [`Error::Type`] for packed types and block scales, which are no rounding of a value.
pub(super) fn encode(dtype: DType, values: &[f32], codes: &mut [u8], options: CastOptions) -> Result<()> {
    check_encodable(dtype)?;
    if (dtype.is_integer() || options == CastOptions::default()) && put(dtype, values, &mut Codes(codes)) {
        return Ok(());
    }
    let shape = [values.len()];
    let out = ArrayMut::from_codes(float_format(dtype)?, codes, &shape)?;
    cast(&ArrayView::new(values, &shape)?.into(), out, options, Draws::None)?;
    Ok(())
}

/// As [`encode`] of a floating-point type below 32 bits, rounded by draws.
pub(super) fn encode_stochastic(dtype: DType, values: &[f32], codes: &mut [u8], draws: Draws<'_>) -> Result<()> {
    check_encodable(dtype)?;
    let options = CastOptions { rounding: Rounding::Stochastic, ..CastOptions::default() };
    let shape = [values.len()];
    let out = ArrayMut::from_codes(float_format(dtype)?, codes, &shape)?;
    cast(&ArrayView::new(values, &shape)?.into(), out, options, draws)?;
    Ok(())
}

pub(super) fn check_encodable(dtype: DType) -> Result<()> {
    check_unpacked(dtype)?;
    match dtype {
        DType::Float8E8M0Fnu => Err(Error::Type(format!(
            "dtype is {dtype}; a block scale is no rounding of a value, quantize_mx chooses it"
        ))),
        _ => Ok(()),
    }
}

/// The value of an integer element from its bits.
pub(super) fn integer(dtype: DType, bits: u32) -> i64 {
    match dtype {
        DType::Bool => i64::from(bits != 0),
        DType::Int8 => i64::from(bits as i8),
        DType::Int16 => i64::from(bits as i16),
        DType::Int32 => i64::from(bits as i32),
        _ => i64::from(bits),
    }
}
