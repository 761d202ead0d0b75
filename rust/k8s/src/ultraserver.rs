//! UltraServers of an inventory: nodes whose devices name the same capacity block, and their aligned sets.

use std::collections::BTreeMap;

use crate::device::PoolDevice;
use crate::layout::NodeLayout;
use crate::names::{NamePart, natural};
use crate::values::AttributeValue;

/// Sizes of aligned sets that are kept whole where it costs nothing, the larger first.
pub(crate) const SLOT_SIZES: [usize; 2] = [4, 2];

/// Sizes of aligned sets: what claims may ask for.
const SET_SIZES: [usize; 3] = [1, 2, 4];

/// The nodes of one UltraServer, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UltraServerNodes {
    pub(crate) nodes: Vec<usize>,
    /// Aligned sets, by size.
    sets: [Vec<Vec<usize>>; SET_SIZES.len()],
}

impl UltraServerNodes {
    fn new(members: &[Member]) -> Self {
        let nodes: Vec<usize> = members.iter().map(|each| each.4).collect();
        let mut racks: Vec<(i64, Vec<usize>)> = Vec::new();
        for (rack, _, _, _, node) in members {
            match racks.iter_mut().find(|(known, _)| known == rack) {
                Some((_, nodes)) => nodes.push(*node),
                None => racks.push((*rack, vec![*node])),
            }
        }
        let sets = SET_SIZES.map(|size| {
            let whole = [(0, nodes.clone())];
            let lists = if racks.iter().any(|(_, nodes)| nodes.len() < size) { &whole } else { racks.as_slice() };
            lists.iter().flat_map(|(_, nodes)| nodes.chunks_exact(size)).map(<[usize]>::to_vec).collect()
        });
        Self { nodes, sets }
    }

    /// Aligned sets of nodes **(choice)**: counted from the first server of a rack, they do not cross racks unless a rack
    /// has fewer servers than a set.
    pub(crate) fn slots(&self, size: usize) -> &[Vec<usize>] {
        SET_SIZES.iter().position(|each| *each == size).map_or(&[], |place| &self.sets[place])
    }
}

/// Rack, server, name and number of a node.
type Member = (i64, i64, Vec<NamePart>, String, usize);

/// The UltraServers of an inventory.
pub(crate) fn ultraservers(layouts: &[NodeLayout], inventory: &[PoolDevice]) -> Vec<UltraServerNodes> {
    let mut found: BTreeMap<&str, Vec<Member>> = BTreeMap::new();
    // What stands for several nodes is none.
    for (number, layout) in layouts.iter().enumerate().filter(|(_, layout)| layout.spans(inventory).is_empty()) {
        let devices = layout.devices.iter().map(|place| &inventory[*place]);
        let named =
            |device: &'_ PoolDevice| device.of_driver("capacityBlockId").and_then(AttributeValue::text).is_some();
        let Some(device) = devices.into_iter().find(|device| named(device)) else { continue };
        let block = device.of_driver("capacityBlockId").and_then(AttributeValue::text).unwrap_or_default();
        let own = |name: &str| device.own(name).and_then(AttributeValue::int).unwrap_or(0);
        let member = (own("rack"), own("server"), natural(&layout.node), layout.node.clone(), number);
        found.entry(block).or_default().push(member);
    }
    let mut blocks: Vec<Vec<Member>> = found.into_values().collect();
    blocks.iter_mut().for_each(|members| members.sort());
    // By the first of their names; of equal ones by that of the block.
    blocks.sort_by_cached_key(|members| members.iter().map(|each| (each.2.clone(), each.3.clone())).min());
    blocks.iter().map(|members| UltraServerNodes::new(members)).collect()
}
