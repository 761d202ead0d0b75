//! What front ends ask of fleets.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::sources::{ModelSource, SystemSource};
use crate::training::Moments;

/// A training run on a fleet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingFleetRequest {
    /// The system that the fleet is made of.
    pub system: SystemSource,
    /// Chips of the job, 1 to 10,000,000.
    pub chips: u64,
    /// Days of the run.
    pub days: f64,
    /// What is trained: its weights and their optimizer states are the checkpoint.
    #[serde(default)]
    pub model: Option<ModelSource>,
    /// What the optimizer keeps.
    #[serde(default)]
    pub optimizer: Moments,
    /// Bytes of a checkpoint, in place of a model's.
    #[serde(default)]
    pub checkpoint_bytes: Option<f64>,
    /// Bytes a second to storage, of all chips.
    #[serde(default)]
    pub checkpoint_bandwidth: Option<f64>,
    /// Seconds of work between checkpoints; the best one if none is given.
    #[serde(default)]
    pub checkpoint_interval: Option<f64>,
    /// Whether checkpoints are written while work goes on.
    #[serde(default)]
    pub asynchronous: bool,
    /// Seconds of a step.
    #[serde(default)]
    pub step_time: Option<f64>,
    /// Part of a step that waits for collectives within a system.
    #[serde(default)]
    pub comm_share: Option<f64>,
    /// Standard deviation of a rank's step, as a part of it.
    #[serde(default)]
    pub jitter: Option<f64>,
    /// Systems that stand by.
    #[serde(default)]
    pub spares: Option<u64>,
    /// Systems that would have to be started first.
    #[serde(default)]
    pub cold_spares: u64,
    /// Hours between failures, by part; none for a part that never fails.
    #[serde(default)]
    pub mtbf: BTreeMap<String, Option<f64>>,
    /// Shape of the Weibull distribution of lives.
    #[serde(default)]
    pub shape: Option<f64>,
    /// Whether a job without some link goes on slower; else it stops.
    #[serde(default = "goes_on")]
    pub degrades: bool,
    /// Seconds until a failure is known that reports itself.
    #[serde(default)]
    pub error_detection: Option<f64>,
    /// Seconds until a collective that does not end is given up.
    #[serde(default)]
    pub hang_detection: Option<f64>,
    /// Seconds until processes run again, without loading.
    #[serde(default)]
    pub warm_up: Option<f64>,
    /// Seconds until a hot spare is in place.
    #[serde(default)]
    pub swap: Option<f64>,
    /// Hours of a repair.
    #[serde(default)]
    pub repair: Option<f64>,
    /// How often to simulate.
    #[serde(default = "usual_runs")]
    pub runs: u32,
    /// What decides the draws.
    #[serde(default)]
    pub seed: u64,
}

/// Replicas that serve, on a fleet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServingFleetRequest {
    /// The system that the fleet is made of.
    pub system: SystemSource,
    /// Replicas that have to be up.
    pub replicas: u64,
    /// Chips of one.
    pub replica_chips: u64,
    /// Part of the time in which they are, 0 to 1.
    pub availability: f64,
    /// Hours between failures, by part; none for a part that never fails.
    #[serde(default)]
    pub mtbf: BTreeMap<String, Option<f64>>,
    /// Hours of a repair.
    #[serde(default)]
    pub repair: Option<f64>,
}

fn goes_on() -> bool {
    true
}

/// Runs that are simulated if no number is given **(choice)**: their spread tells luck from the rest.
fn usual_runs() -> u32 {
    16
}
