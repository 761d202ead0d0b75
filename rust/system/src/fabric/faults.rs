//! Faults: a fabric without a chip, a switch or links; what is cut off then, and what it costs.

use super::bound::{self, TrafficBound};
use super::graph::{Fabric, NodeKind, joined};
use crate::error::{Error, Result};

/// Something that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A chip, with all its links. The others keep their ids; indices close up.
    Chip(usize),
    /// A node that is a switch; of each bundle of its links as many as said, or all.
    Switch(usize, Option<u32>),
    /// The links between two nodes, both directions; of each bundle as many as said, or all.
    Link(usize, usize, Option<u32>),
}

/// The health classes that the driver reports, by the words it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthClass {
    /// Device memory.
    Hbm,
    /// On-chip memory.
    Sram,
    /// A link between chips of one server.
    LinkIntraserver,
    /// The link between a chip and its host.
    LinkHost,
    /// The link between a chip and the network.
    LinkEfa,
    /// A link between servers.
    LinkInterserver,
    /// A switch.
    LinkSwitch,
    /// The interconnect within a chip.
    AxiFabric,
}

impl HealthClass {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Hbm,
        Self::Sram,
        Self::LinkIntraserver,
        Self::LinkHost,
        Self::LinkEfa,
        Self::LinkInterserver,
        Self::LinkSwitch,
        Self::AxiFabric,
    ];

    /// The driver's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hbm => "hbm",
            Self::Sram => "sram",
            Self::LinkIntraserver => "link_intraserver",
            Self::LinkHost => "link_host",
            Self::LinkEfa => "link_efa",
            Self::LinkInterserver => "link_interserver",
            Self::LinkSwitch => "link_switch",
            Self::AxiFabric => "axi_fabric",
        }
    }

    /// The class of a word.
    ///
    /// # Errors
    /// [`Error::Unknown`] for any other word.
    pub fn parse(word: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|class| class.name() == word)
            .ok_or_else(|| Error::unknown("health class", word, Self::ALL.map(Self::name)))
    }

    /// What is lost: `chip`, `link`, `switch` or, for the network, `network`.
    ///
    /// A chip whose memory, interconnect or host link is at fault takes no part in a job any more **(choice)**: the
    /// docs say that it is marked unhealthy, not what still works.
    pub fn loses(self) -> &'static str {
        match self {
            Self::Hbm | Self::Sram | Self::AxiFabric | Self::LinkHost => "chip",
            Self::LinkIntraserver | Self::LinkInterserver => "link",
            Self::LinkEfa => "network",
            Self::LinkSwitch => "switch",
        }
    }
}

/// What faults cost uniform all-to-all traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowdown {
    /// The bound before, over the chips that are left.
    pub before: TrafficBound,
    /// The bound after.
    pub after: TrafficBound,
}

impl Slowdown {
    /// How many times longer it takes; never below 1.
    pub fn factor(&self) -> f64 {
        self.before.per_chip / self.after.per_chip
    }
}

impl Fault {
    /// The fault that a text names: a chip `0/3/1`, a switch `rack/0`, links `0/3/1-1/3/1` or `0/3/1-rack/0`; behind a
    /// colon how many links of each bundle fail, where not all do: `rack/0:1` is one of the planes behind rack 0.
    ///
    /// # Errors
    /// [`Error::Value`] if nothing has that name.
    pub fn parse(fabric: &Fabric, text: &str) -> Result<Self> {
        let (name, links) = match text.rsplit_once(':') {
            None => (text, None),
            Some((name, number)) => match number.trim().parse::<u32>() {
                Ok(number) if number > 0 => (name, Some(number)),
                _ => return Err(Error::Value(format!("{text:?}: behind the colon must be a number of links above 0"))),
            },
        };
        let name = name.trim();
        if let Some(node) = fabric.node_named(name) {
            return match (fabric.nodes[node].kind, links) {
                (NodeKind::Switch, links) => Ok(Self::Switch(node, links)),
                (NodeKind::Chip, None) => Ok(Self::Chip(node)),
                (NodeKind::Chip, Some(_)) => {
                    Err(Error::Value(format!("{text:?}: a number of links has no meaning for a chip")))
                }
            };
        }
        for (at, _) in name.match_indices('-') {
            let (left, right) = (name[..at].trim(), name[at + 1..].trim_start_matches('>').trim());
            if let (Some(from), Some(to)) = (fabric.node_named(left), fabric.node_named(right)) {
                return Ok(Self::Link(from, to, links));
            }
        }
        let switch = fabric.nodes.get(fabric.chips).map_or("", |node| node.name.as_str());
        let mut examples = format!("a chip like {}", fabric.nodes[fabric.chips - 1].name);
        if !switch.is_empty() {
            examples += &format!(", a switch like {switch}");
        }
        if let Some(link) = fabric.links.first() {
            let (from, to) = (&fabric.nodes[link.from as usize].name, &fabric.nodes[link.to as usize].name);
            examples += &format!(", links like {from}-{to}");
        }
        Err(Error::Value(format!("{} has nothing named {text:?}; allowed: {examples}", fabric.name)))
    }

    /// The health class that the driver would report.
    pub fn health_class(&self, fabric: &Fabric) -> HealthClass {
        match self {
            Self::Chip(_) => HealthClass::Hbm,
            Self::Switch(..) => HealthClass::LinkSwitch,
            Self::Link(from, to, _) => {
                let between = fabric.links.iter().find(|link| (link.from as usize, link.to as usize) == (*from, *to));
                let server = fabric.parts.iter().position(|part| part == "server");
                match (between, server) {
                    (Some(link), Some(server)) => {
                        let over = &fabric.levels[link.level as usize].over;
                        let is_within = over.iter().all(|&axis| fabric.axes[axis].part > server);
                        if is_within { HealthClass::LinkIntraserver } else { HealthClass::LinkInterserver }
                    }
                    _ => HealthClass::LinkIntraserver,
                }
            }
        }
    }

    fn check(&self, fabric: &Fabric) -> Result<()> {
        let bad = |what: String| Err(Error::Value(format!("{}: {what}", fabric.name)));
        let kind = |node: usize| fabric.nodes.get(node).map(|node| node.kind);
        let limit = |links: &Option<u32>, bundle: u32| match links {
            Some(links) if *links == 0 || *links > bundle => {
                bad(format!("{links} links are to fail; the bundle has {bundle}"))
            }
            _ => Ok(()),
        };
        match self {
            Self::Chip(chip) if kind(*chip) != Some(NodeKind::Chip) => {
                bad(format!("there is no chip number {chip}; allowed: 0 to {}", fabric.chips.saturating_sub(1)))
            }
            Self::Switch(node, _) if kind(*node) != Some(NodeKind::Switch) => {
                let end = fabric.nodes.len().saturating_sub(1);
                bad(match fabric.nodes.len() - fabric.chips {
                    0 => "it has no switches".to_owned(),
                    _ => format!("node {node} is no switch; allowed: {} to {end}", fabric.chips),
                })
            }
            Self::Switch(node, links) => {
                let bundle = fabric.links_from(*node).iter().map(|&link| fabric.links[link as usize].links).min();
                limit(links, bundle.unwrap_or(0))
            }
            Self::Link(from, to, links) => {
                let name = |node: usize| fabric.nodes.get(node).map_or("?", |node| node.name.as_str());
                let Some(link) =
                    fabric.links.iter().find(|link| (link.from as usize, link.to as usize) == (*from, *to))
                else {
                    let ends: Vec<&str> = fabric
                        .links
                        .iter()
                        .filter(|link| link.from as usize == *from)
                        .map(|link| name(link.to as usize))
                        .collect();
                    return bad(format!(
                        "no link joins {} and {}; {} has links to {}",
                        name(*from),
                        name(*to),
                        name(*from),
                        ends.join(", ")
                    ));
                };
                limit(links, link.links)
            }
            Self::Chip(_) => Ok(()),
        }
    }

    fn text(&self, fabric: &Fabric) -> String {
        let name = |node: usize| fabric.nodes[node].name.as_str();
        let some = |links: &Option<u32>| links.map_or(String::new(), |links| format!("{links} of the links of "));
        match self {
            Self::Chip(chip) => format!("chip {} failed", name(*chip)),
            Self::Switch(node, links) => format!("{}switch {} failed", some(links), name(*node)),
            Self::Link(from, to, links) => format!("{}link {}-{} failed", some(links), name(*from), name(*to)),
        }
    }

    /// How many links of a bundle this takes away.
    fn takes(&self, from: usize, to: usize, bundle: u32) -> u32 {
        match *self {
            Self::Chip(chip) if chip == from || chip == to => bundle,
            Self::Switch(node, links) if node == from || node == to => links.unwrap_or(bundle),
            Self::Link(a, b, links) if (a, b) == (from, to) || (b, a) == (from, to) => links.unwrap_or(bundle),
            _ => 0,
        }
    }
}

impl Fabric {
    /// The node of a name.
    pub fn node_named(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The fabric without what failed; routes take other ways where there are any.
    ///
    /// Chips that fail are gone from the new fabric: the others keep their ids and get new indices. It may fall apart:
    /// see [`Fabric::cut_off`].
    ///
    /// # Errors
    /// [`Error::Value`] if a fault names nothing of this fabric, or no two chips are left.
    pub fn fail(&self, faults: &[Fault]) -> Result<Self> {
        for fault in faults {
            fault.check(self)?;
        }
        let is_lost = |node: usize| {
            faults.iter().any(|fault| match fault {
                Fault::Chip(chip) => *chip == node,
                Fault::Switch(switch, None) => *switch == node,
                _ => false,
            })
        };
        let mut index = vec![u32::MAX; self.nodes.len()];
        let mut after = self.clone();
        after.nodes.clear();
        after.links.clear();
        for (node, of) in self.nodes.iter().enumerate() {
            if is_lost(node) {
                if of.kind == NodeKind::Chip {
                    after.lost.push(of.id.clone());
                    after.chips -= 1;
                }
                continue;
            }
            index[node] = after.nodes.len() as u32;
            after.nodes.push(of.clone());
        }
        if after.chips < 2 {
            return Err(Error::Value(format!(
                "{} has {} chips, of which {} would fail; at least 2 must be left",
                self.name,
                self.chips,
                self.chips - after.chips
            )));
        }
        for link in &self.links {
            let (from, to) = (link.from as usize, link.to as usize);
            let taken: u32 = faults.iter().map(|fault| fault.takes(from, to, link.links)).fold(0, u32::saturating_add);
            let left = link.links.saturating_sub(taken);
            if left > 0 {
                let mut kept = link.clone();
                (kept.from, kept.to, kept.links) = (index[from], index[to], left);
                kept.rate = link.rate * f64::from(left) / f64::from(link.links);
                after.links.push(kept);
            }
        }
        after.is_whole = self.is_whole && faults.is_empty();
        after.faults.extend(faults.iter().map(|fault| fault.text(self)));
        after.index();
        Ok(after)
    }

    /// The parts, beside the largest one, that the chips fall apart into; empty while every chip reaches every other.
    ///
    /// Links fail in both directions, so that reaching is mutual.
    pub fn cut_off(&self) -> Vec<Vec<usize>> {
        let mut is_seen = vec![false; self.nodes.len()];
        let mut islands: Vec<Vec<usize>> = Vec::new();
        for first in 0..self.chips {
            if is_seen[first] {
                continue;
            }
            is_seen[first] = true;
            let (mut island, mut stack) = (Vec::new(), vec![first]);
            while let Some(node) = stack.pop() {
                if node < self.chips {
                    island.push(node);
                }
                for &link in self.links_from(node) {
                    let to = self.links[link as usize].to as usize;
                    if !std::mem::replace(&mut is_seen[to], true) {
                        stack.push(to);
                    }
                }
            }
            island.sort_unstable();
            islands.push(island);
        }
        let largest = islands.iter().enumerate().max_by_key(|(at, island)| (island.len(), usize::MAX - at));
        if let Some((at, _)) = largest {
            islands.remove(at);
        }
        islands
    }

    /// What the faults of `after`, which came of this fabric, cost uniform all-to-all traffic among the chips left.
    ///
    /// # Errors
    /// [`Error::Unreachable`], naming what is cut off, if the chips fell apart.
    pub fn slowdown(&self, after: &Self) -> Result<Slowdown> {
        let islands = after.cut_off();
        if !islands.is_empty() {
            let names: Vec<String> = islands.iter().flatten().map(|&chip| joined(after.chip_id(chip))).collect();
            return Err(Error::Unreachable(format!(
                "{}: {}; cut off from the other {} chips: {}",
                self.name,
                after.faults.join(", "),
                after.chips - names.len(),
                names.join(", ")
            )));
        }
        let left: Vec<usize> =
            (0..after.chips).map(|chip| self.index_of(after.chip_id(chip))).collect::<Result<_>>()?;
        Ok(Slowdown { before: bound::all_to_all(self, Some(&left))?, after: bound::all_to_all(after, None)? })
    }
}
