//! What failures leave of a training run.

use rand::RngExt;
use rand_pcg::Pcg64;
use rayon::prelude::*;
use serde::Serialize;
use trn3_system::{Error, Result};

use super::checkpoint::{CheckpointInput, CheckpointPlan};
use super::costs::{FleetCosts, SpareSizing, averages, paused};
use super::figures::{FleetFigures, Ranged, shown};
use super::jitter::jitter_factor;
use super::parts::{Composition, FleetPart, HOUR, PartEffect};
use super::request::TrainingFleetRequest;
use super::simulate::{FleetModel, FleetRun, FleetTimes, Hazard};
use crate::dtype::DataType;
use crate::hardware::Machine;

/// Seconds of a day.
const DAY: f64 = 86_400.0;
/// Chips of a job at most.
const MOST_CHIPS: u64 = 10_000_000;
/// Runs at most.
const MOST_RUNS: u32 = 10_000;
/// What streams that draw figures have and those of runs have not.
const FIGURES: u128 = 1 << 64;
/// Points of the curve over intervals, and how far it reaches around the best one **(choice)**.
const POINTS: i32 = 20;
const REACH: f64 = 10.0;

/// Between what a figure is expected, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetBand {
    /// `published`, `assumed` or `given`.
    pub class: &'static str,
    /// In words.
    pub text: String,
}

/// A training run on a fleet that fails.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainingFleet {
    /// The system.
    pub system: String,
    /// Chips of the job.
    pub chips: u64,
    /// Systems that it fills, and chips of each.
    pub units: u64,
    /// Chips of a system.
    pub unit_chips: f64,
    /// Systems that stand by.
    pub spares: u64,
    /// Systems that would have to be started first.
    pub cold_spares: u64,
    /// Days of the run.
    pub days: f64,
    /// Part of the time in which work was done and kept, on average over the runs.
    pub effective_time: f64,
    /// What nine of ten runs exceed: luck alone, at the rates and times that are taken.
    pub effective_time_p10: f64,
    /// What one of ten exceeds.
    pub effective_time_p90: f64,
    /// What nine of ten runs exceed whose rates and times are drawn from their ranges.
    pub effective_time_low: f64,
    /// What one of ten exceeds.
    pub effective_time_high: f64,
    /// By closed forms, without waiting for repairs.
    pub effective_time_expected: f64,
    /// The same with what slow chips, jitter and lost links cost: work done over that of a fleet that never fails.
    pub goodput: f64,
    /// As of the effective time.
    pub goodput_low: f64,
    /// As there.
    pub goodput_high: f64,
    /// Chips whose whole work that would be.
    pub effective_chips: f64,
    /// Steps done and kept.
    pub steps: f64,
    /// Failures that stopped the job, on average over the runs.
    pub interruptions: f64,
    /// As they are expected of the rates.
    pub interruptions_expected: f64,
    /// At the least rates.
    pub interruptions_low: f64,
    /// At the largest.
    pub interruptions_high: f64,
    /// Stops that were planned, and those for slow chips.
    pub pauses: f64,
    /// Failures that slowed the job without stopping it.
    pub degradations: f64,
    /// Hours between interruptions, as they are expected; none if nothing fails.
    pub mtbi_hours: Option<f64>,
    /// A step over one without jitter.
    pub jitter_factor: f64,
    /// Where the time goes: `training`, `lost work`, `checkpoints`, ..., each with its part of the whole.
    pub shares: Vec<(&'static str, f64)>,
    /// When checkpoints are written.
    pub checkpoint: CheckpointPlan,
    /// Effective time, by closed forms, of other intervals: seconds, part.
    pub curve: Vec<(f64, f64)>,
    /// What the fleet is made of, and how often it fails.
    pub parts: Vec<FleetPart>,
    /// How sure the figures are.
    pub band: FleetBand,
    /// Runs that were simulated.
    pub runs: u32,
    /// What decided the draws.
    pub seed: u64,
    /// What is not in it.
    pub not_included: Vec<String>,
    /// What it rests on.
    pub assumptions: Vec<String>,
}

/// What was simulated: all runs, and their means.
struct Outcome {
    times: FleetTimes,
    effective: Vec<f64>,
    goodputs: Vec<f64>,
    interruptions: f64,
    pauses: f64,
    degradations: f64,
}

impl Outcome {
    fn effective_time(&self) -> f64 {
        self.times.training / self.times.total()
    }

    fn goodput(&self) -> f64 {
        self.times.ideal / self.times.total()
    }
}

/// The value that a part of all is below.
fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

impl TrainingFleetRequest {
    pub(super) fn answer(&self) -> Result<TrainingFleet> {
        self.check()?;
        let (machine, figures) = (self.system.load()?, FleetFigures::load()?);
        let horizon = self.days * DAY;
        let costs = FleetCosts::of(self, &figures)?;
        let slow = costs.straggler_slowdown.value;
        let fleet = Composition::of(&machine, self.chips, &figures, &self.mtbf, slow, self.degrades)?;
        let parts = fleet.parts(horizon);
        let (input, mut assumptions) = self.checkpoint(&machine, &figures)?;
        let sizing = SpareSizing { given: self.spares, deviations: figures.si("spare_deviations")? };
        let spares = sizing.spares(&parts, 0.0, costs.repair.value);
        let (mtbf, restart) = averages(&parts, &costs);
        let checkpoint = CheckpointPlan::of(&input, mtbf, restart, horizon)?;
        let simulate = |is_drawn: bool| self.simulate(is_drawn, &parts, &costs, &checkpoint, sizing, horizon);
        let (middle, drawn) = (simulate(false)?, simulate(true)?);
        let paused = paused(&parts, &costs, &checkpoint);
        let efficiency = |interval: f64| checkpoint.efficiency(interval, mtbf, restart) * (1.0 - paused);
        let stops: Vec<&FleetPart> = parts.iter().filter(|part| part.is_stop()).collect();
        let expected = |of: fn(&Ranged) -> f64| stops.iter().map(|part| of(&part.expected)).sum::<f64>();
        let step_time = figures.or_given("step_time", self.step_time, 0.0)?.value;
        assumptions.extend(fleet.assumptions.clone());
        let slows = |part: &FleetPart| matches!(part.effect, PartEffect::SlowsCollectives { .. });
        assumptions.extend(self.assumed(&costs, spares, step_time, parts.iter().any(slows)));
        let class = self.class(&fleet);
        let interruptions_expected = expected(|range| range.value);
        Ok(TrainingFleet {
            system: machine.title.clone(),
            chips: self.chips,
            units: fleet.units(),
            unit_chips: fleet.unit_chips,
            spares,
            cold_spares: self.cold_spares,
            days: self.days,
            effective_time: middle.effective_time(),
            effective_time_p10: quantile(&middle.effective, 0.1),
            effective_time_p90: quantile(&middle.effective, 0.9),
            effective_time_low: quantile(&drawn.effective, 0.1).min(middle.effective_time()),
            effective_time_high: quantile(&drawn.effective, 0.9).max(middle.effective_time()),
            effective_time_expected: efficiency(checkpoint.interval),
            goodput: middle.goodput(),
            goodput_low: quantile(&drawn.goodputs, 0.1).min(middle.goodput()),
            goodput_high: quantile(&drawn.goodputs, 0.9).max(middle.goodput()),
            effective_chips: middle.goodput() * self.chips as f64,
            steps: middle.goodput() * horizon / step_time,
            interruptions: middle.interruptions,
            interruptions_expected,
            interruptions_low: expected(|range| range.low),
            interruptions_high: expected(|range| range.high),
            pauses: middle.pauses,
            degradations: middle.degradations,
            mtbi_hours: (interruptions_expected > 0.0).then(|| horizon / HOUR / interruptions_expected),
            jitter_factor: jitter_factor(self.chips, costs.jitter.value),
            shares: middle.times.shares().to_vec(),
            curve: (-POINTS..=POINTS)
                .map(|at| checkpoint.daly_higher_order.max(1.0) * REACH.powf(f64::from(at) / f64::from(POINTS)))
                .map(|interval| (interval, efficiency(interval)))
                .collect(),
            checkpoint,
            parts,
            band: FleetBand { class, text: said(class, &machine) },
            runs: self.runs,
            seed: self.seed,
            not_included: NOT_INCLUDED.map(str::to_owned).to_vec(),
            assumptions,
        })
    }

    fn check(&self) -> Result<()> {
        let whole = [("chips", self.chips, MOST_CHIPS), ("runs", u64::from(self.runs), u64::from(MOST_RUNS))];
        for (name, value, most) in whole {
            if !(1..=most).contains(&value) {
                return Err(Error::Value(format!("{name} is {value}; needed: a whole number from 1 to {most}")));
            }
        }
        let above = [
            ("days", Some(self.days)),
            ("checkpoint_bytes", self.checkpoint_bytes),
            ("checkpoint_bandwidth", self.checkpoint_bandwidth),
            ("checkpoint_interval", self.checkpoint_interval),
            ("step_time", self.step_time),
            ("shape", self.shape),
        ];
        for (name, value) in above.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::Value(format!("{name} is {value}; needed: a finite number above 0")));
            }
        }
        if let Some(share) = self.comm_share.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(Error::Value(format!("comm_share is {share}; needed: a number from 0 to 1")));
        }
        Ok(())
    }

    /// What a checkpoint is, and what was taken for granted to say so.
    fn checkpoint(&self, machine: &Machine, figures: &FleetFigures) -> Result<(CheckpointInput, Vec<String>)> {
        let mut assumptions = Vec::new();
        let bytes = match (self.checkpoint_bytes, &self.model) {
            (Some(_), Some(_)) => {
                return Err(Error::Value(
                    "checkpoint_bytes and model both say what a checkpoint has: give one".to_owned(),
                ));
            }
            (Some(bytes), None) => bytes,
            (None, Some(source)) => {
                let model = source.load()?;
                let each = DataType::Bf16.bytes() + self.optimizer.state_bytes();
                assumptions.push(format!("a checkpoint has {each} bytes for each weight of {}", model.name));
                model.parameters().total() as f64 * each
            }
            (None, None) => {
                let usual = figures.si("checkpoint")?;
                assumptions.push(format!(
                    "a checkpoint of {} TB, as neither a model nor a size was given (choice)",
                    shown(usual / 1e12)
                ));
                usual
            }
        };
        let bandwidth = match self.checkpoint_bandwidth {
            Some(given) => given,
            None => {
                let each = figures.si("storage_rate")?;
                assumptions.push(format!(
                    "storage moves {} GB/s for each chip ({}); {} has no figure of its own",
                    shown(each / 1e9),
                    figures.source("storage_rate")?,
                    machine.title
                ));
                each * self.chips as f64
            }
        };
        let snapshot = if self.asynchronous { Some(figures.si("snapshot_rate")? * self.chips as f64) } else { None };
        Ok((CheckpointInput { bytes, bandwidth, interval: self.checkpoint_interval, snapshot }, assumptions))
    }

    /// Runs of the job; `is_drawn`: with rates and times from their ranges, anew for each run.
    fn simulate(
        &self,
        is_drawn: bool,
        parts: &[FleetPart],
        costs: &FleetCosts,
        checkpoint: &CheckpointPlan,
        sizing: SpareSizing,
        horizon: f64,
    ) -> Result<Outcome> {
        let one = |number: u64| {
            // The draws of a run's figures are no part of the run's own stream.
            let mut random = Pcg64::new(u128::from(self.seed), u128::from(number) | FIGURES);
            let mut place = || if is_drawn { 2.0 * random.random::<f64>() - 1.0 } else { 0.0 };
            // Fleets differ as a whole: one place for all rates. What failures cost differs for each reason.
            let rates = place();
            let drawn = costs.placed(place);
            let spares = sizing.spares(parts, rates, drawn.repair.value);
            self.model(rates, parts, &drawn, checkpoint, spares, horizon).run(self.seed, number)
        };
        let runs: Vec<FleetRun> = (0..u64::from(self.runs)).into_par_iter().map(one).collect::<Result<_>>()?;
        let part = 1.0 / f64::from(self.runs);
        let mean = |of: fn(&FleetRun) -> u64| runs.iter().map(|run| of(run) as f64).sum::<f64>() * part;
        Ok(Outcome {
            times: runs.iter().fold(FleetTimes::default(), |sum, run| sum.plus(&run.times)).scaled(part),
            effective: runs.iter().map(|run| run.times.training / run.times.total()).collect(),
            goodputs: runs.iter().map(|run| run.times.ideal / run.times.total()).collect(),
            interruptions: mean(|run| run.interruptions),
            pauses: mean(|run| run.pauses),
            degradations: mean(|run| run.degradations),
        })
    }

    fn model(
        &self,
        rates: f64,
        parts: &[FleetPart],
        costs: &FleetCosts,
        checkpoint: &CheckpointPlan,
        spares: u64,
        horizon: f64,
    ) -> FleetModel {
        let hazards = parts.iter().map(|part| Hazard {
            rate: part.rate(rates),
            effect: match part.effect {
                PartEffect::SlowsSteps { .. } => PartEffect::SlowsSteps { factor: costs.straggler_slowdown.value },
                other => other,
            },
            detection: costs.detection(part),
        });
        FleetModel {
            horizon,
            hazards: hazards.collect(),
            shape: self.shape.unwrap_or(1.0),
            interval: checkpoint.interval,
            blocking: checkpoint.blocking_seconds,
            write: checkpoint.write_seconds,
            load: checkpoint.load_seconds,
            warm_up: costs.warm_up.value,
            swap: costs.swap.value,
            cold_swap: costs.cold_swap.value,
            hot: spares,
            cold: self.cold_spares,
            repair: costs.repair.value,
            straggler_detection: costs.straggler_detection.value,
            jitter: jitter_factor(self.chips, costs.jitter.value),
            comm_share: costs.comm_share.value.min(1.0),
        }
    }

    fn class(&self, fleet: &Composition) -> &'static str {
        match (self.mtbf.is_empty(), fleet.is_counted()) {
            (false, _) => "given",
            (true, true) => "published",
            (true, false) => "assumed",
        }
    }

    fn assumed(&self, costs: &FleetCosts, spares: u64, step_time: f64, is_slowed: bool) -> Vec<String> {
        let range =
            |name: &str, of: Ranged| format!("{name} {} s ({} to {})", shown(of.value), shown(of.low), shown(of.high));
        let times = [
            range("detection of errors", costs.error_detection),
            range("of collectives that hang", costs.hang_detection),
            range("swap", costs.swap),
            range("start", costs.warm_up),
            format!(
                "repair {} h ({} to {})",
                shown(costs.repair.value / HOUR),
                shown(costs.repair.low / HOUR),
                shown(costs.repair.high / HOUR)
            ),
        ];
        let sized = match self.spares {
            Some(_) => "",
            None => ", as many as the repairs under way need, in each draw of the range anew",
        };
        let mut said = vec![
            times.join(", "),
            format!("{spares} hot spares{sized}: they do not fail, and what is repaired becomes one (choice)"),
            format!("steps take {} s; failures strike between them too", shown(step_time)),
            format!(
                "a rank's step varies by {:.2} %, a step takes the slowest of all chips, one rank each (choice)",
                costs.jitter.value * 100.0
            ),
        ];
        if is_slowed {
            said.push(format!(
                "a lost link or switch inside of a system slows collectives, {:.0} % of a step, by what the graph's all-to-all \
                 loses, until it is repaired; the slowest system sets the pace",
                costs.comm_share.value * 100.0
            ));
        }
        if let Some(shape) = self.shape.filter(|shape| *shape != 1.0) {
            said.push(format!("lives are Weibull of shape {shape}, of parts that are new when the run begins"));
        }
        said
    }
}

const NOT_INCLUDED: [&str; 4] = [
    "failures of many systems at once: power, cooling, storage",
    "wrong results that nobody notices",
    "jobs that go on with fewer replicas",
    "loading of data",
];

fn said(class: &str, machine: &Machine) -> String {
    let rates = match class {
        "published" => "rates are of a fleet of these chips, their range of two other fleets".to_owned(),
        "given" => "rates that were given have no range; others are those of fleets of GPUs".to_owned(),
        _ => format!("no rates of {} are published: those of GPUs, in a wider range", machine.chip.title),
    };
    format!("{rates}; eight of ten runs with rates and times drawn from their ranges lie between the ends")
}
