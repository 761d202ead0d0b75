//! Programs: round trips, refusals, the same on every thread.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use trn3_machine::Program;
use trn3_machine::arch::ArchSpec;
use trn3_machine::program::Limits;

use crate::support::{device, loaded, program, run, seen, step};

const SMALL: Limits = Limits { bytes: 1 << 20, tensors: 1000, registers: 1000, steps: 1000, elements: 1 << 16 };

fn steps() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(step(), 0..24)
}

/// Anything that JSON can say, with words that programs know.
fn anything() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("tensor"),
        Just("shape"),
        Just("strides"),
        Just("offset"),
        Just("dtype"),
        Just("dynamic"),
        Just("rows"),
        Just("register"),
        Just("bound"),
        Just("stride"),
        Just("columns"),
        Just("element"),
        Just("x"),
        Just("t0"),
        Just("i"),
        Just("at"),
        Just("add"),
        Just("vector"),
        Just("bfloat16"),
        Just("nan"),
        Just("pattern"),
    ];
    let number = prop_oneof![
        (-3..40i64),
        Just(i64::MAX),
        Just(i64::MIN),
        Just(1 << 32),
        Just((1 << 48) + 1),
        Just(1 << 47),
        Just(-1)
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number.prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn test_a_program_written_and_read_is_the_same(steps in steps()) {
        let read = Program::from_json(program(&steps).as_bytes(), &SMALL).expect("a program");
        let again = Program::from_json(read.to_json().expect("text").as_bytes(), &SMALL).expect("a program");
        prop_assert_eq!(&again, &read);
        read.check(&Arc::new(ArchSpec::load("trn3").expect("a machine")), &SMALL).expect("what a core takes");
    }

    #[test]
    fn test_a_run_is_the_same_on_every_device_and_thread(steps in steps()) {
        let text = program(&steps);
        let outcome = || {
            let mut device = device();
            let number = loaded(&mut device, &text);
            let first = run(&mut device, number);
            (first, run(&mut device, number), seen(&mut device))
        };
        let alone = outcome();
        let together: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(outcome)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        prop_assert!(together.iter().all(|other| *other == alone));
    }

    #[test]
    fn test_a_wrong_argument_never_panics(
        steps in prop::collection::vec(step(), 1..8), which in any::<prop::sample::Index>(),
        key in any::<prop::sample::Index>(), value in anything(),
    ) {
        let mut steps = steps;
        let place = which.index(steps.len());
        if let Value::Object(map) = &mut steps[place] {
            let keys: Vec<String> = map.keys().cloned().collect();
            map.insert(keys[key.index(keys.len())].clone(), value);
        }
        let mut device = device();
        // What passes for a program must run, or say why not.
        let read = Program::from_json(program(&steps).as_bytes(), &SMALL);
        if let Ok(number) = read.and_then(|read| Ok(device.load_program(read, &SMALL)?)) {
            run(&mut device, number);
        }
    }

    #[test]
    fn test_a_wrong_view_never_panics(
        shape in prop::collection::vec(prop_oneof![0..130i64, Just(1 << 40)], 0..5),
        strides in prop::collection::vec(prop_oneof![0..20i64, Just(16), Just(2048), Just(1 << 47)], 0..5),
        offset in prop_oneof![Just(0i64), 0..3000i64, Just(i64::MAX)],
        dtype in prop_oneof![Just("float32"), Just("bfloat16"), Just("uint8"), Just("float8_e4m3fn_x4")],
        tensor in prop_oneof![Just("x"), Just("t0"), Just("t2"), Just("p")],
        dynamic in prop_oneof![
            Just(Value::Null),
            (0..40i64, 0..3000i64).prop_map(|(stride, bound)| json!({"register": 0, "stride": stride, "bound": bound})),
            (0..40i64, 0..3000i64).prop_map(|(stride, bound)| json!({"element": "at", "stride": stride, "bound": bound})),
            (0..40i64, 0..3000i64).prop_map(|(stride, bound)| json!({"rows": "i", "stride": stride, "bound": bound})),
            (0..3000i64).prop_map(|bound| json!({"columns": "i", "bound": bound})),
        ],
        is_source in any::<bool>(),
    ) {
        let mut view = json!({"tensor": tensor, "shape": shape, "strides": strides, "offset": offset, "dtype": dtype});
        if !dynamic.is_null() {
            view["dynamic"] = dynamic;
        }
        let other = json!("t1");
        let (dst, src) = if is_source { (other, view) } else { (view, other) };
        for op in ["dma_copy", "tensor_copy", "nc_transpose"] {
            let source = if op == "nc_transpose" { "data" } else { "src" };
            let steps = [
                json!({"op": "memset", "dst": "t1", "value": 1.0}),
                json!({"op": "iota", "dst": "i", "affine": {"pattern": [[5, 16]], "offset": 0, "channel_multiplier": 3}}),
                json!({"op": "set_register", "register": 0, "value": 1i64 << 40}),
                json!({"op": op, "dst": dst, source: src}),
            ];
            let mut device = device();
            let read = Program::from_json(program(&steps).as_bytes(), &SMALL).expect("JSON");
            if let Ok(number) = device.load_program(read, &SMALL) {
                run(&mut device, number);
            }
        }
    }

    #[test]
    fn test_text_that_is_no_program_never_panics(
        steps in prop::collection::vec(step(), 0..3), cut in any::<prop::sample::Index>(), byte in any::<u8>(),
        insert in any::<bool>(),
    ) {
        let mut text = program(&steps).into_bytes();
        let at = cut.index(text.len());
        if insert { text.insert(at, byte) } else { text[at] = byte }
        let mut device = device();
        if let Ok(number) = device.load(&text) {
            run(&mut device, number);
        }
    }
}

#[test]
fn test_errors_name_step_and_field() {
    let cases = [
        (json!({"op": "memset", "dst": "nothing", "value": 1.0}), "step 0 (memset): dst names tensor \"nothing\""),
        (json!({"op": "memset", "dst": "t0"}), "value is missing"),
        (json!({"op": "memset", "dst": "t0", "value": 1, "color": 2}), "has argument \"color\"; it takes dst, value"),
        (json!({"op": "matmul"}), "is no instruction; allowed: activate2"),
        (json!({"op": "dma_copy", "dst": "p", "src": "x"}), "PSUM"),
        (json!({"op": "memset", "dst": "t0", "value": 1.0, "after": [0]}), "comes no earlier than 0"),
        (json!({"op": "register_move", "dst": 2, "src": 1}), "names register 2; the program has 2"),
        (
            json!({"op": "tensor_copy", "dst": "t0", "src": {"tensor": "t1", "shape": [128, 17], "strides": [16, 1]}}),
            "src reaches element 16 of tensor \"t1\", which has 16",
        ),
    ];
    for (step, words) in cases {
        let error = device().load(program(&[step]).as_bytes()).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn test_programs_over_one_place_share_its_bytes() {
    let mut device = device();
    let text = |role: &str, op: &str| {
        format!(
            r#"{{"format": "trn3-program", "version": 1, "name": "half", "tensors": [
              {{"name": "b", "space": "hbm", "shape": [128, 16], "dtype": "float32", "role": "{role}", "address": 8192}},
              {{"name": "t", "space": "sbuf", "shape": [128, 16], "dtype": "float32", "address": [0, 0]}}],
              "steps": [{op}]}}"#
        )
    };
    let store = device.load(
        text("output", r#"{"op": "memset", "dst": "t", "value": 3.0}, {"op": "dma_copy", "dst": "b", "src": "t"}"#)
            .as_bytes(),
    );
    let load = device.load(
        text("input", r#"{"op": "memset", "dst": "t", "value": 0.0}, {"op": "dma_copy", "dst": "t", "src": "b"}"#)
            .as_bytes(),
    );
    for program in [store.expect("fits"), load.expect("fits")] {
        assert_eq!(run(&mut device, program).status, Ok(()));
    }
    let mut value = [0; 4];
    device.read(trn3_embed::MemorySpace::Sbuf, 0, 0, &mut value).expect("bytes");
    assert_eq!(f32::from_le_bytes(value), 3.0);
}
