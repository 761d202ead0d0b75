//! Queues, completions, time.

use serde_json::json;
use trn3_embed::{Address, Command, ErrorKind, MemorySpace};
use trn3_machine::time::Picos;

use crate::support::{device, device_of, loaded, program, run, settle};

#[test]
fn test_a_full_queue_is_busy_until_something_is_done() {
    let mut device = device_of(&json!({"queue_depth": 2}));
    let copy = |address| Command::Copy {
        core: 0,
        rows: 1,
        row_bytes: 4096,
        dst: Address { space: MemorySpace::Hbm, address },
        src: Address { space: MemorySpace::Hbm, address: 0 },
    };
    device.submit(copy(1 << 20), 1).expect("room");
    device.submit(copy(1 << 21), 2).expect("room");
    assert!(!device.can_submit(0).expect("a core"));
    assert_eq!(device.submit(copy(1 << 22), 3).expect_err("full").kind, ErrorKind::Busy);
    assert!(device.poll().is_none());
    let next = device.next_event().expect("the first one's end");
    device.advance(Picos(next.0 - 1)).expect("later");
    assert!(device.poll().is_none());
    device.advance(next).expect("later");
    assert_eq!(device.poll().map(|done| (done.tag, done.end)), Some((1, next)));
    device.submit(copy(1 << 22), 3).expect("room");
    let rest = settle(&mut device);
    assert_eq!(rest.iter().map(|done| done.tag).collect::<Vec<_>>(), [2, 3]);
    // One after the other, each from where the one before ended.
    assert_eq!((rest[0].start, rest[1].start), (next, rest[0].end));
    assert!(device.is_idle());
}

#[test]
fn test_time_moves_by_advance_alone_and_never_back() {
    let mut device = device();
    device.advance(Picos(500)).expect("later");
    device.submit(Command::Nop { core: 0 }, 4).expect("room");
    assert_eq!(device.poll().map(|done| (done.start, done.end)), Some((Picos(500), Picos(500))));
    assert_eq!(device.advance(Picos(499)).expect_err("past").kind, ErrorKind::Value);
    assert_eq!(device.now(), Picos(500));
}

#[test]
fn test_what_is_not_there_is_named() {
    let mut device = device();
    for (command, words) in [
        (Command::Nop { core: 1 }, "core is 1; the device has 1"),
        (Command::Run { core: 0, program: 3 }, "program is 3; loaded are"),
        (Command::Step { core: 0, program: 3, step: 0 }, "program is 3"),
    ] {
        assert!(device.submit(command, 0).expect_err(words).message.contains(words));
    }
    let number = loaded(&mut device, &program(&[]));
    assert!(device.submit(Command::Step { core: 0, program: number, step: 0 }, 0).is_err());
}

#[test]
fn test_what_goes_wrong_in_a_run_is_the_status() {
    let mut device = device_of(&json!({"strict": true}));
    let step = json!({"op": "dma_copy", "dst": "y", "src": "t0"});
    let number = loaded(&mut device, &program(&[json!({"op": "memset", "dst": "t1", "value": 1.0}), step]));
    let done = run(&mut device, number);
    let error = done.status.expect_err("nothing wrote t0");
    assert!(error.message.contains("step 1 (dma_copy)"), "{error}");
    assert!(done.end > done.start);
    assert_eq!(device.stats().commands_failed, 1);
}

#[test]
fn test_steps_go_on_from_one_another() {
    let mut device = device();
    let steps = [
        json!({"op": "memset", "dst": "t0", "value": 2.0}),
        json!({"op": "set_register", "register": 0, "value": 5}),
        json!({"op": "register_move", "dst": 1, "src": {"register": 0}}),
        json!({"op": "tensor_copy", "dst": {"tensor": "t1", "shape": [128, 1], "strides": [16, 1],
            "dynamic": {"register": 1, "stride": 1, "bound": 16}},
            "src": {"tensor": "t0", "shape": [128, 1], "strides": [16, 1]}}),
    ];
    let number = loaded(&mut device, &program(&steps));
    for step in 0..4 {
        device.submit(Command::Step { core: 0, program: number, step }, step).expect("room");
    }
    assert!(settle(&mut device).iter().all(|done| done.status == Ok(())));
    let mut value = [0; 4];
    device.read(MemorySpace::Sbuf, 0, 256 + 5 * 4, &mut value).expect("bytes");
    assert_eq!(f32::from_le_bytes(value), 2.0);
}

#[test]
fn test_cores_run_side_by_side() {
    let mut device = device_of(&json!({"cores": 2}));
    let number = loaded(&mut device, &program(&[json!({"op": "dma_copy", "dst": "t0", "src": "x"})]));
    for core in 0..2 {
        device.submit(Command::Run { core, program: number }, u64::from(core)).expect("room");
    }
    let done = settle(&mut device);
    assert_eq!(done[0].end, done[1].end);
    assert_eq!(done.iter().map(|done| done.tag).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn test_a_reset_device_is_a_new_one() {
    let mut device = device();
    let fresh = device.save_snapshot().expect("a snapshot");
    let number = loaded(&mut device, &program(&[json!({"op": "dma_copy", "dst": "t0", "src": "x"})]));
    run(&mut device, number);
    device.reset().expect("as before");
    assert_eq!(device.save_snapshot().expect("a snapshot"), fresh);
}
