//! Chains against the operations one by one: the same bits, whatever goes together.

use std::sync::Arc;

use trn3_machine::dtype::DType;
use trn3_numerics::{num_threads, set_num_threads};

use super::{Plan, PlanStep};
use crate::execute::ByOperation;
use crate::graph::{Body, Execution, TensorOperation};
use crate::operations::*;
use crate::options::ExecutionOptions;
use crate::tensor::{Tensor, Words};
use crate::tensor_type::TensorType;

const ROWS: usize = 24;
const COLUMNS: usize = 272;

struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count
    }

    fn pick<'p, T>(&mut self, from: &'p [T]) -> Option<&'p T> {
        if from.is_empty() { None } else { Some(&from[self.below(from.len())]) }
    }

    /// Numbers of all sizes, and what is none, of payloads that no step makes.
    fn tensor(&mut self, kind: &TensorType) -> Tensor {
        let special = [0x7fa0_0001, 0xffc0_1234, 0x7f80_0000, 0x8000_0000, 0x0000_0007];
        let words: Vec<u32> = (0..kind.elements())
            .map(|_| match self.below(40) {
                at @ 0..5 => special[at],
                _ => ((self.below(4000) as f32 - 2000.0) / 700.0).to_bits(),
            })
            .collect();
        let words = match kind.dtype {
            DType::Bool => Words::One(Arc::new(words.iter().map(|word| (word >> 20 & 1) as u8).collect())),
            DType::BFloat16 => Words::Two(Arc::new(words.iter().map(|word| (word >> 16) as u16).collect())),
            _ => Words::Four(Arc::new(words)),
        };
        Tensor::new(kind.clone(), words).unwrap()
    }
}

/// A body of operations taken by chance, of values of a few shapes.
fn body(random: &mut Random, operations: usize) -> Body {
    let kind = TensorType::new;
    let inputs = vec![
        kind(DType::Float32, &[ROWS, COLUMNS]),
        kind(DType::BFloat16, &[ROWS, COLUMNS]),
        kind(DType::Bool, &[ROWS, COLUMNS]),
        kind(DType::Float32, &[COLUMNS]),
        kind(DType::Float32, &[ROWS]),
        kind(DType::BFloat16, &[]),
        kind(DType::Float32, &[]),
        kind(DType::Float32, &[4, COLUMNS, 6]),
    ];
    let mut body = Body::new(inputs);
    while body.nodes().len() < operations {
        let types = body.types().to_vec();
        let x = random.below(types.len());
        let x_kind = types[x].clone();
        let like = |wanted: &TensorType| -> Vec<u32> {
            (0..types.len()).filter(|&value| types[value] == *wanted).map(|value| value as u32).collect()
        };
        let mut push = |operation: Arc<dyn TensorOperation>, operands: Vec<u32>, result: TensorType| {
            // What does not fit is left out.
            let _ = body.push(operation, operands, vec![result], None);
        };
        let x = x as u32;
        match random.below(12) {
            0..=2 => {
                use BinaryFunction::*;
                let function =
                    *random.pick(&[Add, Subtract, Multiply, Divide, Maximum, Minimum, Remainder, Or]).unwrap();
                let y = *random.pick(&like(&x_kind)).unwrap();
                push(Arc::new(Binary { function }), vec![x, y], x_kind);
            }
            3 => {
                use UnaryFunction::*;
                let function = *random.pick(&[Tanh, Exponential, Abs, Negate, Rsqrt, Not, Sine]).unwrap();
                push(Arc::new(Unary { function }), vec![x], x_kind);
            }
            4 => {
                let y = *random.pick(&like(&x_kind)).unwrap();
                let direction = *random.pick(&[Direction::Eq, Direction::Ne, Direction::Gt, Direction::Le]).unwrap();
                push(Arc::new(Compare { direction }), vec![x, y], x_kind.with_dtype(DType::Bool));
            }
            5 => {
                let y = *random.pick(&like(&x_kind)).unwrap();
                if let Some(&truth) = random.pick(&like(&x_kind.with_dtype(DType::Bool))) {
                    push(Arc::new(Select {}), vec![truth, x, y], x_kind);
                }
            }
            6 => {
                let dtype = *random.pick(&[DType::Float32, DType::BFloat16, DType::Bool]).unwrap();
                push(Arc::new(Convert {}), vec![x], x_kind.with_dtype(dtype));
            }
            7 => {
                use ReduceFunction::*;
                let function = *random.pick(&[Add, Multiply, Maximum, Minimum]).unwrap();
                let rank = x_kind.rank();
                if let (Some(&init), true) = (random.pick(&like(&x_kind.with_shape(&[]))), rank > 0) {
                    let result = x_kind.with_shape(&x_kind.shape[..rank - 1]);
                    push(Arc::new(Reduce { dimensions: vec![rank - 1], function }), vec![x, init], result);
                }
            }
            8 | 9 => {
                let dimensions = match x_kind.shape[..] {
                    [] => vec![],
                    [ROWS] => vec![0],
                    [COLUMNS] => vec![1],
                    [ROWS, COLUMNS] => vec![0, 1],
                    _ => continue,
                };
                push(Arc::new(BroadcastInDim { dimensions }), vec![x], x_kind.with_shape(&[ROWS, COLUMNS]));
            }
            10 => {
                let shape: &[usize] =
                    random.pick(&[&[ROWS, COLUMNS][..], &[4, 6, COLUMNS], &[4, COLUMNS, 6], &[ROWS, 1]]).unwrap();
                push(Arc::new(Reshape {}), vec![x], x_kind.with_shape(shape));
            }
            _ => {
                if x_kind.rank() == 3 {
                    let shape = [x_kind.shape[0], x_kind.shape[2], x_kind.shape[1]];
                    push(Arc::new(Transpose { permutation: vec![0, 2, 1] }), vec![x], x_kind.with_shape(&shape));
                }
            }
        }
    }
    let count = body.types().len();
    body.set_outputs((0..6).map(|_| random.below(count) as u32).chain([count as u32 - 1]).collect()).unwrap();
    body
}

fn one_by_one(body: &Body, inputs: &[Tensor]) -> Vec<Tensor> {
    let options = ExecutionOptions::default();
    let execution = ByOperation::new(&options, &[]);
    let mut values = inputs.to_vec();
    for node in body.nodes() {
        let operands: Vec<&Tensor> = node.operands.iter().map(|&value| &values[value as usize]).collect();
        let results = &body.types()[node.first_result as usize..][..node.results as usize];
        let made = node.operation.execute(&operands, results, &execution).unwrap();
        values.extend(made);
    }
    body.outputs().iter().map(|&value| values[value as usize].clone()).collect()
}

#[test]
fn test_chains_have_the_bits_of_their_operations() {
    let options = ExecutionOptions::default();
    let mut in_chains = 0;
    for seed in 0..60 {
        let mut random = Random(seed);
        let body = body(&mut random, 45);
        let inputs: Vec<Tensor> = body.inputs().iter().map(|kind| random.tensor(kind)).collect();
        let found = ByOperation::new(&options, &[]).run(&body, inputs.clone()).unwrap();
        for ((found, expected), output) in found.iter().zip(one_by_one(&body, &inputs)).zip(body.outputs()) {
            let differs = found.bytes().iter().zip(expected.bytes()).position(|(found, expected)| found != expected);
            assert_eq!(differs, None, "seed {seed}, value {output}, {}: {:?}", found.kind(), body.nodes());
        }
        in_chains += body.plan().steps.iter().map(length).filter(|&length| length > 1).sum::<usize>();
    }
    assert!(in_chains > 500, "{in_chains} operations were in chains");
}

fn length(step: &PlanStep) -> usize {
    match step {
        PlanStep::One(_) => 1,
        PlanStep::Chain(chain) => chain.nodes.len(),
    }
}

#[test]
fn test_threads_change_no_bits() {
    let options = ExecutionOptions::default();
    let mut random = Random(7);
    let body = body(&mut random, 80);
    let inputs: Vec<Tensor> = body.inputs().iter().map(|kind| random.tensor(kind)).collect();
    let before = num_threads().unwrap();
    let run = |threads| {
        set_num_threads(threads).unwrap();
        let found = ByOperation::new(&options, &[]).run(&body, inputs.clone()).unwrap();
        found.iter().map(|tensor| tensor.bytes().to_vec()).collect::<Vec<_>>()
    };
    let found = [1, 2, 3].map(run);
    set_num_threads(before).unwrap();
    assert!(found[0] == found[1] && found[1] == found[2]);
}

/// A softmax of masked bfloat16 scores is one chain: nothing of it goes to memory but the result.
#[test]
fn test_a_softmax_is_one_chain() {
    let kind = |dtype, shape: &[usize]| TensorType::new(dtype, shape);
    let (wide, rows) = (kind(DType::Float32, &[ROWS, COLUMNS]), kind(DType::Float32, &[ROWS]));
    let scalar = kind(DType::Float32, &[]);
    let scores = kind(DType::BFloat16, &[ROWS, COLUMNS]);
    let mut body = Body::new(vec![scores.clone(), scores.with_dtype(DType::Bool), scalar.clone(), scalar]);
    let mut push = |operation: Arc<dyn TensorOperation>, operands: &[u32], result: &TensorType| {
        body.push(operation, operands.to_vec(), vec![result.clone()], None).unwrap()
    };
    let reduce = |function| Arc::new(Reduce { dimensions: vec![1], function });
    let spread = || Arc::new(BroadcastInDim { dimensions: vec![0] });
    let low = push(Arc::new(BroadcastInDim { dimensions: vec![] }), &[3], &wide);
    let x = push(Arc::new(Convert {}), &[0], &wide);
    let x = push(Arc::new(Select {}), &[1, x, low], &wide);
    let most = push(reduce(ReduceFunction::Maximum), &[x, 3], &rows);
    let most = push(spread(), &[most], &wide);
    let x = push(Arc::new(Binary { function: BinaryFunction::Subtract }), &[x, most], &wide);
    let x = push(Arc::new(Unary { function: UnaryFunction::Exponential }), &[x], &wide);
    let sum = push(reduce(ReduceFunction::Add), &[x, 2], &rows);
    let sum = push(spread(), &[sum], &wide);
    let x = push(Arc::new(Binary { function: BinaryFunction::Divide }), &[x, sum], &wide);
    let x = push(Arc::new(Convert {}), &[x], &scores);
    body.set_outputs(vec![x]).unwrap();
    let plan = Plan::new(&body);
    let [PlanStep::Chain(chain)] = &plan.steps[..] else { panic!("{} steps", plan.steps.len()) };
    assert_eq!(chain.nodes.len(), 8);
    let mut random = Random(3);
    let mut inputs: Vec<Tensor> = body.inputs().iter().map(|kind| random.tensor(kind)).collect();
    inputs[2] = Tensor::from_floats(inputs[2].kind().clone(), vec![0.0]).unwrap();
    inputs[3] = Tensor::from_floats(inputs[3].kind().clone(), vec![-1e9]).unwrap();
    let options = ExecutionOptions::default();
    let found = ByOperation::new(&options, &[]).run(&body, inputs.clone()).unwrap();
    assert_eq!(found[0].bytes(), one_by_one(&body, &inputs)[0].bytes());
}
