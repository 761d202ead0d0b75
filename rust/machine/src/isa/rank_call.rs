//! What a kernel says where its rank meets others: the call of a collective, before anybody moves or times anything.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::view::View;

/// A collective, as `nki.collectives` spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankOperation {
    /// Every rank gets the reduction of all ranks' tensors.
    AllReduce,
    /// Every rank gets all ranks' tensors, joined.
    AllGather,
    /// Index i gets chunk i of the reduction.
    ReduceScatter,
    /// Index i gets chunk i of every rank.
    AllToAll,
    /// Sources send to targets.
    CollectivePermute,
    /// Index i sends to index i + 1.
    CollectivePermuteImplicit,
    /// Index i sends what two of its tensors reduce to.
    CollectivePermuteImplicitReduce,
    /// Chunks of any lengths from each to each.
    AllToAllV,
    /// One chunk of any length of each, for all.
    AllGatherV,
}

use RankOperation::*;

impl RankOperation {
    /// Every collective.
    pub const ALL: [RankOperation; 9] = [
        AllReduce,
        AllGather,
        ReduceScatter,
        AllToAll,
        CollectivePermute,
        CollectivePermuteImplicit,
        CollectivePermuteImplicitReduce,
        AllToAllV,
        AllGatherV,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            AllReduce => "all_reduce",
            AllGather => "all_gather",
            ReduceScatter => "reduce_scatter",
            AllToAll => "all_to_all",
            CollectivePermute => "collective_permute",
            CollectivePermuteImplicit => "collective_permute_implicit",
            CollectivePermuteImplicitReduce => "collective_permute_implicit_reduce",
            AllToAllV => "all_to_all_v",
            AllGatherV => "all_gather_v",
        }
    }

    /// Whether it adds, or takes largest or smallest ones.
    pub const fn reduces(self) -> bool {
        matches!(self, AllReduce | ReduceScatter | CollectivePermuteImplicitReduce)
    }

    /// Whether it goes around the ring of each list, in channels.
    pub const fn has_channels(self) -> bool {
        matches!(self, CollectivePermuteImplicit | CollectivePermuteImplicitReduce)
    }

    /// Whether its chunks have any lengths, which a tensor holds.
    pub const fn has_metadata(self) -> bool {
        matches!(self, AllToAllV | AllGatherV)
    }

    /// Whether it has a dimension that is joined or split.
    pub const fn has_dimension(self) -> bool {
        matches!(self, AllGather | ReduceScatter | AllToAll)
    }
}

impl fmt::Display for RankOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for RankOperation {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        RankOperation::ALL.into_iter().find(|operation| operation.name() == name).ok_or_else(|| {
            let allowed = RankOperation::ALL.map(RankOperation::name).join(", ");
            Error::Value(format!("operation is {name:?}; allowed: {allowed}"))
        })
    }
}

/// One rank's call of a collective: its operands as they are, and everything else as names and numbers. What belongs
/// together and who may do what is for those to judge who let ranks meet.
#[derive(Clone, Debug)]
pub struct RankCall {
    /// Which one.
    pub operation: RankOperation,
    /// Ranks of the launch.
    pub ranks: u64,
    /// What goes out.
    pub srcs: Vec<View>,
    /// Second operands of the reduction, one for each of `srcs`, where the operation has them.
    pub others: Vec<View>,
    /// Where what comes in goes.
    pub dsts: Vec<View>,
    /// Lists of ranks that work together; empty: all ranks.
    pub groups: Vec<Vec<u64>>,
    /// Who sends to whom.
    pub pairs: Vec<(u64, u64)>,
    /// `add`, `maximum` or `minimum`, where something is reduced; else empty.
    pub reduction: String,
    /// The dimension that is joined or split.
    pub dim: u64,
    /// Channels, of each of which `srcs` has equally many.
    pub channels: Vec<u64>,
    /// Counts and displacements of chunks of any lengths.
    pub metadata: Option<View>,
    /// Whether the metadata says what will come.
    pub recv_counts_known: bool,
    /// Whether the metadata says where that goes.
    pub has_rdispls: bool,
    /// Class of service, 0 first; None: the last.
    pub priority: Option<u8>,
}

impl RankCall {
    /// A call with nothing but its operation.
    pub fn new(operation: RankOperation) -> Self {
        Self {
            operation,
            ranks: 0,
            srcs: Vec::new(),
            others: Vec::new(),
            dsts: Vec::new(),
            groups: Vec::new(),
            pairs: Vec::new(),
            reduction: String::new(),
            dim: 0,
            channels: Vec::new(),
            metadata: None,
            recv_counts_known: false,
            has_rdispls: false,
            priority: None,
        }
    }
}
