//! What a plan takes for granted, and what is asked of it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::dtype::TensorPrecision;
use super::shapes::Model;
use trn3_system::{Error, Result};

/// How far below peaks the machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Calibration {
    /// With the overhead a layer and the rate of narrow products that published measurements fit.
    #[default]
    Fitted,
    /// Peaks of array and memory alone: a bound.
    Peak,
}

/// The rate at which weights stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryRate {
    /// The lesser of the memory's peak and all DMA engines.
    #[default]
    Engines,
    /// The memory's peak.
    Peak,
}

/// Several tokens guessed by a small model and checked by the large one at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Speculation {
    /// Tokens guessed a step.
    pub length: u64,
    /// Tokens that a step yields on average, the large model's own included: from 1 to `length + 1`.
    pub accepted: f64,
    /// The small model, on the same ranks.
    pub draft: Option<Model>,
    /// Without one: the time of a guess as a share of a step of the large model.
    pub draft_share: f64,
}

/// What a plan takes for granted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServingSettings {
    /// Formats of tensors.
    pub precision: TensorPrecision,
    /// Fitted constants, or peaks.
    pub calibration: Calibration,
    /// What streams weights.
    pub memory_rate: MemoryRate,
    /// Seconds of a layer beside its operations, instead of the fitted constant.
    pub layer_overhead: Option<f64>,
    /// Speculative decoding.
    pub speculation: Option<Speculation>,
    /// Measured times of single operations, seconds by [`LayerOperation::key`](crate::LayerOperation::key).
    pub kernel_times: BTreeMap<String, f64>,
    /// Whether the profiler's buffers take memory.
    pub profiling: bool,
}

impl ServingSettings {
    /// Fitted constants, nothing measured, no speculation.
    pub fn new(precision: TensorPrecision) -> Self {
        Self {
            precision,
            calibration: Calibration::default(),
            memory_rate: MemoryRate::default(),
            layer_overhead: None,
            speculation: None,
            kernel_times: BTreeMap::new(),
            profiling: false,
        }
    }
}

/// Requests that a replica serves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Sequences that a replica decodes at once.
    pub batch: u64,
    /// Tokens of a prompt.
    pub input: u64,
    /// Tokens generated for it; zero if only the rate of decoding matters.
    pub output: u64,
}

impl Workload {
    /// Checks that every count is in range.
    ///
    /// # Errors
    /// [`Error::Value`] that names the one that is not.
    pub fn check(&self) -> Result<()> {
        for (name, value, least) in [("batch", self.batch, 1), ("input", self.input, 1), ("output", self.output, 0)] {
            if !(least..=1 << 30).contains(&value) {
                return Err(Error::Value(format!("{name} is {value}; needed: a whole number from {least} to 2^30")));
            }
        }
        Ok(())
    }

    /// The context of the average decoding step.
    pub fn mean_context(&self) -> f64 {
        self.input as f64 + self.output as f64 / 2.0
    }

    /// The longest context, for which memory is kept.
    pub fn longest_context(&self) -> f64 {
        (self.input + self.output) as f64
    }
}
