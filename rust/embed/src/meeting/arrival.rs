//! A rank at a collective: its call, judged.

use std::fmt;

use trn3_machine::isa::collective::Collective;
use trn3_machine::isa::rank_call::RankCall;
use trn3_machine::time::Picos;
use trn3_machine::view::View;

use super::ask::RankPlace;

/// One core of one rank at a collective whose rules it follows.
#[derive(Clone, Debug)]
pub struct RankArrival {
    /// What it calls.
    pub call: RankCall,
    /// Where it comes from.
    pub place: RankPlace,
    /// The list of ranks that it is in, by index.
    pub group: Vec<u64>,
    /// All lists that work at the same time.
    pub groups: Vec<Vec<u64>>,
    /// What must be equal on all ranks, in words.
    pub agreed: String,
    /// Size, as [`Estimator::cost`](trn3_system::collective::Estimator::cost) counts it.
    pub bytes: f64,
    /// Who sends to whom, in permutations.
    pub pairs: Vec<(u64, u64)>,
    /// What the instruction writes beside the results: the row of receive counts.
    pub counts: Option<View>,
}

impl fmt::Display for RankArrival {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, agreed, groups, place, .. } = self;
        write!(formatter, "{} of {agreed} among {groups:?}", call.operation)?;
        if place.line.is_empty() { Ok(()) } else { write!(formatter, " ({})", place.line) }
    }
}

impl RankArrival {
    /// What the rank reads, in the order of [`RankArrival::instruction`].
    pub fn srcs(&self) -> Vec<View> {
        let RankCall { srcs, others, metadata, .. } = &self.call;
        srcs.iter().chain(others).chain(metadata).cloned().collect()
    }

    /// What the rank writes.
    pub fn dsts(&self) -> Vec<View> {
        self.call.dsts.iter().chain(&self.counts).cloned().collect()
    }

    /// The instruction that the core issues, of no length yet.
    pub fn instruction(&self) -> Collective {
        Collective {
            name: self.call.operation.name(),
            srcs: self.srcs(),
            dsts: self.dsts(),
            duration: Picos::ZERO,
            priority: self.call.priority,
            sent: 0,
            received: 0,
        }
    }

    /// Whether two calls have the same tensors, not only equal ones.
    pub(super) fn has_operands_of(&self, other: &Self) -> bool {
        let same = |(one, other): (&View, &View)| {
            one.storage.id == other.storage.id
                && (one.offset, one.dtype) == (other.offset, other.dtype)
                && (&one.shape, &one.strides) == (&other.shape, &other.strides)
        };
        let (one, other) = ([self.srcs(), self.dsts()], [other.srcs(), other.dsts()]);
        one.iter().zip(&other).all(|(one, other)| one.len() == other.len() && one.iter().zip(other).all(same))
    }
}
