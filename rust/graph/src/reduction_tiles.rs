//! Reductions on VectorE: rows in HBM through SBUF.

use smallvec::smallvec;
use trn3_machine::dtype::DType;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::reduce::TensorReduce;
use trn3_machine::view::View;

use crate::emitter::{Emitter, merged_axes};
use crate::error::Result;

/// out[row] = init op (x[row, 0] op x[row, 1] ...), runs of `run` elements one after another, in float32.
///
/// `x` has `kept` axes and then the reduced ones.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_reduction(
    emitter: &mut Emitter,
    op: AluOp,
    run: usize,
    (x, kept): (&View, usize),
    init: &View,
    out: &View,
) -> Result<()> {
    let columns: usize = x.shape[kept..].iter().product();
    let rows: usize = x.shape[..kept].iter().product();
    let x = flat(emitter, x, kept, [rows, columns])?;
    let most = emitter.arch().partitions as usize;
    for first in (0..rows).step_by(most) {
        let count = most.min(rows - first);
        let mut total: Option<View> = None;
        for start in (0..columns).step_by(run) {
            let width = run.min(columns - start);
            let part = View {
                shape: smallvec![count, width],
                offset: x.offset + first as i64 * x.strides[0] + start as i64 * x.strides[1],
                ..x.clone()
            };
            let tile = emitter.load(&part)?;
            let sum = emitter.sbuf(&[count, 1], DType::Float32)?;
            let (dst, data, axes) = (sum.clone(), tile, smallvec![1]);
            emitter.issue(TensorReduce { dst, op, data, axes, negate: false, keepdims: true })?;
            total = Some(match total {
                None => sum,
                Some(before) => {
                    emitter.pair(&before, &before, &sum, op)?;
                    before
                }
            });
        }
        let total = match total {
            Some(total) => total,
            None => {
                let empty = emitter.sbuf(&[count, 1], DType::Float32)?;
                emitter.fill(&empty, f64::from(op.identity()))?;
                empty
            }
        };
        let everywhere = View { shape: smallvec![count, 1], strides: smallvec![0, 1], ..init.clone() };
        let start = emitter.load(&everywhere)?;
        let result = emitter.sbuf(&[count, 1], out.dtype)?;
        emitter.pair(&result, &start, &total, op)?;
        let part = View {
            shape: smallvec![count, 1],
            strides: smallvec![1, 1],
            offset: out.offset + first as i64,
            ..out.clone()
        };
        emitter.copy(&part, &result)?;
    }
    Ok(())
}

/// The view as rows and columns with one stride each, laid out anew where it has to be.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn flat(emitter: &mut Emitter, x: &View, kept: usize, shape: [usize; 2]) -> Result<View> {
    if let (Some(row), Some(column)) = (merged_axes(x, 0..kept), merged_axes(x, kept..x.rank())) {
        return Ok(View { shape: shape.into_iter().collect(), strides: smallvec![row.1, column.1], ..x.clone() });
    }
    let dense = emitter.relaid(x)?;
    Ok(View { shape: shape.into_iter().collect(), strides: smallvec![shape[1] as i64, 1], ..dense })
}
