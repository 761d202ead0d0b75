//! A program: what is read is written as it is; what loads, runs to its end or to an error, and leaves a device for the next
//! one.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use trn3_embed::{Command, Device, TileBytes};
use trn3_machine::Program;
use trn3_machine::program::Limits;

const SPEC: &str = r#"{"max_instructions": 24, "host_memory_bytes": 67108864,
    "overrides": {"sbuf_partition_bytes": 8192, "sbuf_reserved_bytes": 0}}"#;

thread_local! {
    /// One device for all programs, as a host has it: making one takes longer than most runs.
    static DEVICE: RefCell<Device> = RefCell::new(device());
}

/// A device with a function that programs may call.
fn device() -> Device {
    let mut device = Device::from_json(SPEC).expect("the spec is right");
    let first = |_: &[TileBytes], outputs: &mut [TileBytes]| {
        outputs.iter_mut().for_each(|tile| tile.bytes.fill(1));
        Ok(())
    };
    device.register_function("f", Arc::new(first)).expect("a name");
    device
}

/// What is read is written and read again as it is, and changed without harm.
fn rewrite(text: &[u8]) {
    let limits = Limits::default();
    let Ok(mut program) = Program::from_json(text, &limits) else { return };
    if let Ok(words) = program.to_json() {
        assert_eq!(Program::from_json(words.as_bytes(), &limits).as_ref(), Ok(&program), "its own words");
    }
    let _ = program.lifetimes();
    let order: Vec<usize> = (0..program.steps.len()).rev().collect();
    let _ = program.reorder(&order);
    program.remove_marks();
}

fuzz_target!(|program: &[u8]| DEVICE.with_borrow_mut(|device| {
    rewrite(program);
    let Ok(program) = device.load(program) else { return };
    device.submit(Command::Run { core: 0, program }, program).expect("an empty queue has room");
    while let Some(next) = device.next_event() {
        device.advance(next).expect("what comes is not past");
    }
    assert!(device.poll().is_some_and(|done| done.tag == program), "a run ends");
    device.unload(program).expect("nothing needs it");
}));
