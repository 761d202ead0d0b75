//! What a lost link or switch leaves of a system's fabric, by the graph itself.

use std::collections::BTreeMap;

use trn3_system::fabric::{Fabric, Fault, NodeKind, bound};
use trn3_system::{Error, Result};

use crate::hardware::Machine;

/// Links or switches of one system that are alike.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AlikeParts {
    /// `link` or `switch`.
    pub kind: &'static str,
    /// The level of the fabric that they belong to.
    pub level: String,
    /// How many one system has.
    pub count: f64,
    /// How many times longer traffic takes without one of them, among all chips of the system or those that the level
    /// joins there, whichever suffers more; `None` where that cuts chips off.
    pub slowdown: Option<f64>,
    /// Chips that are cut off.
    pub cut_off: usize,
}

/// Links and switches of a system by level, each with what losing one does; none for a chip alone.
///
/// A switch of the graph stands for as many as each chip has links to it, one of which fails.
pub(super) fn alike_parts(machine: &Machine) -> Result<Vec<AlikeParts>> {
    let Some((facts, profile)) = machine.graph() else { return Ok(Vec::new()) };
    let fabric = Fabric::from_facts(facts, profile)?;
    let mut links: BTreeMap<u32, (f64, Fault)> = BTreeMap::new();
    let mut switches: BTreeMap<u32, (f64, Fault)> = BTreeMap::new();
    for link in fabric.links().iter().filter(|link| link.from < link.to) {
        let fault = Fault::Link(link.from as usize, link.to as usize, Some(1));
        links.entry(link.level).or_insert((0.0, fault)).0 += f64::from(link.links);
    }
    for (node, of) in fabric.nodes().iter().enumerate().filter(|(_, of)| of.kind == NodeKind::Switch) {
        let to = fabric.links_to(node).iter().map(|&link| &fabric.links()[link as usize]);
        let Some((level, planes)) = to.map(|link| (link.level, link.links)).max_by_key(|(_, planes)| *planes) else {
            return Err(Error::Spec(format!("{}: nothing is joined to the switch {}", fabric.name(), of.name)));
        };
        let fault = Fault::Switch(node, (planes > 1).then_some(1));
        switches.entry(level).or_insert((0.0, fault)).0 += f64::from(planes);
    }
    let kinds = [("link", links), ("switch", switches)];
    let parts = kinds.into_iter().flat_map(|(kind, found)| found.into_iter().map(move |(level, of)| (kind, level, of)));
    parts
        .map(|(kind, level, (count, fault))| {
            let after = fabric.fail(std::slice::from_ref(&fault))?;
            let cut_off = after.cut_off().iter().map(Vec::len).sum();
            let slowdown = if cut_off == 0 { Some(slowdown(&fabric, &after, level, &fault)?) } else { None };
            Ok(AlikeParts { kind, level: fabric.levels()[level as usize].name.clone(), count, slowdown, cut_off })
        })
        .collect()
}

/// How many times longer all-to-all traffic takes, among all chips or those of the fault's domain of a level.
fn slowdown(fabric: &Fabric, after: &Fabric, level: u32, fault: &Fault) -> Result<f64> {
    let whole = fabric.slowdown(after)?.factor();
    let near = match fault {
        Fault::Chip(node) => *node,
        Fault::Switch(node, _) => {
            fabric.links_to(*node).first().map_or(0, |&link| fabric.links()[link as usize].from as usize)
        }
        Fault::Link(from, to, _) => *from.min(to),
    };
    let over = &fabric.levels()[level as usize].over;
    let place = |chip: usize| &fabric.nodes()[chip].coordinates;
    let is_joined = |chip: &usize| {
        let axes = 0..fabric.axes().len();
        axes.filter(|axis| !over.contains(axis)).all(|axis| place(*chip)[axis] == place(near)[axis])
    };
    let domain: Vec<usize> = (0..fabric.chips()).filter(is_joined).collect();
    if near >= fabric.chips() || domain.len() < 2 {
        return Ok(whole);
    }
    let [before, later] = [fabric, after].map(|fabric| bound::all_to_all(fabric, Some(&domain)));
    Ok(whole.max(before?.per_chip / later?.per_chip))
}
