//! What plans would be if constants that nobody publishes were others within their ranges.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;
use trn3_facts::{ConstantDraw, drawn};
use trn3_system::{Error, Result};

/// Draws that a plan takes at most **(choice)**: quantiles need no more.
const MOST_DRAWS: u32 = 100_000;

/// Of many draws, what a tenth, half and nine tenths lie below.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// A tenth.
    pub p10: f64,
    /// Half.
    pub p50: f64,
    /// Nine tenths.
    pub p90: f64,
}

/// Figures of a plan under draws of the constants that nobody publishes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Uncertainty {
    /// How many were drawn.
    pub samples: u32,
    /// What decides them.
    pub seed: u64,
    /// Each figure by its name in the plan.
    pub figures: BTreeMap<&'static str, Quantiles>,
}

impl Uncertainty {
    /// Draws `samples` times and computes the named figures of each; the same seed gives the same answer on any number of
    /// threads.
    ///
    /// # Errors
    /// [`Error::Value`] if there are no samples or more than 100,000; those of the work.
    pub fn of<const N: usize>(
        (samples, seed): (u32, u64),
        names: [&'static str; N],
        work: impl Fn() -> Result<[f64; N]> + Sync,
    ) -> Result<Self> {
        if !(1..=MOST_DRAWS).contains(&samples) {
            return Err(Error::Value(format!("uncertainty is {samples}; allowed: 1 to {MOST_DRAWS} draws")));
        }
        let one = |number: u32| drawn(ConstantDraw { seed, number: u64::from(number) }, &work);
        let found: Vec<[f64; N]> = (0..samples).into_par_iter().map(one).collect::<Result<_>>()?;
        let figures = names.into_iter().enumerate().map(|(index, name)| {
            let mut values: Vec<f64> = found.iter().map(|figures| figures[index]).collect();
            values.sort_by(f64::total_cmp);
            let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
            (name, Quantiles { p10: at(0.1), p50: at(0.5), p90: at(0.9) })
        });
        Ok(Self { samples, seed, figures: figures.collect() })
    }
}
