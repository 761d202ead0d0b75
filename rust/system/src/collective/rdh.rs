//! RDH: recursive doubling over the axes of a cube of chips, and a stage within the chips; mirrored, recursive halving.
//!
//! Ranks of equal index on their chips work together. Sizes of axes that are powers of two give one axis of the cube for
//! each bit; on a ring the bits are those of the Gray code, so that on a ring of four every step is one link. Ranks of
//! different index take the axes of a level in different order, so all links of a chip are busy in every step. Outer
//! levels come first when gathering, while there is little to send.
//!
//! Order of additions: within each chip in ascending positions; then, bit by bit in reverse, the two partners' partial
//! sums.

use super::cycles::{grid, is_ring, levels};
use super::group::{ChipMembers, RankGroup};
use super::pattern::StepPattern;
use super::schedule::{Lane, Stage};
use crate::error::{Error, Result};
use crate::fabric::Fabric;

/// The stages that gather, in order; mirrored and in reverse they reduce.
///
/// # Errors
/// [`Error::Value`] if the number of chips is no power of two.
pub(super) fn stages(fabric: &Fabric, group: &RankGroup) -> Result<Vec<Stage>> {
    let mut chips = group.chips();
    if group.members_per_chip().is_none() {
        // Ranks stand for chips where these have different numbers of them.
        let alone = |members: ChipMembers| {
            let chip = members.chip;
            members.positions.into_iter().map(move |position| ChipMembers { chip, positions: vec![position] })
        };
        chips = chips.into_iter().flat_map(alone).collect();
    }
    let (count, per_chip) = (chips.len(), chips[0].positions.len());
    if !count.is_power_of_two() {
        let below = 1usize << count.ilog2();
        return Err(Error::Value(format!(
            "algorithm \"rdh\" needs a power of two of chips: {count} are in the group; {below} or {} would do, and \"ring\", \"mesh\" and \"hierarchical\" take any number",
            2 * below
        )));
    }
    let bits = bits_of(fabric, &chips);
    let mut stages = Vec::new();
    let across = (0..per_chip).map(|k| {
        // Place of each chip on the cube, its bits in this rank's order; the level stays, the bits within it rotate.
        let mut order = vec![0; count];
        for (chip, levels) in bits.iter().enumerate() {
            let (mut place, mut shift) = (0, 0);
            for level in levels {
                for bit in 0..level.len() {
                    place |= usize::from(level[(bit + k) % level.len()]) << shift;
                    shift += 1;
                }
            }
            order[place] = chip;
        }
        let members: Vec<u32> = order.iter().map(|&chip| chips[chip].positions[k]).collect();
        Lane { pieces: members.clone(), members, width: 1, channel: 0 }
    });
    if count > 1 {
        stages.push(Stage {
            name: "cube",
            pattern: StepPattern::Doubling,
            is_mirrored: false,
            lanes: across.collect(),
        });
    }
    if per_chip > 1 {
        let within = chips.iter().map(|members| Lane {
            members: members.positions.clone(),
            pieces: (0..per_chip).flat_map(|k| chips.iter().map(move |chip| chip.positions[k])).collect(),
            width: count as u32,
            channel: 0,
        });
        stages.push(Stage {
            name: "within chips",
            pattern: StepPattern::Exchange,
            is_mirrored: false,
            lanes: within.collect(),
        });
    }
    Ok(stages)
}

/// For each chip, level by level, its bits.
fn bits_of(fabric: &Fabric, chips: &[ChipMembers]) -> Vec<Vec<Vec<bool>>> {
    let values = grid(fabric, chips).filter(|values| values.iter().all(|axis| axis.len().is_power_of_two()));
    let of = |value: usize, size: usize| (0..size.ilog2()).map(move |bit| value >> bit & 1 == 1);
    let Some(values) = values else {
        return (0..chips.len()).map(|chip| vec![of(chip, chips.len()).collect()]).collect();
    };
    let levels = levels(fabric);
    chips
        .iter()
        .map(|members| {
            let coordinates = &fabric.nodes()[members.chip as usize].coordinates;
            let bits_of_level = |axes: &Vec<usize>| {
                let bits_of_axis = |&axis: &usize| {
                    let place = values[axis].iter().position(|&value| value == coordinates[axis]).unwrap_or(0);
                    let code = if is_ring(fabric, axis) { place ^ place >> 1 } else { place };
                    of(code, values[axis].len()).collect::<Vec<_>>()
                };
                axes.iter().flat_map(bits_of_axis).collect()
            };
            levels.iter().map(bits_of_level).collect()
        })
        .collect()
}
