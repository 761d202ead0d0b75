//! What arrives, one conversation after another.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::arrivals::Arrivals;
use super::conversation::Conversation;
use super::lengths::Lengths;
use super::sessions::Sessions;
use super::spread::Spread;
use super::traces::RecordedTraffic;
use super::weighted::Weighted;

/// Random numbers that decide one thing each, from one seed.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    pub(super) arrivals: Pcg64,
    pub(super) input: Pcg64,
    pub(super) output: Pcg64,
    pub(super) turns: Pcg64,
    pub(super) prefixes: Pcg64,
    pub(super) pauses: Pcg64,
    pub(super) models: Pcg64,
    pub(super) priorities: Pcg64,
}

impl Streams {
    pub(super) fn new(seed: u64) -> Self {
        let mut root = Pcg64::seed_from_u64(seed);
        // The place in this order decides what a stream holds: new ones go last.
        let [arrivals, input, output, turns, prefixes, pauses, models, priorities] =
            std::array::from_fn(|_| Pcg64::from_rng(&mut root));
        Self { arrivals, input, output, turns, prefixes, pauses, models, priorities }
    }
}

/// Where conversations come from.
#[derive(Clone, Debug)]
pub(super) enum TrafficSource {
    Drawn(Box<Sessions>),
    /// A trace, and how long answers are where it does not say.
    Recorded(Box<RecordedTraffic>, Option<(Lengths, Pcg64)>),
}

/// Conversations in the order of their arrival, made as they are asked for: a million of them take no memory, unless they
/// are of a trace.
///
/// In an open loop `at` is when the first turn is sent; in a closed one, how long its user waits before it.
#[derive(Clone, Debug)]
pub struct Traffic {
    pub(super) source: TrafficSource,
    /// `None` in closed loops and where recorded times are replayed.
    pub(super) arrivals: Option<Arrivals>,
    pub(super) pauses: (Spread, Pcg64),
    pub(super) models: Option<(Weighted<u32>, Pcg64)>,
    pub(super) priorities: Option<(Weighted<i32>, Pcg64)>,
    pub(super) requests: u64,
    pub(super) left: u64,
    pub(super) rate: Option<f64>,
    pub(super) users: Option<u64>,
    pub(super) max_concurrency: Option<u64>,
    pub(super) said: Vec<String>,
}

impl Traffic {
    /// How many requests there are in all, each turn one.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Requests a second that are asked for; `None` in closed loops and where recorded times are replayed.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Users of a closed loop.
    pub fn users(&self) -> Option<u64> {
        self.users
    }

    /// Whether users wait for answers before they send, rather than come at a rate.
    pub fn is_closed(&self) -> bool {
        self.users.is_some()
    }

    /// Requests that are under way at most.
    pub fn max_concurrency(&self) -> Option<u64> {
        self.max_concurrency
    }

    /// How many models the requests are for, if they say so: the greatest number is one less.
    pub fn models(&self) -> u32 {
        match (&self.models, &self.source) {
            (Some((models, _)), _) => models.values().len() as u32,
            (None, TrafficSource::Recorded(recorded, _)) => recorded.models(),
            (None, TrafficSource::Drawn(_)) => 1,
        }
    }

    /// Tokens that no prompt exceeds together with its answer.
    pub fn longest(&self) -> u64 {
        match &self.source {
            TrafficSource::Drawn(sessions) => sessions.longest(),
            TrafficSource::Recorded(recorded, outputs) => {
                recorded.longest() + outputs.as_ref().map_or(0, |(lengths, _)| u64::from(lengths.longest()))
            }
        }
    }

    /// What was left out, cut or taken for granted, in words.
    pub fn said(&self) -> &[String] {
        &self.said
    }
}

impl Iterator for Traffic {
    type Item = Conversation;

    fn next(&mut self) -> Option<Conversation> {
        if self.left == 0 {
            return None;
        }
        let mut conversation = match &mut self.source {
            TrafficSource::Drawn(sessions) => {
                Conversation { turns: sessions.turns(self.left), ..Conversation::default() }
            }
            TrafficSource::Recorded(recorded, outputs) => {
                let mut conversation = recorded.next()?;
                if let Some((lengths, rng)) = outputs {
                    conversation.turns.iter_mut().for_each(|turn| turn.output = lengths.draw(rng));
                }
                conversation
            }
        };
        self.left = self.left.saturating_sub(conversation.turns.len() as u64);
        let (pauses, rng) = &mut self.pauses;
        conversation.pause = pauses.draw(rng);
        if let Some(arrivals) = &mut self.arrivals {
            conversation.at = arrivals.next()?;
        } else if self.users.is_some() {
            conversation.at = conversation.pause;
        }
        if let Some((models, rng)) = &mut self.models {
            conversation.model = models.draw(rng);
        }
        if let Some((priorities, rng)) = &mut self.priorities {
            let priority = priorities.draw(rng);
            conversation.turns.iter_mut().for_each(|turn| turn.priority = priority);
        }
        Some(conversation)
    }
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
