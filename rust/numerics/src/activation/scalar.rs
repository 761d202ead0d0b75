//! The activation functions of one float32, by the definition: in float64, rounded once.
//!
//! Arguments are first brought into the range in which results differ from their limits, so that no step overflows.
//! What is small is always computed as such, never as a difference of what is large: tails from e^-|x|, so that they
//! keep their relative accuracy down to the smallest subnormal.

use super::ActivationFunction;
use super::constants::*;
use crate::exp::scalar::exp_f32;
use crate::simd::Traffic;

const NAN: f32 = f32::from_bits(0x7fc0_0000);

/// See [`super::activate_exactly`].
pub(super) fn activate(
    function: ActivationFunction,
    parameter: f32,
    source: Option<&[f32]>,
    values: &mut [f32],
    _: Traffic,
) {
    if let Some(source) = source {
        values.copy_from_slice(source);
    }
    for value in values {
        *value = activation(function, parameter, *value);
    }
}

/// See [`super::multiply_add_rows`].
pub(super) fn multiply_add(columns: usize, scales: &[f32], addends: &[f32], values: &mut [f32]) {
    for ((row, scale), addend) in values.chunks_exact_mut(columns).zip(scales).zip(addends) {
        for value in row {
            let result = value.mul_add(*scale, *addend);
            *value = if result.is_nan() { NAN } else { result };
        }
    }
}

fn activation(function: ActivationFunction, parameter: f32, x: f32) -> f32 {
    if x.is_nan() {
        return NAN;
    }
    let value = match function {
        ActivationFunction::Copy => x,
        ActivationFunction::Square => x * x,
        ActivationFunction::Sigmoid => (1.0 / (1.0 + exp(-f64::from(x.clamp(-EXP_LIMIT, EXP_LIMIT))))) as f32,
        ActivationFunction::Relu => {
            if x > 0.0 {
                x
            } else {
                0.0
            }
        }
        ActivationFunction::Prelu => {
            if x >= 0.0 {
                x
            } else {
                parameter * x
            }
        }
        ActivationFunction::Gelu => gelu(x),
        ActivationFunction::GeluDx => gelu_dx(x),
        ActivationFunction::GeluApprxTanh => gelu_apprx_tanh(x),
        ActivationFunction::GeluApprxSigmoid => {
            let near = f64::from(x.clamp(-GELU_SIGMOID_LIMIT, GELU_SIGMOID_LIMIT));
            (f64::from(x.max(-GELU_SIGMOID_LIMIT)) / (1.0 + exp(near * -GELU_SIGMOID))) as f32
        }
        ActivationFunction::GeluApprxSigmoidDx => {
            silu_dx(f64::from(x.clamp(-GELU_SIGMOID_LIMIT, GELU_SIGMOID_LIMIT)) * GELU_SIGMOID)
        }
        ActivationFunction::Silu => {
            let near = f64::from(x.clamp(-EXP_LIMIT, EXP_LIMIT));
            (f64::from(x.max(-EXP_LIMIT)) / (1.0 + exp(-near))) as f32
        }
        ActivationFunction::SiluDx => silu_dx(f64::from(x.clamp(-EXP_LIMIT, EXP_LIMIT))),
        ActivationFunction::Tanh => tanh(x),
        ActivationFunction::Softplus => softplus(x),
        ActivationFunction::Mish => mish(x),
        ActivationFunction::Erf => erf(x),
        ActivationFunction::ErfDx => {
            let a = f64::from(x.abs().min(TAIL_LIMIT));
            (exp(-(a * a)) * FRAC_2_SQRT_PI) as f32
        }
        ActivationFunction::Exp => exp_f32(x),
        ActivationFunction::Log => log(x),
        ActivationFunction::Sin => sin(x),
        ActivationFunction::Arctan => arctan(x),
        ActivationFunction::Sqrt => x.sqrt(),
        ActivationFunction::Rsqrt => (1.0 / f64::from(x).sqrt()) as f32,
        ActivationFunction::Reciprocal => 1.0 / x,
        ActivationFunction::Sign => {
            if x == 0.0 {
                0.0
            } else {
                1f32.copysign(x)
            }
        }
        ActivationFunction::Abs => x.abs(),
    };
    if value.is_nan() { NAN } else { value }
}

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    let mut p = coefficients[0];
    for coefficient in &coefficients[1..] {
        p = p.mul_add(x, *coefficient);
    }
    p
}

/// x + x^3 * p(x^2).
fn odd_polynomial(coefficients: &[f64], x: f64) -> f64 {
    let square = x * x;
    (x * square).mul_add(polynomial(coefficients, square), x)
}

/// q and n with e^y = 2^n * (1 + q), |y| <= 700; n in the low bits of a float64.
fn split(y: f64) -> (f64, f64) {
    let shifted = y.mul_add(LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2, y));
    ((r * r).mul_add(polynomial(&EXP, r), r), shifted)
}

/// value * 2^n for a normal result, n as [`split`] gives it.
fn scale(value: f64, n: f64) -> f64 {
    f64::from_bits(value.to_bits().wrapping_add(n.to_bits() << 52))
}

fn exp(y: f64) -> f64 {
    let (q, n) = split(y);
    scale(1.0 + q, n)
}

fn tanh(x: f32) -> f32 {
    let (q, n) = split(f64::from(x.abs().min(TANH_LIMIT)) * -2.0);
    let power = scale(1.0, n);
    let expm1 = power.mul_add(q, power - 1.0);
    ((expm1 / (-2.0 - expm1)) as f32).copysign(x)
}

/// s * (1 + x * (1 - s)) with s = sigmoid(x).
fn silu_dx(x: f64) -> f32 {
    let t = exp(-x);
    let denominator = 1.0 + t;
    (t.mul_add(1.0 + x, 1.0) / (denominator * denominator)) as f32
}

fn gelu_apprx_tanh(x: f32) -> f32 {
    let near = f64::from(x.clamp(-GELU_TANH_LIMIT, GELU_TANH_LIMIT));
    let y = near * (near * near).mul_add(GELU_TANH_CUBIC, GELU_TANH);
    (f64::from(x.max(-GELU_TANH_LIMIT)) / (1.0 + exp(y))) as f32
}

/// tanh(ln(1 + t)) = t (t + 2) / (t (t + 2) + 2).
fn mish(x: f32) -> f32 {
    let t = exp(f64::from(x.clamp(-EXP_LIMIT, MISH_LIMIT)));
    let w = t * (t + 2.0);
    (f64::from(x.max(-EXP_LIMIT)) * w / (w + 2.0)) as f32
}

/// Phi(-a) * e^(a^2 / 2).
fn tail_ratio(a: f64) -> f64 {
    let u = 1.0 / (a + TAIL_CENTRE);
    polynomial(&TAIL, u.mul_add(-2.0 * TAIL_CENTRE, 1.0)) * u
}

/// `tail` for negative x, else 1 - `tail`.
fn from_tail(x: f32, tail: f64) -> f64 {
    if x.is_sign_negative() { tail } else { 1.0 - tail }
}

fn gelu(x: f32) -> f32 {
    let a = f64::from(x.abs().min(TAIL_LIMIT));
    let tail = exp(a * a * -0.5) * tail_ratio(a);
    (f64::from(x.max(-TAIL_LIMIT)) * from_tail(x, tail)) as f32
}

fn gelu_dx(x: f32) -> f32 {
    let a = f64::from(x.abs().min(TAIL_LIMIT));
    let tail = exp(a * a * -0.5) * a.mul_add(-FRAC_1_SQRT_2PI, tail_ratio(a));
    from_tail(x, tail) as f32
}

fn erf(x: f32) -> f32 {
    let z = f64::from(x.abs().min(ERF_LIMIT));
    let square = z * z;
    let small = z * square.mul_add(FRAC_2_SQRT_PI / -3.0, FRAC_2_SQRT_PI);
    let complement = exp(-square) * tail_ratio(z * SQRT_2);
    let value = if x.abs() < ERF_SMALL { small } else { complement.mul_add(-2.0, 1.0) };
    (value as f32).copysign(x)
}

fn softplus(x: f32) -> f32 {
    let t = exp(-f64::from(x.abs().min(EXP_LIMIT)));
    let log1p = odd_polynomial(&ATANH_FAR, t / (t + 2.0));
    log1p.mul_add(2.0, f64::from(if x > 0.0 { x } else { 0.0 })) as f32
}

fn log(x: f32) -> f32 {
    if x == 0.0 {
        return f32::NEG_INFINITY;
    } else if x < 0.0 {
        return NAN;
    } else if x == f32::INFINITY {
        return x;
    }
    // A subnormal number's bits are its multiple of 2^-149.
    let is_subnormal = x < f32::MIN_POSITIVE;
    let bits = if is_subnormal { (x.to_bits() as f32).to_bits() } else { x.to_bits() };
    let rebased = bits + (0x3f80_0000 - SQRT_HALF);
    let k = (rebased >> 23) as i32 - if is_subnormal { 127 + 149 } else { 127 };
    let m = f64::from(f32::from_bits((rebased & 0x7f_ffff) + SQRT_HALF));
    let log_m = 2.0 * odd_polynomial(&ATANH_NEAR, (m - 1.0) / (m + 1.0));
    f64::from(k as f32).mul_add(LN2, log_m) as f32
}

fn sin(x: f32) -> f32 {
    const HALF_PI: f32 = std::f32::consts::FRAC_PI_2;
    let a = x.abs();
    // As a float32, pi is above pi.
    if a >= std::f32::consts::PI {
        let d = f64::from(a) - PI - PI_LOW;
        let beyond = (d * (d * d).mul_add(1.0 / 6.0, -1.0)) as f32;
        return if x.is_sign_negative() { -beyond } else { beyond };
    }
    let is_past_peak = a > HALF_PI;
    let n = if is_past_peak { 1.0 } else { 0.0 };
    let r = f64::mul_add(n, -PI_LOW, f64::mul_add(n, -PI, f64::from(a)));
    let value = odd_polynomial(&SIN, r) as f32;
    if is_past_peak != x.is_sign_negative() { -value } else { value }
}

fn arctan(x: f32) -> f32 {
    let a = x.abs();
    let (numerator, denominator, quarter) = if a > 1.0 { (-1.0, a, 1.0) } else { (a, 1.0, 0.0) };
    let part = odd_polynomial(&ATAN, f64::from(numerator) / f64::from(denominator));
    (f64::mul_add(quarter, std::f64::consts::FRAC_PI_2, part) as f32).copysign(x)
}
