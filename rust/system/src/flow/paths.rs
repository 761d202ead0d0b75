//! What transfers have in common: transfers with the same resources, weights, class and share have one path.

use std::collections::HashMap;
use std::ops::Range;

use super::FlowTransfer;

/// A set of resources as a stream takes them.
#[derive(Clone, Debug)]
pub(super) struct Path {
    uses: Range<usize>,
    pub(super) priority: u8,
    pub(super) share: f64,
}

/// The distinct paths, in an order that does not depend on that of the transfers.
#[derive(Debug)]
pub(super) struct Paths {
    uses: Vec<(u32, f64)>,
    paths: Vec<Path>,
    of: Vec<u32>,
}

type Key = (u8, u64, Vec<(u32, u64)>);

impl Paths {
    pub(super) fn new(transfers: &[FlowTransfer]) -> Self {
        let mut known: HashMap<Key, u32> = HashMap::new();
        let mut of = Vec::with_capacity(transfers.len());
        let mut scratch: Vec<(u32, f64)> = Vec::new();
        for transfer in transfers {
            scratch.clear();
            scratch.extend(transfer.uses.iter().filter(|(_, weight)| *weight > 0.0));
            scratch.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            scratch.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                if same {
                    kept.1 += next.1;
                }
                same
            });
            let uses = scratch.iter().map(|&(resource, weight)| (resource, weight.to_bits())).collect();
            let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
            of.push(*known.entry((transfer.priority, transfer.share.to_bits(), uses)).or_insert(next));
        }
        // Positive floats sort as their bits do.
        let mut sorted: Vec<(Key, u32)> = known.into_iter().collect();
        sorted.sort_unstable();
        let mut rank = vec![0u32; sorted.len()];
        let mut paths = Self { uses: Vec::new(), paths: Vec::with_capacity(sorted.len()), of: Vec::new() };
        for (place, ((priority, share, uses), old)) in (0u32..).zip(sorted) {
            rank[old as usize] = place;
            let first = paths.uses.len();
            paths.uses.extend(uses.into_iter().map(|(resource, weight)| (resource, f64::from_bits(weight))));
            paths.paths.push(Path { uses: first..paths.uses.len(), priority, share: f64::from_bits(share) });
        }
        for path in &mut of {
            *path = rank[*path as usize];
        }
        paths.of = of;
        paths
    }

    /// The path of a transfer.
    pub(super) fn of(&self, transfer: u32) -> u32 {
        self.of[transfer as usize]
    }

    /// What a path is.
    pub(super) fn path(&self, path: u32) -> &Path {
        &self.paths[path as usize]
    }

    /// The resources of a path with their weights, in order of the resources.
    pub(super) fn uses(&self, path: u32) -> &[(u32, f64)] {
        &self.uses[self.paths[path as usize].uses.clone()]
    }
}
