//! Broadcast: a binomial tree, or a chain that pieces follow each other along. No arithmetic.

use super::group::RankGroup;
use super::pattern::StepPattern;
use super::ring;
use super::schedule::{Lane, Stage};
use crate::fabric::Fabric;

/// Pieces that a chain is fed with for each rank it has **(choice)**: more fill it better and cost more steps.
const PIECES_PER_RANK: u32 = 2;

/// The tree, or the chain along the first cycle of a ring; with the number of chunks.
pub(super) fn stages(fabric: &Fabric, group: &RankGroup, root: u32, is_chain: bool) -> (Vec<Stage>, u32) {
    let count = group.size() as u32;
    let mut members = ring::orders(fabric, group).swap_remove(0);
    let place = members.iter().position(|&position| position == root).unwrap_or(0);
    members.rotate_left(place);
    let units = if is_chain { PIECES_PER_RANK * count } else { 1 };
    let (name, pattern) =
        if is_chain { ("chain", StepPattern::Chain { units }) } else { ("tree", StepPattern::Binomial { units }) };
    let lane = Lane { members, pieces: (0..units).collect(), width: 1, channel: 0 };
    (vec![Stage { name, pattern, is_mirrored: false, lanes: vec![lane] }], units)
}
