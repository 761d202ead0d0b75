//! The `_fabric` table of a spec file: axes, levels, rates and latencies of a fabric, and what is refused in one.

use serde::Deserialize;
use toml::Value as Toml;

use crate::error::{Error, Result};
use trn3_facts::{Facts, factor};

/// One figure of a `_fabric` table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The number, in [`Figure::unit`].
    pub value: f64,
    /// Unit, as in spec files; `dir` is one direction of a link, `bidir` both together.
    pub unit: String,
    /// Who published it; `choice: REASON` where nobody did.
    pub source: String,
}

/// One coordinate of a chip.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisSpec {
    /// Name, as levels use it: `rack`, `row`, ...
    pub name: String,
    /// How many values the coordinate takes.
    pub size: Figure,
    /// The part of a chip's id that this axis is counted in together with its neighbours of the same word; the axis's
    /// own name if absent.
    pub part_of: Option<String>,
}

/// How the chips of a level are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LevelKind {
    /// Each chip hangs on one switch, which forwards at the full rate of every port.
    Switch,
    /// Each chip is joined to the next and the previous one of each axis, cyclically.
    Ring,
    /// Each chip is joined to every other one of the level, without a switch.
    Direct,
}

impl LevelKind {
    /// The word that spec files use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Ring => "ring",
            Self::Direct => "direct",
        }
    }
}

/// One level of a fabric, as a spec file describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelSpec {
    /// Name, as routes and bounds print it.
    pub name: String,
    /// How its chips are joined.
    pub kind: LevelKind,
    /// The axes in which chips of one domain of the level differ.
    pub over: Vec<String>,
    /// Links that a chip has to the switch, or to each neighbour.
    pub links: Figure,
    /// Rate of one link, one way.
    pub rate: Figure,
    /// Time from chip to chip through this level, for the first byte.
    pub latency: Figure,
    /// The part of the rate that collectives reach; all of it if absent.
    pub efficiency: Option<Figure>,
    /// What its switches are called; the level's name if absent.
    pub switch: Option<String>,
}

/// The network that joins several of a system.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// Its name: `efa`.
    pub name: String,
    /// Rate of one chip's share, one way.
    pub rate: Figure,
    /// Time from chip to chip across it, for the first byte.
    pub latency: Figure,
    /// The part of the rate that collectives reach; all of it if absent.
    pub efficiency: Option<Figure>,
    /// Time of one step of a ring that crosses it; `latency` if absent.
    pub ring_step: Option<Figure>,
    /// Algorithms by which collectives cross it; whichever is the fastest if absent.
    pub algorithms: Option<Vec<String>>,
    /// Who published that.
    pub algorithms_source: Option<String>,
}

impl NetworkSpec {
    /// Whether collectives cross it in one flat ring of all ranks, not level by level.
    pub fn is_flat(&self) -> bool {
        self.algorithms.as_ref().is_some_and(|names| !names.iter().any(|name| name.starts_with("hierarchical")))
    }
}

/// Which host memory node the chips hang on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumaSpec {
    /// The axis that decides.
    pub axis: String,
    /// The node of each of its values.
    pub nodes: Vec<u32>,
    /// Who published it.
    pub source: String,
}

/// A whole `_fabric` table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricSpec {
    /// The system whose facts are those of one chip: `_chip` of the spec file, or the file's own name where it is that
    /// of a chip.
    #[serde(skip)]
    pub chip: Option<String>,
    /// Coordinates, the slowest first.
    pub axes: Vec<AxisSpec>,
    /// Levels, the one that routes prefer first.
    pub levels: Vec<LevelSpec>,
    /// What a chip's links are said to carry together, for [`LinkProfile::Headline`].
    pub headline: Option<Figure>,
    /// What a rank sends over one channel of a collective, where that is less than its links carry.
    pub channel_rate: Option<Figure>,
    /// The network between several of these systems.
    pub network: Option<NetworkSpec>,
    /// Host memory nodes, where they are published.
    pub numa: Option<NumaSpec>,
    /// How far the graph is known: a sentence for readers, absent where it is documented.
    pub confidence: Option<String>,
}

/// Which published rates links have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LinkProfile {
    /// Each level's documented rate.
    #[default]
    Docs,
    /// The documented rates times one factor, such that a chip's one-way total is half of the headline figure.
    Headline,
}

impl LinkProfile {
    /// The profile of a name: `docs` or `headline`.
    ///
    /// # Errors
    /// [`Error::Unknown`] for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "docs" => Ok(Self::Docs),
            "headline" => Ok(Self::Headline),
            other => Err(Error::unknown("links profile", other, ["docs", "headline"])),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docs => "docs",
            Self::Headline => "headline",
        }
    }
}

/// More chips than any published scale-up domain has, and few enough for a graph of them in memory.
const MOST_CHIPS: u64 = 1 << 17;

impl FabricSpec {
    /// The fabric that the facts of a system describe.
    ///
    /// # Errors
    /// [`Error::Spec`], naming the key, if there is no `_fabric` table or it is wrong: a key too many or too few, a
    /// rate or latency that is negative, zero or not finite, an unknown kind or axis, or sizes that do not multiply to
    /// the system's number of chips.
    pub fn of(facts: &Facts) -> Result<Self> {
        let name = &facts.name;
        let Some(table) = facts.parts.get("fabric") else {
            return Err(Error::Spec(format!(
                "{name} has no fabric: its spec file needs a [{name}._fabric] table with axes and levels"
            )));
        };
        let mut spec: Self = Toml::try_into(table.clone()).map_err(|error: toml::de::Error| {
            Error::Spec(format!("{name}._fabric: {}", error.to_string().trim_end().replace('\n', " ")))
        })?;
        spec.check(facts)?;
        spec.chip = chip_of(facts);
        Ok(spec)
    }

    /// Number of chips: the product of the axes' sizes.
    pub fn chips(&self) -> u64 {
        self.axes.iter().map(|axis| axis.size.value as u64).fold(1, u64::saturating_mul)
    }

    /// Index of an axis by name.
    pub(super) fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name == name)
    }

    fn check(&self, facts: &Facts) -> Result<()> {
        let name = &facts.name;
        let refuse = |what: String| Err(Error::Spec(format!("{name}._fabric: {what}")));
        if self.axes.is_empty() || self.levels.is_empty() {
            return refuse("has no axes or no levels; needed: at least one [[axes]] and one [[levels]]".to_owned());
        }
        for (position, axis) in self.axes.iter().enumerate() {
            count(name, &format!("axes.{}.size", axis.name), &axis.size)?;
            if self.axis(&axis.name) != Some(position) {
                return refuse(format!("axis {:?} stands twice", axis.name));
            }
        }
        let chips = self.chips();
        if chips > MOST_CHIPS {
            return refuse(format!("axes make {chips} chips; allowed: up to {MOST_CHIPS}; join more with a cluster"));
        }
        let published = ["chips", "gpus", "pod_chips"].into_iter().find_map(|key| Some((key, facts.si(key).ok()?)));
        if let Some((key, expected)) = published.filter(|(_, expected)| *expected != chips as f64) {
            let sizes: Vec<String> = self.axes.iter().map(|axis| axis.size.value.to_string()).collect();
            return refuse(format!("axes of {} make {chips} chips; {name}.{key} is {expected}", sizes.join(" x ")));
        }
        for (position, level) in self.levels.iter().enumerate() {
            let key = format!("levels.{}", level.name);
            if self.levels.iter().position(|other| other.name == level.name) != Some(position) {
                return refuse(format!("level {:?} stands twice", level.name));
            }
            if level.over.is_empty() {
                return refuse(format!("{key}.over is empty; needed: at least one axis"));
            }
            for axis in &level.over {
                if self.axis(axis).is_none() {
                    let unknown = Error::unknown("axis", axis, self.axes.iter().map(|axis| axis.name.as_str()));
                    return refuse(format!("{key}.over: {unknown}"));
                }
            }
            count(name, &format!("{key}.links"), &level.links)?;
            rate(name, &format!("{key}.rate"), &level.rate)?;
            time(name, &format!("{key}.latency"), &level.latency)?;
            level
                .efficiency
                .iter()
                .try_for_each(|figure| share(name, &format!("{key}.efficiency"), figure).map(drop))?;
        }
        if let Some(numa) = &self.numa {
            let size = self.axis(&numa.axis).map(|axis| self.axes[axis].size.value as usize);
            if size != Some(numa.nodes.len()) {
                return refuse(format!(
                    "numa gives nodes of {} values of axis {:?}; needed: one for each value of an axis",
                    numa.nodes.len(),
                    numa.axis
                ));
            }
        }
        if let Some(headline) = &self.headline {
            rate(name, "headline", headline)?;
        }
        if let Some(figure) = &self.channel_rate {
            rate(name, "channel_rate", figure)?;
        }
        if let Some(network) = &self.network {
            rate(name, "network.rate", &network.rate)?;
            time(name, "network.latency", &network.latency)?;
            network.efficiency.iter().try_for_each(|figure| share(name, "network.efficiency", figure).map(drop))?;
            network.ring_step.iter().try_for_each(|figure| time(name, "network.ring_step", figure).map(drop))?;
            if network.algorithms.is_some() != network.algorithms_source.is_some() {
                return refuse("network needs both algorithms and algorithms_source, or neither".to_owned());
            }
        }
        Ok(())
    }
}

fn chip_of(facts: &Facts) -> Option<String> {
    let part = facts.parts.get("chip").and_then(Toml::as_str);
    part.or_else(|| facts.kind.starts_with("chip").then_some(facts.name.as_str())).map(str::to_owned)
}

fn count(system: &str, key: &str, figure: &Figure) -> Result<u32> {
    let Figure { value, unit, .. } = figure;
    if unit != "count" || value.fract() != 0.0 || !(1.0..=65536.0).contains(value) {
        return Err(Error::Spec(format!(
            "{system}._fabric: {key} is {value} {unit}; needed: a whole number from 1 to 65536, unit \"count\""
        )));
    }
    Ok(*value as u32)
}

/// A rate in bytes a second, one way or both as the unit says.
pub(super) fn rate(system: &str, key: &str, figure: &Figure) -> Result<f64> {
    let Figure { value, unit, .. } = figure;
    let word = unit.split([' ', ',']).next().unwrap_or_default();
    let is_rate = word.strip_suffix("/dir").unwrap_or(word).ends_with("/s");
    match factor(unit) {
        Some(scale) if is_rate && value.is_finite() && *value > 0.0 => Ok(value * scale),
        _ => Err(Error::Spec(format!(
            "{system}._fabric: {key} is {value} {unit}; needed: a positive rate in bytes or bits a second, like GB/s/dir"
        ))),
    }
}

/// A part of one.
pub(super) fn share(system: &str, key: &str, figure: &Figure) -> Result<f64> {
    let Figure { value, unit, .. } = figure;
    if unit == "fraction" && *value > 0.0 && *value <= 1.0 {
        return Ok(*value);
    }
    Err(Error::Spec(format!(
        "{system}._fabric: {key} is {value} {unit}; needed: a part above 0 and up to 1, unit \"fraction\""
    )))
}

/// A time in seconds.
pub(super) fn time(system: &str, key: &str, figure: &Figure) -> Result<f64> {
    let Figure { value, unit, .. } = figure;
    match factor(unit) {
        Some(scale)
            if matches!(unit.as_str(), "s" | "ms" | "us" | "ns" | "ps") && (0.0..=1.0).contains(&(value * scale)) =>
        {
            Ok(value * scale)
        }
        _ => Err(Error::Spec(format!(
            "{system}._fabric: {key} is {value} {unit}; needed: a time from 0 to 1 s, in s, ms, us, ns or ps"
        ))),
    }
}
