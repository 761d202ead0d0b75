//! A chain of nodes without slack, which the finish depends on.

use super::lower::{Kind, Lowered};
use crate::collective::OWN_PACE;
use crate::flow::Outcome;

/// What of a path is neither computing nor moving bytes.
pub(super) const LATENCY: &str = "latency of communication";

/// A node on the path to the finish.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStep {
    /// The rank; of a collective, the one that the others waited for.
    pub rank: u32,
    /// The place of the node in its rank.
    pub node: u32,
    /// Seconds; a collective begins here when its last rank arrives.
    pub begin: f64,
    /// Seconds.
    pub end: f64,
    /// Seconds of it before bytes move.
    pub latency: f64,
    /// What it was spent on: `computation`, or the name of the resource that held it back longest.
    pub what: String,
    /// The resource, by index.
    pub resource: Option<u32>,
}

pub(super) fn longest(lowered: &Lowered, outcome: &Outcome, spans: &[Vec<(f64, f64)>]) -> Vec<PathStep> {
    let last = (0..outcome.spans.len()).find(|&index| outcome.spans[index].1 == outcome.finish);
    let Some(mut at) = last else { return Vec::new() };
    let mut steps = Vec::new();
    loop {
        let (begin, end) = outcome.spans[at];
        let transfer = &lowered.transfers[at];
        let own = lowered.own.get(&(at as u32));
        // Its own pace is that of what it needs longest.
        let is_own = |resource: &u32| lowered.resources[*resource as usize].name == OWN_PACE;
        let bottleneck = outcome.bottleneck[at];
        let resource =
            if bottleneck.is_some_and(|one| is_own(&one)) { own.and_then(|own| own.tightest) } else { bottleneck };
        let (what, latency) = match (lowered.kinds[at], resource) {
            (Kind::Compute, _) => ("computation".to_owned(), 0.0),
            (Kind::Wait, _) => ("host and storage".to_owned(), 0.0),
            (Kind::Nothing, _) => ("nothing".to_owned(), 0.0),
            (Kind::Memory | Kind::Communication, Some(resource)) => {
                let latency = own.map_or(0.0, |own| own.latency.min(end - begin));
                (lowered.resources[resource as usize].name.clone(), latency)
            }
            (Kind::Memory | Kind::Communication, None) => (LATENCY.to_owned(), 0.0),
        };
        // The rank that arrived last.
        let arrived = |&&(rank, node): &&(u32, u32)| spans[rank as usize][node as usize].0 == begin;
        if let Some(&(rank, node)) = lowered.nodes[at].iter().find(arrived).or(lowered.nodes[at].first()) {
            steps.push(PathStep { rank, node, begin, end, latency, what, resource });
        }
        let mut before = transfer.after.iter().chain(outcome.behind.get(at).into_iter().flatten()).copied();
        match before.find(|&before| outcome.spans[before as usize].1 == begin) {
            Some(before) => at = before as usize,
            None => break,
        }
    }
    steps.reverse();
    steps
}
