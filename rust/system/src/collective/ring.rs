//! Ring: every rank passes on what it got from its predecessor.
//!
//! Channels run along cycles through the chips, in both directions: four on a square torus, over two Hamiltonian cycles
//! that share no link; two elsewhere; one for two chips or one. On a chip the ranks follow each other. A group of one
//! rank a chip, or one a server, is a ring of just these.
//!
//! Order of additions: in channel `c`, chunk `p` starts at the rank after `p` in the channel's cycle, travels along it,
//! and each rank adds its own value to what arrives.

use super::cycles::cycles;
use super::group::RankGroup;
use super::pattern::StepPattern;
use super::schedule::{Lane, Stage};
use crate::fabric::Fabric;

/// For each channel all positions in the order of its cycle.
pub(super) fn orders(fabric: &Fabric, group: &RankGroup) -> Vec<Vec<u32>> {
    let chips = group.chips();
    cycles(fabric, &chips)
        .into_iter()
        .enumerate()
        .map(|(channel, cycle)| {
            let is_reverse = channel % 2 == 1;
            let on_chip = |chip: usize| {
                let mut positions = chips[chip].positions.clone();
                if is_reverse {
                    positions.reverse();
                }
                positions
            };
            cycle.into_iter().flat_map(on_chip).collect()
        })
        .collect()
}

/// The stage that gathers, and the mirrored one that reduces. The latter runs on the reversed order, which makes it
/// travel along the order itself.
pub(super) fn stages(fabric: &Fabric, group: &RankGroup) -> (Vec<Stage>, Vec<Stage>, u32) {
    let orders = orders(fabric, group);
    let channels = orders.len() as u32;
    let stage = |is_mirrored: bool| {
        let lanes = orders.iter().enumerate().map(|(channel, order)| {
            let mut members = order.clone();
            if is_mirrored {
                members.reverse();
            }
            let pieces = members.iter().map(|&chunk| chunk * channels + channel as u32).collect();
            Lane { members, pieces, width: 1, channel: channel as u32 }
        });
        Stage { name: "ring", pattern: StepPattern::Ring, is_mirrored, lanes: lanes.collect() }
    };
    (vec![stage(false)], vec![stage(true)], channels)
}
