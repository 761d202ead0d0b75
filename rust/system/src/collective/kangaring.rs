//! KangaRing: a ring of pairs of ranks on one chip, about half the steps of a ring and fewer accesses of memory.
//!
//! The primary of a pair moves both ranks' chunks and writes what arrives for both: one read and two writes where a ring
//! needs two of each (3 accesses of 4). Backwards it reads both ranks' values and sends their sum (4 of 6). Roles
//! alternate: the even rank of a pair is primary on the first cycle, the odd one on the second. What a chip began does
//! not come back to it by wire.
//!
//! Order of additions: in channel `c`, chunk `p` travels along the channel's cycle of pairs to the pair of `p`; a pair's
//! two values are added where it sends, the lower position first, rounded, and then added to what the next primary has.

use super::cycles::cycles;
use super::group::RankGroup;
use super::pattern::StepPattern;
use super::schedule::{Lane, Stage};
use crate::error::{Error, Result};
use crate::fabric::Fabric;

/// The stage that gathers, and the mirrored one that reduces.
///
/// # Errors
/// [`Error::Value`] if the group does not have all ranks of its chips, or these are no pairs.
pub(super) fn stages(fabric: &Fabric, group: &RankGroup) -> Result<(Vec<Stage>, Vec<Stage>, u32)> {
    let chips = group.chips();
    let per_chip = group.ranks_per_chip() as usize;
    if per_chip % 2 == 1 || chips.iter().any(|members| members.positions.len() != per_chip) {
        let got = chips.iter().find(|members| members.positions.len() != per_chip).unwrap_or(&chips[0]);
        return Err(Error::Value(format!(
            "algorithm \"kangaring\" needs all ranks of each chip and an even number of them: {} of {per_chip} of chip {} are in the group; \"ring\" and \"mesh\" work",
            got.positions.len(),
            got.chip
        )));
    }
    let cycles = cycles(fabric, &chips);
    let channels = cycles.len() as u32;
    let pairs = per_chip as u32 / 2;
    let stage = |is_mirrored: bool| {
        let lanes = cycles.iter().enumerate().map(|(channel, cycle)| {
            let (is_second_cycle, runs_back) = (channel / 2 % 2 == 1, (channel % 2 == 1) != is_mirrored);
            let mut order = cycle.clone();
            if is_mirrored {
                order.reverse();
            }
            let mut members = Vec::with_capacity(group.size());
            for chip in order {
                let mut on_chip: Vec<&[u32]> = chips[chip].positions.chunks(2).collect();
                if runs_back {
                    on_chip.reverse();
                }
                for pair in on_chip {
                    members.extend(if is_second_cycle { [pair[1], pair[0]] } else { [pair[0], pair[1]] });
                }
            }
            let pieces = members.iter().map(|&chunk| chunk * channels + channel as u32).collect();
            Lane { members, pieces, width: 1, channel: channel as u32 }
        });
        Stage { name: "pairs", pattern: StepPattern::PairRing { pairs }, is_mirrored, lanes: lanes.collect() }
    };
    Ok((vec![stage(false)], vec![stage(true)], channels))
}
