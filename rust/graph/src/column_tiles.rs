//! Columns joined: sums by TensorE as products with ones, others lane by lane on VectorE and turned on chip.

use smallvec::smallvec;
use trn3_machine::dtype::DType;
use trn3_machine::engine::Engine;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::reduce::TensorReduce;
use trn3_machine::isa::tensor::matmul::NcMatmul;
use trn3_machine::isa::tensor::transpose::NcTranspose;
use trn3_machine::view::View;

use crate::emitter::Emitter;
use crate::error::Result;
use crate::operations::LANES;
use crate::pieces::for_each_piece;
use crate::product_tiles::{in_dtype, pieces};

/// Columns that are joined at a time, at most **(choice)**: two sets of them have room in PSUM.
const COLUMNS: usize = 2048;
/// Elements of a partition that are loaded at a time **(choice)**.
const LOADED: usize = 4096;
/// Columns that a partition has at a time where each has some of its own, at least **(choice)**.
const COLUMNS_ALONG: usize = 128;
/// Columns from which each partition has some of its own, where there are fewer elements to join than lanes **(choice)**:
/// their rows are then long enough for DMA.
const MANY_COLUMNS: usize = 16384;

/// What joins, and what its results join with.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    pub(crate) op: AluOp,
    /// On every partition.
    pub(crate) init: Option<View>,
    /// Whether TensorE may add.
    pub(crate) is_sum: bool,
}

impl Joining {
    /// init op total, in an element type.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn finished(&self, emitter: &mut Emitter, total: &View, dtype: DType) -> Result<View> {
        let result = emitter.like(total, dtype)?;
        let Some(init) = &self.init else {
            emitter.cast(&result, total)?;
            return Ok(result);
        };
        let strides = smallvec![init.strides[0], 0];
        let start = View { shape: total.shape.clone(), strides, ..init.clone() };
        emitter.pair(&result, &start, total, self.op)?;
        Ok(result)
    }
}

/// data [partitions, rows, columns] joined along its columns.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn reduced(emitter: &mut Emitter, op: AluOp, data: View, rows: usize) -> Result<View> {
    let sum = emitter.sbuf(&[data.shape[0], rows], DType::Float32)?;
    let axes = smallvec![data.rank() as i64 - 1];
    emitter.issue(TensorReduce { dst: sum.clone(), op, data, axes, negate: false, keepdims: true })?;
    Ok(sum)
}

/// A part of the columns: first and number, along the axes before and after the one that is joined.
struct Block {
    before: (usize, usize),
    inner: (usize, usize),
}

impl Block {
    fn columns(&self) -> usize {
        self.before.1 * self.inner.1
    }

    /// `count` lanes of rows, each `steps.0` rows after the one before, and of each `steps.1` rows from `first` on:
    /// [lanes, rows, before, inner].
    fn rows(&self, x: &View, first: usize, (count, distance): (usize, usize), rows: usize) -> View {
        let (before, row, inner) = (x.strides[0], x.strides[1], x.strides[2]);
        View {
            shape: smallvec![count, rows, self.before.1, self.inner.1],
            strides: smallvec![distance as i64 * row, row, before, inner],
            offset: x.offset + self.before.0 as i64 * before + first as i64 * row + self.inner.0 as i64 * inner,
            ..x.clone()
        }
    }

    /// Rows one after another, a partition each, as a tile [rows, columns].
    fn left_over(&self, emitter: &mut Emitter, x: &View, first: usize) -> Result<View> {
        emitter.load(&self.rows(x, first, (x.shape[1] - first, 1), 1))
    }

    /// Calls `visit` with each row of all lanes, in ascending order: [lanes, columns], `deep` of them.
    fn for_each_row(
        &self,
        emitter: &mut Emitter,
        x: &View,
        deep: usize,
        visit: &mut dyn FnMut(&mut Emitter, View) -> Result<()>,
    ) -> Result<()> {
        let columns = self.columns();
        for (first, rows) in pieces(deep, (LOADED / columns).max(1)) {
            let tile = emitter.load(&self.rows(x, first, (LANES, deep), rows))?;
            for row in 0..rows {
                visit(emitter, tile.slice(1, (row * columns) as i64, ((row + 1) * columns) as i64, 1)?)?;
            }
        }
        Ok(())
    }
}

/// out [before, inner] = init op (x [before, joined, inner] joined), as [`crate::operations::Reduce`] orders it.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_columns(emitter: &mut Emitter, joining: &Joining, x: &View, out: &View) -> Result<()> {
    let (before, joined, inner) = (x.shape[0], x.shape[1], x.shape[2]);
    if joined < LANES && before * inner >= MANY_COLUMNS {
        return emit_along(emitter, joining, x, out);
    }
    let most = COLUMNS.min(emitter.arch().moving_columns as usize);
    for inner_part in pieces(inner, most) {
        let together = if inner_part.1 == inner { most / inner } else { 1 };
        for before_part in pieces(before, together) {
            let block = Block { before: before_part, inner: inner_part };
            let first = block.before.0 * inner + block.inner.0;
            let into = View { offset: out.offset + first as i64, shape: smallvec![block.columns()], ..out.clone() };
            if joining.is_sum {
                emit_sums(emitter, joining, x, &block, &into)?;
            } else {
                emit_lanes(emitter, joining, x, &block, &into)?;
            }
        }
    }
    Ok(())
}

/// Few elements of many columns, which each partition has some of: joined one after another.
fn emit_along(emitter: &mut Emitter, joining: &Joining, x: &View, out: &View) -> Result<()> {
    let (joined, row) = (x.shape[1], x.strides[1]);
    let first =
        View { shape: smallvec![x.shape[0], x.shape[2]], strides: smallvec![x.strides[0], x.strides[2]], ..x.clone() };
    let into = View { shape: first.shape.clone(), strides: smallvec![x.shape[2] as i64, 1], ..out.clone() };
    let partitions = emitter.arch().partitions as usize;
    for_each_piece(&[&first, &into], partitions, (LOADED / joined).max(COLUMNS_ALONG), &mut |parts| {
        let mut source = parts[0].clone();
        source.shape.insert(1, joined);
        source.strides.insert(1, row);
        let tile = emitter.load(&source)?;
        let columns = parts[0].free_size() as i64;
        let mut total = Total::default();
        for place in 0..joined as i64 {
            total.join(emitter, joining.op, &tile.slice(1, place * columns, (place + 1) * columns, 1)?)?;
        }
        let Some(total) = total.tile else { return Ok(()) };
        let result = joining.finished(emitter, &total, out.dtype)?;
        emitter.copy(&parts[1], &result)
    })
}

/// What tiles join to, one after another: in float32, or in their own type where that loses nothing and is faster.
#[derive(Default)]
struct Total {
    tile: Option<View>,
}

impl Total {
    fn join(&mut self, emitter: &mut Emitter, op: AluOp, tile: &View) -> Result<()> {
        match &self.tile {
            Some(total) => emitter.pair(total, total, tile, op),
            None => {
                let is_exact = matches!(op, AluOp::Maximum | AluOp::Minimum);
                let total = emitter.like(tile, if is_exact { tile.dtype } else { DType::Float32 })?;
                emitter.scalar(&total, tile, &[(op, Some(f64::from(op.identity())))])?;
                self.tile = Some(total);
                Ok(())
            }
        }
    }
}

/// Sums of columns in PSUM: a chain of the lanes for each of their rows, and one of what is left over.
fn emit_sums(emitter: &mut Emitter, joining: &Joining, x: &View, block: &Block, out: &View) -> Result<()> {
    let sum = emitter.psum(&[1, block.columns()], DType::Float32)?;
    let deep = x.shape[1] / LANES;
    let dtype = array_type(emitter, x.dtype);
    let ones = emitter.sbuf(&[LANES.min(x.shape[1]), 1], dtype)?;
    emitter.fill(&ones, 1.0)?;
    let mut is_first = true;
    let mut add = |emitter: &mut Emitter, rows: View| {
        let moving = in_dtype(emitter, rows, dtype)?;
        let stationary = ones.slice(0, 0, moving.shape[0] as i64, 1)?;
        let accumulate = !std::mem::take(&mut is_first);
        emit_ones(emitter, &sum, (stationary, true), (moving, false), accumulate)
    };
    block.for_each_row(emitter, x, deep, &mut add)?;
    if deep * LANES < x.shape[1] {
        let rest = block.left_over(emitter, x, deep * LANES)?;
        add(emitter, rest)?;
    }
    let result = joining.finished(emitter, &sum, out.dtype)?;
    emitter.copy(&View { shape: smallvec![1, block.columns()], strides: smallvec![1, 1], ..out.clone() }, &result)
}

/// The type that the array takes elements in: one that it does not know is exact in bfloat16.
fn array_type(emitter: &Emitter, dtype: DType) -> DType {
    let is_new = dtype == DType::Float8E4M3Fn && emitter.arch().mx_elements == 0;
    if is_new { DType::BFloat16 } else { dtype }
}

/// A product of which one side is all ones: each operand with whether it is that one.
fn emit_ones(
    emitter: &mut Emitter,
    sum: &View,
    (stationary, is_stationary_onezero): (View, bool),
    (moving, is_moving_onezero): (View, bool),
    accumulate: bool,
) -> Result<()> {
    emitter.issue(NcMatmul {
        dst: sum.clone(),
        stationary,
        moving,
        is_stationary_onezero,
        is_moving_onezero,
        is_transpose: false,
        accumulate: Some(accumulate),
        tile: None,
        double_row: false,
    })
}

/// Columns joined lane by lane, then one lane to another.
fn emit_lanes(emitter: &mut Emitter, joining: &Joining, x: &View, block: &Block, out: &View) -> Result<()> {
    let deep = x.shape[1] / LANES;
    let mut total = Total::default();
    block.for_each_row(emitter, x, deep, &mut |emitter, row| total.join(emitter, joining.op, &row))?;
    let mut parts = Vec::with_capacity(2);
    if let Some(total) = total.tile {
        parts.push(in_dtype(emitter, total, DType::Float32)?);
    }
    if deep * LANES < x.shape[1] {
        let rest = block.left_over(emitter, x, deep * LANES)?;
        parts.push(in_dtype(emitter, rest, DType::Float32)?);
    }
    let wide = turned_columns(emitter);
    for (first, count) in pieces(block.columns(), wide) {
        let mut joined: Option<View> = None;
        for part in &parts {
            let columns = part.slice(1, first as i64, (first + count) as i64, 1)?;
            let sums = joined_partitions(emitter, joining, &columns)?;
            joined = Some(match joined {
                None => sums,
                Some(before) => {
                    emitter.pair(&before, &before, &sums, joining.op)?;
                    before
                }
            });
        }
        let Some(joined) = joined else { continue };
        let result = joining.finished(emitter, &joined, out.dtype)?;
        let into = View {
            shape: smallvec![count, 1],
            strides: smallvec![1, 1],
            offset: out.offset + first as i64,
            ..out.clone()
        };
        emitter.copy(&into, &result)?;
    }
    Ok(())
}

/// Columns that are turned at a time.
fn turned_columns(emitter: &Emitter) -> usize {
    let arch = emitter.arch();
    (if arch.generation >= EXACT_TRANSPOSES { arch.partitions } else { arch.quadrant_partitions }) as usize
}

/// The generation from which TensorE transposes by moving bits.
pub(crate) const EXACT_TRANSPOSES: u64 = 3;

/// [columns, 1] of a tile [lanes, columns] in float32 whose lanes join in ascending order.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn joined_partitions(emitter: &mut Emitter, joining: &Joining, tile: &View) -> Result<View> {
    let (lanes, columns) = (tile.shape[0], tile.shape[1]);
    if joining.is_sum {
        let ones = emitter.sbuf(&[lanes, 1], DType::Float32)?;
        emitter.fill(&ones, 1.0)?;
        let sum = emitter.psum(&[columns, 1], DType::Float32)?;
        emit_ones(emitter, &sum, (tile.clone(), false), (ones, true), false)?;
        return Ok(sum);
    }
    let turned = if emitter.arch().generation >= EXACT_TRANSPOSES {
        let dst = emitter.psum(&[columns, lanes], DType::Float32)?;
        emitter.issue(NcTranspose { dst: dst.clone(), data: tile.clone(), engine: None })?;
        dst
    } else {
        let side = emitter.arch().quadrant_partitions as usize;
        let dst = emitter.sbuf(&[columns, lanes], DType::Float32)?;
        for (first, count) in pieces(lanes, side) {
            let data = tile.slice(0, first as i64, (first + count) as i64, 1)?;
            let dst = dst.slice(1, first as i64, (first + count) as i64, 1)?;
            emitter.issue(NcTranspose { dst, data, engine: Some(Engine::Vector) })?;
        }
        dst
    };
    reduced(emitter, joining.op, turned, 1)
}
