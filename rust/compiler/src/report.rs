//! What a compiler did to a run.

use std::collections::BTreeMap;

use serde::Serialize;
use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;

use crate::live::LiveRange;

/// What kind of a change a pass made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// A load or a computation that repeats is done once: the repetitions at `site` went, readers take what `other` made.
    Repeated,
    /// Steps at `site` read the source of the copy at `other` instead of the copy.
    Forwarded,
    /// A fill with zeros at `site` went: the product at `other` that adds onto it overwrites.
    FillDropped,
    /// Steps at `site` went: nothing reads what they made.
    Dead,
    /// Steps at `site` moved to `engine`.
    Moved,
    /// What `tensor`, made at `site`, holds goes to HBM and comes back, since it does not fit.
    Spilled,
    /// What `tensor` holds is made again at `site`, since it does not fit until it is needed.
    Rematerialised,
    /// `tensor`, made at `site` anew in every iteration, takes turns in several places.
    Rotated,
    /// Steps at `site` are issued before the one at `other`, which the kernel has first.
    Earlier,
    /// Transfers at `site` became others: split, or joined with neighbours.
    Transferred,
}

impl ChangeKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            ChangeKind::Repeated => "repeated",
            ChangeKind::Forwarded => "forwarded",
            ChangeKind::FillDropped => "fill_dropped",
            ChangeKind::Dead => "dead",
            ChangeKind::Moved => "moved",
            ChangeKind::Spilled => "spilled",
            ChangeKind::Rematerialised => "rematerialised",
            ChangeKind::Rotated => "rotated",
            ChangeKind::Earlier => "earlier",
            ChangeKind::Transferred => "transferred",
        }
    }
}

/// What a pass changed at one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it did.
    pub kind: ChangeKind,
    /// The line of the steps that it changed.
    pub site: SiteId,
    /// The line that they now depend on, as the kind says.
    pub other: Option<SiteId>,
    /// How many steps.
    pub steps: u32,
    /// The tensor that it is about, by name.
    pub tensor: Option<String>,
    /// The engine that the steps now run on.
    pub engine: Option<Engine>,
}

/// What one pass did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PassReport {
    /// Name of the pass.
    pub name: String,
    /// What it changed, line by line.
    #[serde(skip)]
    pub changes: Vec<Change>,
    /// Counts, by what was counted.
    #[serde(flatten)]
    pub counts: BTreeMap<&'static str, u64>,
}

impl PassReport {
    /// A report of a pass that did nothing.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
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

/// What was looked at of what came out, and found right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Passes after each of which the schedule was legal.
    pub passes: usize,
    /// What a run as compiled gave with the bits of the run as written: outputs, and inputs that the kernel wrote to, of all
    /// cores together; 0 where nothing was run.
    pub outputs: usize,
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
    /// What was looked at, and found right; None where nobody asked.
    pub verified: Option<Verification>,
    /// What lies where on chip; empty unless that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub live: Vec<LiveRange>,
}
