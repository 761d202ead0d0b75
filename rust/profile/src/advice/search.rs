//! The search: what-ifs say where to look, changes are timed one by one.

use trn3_machine::engine::Engine;
use trn3_machine::time::Picos;
use trn3_machine::timing::graph::{Retimed, Variant};

use super::source::RunSource;
use super::{AdviceFigures, LEAST_GAIN, MOST_ADVICE, NOTHING, RunAdvice};

/// Steps that are timed anew at most, all changes together.
const MOST_STEPS: usize = 2_000_000;

/// The cause of lines whose results nothing reads.
pub(super) const UNREAD: &str = "unread result";

/// What may be advised: the steps' line, the cause, what is said before the change, and the change.
pub(super) struct Offer {
    pub(super) step: u32,
    pub(super) cause: &'static str,
    pub(super) why: String,
    pub(super) change: String,
}

pub(super) struct AdviceSearch<'a> {
    pub(super) run: &'a RunSource,
    pub(super) base: Retimed,
    found: Vec<RunAdvice>,
    left: usize,
}

/// What would make a run faster.
pub(super) fn advise(run: &RunSource) -> AdviceFigures {
    let none = |note: &str| AdviceFigures { advice: Vec::new(), note: note.to_owned() };
    let base = Variant::of(&run.graph).time();
    if base.latency != run.graph.latency() {
        return none("nothing was looked for: the time of this run is that of others as well");
    }
    if base.latency == Picos::ZERO {
        return none(NOTHING);
    }
    let mut search = AdviceSearch { run, base, found: Vec::new(), left: MOST_STEPS };
    search.transfers();
    if !run.is_compiled {
        search.narrow();
        search.unread();
        search.repeated();
        search.order();
        search.buffers();
        search.queues();
        search.engines();
    }
    search.finish()
}

impl<'a> AdviceSearch<'a> {
    pub(super) fn variant(&self) -> Variant<'a> {
        Variant::of(&self.run.graph)
    }

    /// How many times as fast the run is so; nothing where too much was timed already.
    pub(super) fn gain(&mut self, variant: &Variant<'_>) -> f64 {
        let Some(left) = self.left.checked_sub(self.run.graph.steps().len()) else { return 1.0 };
        self.left = left;
        let latency = variant.latency();
        if latency == Picos::ZERO { 1.0 } else { self.base.latency.0 as f64 / latency.0 as f64 }
    }

    /// Whether a what-if gains enough to look for what could be written.
    pub(super) fn is_worth(&mut self, what_if: &Variant<'_>) -> bool {
        self.gain(what_if) >= LEAST_GAIN
    }

    pub(super) fn offer(&mut self, gain: f64, offer: Offer) {
        if gain < LEAST_GAIN {
            return;
        }
        let Offer { step, cause, why, change } = offer;
        let line = self.run.location(self.run.graph.steps().at(step as usize).site);
        let text = format!("{gain:.2}x: {why}; {change}");
        self.found.push(RunAdvice { gain, line, instruction: step, cause: cause.to_owned(), text, change });
    }

    /// Steps of an engine, in their order.
    pub(super) fn steps_on(&self, engine: Engine) -> Vec<u32> {
        let steps = self.run.graph.steps().iter().enumerate();
        steps.filter(|(_, step)| step.engine == engine).map(|(number, _)| number as u32).collect()
    }

    fn finish(mut self) -> AdviceFigures {
        self.found.sort_by(|one, other| other.gain.total_cmp(&one.gain));
        // Of a line that may go there is nothing else to say.
        let gone: Vec<String> =
            self.found.iter().filter(|each| each.cause == UNREAD).map(|each| each.line.clone()).collect();
        let mut advice: Vec<RunAdvice> = Vec::new();
        for each in self.found {
            let is_known = advice.iter().any(|other| (&other.line, &other.cause) == (&each.line, &each.cause))
                || each.cause != UNREAD && gone.contains(&each.line);
            if !is_known && advice.len() < MOST_ADVICE {
                advice.push(each);
            }
        }
        let note = if advice.is_empty() { NOTHING.to_owned() } else { String::new() };
        AdviceFigures { advice, note }
    }
}

/// A time in words: microseconds, or nanoseconds of short ones.
pub(super) fn time_words(time: Picos) -> String {
    if time.0 < 1_000_000 { format!("{:.0} ns", time.0 as f64 / 1e3) } else { format!("{:.1} us", time.0 as f64 / 1e6) }
}

/// Keys with the largest weights, the largest first.
pub(super) fn heaviest<K: Copy + Ord>(weights: std::collections::BTreeMap<K, u64>, count: usize) -> Vec<K> {
    let mut weights: Vec<(K, u64)> = weights.into_iter().filter(|(_, weight)| *weight > 0).collect();
    weights.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    weights.into_iter().take(count).map(|(key, _)| key).collect()
}
