//! Ways through a fabric: the one that a transfer takes, and all that are as good.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use super::graph::{Fabric, NodeKind, joined};
use super::tree::{Distance, FAR, Tree};
use crate::error::{Error, Result};

/// Trees of more nodes than this are made again each time they are asked for, not kept: 9,216 of them would not fit.
const KEPT_NODES: usize = 2048;

/// More ways than this are not listed one by one; their link shares still are.
const MOST_PATHS: f64 = 100_000.0;

/// One step from chip to chip.
#[derive(Clone, Debug, PartialEq)]
pub struct Leg {
    /// Index of the chip that sends.
    pub from: usize,
    /// Index of the chip that receives.
    pub to: usize,
    /// Index into [`Fabric::levels`].
    pub level: u32,
    /// Node of the switch it goes through, if it does.
    pub switch: Option<usize>,
    /// Bytes a second, one way.
    pub rate: f64,
    /// Seconds for the first byte.
    pub latency: f64,
    /// Indices of its links.
    pub links: Vec<u32>,
}

/// The way that a transfer takes.
#[derive(Clone, Debug, PartialEq)]
pub struct FabricRoute {
    /// Steps from chip to chip; empty from a chip to itself.
    pub legs: Vec<Leg>,
    /// Indices of all links, in order.
    pub links: Vec<u32>,
    /// Bytes a second, one way: the least of the legs'. Infinite from a chip to itself.
    pub rate: f64,
    /// Seconds for the first byte: the sum of the legs'.
    pub latency: f64,
    /// Indices of the chips on the way.
    pub relays: Vec<usize>,
}

/// One of several equal ways, and the part of the bytes that it carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Fraction of the bytes.
    pub share: f64,
    /// Indices of its links, in order.
    pub links: Vec<u32>,
}

impl Fabric {
    fn after(&self, at: Distance, link: u32) -> Distance {
        let latency = (self.links[link as usize].latency * 1e15).round() as u64;
        (at.0 + latency, at.1 + 1)
    }

    pub(super) fn tree(&self, from: usize) -> Arc<Tree> {
        if self.nodes.len() > KEPT_NODES {
            return Arc::new(self.grow(from));
        }
        self.trees[from].get_or_init(|| Arc::new(self.grow(from))).clone()
    }

    fn grow(&self, from: usize) -> Tree {
        let mut distance = vec![FAR; self.nodes.len()];
        let mut ways = vec![0.0; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut is_settled = vec![false; self.nodes.len()];
        let mut heap = BinaryHeap::new();
        distance[from] = (0, 0);
        ways[from] = 1.0;
        heap.push(Reverse((distance[from], from as u32)));
        while let Some(Reverse((at, node))) = heap.pop() {
            if std::mem::replace(&mut is_settled[node as usize], true) {
                continue;
            }
            order.push(node);
            for &link in self.outgoing.at(node as usize) {
                let to = self.links[link as usize].to as usize;
                let there = self.after(at, link);
                if there < distance[to] {
                    distance[to] = there;
                    ways[to] = ways[node as usize];
                    heap.push(Reverse((there, to as u32)));
                } else if there == distance[to] {
                    ways[to] += ways[node as usize];
                }
            }
        }
        let mut start = Vec::with_capacity(self.nodes.len() + 1);
        let mut last = Vec::with_capacity(2 * self.nodes.len());
        for (node, &at) in distance.iter().enumerate() {
            start.push(last.len() as u32);
            last.extend(self.incoming.at(node).iter().copied().filter(|&link| {
                let before = distance[self.links[link as usize].from as usize];
                before != FAR && self.after(before, link) == at
            }));
        }
        start.push(last.len() as u32);
        Tree { distance, ways, order, start, last }
    }

    fn check_chip(&self, chip: usize) -> Result<()> {
        if chip >= self.chips {
            return Err(Error::Value(format!(
                "{} has no chip number {chip}; allowed: 0 to {}",
                self.name,
                self.chips.saturating_sub(1)
            )));
        }
        Ok(())
    }

    /// The tree of `from`, if it reaches `to`.
    fn tree_to(&self, from: usize, to: usize) -> Result<Arc<Tree>> {
        self.check_chip(from)?;
        self.check_chip(to)?;
        let tree = self.tree(from);
        if tree.reaches(to) {
            return Ok(tree);
        }
        let faults = if self.faults.is_empty() { "in its description".to_owned() } else { self.faults.join(", ") };
        let reached = (0..self.chips).filter(|&chip| tree.reaches(chip)).count();
        Err(Error::Unreachable(format!(
            "no way leads from chip {} to chip {} of {} ({faults}); {} reaches {} of the {} other chips",
            joined(self.chip_id(from)),
            joined(self.chip_id(to)),
            self.name,
            joined(self.chip_id(from)),
            reached - 1,
            self.chips - 1,
        )))
    }

    /// The way from one chip to another: the least latency, then the fewest links, then the lowest link at each step.
    ///
    /// Levels and, on a torus, axes are therefore taken in the order of the spec file: a transfer to another position
    /// of the other rack first moves within its own rack, and is then relayed by the twin of its destination.
    ///
    /// # Errors
    /// [`Error::Value`] if there is no such chip, [`Error::Unreachable`] if no way leads there.
    pub fn route(&self, from: usize, to: usize) -> Result<FabricRoute> {
        let tree = self.tree_to(from, to)?;
        // Backwards, the first link of the way from each node that lies on one: at each step the lowest.
        let mut next = vec![u32::MAX; self.nodes.len()];
        let mut stack = vec![to];
        while let Some(node) = stack.pop() {
            for &link in tree.last_links(node) {
                let previous = self.links[link as usize].from as usize;
                if next[previous] == u32::MAX {
                    stack.push(previous);
                }
                next[previous] = next[previous].min(link);
            }
        }
        let mut links = Vec::new();
        let mut node = from;
        while node != to {
            let link = next[node];
            links.push(link);
            node = self.links[link as usize].to as usize;
        }
        Ok(self.route_of(links))
    }

    /// A route of given links.
    pub(super) fn route_of(&self, links: Vec<u32>) -> FabricRoute {
        let mut legs: Vec<Leg> = Vec::new();
        let mut is_open = false;
        for &index in &links {
            let link = &self.links[index as usize];
            let to = link.to as usize;
            if !is_open {
                legs.push(Leg {
                    from: link.from as usize,
                    to,
                    level: link.level,
                    switch: None,
                    rate: f64::INFINITY,
                    latency: 0.0,
                    links: Vec::new(),
                });
            }
            if let Some(leg) = legs.last_mut() {
                leg.links.push(index);
                leg.rate = leg.rate.min(link.rate);
                leg.latency += link.latency;
                is_open = self.nodes[to].kind == NodeKind::Switch;
                if is_open {
                    leg.switch = Some(to);
                } else {
                    leg.to = to;
                }
            }
        }
        let relays = legs.iter().skip(1).map(|leg| leg.from).collect();
        let rate = legs.iter().map(|leg| leg.rate).fold(f64::INFINITY, f64::min);
        let latency = legs.iter().map(|leg| leg.latency).sum();
        FabricRoute { legs, links, rate, latency, relays }
    }

    /// All ways of least latency and fewest links, each with an equal share, in the order of their links.
    ///
    /// # Errors
    /// As [`Fabric::route`]; [`Error::Value`] where there are more than 100,000: [`Fabric::link_shares`] serves there.
    pub fn paths(&self, from: usize, to: usize) -> Result<Vec<Path>> {
        let tree = self.tree_to(from, to)?;
        if tree.ways[to] > MOST_PATHS {
            return Err(Error::Value(format!(
                "{} equal ways lead from chip {} to chip {}; listed are at most {MOST_PATHS}: ask for link shares",
                tree.ways[to],
                joined(self.chip_id(from)),
                joined(self.chip_id(to)),
            )));
        }
        let share = 1.0 / tree.ways[to];
        let mut paths = Vec::new();
        let mut stack = vec![(to, Vec::new())];
        while let Some((node, links)) = stack.pop() {
            if node == from {
                paths.push(Path { share, links: links.iter().rev().copied().collect() });
                continue;
            }
            for &link in tree.last_links(node) {
                let mut longer = links.clone();
                longer.push(link);
                stack.push((self.links[link as usize].from as usize, longer));
            }
        }
        paths.sort_by(|left, right| left.links.cmp(&right.links));
        Ok(paths)
    }

    /// The links that carry anything from one chip to another, each with its fraction of the bytes, over all equal ways.
    ///
    /// # Errors
    /// As [`Fabric::route`].
    pub fn link_shares(&self, from: usize, to: usize) -> Result<Vec<(u32, f64)>> {
        let tree = self.tree_to(from, to)?;
        // Nodes of the ways, the farthest first, so that all that passes one is known when its turn comes.
        let mut flow = BTreeMap::from([(Reverse((tree.distance[to], to)), 1.0)]);
        let mut shares = Vec::new();
        while let Some((Reverse((_, node)), passing)) = flow.pop_first() {
            for &link in tree.last_links(node) {
                let previous = self.links[link as usize].from as usize;
                let part = passing * tree.ways[previous] / tree.ways[node];
                *flow.entry(Reverse((tree.distance[previous], previous))).or_insert(0.0) += part;
                shares.push((link, part));
            }
        }
        shares.sort_unstable_by_key(|&(link, _)| link);
        Ok(shares)
    }

    /// Calls `carry` with each link and what it carries if the tree's chip sends `weights[i]` to each chip `i`.
    pub(super) fn spread(&self, tree: &Tree, weights: &[f64], mut carry: impl FnMut(u32, f64)) {
        let mut flow = vec![0.0; self.nodes.len()];
        flow[..self.chips].copy_from_slice(weights);
        for &node in tree.order.iter().skip(1).rev() {
            let node = node as usize;
            if flow[node] == 0.0 {
                continue;
            }
            for &link in tree.last_links(node) {
                let previous = self.links[link as usize].from as usize;
                let part = flow[node] * tree.ways[previous] / tree.ways[node];
                flow[previous] += part;
                carry(link, part);
            }
        }
    }

    /// For each node, whether a shortest way from the tree's chip to it uses a marked link.
    pub(super) fn touched(&self, tree: &Tree, is_marked: &[bool]) -> Vec<bool> {
        let mut touched = vec![false; self.nodes.len()];
        for &node in tree.order.iter().skip(1) {
            touched[node as usize] = tree
                .last_links(node as usize)
                .iter()
                .any(|&link| is_marked[link as usize] || touched[self.links[link as usize].from as usize]);
        }
        touched
    }

    /// Steps from chip to chip between two chips.
    ///
    /// # Errors
    /// As [`Fabric::route`].
    pub fn hops(&self, from: usize, to: usize) -> Result<usize> {
        Ok(self.route(from, to)?.legs.len())
    }
}
