//! Which ranks a core met, collective by collective.

use super::NeuronCore;

/// Which ranks a core met, collective by collective, in the order of its program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankGroups {
    groups: Vec<Vec<u64>>,
    met: Vec<u32>,
}

impl RankGroups {
    fn note(&mut self, group: &[u64]) {
        let known = self.groups.iter().position(|known| known == group);
        let place = known.unwrap_or_else(|| {
            self.groups.push(group.to_vec());
            self.groups.len() - 1
        });
        self.met.push(place as u32);
    }

    /// The groups, each once.
    pub fn groups(&self) -> &[Vec<u64>] {
        &self.groups
    }

    /// Of each collective, the place of its group.
    pub fn met(&self) -> &[u32] {
        &self.met
    }
}

impl NeuronCore {
    /// Says with which ranks the core had its last collective.
    pub fn note_ranks(&mut self, group: &[u64]) {
        self.ranks.note(group);
    }

    /// Which ranks it met.
    pub fn rank_groups(&self) -> &RankGroups {
        &self.ranks
    }
}
