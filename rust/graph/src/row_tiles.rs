//! Rows of a table in HBM, named by indices: through SBUF, a partition a row, by transfers whose addresses are data.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::smallvec;
use trn3_machine::dtype::DType;
use trn3_machine::isa::alu::AluOp;
use trn3_machine::isa::custom::{GpSimdCall, TileBytes, instruction_name};
use trn3_machine::isa::dma::Options;
use trn3_machine::isa::dma::copy::DmaCopy;
use trn3_machine::memory::OutOfBounds;
use trn3_machine::view::View;

use crate::emitter::Emitter;
use crate::error::Result;
use crate::execute::ByOperation;
use crate::graph::TensorOperation;
use crate::options::ExecutionOptions;
use crate::pieces::emit_copied;
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// Elements of a row that are on chip at a time **(choice)**.
const ROW_ELEMENTS: usize = 4096;
/// Whole numbers below this VectorE holds exactly.
const EXACT: usize = 1 << 24;
/// Passes over its rows that the function takes which joins them: to find equal indices, and to join **(choice)**.
const JOIN_PASSES: u64 = 2;

/// One component of an index: its largest value, and rows of the table for each step of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    pub(crate) limit: usize,
    pub(crate) step: usize,
}

/// Rows of a table, one for each of a list of indices.
#[derive(Clone, Debug)]
pub(crate) struct NamedRows {
    /// Rows of the table.
    pub(crate) rows: usize,
    /// Elements of a row.
    pub(crate) width: usize,
    /// Numbers of an index.
    pub(crate) components: Vec<Component>,
    /// The row that each index counts from, where they are not all the first.
    pub(crate) base: Option<Vec<i64>>,
    /// Whether an index outside names no row; else it names the nearest.
    pub(crate) drops: bool,
}

/// The same with its indices where instructions find them.
struct Placed<'r> {
    named: &'r NamedRows,
    indices: View,
    base: Option<View>,
}

fn dense(emitter: &mut Emitter, view: &View) -> Result<View> {
    if view.is_contiguous() { Ok(view.clone()) } else { emitter.relaid(view) }
}

/// A dense tensor as rows.
fn table(view: &View, rows: usize, width: usize) -> View {
    View { shape: smallvec![rows, width], strides: smallvec![width as i64, 1], ..view.clone() }
}

impl NamedRows {
    fn is_exact(&self, indices: &View) -> bool {
        let fits = |part: &Component| part.limit < EXACT && i32::try_from(part.step).is_ok();
        indices.dtype == DType::Int32 && i32::try_from(self.rows).is_ok() && self.components.iter().all(fits)
    }

    fn placed(&self, emitter: &mut Emitter, indices: &View) -> Result<Placed<'_>> {
        let indices = dense(emitter, indices)?;
        let base = match &self.base {
            Some(rows) => {
                let kind = TensorType::new(DType::Int32, &[rows.len()]);
                let values = Tensor::from_integers(kind.clone(), rows.iter().copied())?;
                Some(emitter.given("rows", &kind, Some(&values))?)
            }
            None => None,
        };
        Ok(Placed { named: self, indices, base })
    }

    /// out[i] = x[row i]; whether it can.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn emit_gather(&self, emitter: &mut Emitter, x: &View, indices: &View, out: &View) -> Result<bool> {
        if out.is_empty() {
            return Ok(true);
        }
        if !self.is_exact(indices) || self.rows == 0 {
            return Ok(false);
        }
        let x = table(&dense(emitter, x)?, self.rows, self.width);
        let out = table(out, out.len() / self.width, self.width);
        let placed = self.placed(emitter, indices)?;
        self.for_each_tile(emitter, &placed, out.shape[0], &mut |emitter, tile| {
            let loaded = emitter.sbuf(&[tile.height, tile.columns.1], x.dtype)?;
            emitter.copy(&loaded, &tile.picked(&x)?)?;
            emitter.copy(&tile.straight(&out)?, &loaded)
        })?;
        Ok(true)
    }

    /// out = x with updates joined into its rows, one after another; whether it can. `join` is the operation on tables of
    /// the rows of one tile, with an index a row; None: updates take the place of rows.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn emit_scatter(
        &self,
        emitter: &mut Emitter,
        (x, indices, updates): (&View, &View, &View),
        out: &View,
        join: Option<Arc<dyn TensorOperation>>,
    ) -> Result<bool> {
        // A byte may be a truth value, whose sum is another.
        let is_byte = out.dtype == DType::UInt8 && join.is_some();
        if !self.is_exact(indices) || is_byte {
            return Ok(false);
        }
        emit_copied(emitter, out, x)?;
        if updates.is_empty() || out.is_empty() {
            return Ok(true);
        }
        let (out, count) = (table(out, self.rows, self.width), updates.len() / self.width);
        let updates = table(&dense(emitter, updates)?, count, self.width);
        let placed = self.placed(emitter, indices)?;
        self.for_each_tile(emitter, &placed, count, &mut |emitter, tile| {
            let update = emitter.load(&tile.straight(&updates)?)?;
            let into = tile.picked(&out)?;
            let Some(join) = &join else { return transfer(emitter, &into, &update) };
            let before = emitter.like(&update, update.dtype)?;
            emitter.fill(&before, 0.0)?;
            transfer(emitter, &before, &into)?;
            let after = emitter.like(&update, update.dtype)?;
            join_by_function(emitter, join, vec![before, update, tile.index.clone()], &after)?;
            transfer(emitter, &into, &after)
        })?;
        Ok(true)
    }

    fn for_each_tile(
        &self,
        emitter: &mut Emitter,
        placed: &Placed<'_>,
        count: usize,
        visit: &mut dyn FnMut(&mut Emitter, &Tile) -> Result<()>,
    ) -> Result<()> {
        let most = emitter.arch().partitions as usize;
        for first in (0..count).step_by(most) {
            let height = most.min(count - first);
            let index = placed.index(emitter, first, height)?;
            for start in (0..self.width).step_by(ROW_ELEMENTS) {
                let columns = (start, ROW_ELEMENTS.min(self.width - start));
                visit(emitter, &Tile { index: index.clone(), first, height, columns })?;
            }
        }
        Ok(())
    }
}

/// Rows that are on chip together.
struct Tile {
    index: View,
    first: usize,
    height: usize,
    columns: (usize, usize),
}

impl Tile {
    fn picked(&self, table: &View) -> Result<View> {
        let columns = table.slice(1, self.columns.0 as i64, (self.columns.0 + self.columns.1) as i64, 1)?;
        Ok(columns.vector_select(0, self.index.clone())?)
    }

    fn straight(&self, table: &View) -> Result<View> {
        let rows = table.slice(0, self.first as i64, (self.first + self.height) as i64, 1)?;
        Ok(rows.slice(1, self.columns.0 as i64, (self.columns.0 + self.columns.1) as i64, 1)?)
    }
}

/// A transfer that leaves out rows outside of the table.
fn transfer(emitter: &mut Emitter, dst: &View, src: &View) -> Result<()> {
    let options = Options { out_of_bounds: OutOfBounds::Skip, ..Options::default() };
    emitter.issue(DmaCopy { dst: dst.clone(), src: src.clone(), options, engine: None })
}

/// A whole number on every partition.
fn number(emitter: &mut Emitter, height: usize, value: usize) -> Result<View> {
    let tile = emitter.sbuf(&[height, 1], DType::Int32)?;
    emitter.fill(&tile, value as f64)?;
    Ok(tile)
}

impl Placed<'_> {
    /// The rows of indices `first` and on, one a partition; those that are dropped are the first beyond the table.
    fn index(&self, emitter: &mut Emitter, first: usize, height: usize) -> Result<View> {
        let count = self.named.components.len();
        let word = |emitter: &mut Emitter| emitter.sbuf(&[height, 1], DType::Int32);
        let (mut sum, mut inside): (Option<View>, Option<View>) = (None, None);
        for (place, part) in self.named.components.iter().enumerate() {
            let came = emitter.load(&View {
                shape: smallvec![height, 1],
                strides: smallvec![count as i64, 1],
                offset: self.indices.offset + (first * count + place) as i64,
                ..self.indices.clone()
            })?;
            let moved = word(emitter)?;
            let bounds = [(AluOp::Maximum, Some(0.0)), (AluOp::Minimum, Some(part.limit as f64))];
            emitter.scalar(&moved, &came, &bounds)?;
            if self.named.drops {
                let is_inside = word(emitter)?;
                emitter.pair(&is_inside, &came, &moved, AluOp::Equal)?;
                if let Some(before) = &inside {
                    emitter.pair(&is_inside, &is_inside, before, AluOp::Multiply)?;
                }
                inside = Some(is_inside);
            }
            if part.step != 1 {
                let step = number(emitter, height, part.step)?;
                emitter.pair(&moved, &moved, &step, AluOp::Multiply)?;
            }
            if let Some(before) = &sum {
                emitter.pair(&moved, &moved, before, AluOp::Add)?;
            }
            sum = Some(moved);
        }
        let base = match &self.base {
            Some(base) => Some(emitter.load(&View {
                shape: smallvec![height, 1],
                strides: smallvec![1, 1],
                offset: base.offset + first as i64,
                ..base.clone()
            })?),
            None => None,
        };
        let row = match (sum, base) {
            (Some(sum), Some(base)) => {
                emitter.pair(&sum, &sum, &base, AluOp::Add)?;
                sum
            }
            (Some(sum), None) => sum,
            (None, Some(base)) => base,
            (None, None) => number(emitter, height, 0)?,
        };
        if let Some(inside) = inside {
            let beyond = number(emitter, height, self.named.rows)?;
            emitter.pair(&row, &row, &beyond, AluOp::Subtract)?;
            emitter.pair(&row, &row, &inside, AluOp::Multiply)?;
            emitter.pair(&row, &row, &beyond, AluOp::Add)?;
        }
        Ok(row)
    }
}

/// Rows with updates joined into them: those of one index have the joined one, whichever of them is written last.
fn join_by_function(
    emitter: &mut Emitter,
    join: &Arc<dyn TensorOperation>,
    inputs: Vec<View>,
    after: &View,
) -> Result<()> {
    let kind = TensorType::new(after.dtype, &after.shape);
    let operation = Arc::clone(join);
    let function = move |inputs: &[TileBytes], outputs: &mut [TileBytes]| {
        outputs[0].bytes = joined(&*operation, &kind, inputs).map_err(|error| error.to_string())?;
        Ok(())
    };
    let outputs = vec![after.clone()];
    let cycles = JOIN_PASSES * GpSimdCall::cycles_of_one_pass(emitter.arch(), &outputs, &inputs);
    let name = instruction_name("scatter_rows");
    emitter.issue(GpSimdCall { name, outputs, inputs, cycles, function: Arc::new(function) })
}

fn joined(operation: &dyn TensorOperation, kind: &TensorType, tiles: &[TileBytes]) -> Result<Vec<u8>> {
    let (height, row) = (kind.shape[0], kind.bytes() / kind.shape[0]);
    let mut first = HashMap::new();
    let words = tiles[2].bytes.as_chunks::<4>().0.iter().enumerate();
    let place = |(place, word): (usize, &[u8; 4])| *first.entry(*word).or_insert(place);
    let places: Vec<usize> = words.map(place).collect();
    let x = Tensor::from_bytes(kind.clone(), &tiles[0].bytes)?;
    let updates = Tensor::from_bytes(kind.clone(), &tiles[1].bytes)?;
    let index = TensorType::new(DType::Int32, &[height]);
    let index = Tensor::from_integers(index, places.iter().map(|&place| place as i64))?;
    let options = ExecutionOptions::default();
    let execution = ByOperation::new(&options, &[]);
    let made = operation.execute(&[&x, &index, &updates], std::slice::from_ref(kind), &execution)?;
    Ok(places.iter().flat_map(|place| &made[0].bytes()[place * row..(place + 1) * row]).copied().collect())
}
