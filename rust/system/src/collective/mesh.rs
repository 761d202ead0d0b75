//! Mesh: everything crosses the wires in one step.
//!
//! Two stages: each chip's chunks go to every other chip once, each of its ranks serving a share of the chips; then what
//! came is passed on within the chips. Mirrored, the chips reduce first. The single-step form of all_reduce sends every
//! rank's whole buffer to every other rank: many times the bytes, one step.
//!
//! Order of additions: ascending positions, first within each chip and then over the partial sums, these in ascending
//! order of the ranks that hold them. In the single-step form: ascending positions throughout.

use super::cycles::by_chip;
use super::group::RankGroup;
use super::pattern::StepPattern;
use super::schedule::{Lane, Stage};

/// The stages that gather, in order; mirrored and in reverse they reduce.
pub(super) fn stages(group: &RankGroup) -> Vec<Stage> {
    let per_chip = group.members_per_chip().unwrap_or(1) as u32;
    let members = by_chip(group);
    let lane = Lane { pieces: members.clone(), members, width: 1, channel: 0 };
    [("across chips", StepPattern::MeshAcross { per_chip }), ("within chips", StepPattern::MeshWithin { per_chip })]
        .into_iter()
        .map(|(name, pattern)| Stage { name, pattern, is_mirrored: false, lanes: vec![lane.clone()] })
        .collect()
}

/// The one stage of the single-step all_reduce.
pub(super) fn single_step(group: &RankGroup) -> Vec<Stage> {
    let count = group.size() as u32;
    let lane = Lane { members: by_chip(group), pieces: (0..count).collect(), width: 1, channel: 0 };
    vec![Stage {
        name: "everyone to everyone",
        pattern: StepPattern::ReduceExchange { units: count },
        is_mirrored: false,
        lanes: vec![lane],
    }]
}
