//! What one rank does: nodes that wait for each other.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::messages::{ChakraMetadata, ChakraNode};
use super::value::quoted;
use crate::error::{Error, Result};
use crate::replay::JobExchange;

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChakraNodeType {
    /// Nothing that is known.
    Invalid,
    /// Says something about the trace.
    Metadata,
    /// Reads memory.
    MemoryLoad,
    /// Writes memory.
    MemoryStore,
    /// Computes.
    Compute,
    /// Sends a message.
    Send,
    /// Receives one.
    Receive,
    /// Takes part in a collective.
    Collective,
    /// Reads or writes storage.
    Storage,
    /// Prepares a batch.
    Batch,
    /// Writes a checkpoint.
    Checkpoint,
}

impl ChakraNodeType {
    /// All of them with their names, in the order of the schema's numbers.
    pub const ALL: [(Self, &str); 11] = [
        (Self::Invalid, "INVALID_NODE"),
        (Self::Metadata, "METADATA_NODE"),
        (Self::MemoryLoad, "MEM_LOAD_NODE"),
        (Self::MemoryStore, "MEM_STORE_NODE"),
        (Self::Compute, "COMP_NODE"),
        (Self::Send, "COMM_SEND_NODE"),
        (Self::Receive, "COMM_RECV_NODE"),
        (Self::Collective, "COMM_COLL_NODE"),
        (Self::Storage, "STORAGE_NODE"),
        (Self::Batch, "BATCH_NODE"),
        (Self::Checkpoint, "CHECKPOINT_NODE"),
    ];

    /// Whether ranks talk.
    pub const fn communicates(self) -> bool {
        matches!(self, Self::Send | Self::Receive | Self::Collective)
    }

    /// Whether only newer schemas have it.
    pub const fn is_newer(self) -> bool {
        matches!(self, Self::Storage | Self::Batch | Self::Checkpoint)
    }
}

/// Names of the schema's collectives by number; see [`JobExchange::ALL`].
pub const COLLECTIVES: [&str; JobExchange::ALL.len()] = [
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
];

impl ChakraNode {
    /// What it does.
    ///
    /// # Errors
    /// [`Error::Trace`] if no schema has its number.
    pub fn node_type(&self) -> Result<ChakraNodeType> {
        let found = usize::try_from(self.kind).ok().and_then(|number| ChakraNodeType::ALL.get(number));
        found.map(|(kind, _)| *kind).ok_or_else(|| {
            let known = (0..).zip(ChakraNodeType::ALL).map(|(number, (_, name))| format!("{number} {name}"));
            let known: Vec<String> = known.collect();
            Error::Trace(format!(
                "node {} ({}) has type {}; known: {}",
                self.id,
                quoted(&self.name),
                self.kind,
                known.join(", ")
            ))
        })
    }

    fn waits_for(&self) -> impl Iterator<Item = u64> {
        self.ctrl_deps.iter().chain(&self.data_deps).copied()
    }
}

/// The trace of one rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChakraTrace {
    /// What it begins with.
    pub metadata: ChakraMetadata,
    /// Its nodes, in any order.
    pub nodes: Vec<ChakraNode>,
}

/// Nodes in an order in which each stands after what it waits for.
pub(super) struct Ordered {
    /// Places in the trace.
    pub(super) nodes: Vec<u32>,
    /// Of each, places in this order, ascending.
    pub(super) after: Vec<Vec<u32>>,
}

impl ChakraTrace {
    /// The places of its nodes such that each stands after those it waits for, else by place in the file.
    ///
    /// # Errors
    /// [`Error::Trace`] if two nodes have one id, one waits for what is no node, or they wait for each other in a cycle;
    /// the text names `what` and the node.
    pub fn order(&self, what: &str) -> Result<Vec<u32>> {
        Ok(self.ordered(what)?.nodes)
    }

    pub(super) fn ordered(&self, what: &str) -> Result<Ordered> {
        let wrong = |node: &ChakraNode, why: String| {
            Err(Error::Trace(format!("{what}: node {} ({}) {why}", node.id, quoted(&node.name))))
        };
        let mut place: HashMap<u64, u32> = HashMap::with_capacity(self.nodes.len());
        for (at, node) in (0u32..).zip(&self.nodes) {
            if let Some(first) = place.insert(node.id, at) {
                let first = quoted(&self.nodes[first as usize].name);
                return Err(Error::Trace(format!("{what}: two nodes have the id {}, the first is {first}", node.id)));
            }
        }
        let mut waiting: Vec<usize> = Vec::with_capacity(self.nodes.len());
        let mut followers: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        let mut before: Vec<Vec<u32>> = Vec::with_capacity(self.nodes.len());
        for (at, node) in (0u32..).zip(&self.nodes) {
            let mut places: Vec<u32> = Vec::new();
            for dep in node.waits_for() {
                let Some(&found) = place.get(&dep) else {
                    return wrong(node, format!("waits for {dep}, which is no node; there are {}", self.nodes.len()));
                };
                places.push(found);
            }
            places.sort_unstable();
            places.dedup();
            places.iter().for_each(|&dep| followers[dep as usize].push(at));
            waiting.push(places.len());
            before.push(places);
        }
        let free = (0u32..).zip(&waiting).filter(|(_, count)| **count == 0);
        let mut ready: BinaryHeap<Reverse<u32>> = free.map(|(at, _)| Reverse(at)).collect();
        let mut nodes: Vec<u32> = Vec::with_capacity(self.nodes.len());
        while let Some(Reverse(at)) = ready.pop() {
            nodes.push(at);
            for &follower in &followers[at as usize] {
                waiting[follower as usize] -= 1;
                if waiting[follower as usize] == 0 {
                    ready.push(Reverse(follower));
                }
            }
        }
        if let Some(stuck) = self.nodes.iter().zip(&waiting).find(|(_, count)| **count > 0).map(|(node, _)| node) {
            let through: Vec<String> = stuck.waits_for().map(|dep| dep.to_string()).collect();
            return wrong(stuck, format!("waits for itself, through {}", through.join(", ")));
        }
        let mut rank_of = vec![0u32; nodes.len()];
        (0u32..).zip(&nodes).for_each(|(position, &at)| rank_of[at as usize] = position);
        let after = nodes.iter().map(|&at| {
            let mut places: Vec<u32> = before[at as usize].iter().map(|&dep| rank_of[dep as usize]).collect();
            places.sort_unstable();
            places
        });
        let after = after.collect();
        Ok(Ordered { nodes, after })
    }
}
