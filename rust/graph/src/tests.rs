use trn3_machine::dtype::DType;

use crate::operations::rows;
use crate::{ExecutionOptions, Graph, GraphError, Tensor, TensorType};

fn one(op: &str, operands: &[Tensor], result: TensorType, attributes: &str) -> Result<Tensor, GraphError> {
    let types = |kind: &TensorType| serde_json::to_string(kind).unwrap();
    let inputs: Vec<String> = operands.iter().map(|tensor| types(tensor.kind())).collect();
    let numbers: Vec<String> = (0..operands.len()).map(|number| number.to_string()).collect();
    let text = format!(
        r#"{{"format": "trn3-graph", "version": 1, "locations": [{{"file": "model.py", "line": 7}}],
            "inputs": [{}], "operations": [{{"op": "{op}", "operands": [{}], "results": [{}],
            "attributes": {attributes}, "location": 0}}], "outputs": [{}]}}"#,
        inputs.join(", "),
        numbers.join(", "),
        types(&result),
        operands.len(),
    );
    let graph = Graph::from_json(text.as_bytes(), &[])?;
    Ok(graph.execute(operands.to_vec(), &ExecutionOptions::default())?.remove(0))
}

fn floats(dtype: DType, shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_floats(TensorType::new(dtype, shape), values.to_vec()).unwrap()
}

#[test]
fn test_names_are_used_once() {
    let mut names: Vec<&str> = rows().map(|row| row.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn test_a_refusal_names_the_operation_and_the_line() {
    let operands = [floats(DType::Float32, &[2], &[1.0, 2.0]), floats(DType::BFloat16, &[2], &[1.0, 2.0])];
    let error = one("add", &operands, TensorType::new(DType::Float32, &[2]), "{}").unwrap_err();
    let text = "model.py:7: add: lhs is float32[2] and rhs is bfloat16[2]; they have to be the same";
    assert_eq!(error.to_string(), text);
    let error = one("fft", &operands, TensorType::new(DType::Float32, &[2]), "{}").unwrap_err();
    assert_eq!(error.to_string(), "model.py:7: fft: is no operation of graphs");
}

#[test]
fn test_sums_are_rounded_to_their_own_type() {
    let operands = [floats(DType::BFloat16, &[2], &[1.0, 256.0]), floats(DType::BFloat16, &[2], &[0.00390625, 1.0])];
    let sum = one("add", &operands, TensorType::new(DType::BFloat16, &[2]), "{}").unwrap();
    assert_eq!(&*sum.floats().unwrap(), &[1.0, 256.0]);
}

#[test]
fn test_integers_wrap() {
    let kind = TensorType::new(DType::Int32, &[3]);
    let x = Tensor::from_integers(kind.clone(), [i64::from(i32::MAX), -7, 5]).unwrap();
    let y = Tensor::from_integers(kind.clone(), [1, 2, 0]).unwrap();
    let found = |op| one(op, &[x.clone(), y.clone()], kind.clone(), "{}").unwrap().integers().unwrap();
    assert_eq!(found("add"), [i64::from(i32::MIN), -5, 5]);
    assert_eq!(found("divide"), [i64::from(i32::MAX), -3, -1]);
    assert_eq!(found("remainder"), [0, -1, 5]);
    assert_eq!(found("shift_right_logical"), [i64::from(i32::MAX) >> 1, 0x3fff_fffe, 5]);
    assert_eq!(found("shift_right_arithmetic"), [i64::from(i32::MAX) >> 1, -2, 5]);
}

#[test]
fn test_padding_cuts_and_spreads() {
    let x = floats(DType::Float32, &[3], &[1.0, 2.0, 3.0]);
    let value = floats(DType::Float32, &[], &[9.0]);
    let attributes = r#"{"low": [-1], "high": [2], "interior": [1]}"#;
    let found = one("pad", &[x, value], TensorType::new(DType::Float32, &[6]), attributes).unwrap();
    assert_eq!(&*found.floats().unwrap(), &[9.0, 2.0, 9.0, 3.0, 9.0, 9.0]);
}

#[test]
fn test_every_function_of_one_element_is_near_the_true_one() {
    let x: Vec<f32> = (-400..400).map(|step| step as f32 * 0.0123).collect();
    let truths: [(&str, fn(f64) -> f64, f64); 12] = [
        ("exponential", f64::exp, 1e-6),
        ("exponential_minus_one", f64::exp_m1, 1e-6),
        ("log_plus_one", f64::ln_1p, 1e-6),
        ("tanh", f64::tanh, 1e-6),
        ("sine", f64::sin, 1e-6),
        ("cosine", f64::cos, 1e-6),
        ("arctan", f64::atan, 1e-6),
        ("sqrt", f64::sqrt, 1e-6),
        ("cbrt", f64::cbrt, 1e-5),
        ("erf", libm::erf, 1e-6),
        ("erfc", libm::erfc, 1e-6),
        ("floor", f64::floor, 0.0),
    ];
    for (op, truth, tolerance) in truths {
        let found =
            one(op, &[floats(DType::Float32, &[800], &x)], TensorType::new(DType::Float32, &[800]), "{}").unwrap();
        for (&x, &y) in x.iter().zip(found.floats().unwrap().iter()) {
            let expected = truth(f64::from(x));
            let is_near = (f64::from(y) - expected).abs() <= tolerance * expected.abs().max(1.0);
            assert!(is_near || expected.is_nan() && y.is_nan(), "{op}({x}) is {y}, not {expected}");
        }
    }
}

#[test]
fn test_long_rows_join_in_runs_and_few_of_them_in_lanes() {
    let values: Vec<f32> = (0..10_000).map(|place| ((place * 7919) % 1000) as f32 * 0.37 - 100.0).collect();
    let sum = |values: &[f32]| values.iter().fold(0.0, |sum, x| sum + x);
    let in_runs = values.chunks(4096).map(sum).reduce(|x, y| x + y).unwrap();
    // 126 lanes of 79 elements, and one of 46.
    let lanes: Vec<f32> = values.chunks(79).map(sum).collect();
    let in_lanes = sum(&lanes[..126]) + lanes[126];
    let init = floats(DType::Float32, &[], &[0.5]);
    for (shape, dimensions, rows, expected) in
        [([1, 10_000], "[1]", 1, in_lanes), ([10_000, 1], "[0]", 1, in_lanes), ([16, 10_000], "[1]", 16, in_runs)]
    {
        let x = floats(DType::Float32, &shape, &values.repeat(rows));
        let attributes = format!(r#"{{"dimensions": {dimensions}, "function": "add"}}"#);
        let found = one("reduce", &[x, init.clone()], TensorType::new(DType::Float32, &[rows]), &attributes).unwrap();
        assert_eq!(&*found.floats().unwrap(), &vec![0.5 + expected; rows][..]);
    }
}

#[test]
fn test_the_first_of_equal_extremes_is_found_and_any_nan() {
    let x = floats(DType::Float32, &[2, 4], &[1.0, 3.0, 3.0, 2.0, 1.0, f32::NAN, 9.0, f32::NAN]);
    let text = r#"{"format": "trn3-graph", "version": 1, "inputs": [{"dtype": "float32", "shape": [2, 4]}],
        "operations": [{"op": "arg_reduce", "operands": [0], "attributes": {"dimension": 1, "function": "maximum"},
        "results": [{"dtype": "float32", "shape": [2]}, {"dtype": "int32", "shape": [2]}]}], "outputs": [1, 2]}"#;
    let graph = Graph::from_json(text.as_bytes(), &[]).unwrap();
    let found = graph.execute(vec![x], &ExecutionOptions::default()).unwrap();
    assert_eq!((found[0].floats().unwrap()[0], found[1].integers().unwrap()), (3.0, vec![1, 1]));
}

#[test]
fn test_a_loop_runs_while_its_condition_holds() {
    let int = r#"{"dtype": "int32", "shape": []}"#;
    let text = format!(
        r#"{{"format": "trn3-graph", "version": 1, "inputs": [{int}, {int}], "operations": [
            {{"op": "while", "operands": [0, 1], "results": [{int}, {int}], "attributes": {{
              "condition": {{"inputs": [{int}, {int}], "operations": [{{"op": "compare", "operands": [0, 1],
                "attributes": {{"direction": "lt"}}, "results": [{{"dtype": "bool", "shape": []}}]}}], "outputs": [2]}},
              "body": {{"inputs": [{int}, {int}], "operations": [{{"op": "add", "operands": [0, 0],
                "results": [{int}]}}], "outputs": [2, 1]}}}}}}], "outputs": [2]}}"#
    );
    let graph = Graph::from_json(text.as_bytes(), &[]).unwrap();
    let number = |value| Tensor::from_integers(TensorType::new(DType::Int32, &[]), [value]).unwrap();
    let found = graph.execute(vec![number(3), number(100)], &ExecutionOptions::default()).unwrap();
    assert_eq!(found[0].integers().unwrap(), [192]);
}
