//! How traces are replayed.

use std::collections::BTreeMap;

use crate::replay::Algorithms;

/// What one rank does a second.
#[derive(Clone, Debug, PartialEq)]
pub struct RankPeaks {
    /// Whose peak it is, for [`ChakraReplay::assumptions`](super::ChakraReplay::assumptions).
    pub dtype: String,
    /// Operations a second.
    pub ops: f64,
    /// Bytes of memory a second.
    pub bytes: f64,
}

/// How long computation takes.
#[derive(Clone, Debug, PartialEq)]
pub enum ComputeTime {
    /// What was measured: `duration_ps`, else whole microseconds.
    Duration,
    /// The larger of `num_ops` and `tensor_size` by a rank's peaks.
    Roofline(RankPeaks),
}

/// How long memory nodes take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryTime {
    /// What their bytes take.
    Bytes,
    /// What was measured.
    Duration,
}

/// How traces are replayed.
#[derive(Clone, Debug, PartialEq)]
pub struct ChakraOptions {
    /// Ranks that a chip has.
    pub ranks_per_chip: u32,
    /// How long computation takes.
    pub compute: ComputeTime,
    /// How long memory nodes take.
    pub memory: MemoryTime,
    /// An attribute whose values are separate streams of computation of a rank.
    pub streams: Option<String>,
    /// Ranks of process groups. A group that is not in it has the ranks whose traces name it.
    pub groups: BTreeMap<String, Vec<u32>>,
    /// The system's rank that each rank runs on; by default the same number.
    pub placement: Option<Vec<i64>>,
    /// Algorithms of collectives.
    pub algorithms: Algorithms,
}

impl ChakraOptions {
    /// What is usual, with so many ranks on a chip.
    pub fn new(ranks_per_chip: u32) -> Self {
        Self {
            ranks_per_chip,
            compute: ComputeTime::Duration,
            memory: MemoryTime::Bytes,
            streams: None,
            groups: BTreeMap::new(),
            placement: None,
            algorithms: Algorithms { default: "auto".to_owned(), of: BTreeMap::new() },
        }
    }
}
