//! Reductions over any axes: both executions, the truth, and what they cost.

use proptest::prelude::*;
use trn3_compiler::{CompileLevel, CompileOptions};
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;

use crate::by_instructions_tests::{arch, both, graph, operation, tensor};
use crate::{AccountRow, ExecutionOptions, Graph, TemplateKind, Tensor, TensorType};

fn reduction(x: &TensorType, dimensions: &[usize], function: &str) -> Graph {
    let kept: Vec<usize> = (0..x.rank()).filter(|axis| !dimensions.contains(axis)).map(|axis| x.shape[axis]).collect();
    let attributes = format!(r#"{{"dimensions": {dimensions:?}, "function": "{function}"}}"#);
    let text = operation("reduce", "[0, 1]", &x.with_shape(&kept), &attributes);
    graph(&[x, &x.with_shape(&[])], &text, "[2]")
}

fn number(dtype: DType, value: f32) -> Tensor {
    Tensor::from_floats(TensorType::new(dtype, &[]), vec![value]).unwrap()
}

/// Sums in float64, and sums of magnitudes, one for each result.
fn truth(x: &Tensor, dimensions: &[usize], count: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut sums, mut sizes) = (vec![0.0; count], vec![0.0; count]);
    for (mut rest, &value) in x.floats().unwrap().iter().enumerate() {
        let (mut place, mut step) = (0, 1);
        for (axis, &length) in x.shape().iter().enumerate().rev() {
            if !dimensions.contains(&axis) {
                place += rest % length * step;
                step *= length;
            }
            rest /= length;
        }
        sums[place] += f64::from(value);
        sizes[place] += f64::from(value.abs());
    }
    (sums, sizes)
}

fn check_sum(x: &TensorType, dimensions: &[usize]) {
    let graph = reduction(x, dimensions, "add");
    let inputs = vec![tensor(x, 1), number(x.dtype, 0.0)];
    both(&graph, inputs.clone(), &ExecutionOptions::default());
    let (sums, sizes) = truth(&inputs[0], dimensions, graph.body.output_types()[0].elements());
    let found = graph.execute(inputs, &ExecutionOptions::default()).unwrap();
    let place = if x.dtype == DType::Float32 { 2f64.powi(-24) } else { 2f64.powi(-8) };
    for ((found, sum), size) in found[0].floats().unwrap().iter().zip(sums).zip(sizes) {
        let bound = place * sum.abs() + 300.0 * 2f64.powi(-24) * size;
        assert!((f64::from(*found) - sum).abs() <= bound, "{x} over {dimensions:?}: {found} is not {sum}");
    }
}

const FLOATS: [DType; 6] =
    [DType::Float32, DType::BFloat16, DType::Float16, DType::Float8E4M3, DType::Float8E4M3Fn, DType::Float8E5M2];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn test_reductions_over_any_axes_have_the_same_bits_both_ways(
        lengths in prop::collection::vec(prop::sample::select(vec![1usize, 2, 3, 5, 16, 37, 128, 131, 300]), 1..4), mask in 1u8..8,
        function in prop::sample::select(vec!["add", "maximum", "minimum", "multiply"]),
        dtype in prop::sample::select(&FLOATS[..]),
    ) {
        prop_assume!(lengths.iter().product::<usize>() < 1 << 18);
        let dimensions: Vec<usize> = (0..lengths.len()).filter(|axis| mask >> axis & 1 == 1).collect();
        let x = TensorType::new(dtype, &lengths);
        let inputs = vec![tensor(&x, 1), tensor(&x.with_shape(&[]), 2)];
        both(&reduction(&x, &dimensions, function), inputs, &ExecutionOptions::default());
    }
}

#[test]
fn test_sums_over_any_axes_are_near_the_truth() {
    let cases: [(&[usize], &[usize]); 12] = [
        (&[1000, 40], &[0]),
        (&[127, 300], &[0]),
        (&[257, 2100], &[0]),
        (&[70_000], &[0]),
        (&[3, 20_001], &[1]),
        (&[16, 9000], &[1]),
        (&[5, 300, 64], &[1]),
        (&[4, 130, 3000], &[1]),
        (&[20, 30, 40], &[0, 2]),
        (&[6, 150, 7, 9], &[0, 2]),
        (&[6, 17, 300, 5], &[1, 3]),
        (&[3, 20_000], &[0]),
    ];
    for (shape, dimensions) in cases {
        for dtype in [DType::Float32, DType::BFloat16] {
            check_sum(&TensorType::new(dtype, shape), dimensions);
        }
    }
}

#[test]
fn test_zeros_keep_their_sign_and_nan_goes_through_both_ways() {
    let special = [-0.0, 0.0, -0.0, 1.0, f32::INFINITY, f32::NAN, f32::NEG_INFINITY, -1.0, f32::MAX, 1e-45];
    for (shape, dimensions) in [(&[300, 10][..], &[0][..]), (&[130, 10], &[0]), (&[5, 10], &[0]), (&[5000], &[0])] {
        let x = TensorType::new(DType::Float32, shape);
        for function in ["add", "maximum", "minimum", "multiply"] {
            for case in 0..4 {
                // Columns of one special value each, of negative zeros alone, and of them mixed along the joined axis.
                let value = |place: usize| match case {
                    0 => special[place % 10],
                    1 => -0.0,
                    2 => special[place / 10 % 3],
                    _ => special[place * 7 % 11 % 10],
                };
                let values = (0..x.elements()).map(value).collect();
                let inputs = vec![Tensor::from_floats(x.clone(), values).unwrap(), number(x.dtype, -0.0)];
                both(&reduction(&x, dimensions, function), inputs, &ExecutionOptions::default());
            }
        }
    }
}

#[test]
fn test_every_generation_has_the_same_bits() {
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    for name in ["trn1", "trn2", "trn3"] {
        let arch = ArchSpec::shared(name).unwrap();
        for (shape, dimensions) in [(&[300, 70][..], &[0][..]), (&[2, 9000], &[1]), (&[3, 40, 2000], &[0, 1])] {
            for (function, dtype) in [("add", DType::Float32), ("add", DType::BFloat16), ("maximum", DType::Float32)] {
                let x = TensorType::new(dtype, shape);
                let graph = reduction(&x, dimensions, function);
                let mut inputs = vec![tensor(&x, 1), number(dtype, -1.0)];
                let mut values = inputs[0].floats().unwrap().into_owned();
                values[17] = f32::INFINITY;
                inputs[0] = Tensor::from_floats(x.clone(), values).unwrap();
                let expected = graph.execute(inputs.clone(), &ExecutionOptions::default()).unwrap();
                let run = graph.run_on_core(&arch, Some(inputs), &ExecutionOptions::default(), &compile).unwrap();
                let found = run.results[0].as_ref().unwrap();
                assert_eq!(found.bytes(), expected[0].bytes(), "{name}: {function} of {x}");
            }
        }
    }
}

#[test]
fn test_whole_numbers_wrap_along_any_axes() {
    for dimensions in [&[0][..], &[1], &[0, 1]] {
        let x = TensorType::new(DType::Int32, &[300, 20]);
        let inputs = vec![tensor(&x, 1), tensor(&x.with_shape(&[]), 2)];
        let graph = reduction(&x, dimensions, "add");
        both(&graph, inputs.clone(), &ExecutionOptions::default());
        let sum: i64 = inputs[0].integers().unwrap().iter().sum::<i64>();
        assert!(i32::try_from(sum).is_err(), "the sum of all does not wrap");
    }
}

/// The account's only row and the time, without values.
fn cost(x: &TensorType, dimensions: &[usize], function: &str) -> (AccountRow, f64) {
    let graph = reduction(x, dimensions, function);
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    let mut run = graph.run_on_core(&arch(), None, &ExecutionOptions::default(), &compile).unwrap();
    let row = run.account(&graph).remove(0);
    assert_eq!(row.template, TemplateKind::Instructions);
    (row, run.makespan().0 as f64 / 1e6)
}

/// Microseconds that the core's DMA engines take for so many bytes.
fn transfer_us(bytes: u64) -> f64 {
    let arch = arch();
    bytes as f64 / (arch.dma_engine_bytes_per_ns * arch.dma_engines as f64) / 1e3
}

#[test]
fn test_reductions_over_any_axes_are_bound_by_memory() {
    let cases: [(DType, &[usize], &[usize]); 9] = [
        (DType::Float32, &[16_384, 4096], &[0]),
        (DType::BFloat16, &[16_384, 4096], &[0]),
        (DType::Float32, &[16_384, 4096], &[0, 1]),
        (DType::Float32, &[1 << 24], &[0]),
        (DType::Float32, &[8, 2048, 1024], &[0, 1]),
        (DType::Float32, &[32, 1024, 768], &[1]),
        (DType::Float32, &[4, 1 << 20], &[0]),
        (DType::Float32, &[32, 256, 56, 56], &[0, 2, 3]),
        (DType::Float32, &[65_536, 256], &[1]),
    ];
    for (dtype, shape, dimensions) in cases {
        let x = TensorType::new(dtype, shape);
        for function in ["add", "maximum"] {
            let (row, time) = cost(&x, dimensions, function);
            let bound = transfer_us(row.hbm_bytes);
            assert!(time < 2.2 * bound, "{function} of {x} over {dimensions:?}: {time:.0} us, DMA {bound:.0}");
            assert!(row.hbm_bytes < x.bytes() as u64 * 5 / 4 + 4096, "{x}: {} bytes", row.hbm_bytes);
        }
    }
}

#[test]
fn test_what_lies_turned_is_turned_on_chip() {
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    let options = ExecutionOptions::default();
    for (shape, permutation, dimensions) in [
        (&[150, 300][..], "[1, 0]", &[0][..]),
        (&[150, 300], "[1, 0]", &[1]),
        (&[3, 40, 300], "[0, 2, 1]", &[1]),
        (&[3, 40, 300], "[2, 0, 1]", &[0, 2]),
        (&[5000, 3], "[1, 0]", &[1]),
        (&[4096, 4096], "[1, 0]", &[0]),
        (&[4096, 4096], "[1, 0]", &[1]),
    ] {
        for (dtype, function) in [
            (DType::Float32, "add"),
            (DType::BFloat16, "maximum"),
            (DType::Float8E4M3, "add"),
            (DType::Float32, "maximum"),
        ] {
            let x = TensorType::new(dtype, shape);
            let axes: Vec<usize> = serde_json::from_str(permutation).unwrap();
            let turned = x.with_shape(&axes.iter().map(|&axis| shape[axis]).collect::<Vec<_>>());
            let kept = (0..x.rank()).filter(|axis| !dimensions.contains(axis)).map(|axis| turned.shape[axis]);
            let made = x.with_shape(&kept.collect::<Vec<_>>());
            let operations = [
                operation("transpose", "[0]", &turned, &format!(r#"{{"permutation": {permutation}}}"#)),
                operation(
                    "reduce",
                    "[2, 1]",
                    &made,
                    &format!(r#"{{"dimensions": {dimensions:?}, "function": "{function}"}}"#),
                ),
            ];
            let graph = graph(&[&x, &x.with_shape(&[])], &operations.join(", "), "[3]");
            if x.elements() < 1 << 20 {
                both(&graph, vec![tensor(&x, 1), number(dtype, 0.5)], &options);
            } else if dtype != DType::Float8E4M3 {
                let mut run = graph.run_on_core(&arch(), None, &options, &compile).unwrap();
                let (time, bound) = (run.makespan().0 as f64 / 1e6, transfer_us(x.bytes() as u64));
                assert!(time < 6.0 * bound, "{function} of {x}: {time:.0} us, DMA {bound:.0}");
            }
        }
    }
}
