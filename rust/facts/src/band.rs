//! How far models were off where somebody has measured: the bands that predictions carry.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::built_in::aliases;
use crate::error::{Error, Result};

/// What peers' figures are of, whichever phase: their rows are few.
const PEERS: &str = "gpu";

/// How wide the band of a prediction is, and what says so.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictionBand {
    /// Generation and phase of the prediction: `trn2 decode b1`.
    pub class: String,
    /// Published rows that the width was read off.
    pub rows: u32,
    /// How many of them lie within it.
    pub within: u32,
    /// The measured figure is looked for from the predicted one over `1 + width` to that times `1 + width`.
    pub width: f64,
    /// What the rows are.
    pub basis: String,
    /// All of it in words: `within 25 % on 13 of 14 fit rows`.
    pub text: String,
}

/// One class of `bands.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasuredClass {
    rows: u32,
    within: u32,
    width: f64,
    basis: String,
}

type Classes = BTreeMap<String, MeasuredClass>;

/// The classes by name, read once.
static CLASSES: LazyLock<Result<Classes>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Bands {
        class: Classes,
    }
    let read: Bands = toml::from_str(include_str!("../specs/models/bands.toml"))
        .map_err(|error| Error::Spec(format!("bands.toml: {error}")))?;
    Ok(read.class)
});

impl PredictionBand {
    /// The band of a figure of a chip (`trainium2`) in a phase: `decode b1`, `decode bN`, `prefill`, `speculation`,
    /// `training`, `collectives 1 node`, `collectives network`. A generation of which nothing is measured has the widest of
    /// the phase, and says so.
    ///
    /// # Errors
    /// [`Error::Spec`] if the table of the crate is wrong: none in practice.
    ///
    /// ```
    /// use trn3_facts::PredictionBand;
    ///
    /// let band = PredictionBand::of("trainium1", "decode b1")?;
    /// assert_eq!(band.class, "trn1 decode b1");
    /// assert!(band.within <= band.rows && band.width >= 0.25);
    /// let guessed = PredictionBand::of("trainium3", "decode b1")?;
    /// assert!(guessed.width >= band.width && guessed.text.ends_with("no measured trn3 row exists"));
    /// # Ok::<(), trn3_facts::Error>(())
    /// ```
    pub fn of(chip: &str, phase: &str) -> Result<Self> {
        let classes = CLASSES.as_ref().map_err(Clone::clone)?;
        let generation = aliases("generations").get(chip).map_or(chip, String::as_str);
        let is_of_peers = generation == PEERS && !phase.starts_with("collectives") && phase != "training";
        let class = if is_of_peers { PEERS.to_owned() } else { format!("{generation} {phase}") };
        if let Some(found) = classes.get(&class) {
            return Ok(Self::read(class, found, found.basis.clone()));
        }
        let is_alike = |name: &str| name.strip_suffix(phase).is_some_and(|rest| rest.ends_with(' '));
        let wider = |a: &(&String, &MeasuredClass), b: &(&String, &MeasuredClass)| a.1.width.total_cmp(&b.1.width);
        let widest = classes.iter().filter(|(name, _)| is_alike(name)).max_by(wider);
        let (name, found) = widest
            .or_else(|| classes.iter().max_by(wider))
            .ok_or_else(|| Error::Spec("bands.toml has no class".to_owned()))?;
        // Rows of a generation's other phases do not make its own.
        let is_measured = classes.keys().any(|name| name.starts_with(&format!("{generation} ")));
        let of = if is_measured { format!(" of {phase}") } else { String::new() };
        let basis = format!("{} of {name}; no measured {generation} row{of} exists", found.basis);
        Ok(Self::read(class, found, basis))
    }

    fn read(class: String, of: &MeasuredClass, basis: String) -> Self {
        let MeasuredClass { rows, within, width, .. } = *of;
        let text = format!("within {:.0} % on {within} of {rows} {basis}", 100.0 * width);
        Self { class, rows, within, width, basis, text }
    }

    /// The bounds of a predicted figure.
    pub fn around(&self, value: f64) -> (f64, f64) {
        (value / (1.0 + self.width), value * (1.0 + self.width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_a_generation_without_rows_is_as_wide_as_the_widest() {
        let classes = CLASSES.as_ref().expect("reads");
        for phase in ["decode b1", "decode bN", "prefill", "speculation", "training", "collectives network"] {
            let of = |chip| PredictionBand::of(chip, phase).expect(phase);
            let widest = of("trainium3");
            assert!(widest.basis.ends_with("no measured trn3 row exists"), "{}", widest.basis);
            assert!(["trainium1", "trainium2"].into_iter().all(|chip| of(chip).width <= widest.width));
        }
        assert!(classes.values().all(|class| class.within <= class.rows && class.width > 0.0));
    }

    #[test]
    fn test_peers_have_one_class() {
        let of = |chip, phase| PredictionBand::of(chip, phase).expect(phase);
        assert_eq!(of("h100", "decode b1"), of("b200", "prefill"));
        assert_eq!(of("h100", "decode b1").class, "gpu");
        assert_ne!(of("h100", "training").class, "gpu");
        assert!(of("tpu_v7", "prefill").basis.ends_with("no measured tpu_v7 row exists"));
    }

    #[test]
    fn test_bounds_hold_the_figure() {
        let band = PredictionBand::of("trainium1", "training").expect("there");
        let (low, high) = band.around(2.0);
        assert!(low < 2.0 && 2.0 < high && (low * high - 4.0).abs() < 1e-12);
        assert!(band.text.starts_with("within "));
    }
}
