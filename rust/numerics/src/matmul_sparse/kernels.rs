//! What each level has to run lists with.

use super::lists::TileLists;
#[cfg(target_arch = "x86_64")]
use super::simd::DOT_VECTORS;
use super::simd::{self, FUSED_VECTORS};
use crate::matmul::Chains;
use crate::simd::{ActiveLevel, LANES, PerLevel, kernel, per_level};

/// Panels of one form and the kernel for them.
pub(super) struct ListChain {
    /// Consecutive k in a packed word.
    pub(super) depth: usize,
    /// Rows of a panel.
    pub(super) width: usize,
    /// See [`simd`].
    pub(super) multiply: fn(&TileLists<'_>, &[u32], usize, bool, &mut [f32]),
}

/// One level's kernels of skip-zero products.
pub(super) struct ListChains {
    /// One float32 a word.
    pub(super) fused: ListChain,
    /// Two bfloat16 a word, where the level has the instruction.
    pub(super) dot: Option<ListChain>,
    /// See [`simd::widen_rows`].
    pub(super) widen_rows: fn(&[&[u8]; LANES], usize, &mut [f32]),
    /// See [`simd::transpose`].
    pub(super) transpose: fn([usize; 2], &[f32], usize, &mut [f32], usize, bool),
}

/// Lists, and the packing that they share with other products.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    pub(super) chains: &'static Chains,
    pub(super) lists: &'static ListChains,
}

impl Kernels {
    /// A level's kernels; `None` at the scalar level, where chains are run by the definition.
    pub(super) fn at(level: ActiveLevel) -> Option<Self> {
        let lists = LISTS.at(level).as_ref()?;
        Chains::at(level).map(|chains| Self { chains, lists })
    }
}

macro_rules! lists {
    ($level:ident, at_once: $at_once:literal, dot: $dot:expr) => {
        Some(ListChains {
            fused: ListChain {
                depth: 1,
                width: FUSED_VECTORS * LANES,
                multiply: kernel!(
                    $level,
                    simd::fused::<_, $at_once>,
                    (lists: &TileLists<'_>, panel: &[u32], rows: usize, first: bool, sums: &mut [f32])
                ),
            },
            dot: $dot,
            widen_rows: kernel!($level, simd::widen_rows, (rows: &[&[u8]; LANES], width: usize, panel: &mut [f32])),
            transpose: kernel!(
                $level,
                simd::transpose,
                (size: [usize; 2], from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize, canonical: bool)
            ),
        })
    };
}

/// So many columns' lists at a time as there are registers for their chains.
static LISTS: PerLevel<Option<ListChains>> = per_level! {
    scalar: None,
    portable: lists!(portable, at_once: 1, dot: None),
    avx2: lists!(avx2, at_once: 1, dot: None),
    avx512: lists!(avx512, at_once: 2, dot: None),
    avx512bf16: lists!(
        avx512bf16,
        at_once: 2,
        dot: Some(ListChain {
            depth: 2,
            width: DOT_VECTORS * LANES,
            multiply: kernel!(
                avx512bf16_dot,
                simd::dot::<2>,
                (lists: &TileLists<'_>, panel: &[u32], rows: usize, first: bool, sums: &mut [f32])
            ),
        })
    ),
};
