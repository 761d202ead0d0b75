//! How good a set of devices is, and what it leaves of the rest.
//!
//! The score **(choice)** is compared entry by entry, smaller is better. Ties go to the node that has fewer free devices,
//! then to the order of nodes and devices.

use serde::Serialize;

use crate::bits::Bits;
use crate::layout::LayoutShape;

/// What a choice of devices costs; compared entry by entry, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PlacementScore {
    /// Chips that are taken beyond the devices asked for, as by a whole node in place of one.
    pub excess: usize,
    /// Parts that the devices fall into beyond one. Devices of a torus are connected if they are neighbours in it, those
    /// of a switched node always are.
    pub pieces: usize,
    /// 1 if the UltraServer was wholly free before; then aligned sets of 4 and of 2 nodes that were (for claims that take
    /// a mode of 4 or 2 later).
    pub opened: Vec<usize>,
    /// Groups of devices, largest first, that were wholly free and now are used in part.
    pub broken: Vec<usize>,
    /// Sum of the distances between all pairs, in links of the torus.
    pub hops: u32,
    /// Parts that the free devices of the node fall into afterwards, beyond one.
    pub scattered: usize,
}

impl LayoutShape {
    /// What it costs to take devices while `free` are.
    pub(crate) fn score(&self, chosen: &[usize], free: &Bits, opened: &[usize]) -> PlacementScore {
        let mut bits = Bits::none(self.footprint.len());
        chosen.iter().for_each(|number| bits.add(&self.footprint[*number]));
        bits.keep(&self.chips);
        let elsewhere: usize = chosen.iter().map(|number| self.elsewhere[*number]).sum();
        let mut rest = free.and(&self.chips);
        rest.remove(&bits);
        let breaks = |group: &&Bits| group.is_within(free) && group.meets(&bits) && !group.is_within(&bits);
        let pieces = |bits: &Bits| self.parts(bits).count().saturating_sub(1);
        PlacementScore {
            excess: (bits.count() + elsewhere).saturating_sub(chosen.len()),
            pieces: pieces(&bits),
            opened: opened.to_vec(),
            broken: self.groups.iter().map(|sized| sized.iter().filter(breaks).count()).collect(),
            hops: self.hops(&bits),
            scattered: pieces(&rest),
        }
    }
}
