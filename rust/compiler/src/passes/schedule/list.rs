//! List scheduling on the machine's own timeline: as time goes on, each engine takes the most urgent step that could start.
//!
//! An engine that runs its steps in order stands still behind one that waits. So steps are issued in the order in which they
//! can start: every stream (the engines, the transfers whose queue the machine chooses, collectives) has those that wait for
//! nothing more, and the stream that is free first takes the one from which the way to the end is longest. When a step ran
//! the timeline says. What it says counts in the order of issue alone, so that when a step is chosen changes nothing but
//! the order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;
use trn3_machine::engine::Engine;
use trn3_machine::time::Picos;
use trn3_machine::timing::work::{Transfer, Work};
use trn3_machine::trace::{StepTimer, Trace};

use crate::costs::{Costs, consumer, latencies, producer, sequencer};
use crate::dependences::{Dependences, Followers};
use crate::passes::held::Held;

/// Steps that are looked at from the oldest one that was not issued yet.
const WINDOW: u32 = 1 << 14;
const QUEUES: usize = Engine::ALL.len();
const STREAMS: usize = QUEUES + 1;

/// A trace, ready to be ordered.
pub(super) struct Problem<'t> {
    pub(super) trace: &'t Trace,
    dependences: &'t Dependences,
    followers: Followers,
    costs: Costs,
    pub(super) streams: Vec<u8>,
    latencies: Vec<u64>,
}

/// How steps are chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'p> {
    /// Of every step how urgent it is.
    pub(super) urgency: &'p [u64],
    /// By how much an engine waits for a more urgent step, in picoseconds.
    pub(super) patience: u64,
    /// How many loads of a function table a change of it counts as.
    pub(super) loads: u64,
}

/// An order of the steps and what it takes.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    pub(crate) order: Vec<u32>,
    pub(crate) makespan: Picos,
}

/// When the steps of a trace run in the order that it has, in picoseconds.
#[derive(Clone, Debug)]
pub(super) struct AsItWas {
    pub(super) starts: Vec<u64>,
    pub(super) ends: Vec<u64>,
    pub(super) makespan: Picos,
}

impl AsItWas {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut timer = StepTimer::new(trace);
        let steps = trace.steps.len();
        let (mut starts, mut ends) = (Vec::with_capacity(steps), Vec::with_capacity(steps));
        for step in 0..steps {
            let span = timer.issue(step);
            starts.push(span.start.0);
            ends.push(span.end.0);
        }
        Self { starts, ends, makespan: timer.makespan() }
    }
}

/// Steps of a stream that wait for nothing but their turn and room, all for as much.
#[derive(Clone, Debug)]
struct Waiting {
    /// The function table that they need.
    table: Option<u16>,
    /// The bytes on chip that they are the first to need.
    need: [u64; 2],
    /// By when they can start.
    coming: BinaryHeap<Reverse<(u64, u32)>>,
    /// Those that could start by now, by urgency.
    here: BinaryHeap<(u64, Reverse<u32>)>,
}

/// What waits for one engine or queue.
#[derive(Clone, Debug, Default)]
struct Stream {
    free: u64,
    waiting: SmallVec<[Waiting; 1]>,
    table: Option<u16>,
}

impl Stream {
    fn join(&mut self, step: u32, ready: u64, table: Option<u16>, need: [u64; 2]) {
        let known = self.waiting.iter().position(|waiting| waiting.table == table && waiting.need == need);
        let known = known.unwrap_or_else(|| {
            self.waiting.push(Waiting { table, need, coming: BinaryHeap::new(), here: BinaryHeap::new() });
            self.waiting.len() - 1
        });
        self.waiting[known].coming.push(Reverse((ready, step)));
    }
}

fn stream_of(trace: &Trace, step: usize) -> u8 {
    let step = &trace.steps[step];
    let stream = match &step.work {
        Work::Dma(Transfer { trigger: None, .. }) => QUEUES,
        Work::Dma(transfer) => sequencer(transfer) as usize,
        _ => producer(step) as usize,
    };
    stream as u8
}

impl<'t> Problem<'t> {
    pub(super) fn new(trace: &'t Trace, dependences: &'t Dependences) -> Self {
        let mut costs = Costs::new(&trace.arch);
        Self {
            streams: (0..trace.steps.len()).map(|step| stream_of(trace, step)).collect(),
            latencies: latencies(trace, &mut costs),
            followers: dependences.followers(),
            trace,
            dependences,
            costs,
        }
    }

    /// Of every step how long it takes from its start to the end of the run at least.
    pub(super) fn ways_to_the_end(&self) -> Vec<u64> {
        let mut ways = vec![0u64; self.trace.steps.len()];
        for step in (0..ways.len()).rev() {
            let (this, latency) = (&self.trace.steps[step], self.latencies[step]);
            let slot = self.costs.slot(this);
            let further = self.followers.after(step).iter().map(|edge| {
                let next = edge.step as usize;
                if edge.kind.waits() {
                    latency + self.costs.hop(producer(this), consumer(&self.trace.steps[next])) + ways[next]
                } else {
                    slot + ways[next]
                }
            });
            ways[step] = further.max().unwrap_or(0).max(latency);
        }
        ways
    }

    /// When what a step needs is there, if others end at given moments.
    pub(super) fn ready(&self, step: usize, ends: &[u64]) -> u64 {
        let waited = self.dependences.before(step).iter().filter(|edge| edge.kind.waits());
        let there = waited.map(|edge| {
            let earlier = edge.step as usize;
            let hop = self.costs.hop(producer(&self.trace.steps[earlier]), consumer(&self.trace.steps[step]));
            ends[earlier].saturating_add(hop)
        });
        there.max().unwrap_or(0)
    }

    /// Orders the steps.
    pub(super) fn run(&self, choice: Choice<'_>) -> Ordered {
        self.run_within(choice, None)
    }

    /// Orders the steps so that what they hold on chip fits, as far as that goes.
    pub(super) fn run_within(&self, choice: Choice<'_>, held: Option<Held<'_>>) -> Ordered {
        let steps = self.trace.steps.len();
        let mut run = Run {
            problem: self,
            choice,
            timer: StepTimer::new(self.trace),
            streams: Default::default(),
            missing: (0..steps).map(|step| self.dependences.before(step).len() as u32).collect(),
            ready: vec![0; steps],
            is_issued: vec![false; steps],
            oldest: 0,
            beyond: BinaryHeap::new(),
            held,
            is_let_in: vec![false; steps],
        };
        let mut order = Vec::with_capacity(steps);
        let mut first = 0;
        while first < steps {
            let segment = self.dependences.segment(first);
            let last = (first..steps).find(|&step| self.dependences.segment(step) != segment).unwrap_or(steps);
            run.between_fences(first, last, &mut order);
            first = last;
        }
        Ordered { order, makespan: run.timer.makespan() }
    }
}

struct Run<'p, 't> {
    problem: &'p Problem<'t>,
    choice: Choice<'p>,
    timer: StepTimer<'t>,
    streams: [Stream; STREAMS],
    /// How many steps each comes after that were not issued yet.
    missing: Vec<u32>,
    /// When what each needs is there.
    ready: Vec<u64>,
    is_issued: Vec<bool>,
    oldest: u32,
    /// Steps that need nothing more and are beyond the window.
    beyond: BinaryHeap<Reverse<u32>>,
    /// What is held on chip, if that counts.
    held: Option<Held<'p>>,
    /// Which steps have come into the window.
    is_let_in: Vec<bool>,
}

impl Run<'_, '_> {
    /// Orders the steps between two fences; all before them have been issued.
    fn between_fences(&mut self, first: usize, last: usize, order: &mut Vec<u32>) {
        self.oldest = first as u32;
        for step in first..last {
            if self.missing[step] == 0 {
                self.beyond.push(Reverse(step as u32));
            }
        }
        for _ in first..last {
            self.let_in(last);
            let Some((step, stream, now)) = self.choose() else { return };
            self.issue(step, stream, now, last);
            order.push(step);
        }
    }

    /// The next step, its stream and when that takes it.
    fn choose(&mut self) -> Option<(u32, usize, u64)> {
        loop {
            let next = |stream: usize| self.next(stream).map(|at| (at, stream));
            let (now, stream) = (0..STREAMS).filter_map(next).min()?;
            self.bring(stream, now);
            // What went as the oldest still stands among those that wait, and what needs less since it came twice.
            if let Some(step) = self.take(stream, now) {
                return Some((step, stream, now));
            }
        }
    }

    /// When a stream takes its next step.
    fn next(&self, stream: usize) -> Option<u64> {
        let free = self.streams[stream].free;
        let open = self.streams[stream].waiting.iter().filter(|waiting| self.have_room(waiting));
        let next = open.filter_map(|waiting| match (waiting.here.peek(), waiting.coming.peek()) {
            (Some(_), _) => Some(free),
            (None, next) => next.map(|&Reverse((ready, _))| free.max(ready)),
        });
        next.chain(self.oldest_of(stream).map(|step| free.max(self.ready[step as usize]))).min()
    }

    fn have_room(&self, waiting: &Waiting) -> bool {
        self.held.as_ref().is_none_or(|held| held.short_of(waiting.need).is_none())
    }

    /// The oldest step if it is a stream's and goes at its turn whether there is room for it or not **(choice)**.
    fn oldest_of(&self, stream: usize) -> Option<u32> {
        let is_here = self.held.is_some() && usize::from(self.problem.streams[self.oldest as usize]) == stream;
        is_here.then_some(self.oldest)
    }

    /// Steps of a stream that can start by a moment and have room become those it chooses from.
    fn bring(&mut self, stream: usize, now: u64) {
        for index in 0..self.streams[stream].waiting.len() {
            if !self.have_room(&self.streams[stream].waiting[index]) {
                continue;
            }
            let Waiting { coming, here, .. } = &mut self.streams[stream].waiting[index];
            while let Some(&Reverse((ready, step))) = coming.peek()
                && ready <= now.saturating_add(self.choice.patience)
            {
                coming.pop();
                here.push((self.choice.urgency[step as usize], Reverse(step)));
            }
        }
    }

    /// Takes the most urgent step of those that a stream chooses from.
    fn take(&mut self, stream: usize, now: u64) -> Option<u32> {
        if let Some(step) = self.oldest_of(stream).filter(|&step| self.ready[step as usize] <= now) {
            return Some(step);
        }
        let table_load = self.problem.costs.table_load * self.choice.loads;
        loop {
            let Stream { waiting, table: loaded, .. } = &self.streams[stream];
            let worth = |waiting: &Waiting| {
                let &(urgency, step) = waiting.here.peek()?;
                let changes = waiting.table.is_some() && loaded.is_some() && waiting.table != *loaded;
                Some((urgency.saturating_sub(if changes { table_load } else { 0 }), step))
            };
            let open = (0..waiting.len()).filter(|&index| self.have_room(&waiting[index]));
            let best = open.max_by_key(|&index| worth(&waiting[index]))?;
            let stream = &mut self.streams[stream];
            let Reverse(step) = stream.waiting[best].here.pop()?.1;
            if !self.is_issued[step as usize] {
                stream.table = stream.waiting[best].table.or(stream.table);
                return Some(step);
            }
        }
    }

    /// A step takes what it makes and gives back what it used last; others that share what it makes need less from then on.
    fn hold(&mut self, step: u32) {
        let Some(held) = &mut self.held else { return };
        let waits = |&sharer: &u32| self.is_let_in[sharer as usize] && !self.is_issued[sharer as usize];
        let sharers: SmallVec<[u32; 8]> = held.sharers(step).filter(waits).collect();
        held.take(step);
        sharers.into_iter().for_each(|sharer| self.join(sharer));
    }

    /// A step becomes one of those that wait for their turn.
    fn join(&mut self, step: u32) {
        let (index, problem) = (step as usize, self.problem);
        let table = match problem.trace.steps[index].work {
            Work::Compute { table, .. } => table,
            _ => None,
        };
        let need = self.held.as_ref().map_or([0; 2], |held| held.need(step));
        self.streams[usize::from(problem.streams[index])].join(step, self.ready[index], table, need);
    }

    /// Steps that have come into the window join their streams.
    fn let_in(&mut self, last: usize) {
        while (self.oldest as usize) < last && self.is_issued[self.oldest as usize] {
            self.oldest += 1;
        }
        while let Some(&Reverse(step)) = self.beyond.peek()
            && step < self.oldest.saturating_add(WINDOW)
        {
            self.beyond.pop();
            self.is_let_in[step as usize] = true;
            self.join(step);
        }
    }

    fn issue(&mut self, step: u32, stream: usize, now: u64, last: usize) {
        let problem = self.problem;
        let index = step as usize;
        let span = self.timer.issue(index);
        self.is_issued[index] = true;
        self.hold(step);
        let this = &problem.trace.steps[index];
        let start = now.max(self.ready[index]);
        self.streams[stream].free = match &this.work {
            // What a queue does, and when, the machine says; others of the same bandwidth are chosen at its pace.
            Work::Dma(transfer) if transfer.trigger.is_none() => start.saturating_add(problem.costs.pace(transfer)),
            Work::Dma(_) => start.saturating_add(problem.costs.slot(this)),
            _ => span.slot_end.0,
        };
        for edge in problem.followers.after(index) {
            let next = edge.step as usize;
            if edge.kind.waits() {
                let hop = problem.costs.hop(producer(this), consumer(&problem.trace.steps[next]));
                self.ready[next] = self.ready[next].max(span.end.0.saturating_add(hop));
            }
            self.missing[next] -= 1;
            if self.missing[next] == 0 && next < last {
                self.beyond.push(Reverse(edge.step));
            }
        }
    }
}
