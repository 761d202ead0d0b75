//! The least machines that keep a rate and its limits: layouts, splits and numbers of replicas, tried under load.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use trn3_system::{Error, Result, check_interrupt};

use super::answer::LoadAnswer;
use super::deployment::Deployment;
use super::request::{DeploymentRequest, LoadRequest, ReplicaCounts, ServerRequest};
use super::run::sizes;
use super::spread::NumberOrText;
use super::target::SizeTarget;
use super::traffic_request::TrafficRequest;
use crate::{Layout, PlanRequest, Split};

/// Layouts of a search that are tried under load, of each objective **(choice)**.
const LAYOUTS: usize = 5;

/// Sequences of a step that are tried where none are given **(choice)**.
const SEQUENCES: [u64; 4] = [8, 32, 128, 256];

/// Requests of a trial of one replica, and of each replica of a trial of all **(choice)**: enough that one in a hundred is
/// more than a few.
const REQUESTS: u64 = 1_000;
const REQUESTS_A_REPLICA: u64 = 100;
const MOST_REQUESTS: u64 = 100_000;

/// Layouts whose chips are so many times the fewest, by what one replica keeps, are served whole too **(choice)**: replicas
/// that share a queue may keep much more than one alone.
const NEAR: f64 = 2.0;

/// Halvings of the range in which the rate of one replica lies.
const HALVINGS: usize = 7;

/// What to size for what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeRequest {
    /// The rate and the limits, as [`SizeTarget::parse`] reads them.
    pub target: String,
    /// The model on each of the systems that are compared; degrees that are given are kept.
    pub models: Vec<DeploymentRequest>,
    /// What comes; its rate is the target's.
    #[serde(default)]
    pub traffic: TrafficRequest,
    /// What decides everything that is drawn.
    #[serde(default)]
    pub seed: u64,
}

/// What keeps a target on the systems that were asked for.
#[derive(Clone, Debug, Serialize)]
pub struct SizeAnswer {
    /// What was asked for.
    pub target: SizeTarget,
    /// One for each system, in the order in which they were named.
    pub systems: Vec<SizedSystem>,
}

/// The least of one system.
#[derive(Clone, Debug, Serialize)]
pub struct SizedSystem {
    /// Its name.
    pub system: String,
    /// The fewest chips; `None` if no layout keeps the limits.
    pub best: Option<SizedFleet>,
    /// What else keeps them, such that nothing has fewer chips and a smaller wait: chips rise.
    pub frontier: Vec<SizedFleet>,
    /// Layouts that were tried under load.
    pub tried: usize,
    /// Why there is none, or how near the nearest comes.
    pub why_not: Option<String>,
}

/// A fleet that keeps a target.
#[derive(Clone, Debug, Serialize)]
pub struct SizedFleet {
    /// Its layout.
    #[serde(flatten)]
    pub layout: Layout,
    /// How its replicas are split.
    pub replica_counts: ReplicaCounts,
    /// Sequences of a step at most.
    pub max_num_seqs: u64,
    /// Chips, the last one perhaps in part.
    pub chips: u64,
    /// Systems that these are.
    pub machines: u64,
    /// Requests a second that one replica, or one pair of splits, keeps.
    pub rate_of_replica: f64,
    /// US dollars an hour, where a price is known.
    pub dollars_per_hour: Option<f64>,
    /// What it does under the whole load.
    pub served: LoadAnswer,
}

/// What one replica of a layout keeps.
#[derive(Clone, Debug)]
struct Trial {
    candidate: Candidate,
    deployments: Vec<Deployment>,
    /// Requests a second.
    rate: f64,
    /// The 99th percentile of their times to the last token, milliseconds.
    wait: f64,
    /// Chips of one unit.
    chips: f64,
}

/// Trials that may be the least machines, or have no fewer chips and smaller waits than another: the others are not
/// served whole.
fn promising(mut trials: Vec<Trial>, rate: f64) -> Vec<Trial> {
    let chips = |trial: &Trial| (rate / trial.rate).ceil() * trial.chips;
    trials.sort_by(|left, right| chips(left).total_cmp(&chips(right)).then(left.wait.total_cmp(&right.wait)));
    let least = trials.first().map_or(0.0, chips);
    let mut best = f64::INFINITY;
    trials.retain(|trial| {
        let better = trial.wait < best;
        best = best.min(trial.wait);
        better || chips(trial) <= NEAR * least
    });
    trials
}

/// A layout to be tried.
#[derive(Clone, Debug)]
struct Candidate {
    model: DeploymentRequest,
    layout: Layout,
    /// Replicas of one unit: one, or those of a split.
    unit: ReplicaCounts,
}

impl Candidate {
    /// Replicas of a unit.
    fn units(&self) -> u64 {
        self.unit.both + self.unit.prefill + self.unit.decode
    }
}

impl SizeRequest {
    /// Looks for the least machines on every system.
    ///
    /// # Errors
    /// [`Error::Value`] if the target or an option is wrong; those of the traffic. A system on which nothing keeps the
    /// target says so in its place.
    pub fn size(&self) -> Result<SizeAnswer> {
        let target = SizeTarget::parse(&self.target)?;
        if self.traffic.users.is_some() || self.traffic.rate.is_some() {
            return Err(Error::Value("size_for has the rate; give no other rate and no users".to_owned()));
        }
        let systems: Result<Vec<_>> = self.models.iter().map(|model| self.on(model, &target)).collect();
        Ok(SizeAnswer { target, systems: systems? })
    }

    fn on(&self, model: &DeploymentRequest, target: &SizeTarget) -> Result<SizedSystem> {
        let system = model.plan.system.name.clone();
        let none = |why: String, tried: usize| SizedSystem {
            system: system.clone(),
            best: None,
            frontier: Vec::new(),
            tried,
            why_not: Some(why),
        };
        let candidates = match self.candidates(model, target) {
            Ok(candidates) => candidates,
            // What no plan keeps alone, no load will.
            Err(error @ (Error::Memory(_) | Error::Value(_))) => return Ok(none(error.to_string(), 0)),
            Err(error) => return Err(error),
        };
        let tried = candidates.len();
        let trials: Result<Vec<Option<Trial>>> = candidates
            .par_iter()
            .map(|candidate| {
                check_interrupt().map_err(Error::from)?;
                self.trial(candidate, target)
            })
            .collect();
        let fleets: Result<Vec<Option<SizedFleet>>> = promising(trials?.into_iter().flatten().collect(), target.rate)
            .par_iter()
            .map(|trial| {
                check_interrupt().map_err(Error::from)?;
                self.smallest(trial, target)
            })
            .collect();
        let mut fleets: Vec<SizedFleet> = fleets?.into_iter().flatten().collect();
        let wait = |fleet: &SizedFleet| fleet.served.waits["p99_e2el_ms"];
        fleets.sort_by(|left, right| (left.chips.cmp(&right.chips)).then(wait(left).total_cmp(&wait(right))));
        let mut frontier: Vec<SizedFleet> = Vec::new();
        for fleet in fleets {
            if frontier.last().is_none_or(|last| wait(&fleet) < wait(last)) {
                frontier.push(fleet);
            }
        }
        match frontier.first() {
            None => Ok(none(format!("none of {tried} layouts keeps the limits, at any rate"), tried)),
            Some(best) => Ok(SizedSystem {
                system,
                best: Some(best.clone()),
                frontier: frontier.split_off(1),
                tried,
                why_not: None,
            }),
        }
    }

    /// Layouts that keep the limits without load: the best of a search for throughput and for time a token.
    fn candidates(&self, model: &DeploymentRequest, target: &SizeTarget) -> Result<Vec<Candidate>> {
        let sizes = sizes(&self.load(model, 1.0, 1, REQUESTS))?[0];
        let whole = |value: f64| (value.round() as u64).max(1);
        let asked = PlanRequest { input: whole(sizes.input), output: whole(sizes.output), ..model.plan.clone() };
        let fixed = [asked.tp, asked.cp, asked.dp, asked.ep, asked.pp].iter().any(Option::is_some);
        let mut layouts: Vec<Layout> = Vec::new();
        if fixed {
            let found = PlanRequest { batch: Some(1), replicas: Some(1), ..asked }.planned()?;
            layouts.push(found.layout());
        } else {
            for objective in ["throughput", "tpot"] {
                let search = PlanRequest {
                    objective: Some(objective.to_owned()),
                    ttft_slo: target.tightest("ttft"),
                    tpot_slo: target.tightest("tpot").or(target.tightest("itl")),
                    keep: Some(LAYOUTS),
                    ..asked.clone()
                };
                let found = search.search()?;
                layouts.extend(std::iter::once(&found.best).chain(&found.ranked).map(|plan| plan.layout()));
            }
        }
        let mut seen: Vec<Split> = Vec::new();
        layouts.retain(|layout| {
            let new = !seen.contains(&layout.split);
            seen.push(layout.split);
            new
        });
        let sequences = model.server.max_num_seqs.map_or_else(|| SEQUENCES.to_vec(), |given| vec![given]);
        let one = ReplicaCounts { both: 1, ..ReplicaCounts::default() };
        let units = if model.replicas.prefill > 0 {
            vec![model.replicas]
        } else {
            // Prompts apart, in the splits that are usual.
            let apart = [(1, 1), (1, 3), (3, 1)].map(|(prefill, decode)| ReplicaCounts { both: 0, prefill, decode });
            std::iter::once(one).chain(apart).collect()
        };
        let mut all = Vec::new();
        for layout in layouts {
            for &max_num_seqs in &sequences {
                for &unit in &units {
                    let Split { tp, cp, dp, ep, pp } = layout.split;
                    let degrees = PlanRequest {
                        tp: Some(tp),
                        cp: Some(cp),
                        dp: Some(dp),
                        ep: Some(ep),
                        pp: Some(pp),
                        replicas: Some(1),
                        lnc: Some(layout.lnc),
                        ..model.plan.clone()
                    };
                    let server = ServerRequest { max_num_seqs: Some(max_num_seqs), ..model.server.clone() };
                    let model = DeploymentRequest { plan: degrees, server, any_machines: true, ..model.clone() };
                    all.push(Candidate { model, layout, unit });
                }
            }
        }
        Ok(all)
    }

    /// The load of a trial.
    fn load(&self, model: &DeploymentRequest, rate: f64, units: u64, requests: u64) -> LoadRequest {
        let counts = model.replicas;
        let replicas =
            ReplicaCounts { both: counts.both * units, prefill: counts.prefill * units, decode: counts.decode * units };
        let model = DeploymentRequest { replicas, ..model.clone() };
        let requests = Some(self.traffic.requests.unwrap_or(requests).min(requests));
        let traffic = TrafficRequest { rate: Some(NumberOrText::from(rate)), requests, ..self.traffic.clone() };
        LoadRequest { models: vec![model], traffic, goodput: None, seed: self.seed, bands: false }
    }

    /// The rate that one replica of a layout keeps; `None` if it keeps none.
    fn trial(&self, candidate: &Candidate, target: &SizeTarget) -> Result<Option<Trial>> {
        let model = DeploymentRequest { replicas: candidate.unit, ..candidate.model.clone() };
        let load = |rate: f64| self.load(&model, rate, 1, REQUESTS);
        let deployments = match load(f64::INFINITY).deployments() {
            Ok(deployments) => deployments,
            Err(Error::Memory(_) | Error::Value(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (mut low, mut wait) = (0.0, f64::INFINITY);
        let mut high = load(f64::INFINITY).serve_on(&deployments)?.request_throughput;
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            let served = load(middle).serve_on(&deployments)?;
            if is_kept(&served, target, middle) {
                (low, wait) = (middle, served.waits["p99_e2el_ms"]);
            } else {
                high = middle;
            }
        }
        let chips = deployments.iter().map(|one| one.chips).sum::<f64>() * candidate.units() as f64;
        let candidate = candidate.clone();
        Ok((low > 0.0).then_some(Trial { candidate, deployments, rate: low, wait, chips }))
    }

    /// From what one replica keeps to the fewest that keep all: more of them share their queues better.
    fn smallest(&self, trial: &Trial, target: &SizeTarget) -> Result<Option<SizedFleet>> {
        let Trial { candidate, deployments, rate: rate_of_replica, .. } = trial;
        let rate_of_replica = *rate_of_replica;
        let model = DeploymentRequest { replicas: candidate.unit, ..candidate.model.clone() };
        let serve = |units: u64| -> Result<LoadAnswer> {
            let requests = (REQUESTS + REQUESTS_A_REPLICA * units).min(MOST_REQUESTS);
            let load = self.load(&model, target.rate, units, requests);
            let counts = load.models[0].replicas;
            let of_all: Vec<Deployment> = deployments.iter().map(|one| one.with_replicas(counts)).collect();
            load.serve_on(&of_all)
        };
        let first = (target.rate / rate_of_replica).ceil().max(1.0) as u64;
        let mut units = first;
        let mut served = serve(units)?;
        while !is_kept(&served, target, target.rate) {
            units += units.div_ceil(20);
            if units > 2 * first + 2 {
                return Ok(None);
            }
            served = serve(units)?;
        }
        while units > 1 {
            let fewer = units - units.div_ceil(20);
            if fewer == 0 {
                break;
            }
            let found = serve(fewer)?;
            if !is_kept(&found, target, target.rate) {
                break;
            }
            (units, served) = (fewer, found);
        }
        let unit = candidate.unit;
        let counts =
            ReplicaCounts { both: unit.both * units, prefill: unit.prefill * units, decode: unit.decode * units };
        let replicas = counts.both + counts.prefill + counts.decode;
        let layout = Layout { replicas, ..candidate.layout };
        let machine = candidate.model.plan.system.load()?;
        let per_chip = u64::from(machine.chip.rank(layout.lnc)?.per_chip);
        let chips_there = u64::from(machine.chips);
        let room = machine.room(layout.split.ranks(), per_chip, chips_there * per_chip).max(1);
        Ok(Some(SizedFleet {
            layout,
            replica_counts: counts,
            max_num_seqs: candidate.model.server.max_num_seqs.unwrap_or_default(),
            chips: layout.chips(per_chip as u32),
            machines: replicas.div_ceil(room),
            rate_of_replica,
            dollars_per_hour: served.cost.map(|cost| cost.per_hour),
            served,
        }))
    }
}

/// Whether limits hold and the queue does not grow: what came in is served in about the time in which it came.
fn is_kept(served: &LoadAnswer, target: &SizeTarget, rate: f64) -> bool {
    /// How much longer than the traffic a run may last beside its last request **(choice)**.
    const TAIL: f64 = 1.1;

    let longest = served.num_prompts as f64 / rate * TAIL + 2.0 * served.waits["p99_e2el_ms"] / 1e3;
    let within = |(name, limit): &(String, f64)| served.waits.get(name).is_some_and(|value| value < limit);
    served.failed == 0 && served.duration <= longest && target.limits.iter().all(within)
}
