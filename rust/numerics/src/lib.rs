//! The arithmetic of Trainium3, bit for bit.
//!
//! Values only: no time, no memory model, no Python. An operation's folder holds its function, its plain definition
//! (`scalar`) and its faster kernels (`simd`), which give the same bits on every machine, thread count and
//! floating-point environment.
//!
//! | operation | what it is |
//! | --- | --- |
//! | [`cast`] | rounding between formats: nearest, toward zero, stochastic |
//! | [`quantize_mx`], [`dequantize_mx`] | blocks of 32 elements that share a power-of-two scale |
//! | [`pack_x4`], [`to_trn3_layout`] and their inverses | how quantised arrays lie in the memory of the chip |
//! | [`matmul`], [`matmul_mx`] | products as the systolic array computes them |
//! | [`Xorwow`] | the hardware's random number generator, one or four generators a lane |
//! | [`exp`] | e^(x - bias) to the last place, with sums along rows |
//! | [`activation`], [`activate`] | the functions of the scalar engine: gelu, tanh, log and the others |
//! | [`pair_step`], [`join_rows`], [`fold_rows`] | float32 steps on lines of numbers, each rounded |
//! | [`turn_words`] | transposes of words |
//! | [`multiply_add`] | x * scale + addend, rounded once: the arguments of those |
//! | [`compress`], [`prune`], [`SparseView`], [`from_tags`] | structured sparsity: M of N values and their positions |
//! | [`matmul_sparse`] | products that skip what is not stored |
#![deny(unsafe_code)]

mod activation;
mod array;
mod awake;
mod cast;
mod elementwise;
mod error;
mod exp;
mod format;
mod fpenv;
mod lane_rows;
mod lane_steps;
mod matmul;
mod matmul_sparse;
mod mx;
mod pages;
mod par;
mod scratch;
mod simd;
mod sparse;
mod xorwow;

pub use activation::{ActivationFunction, activate, activation, activation_one, multiply_add};
pub use array::{ArrayMut, ArrayView, Element, ElementSource};
pub use cast::{CastOptions, Draws, Overflow, Rounding, cast, cast_one};
pub use error::{Error, NumericsErrorKind, Result};
pub use exp::{Bias, exp, exp_one};
pub use format::{Format, FormatSpec};
pub use fpenv::with_default_environment;
pub use lane_rows::{JOINED_RUN, fold_rows, join_rows, turn_words};
pub use lane_steps::{PairStep, StepOperand, bf16_to_f32, f32_to_bf16, pair_step, round_to_bf16};
pub use matmul::{MX_TILE, TILE, matmul, matmul_chained, matmul_mx, product_shape};
pub use matmul_sparse::matmul_sparse;
pub use mx::{
    BLOCK, HISTOGRAM_BINS, HISTOGRAM_LIMIT, MxErrors, MxOptions, MxView, ScaleRule, X4Word, dequantize_mx,
    from_trn3_layout, pack_x4, quantize_mx, scale_rows, to_trn3_layout, unpack_x4,
};
pub use pages::{Pages, kept_bytes};
pub use par::{
    check_interrupt, for_each, most_threads, num_threads, on_this_thread, set_num_threads, with_interrupt_check,
};
pub use simd::{SimdLevel, simd_level, with_level};
pub use sparse::{SparseView, SparsityPattern, compress, from_tags, prune};
pub use xorwow::Xorwow;

// As 0.1.0 called them; other crates have types of the same names.
#[doc(no_inline)]
pub use crate::{
    ActivationFunction as Activation, ElementSource as Source, NumericsErrorKind as ErrorKind, SimdLevel as Level,
    SparsityPattern as Pattern,
};
