//! A request inside of a service, from its arrival to its last token.

use std::ops::{Index, IndexMut};

use super::conversation::Turn;

/// A request that is served.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    /// What was asked.
    pub(super) turn: Turn,
    /// Its number in order of arrival.
    pub(super) number: u64,
    /// Of which model.
    pub(super) model: usize,
    /// The conversation that it is a turn of.
    pub(super) conversation: usize,
    /// When it was sent.
    pub(super) sent: f64,
    /// When its first token was there.
    pub(super) first: f64,
    /// When the last one was.
    pub(super) last: f64,
    /// Tokens that were made.
    pub(super) made: u32,
    /// Tokens whose keys and values are kept.
    pub(super) kept: u32,
    /// Tokens to read before it decodes: its prompt, and after a loss of its blocks what it had made.
    pub(super) goal: u32,
    /// When the host is done with it.
    pub(super) ready: f64,
    /// Whether a replica has begun with it before.
    pub(super) begun: bool,
    /// Whether its client has left.
    pub(super) left: bool,
    /// Blocks of its own.
    pub(super) own: u64,
    /// Contents of the blocks that it shares, from its first token on.
    pub(super) shared: Vec<u64>,
}

impl Job {
    /// Tokens that are still to be read.
    pub(super) fn unread(&self) -> u32 {
        self.goal - self.kept
    }

    /// Whether everything is kept that decoding needs.
    pub(super) fn decodes(&self) -> bool {
        self.made > 0 && self.kept >= self.goal
    }
}

/// Requests by the place that they keep while they are served.
#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    all: Vec<Job>,
    free: Vec<u32>,
}

impl Jobs {
    /// Adds a request and returns its place.
    pub(super) fn add(&mut self, job: Job) -> u32 {
        if let Some(place) = self.free.pop() {
            self[place] = job;
            return place;
        }
        self.all.push(job);
        (self.all.len() - 1) as u32
    }

    /// Takes a request away.
    pub(super) fn remove(&mut self, place: u32) -> Job {
        self.free.push(place);
        std::mem::take(&mut self[place])
    }
}

impl Index<u32> for Jobs {
    type Output = Job;

    fn index(&self, place: u32) -> &Job {
        &self.all[place as usize]
    }
}

impl IndexMut<u32> for Jobs {
    fn index_mut(&mut self, place: u32) -> &mut Job {
        &mut self.all[place as usize]
    }
}
