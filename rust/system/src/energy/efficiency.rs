//! Performance per watt of one chip against another: as many readings as there are assumptions.

use serde::Serialize;

use super::model::{EnergyModel, chip_facts, fastest};
use crate::error::{Error, Result};
use trn3_facts::{Facts, Overrides, Spec};

/// Names of 8-bit peaks in spec files, the preferred first, and PFLOPS in one of their units.
const PEAKS: [(&str, f64); 4] =
    [("pflops_mxfp8", 1.0), ("pflops_fp8", 1.0), ("tflops_mxfp8", 1e-3), ("tflops_fp8", 1e-3)];

/// The published 8-bit peak of a chip or system, in PFLOPS.
///
/// # Errors
/// [`Error::Unknown`] if there is no such system, [`Error::Value`] if no peak of it is published.
///
/// ```
/// assert_eq!(trn3_system::energy::published_pflops("gen2").unwrap(), 362.448);
/// ```
pub fn published_pflops(system: &str) -> Result<f64> {
    let facts = Facts::load(system)?;
    // What nobody published of a system of one's own may follow from its chips.
    let spec = Spec::of(&facts, Overrides::new())?;
    let peak = |(key, scale): (&str, f64)| {
        let found = facts.quantities.get(key).or_else(|| spec.quantities.get(key))?;
        Some(found.number()? * scale)
    };
    PEAKS
        .into_iter()
        .find_map(peak)
        .ok_or_else(|| Error::Value(format!("system '{system}' has no published 8-bit peak; give pflops=... instead")))
}

/// One reading of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// What is compared.
    pub name: String,
    /// How many times better the first chip is.
    pub ratio: f64,
    /// What has to be true for it.
    pub assumption: String,
}

/// Performance per watt of `chip` against `peer`: at the TDPs that are the default, at equal power, 8-bit against BF16 at
/// equal power, and what the vendor claims where there is a claim.
///
/// # Errors
/// [`Error::Unknown`] if a chip is unknown, [`Error::Value`] if a figure of it is not published.
///
/// ```
/// let readings = trn3_system::energy::per_watt("trainium3", "trainium2").unwrap();
/// let ratios: Vec<f64> = readings.iter().map(|reading| (reading.ratio * 100.0).round() / 100.0).collect();
/// assert_eq!(ratios, [0.97, 1.94, 3.77, 4.0]);
/// ```
pub fn per_watt(chip: &str, peer: &str) -> Result<Vec<Reading>> {
    let (first, second) = (EnergyModel::built_in(chip, None)?, EnergyModel::built_in(peer, None)?);
    let ((name, peak), (other, other_peak)) = (narrow(&first)?, narrow(&second)?);
    let wide = second.peak("bf16")?;
    let equal = first.variants.iter().find(|tdp| second.variants.contains(tdp));
    let both = equal.map_or_else(|| "equal power".to_owned(), |tdp| format!("{tdp} W"));
    let mut readings = vec![
        Reading {
            name: format!("{name} against {other}, default TDPs"),
            ratio: (peak / first.tdp) / (other_peak / second.tdp),
            assumption: format!("{} draws {} W, {} {} W", first.chip, first.tdp, second.chip, second.tdp),
        },
        Reading {
            name: format!("{name} against {other}, equal power"),
            ratio: peak / other_peak,
            assumption: format!("both draw {both}"),
        },
        Reading {
            name: format!("{name} against bf16, equal power"),
            ratio: peak / wide,
            assumption: format!("both draw {both}, and work of {} in bf16 moves to {name}", second.chip),
        },
    ];
    let short = second.chip.replace("trainium", "trn");
    if let Ok(claim) = chip_facts(chip)?.si(&format!("performance_per_watt_vs_{short}")) {
        readings.push(Reading {
            name: "claim of the vendor".to_owned(),
            ratio: claim,
            assumption: "published without its conditions; stated of UltraServers".to_owned(),
        });
    }
    Ok(readings)
}

fn narrow(model: &EnergyModel) -> Result<(&'static str, f64)> {
    let (index, peak) =
        fastest(model.peaks()).ok_or_else(|| Error::Value(format!("{} has no published peak rate", model.chip)))?;
    Ok((super::DTYPES[index], peak))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_readings_against_a_peer_without_a_claim_are_three() {
        let readings = per_watt("trainium3", "b300").expect("both published");
        assert_eq!(readings.len(), 3);
        assert!((readings[1].ratio - 2517.0 / 5000.0).abs() < 1e-12);
    }

    #[test]
    fn test_readings_need_a_power() {
        assert!(per_watt("trainium1", "trainium2").expect_err("no TDP").to_string().contains("TDP"));
    }
}
