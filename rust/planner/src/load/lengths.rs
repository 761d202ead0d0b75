//! How long prompts and answers are.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1};
use trn3_system::{Error, Result};

use super::spread::{NumberOrText, Spread};

/// The most tokens that an unbounded distribution draws where no other limit is given **(choice)**: longer than any
/// published model reads.
pub const LONGEST: u32 = 1 << 20;

/// A share of longer draws that is not worth a word.
const NEGLIGIBLE: f64 = 1e-9;

/// A distribution of whole numbers from 1 on: tokens of prompts and answers, turns of conversations.
///
/// Normal and log-normal draws are rounded; exponential ones are geometric, which is the same of whole numbers, and keep
/// their mean.
#[derive(Clone, Debug)]
pub struct Lengths {
    spread: Spread,
    longest: u32,
}

impl Lengths {
    /// Reads what [`Spread::new`] reads, in whole numbers from 1 on; unbounded distributions are cut at `longest`
    /// (default: [`LONGEST`]).
    ///
    /// # Errors
    /// [`Error::Value`] that names `what` if it is no such distribution, or a bounded one is longer than `longest`.
    ///
    /// ```
    /// use trn3_planner::load::Lengths;
    ///
    /// let lengths = Lengths::new("input", &"choice:128@0.5,2048@0.5".into(), None).unwrap();
    /// assert_eq!((lengths.mean(), lengths.longest()), (1088.0, 2048));
    /// let geometric = Lengths::new("turns", &"exponential:3".into(), None).unwrap();
    /// assert!((geometric.mean() - 3.0).abs() < 1e-12);
    /// let message = Lengths::new("input", &0.5.into(), None).unwrap_err().to_string();
    /// assert_eq!(message, "input is 0.5; needed: whole numbers from 1 to 1048576");
    /// ```
    pub fn new(what: &str, given: &NumberOrText, longest: Option<u32>) -> Result<Self> {
        let longest = longest.unwrap_or(LONGEST);
        let spread = Spread::new(what, given)?;
        let whole = |number: f64| number.fract() == 0.0 && (1.0..=f64::from(longest)).contains(&number);
        let wrong = match &spread {
            Spread::Fixed(number) => [*number].into_iter().find(|&number| !whole(number)),
            Spread::Uniform(least, most) => [*least, *most].into_iter().find(|&number| !whole(number)),
            Spread::Choice(values) => values.values().iter().copied().find(|&number| !whole(number)),
            Spread::Normal(mean, _) | Spread::LogNormal(mean, _) | Spread::Exponential(mean) => {
                [*mean].into_iter().find(|mean| !(1.0..=f64::from(longest)).contains(mean))
            }
        };
        match (wrong, given) {
            (None, _) if longest > 0 => Ok(Self { spread, longest }),
            (None, _) => Err(Error::Value(format!("the longest {what} is 0; allowed: at least 1"))),
            (Some(number), NumberOrText::Number(_)) => {
                Err(Error::Value(format!("{what} is {number}; needed: whole numbers from 1 to {longest}")))
            }
            (Some(number), NumberOrText::Text(text)) => Err(Error::Value(format!(
                "{what} is '{text}' with {number}; needed: whole numbers from 1 to {longest}"
            ))),
        }
    }

    /// From a length, those that are uniform from `(1 - ratio)` to `(1 + ratio)` times it, rounded outwards, both ends
    /// included and 1 at least: `--random-range-ratio` of vLLM's benchmark.
    ///
    /// # Errors
    /// [`Error::Value`] that names `what` if the ratio is not from 0 to below 1, or the length no number.
    ///
    /// ```
    /// use trn3_planner::load::Lengths;
    ///
    /// let lengths = Lengths::new("output", &128.0.into(), None).unwrap().around("output", 0.25).unwrap();
    /// assert_eq!((lengths.mean(), lengths.longest()), (128.0, 160));
    /// ```
    pub fn around(self, what: &str, ratio: f64) -> Result<Self> {
        if !(0.0..1.0).contains(&ratio) {
            return Err(Error::Value(format!("range_ratio of {what} is {ratio}; allowed: from 0 to below 1")));
        }
        let Spread::Fixed(length) = self.spread else {
            return Err(Error::Value(format!("range_ratio needs {what} to be a number, not a distribution")));
        };
        let least = (length * (1.0 - ratio)).floor().max(1.0);
        let most = (length * (1.0 + ratio)).ceil().min(f64::from(LONGEST));
        Ok(Self { spread: Spread::Uniform(least, most), longest: self.longest.max(most as u32) })
    }

    /// The next length.
    pub fn draw(&self, rng: &mut impl Rng) -> u32 {
        match &self.spread {
            Spread::Uniform(least, most) => rng.random_range(*least as u32..=*most as u32),
            Spread::Exponential(mean) => {
                let unit: f64 = Exp1.sample(rng);
                self.whole(1.0 + (unit / -(-mean.recip()).ln_1p()).floor())
            }
            other => self.whole(other.draw(rng)),
        }
    }

    fn whole(&self, number: f64) -> u32 {
        number.round().clamp(1.0, f64::from(self.longest)) as u32
    }

    /// The mean of what is drawn, rounding and limits included.
    pub fn mean(&self) -> f64 {
        match &self.spread {
            Spread::Fixed(number) => *number,
            Spread::Uniform(least, most) => f64::midpoint(*least, *most),
            Spread::Normal(..) | Spread::LogNormal(..) => {
                self.spread.mean_of_normal(|number| f64::from(self.whole(number)))
            }
            Spread::Exponential(mean) => mean * (1.0 - self.beyond()),
            Spread::Choice(values) => values.mean_of(|value| value),
        }
    }

    /// The longest that is drawn.
    pub fn longest(&self) -> u32 {
        match &self.spread {
            Spread::Fixed(number) => *number as u32,
            Spread::Uniform(_, most) => *most as u32,
            Spread::Choice(values) => values.values().iter().fold(1.0, |most: f64, &value| most.max(value)) as u32,
            _ => self.longest,
        }
    }

    /// The share of draws that the limit makes shorter.
    pub fn beyond(&self) -> f64 {
        match &self.spread {
            Spread::Normal(..) | Spread::LogNormal(..) => {
                let limit = f64::from(self.longest);
                self.spread.mean_of_normal(|number| f64::from(u8::from(number.round() > limit)))
            }
            Spread::Exponential(mean) => ((-mean.recip()).ln_1p() * f64::from(self.longest)).exp(),
            _ => 0.0,
        }
    }

    /// What to tell people of the limit, where it matters.
    ///
    /// ```
    /// use trn3_planner::load::Lengths;
    ///
    /// let lengths = Lengths::new("output", &"exponential:100".into(), Some(200)).unwrap();
    /// assert_eq!(lengths.cut("output").unwrap(), "output of more than 200 are cut to it: 13.40 % of them");
    /// ```
    pub fn cut(&self, what: &str) -> Option<String> {
        let share = self.beyond();
        (share > NEGLIGIBLE)
            .then(|| format!("{what} of more than {} are cut to it: {:.2} % of them", self.longest, 100.0 * share))
    }
}

#[cfg(test)]
#[path = "lengths_tests.rs"]
mod tests;
