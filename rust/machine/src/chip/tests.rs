//! Runs under one ceiling: what they draw together.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::arch::ArchSpec;
use crate::core::CoreOptions;
use crate::program::{Limits, Program};
use crate::time::Picos;

const GIGABYTES_PER_SECOND: f64 = 300.0;

/// A core that has loaded so many tiles of 128 rows of some KiB, and begins at a moment.
fn core(tiles: usize, kib: usize, start: u64) -> NeuronCore {
    let arch = ArchSpec::load("trn3").expect("a spec").with_values([("hbm_gbps", GIGABYTES_PER_SECOND)]);
    let options = CoreOptions { values: false, ..CoreOptions::default() };
    let mut core = NeuronCore::new(Arc::new(arch.expect("figures")), options).expect("a core");
    core.keep_timed();
    let shape = json!([128, 256 * kib]);
    let program = json!({
        "format": "trn3-program", "version": 1, "name": "stream", "tensors": [
            {"name": "x", "space": "hbm", "shape": shape, "dtype": "float32", "role": "input"},
            {"name": "t0", "space": "sbuf", "shape": shape, "dtype": "float32", "address": [0, 0]},
            {"name": "t1", "space": "sbuf", "shape": shape, "dtype": "float32", "address": [0, 1024 * kib]},
        ],
        "steps": (0..tiles).map(|tile| json!({"op": "dma_copy", "dst": format!("t{}", tile % 2), "src": "x"})).collect::<Vec<_>>(),
    });
    let program = Program::from_json(program.to_string().as_bytes(), &Limits::default()).expect("a program");
    program.run_on(&mut core, &[], &Limits::default()).expect("a run");
    core.timeline.begin_after(Picos(start));
    core
}

/// The most that is drawn at once, and all that is drawn, in bytes a picosecond and bytes.
fn drawn(lanes: &[Lane]) -> (f64, f64) {
    let rates = lanes.first().and_then(|lane| lane.timeline.clone().draw_mut().map(|draw| draw.ceiling().rates()));
    let rates = rates.unwrap_or_default();
    let most = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    (most, rates.windows(2).map(|pair| pair[0].1 * (pair[1].0 - pair[0].0) as f64).sum())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn test_runs_that_come_and_go_never_draw_more_than_there_is(
        given in prop::collection::vec((1..12usize, 1..17usize, 0..20_000_000u64), 2..5),
    ) {
        let mut runs = ChipRuns::new(GIGABYTES_PER_SECOND);
        let (mut start, mut bytes) = (0, 0);
        for (number, (tiles, kib, gap)) in given.into_iter().enumerate() {
            // All begin before the first, which is long, could have ended.
            let tiles = if number == 0 { 200 } else { tiles };
            start += gap;
            bytes += tiles * 128 * 1024 * kib;
            runs.go_on(number, &mut core(tiles, kib, start), true);
            let Some(ahead) = runs.worked_out() else { continue };
            let (most, all) = drawn(ahead);
            prop_assert!(most <= GIGABYTES_PER_SECOND / 1e3 * (1.0 + 1e-6), "{most}");
            prop_assert!((all / bytes as f64 - 1.0).abs() < 1e-6, "{all} {bytes}");
        }
    }
}

#[test]
fn test_what_was_saved_ends_as_what_was_not() {
    let mut cores = [(9, 16, 0), (5, 16, 2_000_000)].map(|(tiles, kib, start)| core(tiles, kib, start));
    let mut runs = ChipRuns::new(GIGABYTES_PER_SECOND);
    for (number, core) in cores.iter_mut().enumerate() {
        runs.go_on(number, core, true);
    }
    let ends = [0, 1].map(|core| runs.end(core));
    let names: Vec<&NeuronCore> = cores.iter().collect();
    let saved = runs.save(Picos(20_000_000), &names).expect("whole").expect("runs");
    let text = serde_json::to_string(&saved).expect("JSON");
    let load = |text: &str| {
        let mut fresh = [0, 1].map(|_| core(0, 1, 0));
        let [first, second] = &mut fresh;
        ChipRuns::load(GIGABYTES_PER_SECOND, serde_json::from_str(text).expect("runs"), &mut [first, second])
    };
    let loaded = load(&text).expect("its own");
    assert_eq!([0, 1].map(|core| loaded.end(core)), ends);
    for (from, to) in
        [("\"next\":", "\"next\":9"), ("\"is_shared\":true", "\"is_shared\":false"), ("\"core\":1", "\"core\":7")]
    {
        assert!(text.contains(from) && load(&text.replace(from, to)).is_err(), "{from}");
    }
}
