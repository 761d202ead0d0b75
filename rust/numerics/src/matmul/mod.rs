//! Matrix products as the systolic array computes them.

pub(crate) mod operand;
pub(crate) mod psum;
mod scalar;
pub(crate) mod simd;

use std::cell::RefCell;
use std::ops::Range;

use crate::array::{AlignedBytes, ArrayMut, ArrayView, element_count};
use crate::cast::{Draws, Rounding};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::matmul::operand::Operand;
use crate::matmul::psum::{DRAWN, Psum};
use crate::matmul::simd::chain::{Accumulators, Block, run_task};
use crate::mx::MxView;
use crate::par;
use crate::simd::dispatch::{self, Chain, Chains, Kernels};

/// k of a chain in [`matmul`]: the array's 128 rows.
pub const TILE: usize = 128;
/// k of a chain in [`matmul_mx`]: 128 rows of four elements.
pub const MX_TILE: usize = 512;

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

fn is_float32(format: Format) -> bool {
    matches!(format, Format::F32 | Format::Tf32)
}

const OPERANDS: &str = "bfloat16, float16, float32, tfloat32, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4 (float32 and tfloat32 \
     only with each other)";

/// Checks that the array's operands may meet; `a` and `b` are how the caller knows them.
pub(crate) fn check_formats(names: [&'static str; 2], a: Format, b: Format) -> Result<()> {
    for (name, format) in names.into_iter().zip([a, b]) {
        if matches!(format, Format::F4E2M1Fn | Format::F8E8M0Fnu) {
            return Err(Error::dtype(name, format, OPERANDS));
        }
    }
    if is_float32(a) != is_float32(b) {
        return Err(Error::dtype(names[1], format!("{b} where {} has {a}", names[0]), OPERANDS));
    }
    Ok(())
}

/// The result shape of a [..., M, K] by [..., K, N] product, batch axes broadcast as NumPy's.
///
/// # Errors
/// [`Error::Shape`] naming the operand that does not fit.
///
/// ```
/// assert_eq!(trn3_numerics::product_shape(&[5, 1, 2, 3], &[4, 3, 7])?, [5, 4, 2, 7]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn product_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    for (name, shape) in [("a", a), ("b", b)] {
        if shape.len() < 2 {
            return Err(Error::shape(name, shape, "it needs at least two axes"));
        }
    }
    let ((batch_a, [m, k]), (batch_b, [k_b, n])) = (split(a), split(b));
    if k != k_b {
        return Err(Error::shape("b", b, format!("its second-last axis must be {k} long, as a's last in shape {a:?}")));
    }
    let rank = batch_a.len().max(batch_b.len());
    let length = |batch: &[usize], axis: usize| (axis + batch.len()).checked_sub(rank).map_or(1, |axis| batch[axis]);
    let mut shape = Vec::with_capacity(rank + 2);
    for axis in 0..rank {
        let (of_a, of_b) = (length(batch_a, axis), length(batch_b, axis));
        if of_a != of_b && of_a != 1 && of_b != 1 {
            return Err(Error::shape("b", b, format!("its batch axes must broadcast with a's in shape {a:?}")));
        }
        shape.push(if of_a == 1 { of_b } else { of_a });
    }
    shape.extend([m, n]);
    Ok(shape)
}

fn split(shape: &[usize]) -> (&[usize], [usize; 2]) {
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    (batch, [matrix[0], matrix[1]])
}

/// `a @ b` on the 128-row array: each output is a chain of fused float32 steps over each 128 k in ascending order, the
/// chains' results added in float32.
///
/// a is [..., M, K], b [..., K, N]; bfloat16, float16 and the fp8 formats in any pair, float32 and tfloat32 with each
/// other. `out` is [..., M, N], float32 or bfloat16; bfloat16 is rounded by `rounding` after every tile, as PSUM holds
/// it. `c`, of the output's shape, is what the accumulator starts from. The float32 step is the true fused one, and tile
/// results join after the chain **(choice)**.
///
/// # Errors
/// [`Error::Dtype`], [`Error::Shape`] and [`Error::Value`] name the argument that does not fit.
///
/// ```
/// use trn3_numerics::{ArrayMut, ArrayView, Draws, Rounding, matmul};
///
/// let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], [10.0f32, 1.0]);
/// let mut out = [0.0f32; 2];
/// let (a, b) = (ArrayView::new(&a, &[2, 2])?, ArrayView::new(&b, &[2, 1])?);
/// matmul(&a, &b, None, ArrayMut::new(&mut out, &[2, 1])?, Rounding::Nearest, Draws::None)?;
/// assert_eq!(out, [12.0, 34.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn matmul(
    a: &ArrayView<'_>,
    b: &ArrayView<'_>,
    c: Option<&ArrayView<'_>>,
    out: ArrayMut<'_>,
    rounding: Rounding,
    draws: Draws<'_>,
) -> Result<()> {
    check_formats(["a", "b"], a.format(), b.format())?;
    product((a, None), (b, None), c, out, rounding, draws, TILE)
}

/// As [`matmul`], with chains of `chain` k instead of [`TILE`]: what a processing element that holds several rows of the
/// contraction computes before its column's result leaves the array.
///
/// # Errors
/// As [`matmul`]; [`Error::Value`] for a chain of no k.
///
/// ```
/// use trn3_numerics::{ArrayMut, ArrayView, Draws, Rounding, matmul_chained};
///
/// let ones = [1.0f32; 256];
/// let mut out = [0.0f32];
/// let (a, b) = (ArrayView::new(&ones, &[1, 256])?, ArrayView::new(&ones, &[256, 1])?);
/// matmul_chained(&a, &b, None, ArrayMut::new(&mut out, &[1, 1])?, Rounding::Nearest, Draws::None, 256)?;
/// assert_eq!(out, [256.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn matmul_chained(
    a: &ArrayView<'_>,
    b: &ArrayView<'_>,
    c: Option<&ArrayView<'_>>,
    out: ArrayMut<'_>,
    rounding: Rounding,
    draws: Draws<'_>,
    chain: usize,
) -> Result<()> {
    check_formats(["a", "b"], a.format(), b.format())?;
    if chain == 0 {
        return Err(Error::value("chain", chain, "a chain has at least one k"));
    }
    product((a, None), (b, None), c, out, rounding, draws, chain)
}

/// `a @ b` of quantised arrays on the 512-row array: as [`matmul`] with chains of 512 k over the exact products of
/// element and scale.
///
/// a is blocked along its last axis, b along its second-last; any pair of element formats. The four products of one
/// processing element are four consecutive k **(choice)**. Values beyond float32 follow float32 arithmetic; scale byte
/// 255 gives NaN.
///
/// # Errors
/// [`Error::Dtype`], [`Error::Shape`] and [`Error::Value`] name the argument that does not fit.
///
/// ```
/// use trn3_numerics::{ArrayMut, ArrayView, Draws, Format, MxView, Rounding, matmul_mx};
///
/// let (ones, scales) = ([0x38u8; 32], [128u8]); // 1.0 times 2
/// let view = |shape: &[usize], scale_shape: &[usize], axis| -> trn3_numerics::Result<MxView<'_>> {
///     Ok(MxView {
///         elements: ArrayView::from_codes(Format::F8E4M3Fn, &ones, shape)?,
///         scales: ArrayView::from_codes(Format::F8E8M0Fnu, &scales, scale_shape)?,
///         axis,
///     })
/// };
/// let (a, b) = (view(&[1, 32], &[1, 1], 1)?, view(&[32, 1], &[1, 1], 0)?);
/// let mut out = [0.0f32];
/// matmul_mx(&a, &b, None, ArrayMut::new(&mut out, &[1, 1])?, Rounding::Nearest, Draws::None)?;
/// assert_eq!(out, [128.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn matmul_mx(
    a: &MxView<'_>,
    b: &MxView<'_>,
    c: Option<&ArrayView<'_>>,
    out: ArrayMut<'_>,
    rounding: Rounding,
    draws: Draws<'_>,
) -> Result<()> {
    for (name, axis_name, operand, from_end) in [("a", "a.axis", a, 1), ("b", "b.axis", b, 2)] {
        let rank = operand.elements.shape().len();
        if rank >= 2 && operand.axis != rank - from_end {
            let needed =
                format!("{name} must be blocked along the contraction axis, {} (-{from_end})", rank - from_end);
            return Err(Error::value(axis_name, operand.axis, needed));
        }
        operand.check(name)?;
    }
    let (a, b) = ((&a.elements, Some(&a.scales)), (&b.elements, Some(&b.scales)));
    product(a, b, c, out, rounding, draws, MX_TILE)
}

type Side<'a> = (&'a ArrayView<'a>, Option<&'a ArrayView<'a>>);

fn product(
    a: Side<'_>,
    b: Side<'_>,
    c: Option<&ArrayView<'_>>,
    out: ArrayMut<'_>,
    rounding: Rounding,
    draws: Draws<'_>,
    tile: usize,
) -> Result<()> {
    let kernels = dispatch::active()?;
    let shape = product_shape(a.0.shape(), b.0.shape())?;
    out.expect("out", out.format(), &shape)?;
    let k = a.0.shape()[a.0.shape().len() - 1];
    let psum = Psum::new(kernels, c, &out, rounding, draws, k.div_ceil(tile))?;
    let item = out.format().item_size();
    let out = out.into_bytes();
    multiply_all(kernels, &psum, a, b, &shape, out, item, tile)?;
    psum.consume()
}

/// Every matrix of the batch.
fn multiply_all(
    kernels: &'static Kernels,
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
        let job = Job { kernels, psum, a, b: right_operand(b, &[]), tile, first: 0 };
        return job.run(out);
    }
    let one = |(index, out): (usize, &mut [u8])| {
        let position = unravel(index, batch);
        let a = Operand::new(a.0.matrix(&position), a.1.map(|scales| scales.matrix(&position)));
        let b = right_operand(b, &position);
        Job { kernels, psum, a, b, tile, first: index * m * n }.run(out)
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

/// The position of an element that has the C-order index `index`.
pub(crate) fn unravel(mut index: usize, shape: &[usize]) -> Vec<usize> {
    let mut position = vec![0; shape.len()];
    for (slot, &length) in position.iter_mut().zip(shape).rev() {
        *slot = index % length;
        index /= length;
    }
    position
}

/// One matrix product; `first` is the C-order index of its first output in the whole result.
struct Job<'a> {
    kernels: &'static Kernels,
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
        let Some(chains) = &self.kernels.chains else {
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

    /// The BF16 dot product where the level has it and nothing can fall below the normal range of float32, whose
    /// smaller numbers it would flush: no subnormal operand, and every product a multiple of 2^-126.
    fn choose<'c>(&self, chains: &'c Chains) -> Result<&'c Chain> {
        const SMALLEST_NORMAL: i32 = -126;
        const PRODUCT_FRACTION_BITS: i32 = 14;
        let Some(dot) = &chains.dot else { return Ok(&chains.fused) };
        let Some(a) = self.a.min_exponent(self.kernels, chains)? else { return Ok(&chains.fused) };
        let Some(b) = self.b.min_exponent(self.kernels, chains)? else { return Ok(&chains.fused) };
        let exact = a >= SMALLEST_NORMAL
            && b >= SMALLEST_NORMAL
            && a.saturating_add(b).saturating_sub(PRODUCT_FRACTION_BITS) >= SMALLEST_NORMAL;
        Ok(if exact { dot } else { &chains.fused })
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
            let words = k_range.len().div_ceil(tiling.depth);
            let left = left.slice_mut(rows.len().div_ceil(tiling.rows) * tiling.rows * words);
            self.a.pack(self.kernels, chains, chain, tiling.rows, rows.clone(), k_range.clone(), left)?;
            let block = Block {
                k: k_range.len(),
                tile: self.tile,
                accumulate: self.psum.has_c() || k_start > 0,
                last: k_range.end == k,
            };
            let draws = self.psum.draws(index, outputs.clone(), &mut drawn)?;
            let step = BLOCKING.columns / tiling.columns * tiling.columns;
            for column in (0..n).step_by(step) {
                let columns = column..n.min(column + step);
                let right = right.slice_mut(columns.len().div_ceil(tiling.columns) * tiling.columns * words);
                self.b.pack(self.kernels, chains, chain, tiling.columns, columns.clone(), k_range.clone(), right)?;
                self.multiply(chain, &block, words, left, right, columns, values, draws)?;
            }
        }
        Ok(())
    }

    fn multiply(
        &self,
        chain: &Chain,
        block: &Block,
        words: usize,
        left: &[u32],
        right: &[u32],
        columns: Range<usize>,
        values: &mut [f32],
        draws: &[u32],
    ) -> Result<()> {
        let n = self.b.outer();
        let task_rows = BLOCKING.task_rows.next_multiple_of(chain.tiling.rows);
        let task_columns = BLOCKING.task_columns.next_multiple_of(chain.tiling.columns);
        let row_tasks = (left.len() / words).div_ceil(task_rows);
        let column_tasks = (right.len() / words).div_ceil(task_columns);
        let out = Accumulators::new(values, n);
        par::for_each(0..row_tasks * column_tasks, |task| {
            let (row, column) = (task % row_tasks * task_rows, task / row_tasks * task_columns);
            let panels = |packed: &'_ [u32], first: usize, count: usize| {
                let start = first * words;
                start..packed.len().min(start + count * words)
            };
            let left = &left[panels(left, row, task_rows)];
            let right = &right[panels(right, column, task_columns)];
            let width = task_columns.min(columns.len() - column);
            let rectangle = [row, columns.start + column, task_rows, width];
            run_task(chain.multiply, block, left, right, &out, rectangle, |row, column, values| {
                if self.psum.is_rounded() {
                    let first = row * n + column;
                    self.psum.round(values, draws.get(first..first + values.len()).unwrap_or(&[]));
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
                    self.a.values(self.kernels, output / n, k_range.clone(), &mut a);
                    self.b.values(self.kernels, output % n, k_range.clone(), &mut b);
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
