//! What a service is answered with: the figures of load generators, and ours beside them.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value, json};
use trn3_system::Result;

use super::deployment::Deployment;
use super::request::LoadRequest;
use super::run::{RunWaits, run, sizes};
use super::service::Service;
use super::statistics::{ServiceTimeline, WaitSummary};
use super::traffic::Traffic;
use crate::PlanSummary;

/// Seconds of an hour.
const HOUR: f64 = 3600.0;

/// A service under load.
///
/// The names up to `e2el` are those of vLLM's benchmark; times are simulated ones.
#[derive(Clone, Debug, Serialize)]
pub struct LoadAnswer {
    /// Seconds from the first request to the last token.
    pub duration: f64,
    /// Requests that got all of their tokens.
    pub completed: u64,
    /// Requests that a full queue turned away.
    pub failed: u64,
    /// Requests in all.
    pub num_prompts: u64,
    /// Requests a second as asked for: a number, `inf`, or nothing where traffic has times of its own.
    pub request_rate: Option<Value>,
    /// Requests under way at most, as asked for; the users of a closed loop.
    pub max_concurrency: Option<u64>,
    /// Tokens of prompts of completed requests.
    pub total_input_tokens: u64,
    /// Tokens that were generated.
    pub total_output_tokens: u64,
    /// Completed requests a second.
    pub request_throughput: f64,
    /// Good ones a second, where limits were given.
    pub request_goodput: Option<f64>,
    /// Generated tokens a second.
    pub output_throughput: f64,
    /// Tokens a second, those of prompts too.
    pub total_token_throughput: f64,
    /// `mean_ttft_ms` and so on.
    #[serde(flatten)]
    pub waits: IndexMap<String, f64>,
    /// Between which values figures are expected: at the ends of the bands of the plans' times.
    pub bands: Option<BTreeMap<String, [f64; 2]>>,
    /// Why the bands are as wide as they are.
    pub band: Vec<String>,
    /// Average number of requests under way, and what Little's law says: requests a second times their mean time.
    pub little: LittlesLaw,
    /// Every model: its layout and its replicas.
    pub models: Vec<ModelUnderLoad>,
    /// Chips while there were requests, on average.
    pub chips: f64,
    /// Watts and joules, where a TDP is known.
    pub energy: Option<LoadEnergy>,
    /// Dollars, where a price is known.
    pub cost: Option<LoadCost>,
    /// Queue, batch and cache over time.
    pub timeline: ServiceTimeline,
    /// What decided all that was drawn.
    pub seed: u64,
    /// Every number that nobody documents.
    pub assumptions: Vec<String>,
}

/// Two ways to the average number of requests under way, which have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LittlesLaw {
    /// Requests under way, averaged over time.
    pub under_way: f64,
    /// Completed requests a second times their mean time.
    pub rate_times_time: f64,
}

/// One model of a service under load.
#[derive(Clone, Debug, Serialize)]
pub struct ModelUnderLoad {
    /// The plan of one replica that serves one request at a time.
    pub plan: PlanSummary,
    /// Replicas that were ready at most.
    pub replicas: u64,
    /// Sequences of a step at most.
    pub max_num_seqs: u64,
    /// Tokens of keys and values that a replica has room for.
    pub kv_cache_tokens: u64,
    /// The largest share of its blocks that a replica used.
    pub kv_cache_peak: f64,
    /// Share of the time of its replicas in which they stepped.
    pub utilisation: f64,
    /// Steps of all replicas.
    pub steps: u64,
    /// Sequences that lost their blocks.
    pub preemptions: u64,
    /// Tokens of prompts looked up in the prefix cache, and found there.
    pub prefix_cache: [u64; 2],
    /// Tokens of prompts that were read.
    pub prompt_tokens_read: u64,
}

/// What a service draws.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LoadEnergy {
    /// Average watts of its chips.
    pub watts: f64,
    /// Joules.
    pub joules: f64,
    /// Of a completed request.
    pub joules_per_request: f64,
    /// Of a generated token.
    pub joules_per_token: f64,
}

/// What a service costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LoadCost {
    /// US dollars an hour, on average.
    pub per_hour: f64,
    /// US dollars of a completed request.
    pub per_request: f64,
    /// US dollars of a million generated tokens.
    pub per_million_tokens: f64,
}

/// Figures of one run that bands are made of.
struct Figures {
    plain: BTreeMap<&'static str, f64>,
    waits: IndexMap<String, f64>,
}

impl LoadRequest {
    /// Serves the traffic.
    ///
    /// ```
    /// use trn3_planner::load::LoadRequest;
    ///
    /// let request: LoadRequest = serde_json::from_str(
    ///     r#"{"models": [{"plan": {"model": {"name": "llama-3-8b"}, "system": {"name": "trn2_instance"}, "tp": 4}}],
    ///         "traffic": {"rate": 2, "input": 512, "output": 64, "requests": 50}}"#,
    /// )
    /// .unwrap();
    /// let answer = request.serve().unwrap();
    /// assert_eq!((answer.completed, answer.failed, answer.total_output_tokens), (50, 0, 50 * 64));
    /// assert!(answer.waits["p99_ttft_ms"] >= answer.waits["p50_ttft_ms"]);
    /// ```
    ///
    /// # Errors
    /// Those of the traffic and of the plans; [`trn3_system::Error::Memory`] if a model does not fit.
    pub fn serve(&self) -> Result<LoadAnswer> {
        let deployments = self.deployments()?;
        self.serve_on(&deployments)
    }

    /// The models on their chips.
    pub(super) fn deployments(&self) -> Result<Vec<Deployment>> {
        let sizes = sizes(self)?;
        self.models.iter().zip(sizes).map(|(model, sizes)| Deployment::new(model, sizes)).collect()
    }

    /// Serves the traffic on deployments that were made for it.
    pub(super) fn serve_on(&self, deployments: &[Deployment]) -> Result<LoadAnswer> {
        // One run at a time: a million requests that wait take some hundred megabytes.
        let of_end = |end: usize| -> Result<Figures> {
            let all: Vec<Deployment> = deployments.iter().map(|deployment| deployment.at_end(end)).collect();
            Ok(figures(&all, run(&all, self)?))
        };
        let ends = if self.bands { Some([of_end(0)?, of_end(1)?]) } else { None };
        let traffic = self.traffic.traffic(self.seed)?;
        Ok(answer(self, &traffic, deployments, run(deployments, self)?, ends))
    }
}

fn answer(
    request: &LoadRequest,
    traffic: &Traffic,
    deployments: &[Deployment],
    service: Service<RunWaits>,
    ends: Option<[Figures; 2]>,
) -> LoadAnswer {
    let duration = service.watcher.last;
    let completed = service.watcher.completed;
    let (input, output) = (service.watcher.input, service.watcher.output);
    let (energy, cost) = (energy(deployments, &service), cost(deployments, &service));
    let taken: f64 = chip_seconds(deployments, &service).iter().sum();
    let mut assumptions: Vec<String> = traffic.said().to_vec();
    for deployment in deployments {
        let new = deployment.assumptions.iter().filter(|said| !assumptions.contains(said)).cloned();
        assumptions.extend(new.collect::<Vec<_>>());
    }
    let band = deployments.iter().flat_map(|deployment| {
        let expected = deployment.plan.expected();
        [
            format!("{}: times of prompts {}", deployment.model, expected.ttft_band.text),
            format!("{}: times a token {}", deployment.model, expected.band.text),
        ]
    });
    let models = models(deployments, &service);
    let timeline = service.timeline.clone();
    let (area, num_prompts, failed) = (service.area, service.sent + service.refused, service.refused);
    let Figures { plain, waits } = figures(deployments, service);
    let bands = ends.map(|[least, most]| bands(&plain, &waits, &least, &most));
    LoadAnswer {
        duration,
        completed,
        failed,
        num_prompts,
        request_rate: traffic.rate().map(|rate| if rate.is_finite() { json!(rate) } else { json!("inf") }),
        max_concurrency: traffic.users().or(traffic.max_concurrency()),
        total_input_tokens: input,
        total_output_tokens: output,
        request_throughput: plain["request_throughput"],
        request_goodput: plain.get("request_goodput").copied(),
        output_throughput: plain["output_throughput"],
        total_token_throughput: plain["total_token_throughput"],
        little: LittlesLaw {
            under_way: area / duration,
            rate_times_time: completed as f64 / duration * waits["mean_e2el_ms"] / 1e3,
        },
        waits,
        bands,
        band: band.collect(),
        models,
        chips: taken / duration,
        energy,
        cost,
        timeline,
        seed: request.seed,
        assumptions,
    }
}

/// Seconds of chips that each model had.
fn chip_seconds(deployments: &[Deployment], service: &Service<RunWaits>) -> Vec<f64> {
    let mut all = vec![0.0; deployments.len()];
    for (replica, powered) in service.replicas.iter().zip(&service.powered) {
        all[replica.model] += powered.until(service.watcher.last) * deployments[replica.model].chips;
    }
    all
}

fn energy(deployments: &[Deployment], service: &Service<RunWaits>) -> Option<LoadEnergy> {
    if !deployments.iter().all(|deployment| deployment.has_energy) {
        return None;
    }
    let of_replica = |(replica, powered): (&super::replica::Replica, &super::scaling::Powered)| {
        replica.counts.joules + replica.costs.static_watts * powered.until(service.watcher.last)
    };
    let joules: f64 = service.replicas.iter().zip(&service.powered).map(of_replica).sum();
    Some(LoadEnergy {
        watts: joules / service.watcher.last,
        joules,
        joules_per_request: joules / service.watcher.completed as f64,
        joules_per_token: joules / service.watcher.output as f64,
    })
}

fn cost(deployments: &[Deployment], service: &Service<RunWaits>) -> Option<LoadCost> {
    let mut dollars = 0.0;
    for (deployment, seconds) in deployments.iter().zip(chip_seconds(deployments, service)) {
        dollars += deployment.plan.cost()?.price_per_chip_hour * seconds / HOUR;
    }
    Some(LoadCost {
        per_hour: dollars * HOUR / service.watcher.last,
        per_request: dollars / service.watcher.completed as f64,
        per_million_tokens: dollars * 1e6 / service.watcher.output as f64,
    })
}

fn models(deployments: &[Deployment], service: &Service<RunWaits>) -> Vec<ModelUnderLoad> {
    let of = |(model, deployment): (usize, &Deployment)| {
        let all = || service.replicas.iter().zip(&service.powered).filter(move |(replica, _)| replica.model == model);
        let sum = |value: fn(&super::replica::StepCounts) -> u64| all().map(|(one, _)| value(&one.counts)).sum::<u64>();
        let busy: f64 = all().map(|(replica, _)| replica.counts.busy).sum();
        let taken: f64 = all().map(|(_, powered)| powered.until(service.watcher.last)).sum();
        let used = |replica: &super::replica::Replica| {
            replica.counts.most_blocks as f64 / replica.blocks.total().max(1) as f64
        };
        ModelUnderLoad {
            plan: deployment.plan.clone(),
            replicas: all().count() as u64,
            max_num_seqs: deployment.rules.sequences as u64,
            kv_cache_tokens: all().next().map_or(0, |(one, _)| one.blocks.total() * u64::from(one.blocks.tokens)),
            kv_cache_peak: all().map(|(replica, _)| used(replica)).fold(0.0, f64::max),
            utilisation: (busy / taken).min(1.0),
            steps: sum(|counts| counts.steps),
            preemptions: sum(|counts| counts.preemptions),
            prefix_cache: [sum(|counts| counts.looked_up), sum(|counts| counts.found)],
            prompt_tokens_read: sum(|counts| counts.read),
        }
    };
    deployments.iter().enumerate().map(of).collect()
}

fn figures(deployments: &[Deployment], service: Service<RunWaits>) -> Figures {
    let (energy, cost) = (energy(deployments, &service), cost(deployments, &service));
    let waits = service.watcher;
    let duration = waits.last;
    let rate = |count: u64| count as f64 / duration;
    let mut plain = BTreeMap::from([
        ("duration", duration),
        ("request_throughput", rate(waits.completed)),
        ("output_throughput", rate(waits.output)),
        ("total_token_throughput", rate(waits.input + waits.output)),
    ]);
    if waits.limited() {
        plain.insert("request_goodput", rate(waits.good));
    }
    if let Some(energy) = energy {
        plain.extend([("watts", energy.watts), ("joules_per_request", energy.joules_per_request)]);
        plain.insert("joules_per_token", energy.joules_per_token);
    }
    if let Some(cost) = cost {
        plain.extend([
            ("dollars_per_request", cost.per_request),
            ("dollars_per_million_tokens", cost.per_million_tokens),
        ]);
    }
    let mut named = IndexMap::new();
    for (name, WaitSummary { mean, median, std, p50, p90, p95, p99, .. }) in waits.summaries() {
        for (what, value) in
            [("mean", mean), ("median", median), ("std", std), ("p50", p50), ("p90", p90), ("p95", p95), ("p99", p99)]
        {
            named.insert(format!("{what}_{name}_ms"), value);
        }
    }
    Figures { plain, waits: named }
}

/// The least and the most of every figure over the run and those at both ends.
fn bands(
    plain: &BTreeMap<&'static str, f64>,
    waits: &IndexMap<String, f64>,
    least: &Figures,
    most: &Figures,
) -> BTreeMap<String, [f64; 2]> {
    let range = |values: [f64; 3]| {
        let fold = |start: f64, pick: fn(f64, f64) -> f64| values.into_iter().fold(start, pick);
        [fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max)]
    };
    let of_plain = plain.iter().filter_map(|(name, value)| {
        Some(((*name).to_owned(), range([*value, *least.plain.get(name)?, *most.plain.get(name)?])))
    });
    let of_waits = waits.iter().filter_map(|(name, value)| {
        Some((name.clone(), range([*value, *least.waits.get(name)?, *most.waits.get(name)?])))
    });
    of_plain.chain(of_waits).collect()
}
