//! What a compiler did to a run.

use std::collections::BTreeMap;

use serde::Serialize;

/// What one pass did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PassReport {
    /// Name of the pass.
    pub name: String,
    /// Counts, by what was counted.
    #[serde(flatten)]
    pub counts: BTreeMap<&'static str, u64>,
}

impl PassReport {
    /// A report of a pass that did nothing.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), counts: BTreeMap::new() }
    }

    /// Adds to a count.
    pub fn add(&mut self, what: &'static str, count: u64) {
        *self.counts.entry(what).or_default() += count;
    }

    /// A count; 0 where nothing was counted.
    pub fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }
}

/// What the compiler did to the run of one core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompileReport {
    /// Name of the level.
    pub level: &'static str,
    /// What the kernel takes as written, in microseconds; None where it does not fit.
    pub as_written_us: Option<f64>,
    /// What it takes compiled, in microseconds.
    pub compiled_us: f64,
    /// What it takes at least, in microseconds: the longer of the critical path and the busiest engine.
    pub bound_us: f64,
    /// Bytes that were written to HBM because they did not fit on chip.
    pub spilled_bytes: u64,
    /// What each pass did, in their order.
    pub passes: Vec<PassReport>,
}
