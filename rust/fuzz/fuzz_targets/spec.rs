//! The JSON text of a device: what is accepted makes a device that estimates and ends its commands.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trn3_embed::{Command, Device, Kernel};

fuzz_target!(|text: &str| {
    let Ok(mut device) = Device::from_json(text) else { return };
    let _ = device.estimate(&Kernel::Matmul { m: 128, k: 128, n: 512, dtype: "bf16".to_owned() });
    let _ = device.roofline(1e9, 1e6, "mxfp8");
    device.submit(Command::Nop { core: 0 }, 1).expect("an empty queue has room");
    device.advance(device.now()).expect("now is not past");
    assert!(device.poll().is_some(), "nothing takes no time");
});
