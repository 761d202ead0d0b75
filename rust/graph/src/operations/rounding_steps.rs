//! Functions that no engine has in one instruction: float32 steps, each rounded, as their templates issue them.

use trn3_machine::isa::alu::AluOp;
use trn3_numerics::{ActivationFunction, activate};

use crate::error::Result;

/// One activation function of every value.
pub(super) fn activated(mut values: Vec<f32>, function: ActivationFunction) -> Result<Vec<f32>> {
    activate(&mut values, function, 0.0)?;
    Ok(values)
}

/// x / y as engines have it: x times the rounded reciprocal of y **(choice)**.
#[inline(always)]
pub(super) fn divided(x: f32, y: f32) -> f32 {
    x * AluOp::Reciprocal.apply(y, 0.0)
}

/// 2 pi in three parts, of which the products with whole numbers below 2^11 are exact but for the last.
pub(super) const TURN: [f32; 3] = [6.28125, 1.934_051_5e-3, 1.215_427e-6];
/// Turns of a radian.
pub(super) const PER_TURN: f32 = std::f32::consts::FRAC_1_PI / 2.0;

/// The angle brought into [-pi, pi], `quarters` quarter turns on.
fn reduced(x: f32, quarters: f32) -> f32 {
    let turns = (x * PER_TURN + quarters * 0.25).round_ties_even();
    let mut rest = x;
    for part in TURN {
        rest -= turns * part;
    }
    (rest + quarters * std::f32::consts::FRAC_PI_2).clamp(-std::f32::consts::PI, std::f32::consts::PI)
}

/// sin x after a reduction of its range, which ScalarE's function does not do.
pub(super) fn sine(values: &[f32]) -> Result<Vec<f32>> {
    activated(values.iter().map(|&x| reduced(x, 0.0)).collect(), ActivationFunction::Sin)
}

/// cos x: the sine a quarter turn on.
pub(super) fn cosine(values: &[f32]) -> Result<Vec<f32>> {
    activated(values.iter().map(|&x| reduced(x, 1.0)).collect(), ActivationFunction::Sin)
}

/// e^x - 1 as tanh(x / 2) (e^x + 1), which loses nothing about 0.
pub(super) fn exponential_minus_one(values: &[f32]) -> Result<Vec<f32>> {
    let halves = activated(values.iter().map(|x| x * 0.5).collect(), ActivationFunction::Tanh)?;
    let powers = activated(values.to_vec(), ActivationFunction::Exp)?;
    Ok(halves.iter().zip(powers).map(|(half, power)| half * (power + 1.0)).collect())
}

/// ln(1 + x) as ln(u) x / (u - 1) with the rounded u = 1 + x, which loses nothing about 0.
pub(super) fn log_plus_one(values: &[f32]) -> Result<Vec<f32>> {
    let sums: Vec<f32> = values.iter().map(|x| 1.0 + x).collect();
    let logs = activated(sums.clone(), ActivationFunction::Log)?;
    let steps = values.iter().zip(sums).zip(logs);
    Ok(steps
        .map(|((&x, u), log)| {
            if u == 1.0 {
                x
            } else if u == f32::INFINITY {
                u
            } else {
                divided(log * x, u - 1.0)
            }
        })
        .collect())
}

/// The cube root, as the sign times e^(ln|x| / 3).
pub(super) fn cube_root(values: &[f32]) -> Result<Vec<f32>> {
    let logs = activated(values.iter().map(|x| x.abs()).collect(), ActivationFunction::Log)?;
    let roots = activated(logs.into_iter().map(|log| log * (1.0 / 3.0)).collect(), ActivationFunction::Exp)?;
    Ok(values.iter().zip(roots).map(|(x, root)| root.copysign(*x)).collect())
}

/// The inverse of erf: a polynomial in w = -ln((1 - x)(1 + x)) on either side of 5 (M. Giles, "Approximating the
/// erfinv function", 2010), each step a product and a sum.
pub(super) fn inverse_erf(values: &[f32]) -> Result<Vec<f32>> {
    const CENTRE: [f32; 9] = [
        2.810_226_4e-8,
        3.432_739_4e-7,
        -3.523_387_7e-6,
        -4.391_506_5e-6,
        2.185_808_7e-4,
        -1.253_725_e-3,
        -4.177_681_6e-3,
        2.466_407_3e-1,
        1.501_409_4,
    ];
    const TAIL: [f32; 9] = [
        -2.002_142_6e-4,
        1.009_505_6e-4,
        1.349_343_2e-3,
        -3.673_428_4e-3,
        5.739_507_7e-3,
        -7.622_461_3e-3,
        9.438_87e-3,
        1.001_674,
        2.832_976_8,
    ];
    let polynomial = |coefficients: &[f32], at: f32| coefficients.iter().fold(0.0, |sum, part| sum * at + part);
    let logs = activated(values.iter().map(|x| (1.0 - x) * (1.0 + x)).collect(), ActivationFunction::Log)?;
    let roots = activated(logs.iter().map(|log| -log).collect(), ActivationFunction::Sqrt)?;
    let steps = values.iter().zip(logs).zip(roots);
    Ok(steps
        .map(|((&x, log), root)| match x.abs() {
            1.0 => x * f32::INFINITY,
            _ if -log < 5.0 => polynomial(&CENTRE, -log - 2.5) * x,
            _ => polynomial(&TAIL, root - 3.0) * x,
        })
        .collect())
}

/// The angle of the point (x, y), in (-pi, pi].
pub(super) fn angle(y: &[f32], x: &[f32]) -> Result<Vec<f32>> {
    use std::f32::consts::{FRAC_PI_2, PI};
    // The smaller magnitude over the larger one: a quotient of at most 1.
    let quotients = y.iter().zip(x).map(|(&y, &x)| {
        let (small, large) = if y.abs() <= x.abs() { (y.abs(), x.abs()) } else { (x.abs(), y.abs()) };
        if small == large && small.is_infinite() {
            1.0
        } else if large == 0.0 {
            0.0
        } else {
            divided(small, large)
        }
    });
    let angles = activated(quotients.collect(), ActivationFunction::Arctan)?;
    let steps = y.iter().zip(x).zip(angles);
    Ok(steps
        .map(|((&y, &x), angle)| {
            if x.is_nan() || y.is_nan() {
                return f32::NAN;
            }
            let acute = if y.abs() <= x.abs() { angle } else { FRAC_PI_2 - angle };
            (if x.is_sign_negative() { PI - acute } else { acute }).copysign(y)
        })
        .collect())
}
