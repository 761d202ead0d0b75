//! Exponentials against float64's, which are good to one unit in their own last place: 2^29 times finer than float32.

use half::{bf16, f16};
use trn3_numerics::{ArrayMut, ArrayView, Bias, CastOptions, Draws, Element, Format, cast, exp};

/// A float64 exponential is off by less than this part of itself.
const REFERENCE_ERROR: f64 = 2.3e-16;

fn exp_of<X: Element, Y: Element>(x: &[X], bias: Bias<'_>, zero: Y) -> Vec<Y> {
    let mut y = vec![zero; x.len()];
    let shape = [x.len(), 1];
    let source = ArrayView::new(x, &shape).expect("shape fits").into();
    exp(&source, bias, ArrayMut::new(&mut y, &shape).expect("shape fits"), None).expect("valid call");
    y
}

/// The largest error in units in the last place of float32 (of its subnormal grid below the normal numbers).
fn largest_error(inputs: impl Iterator<Item = u32>) -> (f64, f32) {
    let (mut worst, mut at) = (0.0, 0.0);
    let mut inputs = inputs.peekable();
    while inputs.peek().is_some() {
        let x: Vec<f32> = inputs.by_ref().take(1 << 16).map(f32::from_bits).collect();
        for (x, y) in x.iter().zip(exp_of(&x, Bias::Scalar(0.0), 0f32)) {
            let error = error_in_ulp(*x, y);
            if error > worst {
                (worst, at) = (error, *x);
            }
        }
    }
    (worst, at)
}

fn error_in_ulp(x: f32, y: f32) -> f64 {
    if x.is_nan() {
        return if y.to_bits() == 0x7fc0_0000 { 0.0 } else { f64::INFINITY };
    }
    let expected = if x > 100.0 {
        f64::INFINITY
    } else if x < -110.0 {
        0.0
    } else {
        f64::from(x).exp()
    };
    // Halfway between the largest float32 and the next power of two.
    let overflow = 2f64.powi(128) - 2f64.powi(103);
    match (y.is_infinite(), expected >= overflow) {
        (true, true) => 0.0,
        (true, false) | (false, true) => f64::INFINITY,
        (false, false) => {
            let exponent = ((expected.to_bits() >> 52) as i32 - 1023).max(-126);
            let unit = f64::from_bits(((exponent - 23 + 1023) as u64) << 52);
            (f64::from(y) - expected).abs() / unit
        }
    }
}

#[test]
fn test_exp_float32_is_within_one_unit_in_the_last_place() {
    let (worst, at) = largest_error((0..=u32::MAX).step_by(509));
    assert!(worst < 0.9, "{worst} ulp at {at:e}");
}

#[test]
fn test_exp_float32_subnormal_results_are_within_one_unit() {
    // From e^x below the smallest normal number to e^x under half the smallest subnormal.
    let (worst, at) = largest_error((87.3f32.to_bits() | 1 << 31..104.1f32.to_bits() | 1 << 31).step_by(7));
    assert!(worst < 0.9, "{worst} ulp at {at:e}");
}

#[test]
#[ignore = "a minute: all 2^32 float32"]
fn test_exp_float32_is_within_one_unit_in_the_last_place_exhaustive() {
    let (worst, at) = largest_error(0..=u32::MAX);
    assert!(worst < 0.9, "{worst} ulp at {at:e}");
}

#[test]
fn test_exp_of_limits_is_exact() {
    let x = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-45, -f32::NAN];
    let expected = [1.0f32, 1.0, f32::INFINITY, 0.0, f32::INFINITY, 0.0, 1.0].map(f32::to_bits);
    let y = exp_of(&x, Bias::Scalar(0.0), 0f32);
    assert_eq!(y.iter().map(|y| y.to_bits()).collect::<Vec<_>>(), [&expected[..], &[0x7fc0_0000]].concat());
}

#[test]
fn test_exp_float32_to_16_bits_is_the_cast_of_the_float32_result() {
    let x: Vec<f32> = (0..=u32::MAX).step_by(2003).map(f32::from_bits).collect();
    let y = exp_of(&x, Bias::Scalar(0.5), 0f32);
    let (mut brain, mut half) = (vec![bf16::ZERO; y.len()], vec![f16::ZERO; y.len()]);
    let source = ArrayView::new(&y, &[y.len()]).expect("shape fits").into();
    let out = ArrayMut::new(&mut brain, &[y.len()]).expect("shape fits");
    cast(&source, out, CastOptions::default(), Draws::None).expect("valid call");
    let out = ArrayMut::new(&mut half, &[y.len()]).expect("shape fits");
    cast(&source, out, CastOptions::default(), Draws::None).expect("valid call");
    let bits = |values: &[bf16]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(bits(&exp_of(&x, Bias::Scalar(0.5), bf16::ZERO)) == bits(&brain));
    let bits = |values: &[f16]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(bits(&exp_of(&x, Bias::Scalar(0.5), f16::ZERO)) == bits(&half));
}

/// The code that e^x rounds to, and how far e^x is from rounding otherwise, as a part of itself.
fn correctly_rounded(format: Format, x: f32) -> (u32, f64) {
    let spec = format.spec();
    let infinity = spec.infinity.expect("an IEEE format");
    if x.is_nan() {
        return (spec.nan.expect("an IEEE format"), 1.0);
    }
    if x == 0.0 || !(-110.0..=100.0).contains(&x) {
        let one = (spec.bias as u32) << spec.mantissa_bits;
        return (
            if x == 0.0 {
                one
            } else if x < 0.0 {
                0
            } else {
                infinity
            },
            1.0,
        );
    }
    let value = f64::from(x).exp();
    let exponent = ((value.to_bits() >> 52) as i32 - 1023).max(spec.min_exponent());
    // Exact: powers of two.
    let steps = value * f64::from_bits(((1023 + spec.mantissa_bits as i32 - exponent) as u64) << 52);
    let below = steps.floor();
    let code = below as u32
        + u32::from(steps - below > 0.5)
        + (((exponent - spec.min_exponent()) as u32) << spec.mantissa_bits);
    (code.min(infinity), (steps - below - 0.5).abs() / steps)
}

/// Checks e^x for the float32 differences x in both 16-bit formats; returns the smallest distance from a tie.
fn check_16_bit_results<X: Element>(x: &[X], biases: Bias<'_>, differences: impl Iterator<Item = f32>) -> f64 {
    let brain = exp_of(x, biases, bf16::ZERO);
    let half = exp_of(x, biases, f16::ZERO);
    let mut nearest_tie = f64::INFINITY;
    for ((difference, brain), half) in differences.zip(brain).zip(half) {
        for (format, got) in [(Format::Bf16, brain.to_bits()), (Format::F16, half.to_bits())] {
            let (expected, from_tie) = correctly_rounded(format, difference);
            assert_eq!(u32::from(got), expected, "{format} e^{difference:e}");
            nearest_tie = nearest_tie.min(from_tie);
        }
    }
    nearest_tie
}

#[test]
fn test_exp_between_16_bit_formats_is_correctly_rounded() {
    let brain: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    let nearest_tie = check_16_bit_results(&brain, Bias::Scalar(0.0), brain.iter().map(|x| x.to_f32()));
    assert!(nearest_tie > 2.0 * REFERENCE_ERROR, "the reference cannot decide: {nearest_tie:e}");
    let half: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let nearest_tie = check_16_bit_results(&half, Bias::Scalar(0.0), half.iter().map(|x| x.to_f32()));
    assert!(nearest_tie > 2.0 * REFERENCE_ERROR, "the reference cannot decide: {nearest_tie:e}");
}

/// Any float32 is a difference of a 16-bit zero and a bias.
fn check_differences(differences: impl Iterator<Item = u32>) -> f64 {
    let mut differences = differences.peekable();
    let zeros = vec![bf16::ZERO; 1 << 16];
    let mut nearest_tie = f64::INFINITY;
    while differences.peek().is_some() {
        let biases: Vec<f32> = differences.by_ref().take(1 << 16).map(|bits| -f32::from_bits(bits)).collect();
        let x = &zeros[..biases.len()];
        let tie = check_16_bit_results(x, Bias::PerRow(&biases), biases.iter().map(|bias| 0.0 - bias));
        nearest_tie = nearest_tie.min(tie);
    }
    nearest_tie
}

#[test]
fn test_exp_between_16_bit_formats_is_correctly_rounded_for_any_bias() {
    let nearest_tie = check_differences((0..=u32::MAX).step_by(1013));
    assert!(nearest_tie > 2.0 * REFERENCE_ERROR, "the reference cannot decide: {nearest_tie:e}");
}

#[test]
#[ignore = "a minute: all 2^32 float32 differences, in two formats"]
fn test_exp_between_16_bit_formats_is_correctly_rounded_for_any_bias_exhaustive() {
    let nearest_tie = check_differences(0..=u32::MAX);
    assert!(nearest_tie > 2.0 * REFERENCE_ERROR, "the reference cannot decide: {nearest_tie:e}");
}
