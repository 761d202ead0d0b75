//! What a schedule asks of links, memories and DMA engines, for each byte of its size: counted once, then only scaled.

use std::collections::HashMap;
use std::sync::Mutex;

use trn3_numerics::check_interrupt;

use super::group::RankGroup;
use super::model::CollectiveModel;
use super::name::{Algorithm, Operation};
use super::schedule::{Action, ActionKind, Schedule};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, FabricLevel};

/// What lies between two chips.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Way {
    /// Links and the part of the bytes that each carries.
    pub(super) shares: Vec<(u32, f64)>,
    /// Seconds that a step waits for it.
    pub(super) latency: f64,
    /// The same in a ring.
    pub(super) ring_step: f64,
}

/// Ways that were asked for before; never iterated.
#[derive(Debug, Default)]
pub(super) struct Ways(Mutex<HashMap<(u32, u32), std::sync::Arc<Way>>>);

impl Ways {
    pub(super) fn between(&self, fabric: &Fabric, from: u32, to: u32) -> Result<std::sync::Arc<Way>> {
        let poisoned = |_| Error::Value("an earlier estimate of this system failed while it was made".to_owned());
        if let Some(known) = self.0.lock().map_err(poisoned)?.get(&(from, to)) {
            return Ok(known.clone());
        }
        let shares = fabric.link_shares(from as usize, to as usize)?;
        let mut levels: Vec<u32> = shares.iter().map(|&(link, _)| fabric.links()[link as usize].level).collect();
        levels.sort_unstable();
        levels.dedup();
        let sum = |of: fn(&FabricLevel) -> f64| levels.iter().map(|&level| of(&fabric.levels()[level as usize])).sum();
        let way = Way { shares, latency: sum(|level| level.latency), ring_step: sum(|level| level.ring_step) };
        let way = std::sync::Arc::new(way);
        self.0.lock().map_err(poisoned)?.insert((from, to), way.clone());
        Ok(way)
    }
}

/// Bytes from chip to chip in one step, for each byte of the size.
pub(super) type Traffic = Vec<((u32, u32), f64)>;

/// What binds the bytes of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Nothing moves.
    Nothing,
    /// The links of a level, by its index in the fabric.
    Links(u32),
    /// The memory of a chip.
    Memory,
    /// The DMA engines of a chip.
    Engines,
    /// The channels over which a rank sends.
    Channels,
}

/// What a schedule costs. Quantities "a byte" are for each byte of the operation's size.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleDemand {
    /// Steps.
    pub steps: u32,
    /// Seconds until a call in a program begins.
    pub start: f64,
    /// Seconds that steps wait, in all.
    pub latency: f64,
    /// Seconds a byte that the wires need, step after step.
    pub wire: f64,
    /// Seconds a byte that the busiest memory needs.
    pub memory: f64,
    /// Seconds a byte that the busiest chip's DMA engines need.
    pub engines: f64,
    /// Seconds a byte that the channels of the busiest rank need.
    pub channels: f64,
    /// Bytes a byte that each link carries, ascending; links that carry none are left out.
    pub links: Vec<(u32, f64)>,
    /// Bytes a byte that cross wires, from chip to chip, each once whatever the number of links on its way.
    pub remote: f64,
    /// Bytes a byte that memories are read and written for, in all.
    pub accesses: f64,
    /// Accesses for each chunk and two ranks: what a step of a ring of single ranks or of pairs costs.
    pub accesses_per_chunk: f64,
    /// Memory accesses and bytes moved by the engines of each chip, a byte.
    pub chips: Vec<(u32, f64, f64)>,
    /// Part of the links' rates that it gets.
    pub efficiency: f64,
    /// What binds the bytes.
    pub binding: Binding,
}

impl ScheduleDemand {
    /// Counts a schedule. `size_of` is what each piece is of the size; `None`: all are equal.
    pub(super) fn count(
        fabric: &Fabric,
        model: &CollectiveModel,
        ways: &Ways,
        group: &RankGroup,
        schedule: &Schedule,
        size_of: Option<&dyn Fn(u32) -> f64>,
    ) -> Result<Self> {
        let efficiency = model.share_of_links(schedule.operation, schedule.algorithm);
        let mut carried = vec![0.0; fabric.links().len()];
        let mut in_step = vec![0.0; fabric.links().len()];
        let mut chips = vec![(0.0, 0.0); fabric.chips()];
        let mut sent_by = vec![0.0; group.size()];
        let mut made = Self {
            steps: 0,
            start: 0.0,
            latency: 0.0,
            wire: 0.0,
            memory: 0.0,
            engines: 0.0,
            channels: 0.0,
            links: Vec::new(),
            remote: 0.0,
            accesses: 0.0,
            accesses_per_chunk: 0.0,
            chips: Vec::new(),
            efficiency,
            binding: Binding::Nothing,
        };
        // Of the level whose links bind, by the seconds they bind for.
        let mut level_seconds = vec![0.0; fabric.levels().len()];
        let (mut passed, mut deliveries) = (0.0, 0.0);
        for_each_class(group, schedule, size_of, |times, actions, traffic| {
            let times = f64::from(times);
            made.steps += times as u32;
            for one in actions {
                let bytes = one.bytes * times;
                let (reads, writes) = one.accesses();
                let received = if one.kind == ActionKind::Reduce { 2.0 } else { writes };
                let sent = reads + writes - received;
                chips[group.chip(one.from) as usize].0 += sent * bytes;
                chips[group.chip(one.to) as usize].0 += received * bytes;
                chips[group.chip(one.from) as usize].1 += reads.max(writes) * bytes;
                sent_by[one.from as usize] += bytes;
                made.accesses += (reads + writes) * bytes;
                if !one.is_own {
                    passed += (reads + writes) * bytes;
                    deliveries += if one.is_pair { 2.0 } else { 1.0 } * bytes;
                }
            }
            let mut latency = if actions.is_empty() { 0.0 } else { model.step_latency };
            let mut touched = Vec::new();
            let mut is_first = true;
            for &((from, to), bytes) in traffic {
                let way = ways.between(fabric, from, to)?;
                let wait = if schedule.algorithm == Algorithm::Ring { way.ring_step } else { way.latency };
                latency = if is_first { wait } else { latency.max(wait) };
                is_first = false;
                made.remote += bytes * times;
                for &(link, share) in &way.shares {
                    if in_step[link as usize] == 0.0 {
                        touched.push(link);
                    }
                    in_step[link as usize] += bytes * share;
                }
            }
            made.latency += latency * times;
            let (mut slowest, mut seconds) = (None, 0.0);
            touched.sort_unstable();
            touched.dedup();
            for link in touched {
                let described = &fabric.links()[link as usize];
                let load = std::mem::take(&mut in_step[link as usize]);
                carried[link as usize] += load * times;
                let needed =
                    load / (described.rate * efficiency * fabric.levels()[described.level as usize].efficiency);
                if needed > seconds {
                    (slowest, seconds) = (Some(described.level), needed);
                }
            }
            made.wire += seconds * times;
            if let Some(level) = slowest {
                level_seconds[level as usize] += seconds * times;
            }
            Ok(())
        })?;
        made.links =
            (0u32..).zip(&carried).filter(|&(_, &bytes)| bytes > 0.0).map(|(link, &bytes)| (link, bytes)).collect();
        let used = (0u32..).zip(&chips).filter(|(_, (accesses, _))| *accesses > 0.0);
        made.chips = used.map(|(chip, &(accesses, moved))| (chip, accesses, moved)).collect();
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        made.memory = most(&mut made.chips.iter().map(|chip| chip.1)) * model.memory_share / model.memory_rate;
        made.engines = most(&mut made.chips.iter().map(|chip| chip.2)) / model.engine_rate;
        if made.steps > 0 {
            made.start = model.starts.program;
        }
        if let Some(rate) = model.channel_rate {
            let channels = if group.covers_systems(fabric) { model.channels.0 } else { model.channels.1 };
            made.channels = most(&mut sent_by.iter().copied()) / (rate * channels);
        }
        // An all_reduce that gathers after it has reduced handles each chunk twice.
        let is_twice = schedule.operation == Operation::AllReduce && schedule.algorithm != Algorithm::SingleStepMesh;
        let halves = if is_twice { 2.0 } else { 1.0 };
        made.accesses_per_chunk = if deliveries > 0.0 { 2.0 * halves * passed / deliveries } else { 0.0 };
        let worst = level_seconds
            .iter()
            .enumerate()
            .fold((0, 0.0), |best, (level, &s)| if s > best.1 { (level, s) } else { best });
        made.binding = match made.slope() {
            0.0 => Binding::Nothing,
            slope if slope == made.wire => Binding::Links(worst.0 as u32),
            slope if slope == made.memory => Binding::Memory,
            slope if slope == made.channels => Binding::Channels,
            _ => Binding::Engines,
        };
        Ok(made)
    }

    /// Seconds a byte.
    pub fn slope(&self) -> f64 {
        self.wire.max(self.beside_wires())
    }

    /// Seconds a byte of all that is no wire.
    pub fn beside_wires(&self) -> f64 {
        self.memory.max(self.engines).max(self.channels)
    }

    /// Seconds for a size in bytes of a call in a program: it starts, steps wait, and bytes take as long as what binds them.
    pub fn time(&self, bytes: f64) -> f64 {
        self.start + self.latency + bytes * self.slope()
    }
}

/// An action with its size.
pub(super) struct Sized {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) kind: ActionKind,
    pub(super) is_pair: bool,
    pub(super) is_own: bool,
    pub(super) bytes: f64,
}

impl Sized {
    /// Reads and writes of memory for each byte: a copy reads and writes, a reduction reads two values; a pair shares.
    fn accesses(&self) -> (f64, f64) {
        match (self.kind, self.is_pair) {
            (ActionKind::Copy, false) => (1.0, 1.0),
            (ActionKind::Copy, true) => (1.0, 2.0),
            (ActionKind::Reduce, false) => (2.0, 1.0),
            (ActionKind::Reduce, true) => (3.0, 1.0),
        }
    }
}

/// Calls `visit(how often, actions, traffic between chips)` for each class of equal steps, in order.
pub(super) fn for_each_class(
    group: &RankGroup,
    schedule: &Schedule,
    size_of: Option<&dyn Fn(u32) -> f64>,
    mut visit: impl FnMut(u32, &[Sized], &Traffic) -> Result<()>,
) -> Result<()> {
    let fraction = schedule.piece_fraction();
    let bytes_of = |action: &Action<'_>| match size_of {
        None => fraction * action.pieces.len() as f64,
        Some(size_of) => action.pieces.iter().map(|&piece| size_of(piece)).sum(),
    };
    let mut actions = Vec::new();
    for stage in &schedule.stages {
        // Steps of one class differ where pieces do.
        let classes =
            if size_of.is_some() { (0..stage.steps()).map(|step| (step, 1)).collect() } else { stage.classes() };
        for (step, times) in classes {
            check_interrupt()?;
            actions.clear();
            let mut traffic: Traffic = Vec::new();
            stage.for_each(step, |action| {
                let bytes = bytes_of(&action);
                let ends = (group.chip(action.from), group.chip(action.to));
                if ends.0 != ends.1 && bytes > 0.0 {
                    match traffic.last_mut() {
                        Some(last) if last.0 == ends => last.1 += bytes,
                        _ => traffic.push((ends, bytes)),
                    }
                }
                let Action { from, to, kind, is_own, .. } = action;
                actions.push(Sized { from, to, kind, is_pair: action.with.is_some(), is_own, bytes });
            });
            traffic.sort_by_key(|&(ends, _)| ends);
            traffic.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                if same {
                    kept.1 += next.1;
                }
                same
            });
            visit(times, &actions, &traffic)?;
        }
    }
    Ok(())
}
