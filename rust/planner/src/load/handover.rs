//! Keys and values on their way from a replica that read a prompt to one that generates.

use crate::communication::{Communication, Group, StepCollective};
use crate::{Layout, Planner};

/// What a replica's keys and values cross.
#[derive(Clone, Debug)]
pub(super) struct HandoverLinks {
    /// Seconds of a transfer of no bytes.
    latency: f64,
    /// Bytes a second of all ranks of a replica together.
    rate: f64,
    /// When the links out of each replica are free.
    out: Vec<f64>,
    /// And those into each.
    into: Vec<f64>,
}

impl HandoverLinks {
    /// The links between replicas of a layout that lie side by side, each rank sending to its like.
    pub(super) fn new(planner: &Planner<'_>, layout: &Layout) -> Self {
        const PROBE: f64 = (1_u64 << 30) as f64;
        let group = Group { ranks: 2, stride: layout.split.ranks() };
        let communication: &dyn Communication = planner.communication();
        let seconds = |bytes: f64| communication.cost(StepCollective::Send, group, bytes).seconds;
        let latency = seconds(1.0);
        let rate = PROBE / (seconds(PROBE) - latency).max(f64::MIN_POSITIVE);
        Self { latency, rate: rate * layout.split.ranks() as f64, out: Vec::new(), into: Vec::new() }
    }

    /// Begins a transfer as soon as the links of both ends are free, and says when it ends.
    pub(super) fn send(&mut self, from: usize, to: usize, bytes: f64, now: f64) -> f64 {
        let both = from.max(to) + 1;
        self.out.resize(self.out.len().max(both), 0.0);
        self.into.resize(self.into.len().max(both), 0.0);
        let begins = now.max(self.out[from]).max(self.into[to]);
        let ends = begins + self.latency + bytes / self.rate;
        (self.out[from], self.into[to]) = (ends, ends);
        ends
    }
}
