//! Values that are drawn by their shares, as people write them: `128@0.5,2048@0.5`.

use std::str::FromStr;

use rand::Rng;
use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;
use trn3_system::{Error, Result};

/// Values and how often each is drawn.
///
/// ```
/// use trn3_planner::load::Weighted;
///
/// let priorities: Weighted<i32> = Weighted::parse("priorities", "0@9,-1@1", "an integer").unwrap();
/// assert_eq!(priorities.mean_of(|priority| f64::from(priority)), -0.1);
/// assert!(Weighted::<i32>::parse("priorities", "0@0.9,-1", "an integer").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Weighted<T> {
    values: Vec<T>,
    shares: Vec<f64>,
    index: WeightedAliasIndex<f64>,
}

impl<T: Copy> Weighted<T> {
    /// Of values and their shares, which count relative to their sum.
    ///
    /// # Errors
    /// [`Error::Value`] that names `what` if there are none, a share is no number from 0 on, or all are 0.
    pub fn new(what: &str, values: Vec<T>, shares: Vec<f64>) -> Result<Self> {
        let index = WeightedAliasIndex::new(shares.clone()).map_err(|why| {
            Error::Value(format!(
                "{what} has shares {shares:?} ({why}); allowed: numbers from 0 on, at least one of them above"
            ))
        })?;
        Ok(Self { values, shares, index })
    }

    /// Reads `VALUE@SHARE,VALUE@SHARE`; `needed` says what a value has to be.
    ///
    /// # Errors
    /// [`Error::Value`] that names `what` if a part has no share or no such value; those of [`Weighted::new`].
    pub fn parse(what: &str, text: &str, needed: &str) -> Result<Self>
    where
        T: FromStr,
    {
        let (mut values, mut shares) = (Vec::new(), Vec::new());
        for part in text.split(',') {
            let read = part.trim().split_once('@').and_then(|(value, share)| {
                Some((value.trim().parse().ok()?, share.trim().parse::<f64>().ok().filter(|share| share.is_finite())?))
            });
            let Some((value, share)) = read else {
                return Err(Error::Value(format!(
                    "{what} has the part '{}'; allowed: VALUE@SHARE, the value {needed} and the share a number from 0 on",
                    part.trim()
                )));
            };
            values.push(value);
            shares.push(share);
        }
        Self::new(what, values, shares)
    }

    /// The next value.
    pub fn draw(&self, rng: &mut impl Rng) -> T {
        self.values[self.index.sample(rng)]
    }

    /// The values, each as often as it was given.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The mean of a function of what is drawn.
    pub fn mean_of(&self, function: impl Fn(T) -> f64) -> f64 {
        let weighed = self.values.iter().zip(&self.shares).map(|(&value, share)| function(value) * share);
        weighed.sum::<f64>() / self.shares.iter().sum::<f64>()
    }
}
