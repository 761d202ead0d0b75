//! Power of a system's racks, and what cooling that needs.

use serde::Serialize;

use super::model::{EnergyModel, parameters};
use crate::error::{Error, Result};
use trn3_facts::{Facts, Value};

/// Power of the racks of a system at one TDP; accelerators only.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RackPower {
    /// The system.
    pub system: String,
    /// Its chips.
    pub chips: usize,
    /// Its racks.
    pub racks: usize,
    /// The TDP of a chip that is assumed, watts.
    pub tdp: f64,
    /// All chips at TDP, watts.
    pub watts: f64,
    /// One rack, watts.
    pub watts_per_rack: f64,
    /// `air` or `liquid`: what a rack of that power needs.
    pub cooling: String,
    /// What sources say of the system's cooling; empty if nothing.
    pub published_cooling: String,
    /// What is assumed.
    pub assumptions: Vec<String>,
}

/// Power of the racks of a system at each TDP that sources give of its chip, or at `tdp` alone.
///
/// # Errors
/// [`Error::Unknown`] or [`Error::Value`] if the system is unknown, has no count of chips, or its chip has no TDP.
///
/// ```
/// use trn3_system::energy::rack_power;
///
/// let [low, high] = &rack_power("trn3_gen2", None).unwrap()[..] else { panic!("two TDPs") };
/// assert_eq!((low.watts_per_rack, low.cooling.as_str()), (36e3, "air"));
/// assert_eq!((high.watts, high.watts_per_rack, high.cooling.as_str()), (144e3, 72e3, "liquid"));
/// ```
pub fn rack_power(system: &str, tdp: Option<f64>) -> Result<Vec<RackPower>> {
    let facts = Facts::load(system)?;
    let chip = EnergyModel::built_in(system, tdp)?;
    let count = |key: &str| facts.si(key).ok().map(|number| number as usize);
    let chips = count("chips").or_else(|| count("gpus")).ok_or_else(|| {
        Error::Value(format!("system {system:?} has no count of chips; racks are known of trn3_gen1, trn3_gen2, ..."))
    })?;
    let racks = count("racks").unwrap_or(1).max(1);
    let limit = parameters()?.si("air_cooled_rack")?;
    let published = match facts.quantities.get("cooling").map(|quantity| &quantity.value) {
        Some(Value::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let tdps = tdp.map_or_else(|| chip.variants.clone(), |tdp| vec![tdp]);
    Ok(tdps
        .into_iter()
        .map(|tdp| {
            let watts = chips as f64 * tdp;
            let watts_per_rack = watts / racks as f64;
            let mut assumptions = vec![
                format!("every chip draws its TDP of {tdp} W; hosts, switches, fans and conversion are not counted"),
                format!("a rack up to {} kW can be cooled by air (choice)", limit / 1e3),
            ];
            if !facts.quantities.contains_key("racks") {
                assumptions.push("one rack, as no source counts them".to_owned());
            }
            RackPower {
                system: facts.name.clone(),
                chips,
                racks,
                tdp,
                watts,
                watts_per_rack,
                cooling: if watts_per_rack > limit { "liquid" } else { "air" }.to_owned(),
                published_cooling: published.clone(),
                assumptions,
            }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_rack_power_of_gen1_stays_with_air() {
        let racks = rack_power("trn3_gen1", Some(1000.0)).expect("known");
        assert_eq!((racks[0].watts_per_rack, racks[0].cooling.as_str()), (32e3, "air"));
        assert_eq!(racks[0].published_cooling, "air");
    }

    #[test]
    fn test_rack_power_refuses_what_has_no_chips() {
        assert!(rack_power("measured", None).is_err());
        assert!(rack_power("trn3_gen3", None).expect_err("unknown").to_string().contains("nearest"));
    }
}
