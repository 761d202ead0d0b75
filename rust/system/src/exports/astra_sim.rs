//! A list for each of topology, sizes, GB/s one way and nanoseconds a hop.

use serde_json::json;

use super::{Dimension, ExportContent, rounded};
use crate::fabric::LevelKind;

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
