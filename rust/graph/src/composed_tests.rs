use trn3_compiler::{CompileLevel, CompileOptions};
use trn3_machine::arch::ArchSpec;
use trn3_machine::dtype::DType;

use crate::by_instructions_tests::{both, tensor};
use crate::composed::{Composed, Composer};
use crate::repeats::RegionSizes;
use crate::{ExecutionOptions, Graph, StepRun, StepTiming, Tensor, TensorType, WHOLE_BELOW};

/// How far the sum over regions may lie from the schedule of the whole, as a part of it: what overlaps at the seams, and
/// what the compiler does otherwise when it sees less.
const SEAMS: f64 = 0.35;

fn compile() -> CompileOptions {
    CompileOptions { level: CompileLevel::NeuronxCc, ..Default::default() }
}

fn kind(dtype: &str, shape: &[usize]) -> String {
    format!(r#"{{"dtype": "{dtype}", "shape": {shape:?}}}"#)
}

fn operation(op: &str, operands: &[usize], attributes: &str, results: &[&str]) -> String {
    format!(
        r#"{{"op": "{op}", "operands": {operands:?}, "attributes": {{{attributes}}}, "results": [{}], "location": 0}}"#,
        results.join(", ")
    )
}

fn graph(inputs: &[&str], operations: &[String], outputs: &[usize], data: &[Tensor]) -> Graph {
    let text = format!(
        r#"{{"format": "trn3-graph", "version": 1, "locations": [{{"file": "model.py", "line": 7}}],
            "inputs": [{}], "operations": [{}], "outputs": {outputs:?}}}"#,
        inputs.join(", "),
        operations.join(", ")
    );
    Graph::from_json(text.as_bytes(), data).unwrap()
}

/// Layers of x + tanh(x w) turned over, each with weights of its own, and a product that comes once.
fn layers(count: usize, rows: usize, wide: usize) -> Graph {
    let (x, w) = (kind("bfloat16", &[rows, wide]), kind("bfloat16", &[wide, wide]));
    let turned = kind("bfloat16", &[wide, rows]);
    let mut inputs = vec![x.as_str()];
    inputs.extend(vec![w.as_str(); count + 1]);
    let mut operations = Vec::new();
    let mut at = 0;
    let mut next = inputs.len();
    for layer in 0..count {
        operations.push(operation("dot_general", &[at, 1 + layer], r#""contracting": [[1], [0]]"#, &[&x]));
        operations.push(operation("transpose", &[next], r#""permutation": [1, 0]"#, &[&turned]));
        operations.push(operation("transpose", &[next + 1], r#""permutation": [1, 0]"#, &[&x]));
        operations.push(operation("tanh", &[next + 2], "", &[&x]));
        operations.push(operation("add", &[next + 3, at], "", &[&x]));
        at = next + 4;
        next += 5;
    }
    operations.push(operation("dot_general", &[at, 1 + count], r#""contracting": [[1], [0]]"#, &[&x]));
    graph(&inputs, &operations, &[next], &[])
}

fn composed(graph: &Graph, sizes: RegionSizes) -> Composed {
    let (arch, options) = (ArchSpec::shared("trn3").unwrap(), ExecutionOptions::default());
    Composer::new(graph, &arch, &options, sizes).unwrap().composed(&compile()).unwrap()
}

fn whole(graph: &Graph) -> StepRun {
    let (arch, options) = (ArchSpec::shared("trn3").unwrap(), ExecutionOptions::default());
    graph.run_step(&arch, None, &options, &compile(), WHOLE_BELOW).unwrap()
}

const SMALL: RegionSizes = RegionSizes { largest: 5_000, smallest: 8 };

#[test]
fn test_regions_add_up_to_the_whole_but_for_their_seams() {
    for (count, rows, wide) in [(5, 128, 256), (3, 300, 130)] {
        let graph = layers(count, rows, wide);
        let (whole, made) = (whole(&graph), composed(&graph, SMALL));
        assert_eq!(whole.timing, StepTiming::Whole);
        let most = made.regions.iter().map(|region| region.times).max();
        assert_eq!(most, Some(count as u64), "a layer is compiled once: {:?}", made.regions);
        assert!(made.regions.len() < count, "{:?}", made.regions);
        let (sum, all) = (made.latency.microseconds(), whole.latency.microseconds());
        assert!((sum / all - 1.0).abs() < SEAMS, "{sum} us composed, {all} us whole");
        assert!(made.band_us.0 <= all && all <= made.band_us.1, "{all} is not within {:?}", made.band_us);
        let counted = |region: &crate::RegionCost| region.times * region.instructions;
        assert_eq!(made.regions.iter().map(counted).sum::<u64>(), whole.instructions);
        assert_eq!(made.account.len(), whole.account.len());
        for (one, other) in made.account.iter().zip(&whole.account) {
            assert_eq!((&one.label, &one.location, one.template), (&other.label, &other.location, other.template));
            // What loads the same twice over a seam does it once in the whole.
            assert_eq!((one.macs, one.instructions > 0), (other.macs, other.instructions > 0), "{}", one.label);
            assert!(one.instructions >= other.instructions && one.hbm_bytes >= other.hbm_bytes, "{}", one.label);
        }
    }
}

#[test]
fn test_one_region_is_the_whole() {
    let graph = layers(2, 128, 128);
    let made = composed(&graph, RegionSizes::default());
    assert_eq!(made.regions.len(), 1);
    assert_eq!(made.latency, whole(&graph).latency);
}

fn number(value: i64) -> Tensor {
    Tensor::from_integers(TensorType::new(DType::Int32, &[]), [value]).unwrap()
}

/// x through tanh(x w) as often as `condition` and `step` of a counter say, which starts with the first array or is given.
fn turned(condition: &str, step: &str, data: &[i64], is_given: bool) -> Graph {
    let (x, w, i) = (kind("bfloat16", &[128, 128]), kind("bfloat16", &[128, 128]), kind("int32", &[]));
    let truth = kind("bool", &[]);
    let constant = |data: usize| operation("constant", &[], &format!(r#""data": {data}"#), &[&i]);
    let condition = [constant(1), operation("compare", &[0, 3], &format!(r#""direction": "{condition}""#), &[&truth])];
    let body = [
        constant(2),
        operation(step, &[0, 3], "", &[&i]),
        operation("dot_general", &[1, 2], r#""contracting": [[1], [0]]"#, &[&x]),
        operation("tanh", &[5], "", &[&x]),
    ];
    let within = |operations: &[String], outputs: &str| {
        format!(r#"{{"inputs": [{i}, {x}, {w}], "operations": [{}], "outputs": {outputs}}}"#, operations.join(", "))
    };
    let bodies = format!(r#""condition": {}, "body": {}"#, within(&condition, "[4]"), within(&body, "[4, 6, 2]"));
    let operands = if is_given { [2, 0, 1] } else { [3, 0, 1] };
    let operations = [constant(0), operation("while", &operands, &bodies, &[&i, &x, &w])];
    let data: Vec<Tensor> = data.iter().copied().map(number).collect();
    graph(&[&x, &w, &i], &operations, &[5], &data)
}

#[test]
fn test_a_loop_is_compiled_once_and_counted() {
    // Up by one, down by two, and doubled.
    for (condition, step, data, turns) in
        [("lt", "add", [0, 6, 1], 6), ("gt", "subtract", [9, 1, 2], 4), ("ne", "multiply", [1, 32, 2], 5)]
    {
        let graph = turned(condition, step, &data, false);
        let (whole, made) = (whole(&graph), composed(&graph, RegionSizes::default()));
        let times: Vec<u64> = made.regions.iter().map(|region| region.times).collect();
        assert!(times.contains(&turns) && times.contains(&(turns + 1)), "{step}: {times:?}");
        for (one, other) in made.account.iter().zip(&whole.account) {
            assert_eq!((&one.label, one.template, one.macs), (&other.label, other.template, other.macs), "{step}");
            assert!(one.instructions >= other.instructions, "{step}");
        }
        let (sum, all) = (made.latency.microseconds(), whole.latency.microseconds());
        assert!(made.band_us.0 <= all && all <= made.band_us.1, "{all} is not within {:?} of {sum}", made.band_us);
    }
}

#[test]
fn test_two_cores_compose_alike() {
    // Regions end where the cores meet; a loop's condition is there for both.
    let (arch, one) = (ArchSpec::shared("trn3").unwrap(), ExecutionOptions::default());
    for options in [ExecutionOptions { cores: 2, share_from: 1, ..one }, ExecutionOptions { cores: 2, ..one }] {
        for (graph, sizes) in [
            (layers(4, 512, 512), SMALL),
            (layers(2, 512, 512), RegionSizes::default()),
            (turned("lt", "add", &[0, 6, 1], false), RegionSizes::default()),
        ] {
            let whole = graph.run_step(&arch, None, &options, &compile(), WHOLE_BELOW).unwrap();
            let made = Composer::new(&graph, &arch, &options, sizes).unwrap().composed(&compile()).unwrap();
            let (sum, all) = (made.latency.microseconds(), whole.latency.microseconds());
            assert!(made.band_us.0 <= all && all <= made.band_us.1, "{all} is not within {:?} of {sum}", made.band_us);
            assert_eq!((whole.cores.len(), made.cores.len(), made.reports.len()), (2, 2, 2));
            for (one, other) in made.account.iter().zip(&whole.account) {
                assert_eq!((&one.label, one.macs, one.cores), (&other.label, other.macs, other.cores));
            }
            let step = graph.run_step(&arch, None, &options, &compile(), 0).unwrap();
            assert_eq!(step.timing, StepTiming::Composed);
            let counted = |region: &crate::RegionCost| region.times * region.instructions;
            assert_eq!(step.instructions, step.regions.iter().map(counted).sum::<u64>());
        }
    }
}

#[test]
fn test_a_loop_has_the_same_bits_on_two_cores() {
    let graph = turned("lt", "add", &[0, 3, 1], false);
    let kinds = graph.body.inputs();
    let inputs = vec![tensor(&kinds[0], 1), tensor(&kinds[1], 2), number(0)];
    both(&graph, inputs, &ExecutionOptions::default());
}

#[test]
fn test_a_loop_that_values_decide_is_refused_with_its_line() {
    let graph = turned("lt", "add", &[0, 6, 1], true);
    let (arch, options) = (ArchSpec::shared("trn3").unwrap(), ExecutionOptions::default());
    let refused = graph.run_step(&arch, None, &options, &compile(), WHOLE_BELOW).err().map(|error| error.to_string());
    assert_eq!(
        refused.as_deref(),
        Some(
            "model.py:7: while: turns as often as a value says that a run without values does not know; allowed: a count \
             that follows from constants"
        )
    );
}

#[test]
fn test_memory_is_what_lives_at_once() {
    // Of 5 layers: the sum so far, the product and what is added; what is turned is another look.
    let graph = layers(5, 128, 256);
    let memory = whole(&graph).memory;
    let (x, w) = (128 * 256 * 2, 256 * 256 * 2);
    assert_eq!(memory.inputs_bytes, x + 6 * w);
    assert_eq!(memory.constants_bytes, 0);
    assert_eq!(memory.activations_bytes, 3 * x);
    assert_eq!(memory.hbm_peak_bytes(), 4 * x + 6 * w);
    assert!(memory.sbuf_peak_bytes > 0 && memory.psum_peak_bytes > 0);
}
