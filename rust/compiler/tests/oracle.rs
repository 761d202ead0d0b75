//! How far schedules are from the best order of all, which branch and bound finds on the machine's own timeline.

mod support;

use support::{Plan, TILES, extended};
use trn3_compiler::dependences::{Dependences, Followers};
use trn3_compiler::{CompileOptions, PassReport};
use trn3_machine::engine::Engine;
use trn3_machine::time::Picos;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{StepTimer, Trace};

/// What two steps can be in each other's way at, beyond their bytes: the array, PSUM's ports, GpSimdE, the DMA engines.
fn resource(trace: &Trace, step: usize) -> u8 {
    match (&trace.steps[step].work, trace.steps[step].engine) {
        (Work::Matmul { .. }, _) => 0,
        (Work::Dma(_) | Work::Collective(_), _) => 1,
        (_, Engine::Vector | Engine::Scalar) => 2,
        _ => 3,
    }
}

struct Search<'t> {
    trace: &'t Trace,
    dependences: &'t Dependences,
    followers: Followers,
    /// From the start of each step to the end of the run at least.
    ways: Vec<u64>,
    alone: Vec<u64>,
    best: u64,
    nodes: u64,
}

#[derive(Clone)]
struct State<'t> {
    timer: StepTimer<'t>,
    missing: Vec<usize>,
    ready: Vec<u64>,
    issued: Vec<bool>,
    last: Option<usize>,
}

impl<'t> Search<'t> {
    fn new(trace: &'t Trace, dependences: &'t Dependences, best: u64) -> Self {
        let followers = dependences.followers();
        let steps = trace.steps.len();
        let mut alone = Vec::new();
        for step in 0..steps {
            alone.push(StepTimer::new(trace).issue(step).end.0);
        }
        let mut ways = vec![0; steps];
        for step in (0..steps).rev() {
            let after = followers.after(step).iter().filter(|edge| edge.kind.waits());
            let further = after.map(|edge| hop(trace, step, edge.step as usize) + ways[edge.step as usize]).max();
            // A transfer's start is not counted twice where it was ready before.
            ways[step] = alone[step] + further.unwrap_or(0);
        }
        Self { trace, dependences, followers, ways, alone, best, nodes: 0 }
    }

    fn bound(&self, state: &State<'_>) -> u64 {
        let open = (0..self.ways.len()).filter(|&step| !state.issued[step]);
        let longest = open.map(|step| state.ready[step] + self.ways[step]).max().unwrap_or(0);
        longest.max(state.timer.makespan().0)
    }

    fn go_on(&mut self, state: &State<'t>, left: usize) {
        self.nodes += 1;
        if left == 0 {
            self.best = self.best.min(state.timer.makespan().0);
            return;
        }
        let open = (0..self.ways.len()).filter(|&step| !state.issued[step]);
        let segment = open.clone().map(|step| self.dependences.segment(step)).min();
        let mut free: Vec<usize> = open
            .filter(|&step| state.missing[step] == 0 && Some(self.dependences.segment(step)) == segment)
            .filter(|&step| !self.is_the_same_the_other_way(state, step))
            .collect();
        free.sort_by_key(|&step| std::cmp::Reverse(self.ways[step]));
        for step in free {
            let mut next = state.clone();
            let end = next.timer.issue(step).end.0;
            (next.issued[step], next.last) = (true, Some(step));
            for edge in self.followers.after(step) {
                let other = edge.step as usize;
                next.missing[other] -= 1;
                if edge.kind.waits() {
                    next.ready[other] = next.ready[other].max(end + hop(self.trace, step, other));
                }
            }
            if self.bound(&next) < self.best {
                self.go_on(&next, left - 1);
            }
        }
    }

    /// Whether the last step could as well come after this one, which is a branch of its own.
    fn is_the_same_the_other_way(&self, state: &State<'_>, step: usize) -> bool {
        let Some(last) = state.last.filter(|&last| last > step) else { return false };
        let follows = self.dependences.before(step).iter().any(|edge| edge.step as usize == last);
        !follows && resource(self.trace, last) != resource(self.trace, step)
    }
}

fn hop(trace: &Trace, from: usize, to: usize) -> u64 {
    let engine = |step: usize| match trace.steps[step].work {
        Work::Dma(_) => Engine::Dma,
        _ => trace.steps[step].engine,
    };
    let arch = &trace.arch;
    let nanoseconds = match (engine(from), engine(to)) {
        (Engine::Dma, _) => arch.dma_semaphore_ns,
        (from, to) if from == to => arch.same_engine_ns,
        _ => arch.semaphore_ns,
    };
    Picos::from_nanoseconds(nanoseconds).0
}

/// Numbers that look random.
struct Draws(u64);

impl Draws {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// A step without marks; of some graphs none is a transfer, so that engines are what is short.
    fn plan(&mut self, transfers: bool) -> Plan {
        let kind = if transfers { self.next(10) } else { 3 + self.next(7) } as u8;
        let (part, mark) = (self.next(4) as u8, u8::MAX);
        let mut tile = || self.next(TILES);
        let (from, other, to) = (tile(), tile(), tile());
        Plan { kind, from, other, to, part, time: 1 + self.next(20), mark }
    }
}

fn gap(seed: u64) -> f64 {
    let mut draws = Draws(seed);
    draws.next(1);
    let steps = 8 + seed % 7;
    let plans: Vec<Plan> = (0..steps).map(|_| draws.plan(seed.is_multiple_of(2))).collect();
    let trace = extended(Vec::new(), &plans);
    let options = CompileOptions { passes: Some(vec!["schedule".to_owned()]), ..Default::default() };
    let mut scheduled = trace.clone();
    for pass in options.pipeline().expect("a pass") {
        pass.run(&mut scheduled, &mut PassReport::new("schedule")).expect("a schedule");
    }
    let mut timer = StepTimer::new(&scheduled);
    (0..scheduled.steps.len()).for_each(|step| {
        timer.issue(step);
    });
    let found = timer.makespan().0;

    let dependences = Dependences::placed(&trace);
    let mut search = Search::new(&trace, &dependences, found);
    let state = State {
        timer: StepTimer::new(&trace),
        missing: (0..trace.steps.len()).map(|step| dependences.before(step).len()).collect(),
        ready: vec![0; trace.steps.len()],
        issued: vec![false; trace.steps.len()],
        last: None,
    };
    search.go_on(&state, trace.steps.len());
    assert!(search.alone.iter().all(|&alone| alone <= search.best), "no step is faster than it is alone");
    found as f64 / search.best as f64 - 1.0
}

#[test]
fn test_schedules_are_near_the_best_order_of_all() {
    let mut gaps: Vec<f64> = (0..40).map(gap).collect();
    gaps.sort_by(f64::total_cmp);
    let (median, worst) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    assert!(median < 0.05 && worst < 0.25, "median {median:.3}, worst {worst:.3}");
}
