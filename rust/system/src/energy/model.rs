//! Joules of an operation and of a byte, for one chip at one TDP.

use std::sync::LazyLock;

use serde::Serialize;

use super::{EnergyWork, check};
use crate::error::{Error, Result};
use trn3_facts::{Facts, Value};

/// Types that an operation can have, as the parameters name them.
pub const DTYPES: [&str; 7] = ["mxfp8", "mxfp4", "fp8", "bf16", "fp16", "tf32", "fp32"];

/// The precisions in which a peak is looked for, the fastest first.
const FASTEST: [&str; 2] = ["mxfp8", "fp8"];

static PARAMETERS: LazyLock<Result<Facts>> = LazyLock::new(|| Ok(trn3_facts::parameters("energy")?));

/// The parameters of the crate: value, unit and reason of each.
///
/// # Errors
/// [`Error::Spec`] if the crate's own file is broken.
pub fn parameters() -> Result<&'static Facts> {
    PARAMETERS.as_ref().map_err(Clone::clone)
}

/// The chip that a system is made of; a chip's name is its own.
///
/// # Errors
/// [`Error::Unknown`] if nothing has the name.
pub fn chip_of(system: &str) -> Result<String> {
    Ok(chip_facts(system)?.name)
}

/// What is published about the chip that a system is made of, whoever described the system: see [`Facts::load`].
pub(super) fn chip_facts(system: &str) -> Result<Facts> {
    let facts = Facts::load(system)?;
    match facts.part("chip")? {
        Some(chip) => Ok(chip),
        None if facts.kind.starts_with("chip") => Ok(facts),
        None => {
            Err(Error::Value(format!("system {system:?} is a {}; needed: a chip or a system of chips", facts.kind)))
        }
    }
}

/// Joules of an operation and of a byte, for one chip at one TDP.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnergyModel {
    /// Name of the chip.
    pub chip: String,
    /// Thermal design power that is assumed, watts.
    pub tdp: f64,
    /// TDPs that sources give, in rising order: figures are always shown for each of them.
    pub variants: Vec<f64>,
    /// The factor on every energy of the parameter file.
    pub scale: f64,
    /// Drawn at any load, watts.
    pub static_watts: f64,
    /// Joules of an operation, in the order of [`DTYPES`].
    pub flop: [f64; DTYPES.len()],
    /// Joules of a byte of HBM.
    pub hbm: f64,
    /// Joules of a byte that a chip sends over its links.
    pub link: f64,
    /// Joules of a byte of SBUF.
    pub sbuf: f64,
    /// What is assumed.
    pub assumptions: Vec<String>,
    #[serde(skip)]
    scale_per_watt: f64,
    #[serde(skip)]
    peaks: [Option<f64>; DTYPES.len()],
    #[serde(skip)]
    hbm_rate: f64,
}

impl EnergyModel {
    /// The model of a chip, or of that of a system, as a user names it; see [`EnergyModel::of`].
    ///
    /// # Errors
    /// [`Error::Unknown`] for the name, and those of [`EnergyModel::of`].
    pub fn built_in(chip: &str, tdp: Option<f64>) -> Result<Self> {
        Self::of(&chip_facts(chip)?, parameters()?, tdp)
    }

    /// The model of a chip from its facts and a set of parameters; `tdp` in watts, else what the facts say.
    ///
    /// The energies are those of the parameters for Trainium3, times TDP / `reference_tdp`. For any other chip they are
    /// scaled such that arithmetic at the 8-bit peak plus HBM at its peak plus the static share is the TDP **(choice)**.
    ///
    /// # Errors
    /// [`Error::Value`] if the TDP is not positive, or none is given and none is published; [`Error::Unknown`] if the
    /// facts lack a peak or the HBM rate.
    pub fn of(chip: &Facts, parameters: &Facts, tdp: Option<f64>) -> Result<Self> {
        let mut variants = published_tdps(chip);
        let tdp = match (tdp, chip.quantities.contains_key("tdp")) {
            (Some(tdp), _) => check("tdp", tdp, 0.0, true)?,
            (None, true) => chip.si("tdp")?,
            (None, false) => {
                return Err(Error::Value(format!(
                    "{} has no published TDP; give one in watts (tdp=...), for example 500",
                    chip.name
                )));
            }
        };
        if variants.is_empty() {
            variants.push(tdp);
        }
        let peaks = DTYPES.map(|dtype| chip.si(&format!("tflops_{dtype}")).ok());
        let hbm_rate = chip.si("hbm_bandwidth")?;
        let share = parameters.si("static_share")?;
        let joules = |key: &str| parameters.si(key);
        let mut flop = [0.0; DTYPES.len()];
        for (energy, dtype) in flop.iter_mut().zip(DTYPES) {
            *energy = joules(&format!("flop_{dtype}"))?;
        }
        let mut assumptions = vec![tdp_sentence(chip, tdp)];
        let scale_per_watt = if chip.like() == "trainium3" {
            1.0 / parameters.si("reference_tdp")?
        } else {
            let (index, peak) = fastest(&peaks)
                .ok_or_else(|| Error::Value(format!("{} has no peak rate; needed: tflops_bf16 or fp8", chip.name)))?;
            assumptions.push(format!(
                "energies of {} are those of trainium3 scaled so that {} and HBM at their peaks draw the TDP (choice)",
                chip.name, DTYPES[index]
            ));
            (1.0 - share) / (peak * flop[index] + hbm_rate * joules("hbm")?)
        };
        let mut model = Self {
            chip: chip.name.clone(),
            tdp,
            variants,
            scale: 1.0,
            static_watts: share,
            flop,
            hbm: joules("hbm")?,
            link: joules("link")?,
            sbuf: joules("sbuf")?,
            assumptions,
            scale_per_watt,
            peaks,
            hbm_rate,
        };
        let reference = model.scale_per_watt * tdp;
        model.rescale(reference);
        model.static_watts = share * tdp;
        model.assumptions.extend(parameter_sentences(parameters, reference)?);
        Ok(model)
    }

    /// The same chip at another TDP: every energy and the static power times the same factor.
    ///
    /// # Errors
    /// [`Error::Value`] if `tdp` is not positive.
    pub fn with_tdp(&self, tdp: f64) -> Result<Self> {
        check("tdp", tdp, 0.0, true)?;
        let mut model = self.clone();
        let factor = tdp / self.tdp;
        model.rescale(factor);
        model.scale = self.scale * factor;
        model.static_watts = self.static_watts * factor;
        model.tdp = tdp;
        Ok(model)
    }

    fn rescale(&mut self, factor: f64) {
        self.scale = factor;
        for energy in &mut self.flop {
            *energy *= factor;
        }
        self.hbm *= factor;
        self.link *= factor;
        self.sbuf *= factor;
    }

    /// Joules of one operation.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the dtype is none of [`DTYPES`].
    pub fn flop(&self, dtype: &str) -> Result<f64> {
        index_of(dtype).map(|index| self.flop[index])
    }

    /// Peak operations a second of this chip, from its facts.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the dtype is unknown, [`Error::Value`] if the chip has no such rate.
    pub fn peak(&self, dtype: &str) -> Result<f64> {
        self.peaks[index_of(dtype)?].ok_or_else(|| {
            let known: Vec<&str> =
                DTYPES.into_iter().zip(self.peaks).filter_map(|(name, peak)| peak.map(|_| name)).collect();
            Error::Value(format!("{} has no published {dtype} rate; it has {}", self.chip, known.join(", ")))
        })
    }

    /// Published peaks in the order of [`DTYPES`].
    pub(super) fn peaks(&self) -> &[Option<f64>; DTYPES.len()] {
        &self.peaks
    }

    /// Published rate of the chip's HBM, bytes a second.
    pub fn hbm_rate(&self) -> f64 {
        self.hbm_rate
    }

    /// What a chip does in `seconds` if arithmetic of one dtype and HBM both run at their published peaks.
    ///
    /// # Errors
    /// As [`EnergyModel::peak`].
    pub fn full_load(&self, dtype: &str, seconds: f64) -> Result<EnergyWork> {
        self.load(dtype, 1.0, 1.0, seconds)
    }

    /// What a chip does in `seconds` at shares of its published peaks: arithmetic of one dtype, and HBM.
    ///
    /// # Errors
    /// As [`EnergyModel::peak`]; [`Error::Value`] if a share is not from 0 to 1.
    pub fn load(&self, dtype: &str, arithmetic: f64, hbm: f64, seconds: f64) -> Result<EnergyWork> {
        for (name, share) in [("utilisation", arithmetic), ("hbm", hbm)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(Error::Value(format!("{name} is {share}; it is a share of the peak: 0 to 1")));
            }
        }
        let mut work = EnergyWork { hbm_bytes: self.hbm_rate * hbm * seconds, seconds, ..EnergyWork::default() };
        work.add(dtype, self.peak(dtype)? * arithmetic * seconds)?;
        Ok(work)
    }
}

/// Place of a dtype in [`DTYPES`].
pub(super) fn index_of(dtype: &str) -> Result<usize> {
    DTYPES.iter().position(|name| *name == dtype).ok_or_else(|| Error::unknown("dtype", dtype, DTYPES))
}

/// The fastest 8-bit peak that is known, else the one of BF16.
pub(super) fn fastest(peaks: &[Option<f64>; DTYPES.len()]) -> Option<(usize, f64)> {
    FASTEST
        .iter()
        .chain(&["bf16"])
        .filter_map(|dtype| index_of(dtype).ok())
        .find_map(|index| peaks[index].map(|peak| (index, peak)))
}

fn published_tdps(chip: &Facts) -> Vec<f64> {
    let Some(quantity) = chip.quantities.get("tdp") else { return Vec::new() };
    let mut tdps: Vec<f64> = quantity
        .sources
        .iter()
        .filter_map(|source| match source.value {
            Value::Number(watts) => Some(watts),
            _ => None,
        })
        .collect();
    tdps.sort_by(f64::total_cmp);
    tdps.dedup();
    tdps
}

fn tdp_sentence(chip: &Facts, tdp: f64) -> String {
    let published = published_tdps(chip);
    let list: Vec<String> = published.iter().map(|watts| format!("{watts} W")).collect();
    let said = match list.as_slice() {
        [] => "none published".to_owned(),
        [one] => format!("one figure published, {one}, not confirmed by the vendor"),
        many => format!("sources give {}, none confirmed by the vendor", many.join(" and ")),
    };
    format!("TDP of {} taken as {tdp} W ({said})", chip.name)
}

fn parameter_sentences(parameters: &Facts, scale: f64) -> Result<Vec<String>> {
    let value = |key: &str| parameters.quantity(key).map(|quantity| quantity.number().unwrap_or_default());
    Ok(vec![
        format!("static power is {} of TDP (choice)", value("static_share")?),
        format!(
            "energies (choices, times {}): mxfp8 {} and bf16 {} pJ/FLOP, HBM {}, links {}, SBUF {} pJ/bit",
            (scale * 1e4).round() / 1e4,
            value("flop_mxfp8")?,
            value("flop_bf16")?,
            value("hbm")?,
            value("link")?,
            value("sbuf")?,
        ),
    ])
}
