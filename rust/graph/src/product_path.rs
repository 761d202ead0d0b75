//! Products on the path of the array that they are asked for on.

use trn3_machine::dtype::DType;
use trn3_numerics::Format;

use crate::emitter::Emitter;
use crate::error::Result;
use crate::mx_tiles::Scaled;
use crate::options::MatmulPath;
use crate::product_tiles::{MatrixView, Plain, emit_product};

/// A product of two matrices in HBM, as [`emit_product`] emits it on its path.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_path(
    emitter: &mut Emitter,
    path: MatmulPath,
    run: Option<usize>,
    left: &MatrixView,
    right: &MatrixView,
    out: &MatrixView,
) -> Result<()> {
    match path {
        MatmulPath::AsTyped => emit_product(emitter, &Plain(left.view.dtype), run, left, right, out),
        MatmulPath::Bf16 => emit_product(emitter, &Plain(DType::BFloat16), run, left, right, out),
        MatmulPath::Mxfp8 => emit_product(emitter, &Scaled::alike(Format::F8E4M3Fn), run, left, right, out),
        MatmulPath::Mxfp4 => emit_product(emitter, &Scaled::alike(Format::F4E2M1Fn), run, left, right, out),
    }
}
