//! What each level has to run skip-zero products with.

use super::lists::TileLists;
use super::simd::lists;
#[cfg(target_arch = "x86_64")]
use super::simd::selection;
use crate::matmul::{Accumulators, Block, Chains};
#[cfg(target_arch = "x86_64")]
use crate::simd::LANES;
use crate::simd::{ActiveLevel, PerLevel, kernel, per_level};

/// One level's kernels of products by lists.
pub(super) struct ListChains {
    /// See [`lists::multiply`].
    pub(super) multiply: fn(&TileLists<'_>, &[f32], usize, bool, &mut [f32]),
    /// See [`lists::transpose`].
    pub(super) transpose: fn([usize; 2], &[f32], usize, &mut [f32], usize, bool),
}

/// One level's kernels of products by selection.
pub(super) struct Selection {
    /// Outer positions of a left and of a right panel.
    pub(super) panels: [usize; 2],
    /// See [`selection::multiply`].
    pub(super) multiply: fn(&Block, usize, &[u32], &[u32], &Accumulators<'_>),
    /// See [`selection::write_pair`].
    pub(super) write_pair: fn([&[u32]; 2], [&[f32]; 2], [usize; 3], &mut [u32]),
}

/// What a level has, and the packing that is shared with other products.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    pub(super) chains: &'static Chains,
    pub(super) lists: &'static ListChains,
    /// Where the level has the BF16 dot product.
    pub(super) selection: Option<&'static Selection>,
}

impl Kernels {
    /// A level's kernels; `None` at the scalar level, where chains are run by the definition.
    pub(super) fn at(level: ActiveLevel) -> Option<Self> {
        let lists = LISTS.at(level).as_ref()?;
        let selection = SELECTIONS.at(level).as_ref();
        Chains::at(level).map(|chains| Self { chains, lists, selection })
    }
}

macro_rules! list_chains {
    ($level:ident, at_once: $at_once:literal) => {
        Some(ListChains {
            multiply: kernel!(
                $level,
                lists::multiply::<_, $at_once>,
                (lists: &TileLists<'_>, panel: &[f32], rows: usize, first: bool, sums: &mut [f32])
            ),
            transpose: kernel!(
                $level,
                lists::transpose,
                (size: [usize; 2], from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize, canonical: bool)
            ),
        })
    };
}

/// So many columns' lists at a time as there are registers for their chains.
static LISTS: PerLevel<Option<ListChains>> = per_level! {
    scalar: None,
    portable: list_chains!(portable, at_once: 1),
    avx2: list_chains!(avx2, at_once: 1),
    avx512: list_chains!(avx512, at_once: 2),
    avx512bf16: list_chains!(avx512bf16, at_once: 2),
};

/// Measured with 12 sums, six rows and a pair in registers: eight rows cost 5 %, three or four vectors of columns 15 %.
static SELECTIONS: PerLevel<Option<Selection>> = per_level! {
    scalar: None,
    portable: None,
    avx2: None,
    avx512: None,
    avx512bf16: Some(Selection {
        panels: [6, 2 * LANES],
        multiply: kernel!(
            avx512bf16_dot,
            selection::multiply::<6, 2>,
            (block: &Block, pairs: usize, left: &[u32], right: &[u32], out: &Accumulators<'_>)
        ),
        write_pair: kernel!(
            avx512bf16_dot,
            selection::write_pair::<2>,
            (places: [&[u32]; 2], values: [&[f32]; 2], place: [usize; 3], words: &mut [u32])
        ),
    }),
};
