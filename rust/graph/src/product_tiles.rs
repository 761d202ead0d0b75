//! Products on TensorE: matrices in HBM through SBUF and PSUM.

use std::ops::Range;

use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_machine::isa::tensor::matmul::NcMatmul;
use trn3_machine::isa::tensor::transpose::NcTranspose;
use trn3_machine::view::View;

use crate::emitter::{Emitter, merged_axes};
use crate::error::Result;

/// PSUM banks that hold sums at a time: rows of `lhs` that share what is loaded of `rhs` **(choice)**. The others are for
/// transposes and for sums on their way out.
const ROW_TILES: usize = 4;

/// A matrix in HBM: rows and columns with one stride each.
#[derive(Clone, Debug)]
pub(crate) struct MatrixView {
    pub(crate) view: View,
}

/// The matrices of a tensor, one for each position of the batch axes in row-major order. Where axes cannot be taken
/// together as they lie, they are laid out anew first.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn matrices(
    emitter: &mut Emitter,
    view: &View,
    batch: &[usize],
    rows: &[usize],
    columns: &[usize],
) -> Result<Vec<MatrixView>> {
    let pick = |axes: &[usize]| -> Vec<(usize, i64)> {
        axes.iter().map(|&axis| (view.shape[axis], view.strides[axis])).collect()
    };
    let (Some(row), Some(column)) =
        (merged_axes(view, rows.iter().copied()), merged_axes(view, columns.iter().copied()))
    else {
        let order = [batch, rows, columns].concat();
        let (shape, strides): (Vec<usize>, Vec<i64>) = pick(&order).into_iter().unzip();
        let dense = emitter.relaid(&View { shape: shape.into(), strides: strides.into(), ..view.clone() })?;
        let count = |part: &[usize], start: usize| (start..start + part.len()).collect::<Vec<_>>();
        let (b, r) = (batch.len(), rows.len());
        return matrices(emitter, &dense, &count(batch, 0), &count(rows, b), &count(columns, b + r));
    };
    let mut offsets = vec![view.offset];
    for (length, stride) in pick(batch) {
        offsets = offsets.iter().flat_map(|at| (0..length as i64).map(move |step| at + step * stride)).collect();
    }
    let matrix = |offset| MatrixView {
        view: View {
            shape: [row.0, column.0].into_iter().collect(),
            strides: [row.1, column.1].into_iter().collect(),
            offset,
            ..view.clone()
        },
    };
    Ok(offsets.into_iter().map(matrix).collect())
}

impl MatrixView {
    /// Its rows.
    pub(crate) fn rows(&self) -> usize {
        self.view.shape[0]
    }

    /// Its columns.
    pub(crate) fn columns(&self) -> usize {
        self.view.shape[1]
    }

    /// Its element type.
    pub(crate) fn dtype(&self) -> DType {
        self.view.dtype
    }

    /// Whether it is the elements of a column that follow one another.
    pub(crate) fn lies_turned(&self) -> bool {
        self.view.strides[0] == 1 && self.view.strides[1] != 1
    }

    /// Rows and columns exchanged.
    pub(crate) fn turned(&self) -> Self {
        let mut view = self.view.clone();
        view.shape.reverse();
        view.strides.reverse();
        Self { view }
    }

    /// Rows and columns: first and number.
    pub(crate) fn part(&self, rows: (usize, usize), columns: (usize, usize)) -> View {
        let (row, column) = (self.view.strides[0], self.view.strides[1]);
        View {
            shape: [rows.1, columns.1].into_iter().collect(),
            offset: self.view.offset + rows.0 as i64 * row + columns.0 as i64 * column,
            ..self.view.clone()
        }
    }

    /// A tile of `dtype` whose partitions are rows of this matrix: `rows` and `columns` are first and number.
    ///
    /// Where it is the rows whose elements follow one another, columns are loaded as partitions and turned on TensorE.
    pub(crate) fn tile(
        &self,
        emitter: &mut Emitter,
        dtype: DType,
        rows: (usize, usize),
        columns: (usize, usize),
    ) -> Result<View> {
        let part = self.part(rows, columns);
        let is_turned = self.view.strides[0] == 1 && self.view.strides[1] != 1 && rows.1 > 1;
        if !is_turned {
            let tile = emitter.load(&part)?;
            return in_dtype(emitter, tile, dtype);
        }
        let most = emitter.arch().partitions as usize;
        let tile = emitter.sbuf(&[rows.1, columns.1], dtype)?;
        for start in (0..columns.1).step_by(most) {
            let width = most.min(columns.1 - start);
            let mut source = self.part(rows, (columns.0 + start, width));
            source.shape.reverse();
            source.strides.reverse();
            let loaded = emitter.load(&source)?;
            let data = in_dtype(emitter, loaded, dtype)?;
            let dst = emitter.psum(&[rows.1, width], dtype)?;
            emitter.issue(NcTranspose { dst: dst.clone(), data, engine: None })?;
            let mut into = tile.clone();
            into.offset += start as i64;
            into.shape[1] = width;
            emitter.cast(&into, &dst)?;
        }
        Ok(tile)
    }
}

/// A tile in an element type.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn in_dtype(emitter: &mut Emitter, tile: View, dtype: DType) -> Result<View> {
    if tile.dtype == dtype {
        return Ok(tile);
    }
    let rounded = emitter.like(&tile, dtype)?;
    emitter.cast(&rounded, &tile)?;
    Ok(rounded)
}

/// Pieces of a length: first and number.
pub(crate) fn pieces(length: usize, most: usize) -> Vec<(usize, usize)> {
    (0..length).step_by(most).map(|start| (start, most.min(length - start))).collect()
}

/// Which operand of the array a tile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrayOperand {
    /// The left matrix.
    Stationary,
    /// The right matrix.
    Moving,
}

/// What the array multiplies: how tiles of an operand are made of a matrix in HBM, and how two of them meet.
pub(crate) trait ArrayPath {
    /// A tile on chip.
    type Tile;

    /// Steps of the contraction in one instruction.
    fn depth(&self, arch: &ArchSpec) -> usize;

    /// Columns that a stationary tile has for so many rows of the result.
    fn stationary_columns(&self, rows: usize) -> usize {
        rows
    }

    /// A tile of `rows` of the contraction and `columns` (first and number), filled up with zeros to `width` columns.
    ///
    /// # Errors
    /// What the machine refuses.
    fn tile(
        &self,
        emitter: &mut Emitter,
        operand: ArrayOperand,
        matrix: &MatrixView,
        rows: (usize, usize),
        columns: (usize, usize),
        width: usize,
    ) -> Result<Self::Tile>;

    /// sum = stationary^T moving, or what is added to it.
    ///
    /// # Errors
    /// What the machine refuses.
    fn multiply(
        &self,
        emitter: &mut Emitter,
        sum: &View,
        stationary: &Self::Tile,
        moving: &Self::Tile,
        accumulate: bool,
    ) -> Result<()>;
}

/// Operands rounded to one element type, by nc_matmul.
pub(crate) struct Plain(pub(crate) DType);

impl ArrayPath for Plain {
    type Tile = View;

    fn depth(&self, arch: &ArchSpec) -> usize {
        arch.partitions as usize
    }

    fn tile(
        &self,
        emitter: &mut Emitter,
        _: ArrayOperand,
        matrix: &MatrixView,
        rows: (usize, usize),
        columns: (usize, usize),
        _: usize,
    ) -> Result<View> {
        matrix.tile(emitter, self.0, rows, columns)
    }

    fn multiply(&self, emitter: &mut Emitter, sum: &View, stationary: &View, moving: &View, more: bool) -> Result<()> {
        emit_step(emitter, sum, stationary, moving, more)
    }
}

/// sum = stationary^T moving, or what is added to it.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_step(
    emitter: &mut Emitter,
    sum: &View,
    stationary: &View,
    moving: &View,
    accumulate: bool,
) -> Result<()> {
    emitter.issue(NcMatmul {
        dst: sum.clone(),
        stationary: stationary.clone(),
        moving: moving.clone(),
        is_stationary_onezero: false,
        is_moving_onezero: false,
        is_transpose: false,
        accumulate: Some(accumulate),
        tile: None,
        double_row: false,
    })
}

/// out [m, n] = left [m, k] right [k, n] by a path of the array, in the order of [`crate::product::product_in_runs`]. Each core
/// makes some of the rows, or of the columns where that is less work.
///
/// # Errors
/// What the machine refuses.
pub(crate) fn emit_product<P: ArrayPath>(
    emitter: &mut Emitter,
    path: &P,
    run: Option<usize>,
    left: &MatrixView,
    right: &MatrixView,
    out: &MatrixView,
) -> Result<()> {
    let (rows, columns, depth) = (left.rows(), right.columns(), left.columns());
    let longest = [left, right, out].map(|matrix| matrix.view.len()).into_iter().max().unwrap_or(0);
    let is_by_rows = work_by_rows(emitter, rows, columns);
    let (length, tile) = if is_by_rows {
        (rows, emitter.arch().stationary_columns as usize)
    } else {
        (columns, emitter.arch().moving_columns as usize)
    };
    // Whole tiles where each core has some.
    let unit = if length >= tile * emitter.cores() { tile } else { 1 };
    let parts = |units: &Range<usize>| {
        let items = (units.start * unit, (units.end * unit).min(length) - units.start * unit);
        let of = |matrix: &MatrixView, rows, columns| MatrixView { view: matrix.part(rows, columns) };
        if is_by_rows {
            (of(left, items, (0, depth)), right.clone(), of(out, items, (0, columns)))
        } else {
            (left.clone(), of(right, (0, depth), items), of(out, (0, rows), items))
        }
    };
    let needs = |units: &Range<usize>| {
        let (left, right, _) = parts(units);
        vec![left.view, right.view]
    };
    emitter.divided(longest, length.div_ceil(unit), &needs, &mut |emitter, units| {
        let (left, right, out) = parts(&units);
        emit_part(emitter, path, run, &left, &right, &out)
    })
}

/// Whether the array's part of a product takes less where cores have rows of it, or as much and loads less.
fn work_by_rows(emitter: &Emitter, rows: usize, columns: usize) -> bool {
    let (tall, cores) = (emitter.arch().stationary_columns as usize, emitter.cores());
    let work =
        |rows: usize, columns: usize| (rows.div_ceil(tall) * columns, rows.div_ceil(tall * ROW_TILES) * columns + rows);
    work(rows.div_ceil(cores), columns) <= work(rows, columns.div_ceil(cores))
}

/// The same on one core.
fn emit_part<P: ArrayPath>(
    emitter: &mut Emitter,
    path: &P,
    run: Option<usize>,
    left: &MatrixView,
    right: &MatrixView,
    out: &MatrixView,
) -> Result<()> {
    let arch = emitter.arch();
    let (deep, tall, wide) = (path.depth(arch), arch.stationary_columns as usize, arch.moving_columns as usize);
    let (rows, columns, depth) = (left.view.shape[0], right.view.shape[1], right.view.shape[0]);
    let turned = left.turned();
    let runs = pieces(depth, run.unwrap_or(depth).max(1)).into_iter();
    let chains = |(start, length)| pieces(length, deep).into_iter().map(move |(first, count)| (start + first, count));
    let depths: Vec<(usize, usize)> = runs.flat_map(chains).collect();
    for group in pieces(rows, tall).chunks(ROW_TILES) {
        let mut stationary = Vec::with_capacity(group.len());
        for &part in group {
            let width = path.stationary_columns(part.1);
            let tiles: Result<Vec<P::Tile>> =
                depths.iter().map(|&k| path.tile(emitter, ArrayOperand::Stationary, &turned, k, part, width)).collect();
            stationary.push(tiles?);
        }
        for part in pieces(columns, wide) {
            let mut sums = Vec::with_capacity(group.len());
            for &(_, count) in group {
                sums.push(emitter.psum(&[path.stationary_columns(count), part.1], DType::Float32)?);
            }
            for (step, &k) in depths.iter().enumerate() {
                let moving = path.tile(emitter, ArrayOperand::Moving, right, k, part, part.1)?;
                for (sum, tiles) in sums.iter().zip(&stationary) {
                    path.multiply(emitter, sum, &tiles[step], &moving, step > 0)?;
                }
            }
            for (&count, sum) in group.iter().zip(&sums) {
                let tile = emitter.sbuf(&[count.1, part.1], out.view.dtype)?;
                if depth == 0 {
                    emitter.fill(&tile, 0.0)?;
                } else {
                    emitter.cast(&tile, &sum.slice(0, 0, count.1 as i64, 1)?)?;
                }
                emitter.copy(&out.part(count, part), &tile)?;
            }
        }
    }
    Ok(())
}
