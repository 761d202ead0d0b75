//! One core's run among those of its chip, and whose turn it is.

use std::sync::Arc;

use crate::core::again::{Met, Timed};
use crate::timing::ceiling::HbmCeiling;
use crate::timing::timeline::{TimedInstruction, Timeline};

/// A run that is timed again: what it is made of, and how far its time is worked out.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) core: usize,
    pub(super) parts: Arc<Vec<Timed>>,
    /// The first that has no time yet.
    pub(super) next: usize,
    pub(super) timeline: Timeline,
    /// When that one could start, as far as its own core knows; in time that all cores have in common.
    pub(super) arrival: u64,
    /// Of each meeting that was held, when the last of the others came and when it was done.
    pub(super) held: Vec<(u64, u64)>,
}

impl Lane {
    pub(super) fn new(core: usize, timeline: Timeline) -> Self {
        Self { core, parts: Arc::default(), next: 0, timeline, arrival: 0, held: Vec::new() }
    }

    /// Adds what the run goes on with.
    pub(super) fn extend(&mut self, parts: Vec<Timed>) {
        if self.parts.is_empty() {
            self.parts = Arc::new(parts);
        } else {
            Arc::make_mut(&mut self.parts).extend(parts);
        }
    }

    /// Whether anything has no time yet.
    pub(super) fn waits(&self) -> bool {
        self.next < self.parts.len()
    }

    fn met(&self) -> Option<&Met> {
        self.parts.get(self.next)?.met.as_ref()
    }

    /// Times what no other core can slow, up to what one can.
    pub(super) fn go_on(&mut self) {
        while let Some(next) = self.parts.get(self.next) {
            if next.met.is_some() || next.draws() {
                self.arrival = self.timeline.arrival(&next.issue()).at.saturating_add(self.timeline.origin());
                return;
            }
            self.timeline.issue(&next.issue());
            self.next += 1;
        }
    }

    /// When its last result is there, in time that all cores have in common.
    pub(super) fn end(&self) -> u64 {
        self.timeline.makespan().0.saturating_add(self.timeline.origin())
    }

    /// As it is, drawing from a copy of its ceiling.
    pub(super) fn fork(&self, ceiling: &HbmCeiling) -> Self {
        Self { timeline: self.timeline.fork(ceiling), parts: Arc::clone(&self.parts), held: Vec::new(), ..*self }
    }
}

/// Times what could start before a moment, or all there is; in order of time, of one moment in order of the cores.
pub(super) fn run_until(lanes: &mut [Lane], until: Option<u64>) {
    while let Some((at, group)) = earliest(lanes)
        && until.is_none_or(|until| at < until)
    {
        run(lanes, &group);
    }
}

/// Times what comes first; false where nothing can come.
pub(super) fn run_first(lanes: &mut [Lane]) -> bool {
    let first = earliest(lanes);
    if let Some((_, group)) = &first {
        run(lanes, group);
    }
    first.is_some()
}

fn run(lanes: &mut [Lane], group: &[usize]) {
    if let [only] = *group
        && let Some(lane) = lanes.get_mut(only)
        && lane.met().is_none()
    {
        if let Some(part) = lane.parts.get(lane.next) {
            lane.timeline.issue(&part.issue());
        }
        lane.next += 1;
        lane.go_on();
        return;
    }
    let parts: Vec<(Arc<Vec<Timed>>, usize)> =
        group.iter().map(|&lane| (Arc::clone(&lanes[lane].parts), lanes[lane].next)).collect();
    let Some(met) = group.first().and_then(|&lane| lanes[lane].met().cloned()) else { return };
    let mut members: Vec<(usize, &mut Timeline)> = lanes
        .iter_mut()
        .enumerate()
        .filter_map(|(lane, each)| {
            let place = group.iter().position(|member| *member == lane)?;
            Some((place, &mut each.timeline))
        })
        .collect();
    members.sort_by_key(|(place, _)| *place);
    let mut issues: Vec<(&mut Timeline, TimedInstruction<'_>)> = members
        .into_iter()
        .zip(&parts)
        .map(|((_, timeline), (parts, next))| (timeline, parts[*next].issue()))
        .collect();
    let held = met.meeting.run(&mut issues);
    for (&lane, held) in group.iter().zip(held) {
        lanes[lane].held.push(held);
        lanes[lane].next += 1;
        lanes[lane].go_on();
    }
}

/// The lanes whose next comes first, and when: one, or all of a meeting to which all have come, in the order of their
/// places.
fn earliest(lanes: &[Lane]) -> Option<(u64, Vec<usize>)> {
    let mut best: Option<(u64, Vec<usize>)> = None;
    for (number, lane) in lanes.iter().enumerate().filter(|(_, lane)| lane.waits()) {
        let (at, group) = match lane.met() {
            None => (lane.arrival, vec![number]),
            Some(met) => {
                let mut came: Vec<(usize, usize)> = Vec::with_capacity(met.meeting.cores);
                let mut at = 0;
                for (other, lane) in lanes.iter().enumerate() {
                    if let Some(theirs) = lane.met().filter(|theirs| Arc::ptr_eq(&theirs.meeting, &met.meeting)) {
                        came.push((theirs.place, other));
                        at = at.max(lane.arrival);
                    }
                }
                if came.len() < met.meeting.cores {
                    continue;
                }
                came.sort_unstable();
                (at, came.into_iter().map(|(_, lane)| lane).collect())
            }
        };
        if best.as_ref().is_none_or(|(earliest, _)| at < *earliest) {
            best = Some((at, group));
        }
    }
    best
}
