//! The best plan: every layout and batch that divides, fits and keeps its promises, ranked by one objective.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use super::inference::{Evaluation, Planner};
use super::layout::{Layout, divisors, tensor_degrees};
use super::roofline::Split;
use super::settings::Workload;
use trn3_system::{Error, Result, check_interrupt};

/// What the best plan is best at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServingObjective {
    /// Generated tokens a second a chip, with the prompts read on the same chips where an output length is given.
    #[default]
    Throughput,
    /// Time between tokens.
    Tpot,
    /// Time to the first token.
    Ttft,
    /// Money for a token, which is chips for a token: the price of a chip and hour is the same for every plan.
    Cost,
}

impl ServingObjective {
    /// The objective of a name: `throughput`, `tpot` (`latency`), `ttft` or `cost`.
    ///
    /// # Errors
    /// [`Error::Unknown`] for any other.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "throughput" | "tokens_per_second_per_chip" | "throughput_per_chip" => Ok(Self::Throughput),
            "tpot" | "latency" => Ok(Self::Tpot),
            "ttft" => Ok(Self::Ttft),
            "cost" => Ok(Self::Cost),
            other => Err(Error::unknown("objective", other, ["throughput", "tpot", "latency", "ttft", "cost"])),
        }
    }
}

/// What a plan must keep, and which of its degrees are given.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Constraints {
    /// Longest time to the first token, seconds.
    pub ttft: Option<f64>,
    /// Longest time between tokens, seconds.
    pub tpot: Option<f64>,
    /// Most chips of all replicas together.
    pub chips: Option<u64>,
    /// Largest share of a bank of memory that may be used.
    pub memory: Option<f64>,
    /// Sequences of a replica.
    pub batch: Option<u64>,
    /// Tensor parallelism.
    pub tp: Option<u64>,
    /// Context parallelism; 1 if not given.
    pub cp: Option<u64>,
    /// Data parallelism inside of a replica.
    pub dp: Option<u64>,
    /// Expert parallelism.
    pub ep: Option<u64>,
    /// Stages of the pipeline.
    pub pp: Option<u64>,
    /// Replicas; as many as there is room for if not given.
    pub replicas: Option<u64>,
}

impl Constraints {
    /// Whether any degree of parallelism is given.
    pub fn fix_layout(&self) -> bool {
        [self.tp, self.cp, self.dp, self.ep, self.pp].iter().any(Option::is_some)
    }

    /// Refuses a plan of a given layout that breaks a promise: nothing is searched that could keep it.
    ///
    /// # Errors
    /// [`Error::Value`] with the time, if it is longer than what was asked for.
    pub fn check_plan(&self, planner: &Planner<'_>, plan: &Evaluation) -> Result<()> {
        check(self)?;
        for (name, limit, value) in [("ttft", self.ttft, plan.ttft), ("tpot", self.tpot, plan.tpot)] {
            if let Some(limit) = limit.filter(|limit| value > *limit) {
                return Err(Error::Value(format!(
                    "{} has a {name} of {} ms, more than the {} ms asked for; without a given layout the best one \
                     that keeps it is searched for",
                    planner.what(&plan.layout, plan.workload),
                    digits(value * 1e3),
                    digits(limit * 1e3)
                )));
            }
        }
        Ok(())
    }
}

/// Stages beyond which a pipeline serves nobody: each adds its latency to every token **(choice)**.
const MOST_STAGES: u64 = 8;
/// Sequences a replica beyond which none is tried **(choice)**.
const MOST_SEQUENCES: u64 = 1 << 14;

/// A point between speed for one user and throughput of a chip that no other plan beats in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrontierPoint {
    /// The layout.
    pub layout: Layout,
    /// Sequences of a replica.
    pub batch: u64,
    /// Tokens a second for one sequence.
    pub tokens_per_second_per_user: f64,
    /// Tokens a second a chip.
    pub tokens_per_second_per_chip: f64,
    /// Seconds to the first token.
    pub ttft: f64,
}

/// What a search found.
#[derive(Clone, Debug, Serialize)]
pub struct ServingSearchResult {
    /// The best plan.
    pub best: Evaluation,
    /// The best ones in order, the first included, one for each layout.
    pub ranked: Vec<Evaluation>,
    /// Plans that no other beats in both speed and throughput, the fastest first; promises on latency do not count.
    pub frontier: Vec<FrontierPoint>,
    /// Plans whose time was computed.
    pub evaluated: usize,
    /// Layouts that were refused, by reason.
    pub refused: BTreeMap<&'static str, usize>,
}

/// One plan's numbers, without their breakdown.
#[derive(Clone, Copy, Debug)]
struct Point {
    layout: Layout,
    batch: u64,
    chips: u64,
    ttft: f64,
    tpot: f64,
    decode_rate: f64,
    rate: f64,
}

/// Searches all layouts of one kind of logical core.
///
/// Layouts: every degree of tensor parallelism that divides, pipelines of up to eight stages, data parallelism inside
/// of a replica (for models with experts) and expert parallelism in powers of two and all divisors; batches in powers
/// of two up to the largest that fits. The order of results depends on nothing but the arguments.
///
/// # Errors
/// [`Error::Value`] if a given degree divides nothing or no plan keeps the promises (the text says how near the best
/// comes), [`Error::Memory`] if none fits.
pub fn search(
    planner: &Planner<'_>,
    workload: Workload,
    objective: ServingObjective,
    constraints: &Constraints,
    keep: usize,
) -> Result<ServingSearchResult> {
    workload.check()?;
    check(constraints)?;
    let layouts = layouts(planner, constraints)?;
    let (mut refused, mut points) = (BTreeMap::new(), Vec::new());
    for some in layouts.chunks(LAYOUTS_BETWEEN_CHECKS) {
        check_interrupt().map_err(Error::from)?;
        let results: Vec<Vec<Point>> =
            some.par_iter().map(|layout| batches(planner, *layout, workload, constraints)).collect();
        for found in results {
            if found.is_empty() {
                *refused.entry("memory").or_insert(0) += 1;
            }
            points.extend(found);
        }
    }
    let evaluated = points.len();
    if points.is_empty() {
        let Some(layout) = layouts.last() else {
            return Err(Error::Value("no layout keeps the given number of chips; more would work".to_owned()));
        };
        let batch = constraints.batch.unwrap_or(1);
        let asked = Workload { batch, ..workload };
        let table = planner.memory(layout, asked);
        return Err(table.refusal(&planner.what(layout, asked), &planner.advice(layout, asked)));
    }
    let frontier = frontier(&points);
    let all = points.clone();
    for (name, limit, value) in [
        ("ttft", constraints.ttft, (|point: &Point| point.ttft) as fn(&Point) -> f64),
        ("tpot", constraints.tpot, |point| point.tpot),
    ] {
        if let Some(limit) = limit {
            let before = points.len();
            points.retain(|point| value(point) <= limit);
            refused.insert(name, before - points.len());
        }
    }
    if points.is_empty() {
        return Err(nothing_keeps(&all, constraints));
    }
    points.sort_by(|left, right| compare(left, right, objective));
    let mut seen: Vec<Layout> = Vec::new();
    let mut ranked = Vec::new();
    for point in &points {
        if ranked.len() == keep.max(1) {
            break;
        }
        if !seen.contains(&point.layout) {
            seen.push(point.layout);
            ranked.push(planner.evaluate_checked(point.layout, Workload { batch: point.batch, ..workload }));
        }
    }
    Ok(ServingSearchResult { best: ranked[0].clone(), ranked, frontier, evaluated, refused })
}

fn check(constraints: &Constraints) -> Result<()> {
    let Constraints { ttft, tpot, memory, .. } = constraints;
    for (name, limit) in [("ttft", ttft), ("tpot", tpot), ("memory", memory)] {
        if let Some(limit) = limit
            && !(limit.is_finite() && *limit > 0.0)
        {
            return Err(Error::Value(format!("the constraint {name} is {limit}; needed: a positive number")));
        }
    }
    if let Some(share) = memory.filter(|share| *share > 1.0) {
        return Err(Error::Value(format!("the constraint memory is {share}; it is a share of a bank, at most 1")));
    }
    for (name, count) in [("chips", constraints.chips), ("batch", constraints.batch)] {
        if count == Some(0) {
            return Err(Error::Value(format!("the constraint {name} is 0; needed: at least 1")));
        }
    }
    Ok(())
}

/// Why no plan keeps its promises, with the nearest ones.
fn nothing_keeps(all: &[Point], constraints: &Constraints) -> Error {
    let best = |value: fn(&Point) -> f64| all.iter().map(value).fold(f64::INFINITY, f64::min);
    let (ttft, tpot) = (best(|point| point.ttft), best(|point| point.tpot));
    let mut wanted = Vec::new();
    if let Some(limit) = constraints.ttft {
        wanted.push(format!("ttft <= {} ms", digits(limit * 1e3)));
    }
    if let Some(limit) = constraints.tpot {
        wanted.push(format!("tpot <= {} ms", digits(limit * 1e3)));
    }
    Error::Value(format!(
        "none of {} plans that fit has {}; the least are ttft {:.0} ms and tpot {:.2} ms, not always together",
        all.len(),
        wanted.join(" and "),
        ttft * 1e3,
        tpot * 1e3
    ))
}

/// A number without the zeros behind its digits, and never nought for what is not.
fn digits(number: f64) -> String {
    if number.abs() >= 1e-4 { format!("{}", (number * 1e4).round() / 1e4) } else { format!("{number:.0e}") }
}

/// Layouts that are weighed before anyone asks whether to stop: some milliseconds of work.
const LAYOUTS_BETWEEN_CHECKS: usize = 256;

/// Every layout to try, in a fixed order; with all degrees given, that one alone, and its refusal if it is none.
fn layouts(planner: &Planner<'_>, constraints: &Constraints) -> Result<Vec<Layout>> {
    let (model, machine) = (planner.model(), planner.machine());
    let (per_chip, lnc) = (u64::from(planner.rank().per_chip), planner.rank().lnc);
    let there = u64::from(machine.chips) * per_chip;
    let most = constraints.chips.map_or(there, |chips| there.min(chips * per_chip));
    let cp = constraints.cp.unwrap_or(1);
    let given = |value: Option<u64>, all: Vec<u64>| value.map_or(all, |value| vec![value]);
    let powers = |limit: u64| (0..u64::BITS).map(|power| 1 << power).take_while(|value| *value <= limit).collect();
    let experts = model.experts.as_ref();
    let mut all = Vec::new();
    let mut refusal = None;
    for tp in given(constraints.tp, tensor_degrees(model, most)) {
        let stages = divisors(model.layers).into_iter().filter(|pp| *pp <= MOST_STAGES).collect();
        for pp in given(constraints.pp, stages) {
            // Without experts, groups of a replica share nothing: replicas say the same.
            let groups = if experts.is_some() { powers(most / tp.max(1)) } else { vec![1] };
            for dp in given(constraints.dp, groups) {
                let degrees = experts.map_or(vec![1], |experts| divisors(experts.count));
                for ep in given(constraints.ep, degrees) {
                    let split = Split { tp, cp, dp, ep, pp };
                    let room = machine.room(split.ranks(), per_chip, most);
                    let replicas = constraints.replicas.unwrap_or(room.max(1));
                    let layout = Layout { split, replicas, lnc };
                    match layout.check(model, machine) {
                        Ok(()) if layout.ranks() <= most => all.push(layout),
                        Ok(()) => {}
                        Err(error) => refusal = refusal.or(Some(error)),
                    }
                }
            }
        }
    }
    match (all.is_empty(), refusal) {
        (true, Some(error)) => Err(error),
        _ => Ok(all),
    }
}

/// The plans of a layout: batches in powers of two up to the largest that fits.
fn batches(planner: &Planner<'_>, layout: Layout, workload: Workload, constraints: &Constraints) -> Vec<Point> {
    let fits = |batch: u64| {
        let table = planner.memory(&layout, Workload { batch, ..workload });
        table.used <= table.bank * constraints.memory.unwrap_or(1.0)
    };
    let candidates: Vec<u64> = match constraints.batch {
        Some(batch) if fits(batch) => vec![batch],
        Some(_) => Vec::new(),
        None => {
            let powers = (0..).map(|power| 1_u64 << power).take_while(|batch| *batch <= MOST_SEQUENCES);
            powers.take_while(|batch| fits(*batch)).collect()
        }
    };
    let point = |batch: u64| {
        let plan = planner.evaluate_checked(layout, Workload { batch, ..workload });
        let decode_rate = plan.tokens_per_second_per_chip;
        Point {
            layout,
            batch,
            chips: plan.chips,
            ttft: plan.ttft,
            tpot: plan.tpot,
            decode_rate,
            rate: plan.served_tokens_per_second_per_chip.unwrap_or(decode_rate),
        }
    };
    candidates.into_iter().map(point).collect()
}

fn compare(left: &Point, right: &Point, objective: ServingObjective) -> Ordering {
    let by_rate = right.rate.total_cmp(&left.rate);
    let by_value = match objective {
        ServingObjective::Throughput | ServingObjective::Cost => by_rate.then(left.tpot.total_cmp(&right.tpot)),
        ServingObjective::Tpot => left.tpot.total_cmp(&right.tpot).then(by_rate),
        ServingObjective::Ttft => left.ttft.total_cmp(&right.ttft).then(by_rate),
    };
    let size = |point: &Point| {
        let Split { tp, cp, dp, ep, pp } = point.layout.split;
        (point.chips, pp, dp, cp, tp, ep, point.batch)
    };
    by_value.then_with(|| size(left).cmp(&size(right)))
}

fn frontier(points: &[Point]) -> Vec<FrontierPoint> {
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.sort_by(|left, right| {
        left.tpot.total_cmp(&right.tpot).then_with(|| compare(left, right, ServingObjective::Throughput))
    });
    let mut best = 0.0;
    let mut frontier = Vec::new();
    for point in sorted {
        if point.decode_rate > best {
            best = point.decode_rate;
            frontier.push(FrontierPoint {
                layout: point.layout,
                batch: point.batch,
                tokens_per_second_per_user: 1.0 / point.tpot,
                tokens_per_second_per_chip: point.decode_rate,
                ttft: point.ttft,
            });
        }
    }
    frontier
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Machine, ServingSettings, TensorPrecision, built_in_model};

    const WORKLOAD: Workload = Workload { batch: 1, input: 10_000, output: 3_000 };

    fn found(
        model: &str,
        system: &str,
        objective: ServingObjective,
        constraints: &Constraints,
    ) -> Result<ServingSearchResult> {
        let (machine, model) = (Machine::built_in(system).expect("loads"), built_in_model(model).expect("there"));
        let settings = ServingSettings::new(TensorPrecision::named(DataType::MxFp4, model.experts.is_some()));
        let planner = Planner::new(&machine, &model, 2, settings).expect("allowed");
        search(&planner, WORKLOAD, objective, constraints, 10)
    }

    #[test]
    fn test_search_keeps_its_promises_and_repeats_itself() {
        let constraints = Constraints { ttft: Some(1.0), tpot: Some(0.02), ..Constraints::default() };
        let first = found("gpt-oss-120b", "gen2", ServingObjective::Throughput, &constraints).expect("some");
        assert!(first.ranked.iter().all(|plan| plan.ttft <= 1.0 && plan.tpot <= 0.02 && plan.memory.fits));
        let rates: Vec<f64> = first.ranked.iter().filter_map(|plan| plan.served_tokens_per_second_per_chip).collect();
        assert!(rates.is_sorted_by(|left, right| left >= right));
        let second = found("gpt-oss-120b", "gen2", ServingObjective::Throughput, &constraints).expect("some");
        assert_eq!(first.ranked, second.ranked);
        assert!(first.frontier.is_sorted_by(|left, right| {
            left.tokens_per_second_per_user >= right.tokens_per_second_per_user
                && left.tokens_per_second_per_chip <= right.tokens_per_second_per_chip
        }));
    }

    #[test]
    fn test_objectives_differ() {
        let none = Constraints::default();
        let fast = found("gpt-oss-120b", "gen2", ServingObjective::Tpot, &none).expect("some").best;
        let cheap = found("gpt-oss-120b", "gen2", ServingObjective::Cost, &none).expect("some").best;
        assert!(fast.tpot < cheap.tpot);
        assert!(fast.tokens_per_second_per_chip < cheap.tokens_per_second_per_chip);
    }

    #[test]
    fn test_search_equals_every_plan_tried_by_hand() {
        let (machine, model) =
            (Machine::built_in("trn2").expect("loads"), built_in_model("llama-3-8b").expect("there"));
        let planner = Planner::new(&machine, &model, 2, ServingSettings::new(TensorPrecision::uniform(DataType::Bf16)));
        let planner = planner.expect("allowed");
        let constraints = Constraints { batch: Some(8), pp: Some(1), ..Constraints::default() };
        let best = search(&planner, WORKLOAD, ServingObjective::Tpot, &constraints, 1).expect("some").best;
        let by_hand = [1_u64, 2, 4, 8, 16, 32].map(|tp| {
            let layout = Layout { split: Split { tp, ..Split::WHOLE }, replicas: 64 / tp, lnc: 2 };
            planner.plan(layout, Workload { batch: 8, ..WORKLOAD }).map_or(f64::INFINITY, |plan| plan.tpot)
        });
        assert_eq!(best.tpot, by_hand.into_iter().fold(f64::INFINITY, f64::min));
    }

    #[test]
    fn test_experts_across_racks_rank_below_experts_within_one() {
        // Many sequences of little context: the exchange of tokens is what binds.
        let machine = Machine::built_in("gen2").expect("loads");
        let model = built_in_model("deepseek-v3").expect("there");
        let planner =
            Planner::new(&machine, &model, 2, ServingSettings::new(TensorPrecision::named(DataType::MxFp8, true)));
        let planner = planner.expect("allowed");
        let wide = |dp| {
            let layout = Layout { split: Split { dp, ep: 256, ..Split::WHOLE }, replicas: 1, lnc: 2 };
            planner.plan(layout, Workload { batch: 256 * dp, input: 500, output: 0 }).expect("fits")
        };
        let exchange = |plan: &Evaluation| {
            let parts = plan.decode.parts.iter().filter(|part| part.name == "expert dispatch");
            parts.map(|part| part.resource.clone()).collect::<Vec<_>>()
        };
        let (within, across) = (wide(256), wide(512));
        assert_eq!(
            (exchange(&within), exchange(&across)),
            (vec!["links: rack".into()], vec!["links: cross-rack".into()])
        );
        assert_eq!((within.chips, across.chips), (64, 128));
        assert!(across.tokens_per_second_per_chip < within.tokens_per_second_per_chip);
        // The search agrees.
        let constraints = Constraints { tp: Some(1), pp: Some(1), ep: Some(256), ..Constraints::default() };
        let workload = Workload { batch: 1, input: 500, output: 0 };
        let found = search(&planner, workload, ServingObjective::Throughput, &constraints, 10).expect("some");
        let order: Vec<u64> = found.ranked.iter().map(|plan| plan.layout.split.dp).collect();
        assert_eq!(order, [256, 512]);
    }

    #[test]
    fn test_impossible_searches_explain_themselves() {
        let said = |model: &str, system: &str, constraints: Constraints| {
            found(model, system, ServingObjective::Throughput, &constraints).expect_err("refused").to_string()
        };
        let slow = said("llama-3.1-405b", "trn2", Constraints { tpot: Some(1e-4), ..Constraints::default() });
        assert!(slow.contains("tpot <= 0.1 ms") && slow.contains("the least are"), "{slow}");
        let large = said("deepseek-v3", "trainium2", Constraints::default());
        assert!(large.contains("does not fit") && large.contains("tensors"), "{large}");
        let never = said("llama-3-8b", "gen2", Constraints { ttft: Some(1e-9), ..Constraints::default() });
        assert!(never.contains("ttft <= 1e-6 ms"), "{never}");
        let odd = said("llama-3-8b", "gen2", Constraints { tp: Some(3), ..Constraints::default() });
        assert!(odd.contains("tp is 3") && odd.contains("what divides"), "{odd}");
        let none = said("llama-3-8b", "gen2", Constraints { chips: Some(0), ..Constraints::default() });
        assert!(none.contains("chips is 0"), "{none}");
    }
}
