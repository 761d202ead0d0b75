//! Steps of float32 arithmetic on lines of numbers: what whole-tensor operations are made of, block by block.
//!
//! Loops are plain and one text for all levels: each level's copy is compiled with its own instructions. Every step is
//! rounded once, to float32, so that all give the same bits; NaN results are canonical.

use crate::error::{Error, Result};
use crate::fpenv;
use crate::simd::{Lanes, active_level, dispatch};

/// A step of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PairStep {
    /// x + y.
    Add,
    /// x - y.
    Subtract,
    /// x * y.
    Multiply,
    /// x * (1 / y), the reciprocal rounded.
    Divide,
    /// The larger, x where they are equal; NaN if either is.
    Maximum,
    /// The smaller, x where they are equal; NaN if either is.
    Minimum,
}

impl PairStep {
    /// What a reduction by it starts from; 0 for the steps that reduce nothing.
    pub const fn identity(self) -> f32 {
        match self {
            PairStep::Multiply => 1.0,
            PairStep::Maximum => f32::NEG_INFINITY,
            PairStep::Minimum => f32::INFINITY,
            _ => 0.0,
        }
    }
}

/// One side of a step.
#[derive(Clone, Copy, Debug)]
pub enum StepOperand<'a> {
    /// A number for each result.
    Each(&'a [f32]),
    /// The same for all.
    All(f32),
}

impl StepOperand<'_> {
    fn fits(&self, count: usize) -> bool {
        matches!(self, StepOperand::All(_)) || matches!(self, StepOperand::Each(values) if values.len() == count)
    }
}

dispatch! {
    fn pair_lines(step: PairStep, x: StepOperand<'_>, y: StepOperand<'_>, out: &mut [f32])
        = pair_scalar, pair_lanes;

    fn narrow_line(values: &mut [f32]) = narrow_scalar, narrow_lanes;

    fn widen_line(codes: &[u16], values: &mut [f32]) = widen_scalar, widen_lanes;

    fn halve_line(values: &[f32], codes: &mut [u16]) = halve_scalar, halve_lanes;
}

#[inline(always)]
fn canonical(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}

#[inline(always)]
pub(crate) fn larger(x: f32, y: f32) -> f32 {
    if x.is_nan() || x >= y { x } else { y }
}

#[inline(always)]
pub(crate) fn smaller(x: f32, y: f32) -> f32 {
    if x.is_nan() || x <= y { x } else { y }
}

#[inline(always)]
fn each_pair(x: StepOperand<'_>, y: StepOperand<'_>, out: &mut [f32], step: impl Fn(f32, f32) -> f32) {
    match (x, y) {
        (StepOperand::Each(x), StepOperand::Each(y)) => {
            out.iter_mut().zip(x).zip(y).for_each(|((out, &x), &y)| *out = canonical(step(x, y)));
        }
        (StepOperand::Each(x), StepOperand::All(y)) => {
            out.iter_mut().zip(x).for_each(|(out, &x)| *out = canonical(step(x, y)));
        }
        (StepOperand::All(x), StepOperand::Each(y)) => {
            out.iter_mut().zip(y).for_each(|(out, &y)| *out = canonical(step(x, y)));
        }
        (StepOperand::All(x), StepOperand::All(y)) => out.fill(canonical(step(x, y))),
    }
}

#[inline(always)]
fn pair_scalar(step: PairStep, x: StepOperand<'_>, y: StepOperand<'_>, out: &mut [f32]) {
    match step {
        PairStep::Add => each_pair(x, y, out, |x, y| x + y),
        PairStep::Subtract => each_pair(x, y, out, |x, y| x - y),
        PairStep::Multiply => each_pair(x, y, out, |x, y| x * y),
        PairStep::Divide => each_pair(x, y, out, |x, y| x * (1.0 / y)),
        PairStep::Maximum => each_pair(x, y, out, larger),
        PairStep::Minimum => each_pair(x, y, out, smaller),
    }
}

#[inline(always)]
fn pair_lanes<L: Lanes>(_: L, step: PairStep, x: StepOperand<'_>, y: StepOperand<'_>, out: &mut [f32]) {
    pair_scalar(step, x, y, out);
}

#[inline(always)]
fn narrow_scalar(values: &mut [f32]) {
    for value in values {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000;
        *value = if value.is_nan() { f32::NAN } else { f32::from_bits(rounded) };
    }
}

#[inline(always)]
fn narrow_lanes<L: Lanes>(_: L, values: &mut [f32]) {
    narrow_scalar(values);
}

#[inline(always)]
fn widen_scalar(codes: &[u16], values: &mut [f32]) {
    values.iter_mut().zip(codes).for_each(|(value, &code)| *value = f32::from_bits(u32::from(code) << 16));
}

#[inline(always)]
fn widen_lanes<L: Lanes>(_: L, codes: &[u16], values: &mut [f32]) {
    widen_scalar(codes, values);
}

#[inline(always)]
fn halve_scalar(values: &[f32], codes: &mut [u16]) {
    codes.iter_mut().zip(values).for_each(|(code, value)| *code = (value.to_bits() >> 16) as u16);
}

#[inline(always)]
fn halve_lanes<L: Lanes>(_: L, values: &[f32], codes: &mut [u16]) {
    halve_scalar(values, codes);
}

pub(crate) fn check_length(argument: &'static str, fits: bool, count: usize) -> Result<()> {
    if fits { Ok(()) } else { Err(Error::shape(argument, &[], format!("{count} numbers are needed"))) }
}

/// Writes a step of every pair of numbers, rounded to float32; NaN results are canonical. The calling thread works alone.
///
/// # Errors
/// [`Error::Shape`] where an operand has not one number a result; [`Error::Value`] when `TRN3_SIMD` is wrong.
///
/// ```
/// use trn3_numerics::{PairStep, StepOperand, pair_step};
///
/// let mut out = [0.0; 3];
/// pair_step(PairStep::Divide, StepOperand::Each(&[1.0, 2.0, 3.0]), StepOperand::All(2.0), &mut out)?;
/// assert_eq!(out, [0.5, 1.0, 1.5]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn pair_step(step: PairStep, x: StepOperand<'_>, y: StepOperand<'_>, out: &mut [f32]) -> Result<()> {
    check_length("x", x.fits(out.len()), out.len())?;
    check_length("y", y.fits(out.len()), out.len())?;
    let level = active_level()?;
    fpenv::with_default_environment(|| pair_lines(level, step, x, y, out));
    Ok(())
}

/// Rounds numbers to the nearest of bfloat16, as [`crate::cast()`] does, and keeps them as float32.
///
/// # Errors
/// [`Error::Value`] when `TRN3_SIMD` is wrong.
///
/// ```
/// let mut values = [1.0, 1.005];
/// trn3_numerics::round_to_bf16(&mut values)?;
/// assert_eq!(values, [1.0, 1.0078125]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn round_to_bf16(values: &mut [f32]) -> Result<()> {
    narrow_line(active_level()?, values);
    Ok(())
}

/// The numbers of bfloat16 codes, bit for bit: NaN keeps its payload.
///
/// # Errors
/// [`Error::Shape`] where the lengths differ; [`Error::Value`] when `TRN3_SIMD` is wrong.
///
/// ```
/// let mut values = [0.0; 2];
/// trn3_numerics::bf16_to_f32(&[0x3f80, 0xc000], &mut values)?;
/// assert_eq!(values, [1.0, -2.0]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn bf16_to_f32(codes: &[u16], values: &mut [f32]) -> Result<()> {
    check_length("values", codes.len() == values.len(), codes.len())?;
    widen_line(active_level()?, codes, values);
    Ok(())
}

/// The bfloat16 codes of numbers that are bfloat16's already, bit for bit; of others the upper halves.
///
/// # Errors
/// As [`bf16_to_f32`].
///
/// ```
/// let mut codes = [0; 2];
/// trn3_numerics::f32_to_bf16(&[1.0, -2.0], &mut codes)?;
/// assert_eq!(codes, [0x3f80, 0xc000]);
/// # Ok::<(), trn3_numerics::Error>(())
/// ```
pub fn f32_to_bf16(values: &[f32], codes: &mut [u16]) -> Result<()> {
    check_length("codes", codes.len() == values.len(), values.len())?;
    halve_line(active_level()?, values, codes);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::simd::{SimdLevel, with_level};
    use half::bf16;

    pub(crate) fn numbers(count: usize) -> Vec<f32> {
        let special = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-42, f32::MAX];
        let number = |place: usize| (place as f32 * 0.37 - 50.0) * if place.is_multiple_of(3) { 1e-3 } else { 1.0 };
        (0..count).map(|place| if place % 11 == 7 { special[place / 11 % 8] } else { number(place) }).collect()
    }

    pub(crate) fn levels() -> impl Iterator<Item = SimdLevel> {
        SimdLevel::ALL.into_iter().filter(|level| level.is_available())
    }

    #[test]
    fn test_levels_give_the_same_bits() {
        let (x, y) = (numbers(333), numbers(700)[367..].to_vec());
        use PairStep::*;
        for step in [Add, Subtract, Multiply, Divide, Maximum, Minimum] {
            let run = |level| {
                let mut found = vec![0.0; 4 * 333];
                let sides = [StepOperand::Each(&x), StepOperand::All(-0.3)];
                let others = [StepOperand::Each(&y), StepOperand::All(f32::NAN)];
                let pairs = sides.iter().flat_map(|x| others.iter().map(move |y| (x, y)));
                for ((x, y), out) in pairs.zip(found.chunks_mut(333)) {
                    with_level(level, || pair_step(step, *x, *y, out)).unwrap().unwrap();
                }
                found.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let first = run(SimdLevel::Scalar);
            assert!(levels().all(|level| run(level) == first), "{step:?}");
        }
    }

    #[test]
    fn test_bfloat16_is_that_of_half() {
        let mut values = numbers(1000);
        let expected: Vec<u32> =
            values.iter().map(|&x| if x.is_nan() { f32::NAN } else { bf16::from_f32(x).to_f32() }.to_bits()).collect();
        round_to_bf16(&mut values).unwrap();
        assert_eq!(values.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected);
        let mut codes = vec![0; values.len()];
        f32_to_bf16(&values, &mut codes).unwrap();
        let mut back = vec![0.0; values.len()];
        bf16_to_f32(&codes, &mut back).unwrap();
        assert_eq!(back.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected);
    }
}
