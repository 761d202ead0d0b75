//! What a caller says of a collective, before it is judged.

use trn3_machine::isa::rank_call::{RankCall, RankOperation};
use trn3_machine::view::View;

/// An argument: what it should be, or words for what came in its place.
#[derive(Clone, Debug, PartialEq)]
pub enum RankGiven<T> {
    /// Of the right kind.
    Known(T),
    /// Of another kind, as refusals say it.
    Strange(String),
}

/// Where a call comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// The rank.
    pub rank: u32,
    /// The core of the rank.
    pub core: u32,
    /// Where its kernel stands, as `file:line`; for errors.
    pub line: String,
    /// Generation of its machine.
    pub generation: u64,
}

/// A collective as its caller spells it. Fields are as in [`RankCall`].
#[derive(Clone, Debug)]
pub struct RankAsk {
    /// Which one.
    pub operation: RankOperation,
    /// What goes out.
    pub srcs: RankGiven<Vec<View>>,
    /// Second operands, of `collective_permute_implicit_reduce`.
    pub others: RankGiven<Vec<View>>,
    /// Where what comes in goes.
    pub dsts: RankGiven<Vec<View>>,
    /// Lists of ranks that work together; strange: the type of what came.
    pub groups: RankGiven<Vec<Vec<u64>>>,
    /// Who sends to whom; strange ones as they were written.
    pub pairs: Vec<RankGiven<[RankGiven<u64>; 2]>>,
    /// The reduction's name.
    pub reduction: String,
    /// The dimension that is joined or split.
    pub dim: RankGiven<i64>,
    /// Channels; strange unless all are whole numbers from 0.
    pub channels: RankGiven<Vec<u64>>,
    /// The channels as they were written.
    pub channel_words: String,
    /// How many lists, one a channel, sources and results have; None: they are no lists.
    pub channel_lists: Vec<Option<usize>>,
    /// Counts and displacements; strange: the type of what came.
    pub metadata: RankGiven<View>,
    /// Whether the metadata says what will come.
    pub recv_counts_known: bool,
    /// Whether the metadata says where that goes.
    pub has_rdispls: bool,
    /// Class of service.
    pub priority: Option<RankGiven<i64>>,
    /// Whether what the hardware has no way to do is refused too.
    pub only_hardware: bool,
}

impl RankAsk {
    /// A call with nothing but its operation.
    pub fn new(operation: RankOperation) -> Self {
        RankCall::new(operation).into()
    }
}

impl From<RankCall> for RankAsk {
    fn from(call: RankCall) -> Self {
        let count = Some(call.channels.len());
        let pairs =
            call.pairs.iter().map(|&(from, to)| RankGiven::Known([RankGiven::Known(from), RankGiven::Known(to)]));
        Self {
            operation: call.operation,
            srcs: RankGiven::Known(call.srcs),
            others: RankGiven::Known(call.others),
            dsts: RankGiven::Known(call.dsts),
            groups: RankGiven::Known(call.groups),
            pairs: pairs.collect(),
            reduction: call.reduction,
            dim: RankGiven::Known(i64::try_from(call.dim).unwrap_or(i64::MAX)),
            channel_words: format!("{:?}", call.channels),
            channels: RankGiven::Known(call.channels),
            channel_lists: vec![count, count],
            metadata: call.metadata.map_or(RankGiven::Strange("NoneType".to_owned()), RankGiven::Known),
            recv_counts_known: call.recv_counts_known,
            has_rdispls: call.has_rdispls,
            priority: call.priority.map(|priority| RankGiven::Known(priority.into())),
            only_hardware: false,
        }
    }
}
