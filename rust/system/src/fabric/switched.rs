//! Levels through a switch and levels of direct links: the domains of Trn3 UltraServers, NVLink racks and networks.

use std::collections::BTreeMap;

use super::graph::{Fabric, FabricLevel, Link, Node, NodeKind, joined};

/// Hangs the chips of each domain of the level on one switch.
pub(super) fn add_switches(fabric: &mut Fabric, level: usize, classes: &mut u32) {
    let of = fabric.levels[level].clone();
    let mut switches: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    let mut ports = Vec::with_capacity(fabric.chips);
    for chip in 0..fabric.chips {
        let fixed: Vec<u32> = fabric.nodes[chip]
            .coordinates
            .iter()
            .enumerate()
            .filter(|(axis, _)| !of.over.contains(axis))
            .map(|(_, &coordinate)| coordinate)
            .collect();
        let count = fabric.nodes.len() as u32;
        let switch = *switches.entry(fixed.clone()).or_insert(count);
        if switch == count {
            let name = if fixed.is_empty() { of.switch.clone() } else { format!("{}/{}", of.switch, joined(&fixed)) };
            fabric.nodes.push(Node { kind: NodeKind::Switch, id: fixed, coordinates: Vec::new(), name });
        }
        ports.push(switch);
    }
    for is_up in [true, false] {
        for (chip, &switch) in ports.iter().enumerate() {
            let (from, to) = if is_up { (chip as u32, switch) } else { (switch, chip as u32) };
            fabric.links.push(Link {
                from,
                to,
                rate: of.rate,
                latency: of.latency / 2.0,
                level: level as u32,
                links: of.links,
                class: *classes,
            });
        }
        *classes += 1;
    }
}

/// Joins each chip with every other one of its domain of the level.
pub(super) fn add_direct(fabric: &mut Fabric, level: usize, classes: &mut u32) {
    let of = fabric.levels[level].clone();
    let sizes: Vec<u32> = of.over.iter().map(|&axis| fabric.axes[axis].size).collect();
    let domain: u32 = sizes.iter().product();
    // One shift of the coordinates for each peer: its links are images of one another.
    for shift in 1..domain {
        fabric.add_shift(level, *classes, |coordinates| {
            let mut rest = shift;
            for (&axis, &size) in of.over.iter().zip(&sizes).rev() {
                coordinates[axis] = (coordinates[axis] + rest % size) % size;
                rest /= size;
            }
        });
        *classes += 1;
    }
}

/// Hangs each so many chips of the network's one switch on a node of their own, below it, whose uplinks carry the chips'
/// rate divided by the oversubscription.
pub(super) fn narrow_network(fabric: &mut Fabric, chips: u32, oversubscription: f64) {
    let Some(network) = &fabric.network else { return };
    let level = network.level as u32;
    let of = fabric.levels[network.level].clone();
    let Some(top) = fabric.links.iter().find(|link| link.level == level).map(|link| link.to) else { return };
    let (first, total) = (fabric.nodes.len() as u32, fabric.chips as u32);
    let uplinks = fabric.levels.len() as u32;
    let class = fabric.links.iter().map(|link| link.class + 1).max().unwrap_or(0);
    for bottom in 0..total.div_ceil(chips) {
        let name = format!("{}/bottom {bottom}", of.switch);
        fabric.nodes.push(Node { kind: NodeKind::Switch, id: vec![bottom], coordinates: Vec::new(), name });
    }
    for link in fabric.links.iter_mut().filter(|link| link.level == level) {
        if link.to == top {
            link.to = first + link.from / chips;
        } else {
            link.from = first + link.to / chips;
        }
    }
    for bottom in 0..total.div_ceil(chips) {
        let below = chips.min(total - bottom * chips);
        let rate = f64::from(below) * of.rate / oversubscription;
        for (from, to, side) in [(first + bottom, top, 0), (top, first + bottom, 1)] {
            let class = class + side;
            fabric.links.push(Link { from, to, rate, latency: 0.0, level: uplinks, links: 1, class });
        }
    }
    fabric.levels.push(FabricLevel {
        name: "bottom uplinks".to_owned(),
        rate: f64::from(chips) * of.rate / oversubscription,
        chip_rate: of.rate / oversubscription,
        latency: 0.0,
        ring_step: 0.0,
        // What keeps collectives from the rate of a chip's own link lies at its ends **(choice)**.
        efficiency: 1.0,
        links: 1,
        ..of
    });
    // Chips below a node differ from those elsewhere.
    fabric.is_whole = false;
    fabric.index();
}
