//! The skip-zero product by lists of nonzeros: blocking, packing, and the way to and from the accumulators.

use std::cell::RefCell;
use std::ops::Range;

use super::Job;
use super::kernels::Kernels;
use super::lists::{COLUMNS, Lists, PANEL_ROWS, Slots};
use crate::array::AlignedBytes;
use crate::cast::decode;
use crate::error::Result;
use crate::matmul::{Accumulators, DRAWN, Packer, TILE};
use crate::par;
use crate::simd::LANES;

/// Slots whose lists are made at a time: 8 MiB.
const LISTED: usize = 1 << 20;
/// Columns whose lists are made at a time.
const LISTED_COLUMNS: usize = 4096;
/// Outputs of a stripe whose accumulators are not the output itself: 16 MiB of float32.
const STRIPE: usize = 1 << 22;
/// Rows and columns of a task: 1 MiB of sums in L2. A panel of rows is packed anew for each task, so the more columns the
/// better, as long as there are tasks for all threads.
const TASK_ROWS: usize = 128;
const TASK_COLUMNS: usize = 2048;
const FEWEST_COLUMNS: usize = 256;
/// Columns that leave together for the accumulators, so that a row's part of them is worth a copy.
const LEAVING: usize = 1024;

thread_local! {
    /// Lists of the last product that this thread ran: fresh memory costs as much as filling it does.
    static LISTS: RefCell<Lists> = RefCell::default();
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// Memory of one task.
#[derive(Default)]
struct Buffers {
    /// [panel, column, row].
    sums: AlignedBytes,
    /// In the order of the sums.
    draws: AlignedBytes,
    panel: AlignedBytes,
    /// Columns of a panel, row by row.
    leaving: AlignedBytes,
}

/// The accumulators of some rows of `a`, the first of them `first`.
struct Stripe<'a> {
    first: usize,
    rows: usize,
    out: Accumulators<'a>,
}

/// Tiles and columns whose lists are in hand, and the stripe's draws of the tile if there are any.
struct InHand<'a> {
    lists: &'a Lists,
    tiles: Range<usize>,
    columns: Range<usize>,
    draws: &'a [u32],
}

impl Job<'_> {
    pub(super) fn by_lists(&self, kernels: Kernels, out: &mut [u8]) -> Result<()> {
        let (m, n) = (self.a.outer(), self.n);
        let item = out.len() / (m * n);
        let apart = self.psum.is_rounded() || self.k == 0;
        let most = if self.psum.is_drawn() { DRAWN } else { STRIPE };
        let rows = if apart { (most / n).clamp(1, m) } else { m };
        for (stripe, out) in out.chunks_mut(rows * n * item).enumerate() {
            let first = stripe * rows;
            let mut lists = LISTS.take();
            let result = if apart {
                let mut values = vec![0.0; out.len() / item];
                let done = self.stripe(kernels, first, &mut values, &mut lists);
                done.and_then(|()| self.psum.finish(&values, out))
            } else {
                self.stripe(kernels, first, bytemuck::cast_slice_mut(out), &mut lists)
            };
            LISTS.set(lists);
            result?;
        }
        Ok(())
    }

    /// Slots of a tile at most, those of the groups that its ends cut included.
    fn capacity(&self) -> usize {
        let pattern = self.w.pattern();
        let cut = if TILE.is_multiple_of(pattern.group()) { 0 } else { 2 };
        (TILE / pattern.group() + cut) * pattern.keep()
    }

    /// All columns of the rows that `values` are the accumulators of.
    fn stripe(&self, kernels: Kernels, first: usize, values: &mut [f32], lists: &mut Lists) -> Result<()> {
        let outputs = self.first + first * self.n..self.first + first * self.n + values.len();
        if self.psum.has_c() || self.k == 0 {
            self.psum.start(outputs.clone(), values)?;
        }
        let stripe = Stripe { first, rows: values.len() / self.n, out: Accumulators::new(values, self.n) };
        let tiles = self.k.div_ceil(TILE);
        let columns = self.n.min(LISTED_COLUMNS).next_multiple_of(COLUMNS);
        // Draws come tile by tile.
        let step = if self.psum.is_drawn() { 1 } else { (LISTED / (columns * self.capacity())).max(1) };
        let mut drawn = Vec::new();
        for tile in (0..tiles).step_by(step) {
            let tiles = tile..tiles.min(tile + step);
            let draws = self.psum.draws(tile, outputs.clone(), &mut drawn)?;
            for column in (0..self.n).step_by(LISTED_COLUMNS) {
                let columns = column..self.n.min(column + LISTED_COLUMNS);
                self.list(tiles.clone(), columns.clone(), lists)?;
                let in_hand = InHand { lists, tiles: tiles.clone(), columns, draws };
                self.multiply(kernels, &stripe, &in_hand)?;
            }
        }
        Ok(())
    }

    /// Makes the lists of some tiles and columns.
    fn list(&self, tiles: Range<usize>, columns: Range<usize>, lists: &mut Lists) -> Result<()> {
        let (values, indices) = (self.w.values(), self.w.indices());
        let (keep, group) = (self.w.pattern().keep(), self.w.pattern().group());
        let runs = values.runs_along(1);
        let k = self.k.min(tiles.end * TILE) - tiles.start * TILE;
        lists.build(k, columns.len(), self.capacity(), |tile, block, filler| {
            let start = (tiles.start + tile) * TILE;
            let end = self.k.min(start + TILE);
            let first = columns.start + block.start;
            let (mut codes, mut slots) = (AlignedBytes::default(), Slots::default());
            for index in start / group..end.div_ceil(group) {
                let base = (index * group).wrapping_sub(start) as u32;
                for slot in index * keep..(index + 1) * keep {
                    let codes = values.line(&[slot, first], 1, runs, block.len(), &mut codes);
                    let row = slots.push(base, &indices[slot * self.n + first..][..block.len()]);
                    decode(self.level, values.format(), codes, row);
                }
            }
            filler.fill(&slots);
        })
    }

    fn multiply(&self, kernels: Kernels, stripe: &Stripe<'_>, in_hand: &InHand<'_>) -> Result<()> {
        let columns = in_hand.columns.len();
        let row_tasks = stripe.rows.div_ceil(TASK_ROWS);
        let wanted = 2 * par::num_threads()?;
        let mut width = TASK_COLUMNS;
        while width > FEWEST_COLUMNS && row_tasks * columns.div_ceil(width) < wanted {
            width /= 2;
        }
        let column_tasks = columns.div_ceil(width);
        par::try_for_each(0..row_tasks * column_tasks, |index| {
            let (row, column) = (index / column_tasks * TASK_ROWS, index % column_tasks * width);
            let task = Task {
                job: self,
                kernels,
                stripe,
                in_hand,
                rows: row..stripe.rows.min(row + TASK_ROWS),
                columns: column..columns.min(column + width),
            };
            let mut buffers = BUFFERS.take();
            let done = task.run(&mut buffers);
            BUFFERS.set(buffers);
            done
        })
    }
}

/// Some rows of a stripe and columns in hand, both counted from the first ones there.
struct Task<'a> {
    job: &'a Job<'a>,
    kernels: Kernels,
    stripe: &'a Stripe<'a>,
    in_hand: &'a InHand<'a>,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Task<'_> {
    /// Takes the task through all tiles in hand.
    fn run(&self, buffers: &mut Buffers) -> Result<()> {
        let (job, psum, tiles) = (self.job, self.job.psum, &self.in_hand.tiles);
        let (width, panel_sums) = (PANEL_ROWS, self.panel_sums());
        let mut sums = std::mem::take(&mut buffers.sums);
        let sums_in_use = sums.slice_mut::<f32>(self.rows.len().div_ceil(width) * panel_sums);
        let starts = tiles.start == 0 && !psum.has_c();
        if !starts {
            self.load(sums_in_use, &mut buffers.leaving);
        }
        let mut drawn = std::mem::take(&mut buffers.draws);
        let draws = if self.in_hand.draws.is_empty() {
            &[][..]
        } else {
            self.arrange_draws(drawn.slice_mut(sums_in_use.len()))
        };
        for tile in tiles.clone() {
            let k = tile * TILE..job.k.min((tile + 1) * TILE);
            let lists = self.in_hand.lists.tile(tile - tiles.start, self.columns.clone());
            for (row, sums) in self.rows.clone().step_by(width).zip(sums_in_use.chunks_mut(panel_sums)) {
                let rows = row..self.rows.end.min(row + width);
                let first = self.stripe.first;
                let packer = Packer::new(&job.a, job.level, self.kernels.chains, 1, k.clone());
                let panel = buffers.panel.slice_mut(k.len() * width);
                packer.pack(width, first + rows.start..first + rows.end, panel);
                let panel = bytemuck::cast_slice(panel);
                (self.kernels.lists.multiply)(&lists, panel, rows.len(), starts && tile == 0, sums);
            }
            if psum.is_rounded() {
                psum.round(sums_in_use, draws);
            }
        }
        self.store(sums_in_use, &mut buffers.leaving, tiles.end * TILE >= job.k);
        (buffers.sums, buffers.draws) = (sums, drawn);
        Ok(())
    }

    fn panel_sums(&self) -> usize {
        self.columns.len().next_multiple_of(LANES) * PANEL_ROWS
    }

    /// Calls `work(rectangle of the accumulators, its first sum)` for blocks of columns of each panel.
    fn for_each_block(&self, mut work: impl FnMut([usize; 4], usize)) {
        let width = PANEL_ROWS;
        for (panel, row) in self.rows.clone().step_by(width).enumerate() {
            for column in self.columns.clone().step_by(LEAVING) {
                let rows = width.min(self.rows.end - row);
                let columns = LEAVING.min(self.columns.end - column);
                let first = panel * self.panel_sums() + (column - self.columns.start) * width;
                work([row, self.in_hand.columns.start + column, rows, columns], first);
            }
        }
    }

    fn load(&self, sums: &mut [f32], leaving: &mut AlignedBytes) {
        let width = PANEL_ROWS;
        let block = leaving.slice_mut::<f32>(LEAVING * width);
        self.for_each_block(|rectangle, first| {
            self.stripe.out.with_rectangle(rectangle, |part| {
                part.for_each_row(|row, values| block[row * LEAVING..][..values.len()].copy_from_slice(values));
            });
            let size = [width, rectangle[3].next_multiple_of(LANES)];
            (self.kernels.lists.transpose)(size, block, LEAVING, &mut sums[first..], width, false);
        });
    }

    fn store(&self, sums: &[f32], leaving: &mut AlignedBytes, canonical: bool) {
        let width = PANEL_ROWS;
        let block = leaving.slice_mut::<f32>(LEAVING * width);
        self.for_each_block(|rectangle, first| {
            let size = [rectangle[3].next_multiple_of(LANES), width];
            (self.kernels.lists.transpose)(size, &sums[first..], width, block, LEAVING, canonical);
            self.stripe.out.with_rectangle(rectangle, |part| {
                part.for_each_row(|row, values| values.copy_from_slice(&block[row * LEAVING..][..values.len()]));
            });
        });
    }

    /// The stripe's draws in the order of the sums.
    fn arrange_draws<'s>(&self, arranged: &'s mut [u32]) -> &'s [u32] {
        let (width, n) = (PANEL_ROWS, self.job.n);
        self.for_each_block(|[row, column, rows, columns], first| {
            for step in 0..columns {
                for lane in 0..rows {
                    arranged[first + step * width + lane] = self.in_hand.draws[(row + lane) * n + column + step];
                }
            }
        });
        arranged
    }
}
