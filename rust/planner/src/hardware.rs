//! What a plan runs on: rates and memory of a chip and of its logical cores, from the spec files.

use serde::Serialize;

use super::dtype::DataType;
pub use super::levels::LinkLevel;
use super::levels::{levels, network, si};
use trn3_facts::{BUILT_IN, Facts, Overrides, Spec, SystemText, Value, aliases, parameters, peak};
use trn3_system::energy::{self, EnergyModel};
use trn3_system::fabric::{FabricSpec, LinkProfile};
use trn3_system::{Error, Result};

/// A chip: what its parts can do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chip {
    /// Name of its spec file.
    pub name: String,
    /// Name for readers.
    pub title: String,
    /// Physical cores.
    pub cores: u32,
    /// Operations a second of the whole chip for each format of [`DataType::ALL`]; `None` where it has none.
    pub peaks: [Option<f64>; 7],
    /// Peak of its memory, bytes a second.
    pub hbm_rate: f64,
    /// What its DMA engines move together, bytes a second; infinite where loads need none.
    pub dma_rate: f64,
    /// Memory, bytes.
    pub hbm_bytes: f64,
    /// Physical cores that share one bank of memory.
    pub cores_per_bank: u32,
    /// Physical cores that one logical core can have; the last one is the default.
    pub lnc_modes: Vec<u32>,
    /// Whether DMA descriptors are made in hardware.
    pub descriptors_in_hardware: bool,
    /// Whether the rate of plain FP8 is that of BF16 for want of a published one.
    pub fp8_is_assumed: bool,
    /// The recipe of its serving stack, where one is known: its own, or that of its cores' generation.
    pub recipe: Option<String>,
    /// What had to be assumed to read the spec file this way.
    pub assumptions: Vec<String>,
    /// What is published about it.
    #[serde(skip)]
    pub facts: Facts,
}

impl Chip {
    /// A chip of the crate's spec files: `trainium1` to `trainium3`, `b200`, `h100`, ...
    ///
    /// ```
    /// use trn3_planner::{Chip, DataType};
    ///
    /// let chip = Chip::built_in("trainium3").unwrap();
    /// assert_eq!(chip.peak(DataType::MxFp8).unwrap(), 512.0 * 128.0 * 2.0 * 2.4e9 * 8.0);
    /// assert_eq!(chip.dma_rate, 128.0 * 33e9);
    /// ```
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none of that name, [`Error::Spec`] if its file lacks what a plan needs.
    pub fn built_in(name: &str) -> Result<Self> {
        let spec = Spec::built_in(name)?;
        Self::of(&spec)
    }

    /// A chip from its facts, whoever described it.
    ///
    /// # Errors
    /// [`Error::Spec`] if they lack what a plan needs.
    pub fn from_facts(chip: &Facts) -> Result<Self> {
        let spec = Spec::of(chip, Overrides::new())?;
        Self::of(&spec)
    }

    /// A chip from its spec: peaks of its arrays where its core is known, else those of its page.
    ///
    /// # Errors
    /// [`Error::Spec`] if it lacks what a plan needs.
    pub fn of(spec: &Spec) -> Result<Self> {
        let mut assumptions = Vec::new();
        let Facts { name, title, .. } = &spec.facts;
        let maybe = |key: &str| spec.si(key).ok();
        let needed = |key: &str| {
            maybe(key).ok_or_else(|| {
                Error::Spec(format!(
                    "{title}: nothing is published about its {key}, which a plan needs; a spec file of your own that has it \
                     would work"
                ))
            })
        };
        let cores = maybe("cores").unwrap_or(1.0);
        let has_core = spec.parts.contains_key("core");
        let mut peaks = [None; 7];
        for dtype in DataType::ALL.into_iter().filter(|dtype| dtype.multiplied() == *dtype) {
            peaks[dtype.index()] = peak(spec, dtype.name())?;
        }
        if peaks[DataType::Bf16.index()].is_none() {
            spec.quantity("tflops_bf16")?;
        }
        let fp8_is_assumed = has_core && peaks[DataType::Fp8.index()].is_none();
        if fp8_is_assumed {
            peaks[DataType::Fp8.index()] = peaks[DataType::Bf16.index()];
        }
        if !has_core {
            assumptions.push(format!("{title}: peaks of its page, no limit of engines that move data"));
        }
        let banks = maybe("hbm_stacks").filter(|_| has_core).unwrap_or(cores);
        let cores_per_bank = (cores / banks).max(1.0) as u32;
        let lnc_modes = lnc_modes(spec).unwrap_or_else(|| vec![1]);
        let said = |facts: &Facts| facts.parts.get("serving").and_then(|name| name.as_str()).map(str::to_owned);
        let of_core = || Ok::<_, Error>(spec.facts.part("core")?.as_ref().and_then(said));
        let recipe = match said(&spec.facts) {
            None => of_core()?,
            own => own,
        };
        Ok(Self {
            name: name.clone(),
            title: title.clone(),
            cores: cores as u32,
            peaks,
            hbm_rate: needed("hbm_bandwidth")?,
            dma_rate: if has_core { spec.si("dma_bandwidth")? } else { f64::INFINITY },
            hbm_bytes: needed("hbm_capacity")?,
            cores_per_bank,
            lnc_modes,
            descriptors_in_hardware: !has_core || cores_per_bank == 2,
            fp8_is_assumed,
            recipe,
            assumptions,
            facts: spec.facts.clone(),
        })
    }

    /// The chip of the crate that it is like: its base, else itself.
    pub fn like(&self) -> &str {
        self.facts.like()
    }

    /// Of what chip published measurements are its own: the one that it is like, unless a figure differs.
    pub(super) fn measured_as(&self) -> String {
        let like = self.like();
        match Facts::built_in(like) {
            Ok(known) if known.quantities == self.facts.quantities => like.to_owned(),
            _ if like == self.name => format!("changed {like}"),
            _ => self.name.clone(),
        }
    }

    /// The simulated core that is its, `_machine` of its spec file; `None` where none is.
    pub fn core(&self) -> Option<&str> {
        self.facts.parts.get("machine")?.as_str()
    }

    /// What it draws, at a TDP in watts or at its own.
    ///
    /// # Errors
    /// Those of [`EnergyModel::of`].
    pub fn energy(&self, tdp: Option<f64>) -> Result<EnergyModel> {
        EnergyModel::of(&self.facts, energy::parameters()?, tdp)
    }

    /// Operations a second of the whole chip in a format.
    ///
    /// # Errors
    /// [`Error::Value`] if the chip does not multiply it; the text says what it does.
    pub fn peak(&self, dtype: DataType) -> Result<f64> {
        self.peaks[dtype.index()].ok_or_else(|| {
            let known = DataType::ALL.into_iter().filter(|known| self.peaks[known.index()].is_some());
            let known: Vec<&str> = known.map(DataType::name).collect();
            Error::Value(format!(
                "{} does not multiply {}; it has {}; bf16 would work",
                self.title,
                dtype.name(),
                known.join(", ")
            ))
        })
    }

    /// Whether the chip multiplies a format.
    pub fn supports(&self, dtype: DataType) -> bool {
        self.peaks[dtype.index()].is_some()
    }

    /// The share of the chip that a logical core of `lnc` physical ones has.
    ///
    /// # Errors
    /// [`Error::Value`] if the chip has no such logical cores.
    pub fn rank(&self, lnc: u32) -> Result<Rank> {
        if !self.lnc_modes.contains(&lnc) {
            let allowed: Vec<String> = self.lnc_modes.iter().map(u32::to_string).collect();
            return Err(Error::Value(format!(
                "lnc is {lnc}; on {} a logical core has {} physical cores",
                self.title,
                allowed.join(" or ")
            )));
        }
        let share = f64::from(lnc) / f64::from(self.cores);
        Ok(Rank {
            lnc,
            per_chip: self.cores / lnc,
            peaks: self.peaks.map(|peak| peak.map(|peak| peak * share)),
            hbm_rate: self.hbm_rate * share,
            memory_rate: self.hbm_rate.min(self.dma_rate) * share,
        })
    }
}

/// One logical core of a chip with all others at work: its share of every rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rank {
    /// Physical cores in it.
    pub lnc: u32,
    /// Logical cores of a chip.
    pub per_chip: u32,
    /// Operations a second for each format of [`DataType::ALL`].
    pub peaks: [Option<f64>; 7],
    /// Its share of the memory's peak, bytes a second.
    pub hbm_rate: f64,
    /// What it can stream from memory: the lesser of that share and its DMA engines, bytes a second.
    pub memory_rate: f64,
}

/// Physical cores that one logical core can have, the last the default.
fn lnc_modes(spec: &Spec) -> Option<Vec<u32>> {
    let Value::List(modes) = &spec.quantities.get("lnc_modes")?.value else { return None };
    modes.iter().map(|mode| mode.number().map(|mode| mode as u32)).collect()
}

/// A system of alike chips.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Name of its spec file.
    pub name: String,
    /// Name for readers.
    pub title: String,
    /// Its chip.
    pub chip: Chip,
    /// How many it has.
    pub chips: u32,
    /// What joins them, from the inside out.
    pub levels: Vec<LinkLevel>,
    /// The network between several of these systems, where there is one.
    pub network: Option<LinkLevel>,
    /// What a rank sends over one channel of a collective, bytes a second; `None` where its links alone say.
    #[serde(skip)]
    pub channel_rate: Option<f64>,
    /// What had to be assumed.
    pub assumptions: Vec<String>,
    /// What its graph is made from; none for a chip alone or a cluster.
    #[serde(skip)]
    graph: Option<(Facts, LinkProfile)>,
}

impl Machine {
    /// A system of the crate by name, or a single chip of it; `gen1`, `gen2`, `trn1`, `trn2` are understood. A file's, and
    /// one with changes, are named as for [`SystemText::find`].
    ///
    /// ```
    /// use trn3_planner::Machine;
    ///
    /// let machine = Machine::built_in("gen2").unwrap();
    /// assert_eq!((machine.chips, machine.levels.len()), (144, 3));
    /// assert!(Machine::built_in("gen3").unwrap_err().to_string().contains("gen2"));
    /// ```
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none of that name, [`Error::Spec`] if its file lacks what a plan needs.
    pub fn built_in(name: &str) -> Result<Self> {
        Self::built_in_with(name, LinkProfile::Docs)
    }

    /// [`Machine::built_in`] with links of another profile.
    ///
    /// # Errors
    /// As there.
    pub fn built_in_with(name: &str, profile: LinkProfile) -> Result<Self> {
        let others = aliases("plans");
        if name.contains([':', '/', '.']) && !others.contains_key(name) {
            return Self::from_facts(&SystemText::find(name, "plans")?.facts()?, profile);
        }
        let name = others.get(name).map_or(name, String::as_str);
        let Ok(facts) = Facts::built_in(name) else {
            let known = BUILT_IN.iter().map(|(known, _)| *known);
            let known = known.filter(|known| Self::from_facts_of(known).is_ok());
            return Err(Error::unknown("system", name, known.chain(others.keys().map(String::as_str))));
        };
        Self::from_facts(&facts, profile)
    }

    fn from_facts_of(name: &str) -> Result<Self> {
        Self::from_facts(&Facts::built_in(name)?, LinkProfile::Docs)
    }

    /// A system from its facts: one with a fabric whose chip is of the crate, or a chip.
    ///
    /// # Errors
    /// [`Error::Spec`] if they lack what a plan needs.
    pub fn from_facts(facts: &Facts, profile: LinkProfile) -> Result<Self> {
        let Facts { name, title, .. } = facts.clone();
        if !facts.parts.contains_key("fabric") {
            if facts.parts.contains_key("chip") {
                return Err(Error::Spec(format!(
                    "{}: {name} has chips and no [{name}._fabric], which joins them; add axes and levels, or plan the chip",
                    facts.file
                )));
            }
            let chip = Chip::from_facts(facts)?;
            let assumptions = chip.assumptions.clone();
            return Ok(Self {
                name,
                title,
                chip,
                chips: 1,
                levels: Vec::new(),
                network: None,
                channel_rate: None,
                assumptions,
                graph: None,
            });
        }
        let spec = FabricSpec::of(facts)?;
        let chip = match spec.chip.as_deref() {
            Some(chip) if *chip == facts.name => Chip::from_facts(facts)?,
            Some(_) => match facts.part("chip")? {
                Some(chip) => Chip::from_facts(&chip)?,
                None => return Err(Error::Spec(format!("{}: {name}._chip is missing", facts.file))),
            },
            None => Chip::from_facts(facts)?,
        };
        let mut assumptions = chip.assumptions.clone();
        assumptions.extend(spec.confidence.iter().map(|text| format!("{title}: {text}")));
        let levels = levels(&spec, profile);
        let network = spec.network.as_ref().map(network);
        let channel_rate = spec.channel_rate.as_ref().map(si);
        let graph = Some((facts.clone(), profile));
        Ok(Self { name, title, chip, chips: spec.chips() as u32, levels, network, channel_rate, assumptions, graph })
    }

    /// The facts and the profile of links that its graph is made from; `None` for a chip alone or a cluster.
    pub fn graph(&self) -> Option<(&Facts, LinkProfile)> {
        self.graph.as_ref().map(|(facts, profile)| (facts, *profile))
    }

    /// Replicas of `ranks` logical cores that `most` logical cores hold, none astride two domains of a level that
    /// could hold it alone.
    ///
    /// ```
    /// // Racks of 72 chips: 48 chips fit each once, not three times in both.
    /// let machine = trn3_planner::Machine::built_in("gen2").unwrap();
    /// assert_eq!(machine.room(48 * 4, 4, 576), 2);
    /// assert_eq!(machine.room(36 * 4, 4, 576), 4);
    /// ```
    pub fn room(&self, ranks: u64, per_chip: u64, most: u64) -> u64 {
        if ranks == 0 {
            return 0;
        }
        let sizes = self.levels.iter().map(|level| u64::from(level.chips) * per_chip);
        let domain = [per_chip].into_iter().chain(sizes).find(|size| *size >= ranks).unwrap_or(most).min(most);
        let (whole, rest) = (most / domain.max(1), most % domain.max(1));
        whole * (domain / ranks) + rest / ranks
    }

    /// Several of this system, joined by its network.
    ///
    /// # Errors
    /// [`Error::Value`] if `count` is zero, makes more than a million chips, or there is no network.
    pub fn cluster(mut self, count: u32) -> Result<Self> {
        let chips = u64::from(self.chips) * u64::from(count);
        let most = Facts::built_in("ultracluster3")?.si("max_chips")? as u64;
        if count == 0 || chips > most {
            return Err(Error::Value(format!("instances is {count}; needed: 1 to {}", most / u64::from(self.chips))));
        }
        if count > 1 {
            let Some(network) = self.network.clone() else {
                return Err(Error::Value(format!(
                    "instances is {count}; {} has no network to others, so 1 alone would work",
                    self.title
                )));
            };
            self.chips = chips as u32;
            self.graph = None;
            self.levels.push(LinkLevel { chips: self.chips, ..network });
        }
        Ok(self)
    }
}

/// The constants of the serving model, each with its sources.
///
/// # Errors
/// None in practice: the file is part of the crate and tested.
pub fn serving() -> Result<Facts> {
    Ok(parameters("serving")?)
}

#[cfg(test)]
#[path = "hardware_tests.rs"]
mod tests;
