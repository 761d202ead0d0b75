//! Snapshots: what is done after one is what would have been done without.

use proptest::prelude::*;
use serde_json::json;
use trn3_embed::{Address, CollectiveReduction, Command, Device, DeviceCollective, MemorySpace, Operation};
use trn3_machine::time::Picos;

use crate::support::{device, device_of, loaded, program, seen, settle, step};

fn spec() -> serde_json::Value {
    json!({"cores": 2, "seed": 9})
}

/// A device with commands under way and waiting.
fn busy(text: &str) -> Device {
    let mut device = device_of(&spec());
    let number = loaded(&mut device, text);
    let copy = |address| Address { space: MemorySpace::Hbm, address };
    for round in 0..3 {
        for core in 0..2 {
            device.submit(Command::Run { core, program: number }, round * 10 + u64::from(core)).expect("room");
            let part = DeviceCollective {
                operation: Operation::AllReduce,
                reduction: CollectiveReduction::Add,
                group: vec![0, 1],
                key: round,
                src: 0,
                dst: (1 << 20) + (u64::from(core) << 16),
                count: 1000,
                dtype: "float32".to_owned(),
            };
            device.submit(Command::Collective { core, part }, 100 + round).expect("room");
        }
        let (dst, src) = (copy(1 << 21 | round << 14), copy(64));
        device.submit(Command::Copy { core: 0, dst, src, rows: 4, row_bytes: 100 }, 50 + round).expect("room");
    }
    device
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn test_going_on_from_a_snapshot_is_going_on(
        steps in prop::collection::vec(step(), 1..20), pauses in prop::collection::vec(0..30_000_000u64, 1..4),
    ) {
        let text = program(&steps);
        let mut straight = busy(&text);
        let expected = settle(&mut straight);
        let mut device = busy(&text);
        let mut done = Vec::new();
        for pause in pauses {
            device.advance(device.now() + Picos(pause)).expect("later");
            done.extend(std::iter::from_fn(|| device.poll()));
            let saved = device.save_snapshot().expect("a snapshot");
            let mut other = device_of(&spec());
            other.write(MemorySpace::Sbuf, 1, 5, &[1, 2, 3]).expect("room");
            other.load_snapshot(&saved).expect("its own");
            prop_assert_eq!(other.save_snapshot().expect("a snapshot"), saved);
            device = other;
        }
        done.extend(settle(&mut device));
        prop_assert_eq!(done, expected);
        let last = straight.now().max(device.now());
        straight.advance(last).expect("later");
        device.advance(last).expect("later");
        prop_assert_eq!(seen(&mut device), seen(&mut straight));
    }

    #[test]
    fn test_damage_is_refused_and_changes_nothing(
        steps in prop::collection::vec(step(), 1..4), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let intact = busy(&program(&steps)).save_snapshot().expect("a snapshot");
        let mut saved = intact.clone();
        let place = at.index(saved.len());
        if cut { saved.truncate(place) } else { saved[place] = byte }
        let mut device = device_of(&spec());
        device.write(MemorySpace::Hbm, 0, 4, &[9]).expect("room");
        let before = device.save_snapshot().expect("a snapshot");
        if saved == intact {
            prop_assert!(device.load_snapshot(&saved).is_ok());
        } else {
            prop_assert!(device.load_snapshot(&saved).is_err());
            prop_assert_eq!(device.save_snapshot().expect("a snapshot"), before);
        }
    }
}

#[test]
fn test_a_snapshot_of_another_device_is_refused() {
    let saved = device().save_snapshot().expect("a snapshot");
    assert!(device_of(&spec()).load_snapshot(&saved).expect_err("another spec").message.contains("another spec"));
}

/// A snapshot with another head, as 0.1.0 wrote it: of version 2, without a checksum.
fn with_head(saved: &[u8], edit: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let (prefix, rest) = saved[..saved.len() - size_of::<u32>()].split_at(20);
    let length = u64::from_le_bytes(prefix[12..].try_into().expect("eight bytes")) as usize;
    let mut head = serde_json::from_slice(&rest[..length]).expect("a head of JSON");
    edit(&mut head);
    let head = serde_json::to_vec(&head).expect("JSON");
    [&prefix[..8], &2u32.to_le_bytes(), &(head.len() as u64).to_le_bytes(), &head, &rest[length..]].concat()
}

#[test]
fn test_counts_that_would_overflow_are_refused() {
    let saved = busy(&program(&[])).save_snapshot().expect("a snapshot");
    let load = |saved: &[u8]| device_of(&spec()).load_snapshot(saved);
    load(&with_head(&saved, |_| {})).expect("its own");
    let refused = [("sequence", json!(u64::MAX)), ("next_program", json!(u64::MAX)), ("next_program", json!(1))];
    for (name, value) in refused {
        let damaged = with_head(&saved, |head| head[name] = value.clone());
        assert!(load(&damaged).expect_err("refused").message.contains("damaged"), "{name} {value}");
    }
    let damaged = with_head(&saved, |head| head["stats"]["instructions"] = json!(u64::MAX));
    assert!(load(&damaged).is_err());
    // Commands that wait were submitted before the next one.
    let damaged = with_head(&saved, |head| head["sequence"] = json!(1));
    assert!(load(&damaged).is_err());
}

#[test]
fn test_older_snapshots_are_read() {
    let mut device = busy(&program(&[]));
    device.write(MemorySpace::Hbm, 0, 1 << 30, &[1, 2, 3]).expect("room");
    let saved = device.save_snapshot().expect("a snapshot");
    let mut other = device_of(&spec());
    other.load_snapshot(&with_head(&saved, |_| {})).expect("version 2");
    assert_eq!(other.save_snapshot().expect("a snapshot"), saved);
    // One whose runs have fixed ends: they stand.
    let mut alone = device_of(&spec());
    let number = loaded(&mut alone, &program(&[json!({"op": "dma_copy", "dst": "t0", "src": "x"})]));
    alone.submit(Command::Run { core: 1, program: number }, 5).expect("room");
    let ends = alone.next_event();
    let old = with_head(&alone.save_snapshot().expect("a snapshot"), |head| {
        head.as_object_mut().expect("entries").remove("runs");
        head["cores"][1]["active"]["state"] = json!({"Ends": {"at": ends.map(|end| end.0), "status": {"Ok": null}}});
        head["spec"].as_object_mut().expect("entries").remove("share_hbm_bandwidth");
    });
    let mut other_alone = device_of(&spec());
    other_alone.load_snapshot(&old).expect("version 2");
    other_alone.submit(Command::Run { core: 0, program: number }, 6).expect("room");
    assert_eq!(settle(&mut other_alone).iter().find(|done| done.tag == 5).map(|done| Some(done.end)), Some(ends));
    // A run without what it has yet to transfer is damage.
    let lost = with_head(&alone.save_snapshot().expect("a snapshot"), |head| head["runs"] = json!(null));
    assert!(other_alone.load_snapshot(&lost).expect_err("no runs").message.contains("damaged"));
    // A snapshot of today that says it is older is none.
    let mut disguised = saved;
    disguised[8] = 2;
    assert!(other.load_snapshot(&disguised).expect_err("a checksum follows").message.contains("damaged"));
}

#[test]
fn test_large_memories_of_which_little_is_written_are_saved_small() {
    let mut device = device_of(&json!({"host_memory_bytes": 4 << 20}));
    for address in [5, 40 << 30, (143 << 30) + 77] {
        device.write(MemorySpace::Hbm, 0, address, &[7; 100]).expect("room");
    }
    let saved = device.save_snapshot().expect("a snapshot");
    assert!(saved.len() < 1 << 20, "{}", saved.len());
    let mut other = device_of(&json!({"host_memory_bytes": 4 << 20}));
    other.load_snapshot(&saved).expect("its own");
    let mut bytes = [0; 102];
    other.read(MemorySpace::Hbm, 0, (40 << 30) - 1, &mut bytes).expect("bytes");
    assert_eq!((bytes[0], bytes[1], bytes[100], bytes[101]), (0, 7, 7, 0));
}

#[test]
fn test_a_small_snapshot_makes_no_large_memory() {
    let small = json!({
        "host_memory_bytes": 1 << 20, "overrides": {"sbuf_partition_bytes": 1024, "sbuf_reserved_bytes": 0},
    });
    let saved = device_of(&small).save_snapshot().expect("a snapshot");
    let zeros = 8u64 << 20;
    let stretches: Vec<_> =
        (0..1000).map(|at| json!({"address": at * zeros, "length": zeros, "complete": true})).collect();
    let mut damaged = with_head(&saved, |head| head["hbm"] = json!(stretches));
    // Each claims zeros in three numbers; marks follow, of which there are none.
    for _ in 0..1000 {
        for number in [zeros, zeros, 0, 0] {
            damaged.extend(number.to_le_bytes());
        }
    }
    let refused = device_of(&small).load_snapshot(&damaged).expect_err("more than it may hold");
    assert!(refused.message.contains("damaged"), "{refused}");
}
