//! What would make a kernel faster, found in the trace of its run: every change that the text allows is timed alone by the
//! machine's [re-timer](trn3_machine::trace::Retimer), and ranked by what it saves. Candidates are what the
//! [passes](crate::passes) change of the trace, and what no pass does but an author can: which line is issued first, which
//! sequencer triggers a transfer, which transfers are one.

mod engines;
mod kind;
mod left_out;
mod pass_changes;
mod search;
mod words;

use std::collections::BTreeMap;

use serde::Serialize;
use trn3_machine::Result;
use trn3_machine::site::Sites;
use trn3_machine::trace::{Edit, Retimer};

use search::Search;

pub use kind::AdviceKind;
pub use words::{AdviceWords, words};

/// Share of the latency below which a change is not worth a line of text.
pub const LEAST_GAIN: f64 = 0.005;

/// A tensor, by the line that makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MadeTensor {
    /// Its name; empty if it has none.
    pub name: String,
    /// The line.
    pub line: u32,
}

/// A change, and what it saves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What it is.
    pub kind: AdviceKind,
    /// Lines of the kernel that it is about.
    pub lines: Vec<u32>,
    /// Engines of each line, which its steps take in turn; empty where engines stay.
    pub engines: Vec<Vec<&'static str>>,
    /// Tensors that it is about.
    pub tensors: Vec<MadeTensor>,
    /// The line that the lines overtake; of the loop that both are in.
    pub before: Option<u32>,
    /// The pass that changes one of the lines so by itself; None if none does.
    pub pass: Option<&'static str>,
    /// The latency with it, in microseconds.
    pub estimate_us: f64,
    #[serde(skip)]
    edits: Vec<Edit>,
}

/// What the text of a kernel says of its loops.
#[derive(Clone, Debug, Default)]
pub struct KernelOutline {
    /// The file, as sites name it.
    pub file: String,
    /// First and last line of each statement of each loop.
    pub loops: Vec<Vec<(u32, u32)>>,
    /// Lines that can name the engine of their instruction, and whether they can name several in turn; None: all can.
    pub named: Option<BTreeMap<u32, bool>>,
}

/// What is advised for a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceReport {
    /// Its latency, in microseconds, with tensors placed as written.
    pub as_written_us: Option<f64>,
    /// Changes that save at least [`LEAST_GAIN`], the best first.
    pub advice: Vec<Advice>,
}

/// Finds what would make a run faster.
///
/// # Errors
/// Those of [`Retimer::latency`].
pub fn advise(retimer: &Retimer, sites: &Sites, outline: &KernelOutline) -> Result<AdviceReport> {
    let Some(base) = retimer.latency(&[])? else {
        return Ok(AdviceReport { as_written_us: None, advice: Vec::new() });
    };
    let mut search = Search::of(retimer, sites, outline, base.microseconds());
    search.dead()?;
    search.changed()?;
    search.tensors()?;
    search.joined()?;
    search.engines()?;
    search.triggers()?;
    search.ahead()?;
    let mut advice = search.found();
    advice.sort_by(|one, other| one.estimate_us.total_cmp(&other.estimate_us));
    Ok(AdviceReport { as_written_us: Some(base.microseconds()), advice })
}

/// Changes that still save something after those before them, with the latency of all up to each: each is made on top of
/// those kept so far.
///
/// # Errors
/// As [`advise`].
pub fn combine(retimer: &Retimer, advice: &[Advice]) -> Result<Vec<Option<f64>>> {
    let Some(base) = retimer.latency(&[])? else { return Ok(vec![None; advice.len()]) };
    let (mut best, mut kept, mut reached) = (base.microseconds(), Vec::new(), Vec::with_capacity(advice.len()));
    for each in advice {
        let together: Vec<Edit> = kept.iter().chain(&each.edits).cloned().collect();
        let latency = retimer.latency(&together)?.map(|latency| latency.microseconds());
        let better = latency.filter(|latency| *latency < best * (1.0 - LEAST_GAIN));
        if let Some(latency) = better {
            (best, kept) = (latency, together);
        }
        reached.push(better);
    }
    Ok(reached)
}
