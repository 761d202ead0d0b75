//! The network, a list for each of topology, sizes, GB/s one way and nanoseconds a hop; the system, what a chip computes
//! and which algorithm each dimension has; the memory beyond the chip.

use serde_json::{Value, json};
use trn3_facts::Facts;

use super::{Dimension, ExportContent, chip_of, or, rounded, spec_of};
use crate::error::Result;
use crate::fabric::LevelKind;

/// What its own example systems have **(choice)**: nanoseconds of an end of a message, chunks of a collective.
const ENDPOINT_DELAY: u32 = 10;
const DATASET_SPLITS: u32 = 4;

pub(super) fn export(dimensions: &[Dimension]) -> ExportContent {
    let block = |dimension: &Dimension| match dimension.kind {
        LevelKind::Ring => "Ring",
        LevelKind::Switch => "Switch",
        LevelKind::Direct => "FullyConnected",
    };
    let per_hop = |dimension: &Dimension| match dimension.kind {
        // Through a switch the way has two links there, one into it and one out.
        LevelKind::Switch => dimension.latency / 2.0,
        _ => dimension.latency,
    };
    let content = json!({
        "topology": dimensions.iter().map(block).collect::<Vec<_>>(),
        "npus_count": dimensions.iter().map(|dimension| dimension.size).collect::<Vec<_>>(),
        "bandwidth": dimensions.iter().map(|dimension| rounded(dimension.rate / 1e9, 9)).collect::<Vec<_>>(),
        "latency": dimensions.iter().map(|dimension| rounded(per_hop(dimension) / 1e-9, 9)).collect::<Vec<_>>(),
    });
    let notes = [
        "one NPU is one chip; bandwidth in GB/s one way, latency in ns a hop",
        "its analytical model takes hops x latency + bytes / bandwidth in one dimension at a time",
    ];
    ExportContent { content, notes: notes.map(str::to_owned).to_vec() }
}

/// What `Sys.cc` at 12737a6 reads.
pub(super) fn export_system(dimensions: &[Dimension], facts: &Facts) -> Result<ExportContent> {
    let spec = spec_of(&chip_of(facts)?)?;
    let hbm = spec.si("hbm_bandwidth")?;
    let memory = hbm.min(or(&spec, "dma_bandwidth", hbm));
    // Its halving and doubling needs a power of two; a ring of a switch's ports takes as long for large messages.
    let reduce = |dimension: &Dimension| match dimension.kind {
        LevelKind::Ring => "ring",
        LevelKind::Direct => "direct",
        LevelKind::Switch if dimension.size.is_power_of_two() => "halvingDoubling",
        LevelKind::Switch => "ring",
    };
    let exchange = |dimension: &Dimension| if dimension.kind == LevelKind::Ring { "ring" } else { "direct" };
    let reduces: Value = dimensions.iter().map(reduce).collect();
    let content = json!({
        "scheduling-policy": "LIFO",
        "endpoint-delay": ENDPOINT_DELAY,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": DATASET_SPLITS,
        "all-reduce-implementation": reduces,
        "all-gather-implementation": reduces,
        "reduce-scatter-implementation": reduces,
        "all-to-all-implementation": dimensions.iter().map(exchange).collect::<Value>(),
        "collective-optimization": "localBWAware",
        "roofline-enabled": 1,
        "peak-perf": rounded(spec.si("tflops_bf16")? / 1e12, 6),
        "local-mem-bw": rounded(memory / 1e9, 6),
    });
    let notes = [
        "one NPU is one chip; its roofline is that of BF16 and of the lesser of HBM and DMA engines",
        "scheduling, delay of an end and chunks are those of ASTRA-sim's own examples",
    ];
    Ok(ExportContent { content, notes: notes.map(str::to_owned).to_vec() })
}

/// No memory beyond a chip's own is published of any.
pub(super) fn export_memory() -> ExportContent {
    let notes = vec!["no memory beyond the chip's own: none is published".to_owned()];
    ExportContent { content: json!({"memory-type": "NO_MEMORY_EXPANSION"}), notes }
}
