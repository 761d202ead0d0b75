//! Every operation gives the bits of `trn3-numerics`, for any layout; chains of single steps give those of whole products.
#![allow(missing_docs)]

use proptest::prelude::*;
use trn3_capi::*;
use trn3_numerics as numerics;
use trn3_numerics::{ArrayMut, ArrayView, CastOptions, Draws, Format, MxView, Overflow, Rounding};

const FORMATS: [(trn3_dtype, Format); 9] = [
    (TRN3_DTYPE_FLOAT32, Format::F32),
    (TRN3_DTYPE_TFLOAT32, Format::Tf32),
    (TRN3_DTYPE_FLOAT16, Format::F16),
    (TRN3_DTYPE_BFLOAT16, Format::Bf16),
    (TRN3_DTYPE_FLOAT8_E4M3FN, Format::F8E4M3Fn),
    (TRN3_DTYPE_FLOAT8_E5M2, Format::F8E5M2),
    (TRN3_DTYPE_FLOAT8_E4M3, Format::F8E4M3),
    (TRN3_DTYPE_FLOAT8_E3M4, Format::F8E3M4),
    (TRN3_DTYPE_FLOAT4_E2M1FN, Format::F4E2M1Fn),
];

/// Bytes of codes, aligned as any element is.
fn aligned(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks(4)
        .map(|chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_ne_bytes(word)
        })
        .collect()
}

fn bytes(words: &[u32], count: usize) -> &[u8] {
    &bytemuck::cast_slice(words)[..count]
}

fn axes(lengths: &[usize]) -> [i64; TRN3_MAX_AXES] {
    let mut shape = [0; TRN3_MAX_AXES];
    for (slot, &length) in shape.iter_mut().zip(lengths) {
        *slot = length as i64;
    }
    shape
}

fn input(words: &[u32], dtype: trn3_dtype, shape: &[usize]) -> trn3_array {
    trn3_array {
        size: size_of::<trn3_array>(),
        data: words.as_ptr().cast(),
        dtype,
        ndim: shape.len() as u32,
        shape: axes(shape),
        strides: [0; TRN3_MAX_AXES],
    }
}

fn output(words: &mut [u32], dtype: trn3_dtype, shape: &[usize]) -> trn3_array_mut {
    trn3_array_mut {
        size: size_of::<trn3_array_mut>(),
        data: words.as_mut_ptr().cast(),
        dtype,
        ndim: shape.len() as u32,
        shape: axes(shape),
        strides: [0; TRN3_MAX_AXES],
    }
}

fn null<T>() -> *const T {
    std::ptr::null()
}

fn no_scratch() -> *mut std::ffi::c_void {
    std::ptr::null_mut()
}

fn rounding_options(rounding: u32, overflow: u32, draws: &[u32]) -> trn3_rounding {
    trn3_rounding {
        size: size_of::<trn3_rounding>(),
        rounding,
        overflow,
        draws: if draws.is_empty() { null() } else { draws.as_ptr() },
        draw_count: draws.len(),
        generator: std::ptr::null_mut(),
    }
}

proptest! {
    #[test]
    fn test_cast_gives_the_bits_of_the_crate(
        from in 0..FORMATS.len(), to in 0..FORMATS.len(), rounding in 0u32..3, overflow in 0u32..2,
        codes in proptest::collection::vec(any::<u8>(), 4 * 60), draws in proptest::collection::vec(any::<u32>(), 60),
    ) {
        let ((from_number, from), (to_number, to)) = (FORMATS[from], FORMATS[to]);
        let draws = if rounding == 2 { &draws[..] } else { &[] };
        let words = aligned(&codes);
        let options = CastOptions {
            rounding: [Rounding::Nearest, Rounding::Zero, Rounding::Stochastic][rounding as usize],
            overflow: [Overflow::Ieee, Overflow::Saturate][overflow as usize],
        };
        let mut expected = vec![0u32; 60];
        {
            let x = ArrayView::from_codes(from, bytes(&words, 60 * from.item_size()), &[5, 12]).expect("x");
            let size = 60 * to.item_size();
            let y = &mut bytemuck::cast_slice_mut(&mut expected)[..size];
            let given = if rounding == 2 { Draws::Given(draws) } else { Draws::None };
            numerics::cast(&x.into(), ArrayMut::from_codes(to, y, &[5, 12]).expect("y"), options, given).expect("cast");
        }
        let mut got = vec![0u32; 60];
        let (x, y) = (input(&words, from_number, &[5, 12]), output(&mut got, to_number, &[5, 12]));
        let rules = rounding_options(rounding, overflow, draws);
        // SAFETY: the structures describe the vectors.
        prop_assert_eq!(unsafe { trn3_cast(&x, &y, &rules, no_scratch(), 0) }, TRN3_OK);
        prop_assert_eq!(&got, &expected);

        // Element by element.
        let (item_in, item_out) = (from.item_size(), to.item_size());
        for index in 0..60 {
            let code = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |code, &byte| code << 8 | u32::from(byte));
            let one = code(&bytes(&words, 240)[index * item_in..][..item_in]);
            let mut result = 0;
            let draw = draws.get(index).copied().unwrap_or(0);
            // SAFETY: the result is a local.
            let status = unsafe { trn3_cast_one(from_number, one, to_number, rounding, overflow, draw, &mut result) };
            prop_assert_eq!(status, TRN3_OK);
            prop_assert_eq!(result, code(&bytes(&expected, 240)[index * item_out..][..item_out]));
        }

        // Out through strides, the two axes exchanged.
        let mut spread = vec![0u32; 60];
        let mut y = output(&mut spread, to_number, &[5, 12]);
        y.strides[..2].copy_from_slice(&[item_out as i64, 5 * item_out as i64]);
        let mut scratch = vec![0u8; 60 * item_out + 3];
        // SAFETY: as above; the strides stay inside.
        let status = unsafe { trn3_cast(&x, &y, &rules, scratch.as_mut_ptr().cast(), scratch.len()) };
        prop_assert_eq!(status, TRN3_OK);
        let (spread, expected) = (bytes(&spread, 60 * item_out), bytes(&expected, 60 * item_out));
        for (row, column) in (0..5).flat_map(|row| (0..12).map(move |column| (row, column))) {
            let (at, from) = ((column * 5 + row) * item_out, (row * 12 + column) * item_out);
            prop_assert_eq!(&spread[at..at + item_out], &expected[from..from + item_out]);
        }
    }

    #[test]
    fn test_chain_of_steps_is_a_product(
        a_format in 0usize..8, b_format in 0usize..8, k in 1usize..=128,
        codes in proptest::collection::vec(any::<u8>(), 8 * 128),
    ) {
        let ((a_number, a_format), (b_number, b_format)) = (FORMATS[a_format], FORMATS[b_format]);
        prop_assume!((a_format.item_size() == 4) == (b_format.item_size() == 4));
        let (a, b) = (aligned(&codes[..512]), aligned(&codes[512..]));
        let code = |words: &[u32], item: usize, index: usize| {
            bytes(words, 512)[index * item..][..item].iter().rev().fold(0u32, |code, &byte| code << 8 | u32::from(byte))
        };
        let mut sum = 0;
        for index in 0..k {
            let (a, b) = (code(&a, a_format.item_size(), index), code(&b, b_format.item_size(), index));
            // SAFETY: the result is a local.
            let status = unsafe { trn3_accumulate_step(a_number, a, b_number, b, sum, &mut sum) };
            prop_assert_eq!(status, TRN3_OK);
        }
        let mut product = [0u32];
        let (x, y) = (input(&a, a_number, &[1, k]), input(&b, b_number, &[k, 1]));
        let out = output(&mut product, TRN3_DTYPE_FLOAT32, &[1, 1]);
        // SAFETY: the structures describe the vectors.
        prop_assert_eq!(unsafe { trn3_matmul(&x, &y, null(), &out, null(), no_scratch(), 0) }, TRN3_OK);
        prop_assert_eq!(sum, product[0]);
        let mut expected = [0.0f32];
        let x = ArrayView::from_codes(a_format, bytes(&a, k * a_format.item_size()), &[1, k]).expect("a");
        let y = ArrayView::from_codes(b_format, bytes(&b, k * b_format.item_size()), &[k, 1]).expect("b");
        let out = ArrayMut::new(&mut expected, &[1, 1]).expect("out");
        numerics::matmul(&x, &y, None, out, Rounding::Nearest, Draws::None).expect("product");
        prop_assert_eq!(product[0], expected[0].to_bits());
    }

    #[test]
    fn test_chain_of_mx_steps_is_a_product(
        a_format in 0usize..3, b_format in 0usize..3, blocks in 1usize..=16,
        codes in proptest::collection::vec(any::<u8>(), 1024), scales in proptest::collection::vec(any::<u8>(), 32),
        near_one in any::<bool>(),
    ) {
        const MX: [(trn3_dtype, Format); 3] = [
            (TRN3_DTYPE_FLOAT8_E4M3FN, Format::F8E4M3Fn),
            (TRN3_DTYPE_FLOAT8_E5M2, Format::F8E5M2),
            (TRN3_DTYPE_FLOAT4_E2M1FN, Format::F4E2M1Fn),
        ];
        let ((a_number, a_format), (b_number, b_format)) = (MX[a_format], MX[b_format]);
        // Scales near one keep most sums finite.
        let scales: Vec<u8> = scales.iter().map(|&scale| if near_one { 120 + scale % 16 } else { scale }).collect();
        let k = 32 * blocks;
        let element = |format: Format, code: u8| if format == Format::F4E2M1Fn { code & 0xf } else { code };
        let a: Vec<u8> = codes[..k].iter().map(|&code| element(a_format, code)).collect();
        let b: Vec<u8> = codes[512..512 + k].iter().map(|&code| element(b_format, code)).collect();
        let (a_scales, b_scales) = (&scales[..blocks], &scales[16..16 + blocks]);
        let pack = |format: Format, lanes: &[u8]| {
            let width = format.spec().bits;
            lanes.iter().rev().fold(0u32, |word, &code| word << width | u32::from(code))
        };
        let mut sum = 0;
        for (quad, (a, b)) in a.chunks(4).zip(b.chunks(4)).enumerate() {
            let (a_scale, b_scale) = (u32::from(a_scales[quad / 8]), u32::from(b_scales[quad / 8]));
            let (a, b) = (pack(a_format, a), pack(b_format, b));
            // SAFETY: the result is a local.
            let status =
                unsafe { trn3_accumulate_step_mx(a_number, a, a_scale, b_number, b, b_scale, sum, &mut sum) };
            prop_assert_eq!(status, TRN3_OK);
        }
        let view = |format: Format, codes, shape: &[usize]| ArrayView::from_codes(format, codes, shape).expect("view");
        let x = MxView {
            elements: view(a_format, &a, &[1, k]), scales: view(Format::F8E8M0Fnu, a_scales, &[1, blocks]), axis: 1,
        };
        let y = MxView {
            elements: view(b_format, &b, &[k, 1]), scales: view(Format::F8E8M0Fnu, b_scales, &[blocks, 1]), axis: 0,
        };
        let mut expected = [0.0f32];
        let out = ArrayMut::new(&mut expected, &[1, 1]).expect("out");
        numerics::matmul_mx(&x, &y, None, out, Rounding::Nearest, Draws::None).expect("product");
        prop_assert_eq!(sum, expected[0].to_bits());

        let (a_words, b_words) = (aligned(&a), aligned(&b));
        let (a_scale_words, b_scale_words) = (aligned(a_scales), aligned(b_scales));
        let (a_elements, b_elements) = (input(&a_words, a_number, &[1, k]), input(&b_words, b_number, &[k, 1]));
        let a_scales = input(&a_scale_words, TRN3_DTYPE_FLOAT8_E8M0FNU, &[1, blocks]);
        let b_scales = input(&b_scale_words, TRN3_DTYPE_FLOAT8_E8M0FNU, &[blocks, 1]);
        let size = size_of::<trn3_mx_array>();
        let x = trn3_mx_array { size, elements: &a_elements, scales: &a_scales, axis: -1 };
        let y = trn3_mx_array { size, elements: &b_elements, scales: &b_scales, axis: -2 };
        let mut product = [0u32];
        let out = output(&mut product, TRN3_DTYPE_FLOAT32, &[1, 1]);
        // SAFETY: the structures describe the vectors.
        prop_assert_eq!(unsafe { trn3_matmul_mx(&x, &y, null(), &out, null(), no_scratch(), 0) }, TRN3_OK);
        prop_assert_eq!(product[0], expected[0].to_bits());
    }

    #[test]
    fn test_tiles_join_as_in_a_product(
        codes in proptest::collection::vec(any::<u16>(), 2 * 300), draws in proptest::collection::vec(any::<u32>(), 3),
        dtype in prop::sample::select(vec![TRN3_DTYPE_FLOAT32, TRN3_DTYPE_BFLOAT16]), rounding in 0u32..3,
    ) {
        let rounding = if dtype == TRN3_DTYPE_FLOAT32 { 0 } else { rounding };
        let k = 300;
        let (a, b) = codes.split_at(k);
        let mut accumulator = 0;
        for (tile, (a, b)) in a.chunks(128).zip(b.chunks(128)).enumerate() {
            let mut sum = 0;
            for (&a, &b) in a.iter().zip(b) {
                let (a, b) = (u32::from(a), u32::from(b));
                // SAFETY: the result is a local.
                let status = unsafe {
                    trn3_accumulate_step(TRN3_DTYPE_BFLOAT16, a, TRN3_DTYPE_BFLOAT16, b, sum, &mut sum)
                };
                prop_assert_eq!(status, TRN3_OK);
            }
            // The first tile starts the accumulator; -0 is what leaves its sign as it is.
            let before = match (tile, dtype) {
                (0, TRN3_DTYPE_FLOAT32) => 0x8000_0000,
                (0, _) => 0x8000,
                _ => accumulator,
            };
            // SAFETY: the result is a local.
            let status = unsafe { trn3_accumulate_tile(dtype, before, sum, rounding, draws[tile], &mut accumulator) };
            prop_assert_eq!(status, TRN3_OK);
        }
        let (a, b) = (aligned(bytemuck::cast_slice(a)), aligned(bytemuck::cast_slice(b)));
        let (x, y) = (input(&a, TRN3_DTYPE_BFLOAT16, &[1, k]), input(&b, TRN3_DTYPE_BFLOAT16, &[k, 1]));
        let mut product = [0u32];
        let out = output(&mut product, dtype, &[1, 1]);
        let rules = rounding_options(rounding, 0, if rounding == 2 { &draws } else { &[] });
        // SAFETY: the structures describe the vectors.
        prop_assert_eq!(unsafe { trn3_matmul(&x, &y, null(), &out, &rules, no_scratch(), 0) }, TRN3_OK);
        prop_assert_eq!(product[0], accumulator);
    }

    #[test]
    fn test_functions_of_one_element_are_those_of_arrays(bits in any::<u32>(), bias in any::<u32>(), which in 0u32..26) {
        let x = [f32::from_bits(bits)];
        let (mut e, mut f) = ([0.0f32], [0.0f32]);
        let view = || ArrayView::new(&x, &[1]).expect("x").into();
        let bias_value = numerics::Bias::Scalar(f32::from_bits(bias));
        numerics::exp(&view(), bias_value, ArrayMut::new(&mut e, &[1]).expect("out"), None).expect("exp");
        let function = numerics::Activation::ALL[which as usize];
        let parameter = f32::from_bits(bias);
        numerics::activation(&view(), function, parameter, ArrayMut::new(&mut f, &[1]).expect("out")).expect("function");
        let (mut exp, mut activation) = (0, 0);
        let dtype = TRN3_DTYPE_FLOAT32;
        // SAFETY: the results are locals.
        unsafe {
            prop_assert_eq!(trn3_exp_one(dtype, bits, bias, dtype, &mut exp), TRN3_OK);
            prop_assert_eq!(trn3_activation_one(dtype, bits, which, bias, dtype, &mut activation), TRN3_OK);
        }
        prop_assert_eq!((exp, activation), (e[0].to_bits(), f[0].to_bits()));
    }
}

#[test]
fn test_activation_constants_are_the_functions_they_name() {
    let constants = [
        (TRN3_ACTIVATION_COPY, "copy"),
        (TRN3_ACTIVATION_GELU_APPRX_TANH, "gelu_apprx_tanh"),
        (TRN3_ACTIVATION_SIN, "sin"),
        (TRN3_ACTIVATION_ABS, "abs"),
        (TRN3_ACTIVATION_EXP, "exp"),
    ];
    for (number, name) in constants {
        assert_eq!(numerics::Activation::ALL[number as usize].name(), name);
    }
    let header = include_str!("../include/trn3.h");
    for (number, function) in numerics::Activation::ALL.into_iter().enumerate() {
        let line = format!("#define TRN3_ACTIVATION_{} {number}\n", function.name().to_uppercase());
        assert!(header.contains(&line), "{line}");
    }
}
