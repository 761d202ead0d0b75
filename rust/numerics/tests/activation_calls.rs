//! Activation functions: special values, names, ranges, formats and what is refused.

use half::bf16;
use trn3_numerics::{
    ActivationFunction, ArrayMut, ArrayView, ElementSource, Format, NumericsErrorKind, activate, activation,
};

const NAN: f32 = f32::from_bits(0x7fc0_0000);
const INF: f32 = f32::INFINITY;

/// Results for +inf, -inf, +0 and -0.
fn limits(function: ActivationFunction) -> [f32; 4] {
    let ln_2 = std::f32::consts::LN_2;
    let quarter = std::f32::consts::FRAC_PI_2;
    match function {
        ActivationFunction::Copy => [INF, -INF, 0.0, -0.0],
        ActivationFunction::Square | ActivationFunction::Abs => [INF, INF, 0.0, 0.0],
        ActivationFunction::Sigmoid => [1.0, 0.0, 0.5, 0.5],
        ActivationFunction::Relu => [INF, 0.0, 0.0, 0.0],
        ActivationFunction::Prelu => [INF, -INF, 0.0, -0.0],
        ActivationFunction::Gelu
        | ActivationFunction::GeluApprxTanh
        | ActivationFunction::GeluApprxSigmoid
        | ActivationFunction::Silu
        | ActivationFunction::Mish => [INF, -0.0, 0.0, -0.0],
        ActivationFunction::GeluDx | ActivationFunction::GeluApprxSigmoidDx | ActivationFunction::SiluDx => {
            [1.0, -0.0, 0.5, 0.5]
        }
        ActivationFunction::Tanh | ActivationFunction::Erf => [1.0, -1.0, 0.0, -0.0],
        ActivationFunction::Softplus => [INF, 0.0, ln_2, ln_2],
        ActivationFunction::ErfDx => [0.0, 0.0, std::f32::consts::FRAC_2_SQRT_PI, std::f32::consts::FRAC_2_SQRT_PI],
        ActivationFunction::Exp => [INF, 0.0, 1.0, 1.0],
        ActivationFunction::Log => [INF, NAN, -INF, -INF],
        ActivationFunction::Sin => [INF, -INF, 0.0, -0.0],
        ActivationFunction::Arctan => [quarter, -quarter, 0.0, -0.0],
        ActivationFunction::Sqrt => [INF, NAN, 0.0, -0.0],
        ActivationFunction::Rsqrt => [0.0, NAN, INF, -INF],
        ActivationFunction::Reciprocal => [0.0, -0.0, INF, -INF],
        ActivationFunction::Sign => [1.0, -1.0, 0.0, 0.0],
        other => panic!("{other} has no row"),
    }
}

#[test]
fn test_activate_special_values() {
    for function in ActivationFunction::ALL {
        let mut values = [INF, -INF, 0.0, -0.0, f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)];
        activate(&mut values, function, 0.5).expect("valid call");
        let expected = [&limits(function)[..], &[NAN; 3]].concat();
        assert_eq!(
            values.map(f32::to_bits).to_vec(),
            expected.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            "{function}"
        );
    }
}

#[test]
fn test_activate_smallest_numbers() {
    let smallest = f32::from_bits(1);
    for (function, expected) in [
        (ActivationFunction::Tanh, smallest),
        (ActivationFunction::Sin, smallest),
        (ActivationFunction::Arctan, smallest),
        (ActivationFunction::Erf, smallest),
        (ActivationFunction::Sign, 1.0),
        (ActivationFunction::Reciprocal, INF),
        (ActivationFunction::Square, 0.0),
        // -149 ln 2.
        (ActivationFunction::Log, -103.278_93),
        // 2^74.5.
        (ActivationFunction::Rsqrt, 2.671_373_8e22),
    ] {
        let mut values = [smallest];
        activate(&mut values, function, 0.0).expect("valid call");
        assert_eq!(values, [expected], "{function}");
    }
}

#[test]
fn test_activate_sin_of_9_is_the_documented_value() {
    let mut values = [9.0, -9.0];
    activate(&mut values, ActivationFunction::Sin, 0.0).expect("valid call");
    assert!((values[0] - 27.65).abs() < 0.005 && values[1] == -values[0], "{values:?}");
}

#[test]
fn test_activate_of_nothing() {
    activate(&mut [], ActivationFunction::Gelu, 0.0).expect("valid call");
}

#[test]
fn test_activation_names_round_trip() {
    for function in ActivationFunction::ALL {
        assert_eq!(function.to_string().parse::<ActivationFunction>(), Ok(function));
    }
    let error = "Gelu".parse::<ActivationFunction>().expect_err("names are lower case").to_string();
    assert!(error.contains("\"Gelu\"") && error.contains("gelu_apprx_sigmoid_dx"), "{error}");
}

#[test]
fn test_activation_valid_ranges_are_the_documented_ones() {
    let power = |exponent: i32| 2f32.powi(exponent);
    let ranges: Vec<_> = ActivationFunction::ALL.into_iter().filter_map(|f| Some((f, f.valid_range()?))).collect();
    assert_eq!(
        ranges,
        [
            (ActivationFunction::Log, (power(-64), power(64))),
            (ActivationFunction::Sin, (0.0, std::f32::consts::PI)),
            (ActivationFunction::Arctan, (0.0, std::f32::consts::FRAC_PI_2)),
            (ActivationFunction::Sqrt, (power(-116), power(118))),
            (ActivationFunction::Rsqrt, (power(-87), power(97))),
            (ActivationFunction::Reciprocal, (power(-42), power(42))),
        ]
    );
}

#[test]
fn test_activation_in_place_between_formats_of_one_size() {
    let mut codes: Vec<bf16> = [-1.0, 0.5, 3.0].map(bf16::from_f32).to_vec();
    let bytes = bytemuck::cast_slice_mut(&mut codes);
    let out = ArrayMut::from_codes(Format::F16, bytes, &[3]).expect("fits");
    activation(&ElementSource::InPlace(Format::Bf16), ActivationFunction::Square, 0.0, out).expect("valid call");
    let halves: &[half::f16] = bytemuck::cast_slice(&codes);
    assert_eq!(halves, [1.0, 0.25, 9.0].map(half::f16::from_f32));
}

#[test]
fn test_activation_refuses_block_scales_and_other_shapes() {
    let x = [0u8; 4];
    let mut y = [0f32; 4];
    let scales = ArrayView::from_codes(Format::F8E8M0Fnu, &x, &[4]).expect("fits").into();
    let out = ArrayMut::new(&mut y, &[4]).expect("fits");
    let error = activation(&scales, ActivationFunction::Exp, 0.0, out).expect_err("block scales");
    assert_eq!(error.kind(), NumericsErrorKind::Dtype);
    assert!(error.to_string().contains("float8_e8m0fnu"), "{error}");
    let source = ArrayView::from_codes(Format::F8E5M2, &x, &[2, 2]).expect("fits").into();
    let out = ArrayMut::new(&mut y, &[4]).expect("fits");
    let error = activation(&source, ActivationFunction::Exp, 0.0, out).expect_err("other shape");
    assert_eq!(error.kind(), NumericsErrorKind::Value);
}
