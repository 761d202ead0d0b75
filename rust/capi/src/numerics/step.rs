//! One step of a processing element, for models of the array's insides.

use std::sync::LazyLock;

use trn3_numerics::{Format, Rounding};

use crate::dtype::{self, trn3_dtype};
use crate::guard::guard;
use crate::pointers::Place;
use crate::status::{Fault, Result, Status, trn3_status};

/// Canonical NaN, as every result of the array has it.
const NAN: u32 = 0x7fc0_0000;
/// Products of one MX step: the four lanes of a processing element.
const LANES: u32 = 4;

/// The 8-bit formats of operands and scales, whose values are looked up.
const NARROW: [Format; 6] =
    [Format::F8E4M3Fn, Format::F8E5M2, Format::F8E4M3, Format::F8E3M4, Format::F4E2M1Fn, Format::F8E8M0Fnu];

static VALUES: LazyLock<[[f32; 256]; 6]> =
    LazyLock::new(|| NARROW.map(|format| std::array::from_fn(|code| format.decode_code(code as u32))));

#[inline]
fn narrow(index: usize, code: u32) -> f32 {
    VALUES[index][(code & 0xff) as usize]
}

/// The value of an operand of the plain array.
#[inline]
fn operand(argument: &str, format: Format, bits: u32) -> Result<f32> {
    Ok(match format {
        Format::F32 | Format::Tf32 => f32::from_bits(bits),
        Format::Bf16 => f32::from_bits(bits << 16),
        Format::F16 => Format::F16.decode_code(bits & 0xffff),
        Format::F8E4M3Fn => narrow(0, bits),
        Format::F8E5M2 => narrow(1, bits),
        Format::F8E4M3 => narrow(2, bits),
        Format::F8E3M4 => narrow(3, bits),
        _ => {
            let allowed = "bfloat16, float16, float32, tfloat32, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4";
            return Err(refuse(argument, format, allowed));
        }
    })
}

#[cold]
fn refuse(argument: &str, format: Format, allowed: &str) -> Fault {
    Fault::new(Status::Type, format!("{argument} has dtype {format}; allowed: {allowed}"))
}

#[inline]
fn canonical(value: f32) -> u32 {
    if value.is_nan() { NAN } else { value.to_bits() }
}

/// Bytes of scratch memory that the step functions need: always 0.
///
/// # Safety
/// size is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_accumulate_step_scratch_size(size: *mut usize) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { Place::new(size, "size") }?.put(0);
        Ok(())
    })
}

/// One step of a chain: fma(a, b, sum) in float32, rounded once, NaN canonical. a and b are in the low bits of their
/// words, bfloat16, float16 and the fp8 formats in any pair, float32 and tfloat32 with each other; sum and out are
/// float32 bits. A chain of 128 k starts from +0, and k ascends: the result is trn3_matmul's.
///
/// # Safety
/// out is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_accumulate_step(
    a_dtype: trn3_dtype,
    a: u32,
    b_dtype: trn3_dtype,
    b: u32,
    sum: u32,
    out: *mut u32,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Place::new(out, "out") }?;
        let (a_format, b_format) = (dtype::format("a", a_dtype)?, dtype::format("b", b_dtype)?);
        let is_wide = |format: Format| matches!(format, Format::F32 | Format::Tf32);
        if is_wide(a_format) != is_wide(b_format) {
            return Err(refuse("b", b_format, "with float32 and tfloat32 only each other, without them neither"));
        }
        let (a, b) = (operand("a", a_format, a)?, operand("b", b_format, b)?);
        out.put(canonical(a.mul_add(b, f32::from_bits(sum))));
        Ok(())
    })
}

/// One step of a processing element of the MX array: its four products, k ascending, each
/// sum = fma(a_k x scale, b_k x scale, sum) in float32, NaN canonical. a and b hold four elements of float8_e4m3fn or
/// float8_e5m2 (a byte each, the first in the low bits) or float4_e2m1fn (four bits each, in the low half); the scales
/// are float8_e8m0fnu codes; sum and out are float32 bits. A chain of 512 k, 128 steps, starts from +0: the result is
/// trn3_matmul_mx's.
///
/// # Safety
/// out is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_accumulate_step_mx(
    a_dtype: trn3_dtype,
    a: u32,
    a_scale: u32,
    b_dtype: trn3_dtype,
    b: u32,
    b_scale: u32,
    sum: u32,
    out: *mut u32,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Place::new(out, "out") }?;
        let (a, b) = (Lanes::new("a", a_dtype, a, a_scale)?, Lanes::new("b", b_dtype, b, b_scale)?);
        let sum = (0..LANES).fold(f32::from_bits(sum), |sum, lane| a.value(lane).mul_add(b.value(lane), sum));
        out.put(canonical(sum));
        Ok(())
    })
}

/// Four packed elements and their scale.
struct Lanes {
    table: usize,
    /// Bits of an element.
    width: u32,
    word: u32,
    scale: f32,
}

impl Lanes {
    fn new(argument: &str, dtype: trn3_dtype, word: u32, scale: u32) -> Result<Self> {
        let (table, width) = match dtype::format(argument, dtype)? {
            Format::F8E4M3Fn => (0, 8),
            Format::F8E5M2 => (1, 8),
            Format::F4E2M1Fn => (4, 4),
            other => return Err(refuse(argument, other, "float8_e4m3fn, float8_e5m2, float4_e2m1fn")),
        };
        if scale > 0xff {
            return Err(Fault::value(format!("{argument}_scale is {scale}; a float8_e8m0fnu code is at most 255")));
        }
        Ok(Self { table, width, word, scale: narrow(5, scale) })
    }

    fn value(&self, lane: u32) -> f32 {
        let code = self.word >> (lane * self.width) & ((1 << self.width) - 1);
        narrow(self.table, code) * self.scale
    }
}

/// A finished chain joins its accumulator in PSUM: accumulator + tile in float32, and for an accumulator of dtype
/// bfloat16 rounded to it by rounding_mode (draw is used with stochastic rounding). accumulator and out are bits of
/// dtype, float32 or bfloat16, tile of float32.
///
/// # Safety
/// out is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trn3_accumulate_tile(
    dtype: trn3_dtype,
    accumulator: u32,
    tile: u32,
    rounding_mode: u32,
    draw: u32,
    out: *mut u32,
) -> trn3_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Place::new(out, "out") }?;
        let format = dtype::format("dtype", dtype)?;
        let rounding = super::rounding::rounding(rounding_mode)?;
        let (Format::F32 | Format::Bf16) = format else {
            return Err(refuse("accumulator", format, "float32, bfloat16"));
        };
        if format == Format::F32 && rounding != Rounding::Nearest {
            return Err(Fault::value("rounding is not nearest; with a float32 accumulator nothing is rounded to it"));
        }
        let sum = canonical(operand("accumulator", format, accumulator)? + f32::from_bits(tile));
        if format == Format::F32 {
            out.put(sum);
            return Ok(());
        }
        let options = trn3_numerics::CastOptions { rounding, ..Default::default() };
        out.put(trn3_numerics::cast_one(Format::F32, sum, format, options, draw)?);
        Ok(())
    })
}
