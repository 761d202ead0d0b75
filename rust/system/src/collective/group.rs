//! Groups of ranks, and on which chips they sit.

use std::collections::BTreeMap;

use crate::fabric::Fabric;

use crate::error::{Error, Result};

/// Ranks that work together. A rank's *position* is its place in the list: chunk `p` of a buffer belongs to position `p`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RankGroup {
    ranks: Vec<u32>,
    ranks_per_chip: u32,
}

/// The positions of a group that sit on one chip, in ascending order of their ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChipMembers {
    /// Index of the chip.
    pub chip: u32,
    /// Positions in the group.
    pub positions: Vec<u32>,
}

impl RankGroup {
    /// A group of ranks of a system of `chips` chips, with so many ranks on each: rank `r` sits on chip
    /// `r / ranks_per_chip`.
    ///
    /// # Errors
    /// [`Error::Value`] if the group is empty, names a rank twice or one that is not there.
    pub fn new(ranks: Vec<u32>, ranks_per_chip: u32, chips: usize) -> Result<Self> {
        if ranks_per_chip == 0 {
            return Err(Error::Value("ranks_per_chip is 0; allowed: 1 or more, as cores / lnc gives".to_owned()));
        }
        let total = chips as u64 * u64::from(ranks_per_chip);
        if ranks.is_empty() {
            return Err(Error::Value(format!("group is empty; needed: one rank or more of 0 to {}", total - 1)));
        }
        if let Some(outside) = ranks.iter().find(|&&rank| u64::from(rank) >= total) {
            return Err(Error::Value(format!(
                "group has rank {outside}; allowed: 0 to {} ({chips} chips of {ranks_per_chip} ranks)",
                total - 1
            )));
        }
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::Value(format!("group has rank {} twice; each rank may stand once", twice[0])));
        }
        Ok(Self { ranks, ranks_per_chip })
    }

    /// Groups that work at the same time.
    ///
    /// # Errors
    /// As [`RankGroup::new`], and [`Error::Value`] if their lengths differ or one rank stands in two of them.
    pub fn several(lists: Vec<Vec<u32>>, ranks_per_chip: u32, chips: usize) -> Result<Vec<Self>> {
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        if lists.is_empty() {
            return Err(Error::Value("group has no lists; needed: one or more lists of ranks".to_owned()));
        }
        for (index, list) in lists.iter().enumerate() {
            if list.len() != lists[0].len() {
                return Err(Error::Value(format!(
                    "group {index} has {} ranks and group 0 has {}; all must have the same number",
                    list.len(),
                    lists[0].len()
                )));
            }
            for &rank in list {
                match seen.insert(rank, index) {
                    Some(other) if other != index => {
                        return Err(Error::Value(format!(
                            "rank {rank} stands in group {other} and in group {index}; groups must not overlap"
                        )));
                    }
                    _ => {}
                }
            }
        }
        lists.into_iter().map(|list| Self::new(list, ranks_per_chip, chips)).collect()
    }

    /// Global ranks, by position.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// Ranks that a chip of the system has, in the group or not.
    pub fn ranks_per_chip(&self) -> u32 {
        self.ranks_per_chip
    }

    /// The chip of a position.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn chip(&self, position: u32) -> u32 {
        self.ranks[position as usize] / self.ranks_per_chip
    }

    /// The chips that the group touches, ascending, with its positions on each.
    pub fn chips(&self) -> Vec<ChipMembers> {
        let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for position in 0..self.ranks.len() as u32 {
            found.entry(self.chip(position)).or_default().push(position);
        }
        found
            .into_iter()
            .map(|(chip, mut positions)| {
                positions.sort_by_key(|&position| self.ranks[position as usize]);
                ChipMembers { chip, positions }
            })
            .collect()
    }

    /// Whether every rank of each system that it touches is in it; of one system, every rank.
    pub fn covers_systems(&self, fabric: &Fabric) -> bool {
        let chips = fabric.network().map_or(fabric.chips(), |network| network.chips as usize);
        let of_system = chips * self.ranks_per_chip as usize;
        self.systems(fabric).into_values().all(|members| members == of_system)
    }

    /// Its ranks on each system of a cluster, by the system's number; of one system, all on number 0.
    pub fn systems(&self, fabric: &Fabric) -> BTreeMap<u32, usize> {
        let mut found = BTreeMap::new();
        for rank in &self.ranks {
            let chip = (rank / self.ranks_per_chip) as usize;
            let system = fabric.network().map_or(0, |_| fabric.nodes()[chip].coordinates[0]);
            *found.entry(system).or_insert(0) += 1;
        }
        found
    }

    /// Members of the group on each chip, if that is one number.
    pub fn members_per_chip(&self) -> Option<usize> {
        let chips = self.chips();
        let count = chips.first()?.positions.len();
        chips.iter().all(|members| members.positions.len() == count).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(lists: Vec<Vec<u32>>) -> String {
        RankGroup::several(lists, 4, 16).expect_err("refused").to_string()
    }

    #[test]
    fn test_wrong_groups_are_refused_by_name() {
        assert!(refusal(vec![vec![0, 64]]).contains("rank 64; allowed: 0 to 63"));
        assert!(refusal(vec![vec![0, 1], vec![1, 2]]).contains("rank 1 stands in group 0 and in group 1"));
        assert!(refusal(vec![vec![0, 1], vec![2]]).contains("group 1 has 1 ranks"));
        assert!(refusal(vec![vec![3, 3]]).contains("rank 3 twice"));
        assert!(refusal(vec![vec![]]).contains("empty"));
        assert!(refusal(vec![]).contains("no lists"));
    }

    #[test]
    fn test_ranks_sit_on_chips_in_order() {
        let group = RankGroup::new(vec![5, 4, 9, 8], 4, 16).expect("fits");
        let chips = group.chips();
        assert_eq!((chips[0].chip, &chips[0].positions[..]), (1, &[1, 0][..]));
        assert_eq!((chips[1].chip, &chips[1].positions[..]), (2, &[3, 2][..]));
        assert_eq!(group.members_per_chip(), Some(2));
    }
}
