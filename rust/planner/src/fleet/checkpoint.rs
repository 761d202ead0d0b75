//! How often to write a checkpoint: closed forms for failures at random.
//!
//! Times are seconds. `write` is how long work stands still for one checkpoint, `mtbf` the mean time between failures of
//! the whole job, `restart` what a failure costs beside the work that is done again.

use trn3_system::{Error, Result};

use super::figures::shown;

/// The interval of Young (1974): work between two checkpoints, to first order in `write / mtbf`.
///
/// ```
/// assert_eq!(trn3_planner::fleet::young(2.0, 10_000.0), 200.0);
/// ```
pub fn young(write: f64, mtbf: f64) -> f64 {
    (2.0 * write * mtbf).sqrt()
}

/// The first-order interval of Daly (2006), which has the restart and takes the write off.
///
/// ```
/// assert_eq!(trn3_planner::fleet::daly(2.0, 9_900.0, 100.0), 198.0);
/// ```
pub fn daly(write: f64, mtbf: f64, restart: f64) -> f64 {
    young(write, mtbf + restart) - write
}

/// The higher-order interval of Daly (2006), which does not depend on the restart; `mtbf` itself where failures come
/// faster than half a write.
///
/// ```
/// use trn3_planner::fleet::{daly_higher_order, young};
///
/// assert!((daly_higher_order(2.0, 1e6) / young(2.0, 1e6) - 1.0).abs() < 0.002);
/// assert_eq!(daly_higher_order(100.0, 40.0), 40.0);
/// ```
pub fn daly_higher_order(write: f64, mtbf: f64) -> f64 {
    if write >= 2.0 * mtbf {
        return mtbf;
    }
    let ratio = write / (2.0 * mtbf);
    young(write, mtbf) * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - write
}

/// The part of time that is work kept, with failures at random that may also come while a checkpoint is written or the
/// job restarts: `interval / (mtbf * e^(restart / mtbf) * (e^((interval + write) / mtbf) - 1))` (Daly 2006). 1 without
/// failures and writes.
///
/// ```
/// use trn3_planner::fleet::expected_efficiency;
///
/// assert_eq!(expected_efficiency(90.0, 10.0, f64::INFINITY, 60.0), 0.9);
/// assert!(expected_efficiency(90.0, 10.0, 3600.0, 60.0) < 0.9);
/// ```
pub fn expected_efficiency(interval: f64, write: f64, mtbf: f64, restart: f64) -> f64 {
    if mtbf.is_infinite() {
        return interval / (interval + write);
    }
    interval / (mtbf * (restart / mtbf).exp() * ((interval + write) / mtbf).exp_m1())
}

/// When checkpoints are written and what they cost.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct CheckpointPlan {
    /// Bytes of one.
    pub bytes: f64,
    /// Bytes a second to storage and from it.
    pub bandwidth: f64,
    /// Seconds until one is safe.
    pub write_seconds: f64,
    /// Seconds of that in which work stands still.
    pub blocking_seconds: f64,
    /// Seconds to load one.
    pub load_seconds: f64,
    /// Seconds of work between two.
    pub interval: f64,
    /// Whether the interval was chosen by [`daly_higher_order`].
    pub is_automatic: bool,
    /// Whether it is written while work goes on.
    pub asynchronous: bool,
    /// [`young`] of this job.
    pub young: f64,
    /// [`daly`].
    pub daly: f64,
    /// [`daly_higher_order`].
    pub daly_higher_order: f64,
}

/// What a caller says of checkpoints.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckpointInput {
    pub bytes: f64,
    pub bandwidth: f64,
    pub interval: Option<f64>,
    /// Bytes a second into the memory of hosts; `None` where work stands still until the checkpoint is safe.
    pub snapshot: Option<f64>,
}

impl CheckpointPlan {
    /// The plan of a job that fails every `mtbf` seconds and needs `restart` seconds, without loading, to go on.
    pub(super) fn of(input: &CheckpointInput, mtbf: f64, restart: f64, horizon: f64) -> Result<Self> {
        let write_seconds = input.bytes / input.bandwidth;
        let blocking_seconds = input.snapshot.map_or(write_seconds, |rate| (input.bytes / rate).min(write_seconds));
        let restart = restart + write_seconds;
        // A job that never fails writes one at its end.
        let bounded = |interval: f64| if interval.is_finite() { interval.min(horizon) } else { horizon };
        let higher = bounded(daly_higher_order(blocking_seconds, mtbf));
        let least = if input.snapshot.is_some() { write_seconds - blocking_seconds } else { 0.0 };
        let interval = match input.interval {
            Some(interval) if interval < least => {
                return Err(Error::Value(format!(
                    "checkpoint_interval is {interval} s; one takes {} s to be safe in the background, and the next \
                     starts no sooner",
                    shown(least)
                )));
            }
            Some(interval) => interval,
            // Without bytes to write there is nothing to choose; one a second is as good as all the time.
            None => higher.max(least).max(1.0),
        };
        Ok(Self {
            bytes: input.bytes,
            bandwidth: input.bandwidth,
            write_seconds,
            blocking_seconds,
            load_seconds: write_seconds,
            interval,
            is_automatic: input.interval.is_none(),
            asynchronous: input.snapshot.is_some(),
            young: bounded(young(blocking_seconds, mtbf)),
            daly: bounded(daly(blocking_seconds, mtbf, restart)),
            daly_higher_order: higher,
        })
    }

    /// [`expected_efficiency`] of the plan; what is written in the background is lost work until it is safe.
    pub(super) fn efficiency(&self, interval: f64, mtbf: f64, restart: f64) -> f64 {
        let lag = self.write_seconds - self.blocking_seconds;
        expected_efficiency(interval, self.blocking_seconds, mtbf, restart + self.load_seconds + lag)
    }
}
