//! Products of operands of any shape.

use std::ops::Range;

use super::accumulators::Accumulators;
use super::blocked::{Blocked, Factors, Side};
use super::dot_range::is_dot_exact;
use super::kernels::{Chain, Chains};
use super::operand::Operand;
use super::packer::Packer;
use super::psum::Psum;
use super::scalar;
use super::shape::{split, unravel};
use super::simd::chain::Block;
use crate::array::{ArrayView, element_count};
use crate::error::Result;
use crate::par;
use crate::simd::ActiveLevel;

/// Products smaller than this many multiply-adds are split over the batch rather than inside.
const SMALL: usize = 1 << 25;

/// k packed at a time, for float32 and for bfloat16 pairs.
const WORDS_AT_ONCE: usize = 256;

/// The codes of one side, and its scales where it is quantised.
pub(super) type Codes<'a> = (&'a ArrayView<'a>, Option<&'a ArrayView<'a>>);

/// Every matrix of the batch.
pub(super) fn multiply_all(
    level: ActiveLevel,
    psum: &Psum<'_>,
    a: Codes<'_>,
    b: Codes<'_>,
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

fn is_matrix(side: Codes<'_>) -> bool {
    let (batch, _) = split(side.0.shape());
    element_count(batch) == 1
}

fn side_rows<'a>(scales: Option<&ArrayView<'a>>) -> Option<Option<ArrayView<'a>>> {
    match scales {
        None => Some(None),
        Some(scales) => scales.as_rows().map(Some),
    }
}

fn right_operand<'a>(b: Codes<'a>, position: &[usize]) -> Operand<'a> {
    let matrix = |view: &ArrayView<'a>| {
        let (batch, _) = split(view.shape());
        let zeros = vec![0; batch.len()];
        view.matrix(if position.is_empty() { &zeros } else { position }).transposed()
    };
    Operand::new(matrix(b.0), b.1.map(matrix))
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

impl Job<'_> {
    fn run(&self, out: &mut [u8]) -> Result<()> {
        let Some(chains) = Chains::at(self.level) else {
            return self.by_definition(out);
        };
        let chain = self.choose(chains)?;
        let factors = Dense { level: self.level, chains, chain, a: &self.a, b: &self.b };
        Blocked { psum: self.psum, factors, tile: self.tile, first: self.first }.run(out)
    }

    /// The BF16 dot product where the level has it and the operands allow it.
    fn choose(&self, chains: &'static Chains) -> Result<&'static Chain> {
        let Some(dot) = &chains.dot else { return Ok(&chains.fused) };
        if self.a.k() > self.tile && !self.tile.is_multiple_of(dot.tiling.depth) {
            // A word would reach from one chain into the next.
            return Ok(&chains.fused);
        }
        Ok(if is_dot_exact(self.level, chains, &self.a, &self.b)? { dot } else { &chains.fused })
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

/// Two operands, every k of both.
struct Dense<'a> {
    level: ActiveLevel,
    chains: &'static Chains,
    chain: &'static Chain,
    a: &'a Operand<'a>,
    b: &'a Operand<'a>,
}

impl Dense<'_> {
    fn operand(&self, side: Side) -> &Operand<'_> {
        match side {
            Side::Left => self.a,
            Side::Right => self.b,
        }
    }
}

impl Factors for Dense<'_> {
    fn k(&self) -> usize {
        self.a.k()
    }

    fn k_at_once(&self) -> usize {
        WORDS_AT_ONCE * self.chain.tiling.depth
    }

    fn outer(&self, side: Side) -> usize {
        self.operand(side).outer()
    }

    fn panel(&self, side: Side) -> usize {
        match side {
            Side::Left => self.chain.tiling.rows,
            Side::Right => self.chain.tiling.columns,
        }
    }

    fn most_packed(&self, side: Side) -> usize {
        self.operand(side).most_packed()
    }

    fn words(&self, _: Side, k: usize) -> usize {
        k.div_ceil(self.chain.tiling.depth)
    }

    fn pack(&self, side: Side, outer: Range<usize>, k: Range<usize>, panels: &mut [u32]) {
        let packer = Packer::new(self.operand(side), self.level, self.chains, self.chain.tiling.depth, k);
        packer.pack(self.panel(side), outer, panels);
    }

    fn multiply(&self, block: &Block, left: &[u32], right: &[u32], out: &Accumulators<'_>) {
        (self.chain.multiply)(block, left, right, out);
    }
}
