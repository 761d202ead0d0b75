//! From nodes to transfers: what each uses, and what it waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::job::{Job, JobExchange, JobWork};
use super::matching::{Collective, Matched, Place};
use crate::collective::{Algorithm, Estimator, Extra, Operation, RankGroup, Schedule, ScheduleDemand};
use crate::error::{Error, Result};
use crate::flow::{FlowTransfer, Outcome, Resource};

/// What a transfer stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nothing,
    Compute,
    Wait,
    Memory,
    Communication,
}

/// Transfers that stand for a job.
pub(super) struct Lowered {
    pub(super) resources: Vec<Resource>,
    pub(super) transfers: Vec<FlowTransfer>,
    pub(super) queues: Vec<Option<u32>>,
    pub(super) kinds: Vec<Kind>,
    /// The nodes of each transfer: one, or one of each rank of a group.
    pub(super) nodes: Vec<Vec<Place>>,
    /// The transfer of each node.
    pub(super) of: Vec<Vec<u32>>,
    /// Bytes by link.
    pub(super) carried: Vec<f64>,
    pub(super) algorithms: BTreeMap<(&'static str, &'static str), u32>,
    /// Of each transfer that communicates.
    pub(super) own: BTreeMap<u32, Own>,
}

/// What a stream does when nothing else slows it down.
#[derive(Clone, Copy)]
pub(super) struct Own {
    /// Seconds in which its steps wait.
    pub(super) latency: f64,
    /// What it needs longest of all that is shared.
    pub(super) tightest: Option<u32>,
}

/// A cost and the size that it is for.
struct Priced {
    profile: Arc<ScheduleDemand>,
    bytes: f64,
    algorithm: Option<Algorithm>,
}

pub(super) fn lowered(estimator: &Estimator, job: &Job, matched: &Matched) -> Result<Lowered> {
    let mut made = Lowered {
        resources: estimator.resources(),
        transfers: Vec::new(),
        queues: Vec::new(),
        kinds: Vec::new(),
        nodes: Vec::new(),
        of: job.ranks.iter().map(|nodes| vec![u32::MAX; nodes.len()]).collect(),
        carried: vec![0.0; estimator.fabric().links().len()],
        algorithms: BTreeMap::new(),
        own: BTreeMap::new(),
    };
    made.local(estimator, job);
    for message in &matched.messages {
        let (from, to) = (message.send.0, message.receive.0);
        let group = group_of(estimator, job, &[from, to])?;
        let extra = Extra { root: 0, pairs: vec![(0, 1)] };
        let found = estimator
            .estimate_with(Operation::Permute, &group, message.bytes, Some(Algorithm::Direct), &extra)
            .map_err(|error| naming(job, message.send, error))?;
        let priced = Priced { profile: found.profile, bytes: message.bytes, algorithm: None };
        let node = &job.ranks[from as usize][message.send.1 as usize];
        made.communicate(estimator, &priced, node.priority, vec![message.send]);
        made.push(FlowTransfer::default(), None, Kind::Communication, vec![message.receive]);
    }
    let mut priced = Prices { estimator, job, known: BTreeMap::new() };
    for collective in &matched.collectives {
        let cost = priced.of(collective).map_err(|error| naming(job, collective.members[0], error))?;
        if let Some(algorithm) = cost.algorithm {
            *made.algorithms.entry((collective.exchange.name(), algorithm.name())).or_default() += 1;
        }
        made.communicate(estimator, &cost, collective.priority, collective.members.clone());
    }
    made.order(job, matched);
    Ok(made)
}

impl Lowered {
    fn push(&mut self, transfer: FlowTransfer, queue: Option<u32>, kind: Kind, nodes: Vec<Place>) {
        for &(rank, at) in &nodes {
            self.of[rank as usize][at as usize] = self.transfers.len() as u32;
        }
        self.transfers.push(transfer);
        self.queues.push(queue);
        self.kinds.push(kind);
        self.nodes.push(nodes);
    }

    fn communicate(&mut self, estimator: &Estimator, priced: &Priced, priority: u8, nodes: Vec<Place>) {
        for &(link, part) in &priced.profile.links {
            self.carried[link as usize] += part * priced.bytes;
        }
        let shared = self.resources.len() as u32;
        let stream = estimator.stream(&priced.profile, priced.bytes, &mut self.resources);
        let seconds = |&(resource, weight): &(u32, f64)| weight / self.resources[resource as usize].rate;
        let all = stream.uses.iter().filter(|(resource, weight)| *resource < shared && *weight > 0.0);
        let tightest = all.reduce(|best, next| if seconds(next) > seconds(best) { next } else { best });
        let own = Own { latency: priced.profile.latency, tightest: tightest.map(|found| found.0) };
        self.own.insert(self.transfers.len() as u32, own);
        self.push(FlowTransfer { priority, ..stream }, None, Kind::Communication, nodes);
    }

    /// What a rank does by itself.
    fn local(&mut self, estimator: &Estimator, job: &Job) {
        let model = estimator.model();
        let links = estimator.fabric().links().len() as u32;
        let chips = estimator.fabric().chips() as u32;
        let mut streams: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for (rank, nodes) in (0u32..).zip(&job.ranks) {
            let mut engines = None;
            for (at, node) in (0u32..).zip(nodes) {
                let place = vec![(rank, at)];
                let pause = |seconds| FlowTransfer { latency: seconds, ..FlowTransfer::default() };
                match node.work {
                    JobWork::Nothing => self.push(FlowTransfer::default(), None, Kind::Nothing, place),
                    JobWork::Wait { seconds } => self.push(pause(seconds), None, Kind::Wait, place),
                    JobWork::Compute { seconds, stream } => {
                        let next = streams.len() as u32;
                        let queue = *streams.entry((rank, stream)).or_insert(next);
                        self.push(pause(seconds), Some(queue), Kind::Compute, place);
                    }
                    JobWork::Memory { bytes } => {
                        let chip = job.places[rank as usize] / job.ranks_per_chip;
                        let own = *engines.get_or_insert_with(|| {
                            let rate = model.engine_rate / f64::from(job.ranks_per_chip);
                            self.resources.push(Resource::new(format!("DMA engines of rank {rank}"), rate));
                            self.resources.len() as u32 - 1
                        });
                        let mut transfer = FlowTransfer::over(bytes, [links + chip, links + chips + chip, own]);
                        transfer.priority = node.priority;
                        self.push(transfer, None, Kind::Memory, place);
                    }
                    JobWork::Send { .. } | JobWork::Receive { .. } | JobWork::Collective { .. } => {}
                }
            }
        }
    }

    /// What each transfer waits for.
    fn order(&mut self, job: &Job, matched: &Matched) {
        for index in 0..self.transfers.len() {
            let mut after: Vec<u32> = Vec::new();
            for &(rank, at) in &self.nodes[index] {
                let before = &job.ranks[rank as usize][at as usize].after;
                after.extend(before.iter().map(|&before| self.of[rank as usize][before as usize]));
            }
            after.sort_unstable();
            after.dedup();
            self.transfers[index].after = after;
        }
        for message in &matched.messages {
            let transfer = |(rank, at): Place| self.of[rank as usize][at as usize];
            let (send, receive) = (transfer(message.send), transfer(message.receive));
            let after = &mut self.transfers[receive as usize].after;
            if !after.contains(&send) {
                after.push(send);
            }
        }
    }

    /// Begin and end of each node.
    pub(super) fn spans(&self, job: &Job, outcome: &Outcome) -> Vec<Vec<(f64, f64)>> {
        let end = |rank: usize, at: u32| outcome.spans[self.of[rank][at as usize] as usize].1;
        let ranks = job.ranks.iter().enumerate();
        ranks
            .map(|(rank, nodes)| {
                let places = nodes.iter().enumerate();
                places
                    .map(|(at, node)| {
                        let span = outcome.spans[self.of[rank][at] as usize];
                        match node.work {
                            JobWork::Receive { .. } | JobWork::Collective { .. } => {
                                (node.after.iter().map(|&before| end(rank, before)).fold(0.0, f64::max), span.1)
                            }
                            _ => span,
                        }
                    })
                    .collect()
            })
            .collect()
    }
}

/// Costs of collectives, each found once.
struct Prices<'a> {
    estimator: &'a Estimator,
    job: &'a Job,
    known: BTreeMap<(JobExchange, u32, u32), Arc<ScheduleDemand>>,
}

impl Prices<'_> {
    fn of(&mut self, collective: &Collective) -> Result<Priced> {
        let Collective { exchange, group: index, bytes, root, .. } = *collective;
        let members = &self.job.groups[index as usize].ranks;
        let group = group_of(self.estimator, self.job, members)?;
        let position = members.iter().position(|rank| *rank == root).unwrap_or(0) as u32;
        let operation = exchange.operation();
        let name = self.job.algorithms.of.get(&operation).unwrap_or(&self.job.algorithms.default);
        let algorithm = Algorithm::parse(operation, name)?;
        if operation == Operation::AllToAllV {
            let profile = self.of_root(exchange, index, &group, position)?;
            return Ok(Priced { profile, bytes, algorithm: Some(Algorithm::Direct) });
        }
        let bytes = match exchange {
            // Traces give a rank's input, estimates the gathered buffer.
            JobExchange::AllGather => bytes * members.len() as f64,
            JobExchange::Barrier => 0.0,
            _ => bytes,
        };
        let extra = Extra { root: if exchange.has_root() { position } else { 0 }, pairs: Vec::new() };
        let found = self.estimator.estimate_with(operation, &group, bytes, algorithm, &extra)?;
        Ok(Priced { profile: found.profile, bytes, algorithm: Some(found.algorithm) })
    }

    /// A gather or scatter: an exchange in which only the root has something to give or to get, for each byte.
    fn of_root(
        &mut self,
        exchange: JobExchange,
        index: u32,
        group: &RankGroup,
        root: u32,
    ) -> Result<Arc<ScheduleDemand>> {
        if let Some(known) = self.known.get(&(exchange, index, root)) {
            return Ok(known.clone());
        }
        let fabric = self.estimator.fabric();
        let count = group.size() as u32;
        let schedule = Schedule::new(fabric, group, Operation::AllToAllV, Algorithm::Direct, &Extra::default())?;
        let size_of = move |piece: u32| {
            let (from, to) = (piece / count, piece % count);
            match exchange {
                JobExchange::Gather if to == root => 1.0,
                JobExchange::Scatter if from == root => 1.0 / f64::from(count),
                _ => 0.0,
            }
        };
        let profile = Arc::new(self.estimator.profile_of(group, &schedule, &size_of)?);
        self.known.insert((exchange, index, root), profile.clone());
        Ok(profile)
    }
}

fn group_of(estimator: &Estimator, job: &Job, ranks: &[u32]) -> Result<RankGroup> {
    let places = ranks.iter().map(|rank| job.places[*rank as usize]).collect();
    RankGroup::new(places, job.ranks_per_chip, estimator.fabric().chips())
}

fn naming(job: &Job, (rank, at): Place, error: Error) -> Error {
    let node = &job.ranks[rank as usize][at as usize];
    match error {
        Error::Unreachable(text) => Error::Unreachable(format!("rank {rank}, {node}: {text}")),
        other => Error::Value(format!("rank {rank}, {node}: {other}")),
    }
}
