//! What a node of each system looks like: the only place that reads the systems' figures.
//!
//! Figures come from the spec files; so does what Kubernetes shows beyond them (instance types, NUMA nodes of rows,
//! UltraServer modes), with its sources.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;
use toml::{Table, Value as Toml};
use trn3_facts::{BUILT_IN, Facts, SystemText, Value as Figure};

use crate::error::{Error, Result, guess};
use crate::names;

/// One server: where it is, in the order of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TopologyNode {
    /// Its UltraServer; `None` for a single instance.
    pub ultraserver: Option<usize>,
    /// Its rack in the UltraServer.
    pub rack: usize,
    /// Its place in the rack.
    pub server: usize,
}

/// A system as Kubernetes sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeSystem {
    /// Name of the spec file of the system.
    pub name: String,
    /// Name of the spec file of its chip.
    pub chip: String,
    /// What its nodes are called where they are rented.
    pub instance_type: String,
    /// Nodes of one UltraServer; 1 if the system is a single instance.
    pub servers: usize,
    /// Racks of one UltraServer; its servers are split evenly.
    pub racks: usize,
    /// Chips of a node.
    pub devices: usize,
    /// Rows and columns of the torus; `None` for switched nodes.
    pub torus: Option<(usize, usize)>,
    /// NUMA node of each row of the torus; empty where nothing is published.
    pub numa_of_row: Vec<i64>,
    /// Memory of one chip in GiB.
    pub memory_gib: u64,
    /// Physical cores of one chip.
    pub cores: u64,
    /// Physical cores that a logical one may have.
    pub lnc_modes: Vec<i64>,
}

impl NodeSystem {
    /// A system by its name or alias.
    ///
    /// # Errors
    /// [`Error::Malformed`], which says which exist.
    ///
    /// ```
    /// use trn3_k8s::NodeSystem;
    ///
    /// assert_eq!(NodeSystem::named("gen2")?.devices, 4);
    /// assert_eq!(NodeSystem::named("Trn3-Gen1")?.devices, 16);
    /// # Ok::<(), trn3_k8s::Error>(())
    /// ```
    pub fn named(name: &str) -> Result<Self> {
        let facts = match name.contains([':', '/']) || name.ends_with(".toml") {
            true => SystemText::find(name, "kubernetes")?.facts()?,
            false => Facts::built_in(&canonical(name)?)?,
        };
        let key = facts.name.clone();
        let lacking = || Error::Malformed(format!("spec {key}: has no kubernetes: add [{key}._kubernetes], or _base"));
        let parts = described(&facts).ok_or_else(lacking)?;
        let Some(chip_facts) = facts.part("chip")? else {
            return Err(Error::Malformed(format!("spec {key}: names no _chip")));
        };
        let chip = chip_facts.name.clone();
        let servers = count(&facts, "servers", Some(1))?;
        Ok(Self {
            torus: if parts.get("torus") == Some(&Toml::Boolean(true)) { Some(torus(&facts)?) } else { None },
            servers,
            racks: count(&facts, "racks", Some(1))?,
            devices: count(&facts, "chips", None)? / servers,
            numa_of_row: numa_of_row(parts),
            memory_gib: count(&chip_facts, "hbm_capacity", None)? as u64,
            cores: count(&chip_facts, "cores", None)? as u64,
            lnc_modes: modes_of(&chip_facts)?,
            instance_type: text(parts, "instance_type"),
            name: key,
            chip,
        })
    }

    /// The names of the systems that have nodes, without aliases.
    pub fn names() -> Vec<&'static str> {
        DESCRIBED.iter().map(|(name, _)| *name).collect()
    }

    /// Whether nodes belong to an UltraServer.
    pub fn is_ultraserver(&self) -> bool {
        self.servers > 1
    }

    /// The first `count` nodes; by default one UltraServer, or one instance.
    ///
    /// # Errors
    /// [`Error::Malformed`] if there is to be none.
    pub fn nodes(&self, count: Option<i64>) -> Result<Vec<TopologyNode>> {
        let wanted = count.unwrap_or(self.servers as i64);
        if wanted < 1 {
            return Err(Error::Malformed(format!("--nodes {wanted}: at least 1 is needed")));
        }
        if wanted > names::MAX_NODES {
            let most = names::MAX_NODES;
            return Err(Error::Malformed(format!("--nodes {wanted}: at most {most} are written")));
        }
        let per_rack = self.servers / self.racks.max(1);
        let node = |index: usize| match self.is_ultraserver() {
            false => TopologyNode { ultraserver: None, rack: 0, server: index },
            true => {
                let (block, server) = (index / self.servers, index % self.servers);
                TopologyNode { ultraserver: Some(block), rack: server / per_rack, server: server % per_rack }
            }
        };
        Ok((0..wanted as usize).map(node).collect())
    }
}

/// What spec files say about Kubernetes, by the name of the system.
static DESCRIBED: LazyLock<Vec<(&'static str, Facts)>> = LazyLock::new(|| {
    let facts = BUILT_IN.iter().filter_map(|(name, _)| Some((*name, Facts::built_in(name).ok()?)));
    facts.filter(|(_, facts)| described(facts).is_some()).collect()
});

fn described(facts: &Facts) -> Option<&Table> {
    facts.parts.get("kubernetes").and_then(Toml::as_table)
}

fn text(table: &Table, key: &str) -> String {
    table.get(key).and_then(Toml::as_str).unwrap_or_default().to_owned()
}

fn numa_of_row(parts: &Table) -> Vec<i64> {
    let rows = parts.get("numa_of_row").and_then(Toml::as_array);
    rows.map(|rows| rows.iter().filter_map(Toml::as_integer).collect()).unwrap_or_default()
}

/// The name of the spec of a system that has nodes.
fn canonical(name: &str) -> Result<String> {
    let mut aliases: BTreeMap<&str, &str> =
        trn3_facts::aliases("kubernetes").iter().map(|(alias, key)| (alias.as_str(), key.as_str())).collect();
    aliases.extend(NodeSystem::names().into_iter().map(|key| (key, key)));
    if let Some(key) = aliases.get(name) {
        return Ok((*key).to_owned());
    }
    let key = trn3_facts::canonical(name).unwrap_or_default();
    if NodeSystem::names().contains(&key) {
        return Ok(key.to_owned());
    }
    let what = if key.is_empty() { "no such system".to_owned() } else { format!("{key} has no nodes for Kubernetes") };
    let known: Vec<&str> = aliases.keys().copied().collect();
    let hint = guess(name, known.iter().copied());
    Err(Error::Malformed(format!("--system {name}: {what}; known: {}{hint}", known.join(", "))))
}

fn figure<'a>(facts: &'a Facts, key: &str) -> Result<&'a Figure> {
    let missing = || Error::Malformed(format!("spec {}: has no {key}", facts.name));
    facts.quantities.get(key).map(|quantity| &quantity.value).ok_or_else(missing)
}

fn count(facts: &Facts, key: &str, default: Option<usize>) -> Result<usize> {
    match (facts.quantities.contains_key(key), default) {
        (false, Some(value)) => Ok(value),
        _ => Ok(figure(facts, key)?.number().unwrap_or_default() as usize),
    }
}

/// Rows and columns of a torus, which its topology names as 4x4.
fn torus(facts: &Facts) -> Result<(usize, usize)> {
    let missing = || Error::Malformed(format!("spec {}: topology names no torus such as 4x4", facts.name));
    let Figure::Text(topology) = figure(facts, "topology")? else { return Err(missing()) };
    let shape = topology.split(|letter: char| !letter.is_ascii_digit() && letter != 'x');
    let mut sides = shape.filter_map(|word| word.split_once('x'));
    let sides = sides.find_map(|(rows, columns)| Some((rows.parse().ok()?, columns.parse().ok()?)));
    sides.ok_or_else(missing)
}

/// The sizes of a logical core that a chip has.
///
/// # Errors
/// [`Error::Malformed`] if there is no such chip.
pub(crate) fn lnc_modes(chip: &str) -> Result<Vec<i64>> {
    modes_of(&Facts::built_in(chip)?)
}

fn modes_of(chip: &Facts) -> Result<Vec<i64>> {
    match figure(chip, "lnc_modes")? {
        Figure::List(sizes) => Ok(sizes.iter().filter_map(Figure::number).map(|size| size as i64).collect()),
        other => Ok(other.number().map(|size| size as i64).into_iter().collect()),
    }
}

/// The chip of an instance type, or `None` if the type is not known here.
pub(crate) fn chip_of(instance_type: &str) -> Option<String> {
    let (_, facts) = DESCRIBED
        .iter()
        .find(|(_, facts)| described(facts).is_some_and(|parts| text(parts, "instance_type") == instance_type))?;
    Some(text(&facts.parts, "chip"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_every_system_has_its_nodes() {
        let names = ["trn1_32xlarge", "trn2_instance", "trn2_ultraserver", "trn3_gen1", "trn3_gen2"];
        assert_eq!(NodeSystem::names(), names);
        let torus: Vec<_> = names.iter().map(|name| NodeSystem::named(name).expect(name).torus).collect();
        assert_eq!(torus, [Some((4, 4)), Some((4, 4)), Some((4, 4)), None, None]);
        let gen2 = NodeSystem::named("gen2").expect("gen2");
        let nodes = gen2.nodes(Some(37)).expect("nodes");
        assert_eq!(nodes[19], TopologyNode { ultraserver: Some(0), rack: 1, server: 1 });
        assert_eq!(nodes[36], TopologyNode { ultraserver: Some(1), rack: 0, server: 0 });
        assert!(gen2.nodes(Some(0)).is_err());
    }

    #[test]
    fn test_systems_without_nodes_are_refused() {
        let error = |name| NodeSystem::named(name).expect_err(name).to_string();
        assert!(error("gen3").starts_with("--system gen3: no such system; known: gen1, gen2, trn1"));
        assert!(error("b300").contains("b300 has no nodes for Kubernetes"));
        assert_eq!(chip_of("trn2.48xlarge").as_deref(), Some("trainium2"));
        assert_eq!(chip_of("p5"), None);
    }
}
