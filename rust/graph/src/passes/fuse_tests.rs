use proptest::prelude::*;
use trn3_compiler::{CompileLevel, CompileOptions};
use trn3_machine::dtype::DType;

use crate::by_instructions_tests::{arch, both, graph, operation, tensor};
use crate::{ExecutionOptions, Graph, TemplateKind, Tensor, TensorType};

/// Writes a graph, operation by operation.
pub(super) struct Writer {
    inputs: Vec<TensorType>,
    kinds: Vec<TensorType>,
    operations: Vec<String>,
}

impl Writer {
    pub(super) fn new(inputs: &[TensorType]) -> Self {
        Self { inputs: inputs.to_vec(), kinds: inputs.to_vec(), operations: Vec::new() }
    }

    pub(super) fn push(&mut self, op: &str, operands: &[usize], kind: TensorType, attributes: &str) -> usize {
        self.operations.push(operation(op, &format!("{operands:?}"), &kind, attributes));
        self.kinds.push(kind);
        self.kinds.len() - 1
    }

    pub(super) fn each(&mut self, op: &str, operands: &[usize]) -> usize {
        let kind = self.kinds[operands[0]].clone();
        self.push(op, operands, kind, "{}")
    }

    pub(super) fn convert(&mut self, value: usize, dtype: DType) -> usize {
        let kind = self.kinds[value].with_dtype(dtype);
        self.push("convert", &[value], kind, "{}")
    }

    pub(super) fn reduce(&mut self, function: &str, value: usize, init: usize, dimensions: &[usize]) -> usize {
        let kind = &self.kinds[value];
        let shape: Vec<usize> =
            (0..kind.rank()).filter(|axis| !dimensions.contains(axis)).map(|axis| kind.shape[axis]).collect();
        let (kind, attributes) =
            (kind.with_shape(&shape), format!(r#"{{"dimensions": {dimensions:?}, "function": "{function}"}}"#));
        self.push("reduce", &[value, init], kind, &attributes)
    }

    pub(super) fn wide(&mut self, value: usize, shape: &[usize], dimensions: &[usize]) -> usize {
        let kind = self.kinds[value].with_shape(shape);
        self.push("broadcast_in_dim", &[value], kind, &format!(r#"{{"dimensions": {dimensions:?}}}"#))
    }

    pub(super) fn graph(&self, outputs: &[usize]) -> Graph {
        let inputs: Vec<&TensorType> = self.inputs.iter().collect();
        graph(&inputs, &self.operations.join(", "), &format!("{outputs:?}"))
    }

    /// Softmax along the last axis, as JAX writes it: with keepdims and a maximum that is a value of its own.
    pub(super) fn softmax(&mut self, x: usize, low: usize, zero: usize) -> usize {
        let shape = self.kinds[x].shape.clone();
        let rank = shape.len();
        let rows: Vec<usize> = (0..rank - 1).collect();
        let kept: Vec<usize> = [&shape[..rank - 1], &[1]].concat();
        let repeat = |writer: &mut Self, value: usize| {
            let narrow = writer.wide(value, &kept, &rows);
            writer.wide(narrow, &shape, &(0..rank).collect::<Vec<_>>())
        };
        let most = self.reduce("maximum", x, low, &[rank - 1]);
        let lows = self.wide(low, &shape[..rank - 1], &[]);
        let most = self.each("maximum", &[lows, most]);
        let most = repeat(self, most);
        let below = self.each("subtract", &[x, most]);
        let powers = self.each("exponential", &[below]);
        let sum = self.reduce("add", powers, zero, &[rank - 1]);
        let sum = repeat(self, sum);
        self.each("divide", &[powers, sum])
    }
}

pub(super) fn kind(dtype: DType, shape: &[usize]) -> TensorType {
    TensorType::new(dtype, shape)
}

pub(super) fn number(dtype: DType, value: f32) -> Tensor {
    Tensor::from_floats(kind(dtype, &[]), vec![value]).unwrap()
}

/// Runs by operation, and by instructions with fusing and without: the same bits. HBM bytes with and without, and how the
/// operations were computed.
pub(super) fn check(graph: &Graph, inputs: Vec<Tensor>) -> ([u64; 2], Vec<(String, TemplateKind)>) {
    let mut bytes = [0, 0];
    let mut templates = Vec::new();
    for (place, fuse) in [true, false].into_iter().enumerate() {
        let options = ExecutionOptions { fuse, ..Default::default() };
        both(graph, inputs.clone(), &options);
        let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
        let mut run = graph.run_on_core(&arch(), None, &options, &compile).unwrap();
        let account = run.account(graph);
        bytes[place] = account.iter().map(|row| row.hbm_bytes).sum();
        if fuse {
            templates = account.into_iter().map(|row| (row.label, row.template)).collect();
        }
    }
    (bytes, templates)
}

fn all_fused(templates: &[(String, TemplateKind)]) -> bool {
    let quiet = [TemplateKind::View, TemplateKind::Folded, TemplateKind::Removed];
    templates.iter().all(|(_, template)| *template == TemplateKind::Fused || quiet.contains(template))
}

#[test]
fn test_softmax_goes_through_hbm_once() {
    for (dtype, shape) in [(DType::BFloat16, [2, 70, 50]), (DType::Float32, [3, 100, 7])] {
        let x = kind(dtype, &shape);
        let mut writer = Writer::new(&[x.clone(), kind(dtype, &[]), kind(dtype, &[])]);
        let made = writer.softmax(0, 1, 2);
        let inputs = vec![tensor(&x, 1), number(dtype, f32::NEG_INFINITY), number(dtype, 0.0)];
        let ([fused, plain], templates) = check(&writer.graph(&[made]), inputs);
        assert!(all_fused(&templates), "{templates:?}");
        let once = 2 * x.bytes() as u64;
        assert!(fused < once + 2048 && plain > 2 * once, "{fused} and {plain} of {once}");
    }
}

#[test]
fn test_norms_share_tiles_with_what_is_along_rows_and_columns() {
    // Layer norm with gain and bias of [columns], computed in float32 of bfloat16.
    let (half, wide) = (DType::BFloat16, DType::Float32);
    let x = kind(half, &[4, 40, 48]);
    let mut writer = Writer::new(&[
        x.clone(),
        kind(half, &[48]),
        kind(half, &[48]),
        kind(wide, &[]),
        kind(wide, &[]),
        kind(wide, &[]),
    ]);
    let (shape, rows) = ([4, 40, 48], [4, 40, 1]);
    let float = writer.convert(0, wide);
    let sum = writer.reduce("add", float, 3, &[2]);
    let sum = writer.wide(sum, &rows, &[0, 1]);
    let count = writer.wide(4, &rows, &[]);
    let mean = writer.each("divide", &[sum, count]);
    let means = writer.wide(mean, &shape, &[0, 1, 2]);
    let centred = writer.each("subtract", &[float, means]);
    let square = writer.each("multiply", &[centred, centred]);
    let sum = writer.reduce("add", square, 3, &[2]);
    let variance = writer.wide(sum, &rows, &[0, 1]);
    let variance = writer.each("divide", &[variance, count]);
    let small = writer.wide(5, &rows, &[]);
    let variance = writer.each("add", &[variance, small]);
    let root = writer.each("rsqrt", &[variance]);
    let roots = writer.wide(root, &shape, &[0, 1, 2]);
    let normal = writer.each("multiply", &[centred, roots]);
    let normal = writer.convert(normal, half);
    let gain = writer.wide(1, &shape, &[2]);
    let bias = writer.wide(2, &shape, &[2]);
    let scaled = writer.each("multiply", &[normal, gain]);
    let made = writer.each("add", &[scaled, bias]);
    let inputs = vec![
        tensor(&x, 1),
        tensor(&kind(half, &[48]), 2),
        tensor(&kind(half, &[48]), 3),
        number(wide, 0.0),
        number(wide, 48.0),
        number(wide, 1e-5),
    ];
    // The variance leaves, too: one number a row.
    let ([fused, plain], templates) = check(&writer.graph(&[made, root, roots]), inputs);
    assert!(all_fused(&templates), "{templates:?}");
    assert!(fused * 3 < plain, "{fused} and {plain}");
}

#[test]
fn test_losses_and_long_rows_share_tiles() {
    // Log-softmax, its product with targets, summed: rows longer than one run of a reduction.
    let wide = DType::Float32;
    let x = kind(wide, &[20, 5000]);
    let mut writer = Writer::new(&[x.clone(), x.clone(), kind(wide, &[]), kind(wide, &[])]);
    let most = writer.reduce("maximum", 0, 2, &[1]);
    let most = writer.wide(most, &[20, 5000], &[0]);
    let below = writer.each("subtract", &[0, most]);
    let powers = writer.each("exponential", &[below]);
    let sum = writer.reduce("add", powers, 3, &[1]);
    let logs = writer.each("log", &[sum]);
    let logs = writer.wide(logs, &[20, 5000], &[0]);
    let found = writer.each("subtract", &[below, logs]);
    let weighed = writer.each("multiply", &[found, 1]);
    let losses = writer.reduce("add", weighed, 3, &[1]);
    let losses = writer.each("negate", &[losses]);
    let inputs = vec![tensor(&x, 1), tensor(&x, 2), number(wide, f32::NEG_INFINITY), number(wide, 0.0)];
    let ([fused, plain], templates) = check(&writer.graph(&[losses]), inputs);
    assert!(all_fused(&templates), "{templates:?}");
    assert!(fused * 3 < plain, "{fused} and {plain}");
}

#[test]
fn test_what_does_not_fit_is_computed_the_plain_way() {
    let wide = DType::Float32;
    let x = kind(wide, &[16, 60_000]);
    let mut writer = Writer::new(&[x.clone(), kind(wide, &[]), kind(wide, &[])]);
    let made = writer.softmax(0, 1, 2);
    let options = ExecutionOptions::default();
    let mut run = writer.graph(&[made]).run_on_core(&arch(), None, &options, &CompileOptions::default()).unwrap();
    let account = run.account(&writer.graph(&[made]));
    let of = |name: &str| account.iter().find(|row| row.label.starts_with(name)).unwrap().template;
    assert_eq!((of("reduce"), of("divide")), (TemplateKind::Instructions, TemplateKind::Instructions));
}

/// Adds an operation that the numbers choose, of values that are there, where there is one.
fn add(writer: &mut Writer, [which, first, second, detail]: [usize; 4]) {
    let (from, to) = (2, writer.kinds.len());
    let x = from + first % (to - from);
    let kind = writer.kinds[x].clone();
    let like: Vec<usize> = (from..to).filter(|&value| writer.kinds[value] == kind).collect();
    let y = like[second % like.len()];
    let rank = kind.rank();
    match which % 10 {
        0..=2 => {
            writer.each(["add", "multiply", "divide", "maximum"][detail % 4], &[x, y]);
        }
        3 => {
            writer.each(["negate", "exponential", "floor"][detail % 3], &[x]);
        }
        4 | 5 if rank > 0 => {
            let dimensions: Vec<usize> = match detail % 4 {
                0 => vec![rank - 1],
                1 => (0..=detail % rank).collect(),
                _ => (detail % rank..rank).collect(),
            };
            let init = usize::from(kind.dtype == DType::BFloat16);
            writer.reduce(["add", "maximum"][detail % 2], x, init, &dimensions);
        }
        6 | 7 if rank < 3 => {
            let [a, b, c] = *writer.kinds[from].shape else { return };
            let targets: [&[usize]; 4] = [&[a, b, c], &[a, b, 1], &[a, b], &[1, a]];
            let shape = targets[detail % 4];
            let fits = kind.shape.iter().zip(shape).all(|(one, other)| one == other) && rank <= shape.len();
            if fits {
                writer.wide(x, shape, &(0..rank).collect::<Vec<_>>());
            }
        }
        8 => {
            let shape: Vec<usize> = match detail % 3 {
                0 => kind.shape.iter().copied().filter(|&length| length != 1).collect(),
                1 => [&[1], &kind.shape[..]].concat(),
                _ => vec![kind.elements()],
            };
            writer.push("reshape", &[x], kind.with_shape(&shape), "{}");
        }
        _ if rank > 1 => {
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(0, detail % rank);
            let shape: Vec<usize> = order.iter().map(|&axis| kind.shape[axis]).collect();
            writer.push("transpose", &[x], kind.with_shape(&shape), &format!(r#"{{"permutation": {order:?}}}"#));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn test_fused_and_unfused_bits_are_equal(
        steps in prop::collection::vec(prop::array::uniform4(0usize..1000), 4..28),
        outputs in prop::collection::vec(0usize..1000, 1..4),
        shape in prop::sample::select(vec![[5, 6, 7], [260, 3, 7], [3, 5, 1000]]),
    ) {
        let kinds = [
            kind(DType::Float32, &[]), kind(DType::BFloat16, &[]), kind(DType::Float32, &shape),
            kind(DType::BFloat16, &shape), kind(DType::Float32, &shape[..2]), kind(DType::Float32, &shape),
        ];
        let mut writer = Writer::new(&kinds);
        for step in steps {
            add(&mut writer, step);
        }
        let last = writer.kinds.len() - 1;
        let mut outputs: Vec<usize> = outputs.iter().map(|output| last - output % last.min(12)).collect();
        outputs.push(last);
        let mut inputs: Vec<Tensor> = kinds.iter().enumerate().map(|(seed, kind)| tensor(kind, seed as u32)).collect();
        inputs[0] = number(DType::Float32, -1.5);
        check(&writer.graph(&outputs), inputs);
    }
}
