//! Runs a schedule on values, step by step.

use trn3_numerics::check_interrupt;

use super::name::Reduction;
use super::schedule::{Action, ActionKind, PieceCut, Schedule};
use super::value::Value;
use crate::error::Result;

/// Rounds results laid end to end; nothing for exact values.
pub(super) type Round<'a, T> = &'a mut dyn FnMut(&mut [T]) -> Result<()>;

/// Something that arrives in a slot.
struct Arrival {
    to: u32,
    piece: u32,
    /// The last of the pieces that lie one after another from `piece` on; mostly the same one.
    last: u32,
    from: u32,
    with: Option<u32>,
    kind: ActionKind,
}

/// Where a piece lies in a rank's buffer.
pub(super) trait Layout {
    fn range(&self, rank: u32, piece: u32) -> std::ops::Range<usize>;
}

impl Arrival {
    fn range(&self, layout: &dyn Layout, rank: u32) -> std::ops::Range<usize> {
        let first = layout.range(rank, self.piece);
        if self.last == self.piece { first } else { first.start..layout.range(rank, self.last).end }
    }
}

/// Buffers of one length, cut as the schedule says.
pub(super) struct Even<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) length: usize,
}

impl Layout for Even<'_> {
    fn range(&self, _rank: u32, piece: u32) -> std::ops::Range<usize> {
        match self.schedule.cut {
            PieceCut::Buffer => self.schedule.range(piece, self.length),
            PieceCut::Pairs | PieceCut::Whole => 0..self.length,
        }
    }
}

/// Pieces of given places, the same in every rank's buffer.
pub(super) struct Listed<'a> {
    pub(super) schedule: &'a Schedule,
    /// Where each chunk begins, and the end.
    pub(super) starts: &'a [usize],
}

impl Layout for Listed<'_> {
    fn range(&self, _rank: u32, piece: u32) -> std::ops::Range<usize> {
        let (chunk, channel) = ((piece / self.schedule.channels) as usize, (piece % self.schedule.channels) as usize);
        let (start, end, channels) = (self.starts[chunk], self.starts[chunk + 1], self.schedule.channels as usize);
        let length = end - start;
        start + length * channel / channels..start + length * (channel + 1) / channels
    }
}

/// A layout in elements of so many bytes, of buffers of bytes.
pub(super) struct Scaled<L> {
    pub(super) inner: L,
    pub(super) bytes: usize,
}

impl<L: Layout> Layout for Scaled<L> {
    fn range(&self, rank: u32, piece: u32) -> std::ops::Range<usize> {
        let range = self.inner.range(rank, piece);
        range.start * self.bytes..range.end * self.bytes
    }
}

/// Executes in place: `buffers[rank]` is what a rank has before, and after.
pub(super) fn in_place<T: Value>(
    schedule: &Schedule,
    layout: &dyn Layout,
    reduction: Reduction,
    buffers: &mut [Vec<T>],
    round: Round<'_, T>,
) -> Result<()> {
    let mut arrivals: Vec<Arrival> = Vec::new();
    let mut pairs: Vec<T> = Vec::new();
    let mut results: Vec<T> = Vec::new();
    for stage in &schedule.stages {
        for step in 0..stage.steps() {
            check_interrupt()?;
            arrivals.clear();
            // Where everyone sends all of its pieces they are one, or their number would go with the cube of ranks.
            let is_joined = stage.pattern.reduces();
            stage.for_each(step, |action| match action.pieces {
                [piece, .., last] if is_joined && action.pieces.is_sorted_by(|a, b| a + 1 == *b) => {
                    let Action { from, to, with, kind, .. } = action;
                    arrivals.push(Arrival { to, piece: *piece, last: *last, from, with, kind });
                }
                _ => list(&action, &mut arrivals),
            });
            arrivals.sort_by_key(|arrival| (arrival.to, arrival.piece, arrival.from));
            // What a pair sends is reduced and rounded before it is sent.
            pairs.clear();
            for arrival in &arrivals {
                if let (ActionKind::Reduce, Some(with)) = (arrival.kind, arrival.with) {
                    let (low, high) = (arrival.from.min(with), arrival.from.max(with));
                    let start = pairs.len();
                    pairs.extend_from_slice(&buffers[low as usize][arrival.range(layout, low)]);
                    T::reduce(reduction, &mut pairs[start..], &buffers[high as usize][arrival.range(layout, high)]);
                }
            }
            round(&mut pairs)?;
            let mut next_pair = 0;
            results.clear();
            let mut rest = &arrivals[..];
            while let Some(first) = rest.first() {
                let count = rest.iter().take_while(|one| (one.to, one.piece) == (first.to, first.piece)).count();
                let (group, others) = rest.split_at(count);
                rest = others;
                let start = results.len();
                let own = first.range(layout, first.to);
                if first.kind == ActionKind::Copy {
                    results.extend_from_slice(&buffers[first.from as usize][first.range(layout, first.from)]);
                    continue;
                }
                let mut is_own_due = true;
                let fold = |values: &[T], results: &mut Vec<T>| {
                    if results.len() == start {
                        results.extend_from_slice(values);
                    } else {
                        T::reduce(reduction, &mut results[start..], values);
                    }
                };
                for arrival in group {
                    if is_own_due && arrival.from > first.to {
                        fold(&buffers[first.to as usize][own.clone()], &mut results);
                        is_own_due = false;
                    }
                    if arrival.with.is_some() {
                        fold(&pairs[next_pair..next_pair + own.len()], &mut results);
                        next_pair += own.len();
                    } else {
                        fold(&buffers[arrival.from as usize][arrival.range(layout, arrival.from)], &mut results);
                    }
                }
                if is_own_due {
                    fold(&buffers[first.to as usize][own], &mut results);
                }
            }
            if arrivals.iter().any(|arrival| arrival.kind == ActionKind::Reduce) {
                round(&mut results)?;
            }
            let mut done = 0;
            let mut last = None;
            for arrival in &arrivals {
                if last.replace((arrival.to, arrival.piece)) != Some((arrival.to, arrival.piece)) {
                    let range = arrival.range(layout, arrival.to);
                    let length = range.len();
                    buffers[arrival.to as usize][range].copy_from_slice(&results[done..done + length]);
                    done += length;
                }
            }
        }
    }
    Ok(())
}

fn list(action: &Action<'_>, arrivals: &mut Vec<Arrival>) {
    for &piece in action.pieces {
        let &Action { from, to, with, kind, .. } = action;
        match (kind, with) {
            (ActionKind::Copy, Some(second)) => {
                arrivals.push(Arrival { to, piece, last: piece, from, with: None, kind });
                arrivals.push(Arrival { to: second, piece, last: piece, from, with: None, kind });
            }
            (ActionKind::Copy, None) | (ActionKind::Reduce, _) => {
                arrivals.push(Arrival { to, piece, last: piece, from, with, kind })
            }
        }
    }
}

/// Executes schedules whose pieces go straight from one buffer to another: `copy(piece, from, to)`, in their order.
pub(super) fn straight(schedule: &Schedule, mut copy: impl FnMut(u32, u32, u32)) {
    for stage in &schedule.stages {
        for step in 0..stage.steps() {
            stage.for_each(step, |action| action.pieces.iter().for_each(|&piece| copy(piece, action.from, action.to)));
        }
    }
}
