//! Direct: straight from source to target, over the fabric's own ways. No arithmetic.

use std::collections::BTreeMap;

use super::cycles::by_chip;
use super::group::RankGroup;
use super::pattern::StepPattern;
use super::schedule::{Lane, Stage};
use crate::error::{Error, Result};

/// All-to-all: all at once, or one partner a step.
pub(super) fn all_to_all(group: &RankGroup, is_pairwise: bool) -> Vec<Stage> {
    let count = group.size() as u32;
    let members = by_chip(group);
    let pieces = members.iter().flat_map(|&a| members.iter().map(move |&b| a * count + b)).collect();
    let pattern = if is_pairwise { StepPattern::Rotation } else { StepPattern::AllPairs };
    let lane = Lane { members, pieces, width: 1, channel: 0 };
    vec![Stage { name: "pairs of ranks", pattern, is_mirrored: false, lanes: vec![lane] }]
}

/// Everyone's buffer to everyone, at once.
pub(super) fn gather(group: &RankGroup) -> Vec<Stage> {
    let members = by_chip(group);
    let lane = Lane { pieces: members.clone(), members, width: 1, channel: 0 };
    vec![Stage { name: "everyone to everyone", pattern: StepPattern::Exchange, is_mirrored: false, lanes: vec![lane] }]
}

/// Pairs of positions; buffer `s` goes to `t`.
///
/// # Errors
/// [`Error::Value`] if a position is outside the group, sends twice or receives twice; with `must_be_ring` also if the
/// pairs are not one ring through all ranks.
pub(super) fn permute(group: &RankGroup, pairs: &[(u32, u32)], must_be_ring: bool) -> Result<Vec<Stage>> {
    let count = group.size() as u32;
    let (mut to, mut from) = (BTreeMap::new(), BTreeMap::new());
    let rank = |position: u32| group.ranks()[position as usize];
    for &(source, target) in pairs {
        for position in [source, target] {
            if position >= count {
                return Err(Error::Value(format!(
                    "pairs has ({source}, {target}); allowed: positions 0 to {} of the group",
                    count - 1
                )));
            }
        }
        if let Some(other) = to.insert(source, target) {
            return Err(Error::Value(format!(
                "pairs is no permutation: rank {} sends to rank {} and to rank {}; each may send once",
                rank(source),
                rank(other),
                rank(target)
            )));
        }
        if let Some(other) = from.insert(target, source) {
            return Err(Error::Value(format!(
                "pairs is no permutation: rank {} receives from rank {} and from rank {}; each may receive once",
                rank(target),
                rank(other),
                rank(source)
            )));
        }
    }
    if must_be_ring {
        let mut seen = 0;
        let mut at = 0;
        while let Some(&next) = to.get(&at) {
            seen += 1;
            at = next;
            if at == 0 || seen > count {
                break;
            }
        }
        if at != 0 || seen != count {
            return Err(Error::Value(format!(
                "pairs form no ring through the {count} ranks of the group: from rank {} it goes {seen} steps and ends at rank {}; algorithm \"direct\" takes any permutation",
                rank(0),
                rank(at)
            )));
        }
    }
    let moves = pairs.iter().filter(|(source, target)| source != target).map(|&(s, t)| (s, t, s)).collect();
    let lane = Lane { members: (0..count).collect(), pieces: (0..count).collect(), width: 1, channel: 0 };
    Ok(vec![Stage { name: "pairs", pattern: StepPattern::Given(moves), is_mirrored: false, lanes: vec![lane] }])
}
