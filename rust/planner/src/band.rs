//! How far plans may be off: bounds of their figures, and what says so.

use serde::Serialize;
use trn3_facts::PredictionBand;
use trn3_system::Result;

/// Between which times a plan of serving is expected, seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServingBand {
    /// The least time a token.
    pub tpot_low: f64,
    /// The largest.
    pub tpot_high: f64,
    /// The least time to the first token.
    pub ttft_low: f64,
    /// The largest.
    pub ttft_high: f64,
    /// What says so of the time a token.
    pub band: PredictionBand,
    /// And of the time to the first.
    pub ttft_band: PredictionBand,
}

impl ServingBand {
    /// The band of times on a chip, decoding `batch` sequences at once; `is_guessing`: by speculation.
    ///
    /// # Errors
    /// Those of [`PredictionBand::of`].
    ///
    /// ```
    /// use trn3_planner::ServingBand;
    ///
    /// let of = ServingBand::of("trainium1", 8, false, 0.01, 0.1)?;
    /// assert_eq!((of.band.class.as_str(), of.ttft_band.class.as_str()), ("trn1 decode bN", "trn1 prefill"));
    /// assert!(of.tpot_low < 0.01 && 0.1 < of.ttft_high);
    /// # Ok::<(), trn3_system::Error>(())
    /// ```
    pub fn of(chip: &str, batch: u64, is_guessing: bool, tpot: f64, ttft: f64) -> Result<Self> {
        let phase = match (is_guessing, batch) {
            (true, _) => "speculation",
            (false, 1) => "decode b1",
            (false, _) => "decode bN",
        };
        let (band, ttft_band) = (PredictionBand::of(chip, phase)?, PredictionBand::of(chip, "prefill")?);
        let ((tpot_low, tpot_high), (ttft_low, ttft_high)) = (band.around(tpot), ttft_band.around(ttft));
        Ok(Self { tpot_low, tpot_high, ttft_low, ttft_high, band, ttft_band })
    }
}

/// Between which figures a step of training is expected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainingBand {
    /// The least seconds of a step.
    pub step_time_low: f64,
    /// The most.
    pub step_time_high: f64,
    /// The fewest sequences a second.
    pub sequences_per_second_low: f64,
    /// The most.
    pub sequences_per_second_high: f64,
    /// What says so.
    pub band: PredictionBand,
}

impl TrainingBand {
    /// The band of a step of so many seconds and sequences on a chip.
    ///
    /// # Errors
    /// Those of [`PredictionBand::of`].
    pub fn of(chip: &str, step_time: f64, sequences: f64) -> Result<Self> {
        let band = PredictionBand::of(chip, "training")?;
        let (step_time_low, step_time_high) = band.around(step_time);
        Ok(Self {
            step_time_low,
            step_time_high,
            sequences_per_second_low: sequences / step_time_high,
            sequences_per_second_high: sequences / step_time_low,
            band,
        })
    }
}
