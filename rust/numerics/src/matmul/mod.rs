//! Matrix products as the systolic array computes them.

mod accumulators;
mod blocked;
mod dot_range;
mod kernels;
mod operand;
mod packer;
mod product;
mod psum;
mod scalar;
mod shape;
mod simd;

pub(crate) use accumulators::Accumulators;
pub(crate) use blocked::{Blocked, Factors, Side};
pub(crate) use dot_range::is_dot_exact;
pub(crate) use kernels::Chains;
pub(crate) use operand::Operand;
pub(crate) use packer::Packer;
pub(crate) use psum::{DRAWN, Psum};
pub use shape::product_shape;
pub(crate) use shape::{check_formats, unravel};
pub(crate) use simd::chain::Block;
#[cfg(target_arch = "x86_64")]
pub(crate) use simd::chain::{Tile, join, on_part};

use crate::array::{ArrayMut, ArrayView};
use crate::cast::{Draws, Rounding};
use crate::error::{Error, Result};
use crate::mx::MxView;
use crate::simd::active_level;
use product::{Codes, multiply_all};

/// k of a chain in [`matmul`]: the array's 128 rows.
pub const TILE: usize = 128;
/// k of a chain in [`matmul_mx`]: 128 rows of four elements.
pub const MX_TILE: usize = 512;

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

fn product(
    a: Codes<'_>,
    b: Codes<'_>,
    c: Option<&ArrayView<'_>>,
    out: ArrayMut<'_>,
    rounding: Rounding,
    draws: Draws<'_>,
    tile: usize,
) -> Result<()> {
    let level = active_level()?;
    let shape = product_shape(a.0.shape(), b.0.shape())?;
    out.expect("out", out.format(), &shape)?;
    let k = a.0.shape()[a.0.shape().len() - 1];
    let psum = Psum::new(level, c, &out, rounding, draws, k.div_ceil(tile))?;
    let item = out.format().item_size();
    let out = out.into_bytes();
    multiply_all(level, &psum, a, b, &shape, out, item, tile)?;
    psum.consume()
}
