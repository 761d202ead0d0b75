//! Conversations that are drawn: a shared prefix, turns whose prompts hold all that was said before.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::conversation::{PromptSegment, Turn};
use super::lengths::Lengths;

/// Random numbers, apart by what they decide: a change of one leaves the others as they were.
#[derive(Clone, Debug)]
pub struct SessionStreams {
    /// Tokens of prompts.
    pub input: Pcg64,
    /// Tokens of answers.
    pub output: Pcg64,
    /// How many turns.
    pub turns: Pcg64,
    /// Which prefix.
    pub prefixes: Pcg64,
}

/// What conversations are drawn from.
#[derive(Clone, Debug)]
pub struct SessionShape {
    /// New tokens of each prompt, beyond the prefix and what was said before.
    pub input: Lengths,
    /// Tokens of each answer.
    pub output: Lengths,
    /// Turns of a conversation.
    pub turns: Lengths,
    /// Tokens that all conversations of one prefix begin with.
    pub prefix: u32,
    /// How many prefixes there are, each as likely.
    pub prefixes: u64,
    /// Tokens that a prompt and its answer have together at most: conversations end before a turn that would have more,
    /// the first one excepted.
    pub longest_context: u32,
}

/// Turns of one conversation after another.
///
/// ```
/// use rand::SeedableRng;
/// use trn3_planner::load::{Lengths, SessionShape, SessionStreams, Sessions};
///
/// let length = |tokens: f64| Lengths::new("length", &tokens.into(), None).unwrap();
/// let (input, output, turns) = (length(100.0), length(20.0), length(2.0));
/// let shape = SessionShape { input, output, turns, prefix: 50, prefixes: 1, longest_context: u32::MAX };
/// let rng = rand_pcg::Pcg64::seed_from_u64(0);
/// let streams = SessionStreams { input: rng.clone(), output: rng.clone(), turns: rng.clone(), prefixes: rng };
/// let turns = Sessions::new(shape, streams).turns(u64::MAX);
/// assert_eq!(turns.iter().map(|turn| turn.input).collect::<Vec<_>>(), [150, 270]);
/// ```
#[derive(Clone, Debug)]
pub struct Sessions {
    shape: SessionShape,
    streams: SessionStreams,
    /// The next number of a segment: those below are taken.
    number: u64,
}

impl Sessions {
    /// Conversations of a shape.
    pub fn new(shape: SessionShape, streams: SessionStreams) -> Self {
        let number = shape.prefixes;
        Self { shape, streams, number }
    }

    /// Tokens that no prompt exceeds together with its answer.
    pub fn longest(&self) -> u64 {
        let SessionShape { input, output, turns, prefix, longest_context, .. } = &self.shape;
        let turn = u64::from(input.longest()) + u64::from(output.longest());
        let first = u64::from(*prefix) + turn;
        let last = u64::from(*prefix) + u64::from(turns.longest()) * turn;
        if turns.longest() == 1 { first } else { first.max(last.min(u64::from(*longest_context))) }
    }

    /// The turns of the next conversation, at most `most` of them and at least one.
    pub fn turns(&mut self, most: u64) -> Vec<Turn> {
        let asked = u64::from(self.shape.turns.draw(&mut self.streams.turns)).min(most).max(1);
        let mut history = Vec::new();
        if self.shape.prefix > 0 {
            let number = self.streams.prefixes.random_range(0..self.shape.prefixes.max(1));
            history.push(PromptSegment { number, tokens: self.shape.prefix });
        }
        let (mut said, mut spoken) = (u64::from(self.shape.prefix), 0);
        let mut turns: Vec<Turn> = Vec::new();
        while (turns.len() as u64) < asked {
            let own = self.shape.input.draw(&mut self.streams.input);
            let output = self.shape.output.draw(&mut self.streams.output);
            let input = said + u64::from(own);
            let whole = input + u64::from(output);
            if !turns.is_empty() && whole > u64::from(self.shape.longest_context) {
                break;
            }
            if let Some(before) = turns.last_mut() {
                // What was said last is a prompt's only once there is another prompt, so it is numbered only now.
                let words = PromptSegment { number: self.number, tokens: spoken };
                before.segments.push(words);
                before.answer = Some(self.number + 1);
                history.extend([words, PromptSegment { number: self.number + 1, tokens: before.output }]);
                self.number += 2;
            }
            let input = u32::try_from(input).unwrap_or(u32::MAX);
            turns.push(Turn { input, output, segments: history.clone(), ..Turn::default() });
            (said, spoken) = (whole, own);
        }
        turns
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
