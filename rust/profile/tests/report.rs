//! Reports of runs on a core that is driven by hand.
#![allow(missing_docs)]

use std::sync::Arc;

use serde_json::Value;
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::isa::dma::{Options, copy::DmaCopy};
use trn3_machine::memory::Request;
use trn3_machine::packed::PackedRows;
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;
use trn3_profile::{Profile, Recorded, ReportShell, RunColumns, report_page};

/// A load of a tensor into SBUF, and of another one into the bytes that the first one leaves, if it leaves them.
fn loads(keeps: bool) -> RunColumns {
    let arch = Arc::new(ArchSpec::load("trn3").expect("an arch"));
    let mut core = NeuronCore::new(arch, CoreOptions::default()).expect("a core");
    let mut kept = Vec::new();
    for name in ["first", "second"] {
        let mut tensor = |buffer| {
            let request = Request::unsited(name, &[128, 512], DType::BFloat16, buffer);
            core.allocate(&request).map(View::whole).expect("room")
        };
        let (src, dst) = (tensor(Buffer::SharedHbm), tensor(Buffer::Sbuf));
        let copy = DmaCopy { dst, src, options: Options::default(), engine: None };
        core.issue(&copy, At::default()).expect("a copy");
        if keeps {
            kept.push(copy);
        }
    }
    RunColumns::of(&mut core, "loads")
}

fn page(columns: RunColumns, shell: &ReportShell<'_>) -> String {
    report_page(&[&Profile::of_run(columns)], shell).expect("a page")
}

const SHELL: ReportShell<'static> = ReportShell { style: "body {}", script: "main();", policy: "default-src 'none'" };

fn part<'a>(html: &'a str, id: &str) -> &'a str {
    let start = html.find(&format!("id=\"{id}\">")).expect(id) + id.len() + "id=\"\">".len();
    &html[start..start + html[start..].find("</script>").expect("an end")]
}

#[test]
fn test_tensors_of_a_run_have_places_and_uses() {
    for (keeps, went) in [(false, [1, 2]), (true, [3, 3])] {
        let recorded = loads(keeps).recorded;
        let on_chip: Vec<usize> =
            (0..recorded.tensors.len()).filter(|&row| recorded.tensors.memory.at(row) == 0).collect();
        let of = |column: &PackedRows<u64>| on_chip.iter().map(|&row| column.at(row)).collect::<Vec<u64>>();
        let byte = of(&recorded.tensors.byte);
        assert!(!keeps || byte[0].abs_diff(byte[1]) >= 1024, "{byte:?}");
        assert_eq!(of(&recorded.tensors.bytes), [1024, 1024]);
        let went_of: Vec<u32> = on_chip.iter().map(|&row| recorded.tensors.went.at(row)).collect();
        assert_eq!(went_of, went);
        assert!(recorded.uses.instruction.iter().eq([0, 0, 1, 1]));
        let names = |row: usize| recorded.names[recorded.tensors.name.at(row) as usize].as_str();
        let used: Vec<&str> = recorded.uses.tensor.iter().map(|row| names(row as usize)).collect();
        assert_eq!(used, ["first", "first", "second", "second"]);
    }
}

#[test]
fn test_recorded_columns_come_back_from_documents() {
    let columns = loads(false);
    let text = serde_json::to_string(&columns.recorded).expect("text");
    let back: Recorded = serde_json::from_str(&text).expect("recorded");
    assert_eq!(back, *columns.recorded);
    RunColumns { recorded: back.into(), ..columns.clone() }.check().expect("columns");
    let mut other = columns;
    other.recorded.uses.tensor.change(0, |tensor| *tensor = 9);
    let error = other.check().expect_err("no such tensor").to_string();
    assert_eq!(error, "uses.tensor[0] is 9, but there are 4");
}

#[test]
fn test_peaks_traffic_and_holes() {
    let html = page(loads(true), &SHELL);
    let layout: Value = serde_json::from_str(part(&html, "trn3-report")).expect("a layout");
    let sbuf = &layout["memory"][0];
    let capacity = sbuf["capacity_bytes"].as_u64().expect("a capacity");
    assert_eq!((sbuf["memory"].as_str(), sbuf["peak_bytes"].as_u64()), (Some("sbuf"), Some(2048)));
    assert_eq!(sbuf["free_bytes"].as_u64(), Some(capacity - 2048));
    assert!(sbuf["largest_free_bytes"].as_u64() <= Some(capacity - 2048));
    assert!(sbuf["largest_free_bytes"].as_u64() >= Some((capacity - 2048) / 3));
    let read = |row: usize| layout["traffic"][row]["read_bytes"].as_u64();
    assert_eq!((read(0), read(1)), (Some(128 * 512 * 2), Some(128 * 512 * 2)));
    let once = page(loads(false), &SHELL);
    let layout: Value = serde_json::from_str(part(&once, "trn3-report")).expect("a layout");
    assert_eq!(layout["memory"][0]["free_bytes"].as_u64(), Some(capacity - 1024));
}

#[test]
fn test_what_would_end_itself_is_refused() {
    let profile = Profile::of_run(loads(false));
    for (style, script, what) in [("</STYLE>", "", "style"), ("", "a</script>", "script")] {
        let error = report_page(&[&profile], &ReportShell { style, script, ..SHELL }).expect_err(what);
        assert!(error.to_string().starts_with(&format!("the {what} holds")));
    }
    assert!(report_page(&[], &SHELL).is_err());
}
