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

criterion_group!(benches, commands);
criterion_main!(benches);
