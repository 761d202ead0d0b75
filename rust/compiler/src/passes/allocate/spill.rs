//! How a value that has to leave its place can come back: from where it was loaded, by being made again, or from a copy.

use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Home, NONE, Trace, TraceStep, Use};

use crate::costs::latency;

/// Steps that a value is made again by at most.
const MOST_MAKERS: usize = 4;

/// What can be made again in a trace.
#[derive(Debug)]
pub(super) struct Makers {
    /// The last step that writes each tensor in HBM.
    last_write: Vec<u32>,
    /// The last step in which cores meet, from which on others may have written.
    last_meeting: u32,
}

impl Makers {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut found = Self { last_write: vec![NONE; trace.tensors.len()], last_meeting: NONE };
        for (number, step) in trace.steps.iter().enumerate() {
            if step.marks.is_fence {
                found.last_meeting = number as u32;
            }
            step.writes().for_each(|operand| found.last_write[operand.tensor as usize] = number as u32);
        }
        found
    }

    /// The steps that give a value again which was used by `uses` so far, if whatever they read stays as it is and they take
    /// no longer than to store it and to load it, which takes `round_trip` picoseconds.
    pub(super) fn of_value(&self, trace: &Trace, tensor: u32, uses: &[u32], round_trip: u64) -> Option<Vec<u32>> {
        let mut makers = Vec::new();
        let mut takes = 0;
        for &number in uses {
            let step = &trace.steps[number as usize];
            if !step.writes().any(|operand| operand.tensor == tensor) {
                continue;
            }
            takes += duration(trace, step);
            if makers.len() == MOST_MAKERS || takes > round_trip || !self.is_constant(trace, step, number) {
                return None;
            }
            makers.push(number);
        }
        (!makers.is_empty()).then_some(makers)
    }

    /// Whether a step gives the same whenever it runs after its turn.
    fn is_constant(&self, trace: &Trace, step: &TraceStep, number: u32) -> bool {
        let is_over = |last: u32| last == NONE || last < number;
        let one_output = step.writes().count() == 1;
        step.fingerprint.is_some()
            && !step.marks.is_ordered
            && !step.marks.is_fence
            && !trace.draws
            && one_output
            && step.reads().all(|operand| {
                let is_hbm = matches!(trace.tensors[operand.tensor as usize].home, Home::Hbm(_));
                is_hbm && is_over(self.last_write[operand.tensor as usize]) && is_over(self.last_meeting)
            })
    }
}

/// Picoseconds that a step takes alone, without what it waits for.
pub(super) fn duration(trace: &Trace, step: &TraceStep) -> u64 {
    let Work::Dma(transfer) = &step.work else { return latency(step).0 };
    transfer_time(trace, transfer.rows, transfer.row_bytes, transfer.row_descriptors)
}

/// Picoseconds that the DMA engines take for rows dealt to all of them.
fn transfer_time(trace: &Trace, rows: u64, row_bytes: u64, row_descriptors: u64) -> u64 {
    let arch = &trace.arch;
    let share = rows.div_ceil(arch.dma_engines) as f64;
    let descriptor = row_descriptors as f64 * arch.dma_descriptor_ns;
    arch.nanoseconds(share * (descriptor + row_bytes as f64 / arch.dma_engine_bytes_per_ns)).0
}

/// Picoseconds that it takes to store a tensor and to load it.
pub(super) fn round_trip(trace: &Trace, tensor: u32) -> u64 {
    let known = &trace.tensors[tensor as usize];
    2 * transfer_time(trace, u64::from(known.partitions), known.bytes, 1)
}

/// Whether a step writes a tensor.
pub(super) fn writes(step: &TraceStep, tensor: u32) -> bool {
    step.operands.iter().any(|operand| operand.tensor == tensor && operand.usage == Use::Write)
}
