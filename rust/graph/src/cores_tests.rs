use proptest::prelude::*;
use trn3_compiler::{CompileLevel, CompileOptions};
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;

use crate::account::AccountRow;
use crate::by_instructions_tests::{arch, both, graph, operation, tensor};
use crate::{ExecutionOptions, Graph, MatmulPath, TemplateKind, Tensor, TensorType};

fn half(shape: &[usize]) -> TensorType {
    TensorType::new(DType::BFloat16, shape)
}

fn wide(shape: &[usize]) -> TensorType {
    TensorType::new(DType::Float32, shape)
}

/// Microseconds on so many cores, and what each operation took.
fn timed(graph: &Graph, cores: usize, matmul: MatmulPath) -> (f64, Vec<AccountRow>) {
    let options = ExecutionOptions { cores, matmul, ..Default::default() };
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    let mut run = graph.run_on_core(&arch(), None, &options, &compile).unwrap();
    (run.makespan().microseconds(), run.account(graph))
}

/// What two cores take, as part of what one takes.
fn part(graph: &Graph, matmul: MatmulPath) -> f64 {
    timed(graph, 2, matmul).0 / timed(graph, 1, matmul).0
}

fn product(m: usize, k: usize, n: usize) -> Graph {
    let text = operation("dot_general", "[0, 1]", &half(&[m, n]), r#"{"contracting": [[1], [0]]}"#);
    graph(&[&half(&[m, k]), &half(&[k, n])], &text, "[2]")
}

/// Heads of attention as plain operations, on keys of some length.
fn attention(heads: usize, length: usize) -> Graph {
    let (x, scores, rows) = (half(&[heads, length, 64]), wide(&[heads, length, length]), wide(&[heads, length]));
    let dot = |left: usize, right: usize| format!(r#"{{"contracting": [[{left}], [{right}]], "batch": [[0], [0]]}}"#);
    let reduced = |function: &str| format!(r#"{{"dimensions": [2], "function": "{function}"}}"#);
    let operations = [
        operation("dot_general", "[0, 1]", &scores, &dot(2, 2)), // 4
        operation("reduce", "[4, 3]", &rows, &reduced("maximum")),
        operation("broadcast_in_dim", "[5]", &scores, r#"{"dimensions": [0, 1]}"#),
        operation("subtract", "[4, 6]", &scores, "{}"),
        operation("exponential", "[7]", &scores, "{}"),
        operation("reduce", "[8, 3]", &rows, &reduced("add")),
        operation("broadcast_in_dim", "[9]", &scores, r#"{"dimensions": [0, 1]}"#),
        operation("divide", "[8, 10]", &scores, "{}"),
        operation("convert", "[11]", &half(&[heads, length, length]), "{}"),
        operation("dot_general", "[12, 2]", &x, &dot(2, 1)),
    ];
    graph(&[&x, &x, &x, &wide(&[])], &operations.join(", "), "[13]")
}

#[test]
fn test_two_cores_take_half_as_long_for_a_large_product() {
    let large = part(&product(2048, 2048, 2048), MatmulPath::AsTyped);
    assert!((0.5..0.65).contains(&large), "{large}");
    // Quantised, of few rows, and of few columns.
    assert!(part(&product(2048, 2048, 2048), MatmulPath::Mxfp8) < 0.65);
    assert!(part(&product(64, 2048, 2048), MatmulPath::AsTyped) < 0.65);
    assert!(part(&product(2048, 2048, 64), MatmulPath::AsTyped) < 0.65);
}

#[test]
fn test_heads_of_attention_are_divided_and_so_are_rows_of_one() {
    for (heads, length) in [(4, 512), (1, 1024), (3, 512)] {
        let graph = attention(heads, length);
        let rows = timed(&graph, 2, MatmulPath::AsTyped).1;
        let busy = rows.iter().filter(|row| row.instructions > 0);
        let is_shared = |row: &AccountRow| row.cores == 2 && row.template == TemplateKind::Attention;
        assert!(busy.clone().count() > 5 && busy.clone().all(is_shared), "{rows:?}");
        let part = part(&graph, MatmulPath::AsTyped);
        assert!(part < 0.7, "{heads} heads of {length}: {part}");
    }
}

#[test]
fn test_what_is_elementwise_reduced_or_has_no_engine_is_divided() {
    let (x, y) = (wide(&[2048, 1024]), wide(&[2048]));
    let sum = |axis: usize| format!(r#"{{"dimensions": [{axis}], "function": "add"}}"#);
    let of = |text: &str| graph(&[&x, &wide(&[])], text, "[2]");
    let graphs = [
        of(&operation("tanh", "[0]", &x, "{}")),
        of(&operation("erf_inv", "[0]", &x, "{}")),
        of(&operation("reverse", "[0]", &x, r#"{"dimensions": [1]}"#)),
        of(&operation("concatenate", "[0, 0]", &wide(&[4096, 1024]), r#"{"dimension": 0}"#)),
        of(&operation("reduce", "[0, 1]", &y, &sum(1))),
        of(&operation("reduce", "[0, 1]", &wide(&[1024]), &sum(0))),
    ];
    for graph in graphs {
        let part = part(&graph, MatmulPath::AsTyped);
        assert!(part < 0.65, "{}: {part}", graph.body.nodes()[0].label());
    }
}

#[test]
fn test_what_is_small_or_falls_into_no_parts_stays_on_the_first_core() {
    let (small, line) = (half(&[64, 64]), wide(&[1 << 17]));
    let product = operation("dot_general", "[0, 0]", &small, r#"{"contracting": [[1], [0]]}"#);
    let root = operation("tanh", "[1]", &small, "{}");
    // Only its first element and its last one change places with others.
    let turned = operation("reverse", "[0]", &line, r#"{"dimensions": [0]}"#);
    for graph in [graph(&[&small], &[product, root].join(", "), "[2]"), graph(&[&line], &turned, "[1]")] {
        let ((one, _), (two, rows)) = (timed(&graph, 1, MatmulPath::AsTyped), timed(&graph, 2, MatmulPath::AsTyped));
        assert!(rows.iter().all(|row| row.cores == 1), "{rows:?}");
        assert!((two - one).abs() < 1e-9, "{two} and {one}");
    }
}

#[test]
fn test_cores_wait_for_what_others_made() {
    // Rows of the first product are columns of the second one's operand, and then of a sum.
    let x = half(&[1024, 512]);
    let operations = [
        operation("tanh", "[0]", &x, "{}"),
        operation("transpose", "[1]", &half(&[512, 1024]), r#"{"permutation": [1, 0]}"#),
        operation("dot_general", "[2, 1]", &half(&[512, 512]), r#"{"contracting": [[1], [0]]}"#),
    ];
    let graph = graph(&[&x], &operations.join(", "), "[3]");
    let options = ExecutionOptions { cores: 2, ..Default::default() };
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    let mut run = graph.run_on_core(&arch(), None, &options, &compile).unwrap();
    let mut barriers = 0;
    for core in &mut run.cores {
        core.timeline.schedule();
        let at = core.opcodes.opcodes().iter().position(|name| *name == "core_barrier").unwrap();
        let labelled = |label: &str| core.opcodes.labels().iter().position(|name| name == label).unwrap() as u32;
        let [first, second] = ["tanh.1", "dot_general.3"].map(labelled);
        let records = core.timeline.records();
        let barrier = records.iter().find(|record| usize::from(record.opcode) == at).unwrap();
        barriers += 1;
        let before = records.iter().filter(|record| record.label == first).map(|record| record.end).max().unwrap();
        let reads = records.iter().filter(|record| record.label == second && record.hbm_read > 0);
        assert!(before <= barrier.start && reads.map(|record| record.start).min().unwrap() >= before);
    }
    assert_eq!(barriers, 2);
}

#[test]
fn test_more_cores_than_work_as_one_are_refused() {
    let graph = product(8, 8, 8);
    let refused = |arch: &str, cores: usize| {
        let arch = ArchSpec::shared(arch).unwrap();
        let options = ExecutionOptions { cores, ..Default::default() };
        graph.run_on_core(&arch, None, &options, &CompileOptions::default()).err().unwrap().to_string()
    };
    assert_eq!(refused("trn3", 3), "cores is 3 on trn3; allowed: 1 to 2");
    assert_eq!(refused("trn3", 0), "cores is 0 on trn3; allowed: 1 to 2");
    assert_eq!(refused("trn1", 2), "cores is 2 on trn1; allowed: 1");
}

/// Adds a step that the numbers choose to values of squares: products either way, what is elementwise, turns and sums.
fn add(operations: &mut Vec<String>, squares: &mut Vec<usize>, kind: &TensorType, [which, first, second]: [usize; 3]) {
    let [x, y] = [first, second].map(|number| squares[number % squares.len()]);
    let next = operations.len() + 4;
    let lengths = &kind.shape[..1];
    let mut push = |op: &str, operands: &str, kind: &TensorType, attributes: &str| {
        operations.push(operation(op, operands, kind, attributes));
    };
    match which % 7 {
        0 | 1 => {
            let attributes = format!(r#"{{"contracting": [[{}], [{}]]}}"#, first % 2, second % 2);
            push("dot_general", &format!("[{x}, {y}]"), kind, &attributes);
        }
        2 => push("maximum", &format!("[{x}, {y}]"), kind, "{}"),
        3 => push("tanh", &format!("[{x}]"), kind, "{}"),
        4 => push("transpose", &format!("[{x}]"), kind, r#"{"permutation": [1, 0]}"#),
        5 => push("reverse", &format!("[{x}]"), kind, r#"{"dimensions": [0]}"#),
        _ => {
            let attributes = format!(r#"{{"dimensions": [{}], "function": "add"}}"#, first % 2);
            push("reduce", &format!("[{x}, 3]"), &kind.with_shape(lengths), &attributes);
            let attributes = format!(r#"{{"dimensions": [{}]}}"#, second % 2);
            push("broadcast_in_dim", &format!("[{next}]"), kind, &attributes);
            squares.push(next + 1);
            return;
        }
    }
    squares.push(next);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn test_chains_of_products_have_the_same_bits_on_one_core_and_on_two(
        steps in prop::collection::vec(prop::array::uniform3(0usize..1000), 2..9),
        length in prop::sample::select(vec![1usize, 5, 130, 257]), is_half: bool,
        matmul in prop::sample::select(&MatmulPath::ALL[..]),
    ) {
        let kind = if is_half { half(&[length, length]) } else { wide(&[length, length]) };
        let scalar = kind.with_shape(&[]);
        let (mut operations, mut squares) = (Vec::new(), vec![0, 1, 2]);
        for step in steps {
            add(&mut operations, &mut squares, &kind, step);
        }
        let outputs: Vec<usize> = squares.iter().rev().take(3).copied().collect();
        let graph = graph(&[&kind, &kind, &kind, &scalar], &operations.join(", "), &format!("{outputs:?}"));
        let number = Tensor::from_floats(scalar, vec![0.25]).unwrap();
        let inputs = vec![tensor(&kind, 1), tensor(&kind, 2), tensor(&kind, 3), number];
        both(&graph, inputs, &ExecutionOptions { matmul, ..Default::default() });
    }

    #[test]
    fn test_two_cores_are_no_slower_than_one(
        m in 1usize..40, k in 1usize..20, n in 1usize..20, extra in 0usize..64,
    ) {
        let graph = product(32 * m + extra, 128 * k, 128 * n + extra);
        prop_assert!(part(&graph, MatmulPath::AsTyped) <= 1.02);
    }
}
