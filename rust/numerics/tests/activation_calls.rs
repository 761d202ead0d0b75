//! Activation functions: special values, names, ranges, formats and what is refused.

use half::bf16;
use trn3_numerics::{Activation, ArrayMut, ArrayView, ErrorKind, Format, Source, activate, activation};

const NAN: f32 = f32::from_bits(0x7fc0_0000);
const INF: f32 = f32::INFINITY;

/// Results for +inf, -inf, +0 and -0.
fn limits(function: Activation) -> [f32; 4] {
    let ln_2 = std::f32::consts::LN_2;
    let quarter = std::f32::consts::FRAC_PI_2;
    match function {
        Activation::Copy => [INF, -INF, 0.0, -0.0],
        Activation::Square | Activation::Abs => [INF, INF, 0.0, 0.0],
        Activation::Sigmoid => [1.0, 0.0, 0.5, 0.5],
        Activation::Relu => [INF, 0.0, 0.0, 0.0],
        Activation::Prelu => [INF, -INF, 0.0, -0.0],
        Activation::Gelu
        | Activation::GeluApprxTanh
        | Activation::GeluApprxSigmoid
        | Activation::Silu
        | Activation::Mish => [INF, -0.0, 0.0, -0.0],
        Activation::GeluDx | Activation::GeluApprxSigmoidDx | Activation::SiluDx => [1.0, -0.0, 0.5, 0.5],
        Activation::Tanh | Activation::Erf => [1.0, -1.0, 0.0, -0.0],
        Activation::Softplus => [INF, 0.0, ln_2, ln_2],
        Activation::ErfDx => [0.0, 0.0, std::f32::consts::FRAC_2_SQRT_PI, std::f32::consts::FRAC_2_SQRT_PI],
        Activation::Exp => [INF, 0.0, 1.0, 1.0],
        Activation::Log => [INF, NAN, -INF, -INF],
        Activation::Sin => [INF, -INF, 0.0, -0.0],
        Activation::Arctan => [quarter, -quarter, 0.0, -0.0],
        Activation::Sqrt => [INF, NAN, 0.0, -0.0],
        Activation::Rsqrt => [0.0, NAN, INF, -INF],
        Activation::Reciprocal => [0.0, -0.0, INF, -INF],
        Activation::Sign => [1.0, -1.0, 0.0, 0.0],
        other => panic!("{other} has no row"),
    }
}

#[test]
fn test_activate_special_values() {
    for function in Activation::ALL {
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
        (Activation::Tanh, smallest),
        (Activation::Sin, smallest),
        (Activation::Arctan, smallest),
        (Activation::Erf, smallest),
        (Activation::Sign, 1.0),
        (Activation::Reciprocal, INF),
        (Activation::Square, 0.0),
        // -149 ln 2.
        (Activation::Log, -103.278_93),
        // 2^74.5.
        (Activation::Rsqrt, 2.671_373_8e22),
    ] {
        let mut values = [smallest];
        activate(&mut values, function, 0.0).expect("valid call");
        assert_eq!(values, [expected], "{function}");
    }
}

#[test]
fn test_activate_sin_of_9_is_the_documented_value() {
    let mut values = [9.0, -9.0];
    activate(&mut values, Activation::Sin, 0.0).expect("valid call");
    assert!((values[0] - 27.65).abs() < 0.005 && values[1] == -values[0], "{values:?}");
}

#[test]
fn test_activate_of_nothing() {
    activate(&mut [], Activation::Gelu, 0.0).expect("valid call");
}

#[test]
fn test_activation_names_round_trip() {
    for function in Activation::ALL {
        assert_eq!(function.to_string().parse::<Activation>(), Ok(function));
    }
    let error = "Gelu".parse::<Activation>().expect_err("names are lower case").to_string();
    assert!(error.contains("\"Gelu\"") && error.contains("gelu_apprx_sigmoid_dx"), "{error}");
}

#[test]
fn test_activation_valid_ranges_are_the_documented_ones() {
    let power = |exponent: i32| 2f32.powi(exponent);
    let ranges: Vec<_> = Activation::ALL.into_iter().filter_map(|f| Some((f, f.valid_range()?))).collect();
    assert_eq!(
        ranges,
        [
            (Activation::Log, (power(-64), power(64))),
            (Activation::Sin, (0.0, std::f32::consts::PI)),
            (Activation::Arctan, (0.0, std::f32::consts::FRAC_PI_2)),
            (Activation::Sqrt, (power(-116), power(118))),
            (Activation::Rsqrt, (power(-87), power(97))),
            (Activation::Reciprocal, (power(-42), power(42))),
        ]
    );
}

#[test]
fn test_activation_in_place_between_formats_of_one_size() {
    let mut codes: Vec<bf16> = [-1.0, 0.5, 3.0].map(bf16::from_f32).to_vec();
    let bytes = bytemuck::cast_slice_mut(&mut codes);
    let out = ArrayMut::from_codes(Format::F16, bytes, &[3]).expect("fits");
    activation(&Source::InPlace(Format::Bf16), Activation::Square, 0.0, out).expect("valid call");
    let halves: &[half::f16] = bytemuck::cast_slice(&codes);
    assert_eq!(halves, [1.0, 0.25, 9.0].map(half::f16::from_f32));
}

#[test]
fn test_activation_refuses_block_scales_and_other_shapes() {
    let x = [0u8; 4];
    let mut y = [0f32; 4];
    let scales = ArrayView::from_codes(Format::F8E8M0Fnu, &x, &[4]).expect("fits").into();
    let out = ArrayMut::new(&mut y, &[4]).expect("fits");
    let error = activation(&scales, Activation::Exp, 0.0, out).expect_err("block scales");
    assert_eq!(error.kind(), ErrorKind::Dtype);
    assert!(error.to_string().contains("float8_e8m0fnu"), "{error}");
    let source = ArrayView::from_codes(Format::F8E5M2, &x, &[2, 2]).expect("fits").into();
    let out = ArrayMut::new(&mut y, &[4]).expect("fits");
    let error = activation(&source, Activation::Exp, 0.0, out).expect_err("other shape");
    assert_eq!(error.kind(), ErrorKind::Value);
}
