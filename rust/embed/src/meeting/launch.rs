//! Rules between a call and the launch that it is part of: ranks, lists, pairs, channels, classes of service.

use trn3_machine::error::{Error, Result};

use super::ask::{RankGiven, RankPlace};
use super::operands::Refuser;
use super::{MeetingError, RankFabric, RankRoom};

/// Classes of service.
const PRIORITIES: std::ops::Range<i64> = 0..4;
/// Channels of a ring that has all ranks of the launch, and of any other.
const CHANNELS: [u64; 2] = [4, 2];

/// All lists, and the one that a rank is in.
pub(super) type Lists = (Vec<Vec<u64>>, Vec<u64>);

/// Judges the calls of one rank.
pub(super) struct Judge<'a> {
    pub(super) refuser: Refuser,
    pub(super) room: &'a RankRoom,
    pub(super) rank: u64,
}

impl Judge<'_> {
    pub(super) fn priority(&self, given: Option<&RankGiven<i64>>, generation: u64) -> Result<Option<u8>> {
        let got = match given {
            None => return Ok(None),
            Some(RankGiven::Known(priority)) if PRIORITIES.contains(priority) => *priority,
            Some(RankGiven::Known(priority)) => {
                return self.refuser.rule("priority", format!("is {priority}"), "None or 0 to 3");
            }
            Some(RankGiven::Strange(got)) => {
                return self.refuser.rule("priority", format!("is {got}"), "None or 0 to 3");
            }
        };
        if generation < 4 {
            return self.refuser.rule("priority", format!("is {got}"), "None before gen4");
        }
        Ok(u8::try_from(got).ok())
    }

    /// Refuses what the hardware does not do.
    pub(super) fn only_hardware(
        &self,
        lists: &[Vec<u64>],
        ranks: usize,
        to_all: bool,
        fabric: Option<&RankFabric>,
    ) -> Result<()> {
        if self.room.cores() == 1 {
            return self.refuser.rule("", "runs on one core", "kernel[2], under TRN3_NKI_STRICT=1");
        }
        if to_all {
            let got = format!("has lists of {ranks} ranks");
            return if ranks == 4 {
                Ok(())
            } else {
                self.refuser.rule("replica_group", got, "4 ranks, under TRN3_NKI_STRICT=1")
            };
        }
        let Some(fabric) = fabric else { return Ok(()) };
        for list in lists {
            let missing = fabric.left_out(list);
            if !missing.is_empty() {
                let each = fabric.ranks_per_chip();
                let got = format!("has a list {list:?} without ranks {missing:?} of its devices");
                let allowed = format!("whole devices, {each} ranks each, under TRN3_NKI_STRICT=1");
                return self.refuser.rule("replica_group", got, allowed);
            }
        }
        Ok(())
    }

    /// All lists, and the one that this rank is in.
    pub(super) fn lists(&self, given: RankGiven<Vec<Vec<u64>>>) -> Result<Lists> {
        let (ranks, operation) = (u64::from(self.room.ranks()), self.refuser.operation);
        let lists = match given {
            RankGiven::Known(lists) => lists,
            RankGiven::Strange(kind) => {
                let text = format!("{operation} replica_group is of type {kind}; allowed: a ReplicaGroup");
                return Err(Error::Type(text));
            }
        };
        let most = lists.iter().flatten().copied().max().unwrap_or(0);
        if most >= ranks {
            let hint = if ranks > 1 { "" } else { "; trn3.nki.simulate_ranks runs a kernel on several" };
            let allowed = format!("the launch's {ranks} ranks, from 0{hint}");
            return self.refuser.value("replica_group", &format!("has rank {most}"), &allowed);
        }
        let mut sorted: Vec<u64> = lists.iter().flatten().copied().collect();
        sorted.sort_unstable();
        let is_even = lists.iter().all(|list| list.len() == lists[0].len());
        if !is_even || sorted.windows(2).any(|two| two[0] == two[1]) {
            let got = format!("is {lists:?}");
            return self.refuser.value("replica_group", &got, "lists of one length, no rank twice");
        }
        match lists.iter().find(|list| list.contains(&self.rank)).cloned() {
            Some(own) => Ok((lists, own)),
            None => {
                let got = format!("has no list with rank {}", self.rank);
                self.refuser.value("replica_group", &got, "one that has it")
            }
        }
    }

    /// Who sends to whom.
    pub(super) fn pairs(&self, given: Vec<RankGiven<[RankGiven<u64>; 2]>>) -> Result<Vec<(u64, u64)>> {
        let argument = "source_target_pairs";
        let ranks = u64::from(self.room.ranks());
        let known = |rank: RankGiven<u64>| {
            let got = match rank {
                RankGiven::Known(rank) if rank < ranks => return Ok(rank),
                RankGiven::Known(rank) => rank.to_string(),
                RankGiven::Strange(got) => got,
            };
            let allowed = format!("the launch's {ranks} ranks, from 0");
            self.refuser.value(argument, &format!("has rank {got}"), &allowed)
        };
        let mut pairs = Vec::with_capacity(given.len());
        for pair in given {
            match pair {
                RankGiven::Known([source, target]) => pairs.push((known(source)?, known(target)?)),
                RankGiven::Strange(got) => {
                    return self.refuser.value(argument, &format!("has {got}"), "(source, target)");
                }
            }
        }
        for side in [|pair: &(u64, u64)| pair.0, |pair: &(u64, u64)| pair.1] {
            let mut ranks: Vec<u64> = pairs.iter().map(side).collect();
            ranks.sort_unstable();
            if ranks.windows(2).any(|two| two[0] == two[1]) {
                return self.refuser.value(argument, &format!("is {pairs:?}"), "each rank once on each side");
            }
        }
        Ok(pairs)
    }

    /// The channels, of which each argument has a list.
    pub(super) fn channels(
        &self,
        given: RankGiven<Vec<u64>>,
        words: &str,
        by_channel: &[Option<usize>],
        ranks: usize,
    ) -> Result<Vec<u64>> {
        let most = if ranks == self.room.ranks() as usize { CHANNELS[0] } else { CHANNELS[1] };
        let fine = |channels: &Vec<u64>| {
            let mut sorted = channels.clone();
            sorted.sort_unstable();
            let is_new = sorted.windows(2).all(|two| two[0] != two[1]);
            is_new && sorted.last().is_some_and(|&last| last < most)
        };
        let channels = match given {
            RankGiven::Known(channels) if fine(&channels) => channels,
            _ => {
                let allowed = format!("different numbers from 0 to {}", most - 1);
                return self.refuser.rule("channel_ids", format!("is {words}"), allowed);
            }
        };
        if let Some(wrong) = by_channel.iter().find(|count| **count != Some(channels.len())) {
            let count = wrong.map_or("no".to_owned(), |count| count.to_string());
            let allowed = format!("{}, one a channel", channels.len());
            return self.refuser.rule("srcs or dsts by channel", format!("has {count} lists"), allowed);
        }
        Ok(channels)
    }
}

impl RankRoom {
    /// The rank whose data is in hand at a step of the ring of each list: at step k index i has what index i - k began with.
    ///
    /// # Errors
    /// As [`RankAsk::judge`](super::RankAsk::judge), for what is no number, and for a rank in no list.
    pub fn rank_in_hand(
        &self,
        place: &RankPlace,
        step: &RankGiven<u64>,
        channel: &RankGiven<u64>,
        groups: RankGiven<Vec<Vec<u64>>>,
    ) -> std::result::Result<u64, MeetingError> {
        let refuser = Refuser { operation: "collective_permute_implicit_current_processing_rank_id" };
        let number = |argument, given: &RankGiven<u64>| match given {
            RankGiven::Known(number) => Ok(*number),
            RankGiven::Strange(got) => refuser.rule(argument, format!("is {got}"), "a number from 0"),
        };
        let found = || {
            let step = number("iteration_id", step)?;
            number("channel_id", channel)?;
            let (_, own) = Judge { refuser, room: self, rank: place.rank.into() }.lists(groups)?;
            let (index, ranks) = (own.iter().position(|&rank| rank == u64::from(place.rank)), own.len() as u64);
            let index = index.unwrap_or_default() as u64;
            Ok(own[((index + ranks - step % ranks) % ranks) as usize])
        };
        found().map_err(|error| MeetingError::at(&place.line, error))
    }
}
