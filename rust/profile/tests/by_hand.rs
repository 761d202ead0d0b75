//! Figures against a profile that can be computed by hand.
//!
//! ```text
//! Time in us  0    .5   2    2.5  3    4    5    6         8         10
//! DMA 0            [-- 30 kB -----]
//! DMA 1                 [-- 10 kB ---]
//! tensor      (waits for DMA 3 us )[matmul 2    ](hop    )(1: waits)[1]
//! vector           (waits for tensor, 4 us, of 6) [ add, 2      ]
//! ```
#![allow(missing_docs)]

use std::sync::Arc;

use serde_json::{Value, json};
use trn3_profile::{
    CoreProfile, Error, InstructionColumns, LazyAdvice, MachineFigures, NO_INSTRUCTION, OccupancyColumns, Profile,
    Recorded, RooflineBound, RunColumns, TableColumn, TransferColumns,
};

const US: u64 = 1_000_000;

fn columns() -> RunColumns {
    let Value::Object(arch) = json!({
        "name": "toy", "generation": 4, "tensor_clock_mhz": 1000, "partitions": 128, "hbm_gbps": 100, "dma_engines": 4,
        "dma_engine_bytes_per_ns": 20, "sbuf_partition_bytes": 1024, "psum_partition_bytes": 512,
    }) else {
        unreachable!()
    };
    let site = |line| ("toy.py".to_owned(), line, "toy".to_owned());
    RunColumns {
        arch: MachineFigures::from_entries(arch).expect("figures"),
        kernel: "toy".to_owned(),
        latency_ps: 10 * US,
        overhead_ps: 15 * US,
        opcodes: ["dma_copy", "nc_matmul", "tensor_tensor", "nc_matmul_mx"].map(str::to_owned).into(),
        labels: ["", "first"].map(str::to_owned).into(),
        sites: vec![(String::new(), 0, String::new()), site(3), site(5), site(9)],
        findings: Vec::new(),
        instructions: InstructionColumns {
            opcode: vec![0, 1, 2, 3],
            engine: vec![5, 0, 1, 0],
            queue: vec![0; 4],
            site: vec![1, 2, 3, 2],
            label: vec![0, 1, 0, 0],
            start_ps: vec![0, 3 * US, 6 * US, 8 * US],
            slot_end_ps: vec![3 * US, 5 * US, 8 * US, 9 * US],
            end_ps: vec![3 * US, 6 * US, 8 * US, 10 * US],
            wait_ps: vec![0, 3 * US, 4 * US, US],
            cause: vec![0, 6, 1, 2],
            waited_on: vec![NO_INSTRUCTION, 0, 1, 2],
            ready_ps: vec![0, 3 * US, 6 * US, 8 * US],
            bound: vec![0, 1, 1, 1],
            dma_bytes: vec![250_000, 0, 0, 0],
            hbm_read: vec![200_000, 0, 0, 0],
            hbm_write: vec![50_000, 0, 0, 0],
            macs: vec![0, 2000 * 16384, 0, 500 * 65536],
            peak_macs_per_cycle: vec![0, 16384, 0, 65536],
        },
        transfers: TransferColumns {
            instruction: vec![0, 0],
            dma_engine: vec![0, 1],
            start_ps: vec![US / 2, 2 * US],
            end_ps: vec![5 * US / 2, 3 * US],
            bytes: vec![30_000, 10_000],
        },
        occupancy: OccupancyColumns {
            time_ps: [0, 3 * US, 10 * US].into_iter().collect(),
            sbuf_bytes: [256, 512, 0].into_iter().collect(),
            psum_bytes: [0, 64, 0].into_iter().collect(),
            sbuf_peak_bytes: 512,
            psum_peak_bytes: 64,
        },
        critical: vec![0, 1, 2, 3],
        precision: Vec::new(),
        basis: Vec::new(),
        compile: None,
        recorded: Recorded::default().into(),
        advice: LazyAdvice::default(),
    }
}

fn figure(profile: &Profile, name: &str) -> f64 {
    profile.figure(name).unwrap_or_else(|| panic!("{name} is no figure"))
}

#[test]
fn test_times_rates_and_bounds() {
    columns().check().expect("columns");
    let profile = Profile::of_run(columns());
    for (name, value) in [
        ("latency_us", 10.0),
        ("overhead_us", 15.0),
        ("engines.tensor.busy_us", 3.0),
        ("engines.tensor.busy_share", 0.3),
        ("engines.tensor.waits.dma", 3.0),
        ("engines.tensor.idle_us", 3.0),
        ("engines.vector.waits.tensor", 4.0),
        ("engines.dma.busy_us", 2.5),
        ("macs", 2000.0 * 16384.0 + 500.0 * 65536.0),
        ("mfu", 0.25),
        ("mbu", 0.25),
        ("dma_efficiency", 2.0 / 3.0),
        ("lines.0.line", 5.0),
        ("lines.0.critical_us", 5.0),
        ("lines.1.hbm_bytes", 250_000.0),
        ("roofline.dma_gbps", 80.0),
    ] {
        assert!((figure(&profile, name) - value).abs() <= 1e-12 * value, "{name}");
    }
    assert_eq!((profile.roofline().bound, profile.roofline().ceiling), (RooflineBound::Memory, "DMA engines"));
    assert_eq!(profile.dma_engine_us(), [2.0, 1.0, 0.0, 0.0]);
    assert_eq!(profile.critical_engine_us(), [5.0, 2.0, 0.0, 0.0, 0.0, 3.0]);
    assert!(profile.verdict().ends_with("look first at toy.py:5."));
    assert_eq!(["kernel", "engines.pool.busy_us", "lines.9.line", ""].map(|name| profile.figure(name)), [None; 4]);
}

#[test]
fn test_hbm_bytes_follow_transfers() {
    let edges = [0, 500_000, 2_000_000, 2_500_000, 3_000_000, 10_000_000].map(f64::from);
    let found = Profile::of_run(columns()).hbm_bytes_by_bin(&edges);
    let expected = [0.0, 140_625.0, 46_875.0 + 31_250.0, 31_250.0, 0.0];
    assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{found:?}");
}

#[test]
fn test_two_cores_together_are_means_and_sums() {
    let core = Arc::new(CoreProfile::new(columns()));
    let mut longer = columns();
    longer.latency_ps *= 2;
    let both = Profile::joint(vec![core.clone(), Arc::new(CoreProfile::new(longer))]).expect("two cores");
    let one = Profile::of_core(core);
    assert_eq!((both.last(), both.latency_us(), both.instructions()), (1, 20.0, 8));
    assert_eq!((one.overhead_us(), both.overhead_us()), (15.0, 30.0));
    assert_eq!((both.macs(), both.hbm_read_bytes()), (2 * one.macs(), 2 * one.hbm_read_bytes()));
    assert_eq!((both.mfu(), both.mbu()), (0.125, 0.125));
    assert_eq!(both.engines()[0].busy_us, 3.0);
    assert_eq!(figure(&both, "cores.0.mfu"), 0.25);
    assert_eq!(both.table("Instruction").map(|table| table.len()), Some(8));
    assert!(Profile::joint(Vec::new()).is_none());
}

#[test]
fn test_documents_have_the_figures_and_the_columns() {
    let profile = Profile::of_run(columns());
    let text = profile.to_json().expect("text");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((document["format"].as_str(), document["version"].as_u64()), (Some("trn3-profile"), Some(1)));
    assert_eq!(document["figures"]["engines"][0]["waits"], json!({"dma": 3.0, "vector": 1.0}));
    assert_eq!(document["data"]["instructions"]["wait_ps"], json!([0, 3 * US, 4 * US, US]));
    assert_eq!(document["data"]["sites"][1], json!(["toy.py", 3, "toy"]));
    let summary = profile.table("Summary").expect("a table");
    let (_, percent) = summary.columns.iter().find(|(name, _)| name == "total_active_time_percent").expect("a column");
    assert_eq!(*percent, TableColumn::Floats(vec![80.0]));
    assert!(profile.table("CcOp").is_none());
}

#[test]
fn test_contradictions_are_named() {
    type Change = fn(&mut RunColumns);
    let cases: [(Change, &str); 7] = [
        (|run| run.instructions.macs.truncate(3), "instructions.macs has 3 entries, instructions.opcode has 4"),
        (|run| run.instructions.engine[1] = 6, "instructions.engine[1] is 6, but there are 6 engines"),
        (
            |run| run.instructions.waited_on[2] = 2,
            "instructions.waited_on[2] is 2; an instruction waits for an earlier",
        ),
        (|run| run.instructions.wait_ps[1] = 4 * US, "engine tensor stood idle for 3000000 ps before it"),
        (|run| run.transfers.end_ps[0] = 0, "transfers.end_ps[0] is 0 ps, before transfers.start_ps[0], 500000 ps"),
        (|run| run.occupancy.sbuf_peak_bytes = 1, "occupancy.sbuf_bytes[1] is 512, but there are 2 at peak"),
        (|run| run.latency_ps = 1, "instructions.slot_end_ps reaches 9000000 ps, after latency_ps, 1"),
    ];
    for (change, words) in cases {
        let mut wrong = columns();
        change(&mut wrong);
        match wrong.check() {
            Err(Error::Value(text)) => assert!(text.contains(words), "{text}"),
            other => panic!("{words}: {other:?}"),
        }
    }
}
