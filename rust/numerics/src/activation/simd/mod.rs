//! The activation functions, sixteen at a time.

mod circular;
mod exponential;
mod logarithm;
mod normal;
#[cfg(target_arch = "x86_64")]
mod pieces;
mod plain;
#[cfg(target_arch = "x86_64")]
pub(super) mod quick;
#[cfg(target_arch = "x86_64")]
mod quick_function;
mod short;
#[cfg(target_arch = "x86_64")]
mod tail;

use crate::activation::ActivationFunction;
use crate::activation::constants::{EXP, LN2, LN2_LOW, LOG2_E, SHIFT};
use crate::exp::simd::{exp_f32, or_nan};
use crate::simd::{Doubles, LANES, Lanes, READ_AHEAD, Traffic, WRITE_AHEAD, before_line, prefetch};

const NAN: u32 = 0x7fc0_0000;
const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7f80_0000;

/// From how many values on whole cache lines are written, for which some are computed in vectors of their own.
pub(super) const ALIGNED: usize = 1 << 14;

/// Replaces every value by an expression of it, or of what stands in its place in the source, `x`. A closure would not
/// do: compilers do not inline the call of one, and intrinsics are fast only inside the outermost kernel.
macro_rules! each {
    ($l:ident, $traffic:expr, $source:expr, $values:ident, |$x:ident| $value:expr) => {{
        let (source, traffic): (Option<&[f32]>, Traffic) = ($source, $traffic);
        let head = if $values.len() < ALIGNED { 0 } else { before_line($values) };
        let (vectors, tail) = $values[head..].as_chunks_mut::<LANES>();
        let tail = head + vectors.len() * LANES..head + vectors.len() * LANES + tail.len();
        let sources = source.map(|source| source[head..].as_chunks::<LANES>().0);
        for (place, vector) in vectors.iter_mut().enumerate() {
            let from = sources.map_or(&*vector, |sources| &sources[place]);
            if traffic != Traffic::Near {
                prefetch(from, READ_AHEAD);
            }
            let $x = $l.load_f(from);
            if traffic == Traffic::Asked {
                prefetch(vector, WRITE_AHEAD);
            }
            let value = $value;
            if traffic == Traffic::Streamed {
                $l.stream_words($l.bits(value), bytemuck::cast_mut(vector));
            } else {
                $l.store_f(value, vector);
            }
        }
        for part in [0..head, tail] {
            if !part.is_empty() {
                let mut vector = [0.0; LANES];
                vector[..part.len()].copy_from_slice(&source.unwrap_or($values)[part.clone()]);
                let $x = $l.load_f(&vector);
                $l.store_f($value, &mut vector);
                $values[part.clone()].copy_from_slice(&vector[..part.len()]);
            }
        }
    }};
}

/// See [`crate::multiply_add`].
#[inline(always)]
pub(crate) fn multiply_add<L: Lanes>(l: L, columns: usize, scales: &[f32], addends: &[f32], values: &mut [f32]) {
    for ((row, scale), addend) in values.chunks_exact_mut(columns).zip(scales).zip(addends) {
        let (scale, addend) = (l.splat_f(*scale), l.splat_f(*addend));
        each!(l, Traffic::kept(), None, row, |x| {
            let bits = l.bits(l.fma(x, scale, addend));
            or_nan(l, bits, bits)
        });
    }
}

/// See [`super::moving`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn activate_moving<L: Lanes>(
    l: L,
    function: ActivationFunction,
    parameter: f32,
    source: Option<&[f32]>,
    values: &mut [f32],
) {
    let traffic = Traffic::Near;
    match function {
        ActivationFunction::Copy => each!(l, traffic, source, values, |x| plain::copy(l, x)),
        ActivationFunction::Square => each!(l, traffic, source, values, |x| plain::square(l, x)),
        ActivationFunction::Relu => each!(l, traffic, source, values, |x| plain::relu(l, x)),
        ActivationFunction::Prelu => each!(l, traffic, source, values, |x| plain::prelu(l, x, parameter)),
        ActivationFunction::Reciprocal => each!(l, traffic, source, values, |x| plain::reciprocal(l, x)),
        ActivationFunction::Sign => each!(l, traffic, source, values, |x| plain::sign(l, x)),
        _ => each!(l, traffic, source, values, |x| plain::abs(l, x)),
    }
}

/// See [`super::activate_exactly`].
#[inline(always)]
pub(crate) fn activate<L: Doubles>(
    l: L,
    function: ActivationFunction,
    parameter: f32,
    source: Option<&[f32]>,
    values: &mut [f32],
    traffic: Traffic,
) {
    match function {
        ActivationFunction::Copy => each!(l, traffic, source, values, |x| plain::copy(l, x)),
        ActivationFunction::Square => each!(l, traffic, source, values, |x| plain::square(l, x)),
        ActivationFunction::Sigmoid => each!(l, traffic, source, values, |x| exponential::sigmoid(l, x)),
        ActivationFunction::Relu => each!(l, traffic, source, values, |x| plain::relu(l, x)),
        ActivationFunction::Prelu => each!(l, traffic, source, values, |x| plain::prelu(l, x, parameter)),
        ActivationFunction::Gelu => each!(l, traffic, source, values, |x| normal::gelu(l, x)),
        ActivationFunction::GeluDx => each!(l, traffic, source, values, |x| normal::gelu_dx(l, x)),
        ActivationFunction::GeluApprxTanh => each!(l, traffic, source, values, |x| exponential::gelu_apprx_tanh(l, x)),
        ActivationFunction::GeluApprxSigmoid => {
            each!(l, traffic, source, values, |x| exponential::gelu_apprx_sigmoid(l, x))
        }
        ActivationFunction::GeluApprxSigmoidDx => {
            each!(l, traffic, source, values, |x| exponential::gelu_apprx_sigmoid_dx(l, x))
        }
        ActivationFunction::Silu => each!(l, traffic, source, values, |x| exponential::silu(l, x)),
        ActivationFunction::SiluDx => each!(l, traffic, source, values, |x| exponential::silu_dx(l, x)),
        ActivationFunction::Tanh => each!(l, traffic, source, values, |x| exponential::tanh(l, x)),
        ActivationFunction::Softplus => each!(l, traffic, source, values, |x| logarithm::softplus(l, x)),
        ActivationFunction::Mish => each!(l, traffic, source, values, |x| exponential::mish(l, x)),
        ActivationFunction::Erf => each!(l, traffic, source, values, |x| normal::erf(l, x)),
        ActivationFunction::ErfDx => each!(l, traffic, source, values, |x| normal::erf_dx(l, x)),
        ActivationFunction::Exp => each!(l, traffic, source, values, |x| exp_f32(l, x)),
        ActivationFunction::Log => each!(l, traffic, source, values, |x| logarithm::log(l, x)),
        ActivationFunction::Sin => each!(l, traffic, source, values, |x| circular::sin(l, x)),
        ActivationFunction::Arctan => each!(l, traffic, source, values, |x| circular::arctan(l, x)),
        ActivationFunction::Sqrt => each!(l, traffic, source, values, |x| plain::sqrt(l, x)),
        ActivationFunction::Rsqrt => each!(l, traffic, source, values, |x| plain::rsqrt(l, x)),
        ActivationFunction::Reciprocal => each!(l, traffic, source, values, |x| plain::reciprocal(l, x)),
        ActivationFunction::Sign => each!(l, traffic, source, values, |x| plain::sign(l, x)),
        ActivationFunction::Abs => each!(l, traffic, source, values, |x| plain::abs(l, x)),
    }
}

/// `value`, or the canonical NaN where `x` is NaN.
#[inline(always)]
fn unless_nan<L: Lanes>(l: L, x: L::F, value: L::F) -> L::F {
    or_nan(l, l.bits(x), l.bits(value))
}

#[inline(always)]
fn magnitude<L: Lanes>(l: L, x: L::F) -> L::I {
    l.and(l.bits(x), l.splat_i(SIGN - 1))
}

/// The magnitude as float64, at most `limit`, which NaN gives too.
#[inline(always)]
fn magnitude_up_to<L: Lanes>(l: L, x: L::F, limit: f32) -> L::D {
    l.widen(l.float(l.min_u(magnitude(l, x), l.splat_i(limit.to_bits()))))
}

/// x brought between two limits around 0; NaN gives the one of its sign.
#[inline(always)]
fn clamped<L: Lanes>(l: L, x: L::F, low: f32, high: f32) -> L::D {
    let bits = l.bits(x);
    let is_positive = l.lt_u(bits, l.splat_i(SIGN));
    let limit = l.select(is_positive, l.splat_i(high.to_bits()), l.splat_i(low.to_bits()));
    l.widen(l.float(l.min_u(bits, limit)))
}

/// `value`, not negative, with the sign of `x`.
#[inline(always)]
fn with_sign_of<L: Lanes>(l: L, x: L::F, value: L::F) -> L::F {
    l.float(l.or(magnitude(l, value), l.and(l.bits(x), l.splat_i(SIGN))))
}

#[inline(always)]
fn polynomial<L: Lanes>(l: L, coefficients: &[f64], x: L::D) -> L::D {
    let mut p = l.splat_d(coefficients[0]);
    for coefficient in &coefficients[1..] {
        p = l.fma_d(p, x, l.splat_d(*coefficient));
    }
    p
}

/// x + x^3 * p(x^2).
#[inline(always)]
fn odd_polynomial<L: Lanes>(l: L, coefficients: &[f64], x: L::D) -> L::D {
    let square = l.mul_d(x, x);
    l.fma_d(l.mul_d(x, square), polynomial(l, coefficients, square), x)
}

/// q and n with e^y = 2^n * (1 + q), |y| <= 700; n in the low bits of a float64.
#[inline(always)]
fn split<L: Lanes>(l: L, y: L::D) -> (L::D, L::D) {
    let shifted = l.fma_d(y, l.splat_d(LOG2_E), l.splat_d(SHIFT));
    let n = l.sub_d(shifted, l.splat_d(SHIFT));
    let r = l.fma_d(n, l.splat_d(-LN2_LOW), l.fma_d(n, l.splat_d(-LN2), y));
    let p = polynomial(l, &EXP, r);
    (l.fma_d(l.mul_d(r, r), p, r), shifted)
}

#[inline(always)]
fn exp<L: Lanes>(l: L, y: L::D) -> L::D {
    let (q, n) = split(l, y);
    l.scale_d(l.add_d(l.splat_d(1.0), q), n)
}
