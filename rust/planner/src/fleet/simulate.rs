//! A job on a fleet, from one event to the next.
//!
//! Failures of all parts of a kind are one process: with `n` parts of rate `r` one of rate `n r`, so that a run costs as
//! many steps as there are events and checkpoints, whatever the number of chips.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::RngExt;
use rand_distr::{Distribution, Exp};
use rand_pcg::Pcg64;
use serde::Serialize;
use trn3_system::{Error, Result};

use super::parts::PartEffect;

/// Events of one run at most: beyond, nothing but failures happens.
const MOST_EVENTS: u64 = 50_000_000;

/// A kind of failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hazard {
    /// Failures a second of all parts together, on average over the run.
    pub rate: f64,
    pub effect: PartEffect,
    /// Seconds until it is known.
    pub detection: f64,
}

/// What is simulated; all times are seconds.
#[derive(Clone, Debug)]
pub(super) struct FleetModel {
    pub horizon: f64,
    pub hazards: Vec<Hazard>,
    /// Shape of the Weibull distribution of a part's life: 1 for failures at random, less for those of youth.
    pub shape: f64,
    pub interval: f64,
    /// Of a checkpoint: while work stands still, and until it is safe.
    pub blocking: f64,
    pub write: f64,
    pub load: f64,
    pub warm_up: f64,
    pub swap: f64,
    pub cold_swap: f64,
    pub hot: u64,
    pub cold: u64,
    /// Mean time of a repair.
    pub repair: f64,
    /// Mean time until a slow chip is found.
    pub straggler_detection: f64,
    /// A step over one without jitter.
    pub jitter: f64,
    /// Part of a step that waits for collectives within a system.
    pub comm_share: f64,
}

/// Where the time of a run went, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FleetTimes {
    /// Work that was kept, at whatever speed.
    pub training: f64,
    /// What of it would have been enough at full speed.
    pub ideal: f64,
    /// Work that was done and lost with a failure.
    pub lost_work: f64,
    /// Work stood still for checkpoints.
    pub checkpoints: f64,
    /// Until failures were known.
    pub detection: f64,
    /// Until spares took the places of what failed.
    pub swap: f64,
    /// No spare was there.
    pub waiting_for_repair: f64,
    /// Checkpoints were loaded.
    pub loading: f64,
    /// Processes started and compiled.
    pub warm_up: f64,
}

impl FleetTimes {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.training
            + self.lost_work
            + self.checkpoints
            + self.detection
            + self.swap
            + self.waiting_for_repair
            + self.loading
            + self.warm_up
    }

    /// The parts of the whole, by name.
    pub fn shares(&self) -> [(&'static str, f64); 9] {
        let total = self.total();
        [
            ("training", self.ideal),
            ("slower steps", self.training - self.ideal),
            ("lost work", self.lost_work),
            ("checkpoints", self.checkpoints),
            ("detection", self.detection),
            ("swap", self.swap),
            ("waiting for repair", self.waiting_for_repair),
            ("loading", self.loading),
            ("warm-up", self.warm_up),
        ]
        .map(|(name, seconds)| (name, seconds / total))
    }

    /// The same, `part` of each.
    pub(super) fn scaled(&self, part: f64) -> Self {
        Self {
            training: self.training * part,
            ideal: self.ideal * part,
            lost_work: self.lost_work * part,
            checkpoints: self.checkpoints * part,
            detection: self.detection * part,
            swap: self.swap * part,
            waiting_for_repair: self.waiting_for_repair * part,
            loading: self.loading * part,
            warm_up: self.warm_up * part,
        }
    }

    /// Both together.
    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            training: self.training + other.training,
            ideal: self.ideal + other.ideal,
            lost_work: self.lost_work + other.lost_work,
            checkpoints: self.checkpoints + other.checkpoints,
            detection: self.detection + other.detection,
            swap: self.swap + other.swap,
            waiting_for_repair: self.waiting_for_repair + other.waiting_for_repair,
            loading: self.loading + other.loading,
            warm_up: self.warm_up + other.warm_up,
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FleetRun {
    pub times: FleetTimes,
    /// Failures that stopped the job.
    pub interruptions: u64,
    /// Stops that were planned, those for slow chips included.
    pub pauses: u64,
    /// Failures that only slowed it.
    pub degradations: u64,
    /// Checkpoints that became safe.
    pub checkpoints: u64,
}

impl FleetModel {
    /// Runs once; the same seed and number give the same run.
    pub(super) fn run(&self, seed: u64, number: u64) -> Result<FleetRun> {
        let mut job = Job::new(self, Pcg64::new(u128::from(seed), u128::from(number)))?;
        for _ in 0..MOST_EVENTS {
            if job.advance() {
                return Ok(job.run);
            }
        }
        Err(Error::Value(format!(
            "days are {}: more than {MOST_EVENTS} failures and checkpoints; give fewer days, or a longer checkpoint_interval",
            self.horizon / 86_400.0
        )))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Working,
    /// For a checkpoint; then a planned stop may follow.
    Standing {
        then_stops: bool,
    },
    Detecting,
    Swapping,
    Waiting,
    Loading,
    Warming,
}

/// What ends by itself, at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Degradation(f64),
    Straggler(f64),
}

/// A time, in the order of times.
#[derive(Clone, Copy, Debug, PartialEq)]
struct At<T>(f64, T);

impl<T: PartialEq> Eq for At<T> {}

impl<T: PartialEq> PartialOrd for At<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: PartialEq> Ord for At<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Work of a span: seconds that it took, and that it would have taken at full speed.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    wall: f64,
    ideal: f64,
}

/// What slows the job now: factors, of which there are as few as kinds of parts, and how many parts have each.
#[derive(Clone, Debug, Default)]
struct Slowing(Vec<(f64, u64)>);

impl Slowing {
    fn add(&mut self, factor: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == factor) {
            Some((_, count)) => *count += 1,
            None => self.0.push((factor, 1)),
        }
    }

    fn take(&mut self, factor: f64) {
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == factor) {
            *count -= 1;
        }
    }

    fn worst(&self) -> f64 {
        self.0.iter().filter(|(_, count)| *count > 0).map(|(factor, _)| *factor).fold(1.0, f64::max)
    }
}

struct Job<'a> {
    model: &'a FleetModel,
    random: Pcg64,
    repair: Option<Exp<f64>>,
    finding: Option<Exp<f64>>,
    time: f64,
    stage: Stage,
    /// When the stage ends by itself; of work, when the next checkpoint is due.
    until: f64,
    /// When each hazard strikes next.
    strikes: Vec<f64>,
    ends: BinaryHeap<Reverse<At<Ends>>>,
    repairs: BinaryHeap<Reverse<At<()>>>,
    collectives: Slowing,
    stragglers: Slowing,
    hot: u64,
    cold: u64,
    /// Systems that have to be replaced before the job goes on.
    missing: u64,
    /// Work since what the last safe checkpoint has.
    pending: Work,
    /// What a checkpoint in the background holds of it, and when it is safe.
    writing: Option<(f64, Work)>,
    run: FleetRun,
}

impl<'a> Job<'a> {
    fn new(model: &'a FleetModel, random: Pcg64) -> Result<Self> {
        let mean = |seconds: f64| {
            let wrong = |error| Error::Value(format!("a mean time of {seconds} s cannot be drawn: {error}"));
            (seconds > 0.0).then(|| Exp::new(1.0 / seconds).map_err(wrong)).transpose()
        };
        let mut job = Self {
            repair: mean(model.repair)?,
            finding: mean(model.straggler_detection)?,
            model,
            random,
            time: 0.0,
            stage: Stage::Working,
            until: model.interval,
            strikes: Vec::new(),
            ends: BinaryHeap::new(),
            repairs: BinaryHeap::new(),
            collectives: Slowing::default(),
            stragglers: Slowing::default(),
            hot: model.hot,
            cold: model.cold,
            missing: 0,
            pending: Work::default(),
            writing: None,
            run: FleetRun::default(),
        };
        job.strikes = (0..model.hazards.len()).map(|hazard| job.next_strike(hazard)).collect();
        Ok(job)
    }

    /// When a hazard strikes after now. Its cumulated rate is `rate horizon (t / horizon)^shape`: the average of the run
    /// is the given one for every shape.
    fn next_strike(&mut self, hazard: usize) -> f64 {
        let (model, rate) = (self.model, self.model.hazards[hazard].rate);
        if rate <= 0.0 {
            return f64::INFINITY;
        }
        // 1 - u is never 0.
        let drawn = -(1.0 - self.random.random::<f64>()).ln();
        if model.shape == 1.0 {
            return self.time + drawn / rate;
        }
        let whole = rate * model.horizon;
        let so_far = whole * (self.time / model.horizon).powf(model.shape);
        model.horizon * ((so_far + drawn) / whole).powf(1.0 / model.shape)
    }

    fn speed(&self) -> f64 {
        let collectives = 1.0 + self.model.comm_share * (self.collectives.worst() - 1.0);
        1.0 / (self.model.jitter * collectives * self.stragglers.worst())
    }

    /// Goes to the next event; whether that is the end.
    fn advance(&mut self) -> bool {
        let first = |best: (usize, f64), (index, at): (usize, &f64)| if *at < best.1 { (index, *at) } else { best };
        let (hazard, strike) = self.strikes.iter().enumerate().fold((usize::MAX, f64::INFINITY), first);
        let ending = self.ends.peek().map_or(f64::INFINITY, |Reverse(at)| at.0);
        let safe = self.writing.map_or(f64::INFINITY, |(at, _)| at);
        let next = strike.min(ending).min(safe).min(self.until).min(self.model.horizon);
        self.book(next - self.time);
        self.time = next;
        if next >= self.model.horizon {
            self.keep(self.pending);
            return true;
        }
        if next == safe {
            if let Some((_, work)) = self.writing.take() {
                self.keep(work);
                self.run.checkpoints += 1;
            }
        } else if next == ending {
            self.end();
        } else if next == strike {
            self.strikes[hazard] = self.next_strike(hazard);
            self.strike(self.model.hazards[hazard]);
        } else {
            self.leave();
        }
        false
    }

    fn book(&mut self, seconds: f64) {
        let times = &mut self.run.times;
        match self.stage {
            Stage::Standing { .. } => times.checkpoints += seconds,
            Stage::Detecting => times.detection += seconds,
            Stage::Swapping => times.swap += seconds,
            Stage::Waiting => times.waiting_for_repair += seconds,
            Stage::Loading => times.loading += seconds,
            Stage::Warming => times.warm_up += seconds,
            Stage::Working => {
                let speed = self.speed();
                self.pending.wall += seconds;
                self.pending.ideal += seconds * speed;
            }
        }
    }

    /// Work that no failure takes back.
    fn keep(&mut self, work: Work) {
        self.run.times.training += work.wall;
        self.run.times.ideal += work.ideal;
        self.pending.wall -= work.wall;
        self.pending.ideal -= work.ideal;
    }

    fn enter(&mut self, stage: Stage, seconds: f64) {
        self.stage = stage;
        self.until = self.time + seconds;
    }

    /// What follows a stage that has ended by itself.
    fn leave(&mut self) {
        let model = self.model;
        match self.stage {
            Stage::Working => self.enter(Stage::Standing { then_stops: false }, model.blocking),
            Stage::Standing { then_stops } => {
                if then_stops || model.blocking >= model.write {
                    self.keep(self.pending);
                    self.run.checkpoints += 1;
                    self.writing = None;
                } else {
                    self.writing = Some((self.time + model.write - model.blocking, self.pending));
                }
                if then_stops {
                    self.replace();
                } else {
                    self.enter(Stage::Working, model.interval);
                }
            }
            Stage::Detecting | Stage::Waiting => self.replace(),
            Stage::Swapping => self.enter(Stage::Loading, model.load),
            Stage::Loading => self.enter(Stage::Warming, model.warm_up),
            Stage::Warming => self.enter(Stage::Working, model.interval),
        }
    }

    /// Puts spares into the places of what is missing, all at once, or waits for the next repair.
    fn replace(&mut self) {
        while self.repairs.peek().is_some_and(|Reverse(at)| at.0 <= self.time) {
            self.repairs.pop();
            self.hot += 1;
        }
        let hot = self.missing.min(self.hot);
        let cold = (self.missing - hot).min(self.cold);
        (self.hot, self.cold, self.missing) = (self.hot - hot, self.cold - cold, self.missing - hot - cold);
        if self.missing > 0 {
            let next = self.repairs.peek().map_or(self.model.horizon, |Reverse(at)| at.0);
            return self.enter(Stage::Waiting, next - self.time);
        }
        let swap = match (hot, cold) {
            // Nothing is to be replaced: the job is only started again.
            (0, 0) => 0.0,
            (_, 0) => self.model.swap,
            _ => self.model.cold_swap,
        };
        self.enter(Stage::Swapping, swap);
    }

    fn lose_system(&mut self) {
        self.missing += 1;
        let seconds = self.repair.map_or(0.0, |law| law.sample(&mut self.random));
        self.repairs.push(Reverse(At(self.time + seconds, ())));
    }

    fn strike(&mut self, hazard: Hazard) {
        match hazard.effect {
            PartEffect::Stops { replaces } => {
                self.run.interruptions += 1;
                if replaces {
                    self.lose_system();
                }
                self.run.times.lost_work += self.pending.wall;
                (self.pending, self.writing) = (Work::default(), None);
                self.enter(Stage::Detecting, hazard.detection);
            }
            PartEffect::Pauses => self.pause(false),
            PartEffect::SlowsCollectives { factor } => {
                self.run.degradations += 1;
                self.collectives.add(factor);
                let seconds = self.repair.map_or(0.0, |law| law.sample(&mut self.random));
                self.ends.push(Reverse(At(self.time + seconds, Ends::Degradation(factor))));
            }
            PartEffect::SlowsSteps { factor } => {
                self.run.degradations += 1;
                self.stragglers.add(factor);
                let seconds = self.finding.map_or(0.0, |law| law.sample(&mut self.random));
                self.ends.push(Reverse(At(self.time + seconds, Ends::Straggler(factor))));
            }
        }
    }

    /// Stops behind a checkpoint; a job that stands or restarts already does so without a further one.
    fn pause(&mut self, loses: bool) {
        self.run.pauses += 1;
        if loses {
            self.lose_system();
        }
        match self.stage {
            Stage::Working => {
                self.writing = None;
                self.enter(Stage::Standing { then_stops: true }, self.model.write);
            }
            Stage::Standing { .. } => {
                let left = self.until - self.time + self.model.write - self.model.blocking;
                self.enter(Stage::Standing { then_stops: true }, left);
            }
            _ if loses => self.enter(Stage::Detecting, 0.0),
            // What was planned is done while the job is down.
            _ => {}
        }
    }

    fn end(&mut self) {
        let Some(Reverse(At(_, what))) = self.ends.pop() else { return };
        match what {
            Ends::Degradation(factor) => self.collectives.take(factor),
            Ends::Straggler(factor) => {
                self.stragglers.take(factor);
                self.pause(true);
            }
        }
    }
}
