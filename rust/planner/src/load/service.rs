//! A service: replicas, what routes requests to them, and the events between which they step.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::conversation::{Conversation, Turn};
use super::handover::HandoverLinks;
use super::job::{Job, Jobs};
use super::replica::{Emission, NextStep, Replica};
use super::router::{Router, RoutingPolicy};
use super::rules::ReplicaRole;
use super::scaling::{Autoscaling, PowerState, Powered};
use super::statistics::ServiceTimeline;

/// Seconds between the first points of a timeline.
const FIRST_INTERVAL: f64 = 0.1;

/// Who is told what requests get.
pub(super) trait Watcher {
    /// Tokens of a request; `is_last` with its last one.
    fn tokens(&mut self, job: &Job, emission: &Emission, is_last: bool);
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Event {
    at: f64,
    /// Of events at one time the one that was planned first.
    order: u64,
    what: Happening,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Happening {
    /// A replica ends a step, or the host is done; only if nothing else was planned for it since.
    Step { replica: usize, plan: u64 },
    /// A user sends the next turn of a conversation.
    Turn { conversation: usize },
    /// Keys and values have arrived.
    Handed { place: u32, from: usize, to: usize },
    /// The autoscaler looks at the load of a model.
    Look { model: usize },
    /// A replica has its weights.
    Up { replica: usize },
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.total_cmp(&other.at).then(self.order.cmp(&other.order))
    }
}

/// One model of a service: who serves it, and how.
#[derive(Clone, Debug)]
pub(super) struct ServedModel {
    pub(super) links: Option<HandoverLinks>,
    pub(super) autoscaling: Option<Autoscaling>,
    /// Seconds in which a new replica gets its weights.
    pub(super) startup: f64,
    /// Requests that wait at one replica at most.
    pub(super) queue: Option<usize>,
    /// Those that read prompts and those that only generate.
    routers: [Router; 2],
    /// Since when there has been less load than replicas.
    calm_since: Option<f64>,
}

impl ServedModel {
    pub(super) fn new(
        policy: RoutingPolicy,
        links: Option<HandoverLinks>,
        autoscaling: Option<Autoscaling>,
        startup: f64,
        queue: Option<usize>,
    ) -> Self {
        let routers = [Router::new(policy), Router::new(RoutingPolicy::LeastLoaded)];
        Self { links, autoscaling, startup, queue, routers, calm_since: None }
    }
}

/// Turns of a conversation that are still to be sent.
#[derive(Clone, Debug, Default)]
struct Open {
    model: usize,
    turns: VecDeque<Turn>,
    pause: f64,
}

/// Replicas under load.
pub(super) struct Service<W> {
    pub(super) now: f64,
    pub(super) replicas: Vec<Replica>,
    pub(super) powered: Vec<Powered>,
    pub(super) timeline: ServiceTimeline,
    pub(super) watcher: W,
    /// Requests that were sent and not refused.
    pub(super) sent: u64,
    /// Requests that a full queue refused.
    pub(super) refused: u64,
    /// Requests under way.
    pub(super) under_way: u64,
    /// Requests under way times seconds.
    pub(super) area: f64,
    /// Conversations under way.
    pub(super) talking: u64,
    pub(super) jobs: Jobs,
    models: Vec<ServedModel>,
    events: BinaryHeap<Reverse<Event>>,
    planned: u64,
    /// What is planned for each replica: the number of the plan, and whether it is a step.
    plans: Vec<(u64, bool)>,
    open: Vec<Open>,
    closed: Vec<usize>,
    counted: f64,
    emissions: Vec<Emission>,
    finished: Vec<u32>,
    handed: Vec<u32>,
}

impl<W: Watcher> Service<W> {
    /// A service of replicas; the first `serving` of each model serve from the start.
    pub(super) fn new(models: Vec<ServedModel>, replicas: Vec<(Replica, bool)>, watcher: W) -> Self {
        let (replicas, serving): (Vec<_>, Vec<_>) = replicas.into_iter().unzip();
        let mut service = Self {
            now: 0.0,
            powered: serving.into_iter().map(Powered::new).collect(),
            plans: vec![(0, false); replicas.len()],
            replicas,
            timeline: ServiceTimeline::new(FIRST_INTERVAL),
            watcher,
            sent: 0,
            refused: 0,
            under_way: 0,
            area: 0.0,
            talking: 0,
            jobs: Jobs::default(),
            models,
            events: BinaryHeap::new(),
            planned: 0,
            open: Vec::new(),
            closed: Vec::new(),
            counted: 0.0,
            emissions: Vec::new(),
            finished: Vec::new(),
            handed: Vec::new(),
        };
        for model in 0..service.models.len() {
            if let Some(scaling) = service.models[model].autoscaling {
                service.plan(scaling.interval, Happening::Look { model });
            }
        }
        service
    }

    /// A generator of random numbers of a replica.
    pub(super) fn random(seed: u64, replica: usize) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(seed ^ super::blocks::mixed(replica as u64))
    }

    fn plan(&mut self, at: f64, what: Happening) -> u64 {
        self.planned += 1;
        self.events.push(Reverse(Event { at, order: self.planned, what }));
        self.planned
    }

    /// When the next thing happens of itself; looks of the autoscaler alone do not count.
    pub(super) fn next(&self) -> Option<f64> {
        if self.under_way == 0 && self.talking == 0 {
            return None;
        }
        self.events.peek().map(|event| event.0.at)
    }

    /// Goes to a time at which nothing else happens before.
    pub(super) fn go_to(&mut self, at: f64) {
        while self.timeline.next() <= at {
            let waiting: usize = self.replicas.iter().map(|replica| replica.waiting.len()).sum();
            let running: usize = self.replicas.iter().map(Replica::running).sum();
            let used: u64 = self.replicas.iter().map(|replica| replica.blocks.used()).sum();
            let total: u64 = self.replicas.iter().map(|replica| replica.blocks.total()).sum();
            let serving = self.powered.iter().filter(|powered| powered.is_open()).count();
            self.timeline.add(waiting as u64, running as u64, used as f64 / total.max(1) as f64, serving as u64);
        }
        self.now = self.now.max(at);
    }

    /// Counts what is under way up to now.
    pub(super) fn count_until_now(&mut self) {
        self.area += self.under_way as f64 * (self.now - self.counted);
        self.counted = self.now;
    }

    /// Begins a conversation with its first turn now, or after a pause.
    pub(super) fn begin(&mut self, conversation: Conversation, after: f64) {
        let Conversation { model, turns, pause, .. } = conversation;
        let open = Open { model: model as usize, turns: turns.into(), pause };
        let place = match self.closed.pop() {
            Some(place) => {
                self.open[place] = open;
                place
            }
            None => {
                self.open.push(open);
                self.open.len() - 1
            }
        };
        self.talking += 1;
        if after > 0.0 {
            self.plan(self.now + after, Happening::Turn { conversation: place });
            return;
        }
        self.send(place);
    }

    fn end_conversation(&mut self, conversation: usize) {
        self.talking -= 1;
        self.open[conversation] = Open::default();
        self.closed.push(conversation);
    }

    /// Sends the next turn of a conversation.
    fn send(&mut self, conversation: usize) {
        let model = self.open[conversation].model;
        let Some(turn) = self.open[conversation].turns.pop_front() else {
            self.end_conversation(conversation);
            return;
        };
        if self.submit(turn, model, conversation).is_none() {
            // Who is turned away does not come back.
            self.refused += 1 + self.open[conversation].turns.len() as u64;
            self.end_conversation(conversation);
        }
    }

    /// Replicas that take requests of a model for a phase: reading prompts, or generating alone.
    fn serving(&self, model: usize, generates: bool) -> Vec<usize> {
        let fits = |index: &usize| {
            let replica = &self.replicas[*index];
            let role = (replica.role == ReplicaRole::Decode) == generates;
            replica.model == model && role && self.powered[*index].is_open()
        };
        (0..self.replicas.len()).filter(fits).collect()
    }

    /// Gives a request to a replica, and returns its place; `None` if the queue there is full.
    pub(super) fn submit(&mut self, turn: Turn, model: usize, conversation: usize) -> Option<u32> {
        let open = self.serving(model, false);
        let replica = self.models[model].routers[0].choose(&self.replicas, &open, &turn)?;
        let waiting = self.replicas[replica].waiting.len();
        if self.models[model].queue.is_some_and(|most| waiting >= most) {
            return None;
        }
        self.count_until_now();
        self.under_way += 1;
        let goal = turn.input;
        let job = Job { turn, number: self.sent, model, conversation, sent: self.now, goal, ..Job::default() };
        self.sent += 1;
        let place = self.jobs.add(job);
        self.enqueue(place, replica);
        Some(place)
    }

    fn enqueue(&mut self, place: u32, replica: usize) {
        let job = &self.jobs[place];
        self.replicas[replica].waiting.add(place, job.turn.priority, job.number);
        // A replica that steps looks at its queue when it is done.
        if !self.plans[replica].1 {
            self.begin_step(replica);
        }
    }

    fn begin_step(&mut self, replica: usize) {
        let (at, steps) = match self.replicas[replica].begin(self.now, &mut self.jobs) {
            NextStep::Ends(at) => (at, true),
            NextStep::Waits(at) => (at, false),
            NextStep::Idles => {
                self.plans[replica] = (0, false);
                if self.powered[replica].state == PowerState::Drains && self.replicas[replica].outstanding() == 0 {
                    self.powered[replica].stop(self.now);
                }
                return;
            }
        };
        let number = self.planned + 1;
        self.plan(at, Happening::Step { replica, plan: number });
        self.plans[replica] = (number, steps);
    }

    /// Does what happens next.
    pub(super) fn step(&mut self) {
        let Some(Reverse(event)) = self.events.pop() else { return };
        self.go_to(event.at);
        match event.what {
            Happening::Step { replica, plan } if self.plans[replica].0 == plan => {
                if self.plans[replica].1 {
                    self.end_step(replica);
                }
                self.begin_step(replica);
            }
            Happening::Step { .. } => {}
            Happening::Turn { conversation } => self.send(conversation),
            Happening::Handed { place, from, to } => {
                self.replicas[from].close(place, &mut self.jobs);
                self.enqueue(place, to);
                if !self.plans[from].1 {
                    self.begin_step(from);
                }
            }
            Happening::Look { model } => self.look(model),
            Happening::Up { replica } => {
                self.powered[replica].state = PowerState::Serves;
            }
        }
    }

    fn end_step(&mut self, replica: usize) {
        let mut emissions = std::mem::take(&mut self.emissions);
        let mut finished = std::mem::take(&mut self.finished);
        let mut handed = std::mem::take(&mut self.handed);
        self.replicas[replica].end(self.now, &mut self.jobs, &mut emissions, &mut finished, &mut handed);
        for emission in emissions.drain(..) {
            let job = &mut self.jobs[emission.place];
            if job.made == emission.tokens {
                job.first = emission.at;
            }
            let is_last = job.made == job.turn.output;
            self.watcher.tokens(job, &emission, is_last);
            job.last = emission.at;
        }
        for place in handed.drain(..) {
            let job = &self.jobs[place];
            let (model, bytes) = (job.model, f64::from(job.kept) * self.replicas[replica].costs.kv_bytes);
            let open = self.serving(model, true);
            let to = self.models[model].routers[1].choose(&self.replicas, &open, &job.turn);
            if let (Some(to), Some(links)) = (to, &mut self.models[model].links) {
                let at = links.send(replica, to, bytes, self.now);
                self.plan(at, Happening::Handed { place, from: replica, to });
            }
        }
        for place in finished.drain(..) {
            self.count_until_now();
            self.under_way -= 1;
            self.replicas[replica].close(place, &mut self.jobs);
            let job = self.jobs.remove(place);
            if job.left {
                continue;
            }
            let Some(open) = self.open.get(job.conversation) else { continue };
            let (more, pause) = (!open.turns.is_empty(), open.pause);
            if more {
                self.plan(self.now + pause, Happening::Turn { conversation: job.conversation });
            } else {
                self.end_conversation(job.conversation);
            }
        }
        (self.emissions, self.finished, self.handed) = (emissions, finished, handed);
    }

    /// A client has left: its request gets no more tokens.
    pub(super) fn cancel(&mut self, place: u32) {
        let (priority, number) = (self.jobs[place].turn.priority, self.jobs[place].number);
        let waits = self.replicas.iter_mut().any(|replica| replica.waiting.remove(place, priority, number));
        if waits {
            self.count_until_now();
            self.under_way -= 1;
            self.jobs.remove(place);
            return;
        }
        // Its blocks are free when its step is over.
        let job = &mut self.jobs[place];
        job.left = true;
        job.turn.output = job.turn.output.min(job.made + 1);
    }

    fn look(&mut self, model: usize) {
        let Some(scaling) = self.models[model].autoscaling else { return };
        self.plan(self.now + scaling.interval, Happening::Look { model });
        let of_model: Vec<usize> = (0..self.replicas.len()).filter(|&at| self.replicas[at].model == model).collect();
        let requests = of_model.iter().map(|&at| self.replicas[at].outstanding()).sum();
        let wanted = scaling.wanted(requests);
        let coming = of_model.iter().filter(|&&at| self.powered[at].is_coming()).count() as u64;
        if wanted >= coming {
            self.models[model].calm_since = None;
        }
        let ready = self.now + scaling.startup.unwrap_or(self.models[model].startup);
        let off = of_model.iter().copied().filter(|&at| self.powered[at].state == PowerState::Off);
        for replica in off.take(wanted.saturating_sub(coming) as usize).collect::<Vec<_>>() {
            self.powered[replica].start(self.now, ready);
            self.plan(ready, Happening::Up { replica });
        }
        if wanted < coming {
            let since = *self.models[model].calm_since.get_or_insert(self.now);
            let open = of_model.iter().copied().filter(|&at| self.powered[at].is_open());
            if self.now - since >= scaling.patience
                && let Some(last) = open.min_by_key(|&at| self.replicas[at].outstanding())
            {
                self.powered[last].state = PowerState::Drains;
                if self.replicas[last].outstanding() == 0 {
                    self.powered[last].stop(self.now);
                }
            }
        }
    }
}
