//! What lies where on chip, and for how long.

use serde::Serialize;
use trn3_machine::storage::Buffer;
use trn3_machine::timing::timeline::Timeline;
use trn3_machine::trace::{Home, NONE, Trace};

/// A tensor without an address, from the first step that uses it to the last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveRange {
    /// "sbuf" or "psum".
    pub buffer: &'static str,
    /// First byte of each partition.
    pub byte: u64,
    /// Bytes of each partition.
    pub bytes: u64,
    /// Partitions.
    pub partitions: u32,
    /// Its name; empty if it has none.
    pub name: String,
    /// Line that made it, as `file:line`; empty if unknown.
    pub line: String,
    /// The first step that uses it.
    pub first: u32,
    /// The last one.
    pub last: u32,
    /// When the first one starts, in microseconds.
    pub begin_us: f64,
    /// When the last result of those that use it is there, in microseconds.
    pub end_us: f64,
    /// Whether what it holds went to HBM or to SBUF because it did not fit, or came back from there.
    pub spilled: bool,
}

/// The live ranges of a trace whose tensors have places, in the order of their first steps; times are those of the timeline
/// that it was issued to, 0 where that kept none.
pub fn live_ranges(trace: &Trace, timeline: &Timeline) -> Vec<LiveRange> {
    let records = timeline.records();
    let mut found: Vec<Option<LiveRange>> = vec![None; trace.tensors.len()];
    let mut order = Vec::new();
    for (number, step) in trace.steps.iter().enumerate() {
        let time = records.get(number).map_or((0.0, 0.0), |at| (at.start.microseconds(), at.end.microseconds()));
        for operand in &step.operands {
            let tensor = &trace.tensors[operand.tensor as usize];
            let (Home::Open(buffer), Some((_, byte))) = (tensor.home, trace.places[operand.tensor as usize]) else {
                continue;
            };
            let range = found[operand.tensor as usize].get_or_insert_with(|| {
                order.push(operand.tensor);
                LiveRange {
                    buffer: Buffer::name(buffer),
                    byte,
                    bytes: tensor.bytes,
                    partitions: tensor.partitions,
                    name: tensor.name.to_string(),
                    line: trace.sites.text(tensor.site),
                    first: number as u32,
                    last: number as u32,
                    begin_us: time.0,
                    end_us: time.1,
                    spilled: false,
                }
            });
            range.last = number as u32;
            (range.begin_us, range.end_us) = (range.begin_us.min(time.0), range.end_us.max(time.1));
            range.spilled |= step.source == NONE;
        }
    }
    order.into_iter().filter_map(|tensor| found[tensor as usize].take()).collect()
}
