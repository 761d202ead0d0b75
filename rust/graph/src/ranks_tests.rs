use std::sync::Arc;

use trn3_compiler::{CompileLevel, CompileOptions};
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;
use trn3_system::collective::{Estimator, Operation, PlacedRanks};
use trn3_system::fabric::{Fabric, LinkProfile};

use crate::{ExecutionOptions, Graph, GraphError, TemplateKind, Tensor, TensorType};

fn kind(dtype: DType, shape: &[usize]) -> TensorType {
    TensorType::new(dtype, shape)
}

fn text(kind: &TensorType) -> String {
    serde_json::to_string(kind).unwrap()
}

fn step(op: &str, operands: &str, result: &TensorType, attributes: &str, line: usize) -> String {
    let result = text(result);
    format!(
        r#"{{"op": "{op}", "operands": {operands}, "results": [{result}], "attributes": {attributes}, "location": {line}}}"#
    )
}

fn read(ranks: u32, inputs: &[&TensorType], operations: &[String], outputs: &str) -> Result<Graph, GraphError> {
    let inputs: Vec<String> = inputs.iter().map(|kind| text(kind)).collect();
    let lines: Vec<String> = (0..4).map(|line| format!(r#"{{"file": "model.py", "line": {}}}"#, line + 1)).collect();
    let whole = format!(
        r#"{{"format": "trn3-graph", "version": 1, "name": "step", "ranks": {ranks}, "locations": [{}],
            "inputs": [{}], "operations": [{}], "outputs": {outputs}}}"#,
        lines.join(", "),
        inputs.join(", "),
        operations.join(", ")
    );
    Graph::from_json(whole.as_bytes(), &[])
}

fn integers(kind: &TensorType, values: impl IntoIterator<Item = i64>) -> Tensor {
    Tensor::from_integers(kind.clone(), values).unwrap()
}

/// One collective of int32[4, 2] on four ranks, of which rank r has 100 r + 0, 1, 2 ...
fn moved(op: &str, attributes: &str, result: &[usize]) -> Vec<Vec<i64>> {
    let (x, y) = (kind(DType::Int32, &[4, 2]), kind(DType::Int32, result));
    let graph = read(4, &[&x], &[step(op, "[0]", &y, attributes, 0)], "[1]").unwrap();
    let inputs = (0..4).map(|rank| vec![integers(&x, (0..8).map(|place| 100 * rank + place))]).collect();
    let found = graph.execute_ranks(inputs, &ExecutionOptions::default()).unwrap();
    found.iter().map(|outputs| outputs[0].integers().unwrap()).collect()
}

const PAIRS: &str = "[[0, 2], [3, 1]]";

#[test]
fn test_every_collective_moves_what_it_says() {
    let own = |rank: i64| (0..8).map(move |place| 100 * rank + place);
    let sums = |one, other| own(one).zip(own(other)).map(|(x, y)| x + y).collect::<Vec<i64>>();
    let found = moved("all_reduce", &format!(r#"{{"replica_groups": {PAIRS}, "function": "add"}}"#), &[4, 2]);
    assert_eq!(found, [sums(0, 2), sums(3, 1), sums(0, 2), sums(3, 1)]);
    let found = moved("all_reduce", r#"{"replica_groups": [], "function": "maximum"}"#, &[4, 2]);
    assert_eq!(found, vec![own(3).collect::<Vec<i64>>(); 4]);
    // Places in a group count, not numbers: rank 3 is the first of its group.
    let found = moved("all_gather", &format!(r#"{{"replica_groups": {PAIRS}, "dimension": 1}}"#), &[4, 4]);
    assert_eq!(found[1], [300, 301, 100, 101, 302, 303, 102, 103, 304, 305, 104, 105, 306, 307, 106, 107]);
    assert_eq!(found[1], found[3]);
    let attributes = format!(r#"{{"replica_groups": {PAIRS}, "dimension": 0, "function": "add"}}"#);
    let found = moved("reduce_scatter", &attributes, &[2, 2]);
    assert_eq!(found, [&sums(0, 2)[..4], &sums(3, 1)[4..], &sums(0, 2)[4..], &sums(3, 1)[..4]]);
    let attributes = r#"{"replica_groups": [], "split_dimension": 0, "concat_dimension": 1}"#;
    let found = moved("all_to_all", attributes, &[1, 8]);
    assert_eq!(found[2], [4, 5, 104, 105, 204, 205, 304, 305]);
    let found = moved("collective_permute", r#"{"pairs": [[0, 1], [1, 3]]}"#, &[4, 2]);
    assert_eq!(found, [vec![0; 8], own(0).collect(), vec![0; 8], own(1).collect()]);
    let found = moved("collective_broadcast", &format!(r#"{{"replica_groups": {PAIRS}}}"#), &[4, 2]);
    assert_eq!(found, [own(0), own(3), own(0), own(3)].map(Iterator::collect::<Vec<i64>>));
}

#[test]
fn test_sums_are_float32_in_ascending_ranks_and_rounded_once() {
    let x = kind(DType::BFloat16, &[1]);
    let attributes = r#"{"replica_groups": [], "function": "add"}"#;
    let graph = read(4, &[&x], &[step("all_reduce", "[0]", &x, attributes, 0)], "[1]").unwrap();
    let values = [256.0f32, 1.0, 1.0, 1.0];
    let inputs = values.iter().map(|&value| vec![Tensor::from_floats(x.clone(), vec![value]).unwrap()]).collect();
    let found = graph.execute_ranks(inputs, &ExecutionOptions::default()).unwrap();
    // Rounded after each step, every 1 would be lost; 259 is halfway between 258 and 260, whose code is even.
    assert_eq!(found[3][0].floats().unwrap()[0], 260.0);
}

#[test]
fn test_alone_a_rank_takes_what_it_brought() {
    let x = kind(DType::Float32, &[2, 4]);
    let operations = [
        step("all_reduce", "[0]", &x, r#"{"replica_groups": [[0]], "function": "add"}"#, 0),
        step("all_gather", "[1]", &x, r#"{"replica_groups": [], "dimension": 1}"#, 0),
        step("reduce_scatter", "[2]", &x, r#"{"replica_groups": [], "dimension": 1, "function": "minimum"}"#, 0),
        step("all_to_all", "[3]", &x, r#"{"replica_groups": [], "split_dimension": 0, "concat_dimension": 1}"#, 0),
        step("collective_permute", "[4]", &x, r#"{"pairs": [[0, 0]]}"#, 0),
        step("collective_broadcast", "[5]", &x, r#"{"replica_groups": []}"#, 0),
    ];
    let graph = read(1, &[&x], &operations, "[6]").unwrap();
    let given = Tensor::from_floats(x, (0..8).map(|place| place as f32 - 3.5).collect()).unwrap();
    let found = graph.execute(vec![given.clone()], &ExecutionOptions::default()).unwrap();
    assert_eq!(found, std::slice::from_ref(&given));
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    let arch = Arc::new(ArchSpec::load("trn3").unwrap());
    let run = graph.run_on_core(&arch, Some(vec![given.clone()]), &ExecutionOptions::default(), &compile).unwrap();
    assert_eq!(run.results[0].as_ref(), Some(&given));
}

/// A loop that adds, turn by turn, what all ranks have, until a rank's own count of turns.
fn looping() -> Graph {
    let (count, x) = (kind(DType::Int32, &[]), kind(DType::Float32, &[3]));
    let types = [text(&count), text(&count), text(&x)].join(", ");
    let condition = format!(
        r#"{{"inputs": [{types}], "operations": [{}], "outputs": [3]}}"#,
        step("compare", "[0, 1]", &kind(DType::Bool, &[]), r#"{"direction": "lt"}"#, 0)
    );
    let one = r#"{"data": 0}"#;
    let body = format!(
        r#"{{"inputs": [{types}], "operations": [{}, {}, {}], "outputs": [4, 1, 5]}}"#,
        step("constant", "[]", &count, one, 0),
        step("add", "[0, 3]", &count, "{}", 0),
        step("all_reduce", "[2]", &x, r#"{"replica_groups": [], "function": "add"}"#, 2)
    );
    let results = types.clone();
    let whole = format!(
        r#"{{"format": "trn3-graph", "version": 1, "name": "loop", "ranks": 3,
            "locations": [{{"file": "model.py", "line": 1}}, {{"file": "model.py", "line": 2}}, {{"file": "model.py", "line": 3}}],
            "inputs": [{types}], "operations": [{{"op": "while", "operands": [0, 1, 2], "results": [{results}],
            "attributes": {{"condition": {condition}, "body": {body}}}, "location": 1}}], "outputs": [5]}}"#
    );
    Graph::from_json(whole.as_bytes(), &[integers(&count, [1])]).unwrap()
}

fn turns(counts: [i64; 3]) -> Vec<Vec<Tensor>> {
    let (count, x) = (kind(DType::Int32, &[]), kind(DType::Float32, &[3]));
    let own = |(rank, turns): (usize, i64)| {
        let values = Tensor::from_floats(x.clone(), vec![rank as f32, 1.0, -0.25]).unwrap();
        vec![integers(&count, [0]), integers(&count, [turns]), values]
    };
    counts.into_iter().enumerate().map(own).collect()
}

#[test]
fn test_ranks_meet_in_loops() {
    let found = looping().execute_ranks(turns([4; 3]), &ExecutionOptions::default()).unwrap();
    for outputs in found {
        assert_eq!(&*outputs[0].floats().unwrap(), &[3.0 * 27.0, 81.0, -20.25]);
    }
}

#[test]
fn test_a_rank_that_does_not_come_is_refused() {
    let error = looping().execute_ranks(turns([4, 3, 4]), &ExecutionOptions::default()).unwrap_err();
    let expected = "model.py:3: all_reduce: rank 0 waits in vain: rank 1 has ended; all ranks of a group have to come";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn test_ranks_at_different_collectives_are_refused() {
    let (x, index) = (kind(DType::Float32, &[2]), kind(DType::Int32, &[]));
    let branch = |line| {
        let sum = step("all_reduce", "[0]", &x, r#"{"replica_groups": [], "function": "add"}"#, line);
        format!(r#"{{"inputs": [{}], "operations": [{sum}], "outputs": [1]}}"#, text(&x))
    };
    let operations = [
        step("partition_id", "[]", &kind(DType::UInt32, &[]), "{}", 0),
        step("convert", "[1]", &index, "{}", 0),
        step("case", "[2, 0]", &x, &format!(r#"{{"branches": [{}, {}]}}"#, branch(1), branch(2)), 0),
    ];
    let graph = read(2, &[&x], &operations, "[3]").unwrap();
    let inputs = vec![vec![Tensor::from_floats(x.clone(), vec![1.0, 2.0]).unwrap()]; 2];
    let error = graph.execute_ranks(inputs, &ExecutionOptions::default()).unwrap_err();
    let expected = "model.py:2: all_reduce: rank 0 waits in vain: rank 1 is at all_reduce at model.py:3; all ranks of a \
                    group have to come";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn test_the_rank_that_fails_is_named_and_not_those_that_wait_for_it() {
    let x = kind(DType::Float32, &[2]);
    let sum = step("all_reduce", "[0]", &x, r#"{"replica_groups": [], "function": "add"}"#, 0);
    let graph = read(3, &[&x], &[sum], "[1]").unwrap();
    let value = Tensor::from_floats(x, vec![1.0, 2.0]).unwrap();
    let wrong = Tensor::from_floats(kind(DType::Float32, &[1]), vec![1.0]).unwrap();
    let inputs = vec![vec![value.clone()], vec![value.clone()], vec![wrong]];
    let refusal = |inputs| graph.execute_ranks(inputs, &ExecutionOptions::default()).unwrap_err().to_string();
    assert!(refusal(inputs).starts_with("rank 2: input 0"));
    assert_eq!(refusal(vec![vec![value.clone()]]), "inputs of 1 ranks came; step runs on 3");
    let alone = graph.execute(vec![value], &ExecutionOptions::default()).unwrap_err();
    assert_eq!(alone.to_string(), "step runs on 3 ranks, each with inputs of its own; one came");
}

#[test]
fn test_what_cannot_meet_is_refused_on_entry() {
    let (x, y) = (kind(DType::Float32, &[4, 2]), kind(DType::Float32, &[2, 2]));
    let refusal = |op: &str, attributes: &str, result: &TensorType| {
        read(2, &[&x], &[step(op, "[0]", result, attributes, 1)], "[1]").unwrap_err().to_string()
    };
    let groups =
        |groups: &str| refusal("all_gather", &format!(r#"{{"replica_groups": {groups}, "dimension": 0}}"#), &x);
    assert!(groups("[[0]]").starts_with("model.py:2: all_gather: replica_groups has no rank 1; allowed: groups"));
    assert!(groups("[[0, 2]]").contains("has rank 2 of 2"));
    assert!(groups("[[0, 0]]").contains("has rank 0 twice"));
    assert!(groups("[[0, 1]]").contains("the result is float32[4, 2] and what a rank takes is float32[8, 2]"));
    let joined = |function: &str| {
        let attributes = format!(r#"{{"replica_groups": [], "function": "{function}", "dimension": 0}}"#);
        refusal("reduce_scatter", &attributes, &x)
    };
    assert!(joined("multiply").contains("function is Multiply; allowed between ranks: add, maximum, minimum"));
    assert!(joined("add").contains("what a rank takes is float32[2, 2]"));
    let cut = r#"{"replica_groups": [], "function": "add", "dimension": 2}"#;
    assert!(refusal("reduce_scatter", cut, &y).contains("dimension is 2 of float32[4, 2]"));
    let pairs = |pairs: &str| refusal("collective_permute", &format!(r#"{{"pairs": {pairs}}}"#), &x);
    assert!(pairs("[[0, 1], [0, 0]]").contains("pairs have rank 0, which sends twice"));
    assert!(pairs("[[0, 1], [1, 1]]").contains("which receives twice"));
    assert!(pairs("[[0, 5]]").contains("have rank 5 of 2"));
}

/// Two ranks' part of a layer, its gradient's sum, and a gather, with a sum in a loop's place of its own.
fn layer(ranks: u32) -> Graph {
    let (x, w) = (kind(DType::BFloat16, &[64, 96]), kind(DType::BFloat16, &[96, 40]));
    let (y, all) = (kind(DType::BFloat16, &[64, 40]), kind(DType::BFloat16, &[64 * ranks as usize, 40]));
    let operations = [
        step("dot_general", "[0, 1]", &y, r#"{"contracting": [[1], [0]]}"#, 0),
        step("all_reduce", "[2]", &y, r#"{"replica_groups": [], "function": "add"}"#, 1),
        step("tanh", "[3]", &y, "{}", 1),
        step("transpose", "[4]", &kind(DType::BFloat16, &[40, 64]), r#"{"permutation": [1, 0]}"#, 1),
        step("collective_permute", "[5]", &kind(DType::BFloat16, &[40, 64]), r#"{"pairs": [[0, 1]]}"#, 2),
        step("all_gather", "[4]", &all, r#"{"replica_groups": [], "dimension": 0}"#, 3),
    ];
    read(ranks, &[&x, &w], &operations, "[3, 6, 7]").unwrap()
}

fn placed(ranks: u32) -> PlacedRanks {
    let fabric = Arc::new(Fabric::built_in("trn3_gen2", LinkProfile::Docs).unwrap());
    PlacedRanks::new(Arc::new(Estimator::new(fabric).unwrap()), "trn3_gen2", 8, ranks, None).unwrap()
}

#[test]
fn test_by_instructions_every_rank_has_the_bits_and_the_systems_time() {
    let (ranks, graph) = (4, layer(4));
    let given = |rank: u32| {
        let values = |kind: &TensorType, seed: u32| {
            let value = |place: usize| ((place as u32 * 7919 + seed * 104_729) % 2001) as f32 / 1000.0 - 1.0;
            Tensor::from_floats(kind.clone(), (0..kind.elements()).map(value).collect()).unwrap()
        };
        graph.body.inputs().iter().zip(0..).map(|(kind, place)| values(kind, 2 * rank + place)).collect()
    };
    let inputs: Vec<Vec<Tensor>> = (0..ranks).map(given).collect();
    let (plain, arch) = (ExecutionOptions::default(), Arc::new(ArchSpec::load("trn3").unwrap()));
    let compile = CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() };
    let (expected, placed) = (graph.execute_ranks(inputs.clone(), &plain).unwrap(), placed(ranks));
    for (rank, cores) in (0..ranks).flat_map(|rank| [(rank, 1), (rank, 2)]) {
        let options = ExecutionOptions { cores, share_from: 1, ..plain };
        let mut run = graph.run_rank_on_core(&arch, (rank, &placed), Some(inputs.clone()), &options, &compile).unwrap();
        for (found, expected) in run.results.iter().zip(&expected[rank as usize]) {
            assert_eq!(found.as_ref(), Some(expected), "rank {rank}");
        }
        let rows = run.account(&graph);
        let seconds = placed.seconds(Operation::AllReduce, 64.0 * 80.0, &[(0..4).collect()], &[]).unwrap();
        assert_eq!(rows[1].template, TemplateKind::Collective);
        assert!((rows[1].busy.microseconds() - seconds * 1e6).abs() < 1e-3, "{:?}", rows[1]);
        assert_eq!(rows[1].hbm_bytes, 2 * 64 * 80);
        // What all ranks meet in is the first core's part; both take what comes of it.
        assert_eq!((rows[1].cores, rows[2].cores as usize), (1, cores));
        let done = rows[1].busy;
        for core in &run.cores {
            let label = core.opcodes.labels().iter().position(|label| *label == rows[2].label).unwrap() as u32;
            let taken = core.timeline.records().iter().filter(|record| record.label == label);
            assert!(taken.map(|record| record.end).max().unwrap() > done);
        }
        let mut timed = graph.run_rank_on_core(&arch, (rank, &placed), None, &options, &compile).unwrap();
        assert_eq!(timed.makespan(), run.makespan(), "values change no time");
        assert!(timed.results[0].is_none());
    }
    let options = plain;
    let error = graph.run_on_core(&arch, None, &options, &compile).err().unwrap();
    assert_eq!(error.to_string(), "step runs on 4 ranks, of which one alone meets nobody");
    let other = graph.run_rank_on_core(&arch, (4, &placed), None, &options, &compile).err().unwrap();
    assert_eq!(other.to_string(), "rank 4 of 4 came; step runs on 4 ranks");
}
