//! GpSimdE: eight processors, each with its own 16 partitions of SBUF.

pub mod affine;
pub mod gather;
pub mod reduce;
pub mod search;

#[cfg(test)]
mod tests;

use crate::check::Check;
use crate::dtype::DType;
use crate::error::Result;
use crate::isa::register;
use crate::state::State;
use crate::view::View;

/// The partitions come in whole groups of a processor's.
fn check_groups(check: &Check<'_>, name: &'static str, view: &View) -> Result<usize> {
    let group = check.arch.gpsimd_partitions as usize;
    if !view.partitions().is_multiple_of(group) {
        let got = format!("has {} partitions", view.partitions());
        return Err(check.refuse(name, got, format!("a multiple of {group}")));
    }
    Ok(group)
}

/// The elements of an integer tile.
fn integers(state: &mut State, view: &View) -> Result<Vec<i64>> {
    let bits = state.read_bits(view)?;
    Ok(bits.into_iter().map(|bits| register::wrapped(view.dtype, bits)).collect())
}

/// The bits of the nearest integer that the type has.
fn nearest(dtype: DType, value: i64) -> u32 {
    let width = 8 * dtype.size() as u32;
    let (low, high) = match dtype {
        DType::Bool => (0, 1),
        _ if dtype.is_signed_integer() => (-(1i64 << (width - 1)), (1i64 << (width - 1)) - 1),
        _ => (0, (1i64 << width) - 1),
    };
    value.clamp(low, high) as u32
}
