use trn3_compiler::{CompileLevel, CompileOptions};
use trn3_machine::dtype::DType;

use super::fuse_tests::{Writer, check, kind, number};
use crate::by_instructions_tests::{arch, both, tensor};
use crate::{ExecutionOptions, MatmulPath, TemplateKind, Tensor, TensorType};

const QUERIES: usize = 150;
const KEYS: usize = 140;
const DEPTH: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Form {
    dtype: DType,
    /// Type of scores.
    scores: DType,
    is_masked: bool,
    /// Batch and heads as one axis in the products, as PyTorch has it.
    is_flat: bool,
    /// The values first, as einsum may have it.
    is_swapped: bool,
    /// The scores are an output, too.
    shows_scores: bool,
    /// What goes into the second product is an output, too.
    shows_weights: bool,
}

const PLAIN: Form = Form {
    dtype: DType::Float32,
    scores: DType::Float32,
    is_masked: false,
    is_flat: false,
    is_swapped: false,
    shows_scores: false,
    shows_weights: false,
};

/// Attention of 2 x 2 heads, and its inputs.
fn written(form: Form) -> (crate::Graph, Vec<Tensor>) {
    let Form { dtype, scores, is_masked, is_flat, is_swapped, shows_scores, shows_weights } = form;
    let batch: &[usize] = if is_flat { &[4] } else { &[2, 2] };
    let of = |dtype: DType, rows: usize, columns: usize| kind(dtype, &[batch, &[rows, columns]].concat());
    let (q, k, v) = (of(dtype, QUERIES, DEPTH), of(dtype, KEYS, DEPTH), of(dtype, KEYS, DEPTH));
    let mask = kind(DType::Bool, &[QUERIES, KEYS]);
    let scalar = kind(scores, &[]);
    let inputs = [q.clone(), k.clone(), v.clone(), mask.clone(), scalar.clone(), scalar.clone(), scalar];
    let mut writer = Writer::new(&inputs);
    let rank = batch.len();
    let along: Vec<usize> = (0..rank).collect();
    let attributes = |left: usize, right: usize| {
        format!(r#"{{"contracting": [[{left}], [{right}]], "batch": [{along:?}, {along:?}]}}"#)
    };
    let first = writer.push("dot_general", &[0, 1], of(scores, QUERIES, KEYS), &attributes(rank + 1, rank + 1));
    let whole = [2, 2, QUERIES, KEYS];
    let mut made = if is_flat { writer.push("reshape", &[first], kind(scores, &whole), "{}") } else { first };
    let scale = writer.wide(6, &whole, &[]);
    made = writer.each("multiply", &[made, scale]);
    if is_masked {
        let (mask, low) = (writer.wide(3, &whole, &[2, 3]), writer.wide(4, &whole, &[]));
        made = writer.push("select", &[mask, made, low], kind(scores, &whole), "{}");
    }
    made = writer.softmax(made, 4, 5);
    if scores != dtype {
        made = writer.convert(made, dtype);
    }
    let weights = made;
    if is_flat {
        made = writer.push("reshape", &[made], of(dtype, QUERIES, KEYS), "{}");
    }
    let out = if is_swapped {
        writer.push("dot_general", &[2, made], of(dtype, DEPTH, QUERIES), &attributes(rank, rank + 1))
    } else {
        writer.push("dot_general", &[made, 2], of(dtype, QUERIES, DEPTH), &attributes(rank + 1, rank))
    };
    let mut outputs = vec![out];
    outputs.extend(shows_scores.then_some(first));
    outputs.extend(shows_weights.then_some(weights));
    let given = [&q, &k, &v, &mask].into_iter().enumerate().map(|(seed, kind)| tensor(kind, seed as u32 + 1));
    let numbers = [-1e30, 0.0, 0.25].map(|value| number(scores, value));
    (writer.graph(&outputs), given.chain(numbers).collect())
}

#[test]
fn test_attention_has_the_bits_of_plain_operations() {
    let (half, wide) = (DType::BFloat16, DType::Float32);
    let forms = [
        PLAIN,
        Form { dtype: half, is_masked: true, ..PLAIN },
        Form { dtype: half, is_swapped: true, is_masked: true, ..PLAIN },
        Form { dtype: half, scores: half, is_flat: true, ..PLAIN },
        Form { dtype: wide, is_flat: true, is_swapped: true, shows_weights: true, ..PLAIN },
    ];
    for form in forms {
        let (graph, inputs) = written(form);
        let ([fused, plain], templates) = check(&graph, inputs);
        let quiet = [TemplateKind::View, TemplateKind::Removed, TemplateKind::Attention];
        assert!(templates.iter().all(|(_, template)| quiet.contains(template)), "{form:?}: {templates:?}");
        let products = templates
            .iter()
            .filter(|(label, template)| label.starts_with("dot_general") && *template == TemplateKind::Attention);
        assert_eq!(products.count(), 2, "{form:?}");
        let least = if form.shows_weights { 2 } else { 4 };
        assert!(fused * least < plain, "{form:?}: {fused} and {plain}");
    }
}

#[test]
fn test_attention_of_operands_that_are_rounded() {
    let (graph, inputs) = written(PLAIN);
    both(&graph, inputs, &ExecutionOptions { matmul: MatmulPath::Bf16, ..Default::default() });
}

#[test]
fn test_scores_that_are_needed_elsewhere_leave() {
    let (graph, inputs) = written(Form { shows_scores: true, ..PLAIN });
    let (_, templates) = check(&graph, inputs);
    assert!(templates.iter().all(|(_, template)| *template != TemplateKind::Attention), "{templates:?}");
}

/// The kernel's gain, in parts of the plain way's time: what docs/reference/graph states.
#[test]
fn test_attention_takes_less_time_than_plain_operations() {
    let (heads, length) = (2, 512);
    let of = |rows: usize, columns: usize| kind(DType::BFloat16, &[heads, rows, columns]);
    let scalar = TensorType::new(DType::Float32, &[]);
    let mut writer = Writer::new(&[of(length, 64), of(length, 64), of(length, 64), scalar.clone(), scalar]);
    let scores = kind(DType::Float32, &[heads, length, length]);
    let product =
        |left: usize, right: usize| format!(r#"{{"contracting": [[{left}], [{right}]], "batch": [[0], [0]]}}"#);
    let made = writer.push("dot_general", &[0, 1], scores, &product(2, 2));
    let weights = writer.softmax(made, 3, 4);
    let weights = writer.convert(weights, DType::BFloat16);
    let out = writer.push("dot_general", &[weights, 2], of(length, 64), &product(2, 1));
    let graph = writer.graph(&[out]);
    let time = |fuse: bool| {
        let options = ExecutionOptions { fuse, ..Default::default() };
        let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
        let mut run = graph.run_on_core(&arch(), None, &options, &compile).unwrap();
        run.makespan().microseconds()
    };
    let (fused, plain) = (time(true), time(false));
    assert!(1.5 * fused < plain, "{fused} and {plain}");
}
