//! The graph: chips and switches, the links that join them, and the names of all of them.

use std::sync::{Arc, OnceLock};

use super::spec::{LevelKind, LinkProfile};
use super::tree::Tree;
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
pub struct FabricLevel {
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
    /// The part of the rate that collectives reach.
    pub efficiency: f64,
    /// Seconds of one step of a ring over it.
    pub ring_step: f64,
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
    pub(super) chip_facts: Option<Arc<Facts>>,
    pub(super) profile: LinkProfile,
    pub(super) parts: Vec<String>,
    pub(super) axes: Vec<Axis>,
    pub(super) levels: Vec<FabricLevel>,
    pub(super) channel_rate: Option<f64>,
    pub(super) network: Option<JoinedNetwork>,
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

/// The network that joins the systems of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedNetwork {
    /// Index into [`Fabric::levels`].
    pub level: usize,
    /// Chips of one system.
    pub chips: u32,
    /// Names of the algorithms by which collectives cross it; empty for any.
    pub algorithms: Vec<String>,
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
    /// Every combination of coordinates, the last axis fastest.
    pub(super) fn add_chips(&mut self) {
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
        let FabricLevel { rate, latency, links, .. } = self.levels[level];
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

    /// What is published about its chip, if it is known.
    pub fn chip_facts(&self) -> Option<&Facts> {
        self.chip_facts.as_deref()
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
    pub fn levels(&self) -> &[FabricLevel] {
        &self.levels
    }

    /// What a rank sends over one channel of a collective, in bytes a second; `None` where its links alone say.
    pub fn channel_rate(&self) -> Option<f64> {
        self.channel_rate
    }

    /// What joins the systems of a cluster; `None` for one system.
    pub fn network(&self) -> Option<&JoinedNetwork> {
        self.network.as_ref()
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
