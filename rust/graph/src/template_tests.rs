//! Templates against the execution by operation, bit for bit.

use std::sync::Arc;

use proptest::prelude::*;
use trn3_compiler::{CompileLevel, CompileOptions};
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;

use crate::by_instructions_tests::{arch, both, graph, operation, tensor};
use crate::{ExecutionOptions, Graph, MatmulPath, TemplateKind, Tensor, TensorType};

/// The templates of a graph's operations on a machine; values are checked against the execution by operation.
fn templates(arch: &Arc<ArchSpec>, graph: &Graph, inputs: Vec<Tensor>, matmul: MatmulPath) -> Vec<TemplateKind> {
    let options = ExecutionOptions { matmul, ..Default::default() };
    let expected = graph.execute(inputs.clone(), &options).unwrap();
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    let mut run = graph.run_on_core(arch, Some(inputs), &options, &compile).unwrap();
    for (found, expected) in run.results.iter().zip(&expected) {
        assert_eq!(found.as_ref().unwrap().bytes(), expected.bytes());
    }
    run.account(graph).into_iter().map(|row| row.template).collect()
}

/// One convolution of images [images, features, height, width] or with features last.
#[derive(Clone, Debug)]
struct Case {
    images: usize,
    size: [usize; 2],
    inputs: usize,
    outputs: usize,
    window: [usize; 2],
    strides: [usize; 2],
    padding: [[i64; 2]; 2],
    base_dilation: [usize; 2],
    window_dilation: [usize; 2],
    groups: usize,
    are_features_last: bool,
    reversal: [bool; 2],
}

impl Case {
    /// Lengths of the result; None where there is none.
    fn made(&self) -> Option<[usize; 2]> {
        let length = |axis: usize| {
            let spread = (self.size[axis] - 1) as i64 * self.base_dilation[axis] as i64 + 1;
            let padded = self.padding[axis][0] + spread + self.padding[axis][1];
            let reach = ((self.window[axis] - 1) * self.window_dilation[axis] + 1) as i64;
            (padded >= reach).then(|| ((padded - reach) / self.strides[axis] as i64) as usize + 1)
        };
        Some([length(0)?, length(1)?])
    }

    fn check(&self, dtype: DType, matmul: MatmulPath) {
        let Some([height, width]) = self.made() else { return };
        let (inputs, outputs) = (self.inputs * self.groups, self.outputs * self.groups);
        let shape = |features: usize, size: [usize; 2]| {
            if self.are_features_last {
                [self.images, size[0], size[1], features]
            } else {
                [self.images, features, size[0], size[1]]
            }
        };
        let image = if self.are_features_last {
            r#"{"batch": 0, "spatial": [1, 2], "feature": 3}"#
        } else {
            r#"{"batch": 0, "feature": 1, "spatial": [2, 3]}"#
        };
        let (kernel, layout) = if self.are_features_last {
            (
                [self.window[0], self.window[1], self.inputs, outputs],
                r#"{"spatial": [0, 1], "input_feature": 2, "output_feature": 3}"#,
            )
        } else {
            (
                [outputs, self.inputs, self.window[0], self.window[1]],
                r#"{"output_feature": 0, "input_feature": 1, "spatial": [2, 3]}"#,
            )
        };
        let attributes = format!(
            r#"{{"window_strides": {:?}, "padding": {:?}, "lhs_dilation": {:?}, "rhs_dilation": {:?}, "lhs_layout": {image},
                "rhs_layout": {layout}, "out_layout": {image}, "feature_groups": {}, "reversal": {:?}}}"#,
            self.strides, self.padding, self.base_dilation, self.window_dilation, self.groups, self.reversal
        );
        let (x, kernel) = (TensorType::new(dtype, &shape(inputs, self.size)), TensorType::new(dtype, &kernel));
        let made = TensorType::new(dtype, &shape(outputs, [height, width]));
        let graph = graph(&[&x, &kernel], &operation("convolution", "[0, 1]", &made, &attributes), "[2]");
        both(&graph, vec![tensor(&x, 1), tensor(&kernel, 2)], &ExecutionOptions { matmul, ..Default::default() });
    }
}

fn case() -> Case {
    Case {
        images: 1,
        size: [7, 6],
        inputs: 3,
        outputs: 5,
        window: [3, 3],
        strides: [1, 1],
        padding: [[1, 1], [1, 1]],
        base_dilation: [1, 1],
        window_dilation: [1, 1],
        groups: 1,
        are_features_last: false,
        reversal: [false, false],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn test_convolutions_have_the_same_bits_both_ways(
        images in 1usize..3, size in [3usize..9, 3usize..9], inputs in prop::sample::select(vec![1usize, 3, 32, 40, 130]),
        outputs in prop::sample::select(vec![2usize, 7, 131]), window in [1usize..4, 1usize..4], strides in [1usize..3, 1usize..3],
        padding in [[-1i64..3, -1i64..3], [-1i64..3, -1i64..3]], base in 1usize..3, dilation in 1usize..3, groups in 1usize..3,
        are_features_last: bool, reversal: [bool; 2], is_half: bool,
    ) {
        let case = Case {
            images, size, inputs, outputs, window, strides, padding, base_dilation: [base, 1], window_dilation: [1, dilation],
            groups, are_features_last, reversal,
        };
        case.check(if is_half { DType::BFloat16 } else { DType::Float32 }, MatmulPath::AsTyped);
    }
}

#[test]
fn test_convolutions_take_the_path_that_products_are_asked_for_on() {
    for matmul in [MatmulPath::Bf16, MatmulPath::Mxfp8, MatmulPath::Mxfp4] {
        case().check(DType::Float32, matmul);
        let wide = Case { inputs: 40, are_features_last: true, size: [4, 4], ..case() };
        wide.check(DType::Float32, matmul);
    }
}

#[test]
fn test_large_windows_and_long_lines_have_the_same_bits_both_ways() {
    // The gradient of kernels: windows are few, and their places are many.
    let places = Case { size: [9, 9], window: [8, 7], padding: [[0, 0], [0, 1]], inputs: 33, ..case() };
    places.check(DType::BFloat16, MatmulPath::AsTyped);
    // More positions than one product takes, and more than the transposes of one tile.
    let long = Case { size: [3, 530], inputs: 32, outputs: 3, window: [2, 2], ..case() };
    long.check(DType::BFloat16, MatmulPath::AsTyped);
    Case { are_features_last: true, ..long }.check(DType::BFloat16, MatmulPath::AsTyped);
}

#[test]
fn test_convolutions_keep_tensor_engine_busy() {
    let (x, kernel) =
        (TensorType::new(DType::BFloat16, &[1, 128, 28, 28]), TensorType::new(DType::BFloat16, &[128, 128, 3, 3]));
    let image = r#"{"batch": 0, "feature": 1, "spatial": [2, 3]}"#;
    let attributes = format!(
        r#"{{"window_strides": [1, 1], "padding": [[1, 1], [1, 1]], "lhs_dilation": [1, 1], "rhs_dilation": [1, 1],
            "lhs_layout": {image}, "rhs_layout": {{"output_feature": 0, "input_feature": 1, "spatial": [2, 3]}},
            "out_layout": {image}}}"#
    );
    let graph = graph(&[&x, &kernel], &operation("convolution", "[0, 1]", &x, &attributes), "[2]");
    let options = ExecutionOptions::default();
    let mut run = graph.run_on_core(&arch(), None, &options, &CompileOptions::default()).unwrap();
    let row = run.account(&graph).remove(0);
    assert_eq!((row.template, row.macs), (TemplateKind::Instructions, 28 * 28 * 128 * 128 * 9));
    // Two boxes of the result, nine places each: a product is one instruction, not one a pixel.
    assert!(row.instructions < 60, "{row:?}");
}

/// A machine with room for so many bytes of a partition.
fn small(bytes: u64) -> Arc<ArchSpec> {
    let mut arch = ArchSpec::load("trn3").unwrap();
    arch.sbuf_partition_bytes = arch.sbuf_reserved_bytes + bytes;
    Arc::new(arch)
}

#[test]
fn test_what_does_not_fit_on_chip_is_cut_where_the_operation_allows() {
    let kind = |shape: &[usize]| TensorType::new(DType::Float32, shape);
    let arch = small(256);
    let run = |graph: &Graph, kinds: &[&TensorType]| {
        let inputs = kinds.iter().enumerate().map(|(seed, kind)| tensor(kind, seed as u32 + 1)).collect();
        assert_eq!(templates(&arch, graph, inputs, MatmulPath::AsTyped), [TemplateKind::GpSimdFunction]);
    };
    let (x, line) = (kind(&[48, 7, 64]), kind(&[48, 64]));
    for dimension in [0, 2] {
        let text = operation("sort", "[0]", &x, &format!(r#"{{"dimension": {dimension}}}"#));
        run(&graph(&[&x], &text, "[1]"), &[&x]);
    }
    let index = serde_json::to_string(&line.with_dtype(DType::Int32)).unwrap();
    let value = serde_json::to_string(&line).unwrap();
    let text = format!(
        r#"{{"op": "arg_reduce", "operands": [0], "results": [{value}, {index}],
            "attributes": {{"dimension": 1, "function": "minimum"}}}}"#
    );
    run(&graph(&[&x], &text, "[1, 2]"), &[&x]);
    let text = operation("reverse", "[0]", &x, r#"{"dimensions": [1]}"#);
    run(&graph(&[&x], &text, "[1]"), &[&x]);
    let whole = TensorType::new(DType::Int32, &[90, 70]);
    let other = TensorType::new(DType::Int32, &[70, 80]);
    let made = TensorType::new(DType::Int32, &[90, 80]);
    let text = operation("dot_general", "[0, 1]", &made, r#"{"contracting": [[1], [0]]}"#);
    run(&graph(&[&whole, &other], &text, "[2]"), &[&whole, &other]);
    let (source, init) = (kind(&[48, 3, 64]), kind(&[]));
    let text = operation(
        "select_and_scatter",
        "[0, 1, 2]",
        &x,
        r#"{"window": [1, 3, 1], "strides": [1, 2, 1], "padding": [[0, 0], [0, 0], [0, 0]], "select": "ge", "scatter": "add"}"#,
    );
    run(&graph(&[&x, &source, &init], &text, "[3]"), &[&x, &source, &init]);
}

#[test]
fn test_rows_and_elements_are_gathered_and_joined_by_their_indices() {
    let kind = |shape: &[usize]| TensorType::new(DType::BFloat16, shape);
    let whole = |shape: &[usize]| TensorType::new(DType::Int32, shape);
    let numbers = |kind: &TensorType, spread: i64, low: i64| {
        let values = (0..kind.elements() as i64).map(|place| place * 7919 % spread + low);
        Tensor::from_integers(kind.clone(), values).unwrap()
    };
    let check = |graph: &Graph, inputs: Vec<Tensor>| {
        both(graph, inputs.clone(), &ExecutionOptions::default());
        assert_eq!(templates(&arch(), graph, inputs, MatmulPath::AsTyped), [TemplateKind::Instructions]);
    };
    // The gradient of an embedding: rows come again within a tile and in others, and some lie outside.
    let (table, places, updates) = (kind(&[60, 9]), whole(&[300]), kind(&[300, 9]));
    for function in ["add", "maximum", "replace"] {
        let attributes = format!(
            r#"{{"update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
                "index_vector_dim": 1, "function": "{function}"}}"#
        );
        let graph = graph(&[&table, &places, &updates], &operation("scatter", "[0, 1, 2]", &table, &attributes), "[3]");
        check(&graph, vec![tensor(&table, 1), numbers(&places, 70, -4), tensor(&updates, 2)]);
    }
    // One element of each row, as a loss picks them, and its gradient.
    let (x, places, picked) = (kind(&[130, 50]), whole(&[130, 1]), kind(&[130, 1]));
    let pick = r#"{"offset_dims": [], "collapsed_slice_dims": [1], "operand_batching_dims": [0],
        "start_indices_batching_dims": [0], "start_index_map": [1], "index_vector_dim": 2, "slice_sizes": [1, 1]}"#;
    let picks = graph(&[&x, &places], &operation("gather", "[0, 1]", &picked, pick), "[2]");
    check(&picks, vec![tensor(&x, 1), numbers(&places, 60, -5)]);
    let joins = r#"{"update_window_dims": [], "inserted_window_dims": [1], "input_batching_dims": [0],
        "scatter_indices_batching_dims": [0], "scatter_dims_to_operand_dims": [1], "index_vector_dim": 2,
        "function": "add"}"#;
    let joined = graph(&[&x, &places, &picked], &operation("scatter", "[0, 1, 2]", &x, joins), "[3]");
    check(&joined, vec![tensor(&x, 1), numbers(&places, 60, -5), tensor(&picked, 2)]);
    let pairs = r#"{"offset_dims": [], "collapsed_slice_dims": [0, 1], "start_index_map": [1, 0], "index_vector_dim": 1,
        "slice_sizes": [1, 1]}"#;
    let (two, single) = (whole(&[140, 2]), kind(&[140]));
    let by_pairs = graph(&[&x, &two], &operation("gather", "[0, 1]", &single, pairs), "[2]");
    check(&by_pairs, vec![tensor(&x, 1), numbers(&two, 140, -5)]);
}

/// Numbers that steps could get wrong: ends, halves, signs of zero, what is no number.
fn special(kind: &TensorType) -> Tensor {
    let ends = [
        0.0, 0.5, 1.0, 1.5, 2.5, 0.49999997, 8388607.5, 4194304.0, 4194303.5, 2e9, 3e9, 1e20, 1e-40, 3.4e38, 0.3, 127.6,
    ];
    let ends =
        ends.into_iter().flat_map(|x: f32| [x, -x]).chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN]);
    let spread = (0..).map(|place: i32| ((place * 7919 % 2003) as f32 - 1001.0) * 0.1237);
    Tensor::from_floats(kind.clone(), ends.chain(spread).take(kind.elements()).collect()).unwrap()
}

#[test]
fn test_steps_of_functions_have_the_same_bits_for_every_kind_of_number() {
    let names = [
        "floor",
        "ceil",
        "round_nearest_even",
        "round_nearest_afz",
        "sine",
        "cosine",
        "tan",
        "log_plus_one",
        "cbrt",
        "is_finite",
    ];
    for dtype in [DType::Float32, DType::BFloat16] {
        let kind = TensorType::new(dtype, &[130, 4]);
        for name in names {
            let made = if name == "is_finite" { kind.with_dtype(DType::Bool) } else { kind.clone() };
            let graph = graph(&[&kind], &operation(name, "[0]", &made, "{}"), "[1]");
            let found = templates(&arch(), &graph, vec![special(&kind)], MatmulPath::AsTyped);
            assert_eq!(found, [TemplateKind::Instructions], "{name}");
        }
        for to in [DType::Int32, DType::UInt32, DType::Int16, DType::UInt16, DType::Int8] {
            let graph = graph(&[&kind], &operation("convert", "[0]", &kind.with_dtype(to), "{}"), "[1]");
            let found = templates(&arch(), &graph, vec![special(&kind)], MatmulPath::AsTyped);
            assert_eq!(found, [TemplateKind::Instructions], "{to}");
        }
    }
}

#[test]
fn test_steps_of_whole_numbers_have_the_same_bits() {
    let types = [DType::Int32, DType::UInt32, DType::Int16, DType::UInt16, DType::Int8, DType::UInt8];
    for dtype in types {
        let kind = TensorType::new(dtype, &[130, 3]);
        let ends =
            [0, 1, -1, 127, 128, -128, -129, 32767, 32768, -32768, 65535, i64::from(i32::MAX), i64::from(i32::MIN)];
        let values = ends.into_iter().chain((0..).map(|place| place * 1_234_567_891 - 400));
        let x = Tensor::from_integers(kind.clone(), values.take(kind.elements())).unwrap();
        for to in types.into_iter().filter(|&to| to != DType::UInt8 && to != dtype) {
            let graph = graph(&[&kind], &operation("convert", "[0]", &kind.with_dtype(to), "{}"), "[1]");
            let found = templates(&arch(), &graph, vec![x.clone()], MatmulPath::AsTyped);
            assert_eq!(found, [TemplateKind::Instructions], "{dtype} to {to}");
        }
        let is_word = dtype.size() == 4;
        for (name, has_steps) in
            [("negate", is_word), ("abs", is_word), ("sign", is_word), ("not", dtype != DType::UInt8)]
        {
            let graph = graph(&[&kind], &operation(name, "[0]", &kind, "{}"), "[1]");
            let found = templates(&arch(), &graph, vec![x.clone()], MatmulPath::AsTyped);
            let expected = if has_steps { TemplateKind::Instructions } else { TemplateKind::GpSimdFunction };
            assert_eq!(found, [expected], "{name} of {dtype}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn test_windows_have_the_same_bits_both_ways(
        shape in [1usize..4, 1usize..12, 1usize..12, 1usize..4], window in [1usize..4, 1usize..4], strides in [1usize..3, 1usize..3],
        padding in [[-1i64..3, -1i64..3], [-1i64..3, -1i64..3]], base in 1usize..3, dilation in 1usize..3,
        is_inner: bool, function in prop::sample::select(vec!["add", "maximum", "minimum", "multiply"]), is_half: bool,
    ) {
        // The two axes that slide come last, or before the last one.
        let of = |one: [usize; 2], rest: usize| if is_inner { [rest, rest, one[0], one[1]] } else { [rest, one[0], one[1], rest] };
        let [low, high] = [padding[0], padding[1]];
        let paddings = if is_inner { [[0, 0], [0, 0], low, high] } else { [[0, 0], low, high, [0, 0]] };
        let (window, strides) = (of(window, 1), of(strides, 1));
        let (base, dilation) = (of([1, base], 1), of([dilation, 1], 1));
        let made: Option<Vec<usize>> = (0..4).map(|axis| {
            let spread = (shape[axis] - 1) as i64 * base[axis] as i64 + 1;
            let padded = paddings[axis][0] + spread + paddings[axis][1];
            let reach = ((window[axis] - 1) * dilation[axis] + 1) as i64;
            (padded >= reach).then(|| ((padded - reach) / strides[axis] as i64) as usize + 1)
        }).collect();
        let Some(made) = made else { return Ok(()) };
        let dtype = if is_half { DType::BFloat16 } else { DType::Float32 };
        let (x, init, made) = (TensorType::new(dtype, &shape), TensorType::new(dtype, &[]), TensorType::new(dtype, &made));
        let attributes = format!(
            r#"{{"window": {window:?}, "strides": {strides:?}, "base_dilations": {base:?}, "window_dilations": {dilation:?},
                "padding": {paddings:?}, "function": "{function}"}}"#
        );
        let graph = graph(&[&x, &init], &operation("reduce_window", "[0, 1]", &made, &attributes), "[2]");
        both(&graph, vec![tensor(&x, 1), tensor(&init, 2)], &ExecutionOptions::default());
    }
}

#[test]
fn test_pooling_and_running_sums_are_instructions() {
    let check = |shape: &[usize], made: &[usize], attributes: &str| {
        let (x, init) = (TensorType::new(DType::BFloat16, shape), TensorType::new(DType::BFloat16, &[]));
        let made = TensorType::new(DType::BFloat16, made);
        let graph = graph(&[&x, &init], &operation("reduce_window", "[0, 1]", &made, attributes), "[2]");
        let inputs = vec![tensor(&x, 1), tensor(&init, 2)];
        assert_eq!(
            templates(&arch(), &graph, inputs, MatmulPath::AsTyped),
            [TemplateKind::Instructions],
            "{attributes}"
        );
    };
    let all = |rank: usize| format!("{:?}", vec![1; rank]);
    let pool = |window: &str, strides: &str, padding: &str| {
        let one = all(4);
        format!(
            r#"{{"window": {window}, "strides": {strides}, "base_dilations": {one}, "window_dilations": {one},
                "padding": {padding}, "function": "maximum"}}"#
        )
    };
    let first = pool("[1, 1, 3, 3]", "[1, 1, 2, 2]", "[[0, 0], [0, 0], [1, 1], [1, 1]]");
    check(&[2, 70, 12, 12], &[2, 70, 6, 6], &first);
    let last = pool("[1, 3, 3, 1]", "[1, 2, 2, 1]", "[[0, 0], [0, 1], [0, 1], [0, 0]]");
    check(&[1, 300, 6, 5], &[1, 150, 3, 5], &last);
    for (shape, window, padding) in
        [(&[3, 5000][..], "[1, 5000]", "[[0, 0], [4999, 0]]"), (&[2, 40, 3], "[1, 40, 1]", "[[0, 0], [39, 0], [0, 0]]")]
    {
        for function in ["add", "maximum"] {
            let one = all(shape.len());
            let attributes = format!(
                r#"{{"window": {window}, "strides": {one}, "base_dilations": {one}, "window_dilations": {one},
                    "padding": {padding}, "function": "{function}"}}"#
            );
            check(shape, shape, &attributes);
        }
    }
}

#[test]
fn test_recipes_of_quantisation_are_instructions() {
    let recipe = |left: &str, right: &str| format!(r#"{{"contracting": [[1], [0]], "lhs": {left}, "rhs": {right}}}"#);
    let side = |format: &str, rule: &str| format!(r#"{{"format": "{format}", "scale_rule": "{rule}"}}"#);
    let wide = recipe(&side("float8_e4m3fn", "trn3"), &side("float8_e5m2", "rceil"));
    let narrow = recipe(&side("float8_e5m2", "ocp"), &side("float4_e2m1fn", "ocp"));
    for (dtype, attributes) in [(DType::BFloat16, &wide), (DType::Float32, &wide), (DType::Float32, &narrow)] {
        let kind = |shape: &[usize]| TensorType::new(dtype, shape);
        let (left, right) = (kind(&[9, 150]), kind(&[150, 7]));
        let graph = graph(&[&left, &right], &operation("mx_dot", "[0, 1]", &kind(&[9, 7]), attributes), "[2]");
        let inputs = vec![tensor(&left, 1), tensor(&right, 2)];
        assert_eq!(templates(&arch(), &graph, inputs, MatmulPath::AsTyped), [TemplateKind::Instructions]);
    }
}

#[test]
fn test_gradients_of_embeddings_are_timed_without_values() {
    // Zeros of one number with rows added to them: what a table's gradient is.
    let attributes = r#"{"update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
        "index_vector_dim": 1, "function": "add"}"#;
    let gradient = |rows: usize, width: usize, count: usize| {
        let kind = |shape: &[usize]| TensorType::new(DType::Float32, shape);
        let (zero, table) = (kind(&[]), kind(&[rows, width]));
        let (places, updates) = (TensorType::new(DType::Int32, &[count, 1]), kind(&[count, width]));
        let operations = [
            operation("broadcast_in_dim", "[0]", &table, r#"{"dimensions": []}"#),
            operation("scatter", "[3, 1, 2]", &table, attributes),
        ];
        (graph(&[&zero, &places, &updates], &operations.join(", "), "[4]"), [zero, places, updates])
    };
    let (small, kinds) = gradient(700, 9, 300);
    let places = (0..300).map(|place| place * 97 % 701);
    let places = Tensor::from_integers(kinds[1].clone(), places).unwrap();
    both(&small, vec![tensor(&kinds[0], 1), places, tensor(&kinds[2], 2)], &ExecutionOptions::default());
    let (large, _) = gradient(32_000, 1024, 2048);
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    let mut run = large.run_on_core(&arch(), None, &ExecutionOptions::default(), &compile).unwrap();
    let (time, bytes) = (run.makespan().0 as f64 / 1e6, run.account(&large).pop().unwrap().hbm_bytes);
    assert!(bytes < 200 << 20, "{bytes} bytes");
    // Elements of the table one by one would be 14 ms.
    assert!(time < 1000.0, "{time} us");
}

#[test]
fn test_reductions_of_whole_numbers_are_cut_to_what_an_instruction_takes() {
    let reduction = |x: &TensorType, dimensions: &[usize], function: &str| {
        let kept: Vec<usize> =
            (0..x.rank()).filter(|axis| !dimensions.contains(axis)).map(|axis| x.shape[axis]).collect();
        let attributes = format!(r#"{{"dimensions": {dimensions:?}, "function": "{function}"}}"#);
        let text = operation("reduce", "[0, 1]", &x.with_shape(&kept), &attributes);
        graph(&[x, &x.with_shape(&[])], &text, "[2]")
    };
    // A mask of attention over 2,048 tokens: more bytes of a partition than an instruction takes elements.
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    for dimensions in [&[2][..], &[0], &[0, 1, 2]] {
        let any = reduction(&TensorType::new(DType::Bool, &[4, 2048, 2048]), dimensions, "or");
        let mut run = any.run_on_core(&arch(), None, &ExecutionOptions::default(), &compile).unwrap();
        assert_eq!(run.account(&any)[0].template, TemplateKind::GpSimdFunction);
    }
    // More than fits on chip, of one result.
    for (function, start) in [("add", 7), ("xor", 7), ("maximum", -7)] {
        let x = TensorType::new(DType::Int32, &[7_000_003]);
        let start = Tensor::from_integers(x.with_shape(&[]), [start]).unwrap();
        both(&reduction(&x, &[0], function), vec![tensor(&x, 1), start], &ExecutionOptions::default());
    }
}
