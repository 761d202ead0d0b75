//! Every level computes the bits of the scalar definition: activation functions.

use proptest::prelude::*;
use trn3_numerics::{
    ActivationFunction, ArrayMut, ArrayView, ElementSource, Format, SimdLevel, activate, activation, multiply_add,
    with_level,
};

fn activate_at(level: SimdLevel, x: &[f32], function: ActivationFunction, parameter: f32) -> Vec<u32> {
    let mut values = x.to_vec();
    with_level(level, || activate(&mut values, function, parameter)).expect("available level").expect("valid call");
    values.iter().map(|value| value.to_bits()).collect()
}

fn check_all_levels(x: &[f32], function: ActivationFunction, parameter: f32) {
    let expected = activate_at(SimdLevel::Scalar, x, function, parameter);
    for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
        let got = activate_at(level, x, function, parameter);
        if let Some(at) = expected.iter().zip(&got).position(|(expected, got)| expected != got) {
            let (expected, got) = (f32::from_bits(expected[at]), f32::from_bits(got[at]));
            panic!("{level} {function}({:e}), parameter {parameter}: {got:e}, scalar {expected:e}", x[at]);
        }
    }
}

#[test]
fn test_activate_every_bfloat16_at_every_level() {
    let x: Vec<f32> = (0..=u16::MAX).map(|code| f32::from_bits(u32::from(code) << 16)).collect();
    for function in ActivationFunction::ALL {
        check_all_levels(&x, function, 0.25);
    }
    for slope in [-0.0, -3.5, f32::INFINITY, f32::NAN, 1e-38] {
        check_all_levels(&x, ActivationFunction::Prelu, slope);
    }
}

#[test]
fn test_activate_float32_over_the_whole_range_at_every_level() {
    let x: Vec<f32> = (0..=u32::MAX).step_by(10_007).map(f32::from_bits).collect();
    for function in ActivationFunction::ALL {
        check_all_levels(&x, function, -0.3);
    }
}

/// As [`check_all_levels`], with each argument in all lanes of a vector of its own: where levels compute a vector otherwise
/// for the sake of one lane, no neighbour hides what the others would have been.
fn check_alone(x: &[f32], function: ActivationFunction) {
    let expected = activate_at(SimdLevel::Scalar, x, function, 0.0);
    let repeated: Vec<f32> = x.iter().flat_map(|x| [*x; 16]).collect();
    for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available() && *level != SimdLevel::Scalar) {
        let got = activate_at(level, &repeated, function, 0.0);
        for ((x, expected), got) in x.iter().zip(&expected).zip(got.chunks(16)) {
            let (expected_value, got_value) = (f32::from_bits(*expected), f32::from_bits(got[0]));
            assert!(got == [*expected; 16], "{level} {function}({x:e}): {got_value:e}, scalar {expected_value:e}");
        }
    }
}

/// What some levels compute to fewer bits than the definition has, settled or proven for every argument.
const QUICK: [ActivationFunction; 11] = [
    ActivationFunction::Sigmoid,
    ActivationFunction::Silu,
    ActivationFunction::GeluApprxTanh,
    ActivationFunction::GeluApprxSigmoid,
    ActivationFunction::Gelu,
    ActivationFunction::ErfDx,
    ActivationFunction::Tanh,
    ActivationFunction::Log,
    ActivationFunction::Sin,
    ActivationFunction::Arctan,
    ActivationFunction::Rsqrt,
];

#[test]
fn test_activate_what_is_quick_densely_at_every_level() {
    // From 2^-20 to 2^20 only: nothing happens at other magnitudes but at limits.
    let range = 0x3580_0000u32..0x4980_0000;
    let x: Vec<f32> = range.step_by(3001).map(|bits| f32::from_bits(bits | (bits & 1) << 31)).collect();
    for function in QUICK {
        check_alone(&x, function);
    }
}

/// From a source, as [`activate_at`] does in place.
fn activation_at(level: SimdLevel, x: &[f32], function: ActivationFunction) -> Vec<u32> {
    let (mut values, shape) = (vec![0f32; x.len()], [x.len()]);
    let source = ArrayView::new(x, &shape).expect("fits").into();
    let out = ArrayMut::new(&mut values, &shape).expect("fits");
    with_level(level, || activation(&source, function, 0.0, out)).expect("available level").expect("valid call");
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn test_activate_what_is_in_doubt_of_any_length_at_every_level() {
    // In doubt: all, none, some of some vectors, more than are settled together.
    let arguments: [fn(usize) -> f32; 5] = [
        |_| f32::NAN,
        |_| 1.0,
        |index| if index % 37 == 5 { -1e-40 } else { 0.3 + index as f32 * 1e-4 },
        |index| if index % 1000 < 300 { 1e9 } else { 0.5 },
        |index| index as f32 * 0.001 - 1.5,
    ];
    let lengths = (0..70).chain([127, 128, 129, 2047, 2048, 2049, 2079, 4097, 70_001]);
    for (length, argument) in lengths.flat_map(|length| arguments.map(|argument| (length, argument))) {
        let x: Vec<f32> = (0..length).map(argument).collect();
        for function in QUICK {
            let expected = activate_at(SimdLevel::Scalar, &x, function, 0.0);
            for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
                assert!(activate_at(level, &x, function, 0.0) == expected, "{level} {function} {length} in place");
                assert!(activation_at(level, &x, function) == expected, "{level} {function} {length}");
            }
        }
    }
}

#[test]
fn test_activation_on_lines_of_any_place_at_every_level() {
    // Long enough to be written in whole lines, and past the caches, from all places between two lines.
    for length in [(1 << 14) + 13, (1 << 22) + 21] {
        let x: Vec<f32> = (0..length).map(|index| index as f32 * 1e-3 - 10.0).collect();
        let expected = activate_at(SimdLevel::Scalar, &x, ActivationFunction::Square, 0.0);
        for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
            for first in if length < 1 << 20 { 0..17 } else { 3..5 } {
                let (mut values, shape) = (vec![f32::NAN; first + length + 1], [length]);
                let source = ArrayView::new(&x, &shape).expect("fits").into();
                let out = ArrayMut::new(&mut values[first..first + length], &shape).expect("fits");
                with_level(level, || activation(&source, ActivationFunction::Square, 0.0, out))
                    .expect("available level")
                    .expect("valid call");
                let got = values[first..first + length].iter().map(|value| value.to_bits());
                assert!(got.eq(expected.iter().copied()), "{level} {length} from {first}");
                assert!(values[..first].iter().chain(values.last()).all(|value| value.is_nan()), "{level} outside");
            }
        }
    }
}

#[test]
fn test_rsqrt_of_every_mantissa_at_every_level() {
    // Scaling by 4 changes no step, so that two octaves are all numbers of this size.
    for start in (1f32.to_bits()..4f32.to_bits()).step_by(1 << 20) {
        let x: Vec<f32> = (start..start + (1 << 20)).map(f32::from_bits).collect();
        check_all_levels(&x, ActivationFunction::Rsqrt, 0.0);
    }
}

#[test]
fn test_activate_where_results_are_nearly_in_the_middle_at_every_level() {
    // Among all float32, those that sums by tables and short exponentials round wrongly when they are believed a little
    // more than they may be.
    let arguments: [u32; 46] = [
        0xc0667906, 0xc070b528, 0xc06a0875, 0xc0118ff0, 0xc00c4b57, 0xc0695ebf, 0xc04c476a, 0xc0363883, 0xbfedcb52,
        0xc06b31a7, 0xc06854b7, 0xbfb22e69, 0xc0637972, 0xc041c25c, 0x4043d281, 0xc044f360, 0xc044f870, 0xc03b8590,
        0xc03232b0, 0xc00db810, 0xbff675a0, 0x40880fa0, 0x3d39616f, 0x3d86704e, 0x3d8bb9d8, 0x3d8e8afe, 0x3e044941,
        0x3ea52844, 0x3ec41bfc, 0x3ec485fc, 0x3effbc60, 0x3f41851e, 0x3d9439b7, 0x3e0280dd, 0x3e02f681, 0x3ed66da3,
        0x3f1795d2, 0x3fcbbf43, 0x4025fdaa, 0x403fbfd3, 0x3f78a847, 0x3f7c7b34, 0x0094aa95, 0x00d8603c, 0x016dc5cf,
        0x01e38e7c,
    ];
    let around = |bits: u32| (-8i32..8).map(move |nudge| f32::from_bits(bits.wrapping_add_signed(nudge)));
    let x: Vec<f32> = arguments.into_iter().flat_map(around).flat_map(|x| [x, -x]).collect();
    for function in QUICK {
        check_alone(&x, function);
    }
}

#[test]
fn test_activate_around_limits_of_tables_at_every_level() {
    let edges = (0..=31).flat_map(|place| [0.1 * place as f32, 0.0625 * place as f32, 0.25 * place as f32 + 0.375]);
    let limits =
        [3.09f32, 3.1, std::f32::consts::PI, 9.02, 9.37, 9.375, 10.0, 1e9, f32::INFINITY, f32::NAN, 1e-30, 1e-39];
    let around = |x: f32| (-4i32..=4).map(move |nudge| f32::from_bits(x.to_bits().wrapping_add_signed(nudge)));
    let x: Vec<f32> = edges.chain(limits).flat_map(around).flat_map(|x| [x, -x]).collect();
    for function in QUICK {
        check_alone(&x, function);
    }
}

#[test]
#[ignore = "hours: eleven functions of all 2^32 float32, at every level"]
fn test_activate_what_is_quick_for_every_float32_at_every_level() {
    for function in QUICK {
        for upper in 0..=u16::MAX {
            let x: Vec<f32> =
                (0..=u16::MAX).map(|low| f32::from_bits(u32::from(upper) << 16 | u32::from(low))).collect();
            check_alone(&x, function);
        }
    }
}

#[test]
fn test_activate_around_every_limit_at_every_level() {
    // Limits of clamping, of subnormal numbers, of small and large branches, and zeros of the derivatives.
    let limits = [
        0.0f32,
        1e-45,
        1.175_494_4e-38,
        9.765_625e-4,
        0.7,
        0.75,
        1.0,
        1.28,
        std::f32::consts::FRAC_PI_2,
        std::f32::consts::PI,
        4.0,
        5.59,
        10.1,
        13.2,
        14.0,
        15.0,
        20.0,
        40.0,
        87.3,
        88.7,
        100.0,
        104.0,
        150.0,
        1e13,
        3.4e38,
        f32::INFINITY,
    ];
    let around = |limit: f32| (-300i32..=300).map(move |nudge| limit.to_bits().wrapping_add_signed(nudge));
    let x: Vec<f32> = limits
        .into_iter()
        .flat_map(around)
        .flat_map(|bits| [f32::from_bits(bits), f32::from_bits(bits ^ 0x8000_0000)])
        .collect();
    for function in ActivationFunction::ALL {
        check_all_levels(&x, function, 1e-3);
    }
}

#[test]
fn test_activate_large_slices_are_split_without_a_trace() {
    let x: Vec<f32> = (0..200_001u32).map(|index| index as f32 * 1e-4 - 10.0).collect();
    let whole = activate_at(SimdLevel::Scalar, &x, ActivationFunction::Gelu, 0.0);
    let mut pieces = x.clone();
    for piece in pieces.chunks_mut(777) {
        activate(piece, ActivationFunction::Gelu, 0.0).expect("valid call");
    }
    assert!(pieces.iter().map(|value| value.to_bits()).eq(whole.iter().copied()));
    assert!(activate_at(trn3_numerics::simd_level().expect("a level"), &x, ActivationFunction::Gelu, 0.0) == whole);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn test_multiply_add_rounds_once_at_every_level(
        x in prop::collection::vec(any::<u32>(), 3 * 37), scales in any::<[u32; 3]>(), addends in any::<[u32; 3]>(),
    ) {
        let x: Vec<f32> = x.into_iter().map(f32::from_bits).collect();
        let (scales, addends) = (scales.map(f32::from_bits), addends.map(f32::from_bits));
        for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
            let mut got = x.clone();
            with_level(level, || multiply_add(&mut got, 37, &scales, &addends)).expect("available").expect("valid");
            for (index, (x, got)) in x.iter().zip(&got).enumerate() {
                let exact = x.mul_add(scales[index / 37], addends[index / 37]);
                let expected = if exact.is_nan() { 0x7fc0_0000 } else { exact.to_bits() };
                prop_assert_eq!(got.to_bits(), expected, "{} {}", level, index);
            }
        }
    }

    #[test]
    fn test_activate_any_values_at_every_level(
        x in prop::collection::vec(prop_oneof![prop::num::f32::ANY, -20f32..20.0], 0..70),
        function in prop::sample::select(&ActivationFunction::ALL[..]),
        slope in prop::num::f32::ANY,
    ) {
        check_all_levels(&x, function, slope);
    }

    /// Input of any format, output of any format: decode, float32 function, cast.
    #[test]
    fn test_activation_is_decode_then_activate_then_cast(
        codes in prop::collection::vec(any::<u32>(), 1..90),
        from in prop::sample::select(&Format::ALL[..]),
        to in prop::sample::select(&Format::ALL[..]),
        function in prop::sample::select(&ActivationFunction::ALL[..]),
    ) {
        let item = from.item_size();
        let mask = if item == 4 { u32::MAX } else { (1 << from.spec().bits) - 1 };
        let mut bytes: Vec<u32> = vec![0; codes.len()];
        let bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut bytes)[..codes.len() * item];
        for (code, slot) in codes.iter().zip(bytes.chunks_mut(item)) {
            slot.copy_from_slice(&(code & mask).to_le_bytes()[..item]);
        }
        let shape = [codes.len()];
        let source: ElementSource<'_> = ArrayView::from_codes(from, bytes, &shape).expect("fits").into();
        let mut out = vec![0u32; codes.len()];
        let out_bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut out)[..codes.len() * to.item_size()];
        let result = activation(&source, function, 0.5, ArrayMut::from_codes(to, out_bytes, &shape).expect("fits"));
        if [from, to].contains(&Format::F8E8M0Fnu) {
            prop_assert!(result.is_err());
            return Ok(());
        }
        result.expect("valid call");
        let mut expected = vec![0f32; codes.len()];
        let widened = ArrayMut::new(&mut expected, &shape).expect("fits");
        activation(&source, ActivationFunction::Copy, 0.0, widened).expect("valid call");
        activate(&mut expected, function, 0.5).expect("valid call");
        let mut cast = vec![0u32; codes.len()];
        let cast_bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut cast)[..codes.len() * to.item_size()];
        let source = ArrayView::new(&expected, &shape).expect("fits").into();
        let options = trn3_numerics::CastOptions::default();
        let rounded = ArrayMut::from_codes(to, cast_bytes, &shape).expect("fits");
        trn3_numerics::cast(&source, rounded, options, trn3_numerics::Draws::None).expect("valid call");
        prop_assert!(out == cast, "{function} {from} -> {to}");
    }
}
