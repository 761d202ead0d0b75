//! Programs made at random, and devices that run them.

use proptest::prelude::*;
use serde_json::{Value, json};
use trn3_embed::{Command, Completion, Device, DeviceSpec, MemorySpace};
use trn3_machine::time::Picos;

pub(crate) fn device() -> Device {
    Device::new(DeviceSpec::default()).expect("a device")
}

pub(crate) fn device_of(spec: &Value) -> Device {
    Device::from_json(&spec.to_string()).expect("a device")
}

/// Lets everything happen that happens by itself; returns what was done.
pub(crate) fn settle(device: &mut Device) -> Vec<Completion> {
    let mut done = Vec::new();
    loop {
        while let Some(completion) = device.poll() {
            done.push(completion);
        }
        let Some(next) = device.next_event() else { return done };
        device.advance(next).expect("later");
    }
}

pub(crate) fn run(device: &mut Device, program: u64) -> Completion {
    device.submit(Command::Run { core: 0, program }, 1).expect("room");
    settle(device).pop().expect("one command")
}

/// A program of steps over the tensors that [`step`] uses.
pub(crate) fn program(steps: &[Value]) -> String {
    let mut tensors = vec![
        json!({"name": "x", "space": "hbm", "shape": [128, 16], "dtype": "float32", "role": "input"}),
        json!({"name": "y", "space": "hbm", "shape": [128, 16], "dtype": "float32", "role": "output"}),
        json!({"name": "p", "space": "psum", "shape": [16, 16], "dtype": "float32", "address": [0, 0]}),
    ];
    for (number, dtype) in ["float32", "float32", "bfloat16"].iter().enumerate() {
        tensors.push(json!({
            "name": format!("t{number}"), "space": "sbuf", "shape": [128, 16], "dtype": dtype, "address": [0, 256 * number],
        }));
    }
    tensors.push(json!({"name": "i", "space": "sbuf", "shape": [128, 16], "dtype": "uint32", "address": [0, 1024]}));
    tensors.push(json!({"name": "at", "space": "sbuf", "shape": [1, 1], "dtype": "int32", "address": [0, 2048]}));
    json!({
        "format": "trn3-program", "version": 1, "name": "random", "tensors": tensors, "registers": 2, "steps": steps,
        "outputs": [{"name": "y", "view": "y"}],
    })
    .to_string()
}

/// One step of a program.
pub(crate) fn step() -> impl Strategy<Value = Value> {
    let tile = || (0..3usize).prop_map(|number| format!("t{number}"));
    let column = |tile: &str, dtype: &str| json!({"tensor": tile, "shape": [128, 1], "strides": [16, 1], "offset": 3, "dtype": dtype});
    prop_oneof![
        tile().prop_map(|dst| json!({"op": "dma_copy", "dst": dst, "src": "x"})),
        tile().prop_map(|src| json!({"op": "dma_copy", "dst": "y", "src": src})),
        (tile(), -4.0..4.0f64).prop_map(|(dst, value)| json!({"op": "memset", "dst": dst, "value": value})),
        (tile(), tile(), tile(), prop_oneof![Just("add"), Just("multiply"), Just("maximum")]).prop_map(
            |(dst, data1, data2, op)| {
                json!({"op": "tensor_tensor", "dst": dst, "data1": data1, "data2": data2, "function": op})
            }
        ),
        (tile(), tile(), -2.0..2.0f64).prop_map(move |(dst, data, value)| json!({
            "op": "tensor_scalar", "dst": dst, "data": data, "op0": "multiply", "operand0": value,
            "op1": "add", "operand1": column("t0", "float32"), "label": "scale",
        })),
        (tile(), tile()).prop_map(|(dst, data)| json!({
            "op": "activation", "dst": dst, "data": data, "function": "tanh", "scale": 0.5,
        })),
        Just(json!({"op": "nc_matmul", "dst": "p", "stationary": "t2", "moving": "t2"})),
        Just(json!({"op": "tensor_copy", "dst": {"tensor": "t1", "shape": [16, 16], "strides": [16, 1]}, "src": "p"})),
        Just(json!({"op": "rng", "dst": "i", "engine": "vector"})),
        Just(json!({"op": "rand2", "dst": "t0", "min": -1.0, "max": 1.0})),
        (0..12i64).prop_map(|value| json!({"op": "set_register", "register": 0, "value": value})),
        Just(json!({"op": "register_move", "dst": 1, "src": 3})),
        Just(json!({"op": "dma_copy", "src": "t1", "dst": {
            "tensor": "y", "shape": [128, 16], "strides": [16, 1], "offset": 0, "dtype": "float32"}})),
        Just(json!({"op": "tensor_copy",
            "dst": {"tensor": "t1", "shape": [128, 4], "strides": [16, 1]},
            "src": {"tensor": "t0", "shape": [128, 4], "strides": [16, 1],
                "dynamic": {"register": 1, "stride": 1, "bound": 13}}})),
        Just(json!({"op": "fresh", "tensor": "t0"})),
        (prop_oneof![Just(json!(null)), Just(json!(7))], 0..3u64)
            .prop_map(|(seed, place)| json!({"op": "stochastic_rounding", "seed": seed, "place": place})),
        Just(
            json!({"op": "iota", "dst": "i", "affine": {"pattern": [[1, 16]], "offset": 2, "channel_multiplier": 16}})
        ),
    ]
}

/// Everything that a host can see of a device: time, memories that programs use, counters.
pub(crate) fn seen(device: &mut Device) -> (Picos, Vec<u8>, trn3_embed::Stats) {
    let mut all = Vec::new();
    for (space, bytes) in [(MemorySpace::Hbm, 1 << 16), (MemorySpace::Sbuf, 1 << 19), (MemorySpace::Psum, 1 << 16)] {
        let mut part = vec![0; bytes];
        device.read(space, 0, 0, &mut part).expect("bytes");
        all.extend(part);
    }
    let now = device.now();
    let stats = trn3_embed::Stats { host_read_bytes: 0, ..device.stats().clone() };
    (now, all, stats)
}

pub(crate) fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Loads a program and fills its input with a ramp.
pub(crate) fn loaded(device: &mut Device, text: &str) -> u64 {
    let number = device.load(text.as_bytes()).expect("a program");
    let place = device.tensor(number, "x").expect("an input");
    let ramp = floats((0..2048).map(|i| (i as f32 - 1000.0) / 512.0));
    device.write(MemorySpace::Hbm, 0, place.address, &ramp).expect("room");
    number
}
