//! Programs whose ranks meet, on cores of one device.

use serde_json::{Value, json};
use trn3_embed::{Command, Device, ErrorKind, MemorySpace};
use trn3_machine::time::Picos;

use crate::support::{device_of, settle};

/// One rank's program: `mine = 2 x; sums = all_reduce(mine); out = sums + x`.
pub(crate) fn program(rank: u64, ranks: u64, length: u64) -> Value {
    let tensor = |name: &str, role: &str| {
        let space = if role == "internal" { "shared_hbm" } else { "hbm" };
        json!({"name": name, "space": space, "shape": [128, length], "dtype": "float32", "role": role})
    };
    let tile = |name: &str, byte: u64| json!({"name": name, "space": "sbuf", "shape": [128, length], "dtype": "float32", "address": [0, byte]});
    let group: Vec<u64> = (0..ranks).collect();
    json!({
        "format": "trn3-program", "version": 2, "name": format!("rank{rank}"),
        "tensors": [
            tensor("x", "input"), tensor("mine", "internal"), tensor("sums", "internal"), tensor("out", "output"),
            tile("one", 0), tile("other", 4 * length),
        ],
        "outputs": [{"name": "out", "view": "out"}],
        "steps": [
            {"op": "dma_copy", "dst": "one", "src": "x"},
            {"op": "tensor_scalar", "dst": "other", "data": "one", "op0": "multiply", "operand0": 2.0},
            {"op": "dma_copy", "dst": "mine", "src": "other"},
            {"op": "all_reduce", "ranks": ranks, "srcs": ["mine"], "dsts": ["sums"], "replica_group": [group],
             "reduction": "add", "label": "sum"},
            {"op": "dma_copy", "dst": "other", "src": "sums"},
            {"op": "tensor_tensor", "dst": "other", "data1": "other", "data2": "one", "function": "add"},
            {"op": "dma_copy", "dst": "out", "src": "other"},
        ],
    })
}

fn load(device: &mut Device, program: &Value, x: f32) -> u64 {
    let number = device.load(program.to_string().as_bytes()).expect("a program");
    let place = device.tensor(number, "x").expect("an input");
    device.write(MemorySpace::Hbm, 0, place.address, &x.to_le_bytes().repeat(place.bytes as usize / 4)).expect("room");
    number
}

/// Ends by tag.
fn ends(device: &mut Device) -> Vec<(u64, Picos, Result<(), trn3_embed::Error>)> {
    settle(device).into_iter().map(|done| (done.tag, done.end, done.status)).collect()
}

fn output(device: &mut Device, program: u64, core: u32) -> Vec<f32> {
    let bytes = device.read_output(program, core, 0).expect("an output").bytes;
    bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn test_two_ranks_of_one_device_meet_in_their_programs() {
    let mut device = device_of(&json!({"cores": 2}));
    let programs = [0, 1].map(|rank| load(&mut device, &program(rank, 2, 8), (rank + 1) as f32));
    for core in [0, 1] {
        device.submit(Command::Run { core, program: programs[core as usize] }, core.into()).expect("room");
        // One alone waits, and nothing will happen by itself.
        assert_eq!(device.next_event().is_some(), core == 1);
        assert!(!device.is_idle());
    }
    let found = ends(&mut device);
    assert_eq!(found.iter().map(|(tag, ..)| *tag).collect::<Vec<_>>(), [0, 1]);
    assert!(found.iter().all(|(_, end, status)| status.is_ok() && *end == found[0].1 && *end > Picos(0)));
    for core in [0u32, 1] {
        assert_eq!(output(&mut device, programs[core as usize], core), vec![6.0 + 1.0 + core as f32; 1024]);
    }
    assert!(device.is_idle());
}

#[test]
fn test_a_rank_that_comes_later_makes_both_end_later_by_as_much() {
    let spans = [0, 5_000_000].map(|late| {
        let mut device = device_of(&json!({"cores": 2}));
        let programs = [0, 1].map(|rank| load(&mut device, &program(rank, 2, 8), 1.0));
        device.submit(Command::Run { core: 0, program: programs[0] }, 0).expect("room");
        device.advance(Picos(late)).expect("later");
        device.submit(Command::Run { core: 1, program: programs[1] }, 1).expect("room");
        ends(&mut device).into_iter().map(|(_, end, status)| status.map(|()| end.0).expect("done")).collect::<Vec<_>>()
    });
    assert_eq!(spans[1], spans[0].iter().map(|end| end + 5_000_000).collect::<Vec<_>>());
}

#[test]
fn test_what_is_loaded_while_a_rank_waits_changes_neither_values_nor_times() {
    let run = |between: bool| {
        let mut device = device_of(&json!({"cores": 3}));
        let first = load(&mut device, &program(0, 2, 8), 1.0);
        device.submit(Command::Run { core: 0, program: first }, 0).expect("room");
        if between {
            // A write over what lies between tensors moves them together.
            device.write(MemorySpace::Hbm, 0, 0, &[0; 4]).expect("room");
            load(&mut device, &program(1, 2, 512), 1.0);
        }
        let x = device.tensor(first, "x").expect("an input");
        device.write(MemorySpace::Hbm, 0, x.address, &1f32.to_le_bytes().repeat(1024)).expect("room");
        let second = load(&mut device, &program(1, 2, 8), 2.0);
        device.submit(Command::Run { core: 1, program: second }, 1).expect("room");
        let found = ends(&mut device);
        (found, output(&mut device, first, 0), output(&mut device, second, 1))
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn test_ranks_that_do_not_agree_both_fail_and_are_named() {
    let mut device = device_of(&json!({"cores": 2}));
    let programs = [load(&mut device, &program(0, 2, 8), 1.0), load(&mut device, &program(1, 2, 16), 1.0)];
    for core in [0, 1] {
        device.submit(Command::Run { core, program: programs[core as usize] }, core.into()).expect("room");
    }
    let found = ends(&mut device);
    assert_eq!(found.len(), 2);
    for (.., status) in found {
        let text = status.expect_err("no agreement").message;
        assert!(text.contains("rank 1 calls all_reduce of 2048 float32") && text.contains("(program rank0: step 3)"));
    }
    assert!(device.is_idle());
}

#[test]
fn test_what_cannot_meet_is_refused() {
    let mut device = device_of(&json!({"cores": 2}));
    let mut old = program(0, 2, 8);
    old["version"] = json!(1);
    let error = device.load(old.to_string().as_bytes()).expect_err("version 1");
    assert!(error.message.contains("step 3 (all_reduce): needs version 2; the program has 1"), "{error}");
    let mut newer = program(0, 2, 8);
    newer["version"] = json!(3);
    let error = device.load(newer.to_string().as_bytes()).expect_err("version 3");
    assert!(error.message.contains("program version is 3; allowed: 1 to 2"), "{error}");
    let mut odd = program(0, 2, 8);
    odd["steps"][3]["dim"] = json!(1);
    let error = device.load(odd.to_string().as_bytes()).expect_err("an unknown argument");
    assert!(error.message.contains("step 3 (all_reduce): has argument \"dim\""), "{error}");

    let three = load(&mut device, &program(0, 3, 8), 1.0);
    device.submit(Command::Run { core: 0, program: three }, 7).expect("room");
    let (tag, _, status) = ends(&mut device).remove(0);
    let error = status.expect_err("a rank elsewhere");
    assert_eq!((tag, error.kind), (7, ErrorKind::Unsupported));
    assert!(error.message.contains("the device has 2 ranks from 0; all of the group are needed on it"), "{error}");

    let two = load(&mut device, &program(0, 2, 8), 1.0);
    let step = device.submit(Command::Step { core: 0, program: two, step: 3 }, 8).map(|()| ends(&mut device).remove(0));
    let error = step.expect("a place in the queue").2.expect_err("a step alone");
    assert!(error.message.contains("meets other ranks"), "{error}");
    device.submit(Command::Run { core: 0, program: two }, 9).expect("room");
    assert_eq!(device.save_snapshot().expect_err("a run waits").kind, ErrorKind::Busy);
    assert_eq!(device.unload(two).expect_err("a run waits").kind, ErrorKind::Busy);
    device.reset().expect("as new");
    assert!(device.is_idle() && device.save_snapshot().is_ok());
}
