//! The product with a compressed right operand: chains over its nonzeros alone.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::array::{AlignedBytes, ArrayMut, ArrayView, element_count};
use crate::cast::{Draws, Rounding};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::matmul::{TILE, check_formats, product_shape, unravel};
use crate::operand::Operand;
use crate::par;
use crate::psum::{DRAWN, Psum};
use crate::scalar;
use crate::simd::chain::Accumulators;
use crate::simd::dispatch::{self, Chain, Chains, Kernels};
use crate::simd::sparse::{COLUMNS, Form, Lists, with_rectangle};
use crate::sparse::{SparseView, magnitude_mask};

/// Stored values whose lists are made at a time: 8 MiB.
const LISTED: usize = 1 << 20;
/// Columns whose lists are made at a time.
const COLUMN_BLOCK: usize = 4096;
/// Words of `a` packed at a time: 16 MiB.
const PACKED: usize = 1 << 22;
/// Rows of a stripe of outputs; each stripe makes its lists anew.
const STRIPE_ROWS: usize = 4096;
/// Rows that packing has room for: making a list costs about as much as walking it for 50.
const LEAST_ROWS: usize = 1024;
/// Outputs of a stripe whose accumulators are not the output itself: 16 MiB of float32.
const STRIPE: usize = 1 << 22;
/// Rows and columns of a task: 0.5 MiB of sums, and 0.25 MiB of lists that are walked once for each panel.
const TASK_ROWS: usize = 128;
const TASK_COLUMNS: usize = 1024;

/// Products smaller than this many multiply-adds of the dense form are split over the batch rather than inside.
const SMALL: usize = 1 << 25;

/// `a @ w` of a compressed `w`: each output is a chain over the stored nonzeros of each tile of 128 dense k, in ascending
/// k; a slot whose stored value is zero and every pruned place contribute nothing at all.
///
/// a is [..., M, K] with any batch axes; w stands for [K, N] and is compressed along axis 0. `out` is [..., M, N], float32
/// or bfloat16; formats, tiles, `c`, rounding and draws are as in [`crate::matmul`]. So the result is that of `matmul` by
/// the dense form for finite a, up to the sign of a zero; where a is not finite, pruned places do not make NaN of it.
///
/// # Errors
/// [`Error::Dtype`], [`Error::Shape`] and [`Error::Value`] name the argument that does not fit.
///
/// ```
/// use trn3_numerics::{ArrayMut, ArrayView, Draws, Rounding, SparseView, matmul_sparse};
///
/// let a = ArrayView::new(&[f32::INFINITY, 2.0, 3.0, 4.0], &[1, 4])?;
/// let values = ArrayView::new(&[10.0f32, 1.0], &[2, 1])?;
/// let w = SparseView::new(values, &[1, 3], "2:4".parse()?, 0)?;
/// let mut out = [0.0f32];
/// matmul_sparse(&a, &w, None, ArrayMut::new(&mut out, &[1, 1])?, Rounding::Nearest, Draws::None)?;
/// assert_eq!(out, [24.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn matmul_sparse(
    a: &ArrayView<'_>,
    w: &SparseView<'_>,
    c: Option<&ArrayView<'_>>,
    out: ArrayMut<'_>,
    rounding: Rounding,
    draws: Draws<'_>,
) -> Result<()> {
    let kernels = dispatch::active()?;
    check_formats(["a", "w"], a.format(), w.values().format())?;
    let shape = output_shape(a, w)?;
    out.expect("out", out.format(), &shape)?;
    let k = w.dense_shape()[0];
    let psum = Psum::new(kernels, c, &out, rounding, draws, k.div_ceil(TILE))?;
    let item = out.format().item_size();
    multiply_all(kernels, &psum, a, w, &shape, out.into_bytes(), item)?;
    psum.consume()
}

fn output_shape(a: &ArrayView<'_>, w: &SparseView<'_>) -> Result<Vec<usize>> {
    let dense = w.dense_shape();
    let [k, _] = dense[..] else {
        return Err(Error::shape("w", &dense, "it needs exactly two axes, [K, N]"));
    };
    if w.axis() != 0 {
        let needed = "w must be compressed along the contraction axis, 0 (-2)";
        return Err(Error::value("w.axis", format!("{} (-1)", w.axis()), needed));
    }
    if a.shape().len() >= 2 && a.shape()[a.shape().len() - 1] != k {
        let needed = format!("its last axis must be {k} long, as w's first in shape {dense:?}");
        return Err(Error::shape("a", a.shape(), needed));
    }
    product_shape(a.shape(), &dense)
}

/// Every matrix of the batch.
fn multiply_all(
    kernels: &'static Kernels,
    psum: &Psum<'_>,
    a: &ArrayView<'_>,
    w: &SparseView<'_>,
    shape: &[usize],
    out: &mut [u8],
    item: usize,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    if let Some(rows) = a.as_rows() {
        return Job::new(kernels, psum, rows, w, 0).run(out);
    }
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    let size = element_count(matrix);
    let one = |(index, out): (usize, &mut [u8])| {
        Job::new(kernels, psum, a.matrix(&unravel(index, batch)), w, index * size).run(out)
    };
    let mut matrices = out.chunks_mut(size * item).enumerate();
    if size.saturating_mul(w.dense_shape()[0]) < SMALL {
        par::for_each(matrices, |matrix| {
            // Splits inside an item do not listen for interrupts, so nothing can fail here; the outer one does.
            let _done = one(matrix);
        })
    } else {
        matrices.try_for_each(one)
    }
}

/// One matrix product; `first` is the C-order index of its first output in the whole result.
struct Job<'a> {
    kernels: &'static Kernels,
    psum: &'a Psum<'a>,
    codes: ArrayView<'a>,
    a: Operand<'a>,
    w: &'a SparseView<'a>,
    w_runs: bool,
    /// Dense length of the contraction axis.
    k: usize,
    n: usize,
    first: usize,
}

thread_local! {
    /// Lists and packed rows of the last product that this thread ran: fresh memory costs as much as filling it does.
    static BUFFERS: RefCell<(Lists, AlignedBytes)> = RefCell::default();
    /// Sums of the last task, and what is on its way between them and the accumulators.
    static SUMS: RefCell<[AlignedBytes; 3]> = RefCell::default();
}

/// The accumulators of some rows.
struct Stripe<'a> {
    rows: usize,
    out: Accumulators<'a>,
}

/// Tiles, columns and packed rows that are in hand.
struct InHand<'a> {
    lists: &'a Lists,
    packed: &'a [u32],
    tiles: Range<usize>,
    columns: Range<usize>,
    draws: &'a [u32],
}

impl<'a> Job<'a> {
    fn new(
        kernels: &'static Kernels,
        psum: &'a Psum<'a>,
        codes: ArrayView<'a>,
        w: &'a SparseView<'a>,
        first: usize,
    ) -> Self {
        let dense = w.dense_shape();
        let a = Operand::new(codes.clone(), None);
        Self { kernels, psum, codes, a, w, w_runs: w.values().runs_along(1), k: dense[0], n: dense[1], first }
    }

    fn run(&self, out: &mut [u8]) -> Result<()> {
        let Some(chains) = &self.kernels.chains else {
            return self.by_definition(out);
        };
        let chain = self.choose(chains)?;
        let (m, n) = (self.a.outer(), self.n);
        let apart = self.psum.is_rounded() || self.k == 0;
        let most = if self.psum.is_drawn() { DRAWN } else { STRIPE };
        let depth = self.tiles_at_once(chain) * TILE;
        let packable = PACKED / depth.div_ceil(chain.tiling.depth);
        let rows = if apart { most / n } else { STRIPE_ROWS }.min(packable).clamp(1, STRIPE_ROWS);
        let item = out.len() / (m * n);
        for (stripe, out) in out.chunks_mut(rows * n * item).enumerate() {
            let first = stripe * rows;
            let count = rows.min(m - first);
            let (mut lists, mut packed) = BUFFERS.take();
            let result = if apart {
                let mut values = vec![0.0; count * n];
                self.stripe(chains, chain, first..first + count, &mut values, &mut lists, &mut packed)
                    .and_then(|()| self.psum.finish(&values, out))
            } else {
                let values = bytemuck::cast_slice_mut(out);
                self.stripe(chains, chain, first..first + count, values, &mut lists, &mut packed)
            };
            BUFFERS.set((lists, packed));
            result?;
        }
        Ok(())
    }

    /// Slots of a tile at most: groups that the tile cuts count as well.
    fn capacity(&self) -> usize {
        let pattern = self.w.pattern();
        let cut = if TILE.is_multiple_of(pattern.group()) { 0 } else { 2 };
        (TILE / pattern.group() + cut) * pattern.keep()
    }

    fn tiles_at_once(&self, chain: &Chain) -> usize {
        let columns = self.n.min(COLUMN_BLOCK).next_multiple_of(COLUMNS);
        let listable = LISTED / (columns * self.capacity());
        let packable = PACKED / (LEAST_ROWS * TILE / chain.tiling.depth);
        // Draws come tile by tile.
        if self.psum.is_drawn() { 1 } else { listable.min(packable).clamp(1, self.k.div_ceil(TILE).max(1)) }
    }

    /// As for the dense product; but the dot product also multiplies the k beside a stored value, by zero, which only
    /// finite numbers let pass unseen.
    fn choose<'c>(&self, chains: &'c Chains) -> Result<&'c Chain> {
        const SMALLEST_NORMAL: i32 = -126;
        const PRODUCT_FRACTION_BITS: i32 = 14;
        let Some(dot) = &chains.dot else { return Ok(&chains.fused) };
        let values = Operand::new(self.w.values().transposed(), None);
        let Some(w) = values.min_exponent(self.kernels, chains)? else { return Ok(&chains.fused) };
        let Some(a) = self.a.min_exponent(self.kernels, chains)? else { return Ok(&chains.fused) };
        let exact = a >= SMALLEST_NORMAL
            && w >= SMALLEST_NORMAL
            && a.saturating_add(w).saturating_sub(PRODUCT_FRACTION_BITS) >= SMALLEST_NORMAL;
        Ok(if exact && is_finite(&self.codes)? { dot } else { &chains.fused })
    }

    /// All columns of some rows.
    fn stripe(
        &self,
        chains: &Chains,
        chain: &Chain,
        rows: Range<usize>,
        values: &mut [f32],
        lists: &mut Lists,
        packed: &mut AlignedBytes,
    ) -> Result<()> {
        let first = self.first + rows.start * self.n;
        let outputs = first..first + values.len();
        if self.psum.has_c() || self.k == 0 {
            self.psum.start(outputs.clone(), values)?;
        }
        let stripe = Stripe { rows: rows.len(), out: Accumulators::new(values, self.n) };
        let width = chain.lists.width;
        let form = Form { depth: chain.tiling.depth, width, tile: TILE };
        let step = self.tiles_at_once(chain);
        let tiles = self.k.div_ceil(TILE);
        let mut drawn = Vec::new();
        for tile in (0..tiles).step_by(step) {
            let tiles = tile..tiles.min(tile + step);
            let draws = self.psum.draws(tile, outputs.clone(), &mut drawn)?;
            let k = tile * TILE..self.k.min(tiles.end * TILE);
            let words = k.len().div_ceil(form.depth);
            let packed = packed.slice_mut(rows.len().next_multiple_of(width) * words);
            self.a.pack(self.kernels, chains, chain, width, rows.clone(), k, packed)?;
            for column in (0..self.n).step_by(COLUMN_BLOCK) {
                let columns = column..self.n.min(column + COLUMN_BLOCK);
                self.list(form, tiles.clone(), columns.clone(), lists)?;
                let in_hand = InHand { lists, packed, tiles: tiles.clone(), columns, draws };
                self.multiply(chains, chain, &stripe, &in_hand)?;
            }
        }
        Ok(())
    }

    /// Makes the lists of some tiles and columns.
    fn list(&self, form: Form, tiles: Range<usize>, columns: Range<usize>, lists: &mut Lists) -> Result<()> {
        let (values, indices) = (self.w.values(), self.w.indices());
        let (keep, group) = (self.w.pattern().keep(), self.w.pattern().group());
        let k = self.k.min(tiles.end * TILE) - tiles.start * TILE;
        lists.build(form, k, columns.len(), self.capacity(), |tile, block, filler| {
            let start = (tiles.start + tile) * TILE;
            let end = self.k.min(start + TILE);
            let first = columns.start + block.start;
            let (mut codes, mut row) = (AlignedBytes::default(), [0.0; COLUMNS]);
            let row = &mut row[..block.len()];
            for group_index in start / group..end.div_ceil(group) {
                let base = (group_index * group).wrapping_sub(start) as u32;
                for slot in group_index * keep..(group_index + 1) * keep {
                    let codes = values.line(&[slot, first], 1, self.w_runs, block.len(), &mut codes);
                    (self.kernels.decode)(values.format(), codes, row);
                    filler.push_row(base, &indices[slot * self.n + first..][..row.len()], row);
                }
            }
        })
    }

    fn multiply(&self, chains: &Chains, chain: &Chain, stripe: &Stripe<'_>, in_hand: &InHand<'_>) -> Result<()> {
        let task_rows = TASK_ROWS.next_multiple_of(chain.lists.width);
        let row_tasks = stripe.rows.div_ceil(task_rows);
        let column_tasks = in_hand.columns.len().div_ceil(TASK_COLUMNS);
        par::for_each(0..row_tasks * column_tasks, |task| {
            let (row, column) = (task / column_tasks * task_rows, task % column_tasks * TASK_COLUMNS);
            let columns = column..in_hand.columns.len().min(column + TASK_COLUMNS);
            let rows = row..stripe.rows.min(row + task_rows);
            let mut buffers = SUMS.take();
            self.task(chains, chain, stripe, in_hand, rows, columns, &mut buffers);
            SUMS.set(buffers);
        })
    }

    /// Some rows and columns (counted from those in hand) through all tiles in hand.
    fn task(
        &self,
        chains: &Chains,
        chain: &Chain,
        stripe: &Stripe<'_>,
        in_hand: &InHand<'_>,
        rows: Range<usize>,
        columns: Range<usize>,
        [sums, block, draws]: &mut [AlignedBytes; 3],
    ) {
        let (width, depth) = (chain.lists.width, chain.tiling.depth);
        let panels = rows.len().div_ceil(width);
        let panel_sums = columns.len().next_multiple_of(COLUMNS) * width;
        let sums = sums.slice_mut::<f32>(panels * panel_sums);
        let block = block.slice_mut::<f32>(COLUMNS * width);
        let starts = in_hand.tiles.start == 0 && !self.psum.has_c();
        let mut exchange = Exchange {
            n: self.n,
            stripe,
            transpose: chains.transpose,
            rows: rows.clone(),
            columns: columns.clone(),
            width,
            block,
        };
        let column = in_hand.columns.start;
        if !starts {
            exchange.load(column, sums);
        }
        let draws = match in_hand.draws {
            [] => &[][..],
            given => exchange.arrange(column, given, draws.slice_mut(sums.len())),
        };
        let k = self.k.min(in_hand.tiles.end * TILE) - in_hand.tiles.start * TILE;
        let words = k.div_ceil(depth) * width;
        for tile in 0..in_hand.tiles.len() {
            let lists = in_hand.lists.tile(tile, columns.clone());
            let k = TILE.min(k - tile * TILE);
            for panel in 0..panels {
                let start = (rows.start / width + panel) * words + tile * TILE / depth * width;
                let packed = &in_hand.packed[start..start + k.div_ceil(depth) * width];
                let sums = &mut sums[panel * panel_sums..][..panel_sums];
                let count = width.min(rows.len() - panel * width);
                (chain.lists.multiply)(&lists, packed, count, starts && tile == 0, sums);
            }
            if self.psum.is_rounded() {
                self.psum.round(sums, draws);
            }
        }
        exchange.store(column, sums, in_hand.tiles.end * TILE >= self.k);
    }

    /// Output by output, as the contract says it.
    fn by_definition(&self, out: &mut [u8]) -> Result<()> {
        const TASK: usize = 64;
        let n = self.n;
        let (keep, group) = (self.w.pattern().keep(), self.w.pattern().group());
        let count = self.a.outer() * n;
        let outputs = self.first..self.first + count;
        let mut drawn = Vec::new();
        // The definition runs on small arrays, so it holds its accumulators whole.
        let mut values = vec![0.0f32; count];
        self.psum.start(outputs.clone(), &mut values)?;
        for tile in 0..self.k.div_ceil(TILE) {
            let draws = self.psum.draws(tile, outputs.clone(), &mut drawn)?;
            let k = tile * TILE..self.k.min((tile + 1) * TILE);
            let groups = k.start / group..k.end.div_ceil(group);
            let slots = groups.start * keep..groups.end * keep;
            par::for_each(values.chunks_mut(TASK).enumerate(), |(task, values)| {
                let (mut a, mut w) = (vec![0.0; k.len()], vec![0.0; slots.len()]);
                let mut codes = AlignedBytes::default();
                for (index, value) in values.iter_mut().enumerate() {
                    let (row, column) = ((task * TASK + index) / n, (task * TASK + index) % n);
                    self.a.values(self.kernels, row, k.clone(), &mut a);
                    let codes = self.w.values().line(&[slots.start, column], 0, false, slots.len(), &mut codes);
                    (self.kernels.decode)(self.w.values().format(), codes, &mut w);
                    let place = |slot: usize| slot / keep * group + usize::from(self.w.indices()[slot * n + column]);
                    let in_tile = slots.clone().zip(&w).map(|(slot, &value)| (place(slot), value));
                    let in_tile = in_tile.filter(|(place, _)| k.contains(place));
                    let sum = scalar::sparse::chain(&a, in_tile.map(|(place, value)| (place - k.start, value)));
                    *value = if tile == 0 && !self.psum.has_c() { sum } else { *value + sum };
                }
                if self.psum.is_rounded() {
                    let first = task * TASK;
                    self.psum.round(values, draws.get(first..first + values.len()).unwrap_or(&[]));
                }
            })?;
        }
        self.psum.finish(&values, out)
    }
}

type Transpose = fn([usize; 2], &[f32], usize, &mut [f32], usize, bool);

/// The way between a task's sums, column by column, and the accumulators, row by row.
struct Exchange<'a> {
    /// Columns of the whole output.
    n: usize,
    stripe: &'a Stripe<'a>,
    transpose: Transpose,
    rows: Range<usize>,
    columns: Range<usize>,
    width: usize,
    /// Room for [`COLUMNS`] columns of one panel's rows.
    block: &'a mut [f32],
}

impl Exchange<'_> {
    /// Calls `work(rectangle of accumulators, block, first of its sums)` for blocks of [`COLUMNS`] columns of each panel.
    fn for_each_block(&mut self, column: usize, mut work: impl FnMut([usize; 4], &mut [f32], usize)) {
        let columns = self.columns.len();
        for (panel, row) in self.rows.clone().step_by(self.width).enumerate() {
            for first in (0..columns).step_by(COLUMNS) {
                let count = COLUMNS.min(columns - first);
                let rows = self.width.min(self.rows.end - row);
                let sums = (panel * columns.next_multiple_of(COLUMNS) + first) * self.width;
                work([row, column + self.columns.start + first, rows, count], self.block, sums);
            }
        }
    }

    fn load(&mut self, column: usize, sums: &mut [f32]) {
        let (stripe, width, transpose) = (self.stripe, self.width, self.transpose);
        self.for_each_block(column, |rectangle, block, first| {
            with_rectangle(&stripe.out, rectangle, |part| {
                part.for_each_row(|row, values| block[row * COLUMNS..][..values.len()].copy_from_slice(values));
            });
            transpose([width, COLUMNS], block, COLUMNS, &mut sums[first..], width, false);
        });
    }

    fn store(&mut self, column: usize, sums: &[f32], canonical: bool) {
        let (stripe, width, transpose) = (self.stripe, self.width, self.transpose);
        self.for_each_block(column, |rectangle, block, first| {
            transpose([COLUMNS, width], &sums[first..], width, block, COLUMNS, canonical);
            with_rectangle(&stripe.out, rectangle, |part| {
                part.for_each_row(|row, values| values.copy_from_slice(&block[row * COLUMNS..][..values.len()]));
            });
        });
    }

    /// The draws of a stripe in the order of the sums.
    fn arrange<'s>(&mut self, column: usize, draws: &[u32], arranged: &'s mut [u32]) -> &'s [u32] {
        let (width, n) = (self.width, self.n);
        self.for_each_block(column, |[row, column, rows, columns], _, first| {
            for step in 0..columns {
                for lane in 0..rows {
                    arranged[first + step * width + lane] = draws[(row + lane) * n + column + step];
                }
            }
        });
        arranged
    }
}

fn is_finite(codes: &ArrayView<'_>) -> Result<bool> {
    const CHUNK: usize = 1 << 16;
    let format = codes.format();
    let (magnitude, largest) = (magnitude_mask(format), format.spec().max_code);
    let finite = AtomicBool::new(true);
    par::for_each(0..codes.len().div_ceil(CHUNK), |chunk| {
        let mut scratch = AlignedBytes::default();
        let bytes = codes.chunk(chunk * CHUNK..codes.len().min((chunk + 1) * CHUNK), &mut scratch);
        let most = if format == Format::Bf16 {
            let codes: &[u16] = bytemuck::cast_slice(bytes);
            u32::from(codes.iter().fold(0, |most, code| most.max(code & magnitude as u16)))
        } else {
            u32::from(bytes.iter().fold(0, |most, code| most.max(code & magnitude as u8)))
        };
        if most > largest {
            finite.store(false, Ordering::Relaxed);
        }
    })?;
    Ok(finite.into_inner())
}
