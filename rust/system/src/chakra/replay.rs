//! The traces of all ranks of a job, run on a system.

use std::collections::{BTreeMap, BTreeSet};

use super::lower::Lowering;
use super::options::{ChakraOptions, ComputeTime, MemoryTime};
use super::trace::{ChakraNodeType, ChakraTrace};
use crate::collective::Estimator;
use crate::error::{Error, Result};
use crate::replay::{Job, Replay, replay};

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChakraReplay {
    /// Times and shares; nodes are numbered by their places in the traces.
    pub replay: Replay,
    /// The system's rank that each rank ran on.
    pub places: Vec<u32>,
    /// Choices and unpublished figures that it rests on.
    pub assumptions: Vec<String>,
}

/// Runs the traces of all ranks of a job on a system; how, `docs/how-to/interchange.md` says.
///
/// # Errors
/// [`Error::Trace`] if a trace is wrong, lacks an attribute, ranks disagree about a message or collective, wait for each
/// other, or lie outside the system; the text names rank, node and attribute. [`Error::Value`] if the placement is wrong,
/// [`Error::Unreachable`] if no way leads from rank to rank.
///
/// ```
/// use std::sync::Arc;
/// use trn3_system::chakra::{ChakraNode, ChakraOptions, ChakraTrace, replay_traces};
/// use trn3_system::collective::Estimator;
/// use trn3_system::fabric::{Fabric, LinkProfile};
///
/// let fabric = Arc::new(Fabric::built_in("trn3_gen2", LinkProfile::Docs)?);
/// let node = |id, ctrl_deps| ChakraNode { id, kind: 4, duration_micros: 5, ctrl_deps, ..ChakraNode::default() };
/// let trace = ChakraTrace { nodes: vec![node(7, vec![3]), node(3, vec![])], ..ChakraTrace::default() };
/// let done = replay_traces(&Estimator::new(fabric)?, &[trace], &ChakraOptions::new(4))?;
/// assert!((done.replay.finish - 10e-6).abs() < 1e-18);
/// assert_eq!(done.replay.spans[0][0].0, done.replay.spans[0][1].1);
/// # Ok::<(), trn3_system::Error>(())
/// ```
pub fn replay_traces(estimator: &Estimator, traces: &[ChakraTrace], options: &ChakraOptions) -> Result<ChakraReplay> {
    let places = places(estimator, traces.len(), options)?;
    let mut lowering = Lowering::new(options, traces.len() as u32);
    let ranks = (0u32..).zip(traces).map(|(rank, trace)| lowering.rank(rank, trace));
    let mut ranks = ranks.collect::<Result<Vec<_>>>()?;
    let kinds = lowering.kinds.clone();
    let groups = lowering.finish(&mut ranks);
    let order: Vec<Vec<u32>> = ranks.iter_mut().map(|rank| std::mem::take(&mut rank.places)).collect();
    let job = Job {
        ranks: ranks.into_iter().map(|rank| rank.nodes).collect(),
        places: places.clone(),
        ranks_per_chip: options.ranks_per_chip,
        groups,
        algorithms: options.algorithms.clone(),
    };
    let mut replay = replay(estimator, &job).map_err(|error| match error {
        Error::Unreachable(text) => Error::Unreachable(text),
        other => Error::Trace(other.to_string()),
    })?;
    for (spans, order) in replay.spans.iter_mut().zip(&order) {
        let ordered = std::mem::replace(spans, vec![(0.0, 0.0); order.len()]);
        ordered.into_iter().zip(order).for_each(|(span, &place)| spans[place as usize] = span);
    }
    for step in &mut replay.path {
        step.node = order[step.rank as usize][step.node as usize];
    }
    let mut assumptions = said(options, &kinds);
    assumptions.extend_from_slice(estimator.fabric().assumptions());
    if kinds.iter().any(|kind| kind.communicates()) {
        let more = estimator.model().assumptions.iter().filter(|text| !assumptions.contains(text)).cloned();
        let more: Vec<String> = more.collect();
        assumptions.extend(more);
    }
    Ok(ChakraReplay { replay, places, assumptions })
}

/// The system's rank of each rank.
fn places(estimator: &Estimator, count: usize, options: &ChakraOptions) -> Result<Vec<u32>> {
    let (name, chips) = (estimator.fabric().name(), estimator.fabric().chips());
    let there = chips as u64 * u64::from(options.ranks_per_chip);
    let Some(given) = &options.placement else {
        if count as u64 > there {
            return Err(Error::Trace(format!(
                "the job has {count} ranks; {name} has {there}, {chips} chips of {}; rank {there} is the first outside",
                options.ranks_per_chip
            )));
        }
        return Ok((0..count as u32).collect());
    };
    if given.len() != count {
        return Err(Error::Value(format!("placement has {} entries; the job has {count} ranks", given.len())));
    }
    let mut seen: BTreeMap<i64, usize> = BTreeMap::new();
    for (rank, &place) in given.iter().enumerate() {
        if u64::try_from(place).map_or(true, |place| place >= there) {
            return Err(Error::Value(format!(
                "placement puts rank {rank} on {place}; {name} has 0 to {}",
                there.saturating_sub(1)
            )));
        }
        if let Some(first) = seen.insert(place, rank) {
            return Err(Error::Value(format!("placement puts ranks {first} and {rank} both on {place}")));
        }
    }
    Ok(given.iter().map(|place| *place as u32).collect())
}

/// What was chosen, as far as the traces touch it.
fn said(options: &ChakraOptions, kinds: &BTreeSet<ChakraNodeType>) -> Vec<String> {
    let has = |wanted: &[ChakraNodeType]| wanted.iter().any(|kind| kinds.contains(kind));
    let mut said: Vec<String> = Vec::new();
    if has(&[ChakraNodeType::Compute]) {
        said.push(match &options.compute {
            ComputeTime::Duration => "computation takes its measured duration".to_owned(),
            ComputeTime::Roofline(peaks) => {
                format!("computation takes the roofline's time at the {} peak, without overheads", peaks.dtype)
            }
        });
        said.push(match &options.streams {
            None => "a rank computes one node at a time, what was ready first (choice)".to_owned(),
            Some(name) => {
                format!("a rank computes one node at a time for each value of {}", super::value::quoted(name))
            }
        });
    }
    if has(&[ChakraNodeType::MemoryLoad, ChakraNodeType::MemoryStore]) {
        said.push(match options.memory {
            MemoryTime::Bytes => {
                "memory nodes move bytes through their rank's DMA engines, without setup (choice)".to_owned()
            }
            MemoryTime::Duration => "memory nodes take their measured duration, beside everything else".to_owned(),
        });
    }
    if has(&[ChakraNodeType::Send, ChakraNodeType::Receive]) {
        said.push("a message begins when it is sent, whether or not it is awaited (choice)".to_owned());
    }
    if has(&[ChakraNodeType::Collective]) {
        said.extend(
            [
                "comm_size is one rank's input in bytes, of a scatter the root's (choice)",
                "a collective begins when its last rank arrives; any number run at once (choice)",
                "a collective is one stream through its schedule's links, at most as fast as alone (choice)",
            ]
            .map(str::to_owned),
        );
    }
    if kinds.iter().any(|kind| kind.is_newer()) {
        said.push("storage, batch and checkpoint nodes take their measured duration (choice)".to_owned());
    }
    said
}
