//! Snapshots: one of a busy device, damaged. What is accepted goes on, and is saved as what it was.
#![no_main]

use std::cell::RefCell;
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use trn3_embed::{Collective, Command, Device, Operation, Reduction};

/// Small memories: their bytes take the time of a run, and are all alike.
const SPEC: &str = r#"{"cores": 2, "max_instructions": 24, "host_memory_bytes": 1048576,
    "overrides": {"sbuf_partition_bytes": 1024, "sbuf_reserved_bytes": 0, "psum_banks": 1}}"#;
const PROGRAM: &[u8] = include_bytes!("../seeds/program/double.json");
/// Bytes of a snapshot before its head: magic, version, length of the head.
const PREFIX: usize = 20;

#[derive(Arbitrary, Debug)]
enum Edit {
    /// Another number in the place of one of the head's.
    Number(u16, u64),
    /// Bytes of the head, or of what follows it, are replaced.
    Head(u16, u8, Vec<u8>),
    Rest(u32, u8, Vec<u8>),
}

fn device() -> Device {
    Device::from_json(SPEC).expect("the spec is right")
}

/// A device that runs, waits, exchanges and has completions: its snapshot's head and the rest.
fn base() -> &'static (Vec<u8>, Vec<u8>) {
    static BASE: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut device = device();
        let program = device.load(PROGRAM).expect("the program is right");
        device.submit(Command::Nop { core: 0 }, 1).expect("room");
        device.submit(Command::Run { core: 0, program }, 2).expect("room");
        device.submit(Command::Step { core: 0, program, step: 1 }, 3).expect("room");
        let part = Collective {
            operation: Operation::AllReduce,
            reduction: Reduction::Add,
            group: vec![0, 1],
            key: 4,
            src: 0,
            dst: 4096,
            count: 8,
            dtype: "float32".to_owned(),
        };
        device.submit(Command::Collective { core: 1, part }, 5).expect("room");
        let saved = device.save_snapshot().expect("it can be saved");
        let length = u64::from_le_bytes(saved[12..PREFIX].try_into().expect("eight bytes")) as usize;
        let checksum = saved.len() - size_of::<u32>();
        (saved[PREFIX..PREFIX + length].to_vec(), saved[PREFIX + length..checksum].to_vec())
    })
}

fn splice(bytes: &mut Vec<u8>, at: usize, removed: u8, new: Vec<u8>) {
    let at = at % (bytes.len() + 1);
    let end = (at + usize::from(removed)).min(bytes.len());
    bytes.splice(at..end, new);
}

/// Where the numbers of a text are, but for those of a list after its first: most are states of generators.
fn numbers(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for at in (0..text.len()).filter(|&at| text[at].is_ascii_digit()) {
        match found.last_mut().filter(|last| last.end == at) {
            Some(last) => last.end = at + 1,
            None => found.push(at..at + 1),
        }
    }
    found.retain(|place| place.start > 0 && text[place.start - 1] != b',');
    found
}

thread_local! {
    /// What is loaded takes the place of everything before it: one device for all.
    static DEVICE: RefCell<Device> = RefCell::new(device());
}

fuzz_target!(|edits: Vec<Edit>| DEVICE.with_borrow_mut(|device| check(device, edits)));

fn check(device: &mut Device, edits: Vec<Edit>) {
    let (mut head, mut rest) = base().clone();
    for edit in edits {
        match edit {
            Edit::Number(which, value) => {
                let places = numbers(&head);
                if let Some(place) = places.get(usize::from(which) % places.len().max(1)) {
                    head.splice(place.clone(), value.to_string().into_bytes());
                }
            }
            Edit::Head(at, removed, new) => splice(&mut head, usize::from(at), removed, new),
            Edit::Rest(at, removed, new) => splice(&mut rest, at as usize, removed, new),
        }
    }
    // Of version 2, which has no checksum that would refuse every edit.
    let mut saved = b"trn3snap\x02\0\0\0".to_vec();
    saved.extend_from_slice(&(head.len() as u64).to_le_bytes());
    saved.extend(head);
    saved.extend(rest);
    if device.load_snapshot(&saved).is_err() {
        return;
    }
    let again = device.save_snapshot().expect("what was loaded can be saved");
    device.load_snapshot(&again).expect("what was saved can be loaded");
    assert!(device.save_snapshot().expect("it still can be saved") == again, "saving is loading's inverse");
    // It takes programs and commands as any device does.
    let loaded = device.load(PROGRAM);
    if let Ok(program) = loaded {
        let _ = device.submit(Command::Run { core: 0, program }, 9);
    }
    let _ = device.submit(Command::Nop { core: 1 }, 10);
    for _ in 0..64 {
        let Some(next) = device.next_event() else { break };
        device.advance(next).expect("what comes is not past");
    }
}
