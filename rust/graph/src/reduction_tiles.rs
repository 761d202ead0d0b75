//! Reductions of floats in HBM: rows on VectorE; columns in `column_tiles`.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use trn3_machine::dtype::DType;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::view::View;

use crate::column_tiles::{EXACT_TRANSPOSES, Joining, emit_columns, joined_partitions, reduced};
use crate::core_shares::along;
use crate::emitter::{Emitter, merged_axes};
use crate::error::Result;
use crate::operations::{JoinOrder, LANES, RUN, ReduceFunction};
use crate::pieces::for_each_row_piece;
use crate::product_tiles::{MatrixView, pieces};
use crate::region_run::narrowed;
use crate::tensor_type::TensorType;

/// out = init op (x joined over `dimensions`), in the steps and the order of [`JoinOrder`].
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_reduction(
    emitter: &mut Emitter,
    function: ReduceFunction,
    x: &View,
    dimensions: &[usize],
    init: &View,
    out: &View,
) -> Result<()> {
    let op = function.operator();
    let into = View { shape: smallvec![out.len()], strides: smallvec![1], ..out.clone() };
    if into.is_empty() {
        return Ok(());
    }
    let is_sum = function == ReduceFunction::Add;
    if x.is_empty() {
        let joining = Joining { op, init: Some(everywhere(emitter, init)?), is_sum };
        let most = emitter.arch().partitions as usize;
        let empty = emitter.sbuf(&[most.min(into.len()), 1], DType::Float32)?;
        emitter.fill(&empty, f64::from(op.identity()))?;
        let result = joining.finished(emitter, &empty, into.dtype)?;
        return emit_repeated(emitter, &result, &into);
    }
    let order = JoinOrder::new(&x.shape, dimensions);
    let Some(columns) = &order.columns else {
        let rows = flat(emitter, x, order.tail, [order.rows, order.length])?;
        return emit_rows(emitter, &order, (op, is_sum), &rows, Some(init), &into);
    };
    let shape = &x.shape[..order.tail];
    let mut lead = View { shape: shape.into(), strides: x.strides[..order.tail].into(), ..x.clone() };
    if order.length > 1 {
        let rows = flat(emitter, x, order.tail, [order.rows, order.length])?;
        let made = emitter.hbm("rows", &TensorType::new(DType::Float32, shape))?;
        let into = View { shape: smallvec![order.rows], strides: smallvec![1], ..made.clone() };
        emit_rows(emitter, &order, (op, is_sum), &rows, None, &into)?;
        lead = made;
    }
    let axes = [&columns.before, &columns.joined, &columns.inner];
    let lengths = columns.lengths(shape);
    let parts: Option<SmallVec<[i64; 6]>> =
        axes.iter().map(|axes| merged_axes(&lead, axes.iter().copied()).map(|(_, stride)| stride)).collect();
    let (strides, source) = match parts {
        Some(strides) => (strides, lead),
        None => {
            let permutation = columns.permutation();
            let turned = View {
                shape: permutation.iter().map(|&axis| lead.shape[axis]).collect(),
                strides: permutation.iter().map(|&axis| lead.strides[axis]).collect(),
                ..lead
            };
            (smallvec![(lengths[1] * lengths[2]) as i64, lengths[2] as i64, 1], emitter.relaid(&turned)?)
        }
    };
    let source = upright(emitter, View { shape: lengths.into_iter().collect(), strides, ..source })?;
    // Results follow one another along the first axis that has more than one.
    let axis = if lengths[0] > 1 { 0 } else { 2 };
    let step = if axis == 0 { lengths[2] } else { 1 };
    let needs = |items: &Range<usize>| vec![along(&source, axis, items), init.clone()];
    emitter.divided(source.len(), lengths[axis], &needs, &mut |emitter, items| {
        let joining = Joining { op, init: Some(everywhere(emitter, init)?), is_sum };
        let into = along(&into, 0, &(items.start * step..items.end * step));
        emit_columns(emitter, &joining, &along(&source, axis, &items), &into)
    })
}

/// Every element of `out` is the number that each partition of the tile has.
fn emit_repeated(emitter: &mut Emitter, tile: &View, out: &View) -> Result<()> {
    for first in (0..out.len()).step_by(tile.shape[0]) {
        let count = tile.shape[0].min(out.len() - first);
        let offset = out.offset + first as i64;
        let into = View { shape: smallvec![count, 1], strides: smallvec![1, 1], offset, ..out.clone() };
        emitter.copy(&into, &tile.slice(0, 0, count as i64, 1)?)?;
    }
    Ok(())
}

/// A number on every partition.
fn everywhere(emitter: &mut Emitter, number: &View) -> Result<View> {
    let partitions = emitter.arch().partitions as usize;
    let repeated = View { shape: smallvec![partitions, 1], strides: smallvec![0, 1], ..number.clone() };
    emitter.load(&repeated)
}

/// Rows of x joined, and with `init` where there is one; each core has some of them.
fn emit_rows(
    emitter: &mut Emitter,
    order: &JoinOrder,
    (op, is_sum): (AluOp, bool),
    x: &View,
    init: Option<&View>,
    out: &View,
) -> Result<()> {
    let needs = |items: &Range<usize>| [along(x, 0, items)].into_iter().chain(init.cloned()).collect();
    emitter.divided(x.len(), order.rows, &needs, &mut |emitter, items| {
        let joining = Joining { op, init: init.map(|init| everywhere(emitter, init)).transpose()?, is_sum };
        emit_some_rows(emitter, order, &joining, &along(x, 0, &items), &along(out, 0, &items))
    })
}

fn emit_some_rows(emitter: &mut Emitter, order: &JoinOrder, joining: &Joining, x: &View, out: &View) -> Result<()> {
    if let Some(width) = order.lane_width() {
        return emit_in_lanes(emitter, joining, x, width, out);
    }
    let partitions = emitter.arch().partitions as usize;
    if order.length > RUN || can_be_turned(emitter, x) {
        for first in (0..x.shape[0]).step_by(partitions) {
            let part = x.slice(0, first as i64, (first + partitions).min(x.shape[0]) as i64, 1)?;
            let total = row(emitter, joining.op, &part)?;
            let result = joining.finished(emitter, &total, out.dtype)?;
            let into = View {
                shape: smallvec![part.shape[0], 1],
                strides: smallvec![1, 1],
                offset: out.offset + first as i64,
                ..out.clone()
            };
            emitter.copy(&into, &result)?;
        }
        return Ok(());
    }
    let into = View { shape: x.shape.clone(), strides: smallvec![1, 0], ..out.clone() };
    for_each_row_piece(&[x, &into], &[false, true], partitions, RUN, &mut |pieces, _| {
        let (count, rows) = (pieces[0].partitions(), pieces[0].free_size() / order.length);
        let tile = emitter.load(&pieces[0])?;
        let data = View {
            shape: smallvec![count, rows, order.length],
            strides: smallvec![tile.strides[0], order.length as i64, 1],
            ..tile
        };
        let total = reduced(emitter, joining.op, data, rows)?;
        let result = joining.finished(emitter, &total, out.dtype)?;
        emitter.copy(&narrowed(&pieces[1]).0, &result)
    })
}

/// Whether it is the rows of a matrix whose elements follow one another, and the array can turn them as they are: DMA would
/// take them one by one.
fn can_be_turned(emitter: &Emitter, matrix: &View) -> bool {
    let (shape, strides) = (&matrix.shape, &matrix.strides);
    let is_worth_it = shape.iter().all(|&length| length > 1) && strides[0] == 1 && strides[1] > 1;
    is_worth_it && matrix.dtype.size() > 1 && emitter.arch().generation >= EXACT_TRANSPOSES
}

/// Columns [before, joined, inner] with elements of a row after one another, laid out anew where they lie turned.
fn upright(emitter: &mut Emitter, x: View) -> Result<View> {
    let matrix = View { shape: x.shape[1..].into(), strides: x.strides[1..].into(), ..x.clone() };
    if !can_be_turned(emitter, &matrix) {
        return Ok(x);
    }
    let dense = emitter.hbm("upright", &TensorType::new(x.dtype, &x.shape))?;
    let partitions = emitter.arch().partitions as usize;
    for place in 0..x.shape[0] {
        let offset = x.offset + place as i64 * x.strides[0];
        let source = MatrixView { view: View { offset, ..matrix.clone() } };
        let into = MatrixView { view: dense.select(0, place as i64)? };
        for rows in pieces(x.shape[1], partitions) {
            for columns in pieces(x.shape[2], RUN) {
                let tile = source.tile(emitter, x.dtype, rows, columns)?;
                emitter.copy(&into.part(rows, columns), &tile)?;
            }
        }
    }
    Ok(dense)
}

/// Rows of at most as many as there are partitions, joined in runs.
fn row(emitter: &mut Emitter, op: AluOp, x: &View) -> Result<View> {
    let mut total: Option<View> = None;
    let matrix = MatrixView { view: x.clone() };
    let is_turned = can_be_turned(emitter, x);
    for (start, count) in pieces(x.shape[1], RUN) {
        let part = ((0, x.shape[0]), (start, count));
        let tile = if is_turned {
            matrix.tile(emitter, x.dtype, part.0, part.1)?
        } else {
            emitter.load(&matrix.part(part.0, part.1))?
        };
        let sum = reduced(emitter, op, tile, 1)?;
        total = Some(match total {
            None => sum,
            Some(before) => {
                emitter.pair(&before, &before, &sum, op)?;
                before
            }
        });
    }
    match total {
        Some(total) => Ok(total),
        None => emitter.sbuf(&[x.shape[0], 1], DType::Float32),
    }
}

/// Few long rows: each by lanes of `width` elements on partitions of their own, which join then.
fn emit_in_lanes(emitter: &mut Emitter, joining: &Joining, x: &View, width: usize, out: &View) -> Result<()> {
    let (rows, length) = (x.shape[0], x.shape[1]);
    let full = length / width;
    debug_assert!(full <= LANES);
    let lanes = emitter.sbuf(&[full, rows], DType::Float32)?;
    for (run, start) in (0..width).step_by(RUN).enumerate() {
        let count = RUN.min(width - start);
        let together = (RUN / count).max(1);
        for first in (0..rows).step_by(together) {
            let number = together.min(rows - first);
            let tile = emitter.load(&View {
                shape: smallvec![full, number, count],
                strides: smallvec![width as i64 * x.strides[1], x.strides[0], x.strides[1]],
                offset: x.offset + first as i64 * x.strides[0] + start as i64 * x.strides[1],
                ..x.clone()
            })?;
            let data = View {
                shape: smallvec![full, number, count],
                strides: smallvec![tile.strides[0], count as i64, 1],
                ..tile
            };
            let sums = reduced(emitter, joining.op, data, number)?;
            let into = lanes.slice(1, first as i64, (first + number) as i64, 1)?;
            if run == 0 {
                emitter.cast(&into, &sums)?;
            } else {
                emitter.pair(&into, &into, &sums, joining.op)?;
            }
        }
    }
    let mut total = joined_partitions(emitter, joining, &lanes)?;
    if full * width < length {
        let short = row(emitter, joining.op, &x.slice(1, (full * width) as i64, length as i64, 1)?)?;
        let both = emitter.sbuf(&[rows, 1], DType::Float32)?;
        emitter.pair(&both, &total, &short, joining.op)?;
        total = both;
    }
    let result = joining.finished(emitter, &total, out.dtype)?;
    emitter.copy(&View { shape: smallvec![rows, 1], strides: smallvec![1, 1], ..out.clone() }, &result)
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
