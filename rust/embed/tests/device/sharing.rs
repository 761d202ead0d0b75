//! Cores that run at once share the bandwidth of HBM.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use trn3_embed::{Address, Command, Completion, Device, DeviceSpec, MemorySpace};
use trn3_machine::arch::ArchSpec;
use trn3_machine::chip;
use trn3_machine::core::{CoreOptions, NeuronCore};
use trn3_machine::program::{Limits, Program};
use trn3_machine::time::Picos;

use crate::meetings;
use crate::support::{device_of, program, settle, step};

/// One core alone draws more than half of this.
const GIGABYTES_PER_SECOND: u64 = 300;

/// A device for times alone, whose cores slow one another.
fn spec(cores: u32) -> Value {
    json!({"cores": cores, "values": false, "overrides": {"hbm_gbps": GIGABYTES_PER_SECOND}})
}

/// A program that loads so many tiles of 128 rows of 16 KiB, four under way at once.
fn stream(tiles: usize) -> String {
    let tile = |number: usize| {
        json!({"name": format!("t{number}"), "space": "sbuf", "shape": [128, 4096], "dtype": "float32",
            "address": [0, 16384 * number]})
    };
    let mut tensors =
        vec![json!({"name": "x", "space": "hbm", "shape": [128, 4096], "dtype": "float32", "role": "input"})];
    tensors.extend((0..4).map(tile));
    let load = |number: usize| json!({"op": "dma_copy", "dst": format!("t{}", number % 4), "src": "x"});
    let steps: Vec<Value> = (0..tiles).map(load).collect();
    json!({"format": "trn3-program", "version": 1, "name": "stream", "tensors": tensors, "steps": steps}).to_string()
}

/// Steps that transfer much, or wait for what was transferred.
fn heavy() -> impl Strategy<Value = String> {
    let tile = || (0..3usize).prop_map(|number| format!("t{number}"));
    let step = prop_oneof![
        tile().prop_map(|dst| json!({"op": "dma_copy", "dst": dst, "src": "x"})),
        tile().prop_map(|src| json!({"op": "dma_copy", "dst": "y", "src": src})),
        (tile(), tile()).prop_map(|(dst, data)| json!({
            "op": "tensor_scalar", "dst": dst, "data": data, "op0": "multiply", "operand0": 2.0})),
        (tile(), tile())
            .prop_map(|(dst, data)| json!({"op": "activation", "dst": dst, "data": data, "function": "tanh"})),
        Just(json!({"op": "dma_copy", "dst": "y", "src": "x"})),
    ];
    prop::collection::vec(step, 1..16).prop_map(|steps| {
        let hbm = |name: &str, role: &str| {
            json!({"name": name, "space": "hbm", "shape": [128, 2048], "dtype": "float32", "role": role})
        };
        let mut tensors = vec![hbm("x", "input"), hbm("y", "output")];
        tensors.extend((0..3).map(|number| {
            json!({"name": format!("t{number}"), "space": "sbuf", "shape": [128, 2048], "dtype": "float32",
                "address": [0, 8192 * number]})
        }));
        json!({"format": "trn3-program", "version": 1, "name": "heavy", "tensors": tensors, "steps": steps}).to_string()
    })
}

fn programs(cores: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop_oneof![heavy(), (1..12usize).prop_map(stream)], cores)
}

/// Ends by core where each core's run begins at a moment, moments in order.
fn ends(device: &mut Device, runs: &[(u32, &str, u64)]) -> BTreeMap<u32, u64> {
    let mut done = BTreeMap::new();
    let mut note = |device: &mut Device| {
        while let Some(completion) = device.poll() {
            done.insert(completion.core, completion.end.0);
        }
    };
    for &(core, text, at) in runs {
        device.advance(Picos(at)).expect("later");
        note(device);
        let number = device.load(text.as_bytes()).expect("a program");
        device.submit(Command::Run { core, program: number }, core.into()).expect("room");
    }
    while let Some(next) = device.next_event() {
        device.advance(next).expect("later");
        note(device);
    }
    done
}

fn alone(text: &str) -> u64 {
    ends(&mut device_of(&spec(1)), &[(0, text, 0)])[&0]
}

fn together(texts: &[String]) -> Vec<u64> {
    let runs: Vec<_> = (0..).zip(texts).map(|(core, text)| (core, text.as_str(), 0)).collect();
    ends(&mut device_of(&spec(texts.len() as u32)), &runs).into_values().collect()
}

/// Ends of programs on the cores of a chip, as `Chip.run` in Python has them.
fn on_a_chip(texts: &[String]) -> Vec<u64> {
    let of = DeviceSpec::from_json(&spec(texts.len() as u32).to_string()).expect("a spec");
    let arch = ArchSpec::load(&of.arch).expect("a machine");
    let arch = arch.with_values(of.overrides.iter().map(|(key, value)| (key.as_str(), *value))).expect("figures");
    let arch = Arc::new(arch);
    let options = CoreOptions { values: false, ..CoreOptions::default() };
    let mut cores: Vec<NeuronCore> = Vec::new();
    for text in texts {
        let mut core = NeuronCore::new(Arc::clone(&arch), options).expect("a core");
        core.keep_timed();
        let program = Program::from_json(text.as_bytes(), &Limits::default()).expect("a program");
        program.run_on(&mut core, &[], &Limits::default()).expect("a run");
        cores.push(core);
    }
    chip::time_together(&mut cores.iter_mut().collect::<Vec<_>>()).expect("times");
    cores.iter_mut().map(|core| core.makespan().0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn test_runs_that_begin_together_end_as_on_a_chip(texts in programs(2..5)) {
        prop_assert_eq!(together(&texts), on_a_chip(&texts));
    }

    #[test]
    fn test_none_ends_sooner_than_alone_and_what_does_not_overlap_as_alone(
        texts in programs(2..4), gaps in prop::collection::vec(0..40_000_000u64, 3),
    ) {
        let mut at = 0;
        let runs: Vec<_> = (0..).zip(&texts).zip(&gaps).map(|((core, text), gap)| {
            at += gap;
            (core, text.as_str(), at)
        }).collect();
        let ends = ends(&mut device_of(&spec(texts.len() as u32)), &runs);
        let spans: Vec<_> = runs.iter().map(|(core, _, start)| (*start, ends[core])).collect();
        for (number, (_, text, start)) in runs.iter().enumerate() {
            let end = spans[number].1;
            prop_assert!(end >= start + alone(text));
            let overlaps = |(other, span): (usize, &(u64, u64))| other != number && span.0 < end && *start < span.1;
            if !spans.iter().enumerate().any(overlaps) {
                prop_assert_eq!(end, start + alone(text));
            }
        }
    }

    #[test]
    fn test_streams_that_overlap_in_part_end_between_alone_and_together(tiles in 4..16usize, share in 0.0..1.2f64) {
        let text = stream(tiles);
        let (alone, both) = (alone(&text), together(&[text.clone(), text.clone()]));
        let late = (alone as f64 * share) as u64;
        let ends = ends(&mut device_of(&spec(2)), &[(0, &text, 0), (1, &text, late)]);
        for (core, start) in [(0, 0), (1, late)] {
            let took = ends[&core] - start;
            prop_assert!((alone..=*both.iter().max().expect("two")).contains(&took), "{took} of {alone} and {both:?}");
        }
    }

    #[test]
    fn test_the_order_of_calls_at_one_time_and_looks_between_change_nothing(
        texts in programs(3..4), late in 0..30_000_000u64, order in Just(vec![0u32, 1, 2]).prop_shuffle(),
        looks in prop::collection::vec(0..20_000_000u64, 0..6),
    ) {
        let run = |order: &[u32], looks: &[u64]| {
            let mut device = device_of(&spec(3));
            // Where programs lie is not what is asked.
            let numbers: Vec<u64> = texts.iter().map(|text| device.load(text.as_bytes()).expect("a program")).collect();
            let submit = |device: &mut Device, core: u32, tag: u64| {
                device.submit(Command::Run { core, program: numbers[core as usize] }, tag).expect("room");
            };
            order.iter().for_each(|&core| submit(&mut device, core, 0));
            for look in looks.iter().filter(|look| **look < late) {
                let now = device.now();
                device.advance(now.max(Picos(*look))).expect("later");
                device.next_event();
            }
            device.advance(Picos(late)).expect("later");
            order.iter().for_each(|&core| submit(&mut device, core, 1));
            let done = settle(&mut device);
            let mut seen: Vec<_> = done.iter().map(|done| (done.core, done.tag, done.start, done.end)).collect();
            seen.sort_unstable();
            (seen, (0..3).map(|core| device.profile(core).expect("a run").to_json().expect("text")).collect::<Vec<_>>())
        };
        prop_assert_eq!(run(&order, &looks), run(&[0, 1, 2], &[]));
    }

    #[test]
    fn test_going_on_from_a_snapshot_shares_as_going_on(
        texts in programs(3..4), pauses in prop::collection::vec(0..25_000_000u64, 3),
    ) {
        let run = |saves: bool| {
            let mut device = device_of(&spec(3));
            let mut done: Vec<Completion> = Vec::new();
            for (round, pause) in (0..).zip(&pauses) {
                for (core, text) in (0..).zip(&texts).skip(round) {
                    let program = device.load(text.as_bytes()).expect("a program");
                    device.submit(Command::Run { core, program }, round as u64).expect("room");
                }
                device.advance(device.now() + Picos(*pause)).expect("later");
                done.extend(std::iter::from_fn(|| device.poll()));
                if saves {
                    let saved = device.save_snapshot().expect("a snapshot");
                    let mut other = device_of(&spec(3));
                    other.load_snapshot(&saved).expect("its own");
                    assert_eq!(other.save_snapshot().expect("a snapshot"), saved);
                    device = other;
                }
            }
            done.extend(settle(&mut device));
            (done, device.stats().clone())
        };
        prop_assert_eq!(run(true), run(false));
    }

    #[test]
    fn test_any_steps_run_beside_any_others(
        steps in prop::collection::vec(step(), 1..12), others in prop::collection::vec(step(), 1..12), late in 0..9_000_000u64,
    ) {
        let mut device = device_of(&json!({"cores": 2, "overrides": {"hbm_gbps": 5}}));
        let texts = [program(&steps), program(&others)];
        for (core, text) in (0..).zip(&texts) {
            let program = device.load(text.as_bytes()).expect("a program");
            device.submit(Command::Run { core, program }, 0).expect("room");
            device.advance(device.now() + Picos(late)).expect("later");
        }
        let done = settle(&mut device);
        prop_assert_eq!(done.len(), 2);
        prop_assert!(done.iter().all(|done| done.end >= done.start) && device.is_idle());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn test_ranks_that_meet_share_with_others_and_go_on_from_snapshots(
        late in 0..30_000_000u64, pause in 0..60_000_000u64, tiles in 1..12usize, agrees: bool,
    ) {
        let length = if agrees { 1024 } else { 512 };
        let run = |saves: bool| {
            let mut device = device_of(&spec(3));
            let ranks = [meetings::program(0, 2, 1024), meetings::program(1, 2, length)];
            let [first, second] = ranks.map(|text| device.load(text.to_string().as_bytes()).expect("a program"));
            let other = device.load(stream(tiles).as_bytes()).expect("a program");
            device.submit(Command::Run { core: 0, program: first }, 0).expect("room");
            device.submit(Command::Run { core: 2, program: other }, 2).expect("room");
            device.advance(Picos(late)).expect("later");
            device.submit(Command::Run { core: 1, program: second }, 1).expect("room");
            device.advance(Picos(late + pause)).expect("later");
            if saves {
                let saved = device.save_snapshot().expect("nobody waits");
                device.load_snapshot(&saved).expect("its own");
            }
            device.submit(Command::Run { core: 2, program: other }, 3).expect("room");
            let done = settle(&mut device);
            assert!(device.is_idle());
            done
        };
        let done = run(false);
        prop_assert_eq!(done.iter().filter(|done| done.tag < 2 && done.status.is_ok()).count(), if agrees { 2 } else { 0 });
        prop_assert_eq!(run(true), done);
    }
}

#[test]
fn test_an_end_that_was_said_moves_when_another_begins() {
    let mut device = device_of(&spec(2));
    let number = device.load(stream(8).as_bytes()).expect("a program");
    device.submit(Command::Run { core: 0, program: number }, 0).expect("room");
    let said = device.next_event().expect("an end");
    device.advance(Picos(said.0 / 2)).expect("later");
    assert_eq!(device.next_event(), Some(said));
    device.submit(Command::Run { core: 1, program: number }, 1).expect("room");
    let moved = device.next_event().expect("an end");
    assert!(moved > said, "{moved} {said}");
    device.advance(said).expect("later");
    assert!(device.poll().is_none());
    device.advance(moved).expect("later");
    let done = device.poll().expect("the first");
    assert_eq!((done.core, done.start, done.end), (0, Picos(0), moved));
    let profile = device.profile(0).expect("a run");
    assert_eq!(profile.figure("latency_us").map(|us| (us * 1e6).round() as u64), Some(moved.0));
}

#[test]
fn test_copies_and_steps_share_and_are_counted_when_they_have_ended() {
    let at = |space, address| Address { space, address };
    let copy = |core| Command::Copy {
        core,
        dst: at(MemorySpace::Sbuf, 0),
        src: at(MemorySpace::Hbm, 0),
        rows: 128,
        row_bytes: 65536,
    };
    let took = |cores: std::ops::Range<u32>| {
        let mut device = device_of(&spec(2));
        cores.for_each(|core| device.submit(copy(core), 0).expect("room"));
        assert_eq!(device.stats().dma_busy_ps, 0);
        assert!(device.stats().hbm_read_bytes > 0);
        let last = settle(&mut device).pop().expect("a copy").end.0;
        assert!(device.stats().dma_busy_ps > 0);
        last
    };
    assert!(took(0..2) as f64 > 1.5 * took(0..1) as f64);
    let mut device = device_of(&spec(2));
    let number = device.load(stream(2).as_bytes()).expect("a program");
    device.submit(copy(0), 0).expect("room");
    let before = device.next_event();
    device.submit(Command::Step { core: 1, program: number, step: 0 }, 1).expect("room");
    assert!(settle(&mut device).iter().find(|done| done.core == 0).map(|done| done.end) >= before);
}

#[test]
fn test_without_sharing_every_core_is_as_if_alone() {
    let mut own = spec(2);
    own["share_hbm_bandwidth"] = json!(false);
    let text = stream(8);
    let ends = ends(&mut device_of(&own), &[(0, &text, 0), (1, &text, 0)]);
    assert_eq!(ends.into_values().collect::<Vec<_>>(), [alone(&text); 2]);
    assert!(together(&[text.clone(), text.clone()]).iter().max() > Some(&alone(&text)));
}
