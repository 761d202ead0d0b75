//! What is left of an inventory, and in what pieces.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::bits::Bits;
use crate::document::Document;
use crate::error::Result;
use crate::state::AllocationState;
use crate::ultraserver::SLOT_SIZES;

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeReport {
    /// Its name.
    pub node: String,
    /// Chips there are.
    pub devices: usize,
    /// Chips that no claim holds.
    pub free: usize,
    /// Sizes of groups, largest first, with how many of a size are wholly free; each device group counts once.
    pub groups: Vec<(usize, usize)>,
    /// Chips of the largest connected part of those that are free.
    pub largest_connected: usize,
}

/// An inventory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FragmentationReport {
    /// Its nodes.
    pub nodes: Vec<NodeReport>,
    /// Numbers of nodes, largest first, with how many aligned sets of one UltraServer of so many are wholly free.
    pub sets: Vec<(usize, usize)>,
    /// UltraServers there are.
    pub ultraservers: usize,
    /// UltraServers that are wholly free.
    pub free_ultraservers: usize,
}

/// What is free after the claims in `allocated`.
///
/// # Errors
/// [`Error::Malformed`](crate::Error::Malformed) if an object is malformed, or a device is held twice.
///
/// ```
/// use trn3_k8s::{Document, SliceOptions, fragmentation, resource_slices};
///
/// let slices = resource_slices("trn2", &SliceOptions::default())?;
/// let inventory: Vec<_> = slices.into_iter().flat_map(|body| Document::read("slices", body).unwrap()).collect();
/// let report = fragmentation(&inventory, &[])?;
/// assert_eq!((report.nodes[0].free, &report.nodes[0].groups[..]), (16, &[(16, 1), (8, 2), (4, 4)][..]));
/// # Ok::<(), trn3_k8s::Error>(())
/// ```
pub fn fragmentation(inventory: &[Document], allocated: &[Document]) -> Result<FragmentationReport> {
    let mut state = AllocationState::new(inventory, &[])?;
    state.hold_all(allocated)?;
    let nodes = (0..state.layouts.len()).filter(|node| !state.spans_nodes(*node));
    let nodes = nodes.map(|node| of_node(&state, node)).collect();
    let open = |size: usize| {
        let slots = state.blocks.iter().flat_map(|block| block.slots(size));
        (size, slots.filter(|slot| state.are_whole(slot)).count())
    };
    let sets = if state.blocks.is_empty() { Vec::new() } else { SLOT_SIZES.map(open).to_vec() };
    let free_ultraservers = state.blocks.iter().filter(|block| state.are_whole(&block.nodes)).count();
    Ok(FragmentationReport { nodes, sets, ultraservers: state.blocks.len(), free_ultraservers })
}

fn of_node(state: &AllocationState, node: usize) -> NodeReport {
    let layout = &state.layouts[node];
    let free = state.free[node].and(&layout.shape.chips);
    let mut groups: BTreeMap<Reverse<usize>, HashSet<&Bits>> = BTreeMap::new();
    for group in layout.shape.groups.iter().flatten() {
        let sized = groups.entry(Reverse(group.count())).or_default();
        if group.is_within(&free) {
            sized.insert(group);
        }
    }
    NodeReport {
        node: layout.node.clone(),
        devices: layout.shape.chips.count(),
        free: free.count(),
        groups: groups.into_iter().map(|(Reverse(size), groups)| (size, groups.len())).collect(),
        largest_connected: layout.shape.parts(&free).map(|part| part.count()).max().unwrap_or(0),
    }
}
