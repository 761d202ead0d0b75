//! Calls of `exp`: layouts, biases, sums, threads, refusals.

use half::{bf16, f16};
use trn3_numerics::{
    ArrayMut, ArrayView, Bias, ElementSource, Error, Format, NumericsErrorKind, Result, SimdLevel, exp, num_threads,
    set_num_threads, with_interrupt_check, with_level,
};

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|index| (index as u32).wrapping_mul(0x9e37_79b9) as f32 / 4e8 - 9.0).collect()
}

fn exp_of(source: &ElementSource<'_>, bias: Bias<'_>, shape: &[usize]) -> (Vec<f32>, Vec<f32>) {
    let mut y = vec![0f32; shape.iter().product()];
    let mut sums = vec![-1f32; shape[..shape.len() - 1].iter().product()];
    exp(source, bias, ArrayMut::new(&mut y, shape).expect("shape fits"), Some(&mut sums)).expect("valid call");
    (y, sums)
}

/// The chains of the contract, one element after the other.
fn sequential_sums(y: &[f32], columns: usize) -> Vec<f32> {
    y.chunks(columns).map(|row| row.iter().fold(0.0, |sum, value| sum + value)).collect()
}

#[test]
fn test_sums_are_ascending_chains_of_the_stored_values() {
    // Rows below, at and above a vector, a stage and a block; fewer rows than sixteen, and more.
    let shapes = [
        [1, 1],
        [1, 100_003],
        [2, 65_537],
        [3, 16],
        [15, 5000],
        [16, 4096],
        [17, 4097],
        [40, 4100],
        [33, 31],
        [300, 4099],
        [1000, 7],
        [70_000, 1],
        [5, 13_107],
        [5, 13_108],
    ];
    for [rows, columns] in shapes {
        let x = values(rows * columns);
        let source = ArrayView::new(&x, &[rows, columns]).expect("shape fits").into();
        let biases: Vec<f32> = (0..rows).map(|row| row as f32 % 5.0).collect();
        let (y, sums) = exp_of(&source, Bias::PerRow(&biases), &[rows, columns]);
        assert_eq!(sums, sequential_sums(&y, columns), "{rows} x {columns}");

        let mut brain = vec![bf16::ZERO; y.len()];
        let mut sums = vec![0f32; rows];
        let out = ArrayMut::new(&mut brain, &[rows, columns]).expect("shape fits");
        exp(&source, Bias::PerRow(&biases), out, Some(&mut sums)).expect("valid call");
        let stored: Vec<f32> = brain.iter().map(|value| value.to_f32()).collect();
        assert_eq!(sums, sequential_sums(&stored, columns), "{rows} x {columns} bfloat16");
    }
}

#[test]
fn test_bias_of_each_row_is_subtracted() {
    for [rows, columns] in [[3, 1], [700, 3], [5, 2048], [4, 5000], [2, 70_000]] {
        let x = values(rows * columns);
        let biases: Vec<f32> = (0..rows).map(|row| row as f32 * 0.7 - 1.0).collect();
        let shifted: Vec<f32> = x.iter().enumerate().map(|(index, x)| x - biases[index / columns]).collect();
        let source = ArrayView::new(&x, &[rows, columns]).expect("shape fits").into();
        let expected = ArrayView::new(&shifted, &[rows, columns]).expect("shape fits").into();
        let shape = [rows, columns];
        let (y, _) = exp_of(&source, Bias::PerRow(&biases), &shape);
        assert!(y == exp_of(&expected, Bias::Scalar(0.0), &shape).0, "{rows} x {columns}");
        // Without sums the work is cut elsewhere.
        let mut alone = vec![0f32; y.len()];
        let out = ArrayMut::new(&mut alone, &shape).expect("shape fits");
        exp(&source, Bias::PerRow(&biases), out, None).expect("valid call");
        assert!(y == alone, "{rows} x {columns}");
    }
}

#[test]
fn test_rows_are_all_axes_but_the_last() {
    let x = values(2 * 3 * 4);
    let source = ArrayView::new(&x, &[2, 3, 4]).expect("shape fits").into();
    let biases: Vec<f32> = (0..6).map(|row| row as f32).collect();
    let (y, sums) = exp_of(&source, Bias::PerRow(&biases), &[2, 3, 4]);
    let flat = ArrayView::new(&x, &[6, 4]).expect("shape fits").into();
    assert_eq!((y, sums), exp_of(&flat, Bias::PerRow(&biases), &[6, 4]));
}

#[test]
fn test_any_strides_and_byte_order_are_read() {
    let (rows, columns) = (37, 211);
    let x = values(rows * columns);
    let dense = ArrayView::new(&x, &[rows, columns]).expect("shape fits").into();
    let expected = exp_of(&dense, Bias::Scalar(1.0), &[rows, columns]);
    // Columns first, each row backwards, bytes swapped.
    let mut swapped = vec![0u8; x.len() * 4];
    for row in 0..rows {
        for column in 0..columns {
            let at = 4 * ((columns - 1 - column) * rows + row);
            let mut bytes = x[row * columns + column].to_ne_bytes();
            bytes.reverse();
            swapped[at..at + 4].copy_from_slice(&bytes);
        }
    }
    let strides = [4, -4 * rows as isize];
    let origin = 4 * (columns - 1) * rows;
    let view = ArrayView::strided(Format::F32, &swapped, origin, &[rows, columns], &strides, true).expect("inside");
    assert_eq!(exp_of(&view.into(), Bias::Scalar(1.0), &[rows, columns]), expected);
    // One row for all.
    let view = ArrayView::strided(Format::F32, bytemuck::cast_slice(&x), 0, &[3, columns], &[0, 4], false);
    let (y, _) = exp_of(&view.expect("inside").into(), Bias::Scalar(1.0), &[3, columns]);
    assert!(y.chunks(columns).all(|row| row == &expected.0[..columns]));
}

#[test]
fn test_in_place_equals_out_of_place() {
    for [rows, columns] in [[1, 100_000], [50, 333]] {
        let shape = [rows, columns];
        let x = values(rows * columns);
        let expected = exp_of(&ArrayView::new(&x, &shape).expect("shape fits").into(), Bias::Scalar(0.5), &shape);
        let (mut y, mut sums) = (x.clone(), vec![0f32; rows]);
        let out = ArrayMut::new(&mut y, &shape).expect("shape fits");
        exp(&ElementSource::InPlace(Format::F32), Bias::Scalar(0.5), out, Some(&mut sums)).expect("valid call");
        assert_eq!((y, sums), expected);

        // The input may even be another format of the same size.
        let half: Vec<f16> = x.iter().map(|x| f16::from_f32(*x)).collect();
        let mut expected = vec![bf16::ZERO; half.len()];
        let source = ArrayView::new(&half, &shape).expect("shape fits").into();
        exp(&source, Bias::Scalar(0.5), ArrayMut::new(&mut expected, &shape).expect("shape fits"), None)
            .expect("valid");
        let mut codes: Vec<bf16> = bytemuck::cast_slice(&half).to_vec();
        let out = ArrayMut::new(&mut codes, &shape).expect("shape fits");
        exp(&ElementSource::InPlace(Format::F16), Bias::Scalar(0.5), out, None).expect("valid call");
        assert_eq!(codes, expected);
    }
}

#[test]
fn test_results_do_not_depend_on_the_number_of_threads() {
    let before = num_threads().expect("valid setting");
    for shape in [[3, 300_000], [700, 1000], [40, 9000]] {
        let x = values(shape[0] * shape[1]);
        let source = ArrayView::new(&x, &shape).expect("shape fits").into();
        set_num_threads(1).expect("in range");
        let expected = exp_of(&source, Bias::Scalar(0.0), &shape);
        for threads in [2, 3, 8] {
            set_num_threads(threads).expect("in range");
            assert!(exp_of(&source, Bias::Scalar(0.0), &shape) == expected, "{threads} threads");
        }
    }
    set_num_threads(before).expect("in range");
}

#[test]
fn test_empty_and_0_d_arrays() {
    for shape in [vec![0], vec![0, 5], vec![5, 0], vec![2, 0, 3], vec![2, 3, 0]] {
        let source = ArrayView::new(&[0f32; 0], &shape).expect("shape fits").into();
        let (y, sums) = exp_of(&source, Bias::Scalar(0.0), &shape);
        assert!(y.is_empty());
        assert!(sums.iter().all(|sum| sum.to_bits() == 0), "{shape:?}: {sums:?}");
    }
    let source = ArrayView::new(&[2f32], &[]).expect("shape fits").into();
    let mut y = [0f32];
    exp(&source, Bias::Scalar(2.0), ArrayMut::new(&mut y, &[]).expect("shape fits"), None).expect("valid call");
    assert_eq!(y, [1.0]);
}

#[test]
fn test_nan_results_and_sums_are_canonical() {
    let x = [f32::from_bits(0xffa0_0001), 1.0, f32::INFINITY, 0.0];
    let source = ArrayView::new(&x, &[2, 2]).expect("shape fits").into();
    for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
        let (y, sums) =
            with_level(level, || exp_of(&source, Bias::PerRow(&[0.0, f32::INFINITY]), &[2, 2])).expect("there");
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&y), [0x7fc0_0000, 0x402d_f854, 0x7fc0_0000, 0], "{level}");
        assert_eq!(bits(&sums), [0x7fc0_0000; 2], "{level}");
    }
}

#[test]
fn test_a_long_call_can_be_interrupted() {
    // Without the interrupt the scalar level would take seconds, in either way of cutting the work.
    for shape in [[1, 1 << 25], [1 << 15, 1 << 10]] {
        let mut y = vec![0f32; shape[0] * shape[1]];
        let mut sums = vec![0f32; shape[0]];
        let result = with_level(SimdLevel::Scalar, || {
            with_interrupt_check(
                || true,
                || {
                    let out = ArrayMut::new(&mut y, &shape).expect("shape fits");
                    exp(&ElementSource::InPlace(Format::F32), Bias::Scalar(0.0), out, Some(&mut sums))
                },
            )
        });
        assert_eq!(result, Ok(Err(Error::Interrupted)));
        assert_eq!(y.last(), Some(&0.0), "it went on to the end");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn test_modes_of_the_caller_change_nothing() {
    use std::arch::asm;
    let x: Vec<f32> = (0..40_000).map(|index| -87.0 - index as f32 / 2000.0).collect();
    let source = ArrayView::new(&x, &[4, 10_000]).expect("shape fits").into();
    let expected = exp_of(&source, Bias::Scalar(0.0), &[4, 10_000]);
    let (mut before, flushing_toward_zero) = (0u32, 0x1f80u32 | 0x8040 | 0x6000);
    // SAFETY: the control register is read and written through live locals, and restored below.
    unsafe { asm!("stmxcsr [{}]", "ldmxcsr [{}]", in(reg) &raw mut before, in(reg) &raw const flushing_toward_zero) };
    let got = exp_of(&source, Bias::Scalar(0.0), &[4, 10_000]);
    // SAFETY: as above.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const before) };
    assert!(expected.0.iter().any(|y| y.is_subnormal()));
    assert!(got == expected);
}

fn refusal(result: Result<()>) -> (NumericsErrorKind, String) {
    let error = result.expect_err("the call is wrong");
    (error.kind(), error.to_string())
}

#[test]
fn test_refusals_name_what_came_and_what_is_allowed() {
    let x = values(6);
    let source: ElementSource<'_> = ArrayView::new(&x, &[2, 3]).expect("shape fits").into();
    let no_bias = Bias::Scalar(0.0);
    let mut y = [0f32; 6];
    let mut refuse = |source: &ElementSource<'_>, bias: Bias<'_>, shape: &[usize], sums: Option<&mut [f32]>| {
        refusal(exp(source, bias, ArrayMut::new(&mut y, shape).expect("shape fits"), sums))
    };

    let message = "bias has shape [3]; one value for each row is needed: 2 for rows of shape [2]";
    assert_eq!(refuse(&source, Bias::PerRow(&[0.0; 3]), &[2, 3], None), (NumericsErrorKind::Value, message.into()));

    let message = "sums has shape [1]; one value for each row is needed: 2 for rows of shape [2]";
    assert_eq!(refuse(&source, no_bias, &[2, 3], Some(&mut [0.0])), (NumericsErrorKind::Value, message.into()));

    let message = "out has shape [3, 2]; it must have shape [2, 3]";
    assert_eq!(refuse(&source, no_bias, &[3, 2], None), (NumericsErrorKind::Value, message.into()));

    let codes = ArrayView::from_codes(Format::F8E5M2, &[0; 6], &[2, 3]).expect("shape fits").into();
    let message = "x has dtype float8_e5m2; allowed: float32, bfloat16, float16";
    assert_eq!(refuse(&codes, no_bias, &[2, 3], None), (NumericsErrorKind::Dtype, message.into()));

    let message = "x has dtype bfloat16; allowed: a dtype of 4 bytes, as the output it is read from";
    let in_place = ElementSource::InPlace(Format::Bf16);
    assert_eq!(refuse(&in_place, no_bias, &[2, 3], None), (NumericsErrorKind::Dtype, message.into()));

    let mut narrow = [0u8; 6];
    let out = ArrayMut::from_codes(Format::F8E4M3, &mut narrow, &[2, 3]).expect("shape fits");
    let message = "out_dtype is float8_e4m3; allowed: float32, bfloat16, float16";
    assert_eq!(refusal(exp(&source, no_bias, out, None)), (NumericsErrorKind::Dtype, message.into()));
}

#[test]
fn test_0_d_arrays_have_no_rows() {
    let source: ElementSource<'_> = ArrayView::new(&[1f32], &[]).expect("shape fits").into();
    let mut y = [0f32];
    let out = ArrayMut::new(&mut y, &[]).expect("shape fits");
    let result = exp(&source, Bias::Scalar(0.0), out, Some(&mut [0.0]));
    let message = "x has shape []; sums: one value a row needs an axis that rows lie along";
    assert_eq!(refusal(result), (NumericsErrorKind::Value, message.into()));
    let result = exp(&source, Bias::PerRow(&[1.0]), ArrayMut::new(&mut y, &[]).expect("shape fits"), None);
    let message = "x has shape []; bias: one value a row needs an axis that rows lie along";
    assert_eq!(refusal(result), (NumericsErrorKind::Value, message.into()));
}
