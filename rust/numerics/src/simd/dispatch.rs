//! Which level runs: detected once, overridden by `TRN3_SIMD`; whole kernels are dispatched, not instructions.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;

use super::lanes::LANES;
use super::portable::Portable;
use crate::activation::Activation;
use crate::cast::simd::Encoder;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::matmul::simd::chain::{Accumulators, Block, Tiling};
use crate::matmul_sparse::simd::{FUSED_VECTORS, ListChain, TileLists};
use crate::mx::simd::Quantizer;
use crate::xorwow::polynomial::Polynomial;
use crate::xorwow::simd::{self as xorwow, Filling};

/// A set of kernels; all give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// The definitions, one element at a time: the slow twin every other level is compared with.
    Scalar,
    /// Plain loops that the compiler vectorises for the baseline target.
    Portable,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// The same with the BF16 dot product for systolic chains.
    Avx512Bf16,
}

impl Level {
    /// Every level, slowest first.
    pub const ALL: [Level; 5] = [Level::Scalar, Level::Portable, Level::Avx2, Level::Avx512, Level::Avx512Bf16];

    /// The name `TRN3_SIMD` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Avx512Bf16 => "avx512bf16",
        }
    }

    /// Whether this machine can run the level.
    pub fn is_available(self) -> bool {
        self.kernels().is_some()
    }

    /// Whether the level, where available, beats the one below it.
    fn is_worthwhile(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 => super::avx512::Avx512Bf16::is_faster(),
            _ => true,
        }
    }

    /// The level's kernels, where the machine has its instructions.
    pub(crate) fn kernels(self) -> Option<&'static Kernels> {
        match self {
            Level::Scalar => Some(&super::scalar::KERNELS),
            Level::Portable => Some(&PORTABLE),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => super::avx2::Avx2::is_available().then_some(&AVX2),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => super::avx512::Avx512::is_available().then_some(&AVX512),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 => super::avx512::Avx512Bf16::is_available().then_some(&AVX512BF16),
            #[cfg(not(target_arch = "x86_64"))]
            _ => None,
        }
    }

    fn available_names() -> String {
        let names = Level::ALL.into_iter().filter(|level| level.is_available()).map(Level::name);
        names.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One level's kernels.
pub(crate) struct Kernels {
    /// See [`crate::cast::simd::encode`].
    pub(crate) encode: fn(&Encoder, &[f32], &[u32], &mut [u8]),
    /// See [`crate::cast::simd::decode`].
    pub(crate) decode: fn(Format, &[u8], &mut [f32]),
    /// See [`crate::activation::simd::activate`].
    pub(crate) activate: fn(Activation, f32, &mut [f32]),
    /// See [`crate::activation::simd::multiply_add`].
    pub(crate) multiply_add: fn(usize, &[f32], &[f32], &mut [f32]),
    /// See [`crate::exp::simd::exp`].
    pub(crate) exp: fn(Format, Format, &[u8], &[f32], &mut [u8]),
    /// See [`crate::exp::simd::sum_rows`].
    pub(crate) sum_rows: fn(Format, &[&[u8]], &mut [f32]),
    /// See [`crate::mx::simd::quantize_rows`].
    pub(crate) quantize_rows: fn(&Quantizer, &[f32], &[u32], &mut [u8], &mut [u8]),
    /// See [`crate::mx::simd::quantize_columns`].
    pub(crate) quantize_columns: fn(&Quantizer, &[&[f32]], &[&[u32]], &mut [&mut [u8]], &mut [u8]),
    /// See [`crate::xorwow::simd::fill`].
    pub(crate) xorwow_fill: fn(&mut [xorwow::Block], Filling, &mut [[u32; LANES]]),
    /// See [`crate::xorwow::simd::jump`].
    pub(crate) xorwow_jump: fn(&Polynomial, u32, &mut xorwow::Block),
    /// See [`crate::mx::simd::scale_each`].
    pub(crate) scale_each: fn(&mut [f32], &[f32]),
    /// See [`crate::mx::simd::scale_blocks`].
    pub(crate) scale_blocks: fn(&mut [f32], &[f32]),
    /// `None` at the scalar level, where chains are run by the definition.
    pub(crate) chains: Option<Chains>,
}

/// The kernels of matrix products.
pub(crate) struct Chains {
    /// One float32 a word.
    pub(crate) fused: Chain,
    /// Two bfloat16 a word, where the level has the instruction.
    pub(crate) dot: Option<Chain>,
    /// See [`crate::matmul::simd::pack::pack_rows`]; words as they are.
    pub(crate) pack_word_rows: fn(&[&[u8]], usize, &mut [u32]),
    /// The same, words of two 16-bit codes.
    pub(crate) pack_pair_rows: fn(&[&[u8]], usize, &mut [u32]),
    /// See [`crate::matmul::simd::pack::pack_pair`].
    pub(crate) pack_pair: fn(&[u16], &[u16], &mut [u32]),
    /// See [`crate::matmul::simd::pack::min_magnitude`].
    pub(crate) min_magnitude: fn(&[u16]) -> u16,
    /// See [`crate::matmul_sparse::simd::widen_rows`].
    pub(crate) widen_rows: fn(&[&[u8]; LANES], usize, &mut [f32]),
    /// See [`crate::matmul_sparse::simd::transpose`].
    pub(crate) transpose: fn([usize; 2], &[f32], usize, &mut [f32], usize, bool),
}

/// One way to run chains.
pub(crate) struct Chain {
    pub(crate) tiling: Tiling,
    /// See [`crate::matmul::simd::chain`].
    pub(crate) multiply: fn(&Block, &[u32], &[u32], &Accumulators<'_>),
    /// Chains that skip zeros.
    pub(crate) lists: ListChain,
}

/// A generic kernel as a function with a level's target features.
macro_rules! kernel {
    ([$features:literal, $lanes:expr] $path:path, ($($arg:ident: $type:ty),*) $(-> $ret:ty)?) => {{
        fn dispatched($($arg: $type),*) $(-> $ret)? {
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            unsafe fn kernel($($arg: $type),*) $(-> $ret)? {
                #[allow(unused_unsafe)]
                // SAFETY: a table is handed out only where its features have been detected.
                let lanes = unsafe { $lanes };
                $path(lanes, $($arg),*)
            }
            // SAFETY: as above.
            unsafe { kernel($($arg),*) }
        }
        dispatched
    }};
}

/// Defines one level's table.
macro_rules! kernel_table {
    ($table:ident, $features:literal, $lanes:expr, rows: $rows:literal, vectors: $vectors:literal, lists: $lists:literal, dot: $dot:expr) => {
        static $table: Kernels = Kernels {
            encode: kernel!([$features, $lanes] crate::cast::simd::encode, (e: &Encoder, src: &[f32], draws: &[u32], dst: &mut [u8])),
            decode: kernel!([$features, $lanes] crate::cast::simd::decode, (format: Format, src: &[u8], dst: &mut [f32])),
            activate: kernel!(
                [$features, $lanes] crate::activation::simd::activate, (function: Activation, parameter: f32, values: &mut [f32])
            ),
            multiply_add: kernel!(
                [$features, $lanes] crate::activation::simd::multiply_add,
                (columns: usize, scales: &[f32], addends: &[f32], values: &mut [f32])
            ),
            exp: kernel!([$features, $lanes] crate::exp::simd::exp, (from: Format, to: Format, src: &[u8], bias: &[f32], dst: &mut [u8])),
            sum_rows: kernel!([$features, $lanes] crate::exp::simd::sum_rows, (format: Format, rows: &[&[u8]], sums: &mut [f32])),
            quantize_rows: kernel!(
                [$features, $lanes] crate::mx::simd::quantize_rows,
                (q: &Quantizer, src: &[f32], draws: &[u32], elements: &mut [u8], scales: &mut [u8])
            ),
            quantize_columns: kernel!(
                [$features, $lanes] crate::mx::simd::quantize_columns,
                (q: &Quantizer, rows: &[&[f32]], draws: &[&[u32]], elements: &mut [&mut [u8]], scales: &mut [u8])
            ),
            xorwow_fill: kernel!(
                [$features, $lanes] crate::xorwow::simd::fill, (state: &mut [xorwow::Block], filling: Filling, out: &mut [[u32; LANES]])
            ),
            xorwow_jump: kernel!(
                [$features, $lanes] crate::xorwow::simd::jump, (polynomial: &Polynomial, weyl: u32, block: &mut xorwow::Block)
            ),
            scale_each: kernel!([$features, $lanes] crate::mx::simd::scale_each, (values: &mut [f32], factors: &[f32])),
            scale_blocks: kernel!([$features, $lanes] crate::mx::simd::scale_blocks, (values: &mut [f32], factors: &[f32])),
            chains: Some(Chains {
                fused: Chain {
                    tiling: Tiling { rows: $rows, columns: $vectors * LANES, depth: 1 },
                    multiply: kernel!(
                        [$features, $lanes] crate::matmul::simd::chain::fused::<_, $rows, $vectors>,
                        (block: &Block, left: &[u32], right: &[u32], out: &Accumulators<'_>)
                    ),
                    lists: ListChain {
                        width: FUSED_VECTORS * LANES,
                        multiply: kernel!(
                            [$features, $lanes] crate::matmul_sparse::simd::fused::<_, $lists>,
                            (lists: &TileLists<'_>, panel: &[u32], rows: usize, first: bool, sums: &mut [f32])
                        ),
                    },
                },
                dot: $dot,
                pack_word_rows: kernel!(
                    [$features, $lanes] crate::matmul::simd::pack::pack_rows::<_, false>, (rows: &[&[u8]], width: usize, panel: &mut [u32])
                ),
                pack_pair_rows: kernel!(
                    [$features, $lanes] crate::matmul::simd::pack::pack_rows::<_, true>, (rows: &[&[u8]], width: usize, panel: &mut [u32])
                ),
                pack_pair: kernel!(
                    [$features, $lanes] crate::matmul::simd::pack::pack_pair, (first: &[u16], second: &[u16], words: &mut [u32])
                ),
                min_magnitude: kernel!([$features, $lanes] crate::matmul::simd::pack::min_magnitude, (codes: &[u16]) -> u16),
                widen_rows: kernel!(
                    [$features, $lanes] crate::matmul_sparse::simd::widen_rows, (rows: &[&[u8]; LANES], width: usize, panel: &mut [f32])
                ),
                transpose: kernel!(
                    [$features, $lanes] crate::matmul_sparse::simd::transpose,
                    (size: [usize; 2], from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize, canonical: bool)
                ),
            }),
        };
    };
}

// Register tiles: as many accumulators as there are registers for, less one row of right operands and one left value;
// and so many columns' lists at a time.
// Baseline x86-64 has SSE2; naming it adds nothing elsewhere.
kernel_table!(PORTABLE, "sse2", Portable, rows: 4, vectors: 1, lists: 1, dot: None);
#[cfg(target_arch = "x86_64")]
kernel_table!(
    AVX2,
    "avx2,fma,f16c",
    super::avx2::Avx2::assume_available(),
    rows: 6,
    vectors: 1,
    lists: 1,
    dot: None
);
#[cfg(target_arch = "x86_64")]
kernel_table!(
    AVX512,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
    super::avx512::Avx512::assume_available(),
    rows: 8,
    vectors: 3,
    lists: 2,
    dot: None
);
#[cfg(target_arch = "x86_64")]
kernel_table!(
    AVX512BF16,
    "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c",
    super::avx512::Avx512::assume_available(),
    rows: 8,
    vectors: 3,
    lists: 2,
    dot: Some(Chain {
        tiling: Tiling { rows: 8, columns: 3 * LANES, depth: 2 },
        multiply: kernel!(
            ["avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c", super::avx512::Avx512Bf16::assume_available()]
            crate::matmul::simd::chain::dot::<8, 3>,
            (block: &Block, left: &[u32], right: &[u32], out: &Accumulators<'_>)
        ),
        lists: ListChain {
            width: crate::matmul_sparse::simd::DOT_VECTORS * LANES,
            multiply: kernel!(
                ["avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c", super::avx512::Avx512Bf16::assume_available()]
                crate::matmul_sparse::simd::dot::<2>,
                (lists: &TileLists<'_>, panel: &[u32], rows: usize, first: bool, sums: &mut [f32])
            ),
        },
    })
);

thread_local! {
    static FORCED: Cell<Option<Level>> = const { Cell::new(None) };
}

/// Runs `work` with the operations that this thread starts forced to one level; for comparing levels in one process.
///
/// # Errors
/// [`Error::Value`] when the machine cannot run the level.
pub fn with_level<R>(level: Level, work: impl FnOnce() -> R) -> Result<R> {
    struct Reset(Option<Level>);
    impl Drop for Reset {
        fn drop(&mut self) {
            FORCED.set(self.0);
        }
    }
    if !level.is_available() {
        return Err(unavailable("level", level.name()));
    }
    let _reset = Reset(FORCED.replace(Some(level)));
    Ok(work())
}

fn unavailable(argument: &'static str, name: &str) -> Error {
    Error::value(argument, format!("{name:?}"), format!("this machine can run: {}", Level::available_names()))
}

fn choose() -> Result<Level> {
    match std::env::var("TRN3_SIMD") {
        Ok(name) => Level::ALL
            .into_iter()
            .find(|level| level.name() == name && level.is_available())
            .ok_or_else(|| unavailable("TRN3_SIMD", &name)),
        Err(_) => {
            let best = Level::ALL.into_iter().rev().find(|level| level.is_available() && level.is_worthwhile());
            Ok(best.unwrap_or(Level::Scalar))
        }
    }
}

/// The level operations run at: the fastest the machine has, or the one `TRN3_SIMD` names.
///
/// # Errors
/// [`Error::Value`] when `TRN3_SIMD` names no level or one this machine cannot run.
pub fn simd_level() -> Result<Level> {
    static CHOSEN: OnceLock<Result<Level>> = OnceLock::new();
    match FORCED.get() {
        Some(level) => Ok(level),
        None => CHOSEN.get_or_init(choose).clone(),
    }
}

/// The kernels to use for an operation that starts now on this thread.
pub(crate) fn active() -> Result<&'static Kernels> {
    let level = simd_level()?;
    level.kernels().ok_or_else(|| unavailable("TRN3_SIMD", level.name()))
}
