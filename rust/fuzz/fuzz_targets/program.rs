//! A program: what loads, runs to its end or to an error, and leaves a device that can be saved.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trn3_embed::{Command, Device};

const SPEC: &str = r#"{"max_instructions": 24, "host_memory_bytes": 67108864}"#;

fuzz_target!(|program: &[u8]| {
    let mut device = Device::from_json(SPEC).expect("the spec is right");
    let Ok(program) = device.load(program) else { return };
    device.submit(Command::Run { core: 0, program }, 1).expect("an empty queue has room");
    while let Some(next) = device.next_event() {
        device.advance(next).expect("what comes is not past");
    }
    assert!(device.poll().is_some_and(|done| done.tag == 1), "a run ends");
    device.unload(program).expect("nothing needs it");
});
