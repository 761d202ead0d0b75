//! Version 2 of the format of programs: tensors without a place, marks, functions by name, cores together; programs changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{CoreOptions, NeuronCore};
use trn3_machine::engine::Engine;
use trn3_machine::isa::custom::{GpSimdFunction, TileBytes};
use trn3_machine::memory::Contents;
use trn3_machine::program::{Bound, Declaration, FunctionRegistry, Laid, Limits, Mark, Place, Role, run_together};
use trn3_machine::trace::{Home, LoopKind};
use trn3_machine::{Error, Program};

fn arch() -> Arc<ArchSpec> {
    Arc::new(ArchSpec::load("trn3").expect("a machine"))
}

fn core() -> NeuronCore {
    NeuronCore::new(arch(), CoreOptions::default()).expect("a core")
}

fn program(version: u32, tensors: &Value, steps: &Value) -> Program {
    let text = json!({"format": "trn3-program", "version": version, "name": "p", "tensors": tensors, "steps": steps});
    Program::from_json(text.to_string().as_bytes(), &Limits::default()).expect("a program")
}

fn refusal(program: &Program) -> String {
    program.check(&arch(), &Limits::default()).expect_err("a refusal").to_string()
}

fn bytes_of(core: &mut NeuronCore, loaded: &trn3_machine::program::Loaded, tensor: &str) -> Vec<u8> {
    let storage = loaded.tensors.iter().find(|storage| storage.name == tensor).expect("a tensor");
    core.state.read_bytes(&trn3_machine::view::View::whole(storage.clone())).expect("bytes")
}

/// `chain` tiles one after the other, each made of the one before it, from x to out.
fn chain(length: usize, columns: usize) -> Program {
    let mut tensors = vec![
        json!({"name": "x", "space": "hbm", "shape": [128, columns], "dtype": "float32", "role": "input"}),
        json!({"name": "out", "space": "hbm", "shape": [128, columns], "dtype": "float32", "role": "output"}),
    ];
    let mut steps = vec![json!({"op": "dma_copy", "dst": "t0", "src": "x"})];
    for number in 0..length {
        let (name, next) = (format!("t{number}"), format!("t{}", number + 1));
        tensors.push(json!({"name": name, "space": "sbuf", "shape": [128, columns], "dtype": "float32"}));
        steps.push(json!({"op": "tensor_scalar", "dst": next, "data": name, "op0": "add", "operand0": 1.0}));
    }
    let last = format!("t{length}");
    tensors.push(json!({"name": last, "space": "sbuf", "shape": [128, columns], "dtype": "float32"}));
    steps.push(json!({"op": "dma_copy", "dst": "out", "src": last}));
    program(2, &json!(tensors), &json!(steps))
}

/// A host that places tensors itself.
struct Placed(Vec<Option<(usize, usize)>>);

impl Laid for Placed {
    fn hbm(&mut self, _number: usize, _bytes: u64) -> trn3_machine::Result<Contents> {
        Ok(Contents::default())
    }

    fn on_chip(&mut self, number: usize) -> Option<(usize, usize)> {
        self.0.get(number).copied().flatten()
    }
}

#[test]
fn test_tensors_without_a_place_share_bytes_when_their_times_do_not_meet() {
    // Thirty tiles of 20 KiB a partition do not fit; two at a time do.
    let long = chain(30, 5 * 1024);
    let input: Vec<u8> = (0..128 * 5 * 1024).flat_map(|number| (number as f32).to_le_bytes()).collect();
    let mut core = core();
    let ran = long.run_on(&mut core, &[("x".to_owned(), input.clone())], &Limits::default()).expect("a run");
    let out = bytes_of(&mut core, &ran, "out");
    for (before, after) in input.chunks_exact(4).zip(out.chunks_exact(4)) {
        let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        assert_eq!(number(after), number(before) + 30.0);
    }
    let mut bytes: Vec<usize> =
        ran.tensors.iter().filter_map(|storage| storage.place.map(|place| place.byte)).collect();
    bytes.sort_unstable();
    bytes.dedup();
    assert!((3..31).contains(&bytes.len()), "{bytes:?}");
}

#[test]
fn test_what_does_not_fit_is_refused_with_the_step_and_the_numbers() {
    let mut wide = chain(3, 5 * 1024);
    for number in 0..12 {
        let name = format!("kept{number}");
        let tensor = json!({"name": name, "space": "sbuf", "shape": [128, 5120], "dtype": "float32"});
        wide.add_tensor(serde_json::from_value(tensor).expect("a tensor")).expect("a name of its own");
        wide.insert_tensor_copy(1 + number, &json!(name), &json!("t0"), None).expect("a place");
        let end = wide.steps.len();
        wide.insert_tensor_copy(end, &json!(name), &json!(name), Some(Engine::Vector)).expect("a place");
    }
    let error = wide.check(&arch(), &Limits::default()).expect_err("twelve and one are too many");
    assert!(matches!(error, Error::SbufCapacity(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with("program p: step ") && text.contains("(tensor_copy): SBUF cannot hold tensor `kept"),
        "{text}"
    );
    assert!(text.contains("it needs 20480 bytes per partition"), "{text}");
    let unlimited = CoreOptions { unlimited: true, ..CoreOptions::default() };
    let mut endless = NeuronCore::new(arch(), unlimited).expect("a core");
    let input = vec![0; 128 * 5 * 1024 * 4];
    wide.run_on(&mut endless, &[("x".to_owned(), input)], &Limits::default()).expect("room without limit");
    let trace = endless.take_trace().expect("a trace");
    let open = trace.tensors.iter().filter(|tensor| matches!(tensor.home, Home::Open(_))).count();
    assert_eq!((open, trace.steps.len()), (16, wide.instruction_steps().len()));

    let large = json!([{"name": "t", "space": "psum", "shape": [128, 8192], "dtype": "float32"}]);
    let large = program(2, &large, &json!([{"op": "fresh", "tensor": "t"}]));
    assert!(refusal(&large).starts_with("program p: step 0 (fresh): PSUM cannot hold tensor `t` [128, 8192]"));
    let old = json!([{"name": "t", "space": "sbuf", "shape": [128, 4], "dtype": "float32"}]);
    assert_eq!(
        refusal(&program(1, &old, &json!([]))),
        "program p: tensor \"t\": address is missing; on chip it is [partition, byte]"
    );
}

#[test]
fn test_addresses_stay_and_the_host_may_place_the_others() {
    let tensors = json!([
        {"name": "given", "space": "sbuf", "shape": [128, 2048], "dtype": "float32", "address": [0, 0]},
        {"name": "open", "space": "sbuf", "shape": [128, 2048], "dtype": "float32"},
    ]);
    let steps = json!([
        {"op": "memset", "dst": "given", "value": 1.0}, {"op": "memset", "dst": "open", "value": 2.0},
        {"op": "tensor_tensor", "dst": "given", "data1": "given", "data2": "open", "function": "add"},
    ]);
    let mixed = program(2, &tensors, &steps);
    let (core, limits) = (core(), Limits::default());
    let lay = |places: &mut dyn Laid| {
        mixed.lay(&arch(), &core.state.memory, places, &limits).map(|laid| {
            laid.tensors
                .iter()
                .map(|storage| storage.place.map(|place| (place.partition, place.byte)))
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(lay(&mut ()).expect("room"), [Some((0, 0)), Some((0, 8192))]);
    assert_eq!(lay(&mut Placed(vec![Some((0, 640)), Some((0, 512))])).expect("room"), [Some((0, 0)), Some((0, 512))]);
    let text = lay(&mut Placed(vec![None, Some((64, 0))])).expect_err("no such place").to_string();
    assert!(text.starts_with("program p: tensor \"open\":") && text.contains("partitions 64 to 192"), "{text}");
}

#[test]
fn test_bytes_of_another_tensor_are_never_read() {
    let tensors = json!([
        {"name": "secret", "space": "sbuf", "shape": [128, 16], "dtype": "int32"},
        {"name": "other", "space": "sbuf", "shape": [128, 16], "dtype": "int32"},
        {"name": "out", "space": "hbm", "shape": [128, 16], "dtype": "int32", "role": "output"},
    ]);
    let steps =
        json!([{"op": "memset", "dst": "secret", "value": 77}, {"op": "dma_copy", "dst": "out", "src": "other"}]);
    let leaky = program(2, &tensors, &steps);
    let mut core = core();
    for _ in 0..2 {
        let ran = leaky.run_on(&mut core, &[], &Limits::default()).expect("a run");
        assert!(bytes_of(&mut core, &ran, "out").chunks(4).all(|bytes| bytes != [77, 0, 0, 0]));
        assert_eq!(core.state.memory.findings().len(), 1);
    }
    // What only an output names is nobody else's either.
    let mut unnamed = leaky;
    unnamed.outputs.push(serde_json::from_value(json!({"name": "result", "view": "other"})).expect("an output"));
    unnamed.reorder(&[0]).expect("one step");
    let ran = unnamed.run_on(&mut core, &[], &Limits::default()).expect("a run");
    assert!(core.state.peek_bytes(&ran.outputs[0].1).expect("bytes").chunks(4).all(|bytes| bytes != [77, 0, 0, 0]));
}

#[test]
fn test_marks_change_nothing_and_reach_the_trace() {
    let plain = chain(4, 64);
    let mut marked = plain.clone();
    marked.insert_mark(1, Mark::Loop { kind: LoopKind::Affine, trip: Some(4) }).expect("a place");
    for iteration in 0..4 {
        marked.insert_mark(2 + 2 * iteration, Mark::Iteration).expect("a place");
    }
    marked.insert_mark(10, Mark::EndLoop).expect("a place");
    marked.insert_mark(0, Mark::NoReorder).expect("a place");
    marked.insert_mark(marked.steps.len(), Mark::EndNoReorder).expect("a place");
    let input = vec![("x".to_owned(), vec![0; 128 * 64 * 4])];
    let (mut one, mut other) = (core(), core());
    let limits = Limits::default();
    let (first, second) = (plain.run_on(&mut one, &input, &limits), marked.run_on(&mut other, &input, &limits));
    let (first, second) = (first.expect("a run"), second.expect("a run"));
    assert_eq!(bytes_of(&mut one, &first, "out"), bytes_of(&mut other, &second, "out"));
    assert_eq!(one.makespan(), other.makespan());
    let unlimited = CoreOptions { unlimited: true, ..CoreOptions::default() };
    let mut traced = NeuronCore::new(arch(), unlimited).expect("a core");
    marked.run_on(&mut traced, &input, &limits).expect("a run");
    let mut trace = traced.take_trace().expect("a trace");
    let iterations: Vec<_> =
        trace.steps.iter().map(|step| trace.scopes.get(step.scope).map(|scope| scope.iteration)).collect();
    assert_eq!(iterations, [None, Some(0), Some(1), Some(2), Some(3), None]);
    assert!(trace.steps.iter().all(|step| step.marks.is_ordered));
    assert!(trace.place_as_written());
    marked.remove_marks();
    assert_eq!(marked, plain);
}

#[test]
fn test_marks_that_do_not_fit_name_their_step() {
    let of = |steps: Value| refusal(&program(2, &json!([]), &steps));
    let begun = json!({"op": "loop", "kind": "affine_range", "trip": 1});
    assert_eq!(of(json!([begun])), "program p: step 0 (loop): begins what no end_loop ends");
    assert_eq!(of(json!([{"op": "end_loop"}])), "program p: step 0 (end_loop): belongs to a loop, and none is open");
    assert_eq!(
        of(json!([begun, {"op": "iteration"}, {"op": "iteration"}, {"op": "end_loop"}])),
        "program p: step 2 (iteration): is one more than the trip of the loop of step 0, which is 1"
    );
    assert_eq!(of(json!([{"op": "no_reorder"}])), "program p: step 0 (no_reorder): begins what no end_no_reorder ends");
    let old = program(1, &json!([]), &json!([{"op": "iteration"}]));
    assert_eq!(refusal(&old), "program p: step 0 (iteration): needs version 2; the program has 1");
}

fn reversed() -> BTreeMap<String, Arc<dyn GpSimdFunction>> {
    let flip: Arc<dyn GpSimdFunction> = Arc::new(|inputs: &[TileBytes], outputs: &mut [TileBytes]| {
        outputs[0].bytes = inputs[0].bytes.iter().rev().copied().collect();
        Ok(())
    });
    BTreeMap::from([("flip".to_owned(), flip)])
}

#[test]
fn test_functions_come_from_who_runs_the_program() {
    let tensors = json!([
        {"name": "x", "space": "hbm", "shape": [128, 4], "dtype": "uint8", "role": "input"},
        {"name": "t", "space": "sbuf", "shape": [128, 4], "dtype": "uint8"},
        {"name": "out", "space": "hbm", "shape": [128, 4], "dtype": "uint8", "role": "output"},
    ]);
    let steps = |call: Value| json!([{"op": "dma_copy", "dst": "t", "src": "x"}, call, {"op": "dma_copy", "dst": "out", "src": "t"}]);
    let call =
        json!({"op": "gpsimd_call", "function": "flip", "outputs": ["t"], "inputs": ["t"], "cycles": 50, "after": [0]});
    let calling = program(2, &tensors, &steps(call));
    calling.check(&arch(), &Limits::default()).expect("looking at it needs none");
    let input: Vec<u8> = (0..512).map(|number| number as u8).collect();
    let given = [("x".to_owned(), input.clone())];
    let mut core = core();
    let error = calling.run_on(&mut core, &given, &Limits::default()).map(|_| ()).expect_err("no function");
    assert!(matches!(error, Error::NotModelled(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "program p: step 1 (gpsimd_call): function is \"flip\", which nobody gave: who runs the program registers it"
    );
    let ran = calling.run_with(&mut core, &given, &reversed(), &Limits::default()).expect("a run");
    let wanted: Vec<u8> = input.iter().rev().copied().collect();
    assert_eq!(bytes_of(&mut core, &ran, "out"), wanted);
    for (call, words) in [
        (json!({"op": "gpsimd_call"}), "function is null; allowed: a name"),
        (json!({"op": "gpsimd_call", "function": "f", "inputs": [], "outputs": []}), "outputs"),
        (
            json!({"op": "gpsimd_call", "function": "f", "inputs": ["y"], "outputs": ["t"]}),
            "inputs [0] names tensor \"y\"",
        ),
        (json!({"op": "gpsimd_call", "function": "f", "inputs": [], "outputs": ["x"]}), "outputs"),
        (json!({"op": "gpsimd_call", "function": "f", "inputs": [], "outputs": ["t"], "cycles": -1}), "cycles is -1"),
        (
            json!({"op": "gpsimd_call", "function": "f", "inputs": [], "outputs": ["t"], "engine": "x"}),
            "has argument \"engine\"",
        ),
    ] {
        let text = refusal(&program(2, &tensors, &steps(call)));
        assert!(text.starts_with("program p: step 1 (gpsimd_call): ") && text.contains(words), "{text}");
    }
    assert!(().function("flip").is_none());
}

/// Programs of two cores: each writes half of a shared tensor, and reads the other's half after a barrier.
fn pair() -> Vec<Program> {
    let of = |core: u32| {
        let own = |name: &str| json!({"name": name, "space": "sbuf", "shape": [128, 8], "dtype": "float32"});
        let half = |core: u32| json!({"tensor": "both", "shape": [128, 8], "strides": [16, 1], "offset": 8 * core, "dtype": "float32"});
        let text = json!({
            "format": "trn3-program", "version": 2, "name": "pair", "logical_core": {"core": core, "cores": 2},
            "tensors": [
                own("mine"), own("yours"), own("came"),
                {"name": "both", "space": "shared_hbm", "shape": [128, 16], "dtype": "float32", "role": "output"},
                {"name": "out", "space": "hbm", "shape": [128, 8], "dtype": "float32", "role": "output"},
            ],
            "steps": [
                {"op": "memset", "dst": "mine", "value": f64::from(core + 1)},
                {"op": "dma_copy", "dst": half(core), "src": "mine"},
                {"op": "core_barrier", "data": "both"},
                {"op": "dma_copy", "dst": "yours", "src": half(1 - core)},
                {"op": "sendrecv", "src": "yours", "dst": "came", "dma_engine": "gpsimd_dma", "label": "x"},
                {"op": "tensor_tensor", "dst": "came", "data1": "came", "data2": "yours", "function": "multiply"},
                {"op": "dma_copy", "dst": "out", "src": "came"},
            ],
        });
        Program::from_json(text.to_string().as_bytes(), &Limits::default()).expect("a program")
    };
    vec![of(0), of(1)]
}

fn together(programs: &[Program]) -> trn3_machine::Result<Vec<Vec<u8>>> {
    let mut first = core();
    let mut second = NeuronCore::beside(&mut first, 1)?;
    let ran = run_together(programs, &mut [&mut first, &mut second], &[], &(), &Limits::default())?;
    assert_eq!(first.makespan(), second.makespan());
    Ok(vec![bytes_of(&mut first, &ran[0], "out"), bytes_of(&mut second, &ran[1], "out")])
}

#[test]
fn test_cores_of_a_logical_core_run_their_programs_together() {
    let programs = pair();
    let outs = together(&programs).expect("a run");
    // Each has the other's number, and what the other has of its own.
    assert!(outs.iter().all(|out| out.chunks(4).all(|bytes| bytes == 2f32.to_le_bytes())));
    for program in &programs {
        let again = Program::from_json(program.to_json().expect("JSON").as_bytes(), &Limits::default());
        assert_eq!(&again.expect("a program"), program);
    }
    let told = |programs: &[Program]| together(programs).map(|_| ()).expect_err("a refusal").to_string();
    let swapped: Vec<Program> = programs.iter().rev().cloned().collect();
    assert_eq!(told(&swapped), "program pair: logical_core: it is of core 1 of 2; core 0 of 2 is needed");
    assert_eq!(told(&programs[..1]), "1 programs came for 2 cores; each needs one");
    let mut shorter = programs.clone();
    shorter[1].reorder(&[0, 1, 2, 3]).expect("an order");
    assert_eq!(
        told(&shorter),
        "program pair: a core waits for one that never comes: core 0 is at step 4 (sendrecv), the program of core 1 has ended"
    );
    let mut crossed = programs.clone();
    crossed[1].reorder(&[0, 1, 3, 4, 2, 5, 6]).expect("an order");
    assert!(
        told(&crossed)
            .contains("do not take the same step together: core 0 is at step 2 (core_barrier), core 1 is at step 3")
    );
    let mut other = programs.clone();
    other[1].tensors[3].shape = vec![128, 32];
    assert!(
        told(&other).contains("tensor \"both\": has shape [128, 32] and dtype float32; in the program of another core")
    );
    let alone = programs[0].run_on(&mut core(), &[], &Limits::default()).map(|_| ()).expect_err("a refusal");
    assert!(matches!(&alone, Error::NotModelled(text) if text.contains("step 2 (core_barrier)")), "{alone:?}");
    let mut lonely = programs[0].clone();
    lonely.logical_core = None;
    assert!(refusal(&lonely).starts_with("program pair: step 2 (core_barrier): needs a logical core of several cores"));
    let mut many = programs[0].clone();
    many.logical_core = serde_json::from_value(json!({"core": 0, "cores": 9})).expect("a place");
    assert_eq!(refusal(&many), "program pair: logical_core: cores is 9; a logical core of trn3 has at most 2");
}

#[test]
fn test_a_program_is_changed() {
    let mut changed = chain(2, 16);
    changed.steps[3].insert("after".to_owned(), json!([0, 2]));
    assert_eq!(changed.instruction_steps(), [0, 1, 2, 3]);
    // A step in front of the second: what waits for those behind it waits for the same.
    let spill = Declaration {
        name: changed.free_name("spill"),
        space: "hbm".to_owned(),
        shape: vec![128, 16],
        dtype: "float32".to_owned(),
        address: None,
        role: Role::Internal,
        data: None,
    };
    assert_eq!(changed.add_tensor(spill.clone()).expect("a name of its own"), 5);
    assert!(changed.add_tensor(spill).expect_err("twice").to_string().ends_with("tensor \"spill\": is there already"));
    assert_eq!(changed.free_name("spill"), "spill.1");
    changed.insert_dma_copy(1, &json!("spill"), &json!("t0")).expect("a place");
    assert_eq!(changed.steps[4]["after"], json!([0, 3]));
    changed.rename_tensor("t1", "middle").expect("a tensor");
    assert_eq!((&changed.steps[2]["dst"], &changed.steps[3]["data"]), (&json!("middle"), &json!("middle")));
    assert!(changed.rename_tensor("t1", "x").expect_err("it is gone").to_string().contains("is not declared"));
    assert!(changed.rename_tensor("t2", "x").expect_err("taken").to_string().contains("is there already"));
    changed.redirect(3, "middle", "t0").expect("a step that names it");
    assert_eq!(changed.steps[3]["data"], "t0");
    assert!(changed.redirect(3, "middle", "t0").expect_err("no more").to_string().contains("does not name \"middle\""));
    changed.set_engine(3, Some(Engine::GpSimd)).expect("it may");
    assert_eq!(changed.steps[3]["engine"], "gpsimd");
    changed.set_engine(3, None).expect("it may");
    assert!(!changed.steps[3].contains_key("engine"));
    let text = changed.set_engine(3, Some(Engine::Tensor)).expect_err("it cannot").to_string();
    assert!(text.ends_with("step 3 (tensor_scalar): engine is tensor; allowed: vector, scalar, gpsimd"), "{text}");
    changed.set_address("middle", Some(Place::OnChip([0, 128]))).expect("a place");
    assert_eq!(changed.tensor("middle").expect("a tensor").address, Some(Place::OnChip([0, 128])));
    assert!(changed.set_address("middle", Some(Place::Hbm(0))).is_err() && changed.set_address("none", None).is_err());
    changed.set_address("middle", None).expect("none is fine");
    changed.check(&arch(), &Limits::default()).expect("it is a program");

    let text = changed.reorder(&[4, 0, 1, 2, 3]).expect_err("it waits").to_string();
    assert_eq!(text, "program p: step 4 (dma_copy): after names instruction 0, which would come no earlier");
    assert!(changed.reorder(&[0, 0]).expect_err("twice").to_string().contains("names step 0 twice"));
    assert!(changed.reorder(&[9]).expect_err("not there").to_string().contains("names step 9; there are 5"));
    assert_eq!(changed.steps.len(), 5);
    assert!(changed.insert_mark(6, Mark::Iteration).expect_err("too far").to_string().contains("place: is 6"));
    changed.steps[0].insert("after".to_owned(), json!(["x"]));
    assert!(
        changed
            .reorder(&[0, 1])
            .expect_err("no number")
            .to_string()
            .contains("after names \"x\", which is no instruction")
    );
}

/// What hostile texts put in the place of values.
fn hostile() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(0)),
        Just(json!(-1)),
        Just(json!(1u64 << 63)),
        Just(json!(1e308)),
        Just(json!("")),
        Just(json!("t0")),
        Just(json!("loop")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([0, 0])),
        Just(json!([0, 196_607])),
        Just(json!([1u64 << 62, 1u64 << 62])),
        Just(json!(true)),
        Just(json!({"tensor": "t0", "shape": [1u64 << 40, 1u64 << 40], "strides": [1, 1]})),
        Just(json!("shared_hbm")),
        Just(json!("psum")),
    ]
}

fn places(value: &Value, way: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    all.push(way.clone());
    let items: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, inner)| (key.clone(), inner)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, inner)| (at.to_string(), inner)).collect(),
        _ => Vec::new(),
    };
    for (key, inner) in items {
        way.push(key);
        places(inner, way, all);
        way.pop();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn test_hostile_texts_are_refused_or_laid(
        changes in prop::collection::vec((any::<prop::sample::Index>(), hostile()), 1..4),
        of_pair in any::<bool>(),
    ) {
        let mut base = if of_pair { pair().remove(0) } else { chain(3, 16) };
        base.insert_mark(2, Mark::Loop { kind: LoopKind::Static, trip: Some(1) }).expect("a place");
        base.insert_mark(3, Mark::Iteration).expect("a place");
        base.insert_mark(4, Mark::EndLoop).expect("a place");
        let call = json!({"op": "gpsimd_call", "function": "flip", "outputs": ["t0"], "inputs": ["t1"], "after": [0]});
        if let Value::Object(call) = call {
            base.insert(5, call).expect("a place");
        }
        let mut document: Value = serde_json::from_str(&base.to_json().expect("JSON")).expect("JSON");
        for (index, value) in changes {
            let mut all = Vec::new();
            places(&document, &mut Vec::new(), &mut all);
            let pointer: String = index.get(&all).iter().map(|key| format!("/{key}")).collect();
            if let Some(place) = document.pointer_mut(&pointer) {
                *place = value;
            }
        }
        let limits = Limits { elements: 1 << 20, ..Limits::default() };
        if let Ok(read) = Program::from_json(document.to_string().as_bytes(), &limits) {
            let again = Program::from_json(read.to_json().expect("JSON").as_bytes(), &limits);
            prop_assert_eq!(&again.expect("its own words"), &read);
            let _ = read.lifetimes();
            let (checked, arch) = (read.check(&arch(), &limits), arch());
            let endless = CoreOptions { unlimited: true, ..CoreOptions::default() };
            for options in [CoreOptions::default(), endless] {
                let core = NeuronCore::new(arch.clone(), options).expect("a core");
                let laid = read.lay(&arch, &core.state.memory, &mut (), &limits);
                prop_assert!(options.unlimited || laid.is_ok() == checked.is_ok());
                for storage in laid.iter().flat_map(|laid| &laid.tensors) {
                    prop_assert!(storage.place.is_some() == storage.buffer.is_on_chip());
                }
            }
            let mut changed = read;
            let order: Vec<usize> = (0..changed.steps.len()).rev().collect();
            let _ = changed.reorder(&order);
        }
    }

    #[test]
    fn test_places_of_tensors_whose_times_meet_do_not(
        spans in prop::collection::vec((0..40usize, 0..40usize, 1..3000usize, any::<bool>()), 1..40),
    ) {
        let mut tensors = Vec::new();
        let mut steps = vec![Vec::new(); 40];
        for (number, &(one, other, columns, is_psum)) in spans.iter().enumerate() {
            let (space, columns) = if is_psum { ("psum", columns % 256 + 1) } else { ("sbuf", columns) };
            let name = format!("t{number}");
            tensors.push(json!({"name": name, "space": space, "shape": [128, columns], "dtype": "float32"}));
            for step in [one, other] {
                steps[step].push(json!({"op": "memset", "dst": name, "value": 0.0}));
            }
        }
        let spread = program(2, &json!(tensors), &json!(steps.concat()));
        let core = core();
        match spread.lay(&arch(), &core.state.memory, &mut (), &Limits::default()) {
            Err(error) => prop_assert!(matches!(error, Error::SbufCapacity(_) | Error::PsumCapacity(_)), "{error}"),
            Ok(laid) => {
                let are_instructions = laid.steps.iter().all(|step| matches!(step, Bound::Issue { .. }));
                prop_assert!(are_instructions);
                let lifetimes = spread.lifetimes();
                for (one, first) in laid.tensors.iter().zip(&lifetimes) {
                    for (other, second) in laid.tensors.iter().zip(&lifetimes).filter(|(other, _)| other.id != one.id) {
                        let (Some(first), Some(second)) = (first, second) else { continue };
                        let (Some(here), Some(there)) = (one.place, other.place) else { continue };
                        let meet = first.first <= second.last && second.first <= first.last;
                        let overlap = here.byte < there.byte + there.bytes && there.byte < here.byte + here.bytes;
                        prop_assert!(one.buffer != other.buffer || !meet || !overlap, "{} {}", one.name, other.name);
                    }
                }
            }
        }
    }
}
