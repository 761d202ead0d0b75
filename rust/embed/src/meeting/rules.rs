//! The rules of each collective, in the order in which they are looked at.

use trn3_machine::error::Result;
use trn3_machine::isa::rank_call::{RankCall, RankOperation};
use trn3_machine::view::{View, tuple_text};

use super::ask::{RankAsk, RankGiven, RankPlace};
use super::launch::{Judge, Lists};
use super::operands::{
    Allowed, Refuser, counts_row, dimension, divides, is_sbuf, joined, operands, reduction, same_elements, size_of,
    words,
};
use super::{MeetingError, RankArrival, RankFabric, RankRoom};

impl RankAsk {
    /// The arrival of a rank that calls this, in a room.
    ///
    /// # Errors
    /// [`MeetingError::Kernel`] with the line, and of [`trn3_machine::Error`] the kinds `Validation` for operands that break a
    /// rule of the hardware, `Value` for ranks that the launch does not have, `Type` for what is no list of ranks.
    pub fn judge(
        self,
        place: RankPlace,
        room: &RankRoom,
        fabric: Option<&RankFabric>,
    ) -> std::result::Result<RankArrival, MeetingError> {
        let line = place.line.clone();
        let judge = Judge { refuser: Refuser { operation: self.operation.name() }, room, rank: place.rank.into() };
        judge.judged(self, place, fabric).map_err(|error| MeetingError::at(&line, error))
    }
}

impl Judge<'_> {
    fn judged(&self, ask: RankAsk, place: RankPlace, fabric: Option<&RankFabric>) -> Result<RankArrival> {
        let priority = self.priority(ask.priority.as_ref(), place.generation)?;
        let operation = ask.operation;
        let mut found = match operation {
            RankOperation::CollectivePermute => self.permute(ask, place)?,
            _ if operation.has_channels() => self.ring(ask, place)?,
            _ if operation.has_metadata() => self.variable(ask, place, fabric)?,
            _ => self.plain(ask, place)?,
        };
        if let Some(priority) = priority {
            found.agreed.push_str(&format!(" at priority {priority}"));
        }
        found.call.priority = priority;
        Ok(found)
    }

    /// all_reduce, all_gather, reduce_scatter and all_to_all.
    fn plain(&self, ask: RankAsk, place: RankPlace) -> Result<RankArrival> {
        let (refuser, operation) = (self.refuser, ask.operation);
        let allowed = Allowed {
            on_chip: operation != RankOperation::AllToAll,
            one_type: !operation.reduces(),
            in_place: operation == RankOperation::AllReduce,
            ..Allowed::default()
        };
        let (srcs, dsts) = operands(refuser, ask.srcs, ask.dsts, allowed)?;
        let mut call = RankCall::new(operation);
        if operation.reduces() {
            reduction(refuser, &ask.reduction, &srcs, &dsts)?;
            call.reduction = ask.reduction;
        }
        let pairs = || srcs.iter().zip(&dsts);
        let mut agreed = words(&srcs);
        let mut bytes = size_of(&srcs) as f64;
        let lists = match operation {
            RankOperation::AllGather => {
                let lists = self.lists(ask.groups)?;
                let (ranks, dims) = (lists.1.len(), if is_sbuf(&srcs[0]) { &[0, 1][..] } else { &[0] });
                call.dim = dimension(refuser, ask.dim, dims)?;
                for (src, dst) in pairs() {
                    same_elements(refuser, src, dst, ranks, 1)?;
                    if is_sbuf(src) {
                        joined(refuser, src, dst, call.dim, ranks)?;
                    }
                }
                bytes *= ranks as f64;
                agreed.push_str(&format!(" along {}", call.dim));
                lists
            }
            RankOperation::AllReduce => {
                for (src, dst) in pairs() {
                    same_elements(refuser, src, dst, 1, 1)?;
                }
                self.lists(ask.groups)?
            }
            _ => {
                dimension(refuser, ask.dim, &[0])?;
                let lists = self.lists(ask.groups)?;
                let ranks = lists.1.len();
                for (src, dst) in pairs() {
                    divides(refuser, src, ranks)?;
                    same_elements(refuser, src, dst, 1, if operation.reduces() { ranks } else { 1 })?;
                }
                lists
            }
        };
        if operation.reduces() {
            agreed.push_str(&format!(" by {}", call.reduction));
        }
        agreed.push_str(&format!(" to {}", words(&dsts)));
        (call.srcs, call.dsts) = (srcs, dsts);
        Ok(self.arrival(call, place, lists, agreed, bytes, Vec::new()))
    }

    fn permute(&self, ask: RankAsk, place: RankPlace) -> Result<RankArrival> {
        let allowed = Allowed { on_chip: false, several: false, ..Allowed::default() };
        let (srcs, dsts) = operands(self.refuser, ask.srcs, ask.dsts, allowed)?;
        same_elements(self.refuser, &srcs[0], &dsts[0], 1, 1)?;
        let pairs = self.pairs(ask.pairs)?;
        let everyone: Vec<u64> = (0..self.room.ranks().into()).collect();
        let (agreed, bytes) = (format!("{} to {}", words(&srcs), words(&dsts)), size_of(&srcs) as f64);
        let call = RankCall { srcs, dsts, pairs: pairs.clone(), ..RankCall::new(ask.operation) };
        Ok(self.arrival(call, place, (vec![everyone.clone()], everyone), agreed, bytes, pairs))
    }

    /// Around the ring of each list.
    fn ring(&self, ask: RankAsk, place: RankPlace) -> Result<RankArrival> {
        let (refuser, operation) = (self.refuser, ask.operation);
        let lists = self.lists(ask.groups)?;
        let channels = self.channels(ask.channels, &ask.channel_words, &ask.channel_lists, lists.1.len())?;
        let allowed = Allowed { one_type: !operation.reduces(), per_channel: channels.len(), ..Allowed::default() };
        let (srcs, dsts) = operands(refuser, ask.srcs, ask.dsts, allowed)?;
        let mut call = RankCall::new(operation);
        if operation.reduces() {
            (call.others, _) = operands(refuser, ask.others, RankGiven::Known(dsts.clone()), allowed)?;
            reduction(refuser, &ask.reduction, &srcs, &dsts)?;
            call.reduction = ask.reduction;
        }
        for (number, (src, dst)) in srcs.iter().zip(&dsts).enumerate() {
            same_elements(refuser, src, dst, 1, 1)?;
            if let Some(other) = call.others.get(number) {
                same_elements(refuser, other, dst, 1, 1)?;
                if other.dtype != src.dtype {
                    let got = format!("has dtype {}", other.dtype);
                    return refuser.rule("srcs1", got, format!("{}, as srcs0", src.dtype));
                }
            }
        }
        let pairs = ring_pairs(&lists.0);
        let mut agreed = format!("{} in channels {}", words(&srcs), tuple_text(&channels));
        if operation.reduces() {
            agreed.push_str(&format!(" by {}", call.reduction));
        }
        agreed.push_str(&format!(" to {}", words(&dsts)));
        let bytes = size_of(&dsts) as f64;
        (call.srcs, call.dsts, call.channels) = (srcs, dsts, channels);
        Ok(self.arrival(call, place, lists, agreed, bytes, pairs))
    }

    /// Chunks of any lengths.
    fn variable(&self, ask: RankAsk, place: RankPlace, fabric: Option<&RankFabric>) -> Result<RankArrival> {
        let (refuser, operation) = (self.refuser, ask.operation);
        let to_all = operation == RankOperation::AllGatherV;
        if to_all && ask.has_rdispls {
            return refuser.rule("has_rdispls", "is True", "False: all_gather_v has no displacements");
        }
        let allowed = Allowed { on_chip: false, several: false, ..Allowed::default() };
        let (srcs, dsts) = operands(refuser, ask.srcs, ask.dsts, allowed)?;
        let lists = self.lists(ask.groups)?;
        let ranks = lists.1.len();
        if ask.only_hardware {
            self.only_hardware(&lists.0, ranks, to_all, fabric)?;
        }
        let (metadata, row) = counts_row(refuser, &ask.metadata, ranks, if ask.has_rdispls { 4 } else { 3 })?;
        if dsts[0].len() < ranks {
            return refuser.rule("dsts", format!("has {} elements", dsts[0].len()), format!("{ranks} or more"));
        }
        let truth = |is: bool| if is { "True" } else { "False" };
        let agreed = format!(
            "{} with recv_counts_known={} has_rdispls={}",
            srcs[0].dtype,
            truth(ask.recv_counts_known),
            truth(ask.has_rdispls)
        );
        let call = RankCall {
            srcs,
            dsts,
            metadata: Some(metadata),
            recv_counts_known: ask.recv_counts_known,
            has_rdispls: ask.has_rdispls,
            ..RankCall::new(operation)
        };
        let counts = if ask.recv_counts_known { None } else { Some(row) };
        Ok(RankArrival { counts, ..self.arrival(call, place, lists, agreed, 0.0, Vec::new()) })
    }

    fn arrival(
        &self,
        mut call: RankCall,
        place: RankPlace,
        (groups, group): Lists,
        agreed: String,
        bytes: f64,
        pairs: Vec<(u64, u64)>,
    ) -> RankArrival {
        if call.operation != RankOperation::CollectivePermute {
            call.groups.clone_from(&groups);
        }
        call.ranks = self.room.ranks().into();
        RankArrival { call, place, group, groups, agreed, bytes, pairs, counts: None::<View> }
    }
}

/// Who sends to whom around the ring of each list.
pub(super) fn ring_pairs(lists: &[Vec<u64>]) -> Vec<(u64, u64)> {
    let of_list = |list: &Vec<u64>| {
        let next = list.iter().cycle().skip(1);
        list.iter().copied().zip(next.copied()).collect::<Vec<_>>()
    };
    lists.iter().flat_map(of_list).collect()
}
