//! The graph: chips and switches, the links that join them, and the names of all of them.

use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;

use super::route::Tree;
use super::spec::{FabricSpec, LevelKind, LinkProfile, rate, time};
use super::{switched, torus};
use crate::error::{Error, Result};
use trn3_facts::Facts;

/// What stands at the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A chip: begins, ends and relays transfers.
    Chip,
    /// A switch: forwards, at the full rate of every port **(choice)**: switches' inner limits are unpublished.
    Switch,
}

/// A chip or a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Which of the two.
    pub kind: NodeKind,
    /// A chip's id; a switch's fixed coordinates.
    pub id: Vec<u32>,
    /// A chip's coordinates, one for each axis; empty for a switch.
    pub coordinates: Vec<u32>,
    /// `0/3/1` for the chip of that id; `rack/0` for the switch of rack 0.
    pub name: String,
}

/// A bundle of parallel links from one node to another, one direction of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Index of the node that sends.
    pub from: u32,
    /// Index of the node that receives.
    pub to: u32,
    /// Bytes a second of the whole bundle, this direction.
    pub rate: f64,
    /// Seconds for the first byte. Half of its level's where the way leads through a switch.
    pub latency: f64,
    /// Index into [`Fabric::levels`].
    pub level: u32,
    /// How many physical links the bundle has.
    pub links: u32,
    /// Links of equal class are images of one another under the graph's shifts, as long as it is whole.
    pub(super) class: u32,
}

/// A level of a fabric.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Name: `server`, `rack`, `cross-rack`, `plane`, `z`, ...
    pub name: String,
    /// How its chips are joined.
    pub kind: LevelKind,
    /// Indices of the axes in which chips of one domain differ.
    pub over: Vec<usize>,
    /// Physical links to the switch or to each neighbour.
    pub links: u32,
    /// Bytes a second, one way, to the switch or to each neighbour.
    pub rate: f64,
    /// Seconds from chip to chip, for the first byte.
    pub latency: f64,
    /// What its switches are called.
    pub switch: String,
    /// Bytes a second, one way, that one chip has on this level in all.
    pub chip_rate: f64,
}

/// An axis of the coordinates.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name.
    pub name: String,
    /// Number of values.
    pub size: u32,
    /// Position of the part of the id that it is counted in.
    pub part: usize,
}

/// A directed graph of chips and switches.
///
/// Chips are nodes `0..chips()`, in the order of their ids. Routes take the way of least latency, of those the ones of
/// fewest links; rates therefore never change a route, and adding bandwidth never slows anything.
#[derive(Clone, Debug)]
pub struct Fabric {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) chip: Option<String>,
    pub(super) profile: LinkProfile,
    pub(super) parts: Vec<String>,
    pub(super) axes: Vec<Axis>,
    pub(super) levels: Vec<Level>,
    pub(super) nodes: Vec<Node>,
    pub(super) chips: usize,
    pub(super) links: Vec<Link>,
    pub(super) outgoing: Adjacency,
    pub(super) incoming: Adjacency,
    pub(super) is_whole: bool,
    pub(super) faults: Vec<String>,
    pub(super) lost: Vec<Vec<u32>>,
    pub(super) numa: Option<(usize, Vec<u32>)>,
    pub(super) assumptions: Vec<String>,
    pub(super) trees: Vec<OnceLock<Arc<Tree>>>,
}

/// For each node the links that leave or enter it, in the order of their indices.
#[derive(Clone, Debug, Default)]
pub(super) struct Adjacency {
    start: Vec<u32>,
    links: Vec<u32>,
}

impl Adjacency {
    fn of(nodes: usize, ends: impl Iterator<Item = u32> + Clone) -> Self {
        let mut start = vec![0u32; nodes + 1];
        for end in ends.clone() {
            start[end as usize + 1] += 1;
        }
        for node in 0..nodes {
            start[node + 1] += start[node];
        }
        let mut next = start.clone();
        let mut links = vec![0u32; start[nodes] as usize];
        for (link, end) in ends.enumerate() {
            links[next[end as usize] as usize] = link as u32;
            next[end as usize] += 1;
        }
        Self { start, links }
    }

    pub(super) fn at(&self, node: usize) -> &[u32] {
        &self.links[self.start[node] as usize..self.start[node + 1] as usize]
    }
}

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
        Self::build(&facts.name, &facts.title, &spec, spec.levels.len(), profile)
    }

    /// `count` systems, each chip of which also hangs on the network of its spec file, as one graph.
    ///
    /// Ids get the number of the system in front. For more than a few thousand chips use roles instead of a graph.
    ///
    /// # Errors
    /// As [`Fabric::from_facts`], and [`Error::Spec`] if the system has no network or `count` is not from 1 to 65536.
    pub fn cluster(facts: &Facts, count: u32, profile: LinkProfile) -> Result<Self> {
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
        let choice =
            |value: f64| super::spec::Figure { value, unit: "count".to_owned(), source: "asked for".to_owned() };
        spec.axes.insert(
            0,
            super::spec::AxisSpec { name: "system".to_owned(), size: choice(f64::from(count)), part_of: None },
        );
        spec.levels.push(super::spec::LevelSpec {
            name: network.name.clone(),
            kind: LevelKind::Switch,
            over: spec.axes.iter().map(|axis| axis.name.clone()).collect(),
            links: choice(1.0),
            rate: network.rate,
            latency: network.latency,
            switch: Some(network.name),
        });
        let inner = spec.levels.len() - 1;
        let title = format!("{count} x {}", facts.title);
        Self::build(&format!("{name} x {count}"), &title, &spec, inner, profile)
    }

    /// `inner` levels, the first ones, are those that the headline figure speaks of.
    fn build(name: &str, title: &str, spec: &FabricSpec, inner: usize, profile: LinkProfile) -> Result<Self> {
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
            profile,
            parts,
            axes,
            levels,
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

    /// Every combination of coordinates, the last axis fastest.
    fn add_chips(&mut self) {
        let count: usize = self.axes.iter().map(|axis| axis.size as usize).product();
        self.chips = count;
        for chip in 0..count {
            let mut coordinates = vec![0; self.axes.len()];
            let mut rest = chip;
            for (axis, coordinate) in self.axes.iter().zip(&mut coordinates).rev() {
                *coordinate = (rest % axis.size as usize) as u32;
                rest /= axis.size as usize;
            }
            let mut id = vec![0; self.parts.len()];
            for (axis, coordinate) in self.axes.iter().zip(&coordinates) {
                id[axis.part] = id[axis.part] * axis.size + coordinate;
            }
            self.nodes.push(Node { kind: NodeKind::Chip, name: joined(&id), id, coordinates });
        }
    }

    /// Sets what is found from nodes and links alone.
    pub(super) fn index(&mut self) {
        self.outgoing = Adjacency::of(self.nodes.len(), self.links.iter().map(|link| link.from));
        self.incoming = Adjacency::of(self.nodes.len(), self.links.iter().map(|link| link.to));
        self.trees = vec![OnceLock::new(); self.chips];
    }

    /// The chip of some coordinates, while no chip is lost.
    pub(super) fn at(&self, coordinates: &[u32]) -> u32 {
        self.axes.iter().zip(coordinates).fold(0, |index, (axis, coordinate)| index * axis.size + coordinate)
    }

    /// A link of `level` from each chip to the one that `shift` makes of its coordinates, all of one class.
    pub(super) fn add_shift(&mut self, level: usize, class: u32, shift: impl Fn(&mut [u32])) {
        let Level { rate, latency, links, .. } = self.levels[level];
        for chip in 0..self.chips {
            let mut coordinates = self.nodes[chip].coordinates.clone();
            shift(&mut coordinates);
            let to = self.at(&coordinates);
            self.links.push(Link { from: chip as u32, to, rate, latency, level: level as u32, links, class });
        }
    }

    /// Name of the system.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name for readers.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The system whose facts are those of one chip, if it is known: `_chip` of the spec file, or the file's own name
    /// where it is that of a chip.
    pub fn chip(&self) -> Option<&str> {
        self.chip.as_deref()
    }

    /// Which published rates the links have.
    pub fn profile(&self) -> LinkProfile {
        self.profile
    }

    /// Number of chips; their indices are `0..chips()`.
    pub fn chips(&self) -> usize {
        self.chips
    }

    /// The parts of a chip's id, like `rack`, `server`, `chip`.
    pub fn id_parts(&self) -> &[String] {
        &self.parts
    }

    /// The axes of the coordinates.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The id of a chip.
    ///
    /// # Panics
    /// If there is no chip of that index.
    pub fn chip_id(&self, index: usize) -> &[u32] {
        &self.nodes[..self.chips][index].id
    }

    /// The chip of an id.
    ///
    /// # Errors
    /// [`Error::Value`] if no chip has it, or it has failed.
    pub fn index_of(&self, id: &[u32]) -> Result<usize> {
        // Ids ascend with the index, also where chips are lost.
        if id.len() == self.parts.len()
            && let Ok(index) = self.nodes[..self.chips].binary_search_by(|node| node.id.as_slice().cmp(id))
        {
            return Ok(index);
        }
        if self.lost.iter().any(|lost| lost == id) {
            return Err(Error::Value(format!("chip {} of {} has failed", joined(id), self.name)));
        }
        let sizes: Vec<String> = self
            .parts
            .iter()
            .enumerate()
            .map(|(part, name)| {
                let size: u32 = self.axes.iter().filter(|axis| axis.part == part).map(|axis| axis.size).product();
                format!("{name} 0 to {}", size - 1)
            })
            .collect();
        Err(Error::Value(format!("{} has no chip {}; allowed: {}", self.name, joined(id), sizes.join(", "))))
    }

    /// The host memory node of a chip, where that is published.
    ///
    /// # Panics
    /// If there is no chip of that index.
    pub fn numa(&self, chip: usize) -> Option<u32> {
        let (axis, nodes) = self.numa.as_ref()?;
        Some(nodes[self.nodes[..self.chips][chip].coordinates[*axis] as usize])
    }

    /// Chips and switches, the chips first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All links, each direction for itself.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Indices of the links that leave a node, in ascending order.
    ///
    /// # Panics
    /// If there is no node of that index.
    pub fn links_from(&self, node: usize) -> &[u32] {
        self.outgoing.at(node)
    }

    /// Indices of the links that enter a node, in ascending order.
    ///
    /// # Panics
    /// If there is no node of that index.
    pub fn links_to(&self, node: usize) -> &[u32] {
        self.incoming.at(node)
    }

    /// Levels, the one that routes prefer first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// What has failed, in words; empty for a whole fabric.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Figures that nobody published.
    pub fn assumptions(&self) -> &[String] {
        &self.assumptions
    }

    /// Whether nothing has failed, so that every chip sees the same graph.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// A link as `0/3/1 -> rack/0 (rack)`.
    pub fn link_name(&self, link: u32) -> String {
        let Link { from, to, level, .. } = &self.links[link as usize];
        let (from, to) = (&self.nodes[*from as usize].name, &self.nodes[*to as usize].name);
        format!("{from} -> {to} ({})", self.levels[*level as usize].name)
    }
}

pub(super) fn joined(id: &[u32]) -> String {
    id.iter().map(u32::to_string).collect::<Vec<_>>().join("/")
}

fn levels_of(name: &str, spec: &FabricSpec, axes: &[Axis]) -> Result<Vec<Level>> {
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
        levels.push(Level {
            name: level.name.clone(),
            kind: level.kind,
            over,
            links: level.links.value as u32,
            rate: one,
            latency: time(name, "latency", &level.latency)?,
            switch: level.switch.clone().unwrap_or_else(|| level.name.clone()),
            chip_rate,
        });
    }
    Ok(levels)
}

/// Figures whose source says that they are choices; levels that share one are named together.
fn assumptions_of(spec: &FabricSpec) -> Vec<String> {
    let mut found: IndexMap<(&str, String), Vec<&str>> = IndexMap::new();
    let mut note = |owner, what, figure: &super::spec::Figure| {
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
    }
    if let Some(network) = &spec.network {
        note(&network.name, "rate of network", &network.rate);
        note(&network.name, "latency of network", &network.latency);
    }
    let lines = found.into_iter().map(|((what, text), owners)| format!("{what} {}: {text}", owners.join(", ")));
    spec.confidence.iter().map(|text| format!("confidence {text}")).chain(lines).collect()
}
