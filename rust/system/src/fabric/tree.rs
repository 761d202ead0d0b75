//! What is known of shortest ways from one chip.

/// Latency in femtoseconds, then links: integers, so that equal ways are equal.
pub(super) type Distance = (u64, u32);

pub(super) const FAR: Distance = (u64::MAX, u32::MAX);

/// Distances and numbers of shortest ways from one chip to every node, and the links of those ways.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) distance: Vec<Distance>,
    pub(super) ways: Vec<f64>,
    pub(super) order: Vec<u32>,
    /// Of each node, where its links in `last` begin.
    pub(super) start: Vec<u32>,
    /// Links by which shortest ways enter nodes, in ascending order for each.
    pub(super) last: Vec<u32>,
}

impl Tree {
    pub(super) fn reaches(&self, node: usize) -> bool {
        self.distance[node] != FAR
    }

    /// Links by which shortest ways enter a node.
    pub(super) fn last_links(&self, node: usize) -> &[u32] {
        &self.last[self.start[node] as usize..self.start[node + 1] as usize]
    }

    pub(super) fn latency(&self, node: usize) -> f64 {
        self.distance[node].0 as f64 * 1e-15
    }
}
