//! What it costs that a step takes as long as its slowest rank.

use libm::erfc;

/// Where the integral of [`largest_of_normals`] is cut: nothing of 10^12 ranks lies beyond.
const REACH: f64 = 9.0;
/// Intervals of that integral: its error is below 1e-9.
const INTERVALS: u32 = 1200;

/// The expected largest of `n` draws from the standard normal distribution.
///
/// The integral over the distribution of the maximum, by Simpson's rule: extreme-value forms are off by percents for
/// the counts that fleets have.
///
/// ```
/// use trn3_planner::fleet::largest_of_normals;
///
/// assert_eq!(largest_of_normals(1), 0.0);
/// assert!((largest_of_normals(2) - 1.0 / std::f64::consts::PI.sqrt()).abs() < 1e-9);
/// ```
pub fn largest_of_normals(n: u64) -> f64 {
    if n <= 1 {
        return 0.0;
    }
    let below = |x: f64| 0.5 * erfc(-x / std::f64::consts::SQRT_2);
    // E max = integral of 1 - F^n over what is above 0, less that of F^n below.
    let integrand = |x: f64| {
        let above = -(n as f64 * below(x).ln()).exp_m1();
        above - (n as f64 * below(-x).ln()).exp()
    };
    let width = REACH / f64::from(INTERVALS);
    let inner: f64 = (1..INTERVALS).map(|at| f64::from(2 + 2 * (at % 2)) * integrand(f64::from(at) * width)).sum();
    (integrand(0.0) + inner + integrand(REACH)) * width / 3.0
}

/// A step of `ranks` over that of one, where each takes its time with this standard deviation, as a part of it.
///
/// ```
/// assert_eq!(trn3_planner::fleet::jitter_factor(16_384, 0.0), 1.0);
/// assert!(trn3_planner::fleet::jitter_factor(16_384, 0.01) > 1.03);
/// ```
pub fn jitter_factor(ranks: u64, deviation: f64) -> f64 {
    1.0 + deviation * largest_of_normals(ranks)
}
