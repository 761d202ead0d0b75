//! Bytes that the author's addresses use: his from the first step that uses them to the last, and from the start where that
//! one reads what nobody wrote.

use std::ops::Range;

use trn3_machine::storage::Buffer;
use trn3_machine::trace::{Home, NONE, Trace, Use};

/// Bytes of all partitions that are the author's from one step to another, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reserved {
    pub(super) bytes: Range<u64>,
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Reserved {
    pub(super) fn meets(&self, bytes: &Range<u64>) -> bool {
        self.bytes.start < bytes.end && bytes.start < self.bytes.end
    }
}

/// Spans that are told apart at most; past it neighbouring bytes are the author's from the first to the last use of any.
const MOST: usize = 256;

/// The author's bytes of one memory, those that are used first first; `unit` bytes are reserved together.
pub(super) fn reserved(trace: &Trace, buffer: Buffer, unit: u64) -> Vec<Reserved> {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for (number, step) in trace.steps.iter().enumerate() {
        for operand in &step.operands {
            if trace.tensors[operand.tensor as usize].home != Home::Addressed(buffer) {
                continue;
            }
            for rect in &operand.rects {
                let end = rect.columns.end.div_ceil(unit) as usize;
                if spans.len() < end {
                    spans.resize(end, (NONE, 0));
                }
                for span in &mut spans[(rect.columns.start / unit) as usize..end] {
                    let is_first = span.0 >= number as u32;
                    let before = is_first && operand.usage != Use::Write;
                    *span = (if before { 0 } else { span.0.min(number as u32) }, number as u32);
                }
            }
        }
    }
    let joined = |is_one: &dyn Fn((u32, u32), (u32, u32)) -> bool| {
        let mut found: Vec<Reserved> = Vec::new();
        for (at, &(first, last)) in spans.iter().enumerate().filter(|(_, span)| span.0 != NONE) {
            let bytes = at as u64 * unit..(at as u64 + 1) * unit;
            match found.last_mut() {
                Some(before)
                    if before.bytes.end == bytes.start && is_one((before.first, before.last), (first, last)) =>
                {
                    before.bytes.end = bytes.end;
                    (before.first, before.last) = (before.first.min(first), before.last.max(last));
                }
                _ => found.push(Reserved { bytes, first, last }),
            }
        }
        found
    };
    let mut found = joined(&|one, other| one == other);
    if found.len() > MOST {
        found = joined(&|_, _| true);
    }
    found.sort_by_key(|reserved| reserved.first);
    found
}
