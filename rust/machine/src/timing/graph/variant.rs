//! A run with changes: what each step costs, and what it comes after.

use std::sync::Arc;

use super::{EdgeKind, GraphEdge, RunGraph};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::timeline::{Timeline, TimelineOptions};
use crate::timing::work::Work;

/// In the place of a step's work: it takes no time and holds nothing.
pub(super) const FREE: u32 = u32::MAX;
/// It is not there.
pub(super) const GONE: u32 = u32::MAX - 1;

/// Kinds of work that were given last and are looked through for one that is given again.
const RECENT: usize = 16;

/// A run as it might have been: its graph with changes.
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::engine::Engine;
/// use trn3_machine::site::SiteId;
/// use trn3_machine::time::Picos;
/// use trn3_machine::timing::graph::Variant;
/// use trn3_machine::timing::timeline::{TimedInstruction, Timeline, TimelineOptions};
/// use trn3_machine::timing::work::Work;
///
/// let mut timeline = Timeline::new(Arc::new(ArchSpec::load("trn3")?), TimelineOptions::default());
/// let work = Work::Compute { interval: Picos(60_000), latency: Picos(180_000), table: None };
/// let issue = TimedInstruction {
///     opcode: 0, engine: Engine::Vector, site: SiteId(0), label: 0, work, reads: &[], stationary_reads: &[],
///     writes: &[], after: &[], dynamic: false, macs: 0, peak_macs_per_cycle: 0,
/// };
/// timeline.issue(&issue);
/// timeline.issue(&issue);
/// let graph = timeline.graph().expect("records are kept");
/// let mut variant = Variant::of(graph);
/// assert_eq!(variant.time().latency, Picos(240_000));
/// variant.free(0);
/// assert_eq!(variant.time().latency, Picos(180_000));
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Variant<'g> {
    pub(super) graph: &'g RunGraph,
    /// Kinds of work that the run had not.
    pub(super) more: Vec<Work>,
    pub(super) work: Vec<u32>,
    pub(super) engine: Vec<Engine>,
    /// Steps that wait for no buffer, or for one that was used so many fills before.
    buffers: Vec<(u32, Option<u32>)>,
    /// Steps that are done by others, in the order of their numbers.
    done_by: Vec<(u32, u32)>,
    order: Option<Vec<u32>>,
    dma_floor: bool,
    pub(super) unordered: Option<Engine>,
    is_forgetful: bool,
}

/// What a run takes, changed.
#[derive(Clone, Debug, Default)]
pub struct Retimed {
    /// Until its last result.
    pub latency: Picos,
    /// When each instruction started, in the order of the run.
    pub start: Vec<Picos>,
    /// When all that each waits for but its queue and what others hold was there.
    pub ready: Vec<Picos>,
    /// When each left its queue to the next.
    pub slot_end: Vec<Picos>,
    /// Instructions whose times follow from those of the same ones before, in a loop whose bodies go on alike.
    pub repeated: usize,
}

impl<'g> Variant<'g> {
    /// A run as it was.
    pub fn of(graph: &'g RunGraph) -> Self {
        Self {
            graph,
            more: Vec::new(),
            work: graph.steps.iter().map(|step| step.work).collect(),
            engine: graph.steps.iter().map(|step| step.engine).collect(),
            buffers: Vec::new(),
            done_by: Vec::new(),
            order: None,
            dma_floor: true,
            unordered: None,
            is_forgetful: false,
        }
    }

    /// The run.
    pub fn graph(&self) -> &'g RunGraph {
        self.graph
    }

    /// Lets a step take no time and hold nothing.
    pub fn free(&mut self, step: usize) {
        self.work[step] = FREE;
    }

    /// Lets a step cost something else, on an engine.
    pub fn give_work(&mut self, step: usize, work: &Work, engine: Engine) {
        // Loops give few kinds of work in turn: those which do alike are to be known as such.
        let known = self.more.iter().rev().take(RECENT).position(|other| other == work);
        let number = known.map_or(self.more.len(), |back| self.more.len() - 1 - back);
        if known.is_none() {
            self.more.push(work.clone());
        }
        self.work[step] = (self.graph.works.len() + number) as u32;
        self.engine[step] = engine;
    }

    /// Leaves a step out: nothing waits for it, and it waits for nothing.
    pub fn leave_out(&mut self, step: usize) {
        self.work[step] = GONE;
    }

    /// What steps that others do came after, those others do not wait for.
    pub fn forget_merged(&mut self) {
        self.is_forgetful = true;
    }

    /// Lets these steps, in their order, fill other bytes on chip than those in use: as many buffers in turn, each of which
    /// `each` steps fill together, or a new one each time.
    pub fn rebuffer(&mut self, steps: &[u32], buffers: Option<usize>, each: usize) {
        for (place, &step) in steps.iter().enumerate() {
            let before = buffers.and_then(|buffers| place.checked_sub(buffers.saturating_sub(1) * each));
            self.buffers.push((step, before.map(|before| steps[before])));
        }
        self.buffers.sort_unstable();
    }

    /// Lets a step be done by another one, at its moment; what the two come after the other one waits for.
    pub fn merge(&mut self, step: u32, into: u32) {
        self.done_by.push((step, into));
        self.work[step as usize] = FREE;
    }

    /// Runs the steps in another order; every step that a step waits for comes before it.
    pub fn reorder(&mut self, order: Vec<u32>) {
        self.order = Some(order);
    }

    /// Lets an engine begin each instruction as soon as it is ready, whatever stands ahead of it or is under way: no order of
    /// them takes less.
    pub fn issue_as_ready(&mut self, engine: Engine) {
        self.unordered = Some(engine);
    }

    /// Lets DMA queues issue transfers as fast as engines move them.
    pub fn drop_dma_floor(&mut self) {
        self.dma_floor = false;
    }

    /// What a step comes after; without `Sum`, which nothing waits for.
    pub(super) fn edges(&self, step: u32) -> impl Iterator<Item = GraphEdge> + '_ {
        let found = self.buffers.binary_search_by_key(&step, |(step, _)| *step);
        self.edges_of(step, found.ok().map(|place| self.buffers[place].1))
    }

    /// Of each step which other one's buffer it waits for, if that is not its own; empty if none does.
    pub(super) fn other_buffers(&self) -> Vec<Option<Option<u32>>> {
        let mut others = Vec::new();
        if !self.buffers.is_empty() {
            others.resize(self.graph.steps.len(), None);
            for same in self.buffers.chunk_by(|one, other| one.0 == other.0) {
                let step = same[0].0;
                // Of several for one step the one that a search finds.
                let found = self.buffers.binary_search_by_key(&step, |(step, _)| *step);
                let other =
                    if same.len() == 1 { Some(same[0].1) } else { found.ok().map(|place| self.buffers[place].1) };
                others[step as usize] = other;
            }
        }
        others
    }

    /// As [`Variant::edges`] of a step that waits for its own buffer, or, where `other` is given, for that one's if any.
    pub(super) fn edges_of(&self, step: u32, other: Option<Option<u32>>) -> impl Iterator<Item = GraphEdge> + '_ {
        let graph = self.graph;
        let own = graph.edges(step as usize);
        let own =
            own.filter(move |edge| edge.kind != EdgeKind::Sum && (other.is_none() || edge.kind != EdgeKind::Reuse));
        let older = other.flatten().map(|older| graph.edges(older as usize)).into_iter().flatten();
        own.chain(older.filter(|edge| edge.kind == EdgeKind::Reuse))
    }

    /// The steps, in their order.
    pub(super) fn order(&self) -> impl Iterator<Item = u32> {
        let all = |place: usize| self.order.as_ref().map_or(place as u32, |order| order[place]);
        (0..self.graph.steps.len()).map(all)
    }

    pub(super) fn is_in_order(&self) -> bool {
        self.order.is_none()
    }

    /// The step that does this one, if another one does.
    pub(super) fn done_by(&self, step: u32) -> Option<u32> {
        let found = self.done_by.binary_search_by_key(&step, |(step, _)| *step);
        found.ok().map(|place| self.done_by[place].1)
    }

    /// Of each step the ones that it does besides and that say what it comes after; empty if none does.
    pub(super) fn merged(&self) -> Vec<Vec<u32>> {
        let mut merged: Vec<Vec<u32>> = Vec::new();
        if !self.done_by.is_empty() && !self.is_forgetful {
            merged.resize(self.graph.steps.len(), Vec::new());
            self.done_by.iter().for_each(|&(step, into)| merged[into as usize].push(step));
        }
        merged
    }

    /// A timeline on which nothing ran.
    pub(super) fn timeline(&self) -> Timeline {
        let options = TimelineOptions { throttle: self.graph.throttle, keep_records: false };
        let mut timeline = Timeline::new(Arc::clone(&self.graph.arch), options);
        if !self.dma_floor {
            timeline.without_dma_floor();
        }
        timeline
    }

    /// What a step costs.
    pub fn work_of(&self, step: usize) -> &Work {
        let (number, known) = (self.work[step] as usize, &self.graph.works);
        known.get(number).unwrap_or_else(|| &self.more[number - known.len()])
    }
}
