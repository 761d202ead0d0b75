//! Fuse: elementwise operations share tiles on chip with one another, and with the reductions that feed or follow them.
//!
//! Kept true: every value has the bits that it has alone. Each operation of a region rounds to its own type, and a row is
//! reduced whole, in the order that the operation has by itself; only where values lie differs. An operation runs after all
//! that it takes: regions that are open take nothing from one another.
//!
//! Choices **(choice)**: an operation joins the latest region that makes what it takes, else one that takes what it takes;
//! what follows a region without joining it ends it.

use std::any::Any;

use super::plan_step::Step;
use super::region::{Region, is_look};
use crate::graph::Body;
use crate::operations::{Constant, Reduce};

/// Elements that a constant may have that is worked out before the run.
pub(crate) const FOLDED_ELEMENTS: usize = 1 << 24;

/// The steps of a body. With `fuse` reductions share tiles with what is elementwise; `room` is what a partition has on chip,
/// in bytes.
pub(crate) fn planned(body: &Body, fuse: bool, room: usize) -> Vec<Step> {
    let mut planning =
        Planning { body, fuse, room, is_known: vec![false; body.types().len()], open: Vec::new(), steps: Vec::new() };
    for place in 0..body.nodes().len() {
        planning.take(place);
    }
    for region in std::mem::take(&mut planning.open) {
        planning.close(region);
    }
    planning.steps
}

struct Planning<'b> {
    body: &'b Body,
    fuse: bool,
    room: usize,
    /// Of each value, whether it is known before the run.
    is_known: Vec<bool>,
    open: Vec<Region>,
    steps: Vec<Step>,
}

impl Planning<'_> {
    fn take(&mut self, place: usize) {
        if self.is_folded(place) {
            self.body.nodes()[place].result_numbers().for_each(|value| self.is_known[value as usize] = true);
            self.steps.push(Step::Fold(place));
            return;
        }
        let operands = &self.body.nodes()[place].operands;
        let feeds = |region: &Region| operands.iter().any(|&value| region.makes(value));
        if let Some(mut latest) = self.open.iter().rposition(feeds) {
            // Others that feed it end here: the latest one may then take what they made.
            while let Some(other) = self.open[..latest].iter().position(feeds) {
                let region = self.open.remove(other);
                self.close(region);
                latest -= 1;
            }
            if self.may_join(place) && self.open[latest].join(self.body, place, self.room) {
                return;
            }
            let region = self.open.remove(latest);
            self.close(region);
        }
        if !self.may_join(place) || is_look(&self.body.nodes()[place]) {
            self.steps.push(Step::Alone(place));
            return;
        }
        let shares = |region: &Region| operands.iter().any(|&value| region.takes(value));
        if let Some(latest) = self.open.iter().rposition(shares)
            && self.open[latest].join(self.body, place, self.room)
        {
            return;
        }
        match Region::of(self.body, place, self.room) {
            Some(region) => self.open.push(region),
            None => self.steps.push(Step::Alone(place)),
        }
    }

    /// Whether the operation shares tiles at all.
    fn may_join(&self, place: usize) -> bool {
        let node = &self.body.nodes()[place];
        let any: &dyn Any = &*node.operation;
        node.operation.is_elementwise() || self.fuse && (any.is::<Reduce>() || is_look(node))
    }

    fn is_folded(&self, place: usize) -> bool {
        let node = &self.body.nodes()[place];
        let any: &dyn Any = &*node.operation;
        let is_small =
            node.result_numbers().all(|value| self.body.types()[value as usize].elements() <= FOLDED_ELEMENTS);
        let is_known = node.operands.iter().all(|&value| self.is_known[value as usize]);
        let may = node.operation.bodies().is_empty() && !node.operation.has_effect();
        may && (is_known && is_small || any.is::<Constant>())
    }

    /// Looks that nothing of the region uses are looks at what it leaves, and a reduction by itself has its own template.
    fn close(&mut self, mut region: Region) {
        let nodes = self.body.nodes();
        let mut used: Vec<u32> = Vec::new();
        let mut after = Vec::new();
        for place in std::mem::take(&mut region.nodes).into_iter().rev() {
            let node = &nodes[place];
            if is_look(node) && !used.contains(&node.first_result) {
                after.push(place);
                continue;
            }
            used.extend(&node.operands);
            region.nodes.push(place);
        }
        region.nodes.reverse();
        match region.nodes[..] {
            [place] if region.columns.is_some() => self.steps.push(Step::Alone(place)),
            _ => self.steps.push(Step::Region(region)),
        }
        self.steps.extend(after.into_iter().rev().map(Step::Alone));
    }
}
