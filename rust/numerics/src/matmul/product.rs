//! Products of any size: what is packed when, and which task works on what.

use std::cell::RefCell;
use std::ops::Range;

use super::accumulators::Accumulators;
use super::dot_range::is_dot_exact;
use super::kernels::{Chain, Chains};
use super::operand::Operand;
use super::packer::pack;
use super::psum::{DRAWN, Psum};
use super::scalar;
use super::shape::{split, unravel};
use super::simd::chain::Block;
use crate::array::{AlignedBytes, ArrayView, element_count};
use crate::error::Result;
use crate::par;
use crate::simd::ActiveLevel;

/// Sizes of the blocking, in outputs and k.
struct Blocking {
    /// Left positions packed at a time; with `k` below, 4 MiB of float32 or bfloat16 pairs.
    rows: usize,
    /// Right positions packed at a time.
    columns: usize,
    /// k packed at a time, for float32 and for bfloat16 pairs: several chains a visit of the accumulators.
    k_words: usize,
    /// Panels of a task: its packed operands stay in a 2 MiB L2 with room for accumulators.
    task_rows: usize,
    task_columns: usize,
}

/// Measured on a 2 MiB L2: a right panel of 48 columns x 256 words is 48 KiB, a task's operands 0.5 MiB.
const BLOCKING: Blocking = Blocking { rows: 4096, columns: 4032, k_words: 256, task_rows: 128, task_columns: 384 };

/// Products smaller than this many multiply-adds are split over the batch rather than inside.
const SMALL: usize = 1 << 25;

/// Outputs of a stripe whose accumulators are not the output itself: 16 MiB of float32.
const STRIPE: usize = 1 << 22;

/// The codes of one side, and its scales where it is quantised.
pub(super) type Side<'a> = (&'a ArrayView<'a>, Option<&'a ArrayView<'a>>);

/// Every matrix of the batch.
pub(super) fn multiply_all(
    level: ActiveLevel,
    psum: &Psum<'_>,
    a: Side<'_>,
    b: Side<'_>,
    shape: &[usize],
    out: &mut [u8],
    item: usize,
    tile: usize,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let (batch, [m, n]) = split(shape);
    let k = a.0.shape()[a.0.shape().len() - 1];
    if let (Some(rows), Some(scale_rows), true) = (a.0.as_rows(), side_rows(a.1), is_matrix(b)) {
        // One right operand for every batch position: their rows make one tall matrix.
        let a = Operand::new(rows, scale_rows);
        let job = Job { level, psum, a, b: right_operand(b, &[]), tile, first: 0 };
        return job.run(out);
    }
    let one = |(index, out): (usize, &mut [u8])| {
        let position = unravel(index, batch);
        let a = Operand::new(a.0.matrix(&position), a.1.map(|scales| scales.matrix(&position)));
        let b = right_operand(b, &position);
        Job { level, psum, a, b, tile, first: index * m * n }.run(out)
    };
    let mut matrices = out.chunks_mut(m * n * item).enumerate();
    if element_count(&[m, n, k]) < SMALL { par::try_for_each(matrices, one) } else { matrices.try_for_each(one) }
}

fn is_matrix(side: Side<'_>) -> bool {
    let (batch, _) = split(side.0.shape());
    element_count(batch) == 1
}

fn side_rows<'a>(scales: Option<&ArrayView<'a>>) -> Option<Option<ArrayView<'a>>> {
    match scales {
        None => Some(None),
        Some(scales) => scales.as_rows().map(Some),
    }
}

fn right_operand<'a>(b: Side<'a>, position: &[usize]) -> Operand<'a> {
    let matrix = |view: &ArrayView<'a>| {
        let (batch, _) = split(view.shape());
        let zeros = vec![0; batch.len()];
        view.matrix(if position.is_empty() { &zeros } else { position }).transposed()
    };
    Operand::new(matrix(b.0), b.1.map(matrix))
}

/// The columns that are packed at a time, as spans that each begin with a panel of their own. Where the rows of the
/// accumulators begin off a cache line, all alike, one panel of the first columns ends on one: no vector of the others lies
/// on two lines, which costs 3 % of a product.
fn column_blocks(values: &[f32], n: usize, panel: usize) -> Vec<Vec<Range<usize>>> {
    const LINE: usize = 64 / size_of::<f32>();
    let off = values.as_ptr().addr() / size_of::<f32>() % LINE;
    // Few panels gain less than a panel of its own costs.
    let alike = n.is_multiple_of(LINE) && panel > LINE && n >= 20 * panel;
    let head = if alike && off > 0 { panel - off } else { 0 };
    let step = BLOCKING.columns / panel * panel;
    let mut blocks: Vec<_> = (head..n).step_by(step).map(|column| vec![column..n.min(column + step)]).collect();
    if head > 0 {
        // Last, where a small task levels out what the others leave.
        blocks[0].push(0..head);
    }
    blocks
}

/// One matrix product; `first` is the C-order index of its first output in the whole result.
struct Job<'a> {
    level: ActiveLevel,
    psum: &'a Psum<'a>,
    a: Operand<'a>,
    b: Operand<'a>,
    tile: usize,
    first: usize,
}

thread_local! {
    /// Packed operands of the last product that this thread ran: fresh memory costs as much as packing does.
    static PACKED: RefCell<(AlignedBytes, AlignedBytes)> = RefCell::default();
}

impl Job<'_> {
    fn run(&self, out: &mut [u8]) -> Result<()> {
        let Some(chains) = Chains::at(self.level) else {
            return self.by_definition(out);
        };
        let chain = self.choose(chains)?;
        let (m, n) = (self.a.outer(), self.b.outer());
        let stripe_rows = if self.psum.is_drawn() {
            (DRAWN / n).clamp(1, BLOCKING.rows)
        } else if self.psum.is_rounded() || self.a.k() == 0 {
            (STRIPE / n).clamp(1, BLOCKING.rows)
        } else {
            BLOCKING.rows
        };
        let item = out.len() / (m * n);
        for (stripe, out) in out.chunks_mut(stripe_rows * n * item).enumerate() {
            let first = stripe * stripe_rows;
            let rows = first..m.min(first + stripe_rows);
            let (mut left, mut right) = PACKED.take();
            let result = if self.psum.is_rounded() || self.a.k() == 0 {
                let mut values = vec![0.0; rows.len() * n];
                self.stripe(chains, chain, rows.clone(), &mut values, &mut left, &mut right)
                    .and_then(|()| self.psum.finish(&values, out))
            } else {
                self.stripe(chains, chain, rows.clone(), bytemuck::cast_slice_mut(out), &mut left, &mut right)
            };
            PACKED.set((left, right));
            result?;
        }
        Ok(())
    }

    /// The BF16 dot product where the level has it and the operands allow it.
    fn choose<'c>(&self, chains: &'c Chains) -> Result<&'c Chain> {
        let Some(dot) = &chains.dot else { return Ok(&chains.fused) };
        if self.a.k() > self.tile && !self.tile.is_multiple_of(dot.tiling.depth) {
            // A word would reach from one chain into the next.
            return Ok(&chains.fused);
        }
        Ok(if is_dot_exact(self.level, chains, &self.a, &self.b)? { dot } else { &chains.fused })
    }

    /// All columns of some rows.
    fn stripe(
        &self,
        chains: &Chains,
        chain: &Chain,
        rows: Range<usize>,
        values: &mut [f32],
        left: &mut AlignedBytes,
        right: &mut AlignedBytes,
    ) -> Result<()> {
        let (k, n) = (self.a.k(), self.b.outer());
        let tiling = chain.tiling;
        let outputs = self.first + rows.start * n..self.first + rows.end * n;
        if self.psum.has_c() || k == 0 {
            self.psum.start(outputs.clone(), values)?;
        }
        // Rounding follows every tile, so then a block is one tile.
        let tiles = if self.psum.is_rounded() { 1 } else { (BLOCKING.k_words * tiling.depth / self.tile).max(1) };
        let depth = tiles * self.tile;
        let mut drawn = Vec::new();
        for (index, k_start) in (0..k).step_by(depth).enumerate() {
            let k_range = k_start..k.min(k_start + depth);
            let rows = std::slice::from_ref(&rows);
            let a = self.a.packer(self.level, chains, tiling.depth, tiling.rows, k_range.clone());
            let b = self.b.packer(self.level, chains, tiling.depth, tiling.columns, k_range.clone());
            let left = left.slice_mut(a.words_of(rows));
            let block = Block {
                k: k_range.len(),
                tile: self.tile,
                accumulate: self.psum.has_c() || k_start > 0,
                last: k_range.end == k,
            };
            let draws = self.psum.draws(index, outputs.clone(), &mut drawn)?;
            for (index, spans) in column_blocks(values, n, tiling.columns).iter().enumerate() {
                let right = right.slice_mut(b.words_of(spans));
                let mut pieces = b.pieces(spans, right);
                if index == 0 {
                    pieces.extend(a.pieces(rows, left));
                }
                pack(pieces)?;
                self.multiply(chain, &block, left, right, spans, values, draws)?;
            }
        }
        Ok(())
    }

    /// Multiplies all packed rows with the packed columns of `spans`.
    fn multiply(
        &self,
        chain: &Chain,
        block: &Block,
        left: &[u32],
        right: &[u32],
        spans: &[Range<usize>],
        values: &mut [f32],
        draws: &[u32],
    ) -> Result<()> {
        let (n, tiling) = (self.b.outer(), chain.tiling);
        let words = block.k.div_ceil(tiling.depth);
        let task_columns = BLOCKING.task_columns.next_multiple_of(tiling.columns);
        let panels = left.len() / (words * tiling.rows);
        // Four tasks a thread at least, so that one which comes late leaves the others more.
        let task_rows = par::share(panels, BLOCKING.task_rows / tiling.rows, 4) * tiling.rows;
        let mut tasks = Vec::new();
        let mut rest = right;
        for span in spans {
            for column in span.clone().step_by(task_columns) {
                let columns = column..span.end.min(column + task_columns);
                let (right, others) = rest.split_at(columns.len().next_multiple_of(tiling.columns) * words);
                rest = others;
                let rows = left.chunks(task_rows * words).enumerate();
                tasks.extend(rows.map(|(index, left)| (index * task_rows, columns.clone(), left, right)));
            }
        }
        let out = Accumulators::new(values, n);
        par::for_each(tasks.into_iter(), |(row, columns, left, right)| {
            out.with_rectangle([row, columns.start, task_rows, columns.len()], |part| {
                (chain.multiply)(block, left, right, part);
                if self.psum.is_rounded() {
                    part.for_each_row(|index, values| {
                        let first = (row + index) * n + columns.start;
                        self.psum.round(values, draws.get(first..first + values.len()).unwrap_or(&[]));
                    });
                }
            });
        })
    }

    /// Output by output, as the contract says it.
    fn by_definition(&self, out: &mut [u8]) -> Result<()> {
        const TASK: usize = 64;
        let (k, n) = (self.a.k(), self.b.outer());
        let count = self.a.outer() * n;
        let item = out.len() / count;
        let mut drawn = Vec::new();
        let tiles = k.div_ceil(self.tile);
        let outputs = self.first..self.first + count;
        // The definition runs on small arrays, so it holds its accumulators whole.
        let mut values = vec![0.0f32; count];
        self.psum.start(outputs.clone(), &mut values)?;
        for tile in 0..tiles {
            let draws = self.psum.draws(tile, outputs.clone(), &mut drawn)?;
            let k_range = tile * self.tile..k.min((tile + 1) * self.tile);
            par::for_each(values.chunks_mut(TASK).enumerate(), |(task, values)| {
                let (mut a, mut b) = (vec![0.0; k_range.len()], vec![0.0; k_range.len()]);
                for (index, value) in values.iter_mut().enumerate() {
                    let output = task * TASK + index;
                    self.a.values(self.level, output / n, k_range.clone(), &mut a);
                    self.b.values(self.level, output % n, k_range.clone(), &mut b);
                    let sum = scalar::chain(&a, &b);
                    *value = if tile == 0 && !self.psum.has_c() { sum } else { *value + sum };
                }
                if self.psum.is_rounded() {
                    let first = task * TASK;
                    self.psum.round(values, draws.get(first..first + values.len()).unwrap_or(&[]));
                }
            })?;
        }
        debug_assert_eq!(item * count, out.len());
        self.psum.finish(&values, out)
    }
}
