//! The product with a compressed right operand: chains over its nonzeros alone.

mod by_lists;
mod by_selection;
mod kernels;
mod lists;
mod scalar;
mod simd;
mod spans;

use crate::array::{AlignedBytes, ArrayMut, ArrayView, element_count};
use crate::cast::{Draws, Rounding, decode};
use crate::error::{Error, Result};
use crate::matmul::{Blocked, Operand, Psum, TILE, check_formats, product_shape, unravel};
use crate::par;
use crate::simd::{ActiveLevel, active_level};
use crate::sparse::SparseView;
use by_selection::Selected;
use kernels::Kernels;

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
    let level = active_level()?;
    check_formats(["a", "w"], a.format(), w.values().format())?;
    let shape = output_shape(a, w)?;
    out.expect("out", out.format(), &shape)?;
    let k = w.dense_shape()[0];
    let psum = Psum::new(level, c, &out, rounding, draws, k.div_ceil(TILE))?;
    let item = out.format().item_size();
    multiply_all(level, &psum, a, w, &shape, out.into_bytes(), item)?;
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
    level: ActiveLevel,
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
        // The rows of the whole batch make one tall matrix.
        return Job::new(level, psum, rows, w, 0).run(out);
    }
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    let size = element_count(matrix);
    let one = |(index, out): (usize, &mut [u8])| {
        Job::new(level, psum, a.matrix(&unravel(index, batch)), w, index * size).run(out)
    };
    let mut matrices = out.chunks_mut(size * item).enumerate();
    if size.saturating_mul(w.dense_shape()[0]) < SMALL {
        par::try_for_each(matrices, one)
    } else {
        matrices.try_for_each(one)
    }
}

/// One matrix product.
struct Job<'a> {
    level: ActiveLevel,
    psum: &'a Psum<'a>,
    codes: ArrayView<'a>,
    /// The same.
    a: Operand<'a>,
    w: &'a SparseView<'a>,
    /// Dense length of the contraction axis.
    k: usize,
    n: usize,
    /// C-order index of its first output in the whole result.
    first: usize,
}

impl<'a> Job<'a> {
    fn new(level: ActiveLevel, psum: &'a Psum<'a>, codes: ArrayView<'a>, w: &'a SparseView<'a>, first: usize) -> Self {
        let dense = w.dense_shape();
        Self { level, psum, a: Operand::new(codes.clone(), None), codes, w, k: dense[0], n: dense[1], first }
    }

    fn run(&self, out: &mut [u8]) -> Result<()> {
        let Some(kernels) = Kernels::at(self.level) else {
            return self.by_definition(out);
        };
        match Selected::of(self, kernels)? {
            Some(factors) => Blocked { psum: self.psum, factors, tile: TILE, first: self.first }.run(out),
            None => self.by_lists(kernels, out),
        }
    }

    /// Output by output, as the contract says it.
    fn by_definition(&self, out: &mut [u8]) -> Result<()> {
        const TASK: usize = 64;
        let (keep, group) = (self.w.pattern().keep(), self.w.pattern().group());
        let count = self.a.outer() * self.n;
        let outputs = self.first..self.first + count;
        let mut drawn = Vec::new();
        // The definition runs on small arrays, so it holds its accumulators whole.
        let mut values = vec![0.0f32; count];
        self.psum.start(outputs.clone(), &mut values)?;
        for tile in 0..self.k.div_ceil(TILE) {
            let draws = self.psum.draws(tile, outputs.clone(), &mut drawn)?;
            let k = tile * TILE..self.k.min((tile + 1) * TILE);
            let slots = k.start / group * keep..k.end.div_ceil(group) * keep;
            par::for_each(values.chunks_mut(TASK).enumerate(), |(task, values)| {
                let (mut a, mut w) = (vec![0.0; k.len()], vec![0.0; slots.len()]);
                let mut codes = AlignedBytes::default();
                for (index, value) in values.iter_mut().enumerate() {
                    let (row, column) = ((task * TASK + index) / self.n, (task * TASK + index) % self.n);
                    self.a.values(self.level, row, k.clone(), &mut a);
                    let codes = self.w.values().line(&[slots.start, column], 0, false, slots.len(), &mut codes);
                    decode(self.level, self.w.values().format(), codes, &mut w);
                    let place =
                        |slot: usize| slot / keep * group + usize::from(self.w.indices()[slot * self.n + column]);
                    // Groups may lie across the ends of the tile.
                    let stored = slots.clone().zip(&w).map(|(slot, &value)| (place(slot), value));
                    let in_tile = stored.filter(|(place, _)| k.contains(place));
                    let sum = scalar::chain(&a, in_tile.map(|(place, value)| (place - k.start, value)));
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
