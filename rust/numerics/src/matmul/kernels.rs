//! What each level has to run chains with.

use super::accumulators::Accumulators;
use super::simd::chain::{self, Block};
use super::simd::pack::{self, Form};
use crate::simd::{ActiveLevel, LANES, PerLevel, kernel, per_level};

/// Outputs of a register tile, and k of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Left outer positions of a panel.
    pub(crate) rows: usize,
    /// Right outer positions of a panel.
    pub(crate) columns: usize,
    /// Consecutive k in a packed word.
    pub(crate) depth: usize,
}

/// One way to run chains.
pub(crate) struct Chain {
    pub(crate) tiling: Tiling,
    /// See [`chain`].
    pub(crate) multiply: fn(&Block, &[u32], &[u32], &Accumulators<'_>),
}

/// One level's kernels of matrix products.
pub(crate) struct Chains {
    /// One float32 a word.
    pub(crate) fused: Chain,
    /// Two bfloat16 a word, where the level has the instruction.
    pub(crate) dot: Option<Chain>,
    /// See [`pack::pack_rows`].
    pub(crate) pack_rows: fn(Form, &[&[u8]], usize, &mut [u32]),
    /// See [`pack::pack_line`].
    pub(crate) pack_line: fn(Form, [&[u8]; 2], [usize; 3], &mut [u32]),
    /// See [`pack::high_halves`].
    pub(crate) high_halves: fn(&[f32], &mut [u16]),
    /// See [`pack::min_magnitude`].
    pub(crate) min_magnitude: fn(&[u16]) -> u16,
}

impl Chains {
    /// A level's kernels; `None` at the scalar level, where chains are run by the definition.
    pub(crate) fn at(level: ActiveLevel) -> Option<&'static Self> {
        CHAINS.at(level).as_ref()
    }
}

macro_rules! chains {
    ($level:ident, rows: $rows:literal, vectors: $vectors:literal, dot: $dot:expr) => {
        Some(Chains {
            fused: Chain {
                tiling: Tiling { rows: $rows, columns: $vectors * LANES, depth: 1 },
                multiply: kernel!(
                    $level,
                    chain::fused::<_, $rows, $vectors>,
                    (block: &Block, left: &[u32], right: &[u32], out: &Accumulators<'_>)
                ),
            },
            dot: $dot,
            pack_rows: kernel!(
                $level,
                pack::pack_rows::<_, $rows>,
                (form: Form, rows: &[&[u8]], width: usize, panel: &mut [u32])
            ),
            pack_line: kernel!(
                $level,
                pack::pack_line,
                (form: Form, codes: [&[u8]; 2], place: [usize; 3], panels: &mut [u32])
            ),
            high_halves: kernel!($level, pack::high_halves, (values: &[f32], codes: &mut [u16])),
            min_magnitude: kernel!($level, pack::min_magnitude, (codes: &[u16]) -> u16),
        })
    };
}

/// Register tiles: as many accumulators as there are registers for, less one row of right operands and one left value.
static CHAINS: PerLevel<Option<Chains>> = per_level! {
    scalar: None,
    portable: chains!(portable, rows: 4, vectors: 1, dot: None),
    avx2: chains!(avx2, rows: 6, vectors: 1, dot: None),
    avx512: chains!(avx512, rows: 8, vectors: 3, dot: None),
    avx512bf16: chains!(
        avx512bf16,
        rows: 8,
        vectors: 3,
        dot: Some(Chain {
            tiling: Tiling { rows: 8, columns: 3 * LANES, depth: 2 },
            multiply: kernel!(
                avx512bf16_dot,
                chain::dot::<8, 3>,
                (block: &Block, left: &[u32], right: &[u32], out: &Accumulators<'_>)
            ),
        })
    ),
};
