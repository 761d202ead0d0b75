use std::sync::Arc;

use proptest::prelude::*;
use trn3_compiler::{CompileLevel, CompileOptions};
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_machine::engine::Engine;
use trn3_machine::memory::Finding;

use crate::operations::rows;
use crate::{ExecutionOptions, Graph, GraphError, MatmulPath, TemplateKind, Tensor, TensorType};

pub(crate) fn arch() -> Arc<ArchSpec> {
    Arc::new(ArchSpec::load("trn3").unwrap())
}

/// Numbers that are spread over signs and sizes, the same for a seed.
pub(crate) fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * 3.0
    };
    (0..count).map(|_| next()).collect()
}

pub(crate) fn tensor(kind: &TensorType, seed: u32) -> Tensor {
    let values = numbers(kind.elements(), seed);
    if kind.is_float() {
        return Tensor::from_floats(kind.clone(), values).unwrap();
    }
    let scale = if kind.is_bool() { 1.0 } else { 1e8 };
    let whole = values.iter().map(|value| (f64::from(*value) * scale) as i64);
    if kind.is_bool() {
        return Tensor::from_integers(kind.clone(), values.iter().map(|value| i64::from(*value > 0.0))).unwrap();
    }
    Tensor::from_integers(kind.clone(), whole).unwrap()
}

/// By operation, on one core, and on two that share whatever can be shared: without a race.
pub(crate) fn both(graph: &Graph, inputs: Vec<Tensor>, options: &ExecutionOptions) {
    for cores in [1, 2] {
        each(graph, inputs.clone(), &ExecutionOptions { cores, share_from: 1, ..*options });
    }
}

fn each(graph: &Graph, inputs: Vec<Tensor>, options: &ExecutionOptions) {
    let expected = graph.execute(inputs.clone(), options).unwrap();
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    let mut run = graph.run_on_core(&arch(), Some(inputs), options, &compile).unwrap();
    for core in &mut run.cores {
        let findings = core.state.memory.findings();
        let races: Vec<_> = findings.iter().filter(|finding| matches!(finding, Finding::Race { .. })).collect();
        assert!(races.is_empty(), "{races:?}");
    }
    for (place, (found, expected)) in run.results.iter().zip(&expected).enumerate() {
        let found = found.as_ref().unwrap();
        assert_eq!(found.kind(), expected.kind());
        let differs = found.bytes().iter().zip(expected.bytes()).position(|(one, other)| one != other);
        let element = differs.map(|byte| byte / found.dtype().size());
        let shown = element.map(|at| (found.numbers().unwrap()[at], expected.numbers().unwrap()[at]));
        assert!(differs.is_none(), "output {place} differs at element {element:?}: {shown:?}");
    }
    let untimed = graph.run_on_core(&arch(), None, options, &compile);
    if let Ok(mut untimed) = untimed {
        assert_eq!(untimed.makespan(), run.makespan(), "values change no time");
    }
}

pub(crate) fn graph(inputs: &[&TensorType], operations: &str, outputs: &str) -> Graph {
    let inputs: Vec<String> = inputs.iter().map(|kind| serde_json::to_string(kind).unwrap()).collect();
    let text = format!(
        r#"{{"format": "trn3-graph", "version": 1, "inputs": [{}], "operations": [{operations}], "outputs": {outputs}}}"#,
        inputs.join(", ")
    );
    Graph::from_json(text.as_bytes(), &[]).unwrap()
}

pub(crate) fn operation(op: &str, operands: &str, kind: &TensorType, attributes: &str) -> String {
    let kind = serde_json::to_string(kind).unwrap();
    format!(r#"{{"op": "{op}", "operands": {operands}, "results": [{kind}], "attributes": {attributes}}}"#)
}

#[test]
fn test_every_elementwise_operation_has_the_same_bits_both_ways() {
    let dtypes = [DType::Float32, DType::BFloat16, DType::Int32, DType::UInt32, DType::Int8, DType::Bool];
    let mut seen = 0;
    for dtype in dtypes {
        let kind = TensorType::new(dtype, &[130, 3]);
        for row in rows() {
            for (arity, result) in
                [(1, dtype), (2, dtype), (3, dtype), (1, DType::Bool), (2, DType::Bool), (1, DType::Float32)]
            {
                let attributes = if row.name == "compare" { r#"{"direction": "le"}"# } else { "{}" };
                let first = if row.name == "select" { TensorType::new(DType::Bool, &kind.shape) } else { kind.clone() };
                let kinds: Vec<&TensorType> = [&first, &kind, &kind][..arity].to_vec();
                let text = operation(
                    row.name,
                    &format!("{:?}", (0..arity).collect::<Vec<_>>()),
                    &kind.with_dtype(result),
                    attributes,
                );
                let inputs: Vec<String> = kinds.iter().map(|kind| serde_json::to_string(kind).unwrap()).collect();
                let text = format!(
                    r#"{{"format": "trn3-graph", "version": 1, "inputs": [{}], "operations": [{text}], "outputs": [{arity}]}}"#,
                    inputs.join(", ")
                );
                let Ok(graph) = Graph::from_json(text.as_bytes(), &[]) else { continue };
                if !graph.body.nodes()[0].operation.is_elementwise() {
                    continue;
                }
                seen += 1;
                let inputs = kinds.iter().enumerate().map(|(seed, kind)| tensor(kind, seed as u32 + 1)).collect();
                both(&graph, inputs, &ExecutionOptions::default());
            }
        }
    }
    assert!(seen > 100, "{seen} cases");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn test_products_have_the_same_bits_both_ways(
        m in 1usize..300, k in 0usize..300, n in 1usize..40, batch in 1usize..3,
        is_left_turned: bool, is_right_turned: bool, is_half: bool, matmul in prop::sample::select(&MatmulPath::ALL[..]),
    ) {
        let dtype = if is_half { DType::BFloat16 } else { DType::Float32 };
        let left = if is_left_turned { [batch, k, m] } else { [batch, m, k] };
        let right = if is_right_turned { [batch, n, k] } else { [batch, k, n] };
        let (left, right) = (TensorType::new(dtype, &left), TensorType::new(dtype, &right));
        let attributes = format!(
            r#"{{"contracting": [[{}], [{}]], "batch": [[0], [0]]}}"#,
            if is_left_turned { 1 } else { 2 }, if is_right_turned { 2 } else { 1 },
        );
        let text = operation("dot_general", "[0, 1]", &TensorType::new(dtype, &[batch, m, n]), &attributes);
        let graph = graph(&[&left, &right], &text, "[2]");
        both(&graph, vec![tensor(&left, 1), tensor(&right, 2)], &ExecutionOptions { matmul, ..Default::default() });
    }

    #[test]
    fn test_reductions_have_the_same_bits_both_ways(
        shape in prop::collection::vec(1usize..40, 1..4), mask in 0u8..8, function in prop::sample::select(vec!["add", "maximum", "multiply"]),
    ) {
        let dimensions: Vec<usize> = (0..shape.len()).filter(|axis| mask >> axis & 1 == 1).collect();
        let kept: Vec<usize> = (0..shape.len()).filter(|axis| !dimensions.contains(axis)).map(|axis| shape[axis]).collect();
        let (x, init) = (TensorType::new(DType::BFloat16, &shape), TensorType::new(DType::BFloat16, &[]));
        let attributes = format!(r#"{{"dimensions": {dimensions:?}, "function": "{function}"}}"#);
        let text = operation("reduce", "[0, 1]", &TensorType::new(DType::BFloat16, &kept), &attributes);
        both(&graph(&[&x, &init], &text, "[2]"), vec![tensor(&x, 1), tensor(&init, 2)], &ExecutionOptions::default());
    }
}

#[test]
fn test_tensors_without_elements_have_the_same_bits_both_ways() {
    let kind = |shape: &[usize]| TensorType::new(DType::Float32, shape);
    let (left, right, init) = (kind(&[3, 0]), kind(&[0, 5]), kind(&[]));
    let operations = [
        operation("dot_general", "[0, 1]", &kind(&[3, 5]), r#"{"contracting": [[1], [0]]}"#),
        operation("reduce", "[0, 2]", &kind(&[3]), r#"{"dimensions": [1], "function": "maximum"}"#),
        operation("add", "[1, 1]", &kind(&[0, 5]), "{}"),
        operation("concatenate", "[5, 3]", &kind(&[3, 5]), r#"{"dimension": 0}"#),
        operation("dot_general", "[5, 5]", &kind(&[0, 0]), r#"{"contracting": [[1], [1]]}"#),
    ];
    let graph = graph(&[&left, &right, &init], &operations.join(", "), "[3, 4, 5, 6, 7]");
    let inputs = vec![tensor(&left, 1), tensor(&right, 2), tensor(&init, 3)];
    both(&graph, inputs, &ExecutionOptions::default());
}

#[test]
fn test_quantised_products_over_more_than_one_tile_have_the_same_bits_both_ways() {
    for (matmul, dtype, is_turned) in [
        (MatmulPath::Mxfp8, DType::Float16, false),
        (MatmulPath::Mxfp8, DType::Float8E4M3, true),
        (MatmulPath::Mxfp4, DType::BFloat16, true),
    ] {
        let (m, k, n) = (133, 1090, 5);
        let (left, right) = (TensorType::new(dtype, &[m, k]), TensorType::new(dtype, &[k, n]));
        let turned = TensorType::new(dtype, &[n, k]);
        let right = if is_turned { turned } else { right };
        let attributes = format!(r#"{{"contracting": [[1], [{}]]}}"#, usize::from(is_turned));
        let text = operation("dot_general", "[0, 1]", &TensorType::new(DType::Float32, &[m, n]), &attributes);
        let graph = graph(&[&left, &right], &text, "[2]");
        let inputs = vec![tensor(&left, 1), tensor(&right, 2)];
        both(&graph, inputs.clone(), &ExecutionOptions { matmul, ..Default::default() });
        let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
        let mut run = graph
            .run_on_core(&arch(), Some(inputs), &ExecutionOptions { matmul, ..Default::default() }, &compile)
            .unwrap();
        let row = run.account(&graph).remove(0);
        assert_eq!(row.template, TemplateKind::Instructions);
        // Rows of the result come in even numbers, and the contraction in quarters of the array's 512 rows.
        assert_eq!(row.macs, ((m + 1) * (512 + 512 + 128) * n) as u64);
    }
}

#[test]
fn test_long_rows_are_reduced_in_runs() {
    let (x, init) = (TensorType::new(DType::Float32, &[3, 9000]), TensorType::new(DType::Float32, &[]));
    let text = operation(
        "reduce",
        "[0, 1]",
        &TensorType::new(DType::Float32, &[3]),
        r#"{"dimensions": [1], "function": "add"}"#,
    );
    both(&graph(&[&x, &init], &text, "[2]"), vec![tensor(&x, 1), tensor(&init, 2)], &ExecutionOptions::default());
}

#[test]
fn test_a_softmax_of_a_product_has_the_same_bits_both_ways() {
    let kind = |shape: &[usize]| TensorType::new(DType::BFloat16, shape);
    let (x, w, low) = (kind(&[150, 64]), kind(&[64, 70]), kind(&[]));
    let rows = |function: &str, from: u32, init: u32| {
        operation(
            "reduce",
            &format!("[{from}, {init}]"),
            &kind(&[150]),
            &format!(r#"{{"dimensions": [1], "function": "{function}"}}"#),
        )
    };
    let wide =
        |from: u32| operation("broadcast_in_dim", &format!("[{from}]"), &kind(&[150, 70]), r#"{"dimensions": [0]}"#);
    let each = |op: &str, operands: &str| operation(op, operands, &kind(&[150, 70]), "{}");
    let operations = [
        operation("dot_general", "[0, 1]", &kind(&[150, 70]), r#"{"contracting": [[1], [0]]}"#), // 3
        rows("maximum", 3, 2),
        wide(4),
        each("subtract", "[3, 5]"),
        each("exponential", "[6]"),
        rows("add", 7, 2),
        wide(8),
        each("divide", "[7, 9]"),
        operation("transpose", "[10]", &kind(&[70, 150]), r#"{"permutation": [1, 0]}"#),
        operation("reshape", "[11]", &kind(&[10500]), "{}"),
        operation("concatenate", "[12, 12]", &kind(&[21000]), r#"{"dimension": 0}"#),
    ];
    let graph = graph(&[&x, &w, &low], &operations.join(", "), "[10, 13]");
    let zero = Tensor::from_floats(low, vec![0.0]).unwrap();
    both(&graph, vec![tensor(&x, 1), tensor(&w, 2), zero], &ExecutionOptions::default());
}

#[test]
fn test_the_account_has_every_operation_and_every_instruction() {
    let kind = TensorType::new(DType::Float32, &[256, 256]);
    let turned = operation("transpose", "[0]", &kind, r#"{"permutation": [1, 0]}"#);
    let product = operation("dot_general", "[0, 1]", &kind, r#"{"contracting": [[1], [0]]}"#);
    let (root, next) = (operation("sqrt", "[2]", &kind, "{}"), operation("erf_inv", "[3]", &kind, "{}"));
    let graph = graph(&[&kind], &[turned, product, root, next].join(", "), "[4]");
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    let mut run = graph.run_on_core(&arch(), None, &ExecutionOptions::default(), &compile).unwrap();
    let rows = run.account(&graph);
    let found: Vec<_> = rows.iter().map(|row| (row.label.as_str(), row.template)).collect();
    let expected = [
        ("transpose.1", TemplateKind::View),
        ("dot_general.2", TemplateKind::Instructions),
        ("sqrt.3", TemplateKind::Fused),
        ("erf_inv.4", TemplateKind::GpSimdFunction),
    ];
    assert_eq!(found, expected);
    let [view, product, root, inverse] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((view.instructions, view.engine, product.macs), (0, None, 256 * 256 * 256));
    assert!(matches!(root.engine, Some(Engine::Scalar | Engine::Dma)), "{root:?}");
    assert!(inverse.is_fallback && !root.is_fallback);
    assert!(product.hbm_bytes >= 2 * 256 * 256 * 4);
    assert!(rows.iter().all(|row| (0.0..=1.0).contains(&row.utilisation)), "{rows:?}");
    let all: u64 = rows.iter().map(|row| row.instructions).sum();
    assert_eq!(all, run.cores[0].timeline.records().len() as u64);
}

#[test]
fn test_rows_and_slices_at_places_that_are_data_have_templates() {
    let (table, places) = (TensorType::new(DType::BFloat16, &[300, 4, 5]), TensorType::new(DType::Int32, &[2, 70]));
    let picked = TensorType::new(DType::BFloat16, &[2, 70, 4, 5]);
    let rows = r#"{"offset_dims": [2, 3], "collapsed_slice_dims": [0], "start_index_map": [0],
        "index_vector_dim": 2, "slice_sizes": [1, 4, 5]}"#;
    let start = TensorType::new(DType::Int32, &[]);
    let (part, value) = (TensorType::new(DType::BFloat16, &[2, 4, 5]), TensorType::new(DType::BFloat16, &[]));
    let wide = TensorType::new(DType::BFloat16, &[599, 1, 9]);
    let operations = [
        operation("gather", "[0, 1]", &picked, rows),
        operation("dynamic_slice", "[0, 2, 3, 3]", &part, r#"{"slice_sizes": [2, 4, 5]}"#),
        operation("dynamic_update_slice", "[0, 6, 3, 2, 2]", &table, "{}"),
        operation("pad", "[7, 4]", &wide, r#"{"low": [0, -1, 3], "high": [0, -2, 1], "interior": [1, 0, 0]}"#),
    ];
    let graph = graph(&[&table, &places, &start, &start, &value], &operations.join(", "), "[5, 6, 7, 8]");
    let numbers = |kind: &TensorType, spread: i64| {
        let values = numbers(kind.elements(), 9).into_iter().map(|value| (value * spread as f32) as i64);
        Tensor::from_integers(kind.clone(), values).unwrap()
    };
    let number = |value| Tensor::from_integers(start.clone(), [value]).unwrap();
    let inputs = vec![tensor(&table, 1), numbers(&places, 150), number(299), number(-3), tensor(&value, 2)];
    both(&graph, inputs.clone(), &ExecutionOptions::default());
    let options = CompileOptions::default();
    let mut run = graph.run_on_core(&arch(), Some(inputs), &ExecutionOptions::default(), &options).unwrap();
    let templates: Vec<_> = run.account(&graph).into_iter().map(|row| row.template).collect();
    assert_eq!(templates, [TemplateKind::Instructions; 4]);
}

#[test]
fn test_what_no_engine_has_runs_on_gpsimd_where_it_fits() {
    let kind = TensorType::new(DType::Float32, &[40, 3]);
    let turned = operation("reverse", "[0]", &kind, r#"{"dimensions": [0]}"#);
    let graph = graph(&[&kind], &turned, "[1]");
    both(&graph, vec![tensor(&kind, 1)], &ExecutionOptions::default());
    let mut run = graph.run_on_core(&arch(), None, &ExecutionOptions::default(), &CompileOptions::default()).unwrap();
    let rows = run.account(&graph);
    assert_eq!((rows[0].template, rows[0].is_fallback), (TemplateKind::GpSimdFunction, true));
}

#[test]
fn test_what_has_no_template_and_no_room_is_refused_by_name() {
    let kind = TensorType::new(DType::Float32, &[8192, 8192]);
    let graph = graph(&[&kind], &operation("reverse", "[0]", &kind, r#"{"dimensions": [0, 1]}"#), "[1]");
    let found = graph.run_on_core(&arch(), None, &ExecutionOptions::default(), &CompileOptions::default());
    let Err(GraphError::Operation { operation, reason, .. }) = found else { panic!("it ran") };
    assert_eq!(operation, "reverse");
    assert!(reason.contains("no template"), "{reason}");
}
