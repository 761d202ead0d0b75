//! What is replayed: nodes by rank, groups, and where ranks run.

use std::collections::BTreeMap;

use crate::collective::Operation;
use crate::error::{Error, Result};
use crate::flow::LOWEST_PRIORITY;

/// A collective, as traces name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobExchange {
    /// Every rank gets the reduction of all.
    AllReduce,
    /// One rank gets the reduction of all.
    Reduce,
    /// Every rank gets everything.
    AllGather,
    /// One rank gets everything.
    Gather,
    /// One rank deals out its buffer.
    Scatter,
    /// One rank's buffer goes everywhere.
    Broadcast,
    /// Every rank deals out its buffer.
    AllToAll,
    /// The reduction is dealt out.
    ReduceScatter,
    /// Everyone waits for everyone.
    Barrier,
}

impl JobExchange {
    /// All of them, in the order of the schema's numbers; 8 of that is a second name of [`JobExchange::ReduceScatter`].
    pub const ALL: [Self; 10] = [
        Self::AllReduce,
        Self::Reduce,
        Self::AllGather,
        Self::Gather,
        Self::Scatter,
        Self::Broadcast,
        Self::AllToAll,
        Self::ReduceScatter,
        Self::ReduceScatter,
        Self::Barrier,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Reduce => "reduce",
            Self::AllGather => "all_gather",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Broadcast => "broadcast",
            Self::AllToAll => "all_to_all",
            Self::ReduceScatter => "reduce_scatter",
            Self::Barrier => "barrier",
        }
    }

    /// The operation whose schedules it takes **(choice)**: a reduction to one rank is priced as the broadcast that it is
    /// backwards, a barrier as an all-reduce of nothing.
    pub const fn operation(self) -> Operation {
        match self {
            Self::AllReduce | Self::Barrier => Operation::AllReduce,
            Self::Reduce | Self::Broadcast => Operation::Broadcast,
            Self::AllGather => Operation::AllGather,
            Self::Gather | Self::Scatter => Operation::AllToAllV,
            Self::AllToAll => Operation::AllToAll,
            Self::ReduceScatter => Operation::ReduceScatter,
        }
    }

    /// Whether one rank stands out.
    pub const fn has_root(self) -> bool {
        matches!(self, Self::Reduce | Self::Gather | Self::Scatter | Self::Broadcast)
    }
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum JobWork {
    /// Nothing.
    Nothing,
    /// Passes time beside everything else: work of the host, storage.
    Wait {
        /// Seconds.
        seconds: f64,
    },
    /// Computes on one of the rank's streams.
    Compute {
        /// Seconds.
        seconds: f64,
        /// Which stream.
        stream: u32,
    },
    /// Moves bytes between the chip's memory and the core.
    Memory {
        /// How many.
        bytes: f64,
    },
    /// Sends bytes, and ends when they have arrived.
    Send {
        /// The rank of the job that receives.
        to: u32,
        /// How many.
        bytes: f64,
        /// Which message of the pair.
        tag: i64,
    },
    /// Waits for bytes.
    Receive {
        /// The rank of the job that sends.
        from: u32,
        /// How many, where the trace says so.
        bytes: Option<f64>,
        /// Which message of the pair.
        tag: i64,
    },
    /// Takes part in a collective.
    Collective {
        /// Which.
        exchange: JobExchange,
        /// The index of the process group in [`Job::groups`].
        group: u32,
        /// Bytes of one rank's input; of a scatter, of the root's.
        bytes: f64,
        /// The rank of the job that stands out, where one does.
        root: u32,
    },
}

/// A piece of work of one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct JobNode {
    /// Its number in the trace, for messages.
    pub id: u64,
    /// Its name, for messages.
    pub name: String,
    /// The nodes of this rank, by place, that must end before it begins.
    pub after: Vec<u32>,
    /// What it does.
    pub work: JobWork,
    /// Class of its transfers: 0 is served first, up to 3.
    pub priority: u8,
}

/// Ranks that do collectives together.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessGroup {
    /// Its name, for messages.
    pub name: String,
    /// Ranks of the job, in the group's own order.
    pub ranks: Vec<u32>,
}

/// Which algorithms collectives take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Algorithms {
    /// For operations that are not listed: `auto`, or a name.
    pub default: String,
    /// By operation.
    pub of: BTreeMap<Operation, String>,
}

/// The work of all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The nodes of each rank, each after those it waits for, except across ranks.
    pub ranks: Vec<Vec<JobNode>>,
    /// The rank of the system that each rank of the job runs on.
    pub places: Vec<u32>,
    /// Ranks that a chip has: rank `r` of the system is on chip `r / ranks_per_chip`.
    pub ranks_per_chip: u32,
    /// The process groups.
    pub groups: Vec<ProcessGroup>,
    /// The algorithms.
    pub algorithms: Algorithms,
}

impl Job {
    /// A job without work on some ranks of a system.
    pub fn new(places: Vec<u32>, ranks_per_chip: u32) -> Self {
        let algorithms = Algorithms { default: "auto".to_owned(), of: BTreeMap::new() };
        Self { ranks: vec![Vec::new(); places.len()], places, ranks_per_chip, groups: Vec::new(), algorithms }
    }

    pub(super) fn check(&self, chips: usize) -> Result<()> {
        let count = self.ranks.len();
        if self.places.len() != count {
            return refuse(format!("placement has {} entries; the job has {count} ranks", self.places.len()));
        }
        if self.ranks_per_chip == 0 {
            return refuse("ranks_per_chip is 0; allowed: 1 or more".to_owned());
        }
        let all = chips as u64 * u64::from(self.ranks_per_chip);
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        for (rank, &place) in self.places.iter().enumerate() {
            if u64::from(place) >= all {
                return refuse(format!(
                    "rank {rank} is placed on rank {place} of the system, which has {all}: {chips} chips of {} ranks",
                    self.ranks_per_chip
                ));
            }
            if let Some(other) = seen.insert(place, rank) {
                return refuse(format!("rank {other} and rank {rank} are both placed on rank {place} of the system"));
            }
        }
        for (rank, nodes) in self.ranks.iter().enumerate() {
            for node in nodes {
                self.node_is_sound(rank, node)?;
            }
        }
        for group in &self.groups {
            let mut ranks = group.ranks.clone();
            ranks.sort_unstable();
            if let Some(twice) = ranks.windows(2).find(|pair| pair[0] == pair[1]) {
                return refuse(format!("process group {:?} has rank {} twice", group.name, twice[0]));
            }
            if let Some(rank) = ranks.iter().find(|rank| **rank as usize >= count) {
                return refuse(format!("process group {:?} has rank {rank}; the job has {count} ranks", group.name));
            }
        }
        Ok(())
    }

    fn node_is_sound(&self, rank: usize, node: &JobNode) -> Result<()> {
        let wrong = |why: String| refuse(format!("rank {rank}, {node}: {why}"));
        let size = match &node.work {
            JobWork::Nothing => 0.0,
            JobWork::Wait { seconds } | JobWork::Compute { seconds, .. } => *seconds,
            JobWork::Memory { bytes } | JobWork::Send { bytes, .. } | JobWork::Collective { bytes, .. } => *bytes,
            JobWork::Receive { bytes, .. } => bytes.unwrap_or(0.0),
        };
        if !(size.is_finite() && size >= 0.0) {
            return wrong(format!("its duration or size is {size}; it must be finite and not negative"));
        }
        if node.priority > LOWEST_PRIORITY {
            return wrong(format!("priority is {}; allowed: 0 (served first) to {LOWEST_PRIORITY}", node.priority));
        }
        if let Some(other) = node.after.iter().find(|other| **other as usize >= self.ranks[rank].len()) {
            return wrong(format!("waits for node number {other}, which there is not"));
        }
        match node.work {
            JobWork::Send { to: peer, .. } | JobWork::Receive { from: peer, .. } => {
                if peer as usize >= self.ranks.len() {
                    return wrong(format!(
                        "its counterpart is rank {peer}; the job has ranks 0 to {}",
                        self.ranks.len() - 1
                    ));
                }
                if peer as usize == rank {
                    return wrong("it exchanges with its own rank; another one is needed".to_owned());
                }
            }
            JobWork::Collective { exchange, group, root, .. } => {
                let Some(group) = self.groups.get(group as usize) else {
                    return wrong(format!("its process group is number {group}, which there is not"));
                };
                if !group.ranks.contains(&(rank as u32)) {
                    return wrong(format!("its process group {:?} is of other ranks: {:?}", group.name, group.ranks));
                }
                if exchange.has_root() && !group.ranks.contains(&root) {
                    return wrong(format!("its root is rank {root}; {:?} has {:?}", group.name, group.ranks));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl std::fmt::Display for JobNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {} ({:?})", self.id, self.name)
    }
}

pub(super) fn refuse<T>(text: String) -> Result<T> {
    Err(Error::Value(text))
}
