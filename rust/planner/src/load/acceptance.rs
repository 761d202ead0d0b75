//! Speculation: how many of the guessed tokens of a step a model keeps.

use rand::{Rng, RngExt};
use trn3_system::{Error, Result};

/// The chance that a guess is kept, by its place, given that all before it were.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Acceptance(Vec<f64>);

impl Acceptance {
    /// From the chances that are given.
    ///
    /// # Errors
    /// [`Error::Value`] if there are not as many as guesses, or one is none.
    pub(super) fn by_position(chances: &[f64], guesses: u64) -> Result<Self> {
        if chances.len() as u64 != guesses {
            return Err(Error::Value(format!(
                "acceptance has {} chances; needed: one for each of the {guesses} guesses of a step",
                chances.len()
            )));
        }
        if let Some(wrong) = chances.iter().find(|chance| !(0.0..=1.0).contains(*chance)) {
            return Err(Error::Value(format!("acceptance has {wrong}; needed: chances from 0 to 1")));
        }
        Ok(Self(chances.to_vec()))
    }

    /// One chance for every place, such that a step yields `accepted` tokens on average **(choice)**.
    pub(super) fn of_mean(accepted: f64, guesses: u64) -> Self {
        let yielded = |chance: f64| (0..=guesses).fold((0.0, 1.0), |(sum, power), _| (sum + power, power * chance)).0;
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if yielded(middle) < accepted { low = middle } else { high = middle }
        }
        Self(vec![f64::midpoint(low, high); guesses as usize])
    }

    /// Tokens of a step at most.
    pub(super) fn most(&self) -> u32 {
        self.0.len() as u32 + 1
    }

    /// Tokens that a step yields on average.
    #[cfg(test)]
    fn mean(&self) -> f64 {
        let (sum, _) = self.0.iter().fold((1.0, 1.0), |(sum, power), chance| (sum + power * chance, power * chance));
        sum
    }

    /// Tokens of one step: those guesses that are kept, and the model's own.
    pub(super) fn draw(&self, random: &mut impl Rng) -> u32 {
        1 + self.0.iter().take_while(|chance| random.random::<f64>() < **chance).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn test_draws_have_the_mean_that_is_asked_for() {
        for (accepted, guesses) in [(1.0, 3), (3.5, 5), (2.0, 1), (6.0, 5)] {
            let acceptance = Acceptance::of_mean(accepted, guesses);
            assert!((acceptance.mean() - accepted).abs() < 1e-9, "{accepted}");
            let mut random = Pcg64Mcg::seed_from_u64(7);
            let count = 100_000;
            let sum: u32 = (0..count).map(|_| acceptance.draw(&mut random)).sum();
            assert!((f64::from(sum) / f64::from(count) - accepted).abs() < 0.02, "{accepted}");
        }
    }

    #[test]
    fn test_chances_are_checked() {
        let said = |chances: &[f64]| Acceptance::by_position(chances, 2).expect_err("refused").to_string();
        assert!(said(&[0.5]).contains("one for each of the 2"));
        assert!(said(&[0.5, 1.5]).contains("has 1.5"));
        let falling = Acceptance::by_position(&[0.8, 0.5], 2).expect("fine");
        assert_eq!((falling.mean(), falling.most()), (1.0 + 0.8 + 0.4, 3));
    }
}
