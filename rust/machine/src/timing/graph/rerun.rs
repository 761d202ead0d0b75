//! A run timed once more, each step from the ends of those before it, and loops whose bodies go on alike by a few of them.

use std::ops::Range;

use smallvec::SmallVec;

use super::flat::{DONE, FlatRun, FlatStep};
use super::variant::{FREE, Retimed, Variant};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::repetition::Repetition;
use crate::timing::timeline::{ReplayedStep, Timeline};
use crate::timing::work::Work;

/// When a share could start: the server, and the moment.
pub(super) type Asked = (u16, u64);

/// What is known of each step, by its place: [`END`], [`STATIONARY_END`], and where they are asked for [`START`] and so on.
pub(super) type Columns = Vec<Vec<u64>>;

const END: usize = 0;
const STATIONARY_END: usize = 1;
const START: usize = 2;
const READY: usize = 3;
const SLOT_END: usize = 4;

/// Bodies of a repetition that are run one by one in any case, about.
const LED_IN: usize = 12;
/// Steps that have to be left out beyond that for it to be worth while.
const WORTH: usize = 256;

/// A run under way.
pub(super) struct Rerun<'v, 'g> {
    variant: &'v Variant<'g>,
    pub(super) flat: FlatRun,
    pub(super) timeline: Timeline,
    pub(super) columns: Columns,
    /// Since a loop is watched.
    pub(super) asked: Vec<Asked>,
    pub(super) is_watched: bool,
    /// Steps left out.
    pub(super) repeated: usize,
    uses: SmallVec<[(u64, Engine, bool); 16]>,
}

impl<'v, 'g> Rerun<'v, 'g> {
    /// Of a variant; `keeps`: whether more than the latency is asked for.
    pub(super) fn of(variant: &'v Variant<'g>, keeps: bool) -> Self {
        let flat = FlatRun::of(variant);
        let columns = vec![vec![0; flat.steps.len()]; if keeps { SLOT_END + 1 } else { STATIONARY_END + 1 }];
        Self {
            variant,
            flat,
            timeline: variant.timeline(),
            columns,
            asked: Vec::new(),
            is_watched: false,
            repeated: 0,
            uses: SmallVec::new(),
        }
    }

    /// What it takes; None where a loop was skipped whose shares a later transfer could come before.
    pub(super) fn run(mut self) -> Option<Retimed> {
        let count = self.flat.steps.len();
        let mut waiting = self.flat.repetitions();
        waiting.reverse();
        let mut open: Vec<Repetition> = Vec::new();
        let mut at = 0;
        while at < count {
            while let Some(next) = waiting.pop_if(|next| next.first <= at) {
                open.push(next);
            }
            open.retain(|repetition| left_out(repetition, at) >= WORTH);
            // Of loops within loops the one that leaves out most.
            let best = (0..open.len()).max_by_key(|number| left_out(&open[*number], at));
            let Some(best) = best else {
                let next = waiting.last().map_or(count, |next| next.first);
                self.steps(at..next);
                at = next;
                continue;
            };
            let (next, goes_on) = self.skip(open[best], at);
            if self.timeline.is_doubtful() {
                return None;
            }
            at = next;
            if !goes_on {
                open.swap_remove(best);
            }
        }
        (!self.timeline.is_doubtful()).then(|| self.retimed())
    }

    fn retimed(self) -> Retimed {
        let Self { variant, flat, timeline, mut columns, repeated, .. } = self;
        let all = variant.graph.steps.len();
        let mut placed = |column: usize| -> Vec<Picos> {
            let Some(moments) = columns.get_mut(column).map(std::mem::take) else { return Vec::new() };
            if flat.steps.len() == all && variant.is_in_order() {
                return moments.into_iter().map(Picos).collect();
            }
            let mut placed = vec![Picos::ZERO; all];
            for (step, moment) in flat.steps.iter().zip(moments) {
                placed[step.number as usize] = Picos(moment);
            }
            placed
        };
        let [start, ready, slot_end] = [START, READY, SLOT_END].map(&mut placed);
        Retimed { latency: timeline.makespan(), start, ready, slot_end, repeated }
    }

    /// Runs steps one by one.
    pub(super) fn steps(&mut self, places: Range<usize>) {
        places.for_each(|at| self.step(at));
    }

    fn step(&mut self, at: usize) {
        let step = self.flat.steps[at];
        if step.work == DONE {
            let end = self.flat.edges(at).first().map_or(0, |by| self.columns[END][by.on as usize]);
            self.columns[END][at] = end;
            return self.timeline.lasts_until(end);
        }
        self.uses.clear();
        for edge in self.flat.edges(at) {
            let on = edge.on as usize;
            let end = self.columns[END][on];
            let end = if edge.released { end.min(self.columns[STATIONARY_END][on]) } else { end };
            self.uses.push((end, self.flat.steps[on].producer, edge.stationary));
        }
        if step.work == FREE {
            let end = self.uses.iter().map(|used| used.0).max().unwrap_or(0);
            self.columns.iter_mut().for_each(|column| column[at] = end);
            return self.timeline.lasts_until(end);
        }
        self.do_step(at, &step);
    }

    fn do_step(&mut self, at: usize, step: &FlatStep) {
        let (variant, graph) = (self.variant, self.variant.graph);
        if variant.unordered == Some(step.engine) {
            self.timeline.forget_queue(step.engine);
        }
        let work = variant.work_of(step.number as usize);
        let meeting = if step.is_single { graph.meeting(step.number) } else { None };
        let (span, _) = self.timeline.rerun(&ReplayedStep {
            work,
            engine: step.engine,
            dynamic: step.dynamic,
            ports: step.ports,
            uses: &self.uses,
            after: &[],
            floor: if step.is_single { graph.floor(step.number) } else { 0 },
            meeting: meeting.map(|met| (met.latest, met.hop)),
        });
        let mut end = span.end;
        if let Some(met) = meeting {
            end = end.max(met.until(span.end));
        }
        self.timeline.lasts_until(end);
        let moments = [end, span.stationary_end, span.start, span.ready, span.slot_end];
        for (column, moment) in self.columns.iter_mut().zip(moments) {
            column[at] = moment;
        }
        if self.is_watched
            && let Work::Dma(transfer) = work
        {
            let (shares, begun) = self.timeline.watched();
            self.asked.extend(shares.map(|share| (share.dma_engine, share.ready)));
            if transfer.hbm_read.saturating_add(transfer.hbm_write) > 0 {
                self.asked.push((graph.arch.dma_engines as u16, begun));
            }
        }
    }
}

/// Steps that a repetition leaves out from a place on, about.
fn left_out(repetition: &Repetition, at: usize) -> usize {
    repetition.end.saturating_sub(at.max(repetition.first) + LED_IN * repetition.lag)
}
