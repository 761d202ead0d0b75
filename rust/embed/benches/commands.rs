//! What a command costs the host: submitted, done, polled.
#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use trn3_embed::{Command, Device, DeviceSpec};

fn commands(criterion: &mut Criterion) {
    let mut device = Device::new(DeviceSpec::default()).expect("a device");
    criterion.bench_function("submit, advance and poll a nop", |bencher| {
        bencher.iter(|| {
            device.submit(Command::Nop { core: 0 }, 1).expect("room");
            device.advance(device.now()).expect("now");
            device.poll().expect("done")
        });
    });
}

/// Loads and stores of two tiles, with an instruction between: so many instructions.
fn program(instructions: usize) -> String {
    let tile = |name: &str, space: &str, rest: &str| {
        format!(r#"{{"name": "{name}", "space": "{space}", "shape": [128, 512], "dtype": "float32", {rest}}}"#)
    };
    let tensors = [
        tile("x", "hbm", r#""role": "input""#),
        tile("out", "hbm", r#""role": "output""#),
        tile("t0", "sbuf", r#""address": [0, 0]"#),
        tile("t1", "sbuf", r#""address": [0, 2048]"#),
    ];
    let step = |number: usize| match (number % 3, number / 3 % 2) {
        (0, tile) => format!(r#"{{"op": "dma_copy", "dst": "t{tile}", "src": "x"}}"#),
        (1, tile) => format!(
            r#"{{"op": "tensor_scalar", "dst": "t{tile}", "data": "t{tile}", "op0": "multiply", "operand0": 2.0}}"#
        ),
        (_, tile) => format!(r#"{{"op": "dma_copy", "dst": "out", "src": "t{tile}"}}"#),
    };
    let steps: Vec<String> = (0..instructions).map(step).collect();
    format!(
        r#"{{"format": "trn3-program", "version": 1, "name": "bench", "tensors": [{}], "steps": [{}]}}"#,
        tensors.join(", "),
        steps.join(", ")
    )
}

/// Runs on a device of so many cores, each from its start to its end; without values, which are the same work everywhere.
fn runs(criterion: &mut Criterion) {
    let text = program(3000);
    for (name, cores, running) in
        [("one core alone", 1, 1), ("alone on one of two cores", 2, 1), ("on two cores at once", 2, 2)]
    {
        let spec = DeviceSpec { cores, values: false, ..DeviceSpec::default() };
        let mut device = Device::new(spec).expect("a device");
        let program = device.load(text.as_bytes()).expect("a program");
        criterion.bench_function(&format!("run 3,000 instructions, {name}"), |bencher| {
            bencher.iter(|| {
                for core in 0..running {
                    device.submit(Command::Run { core, program }, 1).expect("room");
                }
                while let Some(next) = device.next_event() {
                    device.advance(next).expect("later");
                }
                std::iter::from_fn(|| device.poll()).count()
            });
        });
    }
}

criterion_group!(benches, commands, runs);
criterion_main!(benches);
