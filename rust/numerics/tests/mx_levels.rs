//! Every level quantises to the bits of the scalar definition, along every axis.

use proptest::prelude::*;
use trn3_numerics::{
    ArrayMut, ArrayView, Draws, Format, MxOptions, MxView, Rounding, ScaleRule, SimdLevel, dequantize_mx, quantize_mx,
    set_num_threads, with_level,
};

const ELEMENTS: [Format; 3] = [Format::F8E4M3Fn, Format::F8E5M2, Format::F4E2M1Fn];

fn quantize_at(level: SimdLevel, x: &ArrayView<'_>, axis: usize, to: Format, options: MxOptions) -> (Vec<u8>, Vec<u8>) {
    let count = x.len();
    let mut scale_shape = x.shape().to_vec();
    scale_shape[axis] /= 32;
    let draws: Vec<u32> =
        (0..count as u32).map(|index| index.wrapping_mul(0x9e37_79b9) ^ index.rotate_left(9)).collect();
    let (mut elements, mut scales) = (vec![0u8; count], vec![0u8; count / 32]);
    with_level(level, || {
        quantize_mx(
            x,
            axis,
            ArrayMut::from_codes(to, &mut elements, x.shape()).expect("fits"),
            ArrayMut::from_codes(Format::F8E8M0Fnu, &mut scales, &scale_shape).expect("fits"),
            options,
            if options.rounding == Rounding::Stochastic { Draws::Given(&draws) } else { Draws::None },
        )
        .expect("valid call");
    })
    .expect("available level");
    (elements, scales)
}

fn check(x: &ArrayView<'_>, axis: usize) {
    for to in ELEMENTS {
        for scale_rule in ScaleRule::ALL {
            for rounding in [Rounding::Nearest, Rounding::Zero, Rounding::Stochastic] {
                let options = MxOptions { scale_rule, rounding };
                let expected = quantize_at(SimdLevel::Scalar, x, axis, to, options);
                for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
                    let got = quantize_at(level, x, axis, to, options);
                    assert!(got == expected, "{level} {to} {options:?} axis {axis} of {:?}", x.shape());
                }
            }
        }
    }
}

/// Values whose exponents wander slowly, with zeros, subnormals, infinities and NaN strewn in.
fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..count)
        .map(|index| {
            let bits = next();
            match next() % 512 {
                0 => f32::INFINITY,
                1 => f32::NAN,
                2..=9 => 0.0,
                10..=13 => f32::from_bits(bits & 0x807f_ffff),
                _ => {
                    let exponent = (index as u32 / 37 + bits % 9) % 254 + 1;
                    f32::from_bits(bits & 0x807f_ffff | exponent << 23)
                }
            }
        })
        .collect()
}

#[test]
fn test_quantize_every_axis_at_every_level() {
    for shape in [&[32][..], &[64, 96], &[3, 64, 37], &[32, 5], &[2, 32, 2100], &[5, 160]] {
        let values = values(shape.iter().product(), 7);
        let x = ArrayView::new(&values, shape).expect("fits");
        for axis in (0..shape.len()).filter(|&axis| shape[axis] % 32 == 0) {
            check(&x, axis);
        }
    }
}

#[test]
fn test_quantize_neighbourhoods_at_every_level() {
    // Mantissas around every tie any element has, in every binade that a block of the largest exponent tells apart.
    let mut mantissas = Vec::new();
    for bit in 16..24 {
        for base in [0, 0x55_5555, 0x2a_aaaa, 0x7f_ffff] {
            mantissas.extend((-1i32..=1).map(|nudge| (((base >> bit << bit) ^ (1 << bit >> 1)) + nudge) & 0x7f_ffff));
        }
    }
    for largest in [0, 1, 3, 9, 16, 127, 252, 254] {
        let mut blocks = Vec::new();
        for mantissa in [0, 0x40_0000, 0x60_0000, 0x60_0001, 0x7f_ffff] {
            let values: Vec<u32> = (0..=24u32.min(largest))
                .flat_map(|below| mantissas.iter().map(move |&bits| (largest - below) << 23 | bits as u32))
                // In the topmost binade, none above what the block is told to have.
                .filter(|&bits| bits <= largest << 23 | mantissa)
                .flat_map(|bits| [bits, bits | 1 << 31])
                .collect();
            for values in values.chunks(31) {
                let mut block = [f32::from_bits(largest << 23 | mantissa); 32];
                for (place, bits) in block.iter_mut().zip(values) {
                    *place = f32::from_bits(*bits);
                }
                blocks.push(block);
            }
        }
        let turned: Vec<f32> = (0..32).flat_map(|row| blocks.iter().map(move |block| block[row])).collect();
        check(&ArrayView::new(blocks.as_flattened(), &[blocks.len(), 32]).expect("fits"), 1);
        check(&ArrayView::new(&turned, &[32, blocks.len()]).expect("fits"), 0);
    }
}

#[test]
fn test_quantize_unit_wider_than_a_task() {
    let shape = [32, 70_001];
    let values = values(32 * 70_001, 3);
    let x = ArrayView::new(&values, &shape).expect("fits");
    let options = MxOptions { scale_rule: ScaleRule::Trn3, rounding: Rounding::Stochastic };
    let expected = quantize_at(SimdLevel::Scalar, &x, 0, Format::F8E4M3Fn, options);
    assert!(quantize_at(SimdLevel::Portable, &x, 0, Format::F8E4M3Fn, options) == expected);
}

#[test]
fn test_dequantize_is_element_times_scale() {
    for (shape, axis) in
        [(&[4, 96][..], 1), (&[64, 7], 0), (&[64, 100], 0), (&[2, 32, 3], 1), (&[2, 64, 65], 1), (&[96], 0)]
    {
        let count: usize = shape.iter().product();
        let elements: Vec<u8> = (0..count).map(|index| (index * 7 + 3) as u8).collect();
        let scales: Vec<u8> = (0..count / 32).map(|index| (index * 31 + 100) as u8).collect();
        let mut scale_shape = shape.to_vec();
        scale_shape[axis] /= 32;
        let inner: usize = shape[axis + 1..].iter().product();
        for format in ELEMENTS {
            let view = MxView {
                elements: ArrayView::from_codes(format, &elements, shape).expect("fits"),
                scales: ArrayView::from_codes(Format::F8E8M0Fnu, &scales, &scale_shape).expect("fits"),
                axis,
            };
            let mut out = vec![0.0f32; count];
            dequantize_mx(&view, ArrayMut::new(&mut out, shape).expect("fits")).expect("valid call");
            for (index, value) in out.iter().enumerate() {
                let scale = scales[index / (32 * inner) * inner + index % inner];
                let expected = format.decode_code(elements[index].into()) * Format::F8E8M0Fnu.decode_code(scale.into());
                assert!(value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan());
            }
        }
    }
}

#[test]
fn test_dequantize_every_code_and_scale_at_every_level() {
    const SIDE: usize = 256;
    for axis in [0, 1] {
        // Code by scale: along a row, or down a column.
        let (code, scale): (fn(usize, usize) -> usize, fn(usize, usize) -> usize) =
            if axis == 1 { (|_, column| column, |row, _| row) } else { (|row, _| row, |_, column| column) };
        let at =
            |value: fn(usize, usize) -> usize, index: usize, width: usize| value(index / width, index % width) as u8;
        let elements: Vec<u8> = (0..SIDE * SIDE).map(|index| at(code, index, SIDE)).collect();
        let scale_shape = if axis == 1 { [SIDE, SIDE / 32] } else { [SIDE / 32, SIDE] };
        let scales: Vec<u8> = (0..SIDE * SIDE / 32).map(|index| at(scale, index, scale_shape[1])).collect();
        for (format, to) in
            ELEMENTS.into_iter().flat_map(|format| [Format::F32, Format::Bf16, Format::F16].map(|to| (format, to)))
        {
            let view = MxView {
                elements: ArrayView::from_codes(format, &elements, &[SIDE, SIDE]).expect("fits"),
                scales: ArrayView::from_codes(Format::F8E8M0Fnu, &scales, &scale_shape).expect("fits"),
                axis,
            };
            let dequantize_at = |level| {
                let mut words = vec![0u32; SIDE * SIDE];
                let bytes = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut words)[..SIDE * SIDE * to.item_size()];
                let out = ArrayMut::from_codes(to, bytes, &[SIDE, SIDE]).expect("aligned");
                with_level(level, || dequantize_mx(&view, out).expect("valid call")).expect("available level");
                words
            };
            let expected = dequantize_at(SimdLevel::Scalar);
            for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
                assert!(dequantize_at(level) == expected, "{level} {format} -> {to} axis {axis}");
            }
        }
    }
}

/// Outputs that are written past the caches have the bits of those that are not, wherever they begin.
#[test]
fn test_dequantize_streamed_is_as_in_parts() {
    const SHAPE: [usize; 2] = [2080, 4128];
    const PART: usize = 32 * SHAPE[1];
    let mut elements = vec![0u8; SHAPE[0] * SHAPE[1]];
    let mut scales = vec![0u8; SHAPE[0] * SHAPE[1] / 32];
    // A few are NaN or so large or small that their products are no longer exact.
    elements.iter_mut().enumerate().for_each(|(index, code)| *code = (index * 7 % 127 + index / 4096 % 2 * 128) as u8);
    scales
        .iter_mut()
        .enumerate()
        .for_each(|(index, byte)| *byte = (if index % 3001 < 8 { index } else { 117 + index % 19 }) as u8);
    elements.iter_mut().step_by(70_001).for_each(|code| *code = 0x7f);
    let dequantize = |axis: usize, to: Format, rows: usize, elements: &[u8], scales: &[u8], out: &mut [u8]| {
        let (shape, mut scale_shape) = ([rows, SHAPE[1]], [rows, SHAPE[1]]);
        scale_shape[axis] /= 32;
        let view = MxView {
            elements: ArrayView::from_codes(Format::F8E4M3Fn, elements, &shape).expect("fits"),
            scales: ArrayView::from_codes(Format::F8E8M0Fnu, scales, &scale_shape).expect("fits"),
            axis,
        };
        dequantize_mx(&view, ArrayMut::from_codes(to, out, &shape).expect("fits")).expect("valid call");
    };
    for (axis, to) in [0, 1].into_iter().flat_map(|axis| [Format::F32, Format::Bf16].map(|to| (axis, to))) {
        let bytes = elements.len() * to.item_size();
        let (mut words, mut parts) = (vec![0u32; bytes / 4 + 16], vec![0u32; bytes / 4]);
        let parts = bytemuck::cast_slice_mut::<u32, u8>(&mut parts);
        let pieces = elements.chunks(PART).zip(scales.chunks(PART / 32)).zip(parts.chunks_mut(PART * to.item_size()));
        pieces.for_each(|((elements, scales), out)| dequantize(axis, to, 32, elements, scales, out));
        for level in SimdLevel::ALL.into_iter().filter(|level| *level > SimdLevel::Scalar && level.is_available()) {
            for beyond in [4, 0, 13] {
                let out = &mut bytemuck::cast_slice_mut::<u32, u8>(&mut words)[4 * beyond..][..bytes];
                out.fill(0xee);
                let all = || dequantize(axis, to, SHAPE[0], &elements, &scales, out);
                with_level(level, all).expect("available level");
                assert!(out == parts, "{level} to {to} axis {axis}, {beyond} words on");
            }
        }
    }
}

#[test]
fn test_large_arrays_do_not_depend_on_threads() {
    let shape = [4096, 4128];
    let values = values(shape[0] * shape[1], 5);
    let x = ArrayView::new(&values, &shape).expect("fits");
    let options = MxOptions { scale_rule: ScaleRule::Trn3, rounding: Rounding::Stochastic };
    for axis in [0, 1] {
        let on_threads = |threads| {
            set_num_threads(threads).expect("so many are allowed");
            quantize_at(SimdLevel::Portable, &x, axis, Format::F8E4M3Fn, options)
        };
        assert!(on_threads(1) == on_threads(2), "axis {axis}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn test_quantize_any_bits_at_every_level(bits in prop::collection::vec(any::<u32>(), 96)) {
        let values: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        check(&ArrayView::new(&values, &[96]).expect("fits"), 0);
        check(&ArrayView::new(&values, &[32, 3]).expect("fits"), 0);
    }
}
