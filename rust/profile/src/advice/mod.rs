//! What would make a run faster, with a number: the graph of the run timed anew under changes that leave values as they are.
//!
//! What-ifs that nobody can write (an engine free, out-of-order issue, unlimited buffers, no floor of DMA) say where it is worth
//! looking; what is advised is a change of the text, timed as that change. There is one engine: the machine's
//! [`Variant`](trn3_machine::timing::graph::Variant).

mod engines;
mod order;
mod room;
mod search;
mod source;
mod transfers;

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize, Serializer};
use trn3_machine::core::NeuronCore;
use trn3_machine::timing::graph::RunGraph;

use source::RunSource;

/// **(choice)** What gains less is not advised.
pub const LEAST_GAIN: f64 = 1.02;
/// What is said where nothing gains more.
pub const NOTHING: &str = "nothing above 2 %";
/// Pieces of advice at most.
pub const MOST_ADVICE: usize = 5;

/// A change of a kernel and what it gains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunAdvice {
    /// How many times as fast the run is with it.
    pub gain: f64,
    /// `file:line` that it is about.
    pub line: String,
    /// The first instruction that it is about, by its number on its core.
    pub instruction: u32,
    /// What is in the way: `queue order`, `buffer reuse`, `DMA floor`, `DMA queue`, `engine`, `repeated work`, `unread
    /// result`, `wide operands`.
    pub cause: String,
    /// All of it, in a sentence.
    pub text: String,
    /// What to write otherwise.
    pub change: String,
}

/// What is advised for a run on one core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdviceFigures {
    /// The largest gains, at most [`MOST_ADVICE`].
    pub advice: Vec<RunAdvice>,
    /// Why there is none; empty where there is some.
    pub note: String,
}

/// Advice that is looked for when it is first asked for.
#[derive(Clone, Default)]
pub struct LazyAdvice {
    source: Option<Arc<RunSource>>,
    found: Arc<OnceLock<AdviceFigures>>,
}

impl LazyAdvice {
    /// Of a core's run so far.
    pub fn of(core: &NeuronCore, peaks: [u64; 2], is_compiled: bool) -> Self {
        let graph = core.timeline.graph().map(|graph| Arc::new(graph.clone()));
        Self::of_graph(core, graph, peaks, is_compiled)
    }

    /// As [`LazyAdvice::of`], where the run's graph is there already.
    pub(crate) fn of_graph(
        core: &NeuronCore,
        graph: Option<Arc<RunGraph>>,
        peaks: [u64; 2],
        is_compiled: bool,
    ) -> Self {
        let source = graph.map(|graph| Arc::new(RunSource::of(core, graph, peaks, is_compiled)));
        Self { source, found: Arc::default() }
    }

    /// As it was found before.
    pub fn known(figures: Option<AdviceFigures>) -> Self {
        let found = figures.map_or_else(OnceLock::new, OnceLock::from);
        Self { source: None, found: Arc::new(found) }
    }

    /// What is advised; None where nobody looked, and of a run that cannot be timed anew.
    pub fn get(&self) -> Option<&AdviceFigures> {
        match (self.found.get(), &self.source) {
            (Some(found), _) => Some(found),
            (None, None) => None,
            (None, Some(source)) => Some(self.found.get_or_init(|| search::advise(&source.opened()))),
        }
    }
}

impl fmt::Debug for LazyAdvice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.found.get())
    }
}

impl Serialize for LazyAdvice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}
