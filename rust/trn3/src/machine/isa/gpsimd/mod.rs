//! GpSimdE: eight processors, each with its own 16 partitions of SBUF.

pub mod affine;
pub mod gather;
pub mod reduce;
pub mod search;

use crate::error::Result;
use crate::machine::check::Check;
use crate::machine::view::View;

/// The partitions come in whole groups of a processor's.
fn check_groups(check: &Check<'_>, name: &'static str, view: &View) -> Result<usize> {
    let group = check.arch.gpsimd_partitions as usize;
    if view.partitions() % group != 0 {
        let got = format!("has {} partitions", view.partitions());
        return Err(check.refuse(name, got, format!("a multiple of {group}")));
    }
    Ok(group)
}
