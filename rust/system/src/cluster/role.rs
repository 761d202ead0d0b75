//! Units that the network cannot tell apart.

use std::collections::BTreeMap;

use super::Cluster;

/// What all of some units have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRole {
    /// How many live units have it.
    pub units: u64,
    /// Places for units under their bottom node, taken or failed, and how many of them live.
    pub bottom: (u64, u64),
    /// The same for their middle node.
    pub middle: (u64, u64),
}

impl Cluster {
    /// The distinct roles, in the order of what they are.
    pub fn roles(&self) -> &[ClusterRole] {
        &self.roles
    }

    /// Goes through the nodes that lack a unit, never through the others.
    pub(super) fn find_roles(&self) -> Vec<ClusterRole> {
        let per_bottom = self.network.units_per_bottom_node;
        let per_middle = per_bottom * self.network.bottom_per_middle_node;
        let mut lost: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
        for &unit in &self.failed {
            let (bottom, middle) = self.network.nodes_over(unit);
            *lost.entry(middle).or_default().entry(bottom).or_default() += 1;
        }
        let (last_bottom, last_middle) = self.network.nodes_over(self.units - 1);
        // The last nodes may have fewer places than the others.
        lost.entry(last_middle).or_default().entry(last_bottom).or_default();
        let mut roles: BTreeMap<((u64, u64), (u64, u64)), u64> = BTreeMap::new();
        let mut add = |bottom, middle, units| {
            if units > 0 {
                *roles.entry((bottom, middle)).or_default() += units;
            }
        };
        let mut whole = self.units;
        for (middle, bottoms) in &lost {
            let places = per_middle.min(self.units - middle * per_middle);
            whole -= places;
            let around = (places, places - bottoms.values().sum::<u64>());
            let mut rest = places;
            for (bottom, lost) in bottoms {
                let places = per_bottom.min(self.units - bottom * per_bottom);
                rest -= places;
                add((places, places - lost), around, places - lost);
            }
            add((per_bottom, per_bottom), around, rest);
        }
        add((per_bottom, per_bottom), (per_middle, per_middle), whole);
        roles.into_iter().map(|((bottom, middle), units)| ClusterRole { units, bottom, middle }).collect()
    }
}
