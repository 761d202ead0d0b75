//! When requests arrive.

use std::f64::consts::TAU;

use rand::RngExt;
use rand_distr::{Distribution, Exp1, Gamma};
use rand_pcg::Pcg64;
use trn3_system::{Error, Result};

/// How requests are spread over time, at a mean rate a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalProcess {
    /// All at second 0: an infinite rate.
    Together,
    /// A Poisson process.
    Poisson,
    /// Intervals of a gamma distribution of this shape: 1 is Poisson, less is burstier, more is steadier. What vLLM's
    /// benchmark calls burstiness.
    Gamma(f64),
    /// Equal intervals, the first before the first request.
    Constant,
    /// So many requests at one instant; such bursts are a Poisson process.
    Burst(u64),
    /// A Poisson process for so many seconds, then silence for so many, and so on; the rate while it is on is greater
    /// by as much as silence takes away.
    OnOff(f64, f64),
    /// A Poisson process whose rate follows a sine of this period in seconds, at the mean and rising at second 0, up to
    /// this many times the mean.
    Diurnal(f64, f64),
}

impl ArrivalProcess {
    /// Names, as requests give them.
    pub const NAMES: [&'static str; 6] = ["poisson", "gamma", "constant", "burst", "on_off", "diurnal"];

    /// Checks the figures.
    ///
    /// # Errors
    /// [`Error::Value`] that names the figure: a shape, a burst, seconds of activity or a period that is not above 0,
    /// seconds of silence below 0, a peak that is not 1 to 2 times the mean.
    ///
    /// ```
    /// use trn3_planner::load::ArrivalProcess;
    ///
    /// assert!(ArrivalProcess::Gamma(0.5).check().is_ok());
    /// let message = ArrivalProcess::Diurnal(86_400.0, 3.0).check().unwrap_err().to_string();
    /// assert_eq!(message, "peak_to_mean is 3; allowed: 1 to 2, which is where a sine reaches 0");
    /// ```
    pub fn check(self) -> Result<()> {
        let above = |name: &str, value: f64| match value.is_finite() && value > 0.0 {
            true => Ok(()),
            false => Err(Error::Value(format!("{name} is {value}; allowed: numbers above 0"))),
        };
        match self {
            Self::Together | Self::Poisson | Self::Constant => Ok(()),
            Self::Gamma(shape) => above("burstiness", shape),
            Self::Burst(size) => above("burst_size", size as f64),
            Self::OnOff(on, off) => {
                above("on", on)?;
                if off.is_finite() && off >= 0.0 {
                    return Ok(());
                }
                Err(Error::Value(format!("off is {off}; allowed: seconds from 0 on")))
            }
            Self::Diurnal(period, peak) => {
                above("period", period)?;
                if (1.0..=2.0).contains(&peak) {
                    return Ok(());
                }
                Err(Error::Value(format!("peak_to_mean is {peak}; allowed: 1 to 2, which is where a sine reaches 0")))
            }
        }
    }
}

/// Times of arrival in seconds, in order, without end.
///
/// ```
/// use rand::SeedableRng;
/// use trn3_planner::load::{ArrivalProcess, Arrivals};
///
/// let rng = rand_pcg::Pcg64::seed_from_u64(0);
/// let times: Vec<f64> = Arrivals::new(ArrivalProcess::Constant, 4.0, rng).unwrap().take(3).collect();
/// assert_eq!(times, [0.25, 0.5, 0.75]);
/// ```
#[derive(Clone, Debug)]
pub struct Arrivals {
    process: ArrivalProcess,
    rate: f64,
    gamma: Option<Gamma<f64>>,
    /// Requests so far.
    count: u64,
    /// Seconds, without silence where there is any.
    clock: f64,
    stretch: f64,
    rng: Pcg64,
}

impl Arrivals {
    /// Arrivals at a mean rate a second; an infinite rate is [`ArrivalProcess::Together`], whatever is asked for.
    ///
    /// # Errors
    /// [`Error::Value`] if the rate is not above 0; those of [`ArrivalProcess::check`].
    pub fn new(process: ArrivalProcess, rate: f64, rng: Pcg64) -> Result<Self> {
        process.check()?;
        if rate.is_nan() || rate <= 0.0 {
            return Err(Error::Value(format!("rate is {rate}; allowed: requests a second above 0, or inf")));
        }
        let process = if rate.is_infinite() { ArrivalProcess::Together } else { process };
        let gamma = match process {
            ArrivalProcess::Gamma(shape) => Some(
                Gamma::new(shape, (rate * shape).recip())
                    .map_err(|why| Error::Value(format!("burstiness is {shape} at {rate} requests a second: {why}")))?,
            ),
            _ => None,
        };
        Ok(Self { process, rate, gamma, count: 0, clock: 0.0, stretch: 1.0, rng })
    }

    /// The same arrivals, stretched so that the one of number `requests` comes after exactly `requests / rate` seconds,
    /// as in vLLM's benchmark.
    #[must_use]
    pub fn stretched(mut self, requests: u64) -> Self {
        let mut ahead = self.clone();
        let last = (0..requests).filter_map(|_| ahead.next()).last().unwrap_or(0.0);
        if last > 0.0 {
            self.stretch = requests as f64 / self.rate / last;
        }
        self
    }

    fn interval(&mut self, rate: f64) -> f64 {
        let unit: f64 = Exp1.sample(&mut self.rng);
        unit / rate
    }
}

impl Iterator for Arrivals {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let first_of_burst = |size: u64| self.count.is_multiple_of(size);
        let at = match self.process {
            ArrivalProcess::Together => 0.0,
            ArrivalProcess::Constant => (self.count + 1) as f64 / self.rate,
            ArrivalProcess::Poisson => {
                self.clock += self.interval(self.rate);
                self.clock
            }
            ArrivalProcess::Gamma(_) => {
                self.clock += self.gamma.map_or(0.0, |gamma| gamma.sample(&mut self.rng));
                self.clock
            }
            ArrivalProcess::Burst(size) => {
                if first_of_burst(size) {
                    self.clock += self.interval(self.rate / size as f64);
                }
                self.clock
            }
            ArrivalProcess::OnOff(on, off) => {
                self.clock += self.interval(self.rate * (on + off) / on);
                self.clock + (self.clock / on).floor() * off
            }
            ArrivalProcess::Diurnal(period, peak) => loop {
                self.clock += self.interval(self.rate * peak);
                let now = 1.0 + (peak - 1.0) * (TAU * self.clock / period).sin();
                if self.rng.random::<f64>() * peak < now {
                    break self.clock;
                }
            },
        };
        self.count += 1;
        Some(at * self.stretch)
    }
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
