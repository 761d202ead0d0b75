//! Every level casts to the bits of the scalar definition.

use proptest::prelude::*;
use trn3_numerics::{
    ArrayMut, ArrayView, CastOptions, Draws, Format, Overflow, Rounding, SimdLevel, cast, set_num_threads, with_level,
};

const DESTINATIONS: [Format; 9] = [
    Format::F32,
    Format::Tf32,
    Format::F16,
    Format::Bf16,
    Format::F8E4M3Fn,
    Format::F8E5M2,
    Format::F8E4M3,
    Format::F8E3M4,
    Format::F4E2M1Fn,
];

fn cast_at(
    level: SimdLevel,
    source: Format,
    codes: &[u8],
    to: Format,
    options: CastOptions,
    draws: &[u32],
) -> Vec<u32> {
    let count = codes.len() / source.item_size();
    // Outputs are aligned as any allocator would give them.
    let mut words = vec![0u32; count];
    let bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut words)[..count * to.item_size()];
    let source = ArrayView::from_codes(source, codes, &[count]).expect("codes fill the shape").into();
    let draws = if options.rounding == Rounding::Stochastic { Draws::Given(draws) } else { Draws::None };
    with_level(level, || {
        let out = ArrayMut::from_codes(to, bytes, &[count]).expect("aligned");
        cast(&source, out, options, draws).expect("valid call");
    })
    .expect("available level");
    words
}

fn check_all_levels(source: Format, codes: &[u8], draws: &[u32]) {
    for to in DESTINATIONS {
        for rounding in [Rounding::Nearest, Rounding::Zero, Rounding::Stochastic] {
            for overflow in [Overflow::Ieee, Overflow::Saturate] {
                let options = CastOptions { rounding, overflow };
                let expected = cast_at(SimdLevel::Scalar, source, codes, to, options, draws);
                for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
                    let got = cast_at(level, source, codes, to, options, draws);
                    assert!(expected == got, "{level} {source} -> {to} {options:?}");
                }
            }
        }
    }
}

fn draws(count: usize) -> Vec<u32> {
    (0..count as u32).map(|index| index.wrapping_mul(0x9e37_79b9) ^ index.rotate_left(7)).collect()
}

#[test]
fn test_cast_every_16_bit_code_at_every_level() {
    let codes: Vec<u16> = (0..=u16::MAX).collect();
    for source in [Format::Bf16, Format::F16] {
        check_all_levels(source, bytemuck::cast_slice(&codes), &draws(codes.len()));
    }
}

#[test]
fn test_cast_every_8_bit_code_at_every_level() {
    let codes: Vec<u8> = (0..=u8::MAX).collect();
    for source in &DESTINATIONS[4..] {
        check_all_levels(*source, &codes, &draws(codes.len()));
    }
    check_all_levels(Format::F8E8M0Fnu, &codes, &draws(codes.len()));
}

#[test]
fn test_cast_float32_neighbourhoods_at_every_level() {
    // Every exponent and sign, with mantissas around every tie any destination has.
    let mut values = Vec::new();
    for sign_and_exponent in 0..512u32 {
        for bit in 0..24 {
            for nudge in -2i32..=2 {
                for base in [0, 0x55_5555, 0x7f_ffff] {
                    let mantissa = ((base >> bit << bit) as u32 ^ (1 << bit >> 1)).wrapping_add_signed(nudge);
                    values.push(sign_and_exponent << 23 | mantissa & 0x7f_ffff);
                }
            }
        }
    }
    check_all_levels(Format::F32, bytemuck::cast_slice(&values), &draws(values.len()));
}

#[test]
fn test_cast_of_any_length_to_any_place_at_every_level() {
    let codes: Vec<u8> = (0..4 * 2000u32).map(|index| (index.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    for (source, to) in [
        (Format::Bf16, Format::F32),
        (Format::F8E5M2, Format::F32),
        (Format::F32, Format::F32),
        (Format::F32, Format::Bf16),
        (Format::F32, Format::F8E4M3Fn),
    ] {
        for count in [1, 15, 16, 17, 63, 64, 65, 130, 255, 256, 300, 1999] {
            for place in (0..20).step_by(3) {
                let cast_at = |level| {
                    let mut words = vec![0u32; place + count];
                    let bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut words)[place * to.item_size()..];
                    let out =
                        ArrayMut::from_codes(to, &mut bytes[..count * to.item_size()], &[count]).expect("aligned");
                    let codes = &codes[..count * source.item_size()];
                    let source = ArrayView::from_codes(source, codes, &[count]).expect("fits").into();
                    with_level(level, || cast(&source, out, CastOptions::default(), Draws::None).expect("valid call"))
                        .expect("available level");
                    words
                };
                let expected = cast_at(SimdLevel::Scalar);
                for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
                    assert!(cast_at(level) == expected, "{level} {count} {source} -> {to} at {place}");
                }
            }
        }
    }
}

#[test]
fn test_large_outputs_do_not_depend_on_threads() {
    let values: Vec<f32> = (0..4_500_001u32).map(|index| f32::from_bits(index.wrapping_mul(0x9e37_79b9))).collect();
    let source = ArrayView::new(&values, &[values.len()]).expect("fits").into();
    let on_threads = |threads| {
        set_num_threads(threads).expect("so many are allowed");
        let mut out = vec![0.0f32; values.len()];
        let target = ArrayMut::new(&mut out, &[values.len()]).expect("fits");
        cast(&source, target, CastOptions::default(), Draws::None).expect("valid call");
        bytemuck::cast_slice::<f32, u32>(&out).to_vec()
    };
    assert!(on_threads(1) == on_threads(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn test_cast_any_float32_at_every_level(values in prop::collection::vec((any::<u32>(), any::<u32>()), 0..100)) {
        let (codes, draws): (Vec<u32>, Vec<u32>) = values.into_iter().unzip();
        check_all_levels(Format::F32, bytemuck::cast_slice(&codes), &draws);
    }
}

/// Outputs that are written past the caches have the bits of those that are not, wherever they begin.
#[test]
fn test_streamed_casts_are_as_in_parts() {
    const COUNT: usize = (1 << 22) + 12_345;
    let codes: Vec<u16> = (0..COUNT as u32).map(|index| (index.wrapping_mul(0x9e37_79b9) >> 9) as u16).collect();
    let (mut out, mut parts) = (vec![0.0f32; COUNT + 16], vec![0.0f32; COUNT]);
    for (codes, part) in codes.chunks(1 << 16).zip(parts.chunks_mut(1 << 16)) {
        let source = ArrayView::from_codes(Format::Bf16, bytemuck::cast_slice(codes), &[codes.len()]).expect("fits");
        let shape = [part.len()];
        let out = ArrayMut::new(part, &shape).expect("fits");
        cast(&source.into(), out, CastOptions::default(), Draws::None).expect("valid call");
    }
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let expected = bits(&parts);
    let source = ArrayView::from_codes(Format::Bf16, bytemuck::cast_slice(&codes), &[COUNT]).expect("fits").into();
    for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
        for beyond in [4, 0] {
            let all = || {
                let out = ArrayMut::new(&mut out[beyond..][..COUNT], &[COUNT]).expect("fits");
                cast(&source, out, CastOptions::default(), Draws::None).expect("valid call");
            };
            with_level(level, all).expect("available level");
            assert!(bits(&out[beyond..][..COUNT]) == expected, "{level}, {beyond} words on");
        }
    }
}
