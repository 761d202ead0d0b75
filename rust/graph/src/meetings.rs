//! How one rank that runs by instructions meets others: what it takes from meetings comes from a run of all ranks by
//! operation, and how long these take from the system that the ranks stand on.
//!
//! - **(choice)** All ranks run one program and come to each meeting at the same time: nobody waits for anybody.
//! - **(choice)** A collective is one transfer on the core's queues of collectives, as in kernels.

use trn3_machine::isa::collective::Collective;
use trn3_machine::isa::rank_call::RankOperation;
use trn3_machine::time::Picos;
use trn3_machine::view::View;
use trn3_system::collective::PlacedRanks;

use crate::emitter::Emitter;
use crate::error::{GraphError, Result};
use crate::graph::TensorOperation;
use crate::operations::{CollectiveKind, GroupCollective, zeros};
use crate::tensor::Tensor;
use crate::tensor_type::TensorType;

/// How a run by instructions meets other ranks.
pub(crate) struct Meetings<'m> {
    /// The rank that runs.
    pub(crate) rank: u32,
    /// Where the ranks stand; None where there are no others.
    pub(crate) placed: Option<&'m PlacedRanks>,
    /// What it takes, in order; None in a run without values.
    pub(crate) taken: Option<std::vec::IntoIter<Tensor>>,
}

impl Meetings<'_> {
    /// Those of a rank that is alone.
    pub(crate) fn none() -> Self {
        Self { rank: 0, placed: None, taken: None }
    }

    /// Issues a collective: what the rank takes away, in HBM.
    ///
    /// # Errors
    /// [`GraphError::Argument`] where the system cannot do it; what the machine refuses.
    pub(crate) fn emit(
        &mut self,
        emitter: &mut Emitter,
        collective: &GroupCollective,
        brought: &View,
        (kind, result): (&TensorType, &TensorType),
    ) -> Result<View> {
        let taken = self.taken.as_mut().and_then(Iterator::next);
        let Some(group) = collective.group(self.rank) else {
            return emitter.given("nothing", result, Some(&zeros(result)?));
        };
        let Some(placed) = self.placed.filter(|_| group.len() > 1) else { return Ok(brought.clone()) };
        let taken_in = emitter.hbm(collective.name(), result)?;
        if brought.is_empty() || taken_in.is_empty() {
            return Ok(taken_in);
        }
        let dense = if brought.is_contiguous() { brought.clone() } else { emitter.relaid(brought)? };
        let bytes = if matches!(collective.kind, CollectiveKind::AllGather { .. }) { result } else { kind }.bytes();
        let pairs = collective.pairs();
        let refuse = |error: trn3_system::Error| GraphError::Argument(error.to_string());
        let seconds =
            placed.seconds(collective.operation(), bytes as f64, &collective.groups, &pairs).map_err(refuse)?;
        let rank = u64::from(self.rank);
        let (sends, receives) = match collective.kind {
            CollectiveKind::Permute { .. } => {
                (pairs.iter().any(|pair| pair.0 == rank), pairs.iter().any(|pair| pair.1 == rank))
            }
            CollectiveKind::Broadcast => (group.first() == Some(&rank), group.first() != Some(&rank)),
            _ => (true, true),
        };
        let instruction = Collective {
            name: instruction_name(&collective.kind),
            srcs: vec![dense],
            dsts: vec![taken_in.clone()],
            duration: Picos::from_nanoseconds(seconds * 1e9),
            priority: None,
            sent: if sends { kind.bytes() as u64 } else { 0 },
            received: if receives { result.bytes() as u64 } else { 0 },
        };
        emitter.meet(&instruction, group, taken.as_ref())?;
        Ok(taken_in)
    }
}

/// The machine's instruction; it has none for a broadcast, whose transfer is that of an all_gather by its name.
fn instruction_name(kind: &CollectiveKind) -> &'static str {
    match kind {
        CollectiveKind::AllReduce { .. } => RankOperation::AllReduce,
        CollectiveKind::ReduceScatter { .. } => RankOperation::ReduceScatter,
        CollectiveKind::AllToAll { .. } => RankOperation::AllToAll,
        CollectiveKind::Permute { .. } => RankOperation::CollectivePermute,
        CollectiveKind::AllGather { .. } | CollectiveKind::Broadcast => RankOperation::AllGather,
    }
    .name()
}
