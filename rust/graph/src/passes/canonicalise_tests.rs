use std::sync::Arc;

use proptest::prelude::*;
use trn3_machine::dtype::DType;

use super::canonical;
use crate::error::Reason;
use crate::execute::ByOperation;
use crate::graph::{Body, Execution, TensorOperation};
use crate::operations::{BroadcastInDim, Constant, Convert, Reshape, Slice, Transpose, find};
use crate::{ExecutionOptions, GraphError, Tensor, TensorType};

/// Words of any bits, NaNs and infinities among them.
fn words(kind: &TensorType, seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    let bytes = (0..kind.bytes()).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    Tensor::from_bytes(kind.clone(), &bytes.collect::<Vec<u8>>()).unwrap()
}

fn run(body: &Body, inputs: &[Tensor]) -> Vec<Tensor> {
    // A graph runs its canonical form: what runs here is the body as it stands.
    let options = ExecutionOptions::default();
    ByOperation::new(&options, &[]).run(body, inputs.to_vec()).unwrap()
}

fn named(name: &str) -> Arc<dyn TensorOperation> {
    let row = find(name).unwrap();
    (row.read)(&Nothing, row.name, serde_json::Map::new()).unwrap()
}

struct Nothing;

impl crate::Surroundings for Nothing {
    fn body(&self, _: serde_json::Value) -> crate::error::Result<Body> {
        Err(GraphError::Format("no body".to_owned()))
    }

    fn data(&self, _: usize) -> crate::error::Result<&Tensor> {
        Err(GraphError::Format("no data".to_owned()))
    }

    fn ranks(&self) -> u32 {
        1
    }

    fn kernel(&self, _: usize) -> crate::error::Result<Arc<dyn crate::GraphKernel>> {
        Err(GraphError::Format("no kernel".to_owned()))
    }
}

const DTYPES: [DType; 8] = [
    DType::Float32,
    DType::BFloat16,
    DType::Float16,
    DType::Float8E5M2,
    DType::Int32,
    DType::UInt8,
    DType::Int16,
    DType::Bool,
];

/// Adds one operation that the numbers choose, of values that are there; whether there is one.
fn add(body: &mut Body, [which, first, second, detail]: [usize; 4]) -> bool {
    let count = body.types().len();
    let (x, y) = ((first % count) as u32, (second % count) as u32);
    let kind = body.types()[x as usize].clone();
    let rank = kind.rank();
    let mut push = |operation: Arc<dyn TensorOperation>, operands: Vec<u32>, result: TensorType| {
        body.push(operation, operands, vec![result], None).is_ok()
    };
    match which % 9 {
        0 => {
            let shapes = [vec![24], vec![2, 12], vec![4, 3, 2], vec![1, 24], kind.shape.clone()];
            push(Arc::new(Reshape {}), vec![x], kind.with_shape(&shapes[detail % 5]))
        }
        1 => {
            let mut permutation: Vec<usize> = (0..rank).collect();
            permutation.rotate_left(detail % rank.max(1));
            let shape: Vec<usize> = permutation.iter().map(|&axis| kind.shape[axis]).collect();
            push(Arc::new(Transpose { permutation }), vec![x], kind.with_shape(&shape))
        }
        2 => {
            let mut shape = kind.shape.clone();
            let dimensions = if detail.is_multiple_of(3) {
                (0..rank).collect()
            } else {
                shape.insert(0, detail % 3);
                (1..=rank).collect()
            };
            push(Arc::new(BroadcastInDim { dimensions }), vec![x], kind.with_shape(&shape))
        }
        3 => {
            let cut = |length: usize| (detail % 2).min(length);
            let start: Vec<usize> = kind.shape.iter().map(|&length| cut(length)).collect();
            let stride = vec![1 + detail / 2 % 2; rank];
            let lengths = kind.shape.iter().zip(&start).map(|(limit, start)| (limit - start).div_ceil(stride[0]));
            let result = kind.with_shape(&lengths.collect::<Vec<_>>());
            push(Arc::new(Slice { start, limit: kind.shape.clone(), stride }), vec![x], result)
        }
        4 => push(Arc::new(Convert {}), vec![x], kind.with_dtype(DTYPES[detail % DTYPES.len()])),
        5 => push(named("add"), vec![x, y], kind),
        6 => push(named(["negate", "exponential", "abs"][detail % 3]), vec![x], kind),
        7 => {
            let value = words(&TensorType::new(DTYPES[detail % 4], &[2, 3, 4]), (detail % 2) as u64);
            push(Arc::new(Constant { value: value.clone() }), vec![], value.kind().clone())
        }
        _ => push(Arc::new(BroadcastInDim { dimensions: vec![0] }), vec![x], kind.with_shape(&[24, 2])),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn test_bits_never_change(
        steps in prop::collection::vec(prop::array::uniform4(0usize..1000), 1..24),
        outputs in prop::collection::vec(0usize..1000, 1..5),
    ) {
        let kinds = [DType::Float32, DType::BFloat16, DType::Int32].map(|dtype| TensorType::new(dtype, &[2, 3, 4]));
        let mut body = Body::new(kinds.to_vec());
        for step in steps {
            add(&mut body, step);
        }
        let values = body.types().len();
        body.set_outputs(outputs.iter().map(|output| (output % values) as u32).collect()).unwrap();
        let inputs: Vec<Tensor> = kinds.iter().enumerate().map(|(seed, kind)| words(kind, seed as u64)).collect();
        let found = canonical(&body);
        prop_assert!(found.nodes().len() <= body.nodes().len());
        prop_assert_eq!(canonical(&found).nodes().len(), found.nodes().len());
        for (one, other) in run(&body, &inputs).iter().zip(&run(&found, &inputs)) {
            prop_assert_eq!(one.kind(), other.kind());
            prop_assert_eq!(one.bytes(), other.bytes());
        }
    }
}

fn labels(body: &Body) -> Vec<String> {
    body.nodes().iter().map(crate::GraphNode::label).collect()
}

fn kind(dtype: DType, shape: &[usize]) -> TensorType {
    TensorType::new(dtype, shape)
}

#[test]
fn test_what_is_computed_twice_or_for_nobody_goes() -> Result<(), GraphError> {
    let x = kind(DType::Float32, &[3]);
    let mut body = Body::new(vec![x.clone()]);
    for (name, operands) in
        [("abs", vec![0]), ("abs", vec![0]), ("add", vec![1, 2]), ("negate", vec![3]), ("sqrt", vec![3])]
    {
        body.push(named(name), operands, vec![x.clone()], None)?;
    }
    body.set_outputs(vec![4, 2])?;
    let found = canonical(&body);
    assert_eq!(labels(&found), ["abs.1", "add.3", "negate.4"]);
    assert_eq!((&found.nodes()[1].operands[..], found.outputs()), (&[1, 1][..], &[4, 1][..]));
    Ok(())
}

#[test]
fn test_moves_of_moves_are_one_move() -> Result<(), GraphError> {
    let mut body = Body::new(vec![kind(DType::Float32, &[2, 3, 4])]);
    let turn = || Arc::new(Transpose { permutation: vec![1, 2, 0] });
    let once = body.push(turn(), vec![0], vec![kind(DType::Float32, &[3, 4, 2])], None)?;
    let twice = body.push(turn(), vec![once], vec![kind(DType::Float32, &[4, 2, 3])], None)?;
    let back = body.push(turn(), vec![twice], vec![kind(DType::Float32, &[2, 3, 4])], None)?;
    let half = |limit: usize| Arc::new(Slice { start: vec![0, 0, 0], limit: vec![2, 3, limit], stride: vec![1, 1, 2] });
    let even = body.push(half(4), vec![back], vec![kind(DType::Float32, &[2, 3, 2])], None)?;
    let first = body.push(half(2), vec![even], vec![kind(DType::Float32, &[2, 3, 1])], None)?;
    body.set_outputs(vec![twice, back, first])?;
    let found = canonical(&body);
    assert_eq!(labels(&found), ["transpose.2", "slice.5"]);
    assert!(found.nodes().iter().all(|node| node.operands == [0]));
    assert_eq!(found.outputs(), [2, 0, 5]);
    Ok(())
}

#[test]
fn test_there_and_back_is_nothing_where_arithmetic_made_it() -> Result<(), GraphError> {
    let (half, wide) = (kind(DType::BFloat16, &[3]), kind(DType::Float32, &[3]));
    let mut body = Body::new(vec![half.clone()]);
    body.push(named("negate"), vec![0], vec![half.clone()], None)?;
    let of_input = body.push(Arc::new(Convert {}), vec![0], vec![wide.clone()], None)?;
    let input_back = body.push(Arc::new(Convert {}), vec![of_input], vec![half.clone()], None)?;
    let of_made = body.push(Arc::new(Convert {}), vec![1], vec![wide], None)?;
    let made_back = body.push(Arc::new(Convert {}), vec![of_made], vec![half], None)?;
    body.set_outputs(vec![input_back, made_back])?;
    let found = canonical(&body);
    // An input's NaNs may have other bits than the one that conversions give.
    assert_eq!(labels(&found), ["negate.1", "convert.2", "convert.3"]);
    assert_eq!(found.outputs(), [3, 1]);
    Ok(())
}

/// Something that the world sees.
#[derive(Clone, Copy, Debug)]
struct Told;

impl TensorOperation for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn check(&self, _: &[&TensorType], _: &[&TensorType]) -> Reason {
        Ok(())
    }

    fn execute(&self, operands: &[&Tensor], _: &[TensorType], _: &dyn Execution) -> crate::error::Result<Vec<Tensor>> {
        Ok(vec![operands[0].clone()])
    }

    fn has_effect(&self) -> bool {
        true
    }
}

#[test]
fn test_what_has_an_effect_stays() -> Result<(), GraphError> {
    let x = kind(DType::Float32, &[3]);
    let mut body = Body::new(vec![x.clone()]);
    for _ in 0..2 {
        body.push(Arc::new(Told), vec![0], vec![x.clone()], None)?;
    }
    body.set_outputs(vec![0])?;
    assert_eq!(labels(&canonical(&body)), ["told.1", "told.2"]);
    Ok(())
}
