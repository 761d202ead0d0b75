//! From what spec files say to the graph.

use std::sync::Arc;

use indexmap::IndexMap;

use super::graph::{Adjacency, Axis, Fabric, FabricLevel, JoinedNetwork};
use super::spec::{AxisSpec, FabricSpec, Figure, LevelKind, LevelSpec, LinkProfile, rate, share, time};
use super::{switched, torus};
use crate::error::{Error, Result};
use trn3_facts::Facts;

/// The axis of a cluster that its network joins.
pub(crate) const SYSTEM_AXIS: &str = "system";

impl Fabric {
    /// The fabric of a system of the crate.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is no system of that name, [`Error::Spec`] if it has no fabric.
    ///
    /// ```
    /// use trn3_system::fabric::{Fabric, LinkProfile};
    ///
    /// let gen2 = Fabric::built_in("trn3_gen2", LinkProfile::Docs).unwrap();
    /// assert_eq!(gen2.chips(), 144);
    /// let route = gen2.route(gen2.index_of(&[0, 3, 1]).unwrap(), gen2.index_of(&[1, 9, 2]).unwrap()).unwrap();
    /// assert_eq!(route.relays.len(), 1);
    /// assert_eq!(route.rate, 128e9);
    /// ```
    pub fn built_in(name: &str, profile: LinkProfile) -> Result<Self> {
        Self::from_facts(&Facts::built_in(name)?, profile)
    }

    /// The fabric that a system's facts describe in their `_fabric` table.
    ///
    /// # Errors
    /// [`Error::Spec`], naming the key, if there is none or it is wrong, or if the headline profile is asked of a
    /// system without a headline figure.
    pub fn from_facts(facts: &Facts, profile: LinkProfile) -> Result<Self> {
        let spec = FabricSpec::of(facts)?;
        Self::build(facts, &facts.name, &facts.title, &spec, spec.levels.len(), profile)
    }

    /// `count` systems, each chip of which also hangs on the network of its spec file, as one graph.
    ///
    /// Ids get the number of the system in front. For more than a few thousand chips use roles instead of a graph.
    ///
    /// # Errors
    /// As [`Fabric::from_facts`], and [`Error::Spec`] if the system has no network or `count` is not from 1 to 65536.
    pub fn cluster(facts: &Facts, count: u32, profile: LinkProfile) -> Result<Self> {
        Self::oversubscribed(facts, count, profile, 1.0, count.max(1))
    }

    /// As [`Fabric::cluster`], on a network of whose bottom nodes, with `under` systems each, `oversubscription` times more
    /// can enter from below than leave upwards. More than one bottom node then hang on bundles of uplinks, a level more.
    ///
    /// # Errors
    /// As there; [`Error::Value`] if the oversubscription is below 1 or there are no systems under a node.
    pub fn oversubscribed(
        facts: &Facts,
        count: u32,
        profile: LinkProfile,
        oversubscription: f64,
        under: u32,
    ) -> Result<Self> {
        if !(oversubscription.is_finite() && oversubscription >= 1.0 && under > 0) {
            return Err(Error::Value(format!(
                "oversubscription is {oversubscription} over {under} systems; needed: 1 or more, over at least one"
            )));
        }
        let mut spec = FabricSpec::of(facts)?;
        let name = &facts.name;
        let Some(network) = spec.network.take() else {
            return Err(Error::Spec(format!("{name}._fabric has no network table; needed: name, rate, latency")));
        };
        let total = u64::from(count).saturating_mul(spec.chips());
        if count == 0 || total > 1 << 17 {
            return Err(Error::Value(format!(
                "{count} systems of {} chips; allowed as one graph: 1 to 131072 chips",
                spec.chips()
            )));
        }
        let choice = |value: f64| Figure { value, unit: "count".to_owned(), source: "asked for".to_owned() };
        let chips = spec.chips() as u32;
        spec.axes.insert(0, AxisSpec { name: SYSTEM_AXIS.to_owned(), size: choice(f64::from(count)), part_of: None });
        spec.levels.push(LevelSpec {
            name: network.name.clone(),
            kind: LevelKind::Switch,
            over: spec.axes.iter().map(|axis| axis.name.clone()).collect(),
            links: choice(1.0),
            rate: network.rate,
            latency: network.latency,
            efficiency: network.efficiency,
            switch: Some(network.name),
        });
        let inner = spec.levels.len() - 1;
        let title = format!("{count} x {}", facts.title);
        let mut fabric = Self::build(facts, &format!("{name} x {count}"), &title, &spec, inner, profile)?;
        if let Some(step) = &network.ring_step {
            fabric.levels[inner].ring_step = time(name, "network.ring_step", step)?;
        }
        let algorithms = network.algorithms.unwrap_or_default();
        fabric.network = Some(JoinedNetwork { level: inner, chips, algorithms });
        if oversubscription > 1.0 && count > under {
            switched::narrow_network(&mut fabric, chips * under, oversubscription);
        }
        Ok(fabric)
    }

    /// `inner` levels, the first ones, are those that the headline figure speaks of.
    fn build(
        facts: &Facts,
        name: &str,
        title: &str,
        spec: &FabricSpec,
        inner: usize,
        profile: LinkProfile,
    ) -> Result<Self> {
        let mut parts: Vec<String> = Vec::new();
        let mut axes = Vec::new();
        for axis in &spec.axes {
            let part = axis.part_of.clone().unwrap_or_else(|| axis.name.clone());
            if parts.last() != Some(&part) {
                parts.push(part);
            }
            axes.push(Axis { name: axis.name.clone(), size: axis.size.value as u32, part: parts.len() - 1 });
        }
        let mut levels = levels_of(name, spec, &axes)?;
        if profile == LinkProfile::Headline {
            let Some(headline) = &spec.headline else {
                return Err(Error::Spec(format!(
                    "{name}._fabric has no headline figure, which links=\"headline\" scales to; use links=\"docs\""
                )));
            };
            let is_bidir = headline.unit.contains("bidir");
            let one_way = rate(name, "headline", headline)? / if is_bidir { 2.0 } else { 1.0 };
            let documented: f64 = levels[..inner].iter().map(|level| level.chip_rate).sum();
            for level in &mut levels[..inner] {
                level.rate *= one_way / documented;
                level.chip_rate *= one_way / documented;
            }
        }
        let mut fabric = Self {
            name: name.to_owned(),
            title: title.to_owned(),
            chip: spec.chip.clone(),
            chip_facts: chip_facts(facts, spec),
            profile,
            parts,
            axes,
            levels,
            channel_rate: spec.channel_rate.as_ref().map(|figure| rate(name, "channel_rate", figure)).transpose()?,
            network: None,
            nodes: Vec::new(),
            chips: 0,
            links: Vec::new(),
            outgoing: Adjacency::default(),
            incoming: Adjacency::default(),
            is_whole: true,
            faults: Vec::new(),
            lost: Vec::new(),
            numa: spec.numa.as_ref().and_then(|numa| Some((spec.axis(&numa.axis)?, numa.nodes.clone()))),
            assumptions: assumptions_of(spec),
            trees: Vec::new(),
        };
        fabric.add_chips();
        let mut classes = 0;
        for level in 0..fabric.levels.len() {
            match fabric.levels[level].kind {
                LevelKind::Ring => torus::add_rings(&mut fabric, level, &mut classes),
                LevelKind::Switch => switched::add_switches(&mut fabric, level, &mut classes),
                LevelKind::Direct => switched::add_direct(&mut fabric, level, &mut classes),
            }
        }
        fabric.index();
        Ok(fabric)
    }
}

/// The system of a spec file's text that is called so, or else the only one with a fabric; `file` names it in messages.
///
/// # Errors
/// [`Error::Unknown`] if there is none of that name; [`Error::Spec`] for a wrong text, and without a name where none or
/// several have a fabric.
pub fn described_system(file: &str, text: &str, name: Option<&str>) -> Result<Facts> {
    let systems = Facts::parse(file, text)?;
    let known: Vec<String> = systems.iter().map(|facts| facts.name.clone()).collect();
    let mut fitting = systems.into_iter().filter(|facts| match name {
        Some(name) => facts.name == name,
        None => facts.parts.contains_key("fabric"),
    });
    match (fitting.next(), fitting.next(), name) {
        (Some(facts), None, _) => Ok(facts),
        (None, _, Some(name)) => Err(Error::unknown("system", name, known.iter().map(String::as_str))),
        (None, _, None) => Err(Error::Spec(format!(
            "{file}: none of its systems ({}) has a _fabric table, which lists axes and levels",
            known.join(", ")
        ))),
        (Some(_), Some(_), _) => Err(Error::Spec(format!(
            "{file}: several of its systems have a _fabric table; say which: {}",
            known.join(", ")
        ))),
    }
}

/// What is published about the chip; a system whose chip nobody describes has a graph all the same.
fn chip_facts(facts: &Facts, spec: &FabricSpec) -> Option<Arc<Facts>> {
    let own = spec.chip.as_ref().filter(|chip| **chip == facts.name).map(|_| facts.clone());
    own.or_else(|| facts.part("chip").ok().flatten()).map(Arc::new)
}

fn levels_of(name: &str, spec: &FabricSpec, axes: &[Axis]) -> Result<Vec<FabricLevel>> {
    let mut levels = Vec::new();
    for level in &spec.levels {
        let over: Vec<usize> = level.over.iter().filter_map(|axis| spec.axis(axis)).collect();
        let one = rate(name, "rate", &level.rate)? * level.links.value;
        let domain: f64 = over.iter().map(|&axis| f64::from(axes[axis].size)).product();
        let chip_rate = match level.kind {
            LevelKind::Switch => one,
            LevelKind::Direct => one * (domain - 1.0),
            LevelKind::Ring => {
                one * over.iter().map(|&axis| f64::from(axes[axis].size.saturating_sub(1).min(2))).sum::<f64>()
            }
        };
        let latency = time(name, "latency", &level.latency)?;
        let efficiency = level.efficiency.as_ref().map_or(Ok(1.0), |figure| share(name, "efficiency", figure))?;
        levels.push(FabricLevel {
            name: level.name.clone(),
            kind: level.kind,
            over,
            links: level.links.value as u32,
            rate: one,
            latency,
            efficiency,
            ring_step: latency,
            switch: level.switch.clone().unwrap_or_else(|| level.name.clone()),
            chip_rate,
        });
    }
    Ok(levels)
}

/// Figures whose source says that they are choices; levels that share one are named together.
fn assumptions_of(spec: &FabricSpec) -> Vec<String> {
    let mut found: IndexMap<(&str, String), Vec<&str>> = IndexMap::new();
    let mut note = |owner, what, figure: &Figure| {
        if figure.source.contains("choice:") {
            let text = format!("{} {} ({})", figure.value, figure.unit, figure.source);
            found.entry((what, text)).or_default().push(owner);
        }
    };
    for axis in &spec.axes {
        note(&axis.name, "size of axis", &axis.size);
    }
    for level in &spec.levels {
        note(&level.name, "links of level", &level.links);
        note(&level.name, "rate of a link of level", &level.rate);
        note(&level.name, "latency of level", &level.latency);
        level.efficiency.iter().for_each(|figure| note(&level.name, "efficiency of level", figure));
    }
    if let Some(network) = &spec.network {
        note(&network.name, "rate of network", &network.rate);
        note(&network.name, "latency of network", &network.latency);
    }
    let lines = found.into_iter().map(|((what, text), owners)| format!("{what} {}: {text}", owners.join(", ")));
    spec.confidence.iter().map(|text| format!("confidence {text}")).chain(lines).collect()
}
