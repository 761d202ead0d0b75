//! Replay: the graphs of work of all ranks of a job, run on a system as one simulation.
//!
//! - Computation takes given seconds; a rank's streams run one node at a time each, whichever is ready first.
//! - Memory traffic, messages and collectives share links, memories and DMA engines by max-min fairness within strict
//!   classes ([`crate::flow`]). A collective is the stream of bytes of its schedule ([`ScheduleDemand`]), which begins when
//!   its last rank arrives.
//! - Messages are matched by sender, receiver and tag, collectives by process group, both in the order of the ranks'
//!   nodes.
//!
//! [`ScheduleDemand`]: crate::collective::ScheduleDemand
//!
//! ```
//! use std::sync::Arc;
//! use trn3_system::collective::Estimator;
//! use trn3_system::fabric::{Fabric, LinkProfile};
//! use trn3_system::replay::{Job, JobNode, JobWork, replay};
//!
//! let fabric = Arc::new(Fabric::built_in("trn3_gen2", LinkProfile::Docs)?);
//! let node = |id, after, seconds| JobNode {
//!     id, name: "matmul".to_owned(), after, work: JobWork::Compute { seconds, stream: 0 }, priority: 0
//! };
//! let job = Job { ranks: vec![vec![node(0, vec![], 2e-6), node(1, vec![0], 3e-6)]], ..Job::new(vec![0], 4) };
//! let done = replay(&Estimator::new(fabric)?, &job)?;
//! assert_eq!(done.spans[0][0], (0.0, 2e-6));
//! assert!((done.spans[0][1].1 - 5e-6).abs() < 1e-18);
//! assert_eq!(done.path[0].what, "computation");
//! # Ok::<(), trn3_system::Error>(())
//! ```

mod critical;
mod describe;
mod exposure;
mod job;
mod lower;
mod matching;
#[cfg(test)]
mod tests;

pub use critical::PathStep;
pub use job::{Algorithms, Job, JobExchange, JobNode, JobWork, ProcessGroup};

use std::collections::BTreeMap;

use crate::collective::Estimator;
use crate::error::Result;
use crate::flow;

/// What came of a replay. Lists are by rank, and within by node, in the order of the job.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// Begin and end of each node, in seconds. Computation begins when its stream takes it up; a receive or a collective
    /// when its rank arrives there, so waiting for others lies between the two.
    pub spans: Vec<Vec<(f64, f64)>>,
    /// When the last node of the job ends.
    pub finish: f64,
    /// Seconds in which each rank computes.
    pub computing: Vec<f64>,
    /// Seconds in which each rank communicates, or waits for others to.
    pub communicating: Vec<f64>,
    /// Seconds of those in which it computes nothing.
    pub exposed: Vec<f64>,
    /// Bytes that each link of the fabric carried, in its order.
    pub carried: Vec<f64>,
    /// A chain of nodes without slack from the begin to the finish, in order of time.
    pub path: Vec<PathStep>,
    /// Seconds of that chain by what they were spent on, the most first.
    pub by_resource: Vec<(String, f64)>,
    /// The link that bound that chain longest, by name.
    pub binding_link: Option<String>,
    /// Which algorithm collectives took: operation, algorithm, how many.
    pub algorithms: Vec<(&'static str, &'static str, u32)>,
}

/// Runs a job on a system.
///
/// # Errors
/// [`Error::Value`](crate::Error::Value) if a rank lies outside the system or twice in it; a message has no counterpart; the
/// ranks of a group disagree about a collective; nodes wait for each other across ranks; or a number is out of range. The
/// text names ranks and nodes. [`Error::Unreachable`](crate::Error::Unreachable) if no way leads from chip to chip.
pub fn replay(estimator: &Estimator, job: &Job) -> Result<Replay> {
    job.check(estimator.fabric().chips())?;
    let matched = matching::matched(job)?;
    let lowered = lower::lowered(estimator, job, &matched)?;
    describe::refuse_cycles(job, &lowered)?;
    let outcome = flow::run_queued(&lowered.resources, &lowered.transfers, &lowered.queues)?;
    let spans = lowered.spans(job, &outcome);
    let (computing, communicating, exposed) = exposure::of(job, &spans);
    let links = estimator.fabric().links().len();
    let path = critical::longest(&lowered, &outcome, &spans);
    let mut seconds: BTreeMap<&str, f64> = BTreeMap::new();
    for step in &path {
        *seconds.entry(&step.what).or_default() += step.end - step.begin - step.latency;
        if step.latency > 0.0 {
            *seconds.entry(critical::LATENCY).or_default() += step.latency;
        }
    }
    let mut by_resource: Vec<(String, f64)> = seconds
        .into_iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|(what, seconds)| (what.to_owned(), seconds))
        .collect();
    by_resource.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut by_link: BTreeMap<u32, f64> = BTreeMap::new();
    for step in &path {
        if let Some(link) = step.resource.filter(|resource| (*resource as usize) < links) {
            *by_link.entry(link).or_default() += step.end - step.begin - step.latency;
        }
    }
    let longest = by_link.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    let binding_link = longest.map(|(link, _)| lowered.resources[link as usize].name.clone());
    Ok(Replay {
        finish: outcome.finish,
        computing,
        communicating,
        exposed,
        carried: lowered.carried,
        path,
        by_resource,
        binding_link,
        algorithms: lowered.algorithms.into_iter().map(|((of, by), count)| (of, by, count)).collect(),
        spans,
    })
}
