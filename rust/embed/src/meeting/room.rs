//! Where the ranks of one launch come together: who is there, whether they agree, who is missing.

use std::collections::BTreeMap;

use super::{MeetingError, RankArrival};
use trn3_machine::error::Error;

/// A rank and a core of it.
type Seat = (u32, u32);

/// The open meetings of a launch.
///
/// ```
/// use trn3_embed::meeting::RankRoom;
///
/// let room = RankRoom::new(2, 1);
/// assert_eq!(room.names(), ["rank 0", "rank 1"]);
/// assert_eq!(RankRoom::new(1, 2).names(), ["core 0", "core 1"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RankRoom {
    ranks: u32,
    cores: u32,
    open: BTreeMap<Vec<u64>, Vec<RankArrival>>,
    last: BTreeMap<Seat, String>,
}

impl RankRoom {
    /// A room for so many ranks, of so many cores each.
    pub fn new(ranks: u32, cores: u32) -> Self {
        Self { ranks, cores, ..Self::default() }
    }

    /// Ranks of the launch.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Cores of each.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// What cores are called in errors, rank by rank.
    pub fn names(&self) -> Vec<String> {
        let of_rank = |rank| (0..self.cores).map(move |core| (rank, core));
        (0..self.ranks).flat_map(of_rank).map(|seat| self.name(seat)).collect()
    }

    fn name(&self, (rank, core): Seat) -> String {
        let words =
            [(self.ranks > 1, format!("rank {rank}")), (self.cores > 1 || self.ranks == 1, format!("core {core}"))];
        words.into_iter().filter(|(is_said, _)| *is_said).map(|(_, word)| word).collect::<Vec<_>>().join(" ")
    }

    /// Takes an arrival. Once the last of its group is there: all of them, by index in the group and core; else nothing.
    ///
    /// # Errors
    /// [`MeetingError::Kernel`] with [`Error::Value`] if another rank of the group calls a different collective.
    pub fn arrive(&mut self, arrival: RankArrival) -> Result<Vec<RankArrival>, MeetingError> {
        let present = self.open.get(&arrival.group).map_or(&[][..], Vec::as_slice);
        // Those present agree with one another: the first stands for all of them, and the first of this core's number for
        // what cores of other numbers may do otherwise.
        let peer = present.iter().find(|other| other.place.core == arrival.place.core);
        for other in present.first().into_iter().chain(peer) {
            self.check_same(&arrival, other)?;
        }
        self.last.insert((arrival.place.rank, arrival.place.core), arrival.to_string());
        let group = arrival.group.clone();
        let present = self.open.entry(group.clone()).or_default();
        present.push(arrival);
        if present.len() < group.len() * self.cores as usize {
            return Ok(Vec::new());
        }
        let mut all = self.open.remove(&group).unwrap_or_default();
        let index = |rank: u32| group.iter().position(|&other| other == u64::from(rank));
        all.sort_by_key(|arrival| (index(arrival.place.rank), arrival.place.core));
        Ok(all)
    }

    /// Lets those go who wait in a group; returns who they were.
    pub fn abandon(&mut self, group: &[u64]) -> Vec<RankArrival> {
        self.open.remove(group).unwrap_or_default()
    }

    /// Where a core waits, and for whom.
    pub fn whereabouts(&self, arrival: &RankArrival) -> String {
        let own = self.name((arrival.place.rank, arrival.place.core));
        let present = self.open.get(&arrival.group).map_or(&[][..], Vec::as_slice);
        let here = |seat| present.iter().any(|each| (each.place.rank, each.place.core) == seat);
        let seats = arrival.group.iter().flat_map(|&rank| {
            let rank = u32::try_from(rank).unwrap_or(u32::MAX);
            (0..self.cores).map(move |core| (rank, core))
        });
        let missing = seats.filter(|&seat| !here(seat)).map(|seat| {
            let came = match self.last.get(&seat) {
                Some(last) => format!("last at {last}"),
                None => "which came to no collective".to_owned(),
            };
            format!("{}, {came}", self.name(seat))
        });
        format!("{own} waits at {arrival} for {}", missing.collect::<Vec<_>>().join(" and "))
    }

    fn check_same(&self, one: &RankArrival, other: &RankArrival) -> Result<(), MeetingError> {
        let mut same = one.call.operation == other.call.operation && one.groups == other.groups;
        if one.place.core == other.place.core {
            same = same && one.agreed == other.agreed && one.pairs == other.pairs;
        }
        if same {
            return Ok(());
        }
        let says = |each: &RankArrival| format!("{} calls {each}", self.name((each.place.rank, each.place.core)));
        let rule = "ranks of one group call the same collectives in the same order, with the same sizes and groups";
        let text = format!("{}, {}; {rule}", says(one), says(other));
        Err(MeetingError::at(&one.place.line, Error::Value(text)))
    }
}
