//! Instructions that GpSimdE alone has: its eight processors run programs over SBUF tiles, 16 partitions to each.

use crate::error::Result;
use crate::machine::check::{Check, SBUF};
use crate::machine::core::State;
use crate::machine::dtype::DType;
use crate::machine::view::View;

pub mod affine;

#[cfg(test)]
mod tests;

/// An operand of these instructions: in SBUF, of a type that engines compute with, no `.indirect()` view.
fn check_tile(check: &Check<'_>, operand: &'static str, view: &View) -> Result<()> {
    check.tile(operand, view, SBUF)?;
    check.no_columns(operand, view)?;
    check.arithmetic(operand, view)
}

/// The bits of an integer in an integer type that it is cast to: the nearest that the type has.
fn saturated(dtype: DType, value: i64) -> u32 {
    let (low, high) = match dtype {
        DType::Bool => return u32::from(value != 0),
        DType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DType::UInt8 => (0, u8::MAX.into()),
        DType::UInt16 => (0, u16::MAX.into()),
        _ => (0, i64::from(u32::MAX)),
    };
    value.clamp(low, high) as u32
}

/// Writes integer results: into integer types without a detour through float32, to the nearest that the type has
/// **(choice)**; into others rounded to float32 and then to the type.
fn write_integers(state: &mut State, dst: &View, values: impl Iterator<Item = i64>) -> Result<()> {
    if dst.dtype.is_integer() {
        let bits: Vec<u32> = values.map(|value| saturated(dst.dtype, value)).collect();
        return state.memory.write_bits(dst, &bits);
    }
    let mut results = state.buffer();
    results.clear();
    results.extend(values.map(|value| value as f32));
    state.write(dst, &results)?;
    state.keep(results);
    Ok(())
}
