//! What a collective of one or more groups costs by the best algorithm, and everything that a result says of it.

use serde::Serialize;

use super::across::UnitNetwork;
use super::band::CollectiveBand;
use super::build::Extra;
use super::estimate::{CollectiveEstimate, Estimator};
use super::group::RankGroup;
use super::name::{Algorithm, Operation};
use super::schedule::Schedule;
use super::time::{CollectiveTiming, RunningCollective, overlap};
use crate::error::{Error, Result};

/// A collective that groups of one size run at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveTask {
    /// What is done.
    pub operation: Operation,
    /// How; `None`: the fastest way.
    pub algorithm: Option<Algorithm>,
    /// Who, one group or more, as [`RankGroup::several`] makes them.
    pub groups: Vec<RankGroup>,
    /// A root, or pairs.
    pub extra: Extra,
}

/// What a collective costs and how it is done. Seconds and bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectiveCost {
    /// What is done.
    pub operation: &'static str,
    /// Family of its schedule.
    pub algorithm: &'static str,
    /// Which of the family.
    pub variant: &'static str,
    /// The algorithm that is one schedule, as [`Algorithm`] names it.
    pub form: &'static str,
    /// Size of the operation.
    pub bytes: f64,
    /// Steps.
    pub steps: u32,
    /// When the last group is done.
    pub time: f64,
    /// By the closed form, of the slowest group alone.
    pub estimate: f64,
    /// What of it passes before its first step: the call's start, and the host's where that launches it.
    pub start: f64,
    /// What of it steps wait.
    pub latency: f64,
    /// What binds, in words.
    pub binding: String,
    /// Bytes read and written in memories for each byte of a chunk.
    pub hbm_touches: f64,
    /// Bytes read and written in memories, in all.
    pub hbm_bytes: f64,
    /// Bytes from chip to chip, in all.
    pub remote_bytes: f64,
    /// Links that carry something, by name.
    pub bytes_by_link: Vec<(String, f64)>,
    /// Channels of the schedule.
    pub channels: u32,
    /// Order of additions, in words.
    pub order: &'static str,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
    /// Between which times it is expected.
    #[serde(flatten)]
    pub expected: CollectiveBand,
}

/// One of several collectives that overlap. Seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlapped {
    /// How it is done.
    pub algorithm: Algorithm,
    /// How long it takes alone.
    pub alone: f64,
    /// When its first group begins.
    pub begin: f64,
    /// When its last group ends.
    pub end: f64,
}

impl CollectiveCost {
    /// The same as a call of its own, which the host starts in so many seconds.
    #[must_use]
    pub fn launched(mut self, host_start: f64) -> Self {
        self.time += host_start;
        self.estimate += host_start;
        self.start += host_start;
        self.expected.move_to(self.time);
        self
    }
}

impl Estimator {
    /// What each group takes alone.
    fn each(&self, task: &CollectiveTask, bytes: f64) -> Result<Vec<CollectiveEstimate>> {
        let one = |group| self.estimate_with(task.operation, group, bytes, task.algorithm, &task.extra);
        let found = task.groups.iter().map(one).collect::<Result<Vec<_>>>()?;
        if found.is_empty() { Err(Error::Value("group has no lists".to_owned())) } else { Ok(found) }
    }

    /// The estimate of the group that takes longest alone.
    ///
    /// # Errors
    /// As [`Estimator::estimate`]; [`Error::Value`] for no group.
    pub fn slowest(&self, task: &CollectiveTask, bytes: f64) -> Result<CollectiveEstimate> {
        let found = self.each(task, bytes)?.into_iter();
        found
            .reduce(|slowest, next| if next.time > slowest.time { next } else { slowest })
            .ok_or_else(|| Error::Value("group has no lists".to_owned()))
    }

    /// The cost of a task of `bytes` bytes, each group by its fastest algorithm: of one group by its closed form or, if
    /// `is_simulated`, from the flows of its steps; of several groups from streams that share links and memories.
    ///
    /// # Errors
    /// As [`Estimator::slowest`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use trn3_system::collective::{CollectiveTask, Estimator, Extra, RankGroup, Operation};
    /// use trn3_system::fabric::{Fabric, LinkProfile};
    ///
    /// let fabric = Arc::new(Fabric::built_in("trn2_instance", LinkProfile::Docs)?);
    /// let groups = RankGroup::several(vec![(0..32).collect(), (32..64).collect()], 4, fabric.chips())?;
    /// let task = CollectiveTask { operation: Operation::AllReduce, algorithm: None, groups, extra: Extra::default() };
    /// let cost = Estimator::new(fabric)?.cost(&task, 1e6, true)?;
    /// assert!(cost.time >= cost.estimate && cost.steps > 0 && !cost.bytes_by_link.is_empty());
    /// # Ok::<(), trn3_system::Error>(())
    /// ```
    pub fn cost(&self, task: &CollectiveTask, bytes: f64, is_simulated: bool) -> Result<CollectiveCost> {
        let (found, slowest) = (self.each(task, bytes)?, self.slowest(task, bytes)?);
        let schedule = Schedule::new(self.fabric(), &task.groups[0], task.operation, slowest.algorithm, &task.extra)?;
        let mut assumptions = self.model().assumptions.clone();
        let (mut time, mut binding) = (slowest.time, slowest.binding.clone());
        match &task.groups[..] {
            [group] if is_simulated => {
                let timing = self.simulate(group, &schedule, bytes)?;
                (time, binding) = (timing.time, timing.binding);
                assumptions.push(format!("timed by: {}", timing.path));
            }
            [_] => assumptions.push("timed by: closed form, busiest link of every kind of step".to_owned()),
            _ => {
                let running = |one| RunningCollective { profile: one, bytes, priority: 0, start: 0.0 };
                let running: Vec<RunningCollective<'_>> = found.iter().map(|one| running(&*one.profile)).collect();
                time = overlap(self, &running)?.iter().fold(0.0, |last, span| f64::max(last, span.1));
                assumptions.push("timed by: one stream for each group, which share links and memories".to_owned());
                if time > slowest.time * (1.0 + 1e-9) {
                    assumptions.push("the groups share resources and slow each other down".to_owned());
                }
            }
        }
        assumptions.push(format!("order of additions: {}", schedule.order));
        let (algorithm, variant) = slowest.algorithm.family();
        Ok(CollectiveCost {
            operation: task.operation.name(),
            algorithm,
            variant,
            form: slowest.algorithm.name(),
            bytes,
            steps: slowest.steps,
            time,
            estimate: slowest.time,
            start: slowest.profile.start,
            latency: slowest.profile.latency,
            binding,
            hbm_touches: slowest.profile.accesses_per_chunk,
            hbm_bytes: found.iter().fold(0.0, |sum, one| sum + one.profile.accesses * bytes),
            remote_bytes: found.iter().fold(0.0, |sum, one| sum + one.profile.remote * bytes),
            bytes_by_link: self.used(&found, bytes, ""),
            channels: schedule.channels,
            order: schedule.order,
            assumptions,
            expected: self.band(&task.groups, time)?,
        })
    }

    /// The cost of a task over the same (its first) group in each of many systems on a network.
    ///
    /// # Errors
    /// As [`Estimator::across`].
    pub fn cost_across(&self, task: &CollectiveTask, bytes: f64, network: UnitNetwork) -> Result<CollectiveCost> {
        let Some(group) = task.groups.first() else { return Err(Error::Value("group has no lists".to_owned())) };
        let (found, systems) = (self.across(task.operation, group, bytes, network)?, network.systems as f64);
        let inside = if task.operation == Operation::AllToAll { bytes / systems } else { bytes };
        let (mut accesses, mut remote, mut touches) = (0.0, 0.0, 0.0);
        for one in &found.inner {
            accesses += one.profile.accesses * inside * systems;
            remote += one.profile.remote * inside * systems;
            touches += one.profile.accesses_per_chunk;
        }
        let chips = group.chips().len() as f64 * systems;
        let mut used = self.used(&found.inner, inside, " of each system");
        used.push(("network of each chip".to_owned(), found.network_bytes));
        Ok(CollectiveCost {
            operation: task.operation.name(),
            algorithm: Algorithm::Hierarchical.name(),
            variant: "roles",
            form: Algorithm::Hierarchical.name(),
            bytes,
            steps: found.steps,
            time: found.time,
            estimate: found.time,
            start: self.model().starts.program,
            latency: found.latency,
            binding: found.binding,
            hbm_touches: touches,
            hbm_bytes: accesses,
            remote_bytes: remote + found.network_bytes * chips,
            bytes_by_link: used,
            channels: 1,
            order: "level by level, the network last",
            assumptions: found.assumptions,
            expected: CollectiveBand::of(self.fabric().chip().unwrap_or_default(), true, found.time)?,
        })
    }

    /// The cost of a task of one group whose pieces have any sizes: a chunk's bytes of all_gather_v, by position; those
    /// from each to each of all_to_all_v. The fastest of its algorithms.
    ///
    /// # Errors
    /// [`Error::Value`] for several groups; otherwise as [`Estimator::simulate`].
    pub fn cost_sized(&self, task: &CollectiveTask, sizes: &[f64]) -> Result<CollectiveCost> {
        let [group] = &task.groups[..] else {
            return Err(Error::Value("group has several lists; one is allowed where lengths differ".to_owned()));
        };
        let is_pairs = task.operation == Operation::AllToAllV;
        let mut best: Option<(Algorithm, CollectiveTiming)> = None;
        for &form in task.algorithm.map_or(Algorithm::of(task.operation), Algorithm::forms) {
            let schedule = Schedule::new(self.fabric(), group, task.operation, form, &task.extra)?;
            let size_of = |piece: u32| {
                let (chunk, parts) = if is_pairs { (piece, 1) } else { (piece / schedule.channels, schedule.channels) };
                sizes.get(chunk as usize).copied().unwrap_or(0.0) / f64::from(parts)
            };
            let timing = self.simulate_sized(group, &schedule, 1.0, Some(&size_of))?;
            if best.as_ref().is_none_or(|(_, found)| timing.time < found.time) {
                best = Some((form, timing));
            }
        }
        let Some((form, timing)) = best else {
            return Err(Error::Value(format!("{} has no algorithm", task.operation)));
        };
        let profile = &timing.profile;
        let mut assumptions = self.model().assumptions.clone();
        assumptions.push(format!("timed by: {}", timing.path));
        let (algorithm, variant) = form.family();
        Ok(CollectiveCost {
            operation: task.operation.name(),
            algorithm,
            variant,
            form: form.name(),
            bytes: sizes.iter().sum(),
            steps: profile.steps,
            time: timing.time,
            estimate: profile.time(1.0),
            start: profile.start,
            latency: profile.latency,
            binding: timing.binding,
            hbm_touches: profile.accesses_per_chunk,
            hbm_bytes: profile.accesses,
            remote_bytes: profile.remote,
            bytes_by_link: profile
                .links
                .iter()
                .map(|&(link, carried)| (self.fabric().link_name(link), carried))
                .collect(),
            channels: 1,
            order: "no arithmetic",
            assumptions,
            expected: self.band(&task.groups, timing.time)?,
        })
    }

    /// Tasks that overlap: bytes, class and earliest begin of each. Every group is a stream of its own.
    ///
    /// # Errors
    /// As [`Estimator::slowest`] and [`overlap`].
    pub fn overlapping(&self, tasks: &[(CollectiveTask, f64, u8, f64)]) -> Result<Vec<Overlapped>> {
        let (mut streams, mut counts) = (Vec::new(), Vec::new());
        for (task, bytes, priority, start) in tasks {
            let found = self.each(task, *bytes)?;
            counts.push(found.len());
            streams.extend(found.into_iter().map(|one| (one, *bytes, *priority, *start)));
        }
        let running: Vec<RunningCollective<'_>> = streams
            .iter()
            .map(|(one, bytes, priority, start)| RunningCollective {
                profile: &one.profile,
                bytes: *bytes,
                priority: *priority,
                start: *start,
            })
            .collect();
        let spans = overlap(self, &running)?;
        let mut all = streams.iter().zip(spans);
        let mut found = Vec::with_capacity(tasks.len());
        for count in counts {
            let mut groups = all.by_ref().take(count);
            let Some(((one, ..), (begin, end))) = groups.next() else { break };
            let first = Overlapped { algorithm: one.algorithm, alone: one.time, begin, end };
            found.push(groups.fold(first, |all, ((one, ..), (begin, end))| Overlapped {
                alone: all.alone.max(one.time),
                begin: all.begin.min(begin),
                end: all.end.max(end),
                ..all
            }));
        }
        Ok(found)
    }

    /// What links carry for all of some estimates, by name.
    fn used(&self, found: &[CollectiveEstimate], bytes: f64, of: &str) -> Vec<(String, f64)> {
        let mut carried = vec![0.0; self.fabric().links().len()];
        for one in found {
            one.profile.links.iter().for_each(|&(link, part)| carried[link as usize] += part * bytes);
        }
        let used = (0u32..).zip(carried).filter(|(_, carried)| *carried > 0.0);
        used.map(|(link, carried)| (format!("{}{of}", self.fabric().link_name(link)), carried)).collect()
    }
}
