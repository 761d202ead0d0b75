//! What is said of many waiting times: mean, deviation, percentiles; and figures over time.

use std::collections::BTreeMap;

use serde::Serialize;

/// Bits of a number that a bin of a histogram does not tell apart: a bin is 1/4096 of its values wide.
const BIN_BITS: u32 = 40;

/// Points of a timeline at most; twice as wide ones follow.
const MOST_POINTS: usize = 512;

/// Milliseconds, as load generators print them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaitSummary {
    /// How many were counted.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Half are below.
    pub median: f64,
    /// Deviation of all of them from the mean.
    pub std: f64,
    /// Half are below.
    pub p50: f64,
    /// Nine tenths are.
    pub p90: f64,
    /// Nineteen of twenty are.
    pub p95: f64,
    /// All but one in a hundred are.
    pub p99: f64,
}

impl WaitSummary {
    /// Of seconds in any order; percentiles lie on the line between two of them, as NumPy's do.
    pub fn of(seconds: &mut [f64]) -> Self {
        if seconds.is_empty() {
            return Self::default();
        }
        seconds.sort_unstable_by(f64::total_cmp);
        let count = seconds.len() as f64;
        let mean = seconds.iter().sum::<f64>() / count;
        let variance = seconds.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / count;
        let at = |part: f64| {
            let place = part * (count - 1.0);
            let (low, share) = (place.floor() as usize, place.fract());
            let high = (low + 1).min(seconds.len() - 1);
            1e3 * (seconds[low] + share * (seconds[high] - seconds[low]))
        };
        Self {
            count: seconds.len() as u64,
            mean: 1e3 * mean,
            median: at(0.5),
            std: 1e3 * variance.sqrt(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
        }
    }
}

/// Times between tokens, too many to keep: exact mean and deviation, percentiles to 1/4096.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitBins {
    bins: BTreeMap<u32, (u64, f64)>,
    count: u64,
    sum: f64,
    squares: f64,
    /// What came last, and how often in a row: sequences of a step wait alike.
    last: (f64, u64),
}

impl WaitBins {
    /// Counts a time in seconds.
    pub(super) fn add(&mut self, seconds: f64) {
        if seconds == self.last.0 {
            self.last.1 += 1;
            return;
        }
        self.flush();
        self.last = (seconds, 1);
    }

    fn flush(&mut self) {
        let (seconds, count) = std::mem::take(&mut self.last);
        if count == 0 {
            return;
        }
        let weight = count as f64;
        self.count += count;
        self.sum += weight * seconds;
        self.squares += weight * seconds * seconds;
        let bin = self.bins.entry((seconds.to_bits() >> BIN_BITS) as u32).or_default();
        *bin = (bin.0 + count, bin.1 + weight * seconds);
    }

    /// What is said of them all.
    pub(super) fn waits(mut self) -> WaitSummary {
        self.flush();
        if self.count == 0 {
            return WaitSummary::default();
        }
        let count = self.count as f64;
        let mean = self.sum / count;
        let at = |part: f64| {
            let place = part * (count - 1.0);
            let mut before = 0.0;
            for (bin, sum) in self.bins.values() {
                before += *bin as f64;
                if before > place {
                    return 1e3 * sum / *bin as f64;
                }
            }
            1e3 * mean
        };
        WaitSummary {
            count: self.count,
            mean: 1e3 * mean,
            median: at(0.5),
            std: 1e3 * (self.squares / count - mean * mean).max(0.0).sqrt(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
        }
    }
}

/// The state of a service at times that are equally far apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceTimeline {
    /// Seconds from one point to the next; the first is at the beginning.
    pub interval: f64,
    /// Requests that wait.
    pub waiting: Vec<u64>,
    /// Requests that a replica works on.
    pub running: Vec<u64>,
    /// Share of the blocks of keys and values that are in use.
    pub kv_cache_usage: Vec<f64>,
    /// Replicas that serve.
    pub replicas: Vec<u64>,
}

impl ServiceTimeline {
    pub(super) fn new(interval: f64) -> Self {
        let (waiting, running, kv_cache_usage, replicas) = Default::default();
        Self { interval, waiting, running, kv_cache_usage, replicas }
    }

    /// When the next point is due.
    pub(super) fn next(&self) -> f64 {
        self.waiting.len() as f64 * self.interval
    }

    pub(super) fn add(&mut self, waiting: u64, running: u64, kv_cache_usage: f64, replicas: u64) {
        self.waiting.push(waiting);
        self.running.push(running);
        self.kv_cache_usage.push(kv_cache_usage);
        self.replicas.push(replicas);
        if self.waiting.len() > MOST_POINTS {
            self.interval *= 2.0;
            halve(&mut self.waiting);
            halve(&mut self.running);
            halve(&mut self.kv_cache_usage);
            halve(&mut self.replicas);
        }
    }
}

/// Keeps every other one, the first included.
fn halve<T>(values: &mut Vec<T>) {
    let mut place = 0;
    values.retain(|_| {
        place += 1;
        place % 2 == 1
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_percentiles_lie_between_values() {
        let waits = WaitSummary::of(&mut [0.4, 0.1, 0.2, 0.3]);
        let near = |left: f64, right: f64| (left - right).abs() < 1e-9;
        assert!(near(waits.mean, 250.0) && near(waits.median, 250.0) && near(waits.p90, 370.0));
        assert!(near(waits.std, 1e3 * (0.0125_f64).sqrt()), "{waits:?}");
        assert_eq!(WaitSummary::of(&mut []), WaitSummary::default());
    }

    #[test]
    fn test_bins_say_what_all_values_would() {
        let mut values: Vec<f64> = (1..5_000).map(|step| 1e-3 * (1.0 + f64::from(step * 37 % 911))).collect();
        let mut bins = WaitBins::default();
        values.iter().for_each(|&value| bins.add(value));
        let (exact, binned) = (WaitSummary::of(&mut values), bins.waits());
        assert_eq!(exact.count, binned.count);
        for (left, right) in
            [(exact.mean, binned.mean), (exact.p50, binned.p50), (exact.p99, binned.p99), (exact.std, binned.std)]
        {
            assert!((left / right - 1.0).abs() < 1e-3, "{left} {right}");
        }
        let mut alike = WaitBins::default();
        (0..10).for_each(|_| alike.add(0.0123));
        assert_eq!((alike.clone().waits().p99, alike.waits().count), (12.3, 10));
    }

    #[test]
    fn test_timelines_become_wider_not_longer() {
        let mut timeline = ServiceTimeline::new(1.0);
        for step in 0..10_000 {
            if timeline.next() <= f64::from(step) {
                timeline.add(step as u64, 0, 0.0, 1);
            }
        }
        assert!(timeline.waiting.len() <= MOST_POINTS && timeline.interval == 32.0);
        assert!(timeline.waiting.iter().enumerate().all(|(place, &at)| at == 32 * place as u64));
    }
}
