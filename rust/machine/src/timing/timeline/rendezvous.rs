//! Where cores meet: what they run together, and what each did to memory that others reach.

use std::collections::HashSet;

use super::running::Ran;
use super::{Timeline, sequencer};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::hazard::Access;
use crate::timing::issue::{Span, TimedInstruction};
use crate::timing::record::{Cause, NO_INSTRUCTION};
use crate::timing::region::{Region, Space};
use crate::timing::tensor_array::Bound;
use crate::timing::work::Work;

/// Uses of HBM that several cores reach.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    /// Numbers of the storages.
    tensors: HashSet<u64>,
    /// Uses since the cores last met: of what, until when, and whether it was written.
    uses: Vec<(Region, u64, bool)>,
}

impl Shared {
    /// The same tensors, and no uses yet.
    pub(super) fn emptied(&self) -> Self {
        Self { tensors: self.tensors.clone(), uses: Vec::new() }
    }

    /// Keeps what an instruction that is done at `end` did to bytes that other cores reach.
    pub(super) fn note(&mut self, reads: &[Region], writes: &[Region], end: u64) {
        let reads = reads.iter().map(|region| (region, false));
        for (region, writes) in reads.chain(writes.iter().map(|region| (region, true))) {
            if matches!(region.space, Space::Hbm(storage) if self.tensors.contains(&storage)) {
                self.uses.push((region.clone(), end, writes));
            }
        }
    }
}

impl Timeline {
    /// Lets this core know an HBM tensor that other cores reach too: uses of it are ordered where the cores meet.
    pub fn share(&mut self, storage: u64) {
        self.shared.get_or_insert_default().tensors.insert(storage);
    }

    /// Runs an instruction that cores run together: on each, it starts no sooner than `hop` after it could start on every
    /// other, and its result is visible when the last of them is done. What a core did to HBM before, the others wait for
    /// from here on where they use the same bytes.
    ///
    /// Work is what a core does itself: computing, or its half of an exchange.
    pub fn meet(cores: &mut [(&mut Timeline, TimedInstruction<'_>)], hop: Picos) -> Vec<Span> {
        let spans = Self::rendezvous(cores, hop, Cause::Core);
        Self::order_shared(cores, &spans);
        spans
    }

    /// Runs an instruction that cores run together, as [`Timeline::meet`], and orders nothing else: cores that share no
    /// HBM. Those that came sooner wait for `cause`.
    pub fn rendezvous(cores: &mut [(&mut Timeline, TimedInstruction<'_>)], hop: Picos, cause: Cause) -> Vec<Span> {
        Self::hold(cores, hop, cause).into_iter().map(|(span, _)| span).collect()
    }

    /// As [`Timeline::rendezvous`]; says of each core too when the last of the others came.
    pub(crate) fn hold(
        cores: &mut [(&mut Timeline, TimedInstruction<'_>)],
        hop: Picos,
        cause: Cause,
    ) -> Vec<(Span, u64)> {
        cores.iter_mut().for_each(|(timeline, _)| timeline.stand());
        let arrivals: Vec<Bound> = cores.iter().map(|(timeline, issue)| timeline.arrival(issue)).collect();
        let origins: Vec<u64> = cores.iter().map(|(timeline, _)| timeline.origin).collect();
        let mut ran = Vec::with_capacity(cores.len());
        let mut came = Vec::with_capacity(cores.len());
        for (number, (timeline, issue)) in cores.iter_mut().enumerate() {
            let others = arrivals.iter().enumerate().filter(|(other, _)| *other != number);
            let latest = others.map(|(other, arrival)| arrival.at.saturating_add(origins[other])).max().unwrap_or(0);
            let latest = latest.saturating_sub(timeline.origin);
            came.push(latest);
            ran.push(timeline.take_part(issue, arrivals[number], latest, (hop, cause)));
        }
        let ends = ran.iter().zip(&origins).map(|(ran, origin)| ran.end.saturating_add(*origin));
        let end = ends.max().unwrap_or(0);
        let left = cores.iter_mut().zip(ran).zip(came).map(|(((timeline, issue), ran), latest)| {
            let end = end.saturating_sub(timeline.origin);
            (timeline.leave(issue, ran, end), latest)
        });
        left.collect()
    }

    /// Runs this core's part of a meeting that was held before: the last of the others came at `latest`, and all was done
    /// at `end`.
    pub(crate) fn hold_again(&mut self, issue: &TimedInstruction, how: (Picos, Cause), latest: u64, end: u64) {
        self.stand();
        let arrival = self.arrival(issue);
        let ran = self.take_part(issue, arrival, latest, how);
        self.leave(issue, ran, end);
    }

    fn take_part(&mut self, issue: &TimedInstruction, own: Bound, latest: u64, (hop, cause): (Picos, Cause)) -> Ran {
        // Of cores that come at one moment, each one's own past is as good a reason.
        let (cause, on) = if own.at >= latest { (own.cause, own.on) } else { (cause, NO_INSTRUCTION) };
        let floor = Bound { at: latest.saturating_add(hop.0), cause, on };
        let id = self.next_id();
        self.note_meeting(id, hop, latest, own.at >= latest);
        match &issue.work {
            Work::Compute { interval, latency, table } => self.compute(id, issue, interval.0, latency.0, *table, floor),
            Work::Dma(transfer) => self.transfer(id, issue, transfer, floor),
            Work::Collective(part) => self.collective(id, issue, part, floor),
            // No instruction that cores run together is a matmul.
            Work::Matmul { multiply, .. } => self.compute(id, issue, multiply.0, multiply.0, None, floor),
        }
    }

    fn leave(&mut self, issue: &TimedInstruction, mut ran: Ran, end: u64) -> Span {
        self.note_meeting_end(ran.end, end);
        ran.end = end;
        self.stand();
        let id = self.next_id();
        self.finish(id, issue, &ran, false);
        Span { id, start: Picos(ran.start), slot_end: Picos(ran.slot_end), end: Picos(end) }
    }

    /// Makes what each core did to HBM before come before what the others do to the same bytes from here on.
    pub fn order_shared(cores: &mut [(&mut Timeline, TimedInstruction<'_>)], spans: &[Span]) {
        let uses: Vec<_> = cores
            .iter_mut()
            .map(|(timeline, _)| timeline.shared.as_mut().map(|shared| std::mem::take(&mut shared.uses)))
            .collect();
        for (number, (timeline, _)) in cores.iter_mut().enumerate() {
            let others = uses.iter().enumerate().filter(|(other, _)| *other != number);
            for (region, end, writes) in others.filter_map(|(_, uses)| uses.as_ref()).flatten() {
                let access = Access { end: *end, id: spans[number].id, engine: Engine::Dma };
                if *writes {
                    timeline.hazards.write(region, access, false);
                } else {
                    timeline.hazards.read(region, access);
                }
            }
        }
    }

    /// When an instruction could start by what its own core knows.
    pub(crate) fn arrival(&self, issue: &TimedInstruction) -> Bound {
        let (mut bound, consumer) = match &issue.work {
            Work::Dma(transfer) => (self.free(sequencer(transfer)), transfer.trigger.unwrap_or(Engine::Dma)),
            Work::Collective(part) => (self.collectives.free(part.priority), Engine::Dma),
            _ => (self.free(issue.engine), issue.engine),
        };
        bound.latest(self.hops.bound(&self.waits(issue, false, false), consumer));
        bound.latest(self.edges(issue, consumer));
        bound
    }
}
