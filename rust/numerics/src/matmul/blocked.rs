//! Products by panels, whatever those are made from: what is packed when, and which task works on what.

use std::cell::RefCell;
use std::ops::Range;

use super::accumulators::Accumulators;
use super::psum::{DRAWN, Psum};
use super::simd::chain::Block;
use crate::array::AlignedBytes;
use crate::error::Result;
use crate::par;

/// Sizes of the blocking, in outputs.
struct Blocking {
    /// Left positions packed at a time; with 256 words each, 4 MiB.
    rows: usize,
    /// Right positions packed at a time.
    columns: usize,
    /// Panels of a task: its packed operands stay in a 2 MiB L2 with room for accumulators.
    task_rows: usize,
    task_columns: usize,
}

/// Measured on a 2 MiB L2: a right panel of 48 columns x 256 words is 48 KiB, a task's operands 0.5 MiB.
const BLOCKING: Blocking = Blocking { rows: 4096, columns: 4224, task_rows: 128, task_columns: 384 };

/// Outputs of a stripe whose accumulators are not the output itself: 16 MiB of float32.
const STRIPE: usize = 1 << 22;

/// One side of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// What a product multiplies: two sides that are packed into panels of outer positions, and the kernel for those.
pub(crate) trait Factors: Sync {
    /// Length of the contraction axis.
    fn k(&self) -> usize;
    /// k packed at a time, about: several chains a visit of the accumulators.
    fn k_at_once(&self) -> usize;
    /// Outer positions of a side.
    fn outer(&self, side: Side) -> usize;
    /// Outer positions of a panel.
    fn panel(&self, side: Side) -> usize;
    /// Outer positions that a task packs at most.
    fn most_packed(&self, side: Side) -> usize;
    /// 32-bit words that so many k of an outer position take in a panel.
    fn words(&self, side: Side, k: usize) -> usize;
    /// Packs outer positions of a side at some k (from a multiple of the chains' length on) into panels; the last one may
    /// have room beyond them.
    fn pack(&self, side: Side, outer: Range<usize>, k: Range<usize>, panels: &mut [u32]);
    /// Multiplies panels into a part of the accumulators.
    fn multiply(&self, block: &Block, left: &[u32], right: &[u32], out: &Accumulators<'_>);
}

/// The columns that are packed at a time, as spans that each begin with a panel of their own. Where the rows of the
/// accumulators begin off a cache line, all alike, one panel of the first columns ends on one: no vector of the others lies
/// on two lines, which costs 3 % of a product (2 % where vectors are half a line, on a Zen 3).
fn column_blocks(values: &[f32], n: usize, panel: usize) -> Vec<Vec<Range<usize>>> {
    const LINE: usize = 64 / size_of::<f32>();
    let off = values.as_ptr().addr() / size_of::<f32>() % LINE;
    // Few panels gain less than a panel of its own costs.
    let alike = n.is_multiple_of(LINE) && panel >= LINE && n >= 20 * panel;
    let head = if alike && off > 0 { panel - off } else { 0 };
    let step = n.div_ceil(n.div_ceil(BLOCKING.columns)).next_multiple_of(panel);
    let spans = (head..n).step_by(step).map(|column| column..n.min(column + step));
    let mut blocks: Vec<Vec<_>> = spans.map(|span| std::iter::once(span).collect()).collect();
    if head > 0 {
        // Last, where a small task levels out what the others leave.
        blocks[0].push(0..head);
    }
    blocks
}

thread_local! {
    /// Packed operands of the last product that this thread ran: fresh memory costs as much as packing does.
    static PACKED: RefCell<(AlignedBytes, AlignedBytes)> = RefCell::default();
}

/// One matrix product.
pub(crate) struct Blocked<'a, F> {
    pub(crate) psum: &'a Psum<'a>,
    pub(crate) factors: F,
    /// k of a chain.
    pub(crate) tile: usize,
    /// C-order index of its first output in the whole result.
    pub(crate) first: usize,
}

impl<F: Factors> Blocked<'_, F> {
    /// Writes the product to `out`, in the accumulator's format.
    pub(crate) fn run(&self, out: &mut [u8]) -> Result<()> {
        let (m, n) = (self.factors.outer(Side::Left), self.factors.outer(Side::Right));
        let apart = self.psum.is_rounded() || self.factors.k() == 0;
        let most = if self.psum.is_drawn() { DRAWN } else { STRIPE };
        let stripe_rows = if apart { (most / n).clamp(1, BLOCKING.rows) } else { BLOCKING.rows };
        let item = out.len() / (m * n);
        for (stripe, out) in out.chunks_mut(stripe_rows * n * item).enumerate() {
            let first = stripe * stripe_rows;
            let rows = first..m.min(first + stripe_rows);
            let mut packed = PACKED.take();
            let result = if apart {
                let mut values = vec![0.0; rows.len() * n];
                self.stripe(rows, &mut values, &mut packed).and_then(|()| self.psum.finish(&values, out))
            } else {
                self.stripe(rows, bytemuck::cast_slice_mut(out), &mut packed)
            };
            PACKED.set(packed);
            result?;
        }
        Ok(())
    }

    /// All columns of some rows.
    fn stripe(
        &self,
        rows: Range<usize>,
        values: &mut [f32],
        (left, right): &mut (AlignedBytes, AlignedBytes),
    ) -> Result<()> {
        let (k, n) = (self.factors.k(), self.factors.outer(Side::Right));
        let outputs = self.first + rows.start * n..self.first + rows.end * n;
        if self.psum.has_c() || k == 0 {
            self.psum.start(outputs.clone(), values)?;
        }
        let blocks = column_blocks(values, n, self.factors.panel(Side::Right));
        // Rounding follows every tile, so then a block is one tile.
        let tiles = if self.psum.is_rounded() { 1 } else { (self.factors.k_at_once() / self.tile).max(1) };
        let depth = tiles * self.tile;
        let mut drawn = Vec::new();
        for (index, k_start) in (0..k).step_by(depth).enumerate() {
            let k_range = k_start..k.min(k_start + depth);
            let left = left.slice_mut(self.packed_words(Side::Left, std::slice::from_ref(&rows), k_range.len()));
            let block = Block {
                k: k_range.len(),
                tile: self.tile,
                accumulate: self.psum.has_c() || k_start > 0,
                last: k_range.end == k,
            };
            let draws = self.psum.draws(index, outputs.clone(), &mut drawn)?;
            for (index, columns) in blocks.iter().enumerate() {
                let right = right.slice_mut(self.packed_words(Side::Right, columns, k_range.len()));
                let mut pieces = Vec::new();
                self.cut(Side::Right, columns, k_range.len(), right, &mut pieces);
                if index == 0 {
                    self.cut(Side::Left, std::slice::from_ref(&rows), k_range.len(), left, &mut pieces);
                }
                // A thread packs about what it multiplies.
                pieces.sort_by_key(|piece| match piece.side {
                    Side::Left => (piece.outer.start - rows.start) * n,
                    Side::Right => piece.outer.start * rows.len(),
                });
                par::for_each_near(pieces, |piece| {
                    self.factors.pack(piece.side, piece.outer, k_range.clone(), piece.panels);
                })?;
                self.multiply(&block, left, right, columns, values, draws)?;
            }
        }
        Ok(())
    }

    /// Words of the panels of some spans of outer positions. Each span begins with a panel of its own.
    fn packed_words(&self, side: Side, spans: &[Range<usize>], k: usize) -> usize {
        let panel = self.factors.panel(side);
        spans.iter().map(|span| span.len().next_multiple_of(panel)).sum::<usize>() * self.factors.words(side, k)
    }

    /// Adds the tasks that pack `spans` into `panels`, one span after the other.
    fn cut<'p>(
        &self,
        side: Side,
        spans: &[Range<usize>],
        k: usize,
        mut panels: &'p mut [u32],
        pieces: &mut Vec<Piece<'p>>,
    ) {
        let panel = self.factors.panel(side);
        for span in spans {
            let most = (self.factors.most_packed(side) / panel).max(1);
            let group = par::share(span.len().div_ceil(panel), most, 1) * panel;
            for first in span.clone().step_by(group) {
                let outer = first..span.end.min(first + group);
                let (own, rest) = panels.split_at_mut(self.packed_words(side, std::slice::from_ref(&outer), k));
                pieces.push(Piece { side, outer, panels: own });
                panels = rest;
            }
        }
    }

    /// Multiplies all packed rows with the packed columns of `spans`.
    fn multiply(
        &self,
        block: &Block,
        left: &[u32],
        right: &[u32],
        spans: &[Range<usize>],
        values: &mut [f32],
        draws: &[u32],
    ) -> Result<()> {
        let n = self.factors.outer(Side::Right);
        let [rows, columns] = [Side::Left, Side::Right].map(|side| self.factors.panel(side));
        let row_words = self.factors.words(Side::Left, block.k);
        let task_columns = BLOCKING.task_columns.next_multiple_of(columns);
        let panels = left.len() / (row_words * rows);
        // Four tasks a thread at least, so that one which comes late leaves the others more.
        let task_rows = par::share(panels, BLOCKING.task_rows.div_ceil(rows), 4) * rows;
        let mut columns = Vec::new();
        let mut rest = right;
        for span in spans {
            for column in span.clone().step_by(task_columns) {
                let span = column..span.end.min(column + task_columns);
                let (right, others) =
                    rest.split_at(self.packed_words(Side::Right, std::slice::from_ref(&span), block.k));
                rest = others;
                columns.push((span, right));
            }
        }
        let rows: Vec<_> = left.chunks(task_rows * row_words).enumerate().collect();
        // A thread's own rows of the accumulators come in a row, and of those the ones of a right panel, which stays in L2.
        let bands = rows.chunks(rows.len().div_ceil(par::threads_here()).max(1));
        let tasks = bands.flat_map(|band| {
            columns.iter().flat_map(move |(columns, right)| {
                band.iter().map(move |&(index, left)| (index * task_rows, columns.clone(), left, *right))
            })
        });
        let tasks = tasks.collect();
        let out = Accumulators::new(values, n);
        par::for_each_near(tasks, |(row, columns, left, right)| {
            out.with_rectangle([row, columns.start, task_rows, columns.len()], |part| {
                self.factors.multiply(block, left, right, part);
                if self.psum.is_rounded() {
                    part.for_each_row(|index, values| {
                        let first = (row + index) * n + columns.start;
                        self.psum.round(values, draws.get(first..first + values.len()).unwrap_or(&[]));
                    });
                }
            });
        })
    }
}

/// A task of packing: outer positions of a side, and the panels they go to.
struct Piece<'a> {
    side: Side,
    outer: Range<usize>,
    panels: &'a mut [u32],
}
