//! A program: what loads, runs to its end or to an error, and leaves a device for the next one.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use trn3_embed::{Command, Device};

const SPEC: &str = r#"{"max_instructions": 24, "host_memory_bytes": 67108864,
    "overrides": {"sbuf_partition_bytes": 8192, "sbuf_reserved_bytes": 0}}"#;

thread_local! {
    /// One device for all programs, as a host has it: making one takes longer than most runs.
    static DEVICE: RefCell<Device> = RefCell::new(Device::from_json(SPEC).expect("the spec is right"));
}

fuzz_target!(|program: &[u8]| DEVICE.with_borrow_mut(|device| {
    let Ok(program) = device.load(program) else { return };
    device.submit(Command::Run { core: 0, program }, program).expect("an empty queue has room");
    while let Some(next) = device.next_event() {
        device.advance(next).expect("what comes is not past");
    }
    assert!(device.poll().is_some_and(|done| done.tag == program), "a run ends");
    device.unload(program).expect("nothing needs it");
}));
