//! Operations against their definitions, written out as nested loops.

mod convolution;
mod dynamic;
mod indexed;
mod random;
mod sort;
mod windowed;

use trn3_machine::dtype::DType;

use crate::{ExecutionOptions, Graph, GraphError, MatmulPath, Tensor, TensorType};

/// Runs one operation as the only one of a graph.
fn run_on(
    matmul: MatmulPath,
    op: &str,
    operands: &[&Tensor],
    results: &[TensorType],
    attributes: &str,
) -> Result<Vec<Tensor>, GraphError> {
    let text = |kind: &TensorType| serde_json::to_string(kind).unwrap();
    let inputs: Vec<String> = operands.iter().map(|tensor| text(tensor.kind())).collect();
    let kinds: Vec<String> = results.iter().map(text).collect();
    let (inputs, kinds) = (inputs.join(", "), kinds.join(", "));
    let taken: Vec<usize> = (0..operands.len()).collect();
    let outputs: Vec<usize> = (operands.len()..operands.len() + results.len()).collect();
    let graph = format!(
        r#"{{"format": "trn3-graph", "version": 1, "inputs": [{inputs}], "outputs": {outputs:?}, "operations": [
            {{"op": "{op}", "operands": {taken:?}, "results": [{kinds}], "attributes": {attributes}}}]}}"#
    );
    let graph = Graph::from_json(graph.as_bytes(), &[])?;
    graph.execute(operands.iter().copied().cloned().collect(), &ExecutionOptions { matmul, ..Default::default() })
}

fn run(op: &str, operands: &[&Tensor], result: &TensorType, attributes: &str) -> Tensor {
    run_on(MatmulPath::AsTyped, op, operands, std::slice::from_ref(result), attributes).unwrap().remove(0)
}

fn refusal(op: &str, operands: &[&Tensor], results: &[TensorType], attributes: &str) -> String {
    run_on(MatmulPath::AsTyped, op, operands, results, attributes).unwrap_err().to_string()
}

fn kind(dtype: DType, shape: &[usize]) -> TensorType {
    TensorType::new(dtype, shape)
}

fn integers(shape: &[usize], values: impl IntoIterator<Item = i64>) -> Tensor {
    Tensor::from_integers(kind(DType::Int32, shape), values).unwrap()
}

/// 0, 1, 2 ... in this shape.
fn counted(shape: &[usize]) -> Tensor {
    integers(shape, 0..shape.iter().product::<usize>() as i64)
}

fn floats(dtype: DType, shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_floats(kind(dtype, shape), values.to_vec()).unwrap()
}

/// Numbers in [-1, 1), the same for the same seed.
fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Every position of an array, in row-major order.
fn positions(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &length in shape {
        all = all.iter().flat_map(|front| (0..length).map(|index| [front.as_slice(), &[index]].concat())).collect();
    }
    all
}

/// The row-major number of a position.
fn flat(position: &[usize], shape: &[usize]) -> usize {
    position.iter().zip(shape).fold(0, |place, (&index, &length)| place * length + index)
}

fn product(lengths: &[usize]) -> usize {
    lengths.iter().product()
}
