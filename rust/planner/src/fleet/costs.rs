//! What failures cost a training run, and how many spares it holds.

use trn3_system::Result;

use super::checkpoint::CheckpointPlan;
use super::figures::{FleetFigures, Ranged};
use super::parts::{FleetPart, HOUR, PartEffect};
use super::request::TrainingFleetRequest;

/// What failures cost, each with its range.
#[derive(Clone, Copy)]
pub(super) struct FleetCosts {
    pub error_detection: Ranged,
    pub hang_detection: Ranged,
    pub warm_up: Ranged,
    pub swap: Ranged,
    pub cold_swap: Ranged,
    pub repair: Ranged,
    pub straggler_detection: Ranged,
    pub straggler_slowdown: Ranged,
    pub jitter: Ranged,
    pub comm_share: Ranged,
}

impl FleetCosts {
    /// Those of the facts, or what a request sets in their place.
    pub(super) fn of(asked: &TrainingFleetRequest, figures: &FleetFigures) -> Result<Self> {
        let hours = asked.repair.map(|hours| hours * HOUR);
        Ok(Self {
            error_detection: figures.or_given("error_detection", asked.error_detection, 0.0)?,
            hang_detection: figures.or_given("hang_detection", asked.hang_detection, 0.0)?,
            warm_up: figures.or_given("warm_up", asked.warm_up, 0.0)?,
            swap: figures.or_given("swap", asked.swap, 0.0)?,
            cold_swap: figures.ranged("cold_swap")?,
            repair: figures.or_given("repair", hours, 0.0)?,
            straggler_detection: figures.ranged("straggler_detection")?,
            straggler_slowdown: figures.ranged("straggler_slowdown")?,
            jitter: figures.or_given("jitter", asked.jitter, 0.0)?,
            comm_share: figures.or_given("comm_share", asked.comm_share, 0.0)?,
        })
    }

    /// Each at a place of its range, as [`Ranged::at`] has it.
    pub(super) fn placed(&self, mut place: impl FnMut() -> f64) -> Self {
        let mut at = |range: Ranged| Ranged::given(range.at(place()));
        Self {
            error_detection: at(self.error_detection),
            hang_detection: at(self.hang_detection),
            warm_up: at(self.warm_up),
            swap: at(self.swap),
            cold_swap: at(self.cold_swap),
            repair: at(self.repair),
            straggler_detection: at(self.straggler_detection),
            straggler_slowdown: at(self.straggler_slowdown),
            jitter: at(self.jitter),
            comm_share: at(self.comm_share),
        }
    }

    pub(super) fn detection(&self, part: &FleetPart) -> f64 {
        if part.hangs { self.hang_detection.value } else { self.error_detection.value }
    }
}

/// How many hot spares there are.
#[derive(Clone, Copy)]
pub(super) struct SpareSizing {
    pub given: Option<u64>,
    /// Standard deviations above the systems that are being repaired on average.
    pub deviations: f64,
}

impl SpareSizing {
    /// Those given, else enough for the repairs under way, whose number has the distribution of Poisson.
    pub(super) fn spares(self, parts: &[FleetPart], rates: f64, repair: f64) -> u64 {
        self.given.unwrap_or_else(|| {
            let replaced = parts.iter().filter(|part| part.effect == PartEffect::Stops { replaces: true });
            let repaired = replaced.map(|part| part.rate(rates)).sum::<f64>() * repair;
            (repaired + self.deviations * repaired.sqrt()).ceil() as u64
        })
    }
}

/// Seconds between interruptions, and what one takes beside loading and lost work: means over the parts.
pub(super) fn averages(parts: &[FleetPart], costs: &FleetCosts) -> (f64, f64) {
    let (mut rate, mut sum) = (0.0, 0.0);
    for part in parts {
        let PartEffect::Stops { replaces } = part.effect else { continue };
        let swap = if replaces { costs.swap.value } else { 0.0 };
        rate += part.rate(0.0);
        sum += part.rate(0.0) * (costs.detection(part) + swap + costs.warm_up.value);
    }
    if rate > 0.0 { (1.0 / rate, sum / rate) } else { (f64::INFINITY, 0.0) }
}

/// The part of time that planned stops and those for slow chips take.
pub(super) fn paused(parts: &[FleetPart], costs: &FleetCosts, checkpoint: &CheckpointPlan) -> f64 {
    let again = checkpoint.write_seconds + checkpoint.load_seconds + costs.warm_up.value;
    let each = |part: &FleetPart| match part.effect {
        PartEffect::Pauses => again,
        PartEffect::SlowsSteps { .. } => again + costs.swap.value,
        _ => 0.0,
    };
    let odds: f64 = parts.iter().map(|part| part.rate(0.0) * each(part)).sum();
    // Pauses come while the job is up.
    odds / (1.0 + odds)
}
