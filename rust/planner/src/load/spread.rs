//! Distributions of numbers as people write them.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1, StandardNormal};
use serde::Deserialize;
use trn3_system::{Error, Result};

use super::weighted::Weighted;

/// How far from the mean normal distributions are looked at, in deviations: beyond lies less than 1e-15 of them.
const REACH: f64 = 8.0;

/// Points of the sums over a normal distribution: its mean after rounding is right to a thousandth of a deviation.
const POINTS: u32 = 1 << 14;

/// What `allowed:` says of distributions.
const FORMS: &str = "a number, uniform:LEAST:MOST, normal:MEAN:DEVIATION, lognormal:MEAN:DEVIATION, exponential:MEAN, \
                     choice:VALUE@SHARE,VALUE@SHARE";

/// A number, or a text that says more.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum NumberOrText {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl From<f64> for NumberOrText {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for NumberOrText {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A distribution of numbers from 0 on.
#[derive(Clone, Debug)]
pub enum Spread {
    /// Always the same.
    Fixed(f64),
    /// Each as likely, both ends included.
    Uniform(f64, f64),
    /// A normal distribution, its mean and deviation before draws below 0 become 0.
    Normal(f64, f64),
    /// A log-normal distribution, by mean and deviation of the numbers themselves, not of their logarithms.
    LogNormal(f64, f64),
    /// An exponential distribution by its mean.
    Exponential(f64),
    /// Some values by their shares.
    Choice(Weighted<f64>),
}

impl Spread {
    /// Reads a number or `uniform:LEAST:MOST`, `normal:MEAN:DEVIATION`, `lognormal:MEAN:DEVIATION`, `exponential:MEAN`,
    /// `choice:VALUE@SHARE,VALUE@SHARE`.
    ///
    /// # Errors
    /// [`Error::Value`] that names `what` if it is none of these or a number is not finite, negative or out of order.
    ///
    /// ```
    /// use rand::SeedableRng;
    /// use trn3_planner::load::Spread;
    ///
    /// let pause = Spread::new("pause", &"uniform:2:4".into()).unwrap();
    /// let drawn = pause.draw(&mut rand_pcg::Pcg64::seed_from_u64(0));
    /// assert!((2.0..=4.0).contains(&drawn));
    /// assert!(Spread::new("pause", &"uniform:4:2".into()).is_err());
    /// ```
    pub fn new(what: &str, given: &NumberOrText) -> Result<Self> {
        let text = match given {
            NumberOrText::Number(number) => return Self::Fixed(*number).checked(what, &number.to_string()),
            NumberOrText::Text(text) => text.trim(),
        };
        let wrong = || Error::Value(format!("{what} is '{text}'; allowed: {FORMS}"));
        let (name, rest) = text.split_once(':').unwrap_or(("", text));
        if name == "choice" {
            return Self::Choice(Weighted::parse(what, rest, "a number")?).checked(what, text);
        }
        let numbers: Vec<f64> =
            rest.split(':').map(|part| part.trim().parse().map_err(|_| wrong())).collect::<Result<_>>()?;
        let spread = match (name, &numbers[..]) {
            ("", &[number]) => Self::Fixed(number),
            ("uniform", &[least, most]) => Self::Uniform(least, most),
            ("normal", &[mean, deviation]) => Self::Normal(mean, deviation),
            ("lognormal", &[mean, deviation]) => Self::LogNormal(mean, deviation),
            ("exponential", &[mean]) => Self::Exponential(mean),
            _ => return Err(wrong()),
        };
        spread.checked(what, text)
    }

    fn checked(self, what: &str, text: &str) -> Result<Self> {
        let sound = |number: f64| number.is_finite() && number >= 0.0;
        let (right, needed) = match &self {
            Self::Fixed(number) => (sound(*number), "a number from 0 on"),
            Self::Uniform(least, most) => {
                (sound(*least) && sound(*most) && least <= most, "two numbers from 0 on, the smaller one first")
            }
            Self::Normal(mean, deviation) => (sound(*mean) && sound(*deviation), "a mean and a deviation from 0 on"),
            Self::LogNormal(mean, deviation) => {
                (sound(*mean) && *mean > 0.0 && sound(*deviation), "a mean above 0 and a deviation from 0 on")
            }
            Self::Exponential(mean) => (sound(*mean) && *mean > 0.0, "a mean above 0"),
            Self::Choice(values) => (values.values().iter().all(|&value| sound(value)), "values from 0 on"),
        };
        if right { Ok(self) } else { Err(Error::Value(format!("{what} is '{text}'; needed: {needed}"))) }
    }

    /// Mean and deviation of the logarithm of a log-normal distribution.
    fn of_logarithm(mean: f64, deviation: f64) -> (f64, f64) {
        let variance = (deviation / mean).powi(2).ln_1p();
        (mean.ln() - variance / 2.0, variance.sqrt())
    }

    /// What a draw of the standard normal distribution stands for, where one decides.
    fn at(&self, normal: f64) -> f64 {
        match *self {
            Self::Normal(mean, deviation) => (mean + deviation * normal).max(0.0),
            Self::LogNormal(mean, deviation) => {
                let (middle, width) = Self::of_logarithm(mean, deviation);
                (middle + width * normal).exp()
            }
            _ => 0.0,
        }
    }

    /// The mean of a function of what is drawn, for those that a normal distribution decides.
    pub(super) fn mean_of_normal(&self, function: impl Fn(f64) -> f64) -> f64 {
        let (mut sum, mut weights) = (0.0, 0.0);
        for point in 0..POINTS {
            let normal = REACH * ((2 * point + 1) as f64 / f64::from(POINTS) - 1.0);
            let weight = (-normal * normal / 2.0).exp();
            sum += weight * function(self.at(normal));
            weights += weight;
        }
        sum / weights
    }

    /// The next number.
    pub fn draw(&self, rng: &mut impl Rng) -> f64 {
        match self {
            Self::Fixed(number) => *number,
            Self::Uniform(least, most) => rng.random_range(*least..=*most),
            Self::Normal(..) | Self::LogNormal(..) => self.at(StandardNormal.sample(rng)),
            Self::Exponential(mean) => {
                let unit: f64 = Exp1.sample(rng);
                mean * unit
            }
            Self::Choice(values) => values.draw(rng),
        }
    }
}
