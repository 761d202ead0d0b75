//! Hierarchical: level by level of the system. Gathering goes from the outermost level to the innermost, so that slow
//! links carry least; reducing goes the other way.
//!
//! Levels are those of the chips' ids: system of a cluster, rack, server; the innermost one has the chips of a server (or
//! of a torus) with their ranks. The group must be symmetric: the same places in every part.
//!
//! Order of additions: within the innermost level first, then outwards. In the ring form each level adds as a ring does
//! (even channels ascending, odd ones descending; the innermost along the cycles of [`super::ring`]), in the mesh form
//! as a mesh does.

use std::collections::BTreeMap;

use super::cycles::{grid, levels};
use super::group::RankGroup;
use super::pattern::StepPattern;
use super::ring;
use super::schedule::{Lane, Stage};
use crate::error::{Error, Result};
use crate::fabric::Fabric;

/// Positions by place: `at[level 0][level 1]...` flattened, and the sizes of the levels.
struct Places {
    sizes: Vec<usize>,
    at: Vec<u32>,
}

/// The stages that gather, in order, those that reduce, in order, and the number of channels.
///
/// # Errors
/// [`Error::Value`] if the group spans one level only or is not symmetric.
pub(super) fn stages(fabric: &Fabric, group: &RankGroup, is_ring: bool) -> Result<(Vec<Stage>, Vec<Stage>, u32)> {
    let places = places(fabric, group)?;
    let inner_size = places.sizes.last().copied().unwrap_or(1);
    // The cycles of one innermost part, as places within it; the others are images of it.
    let inner_group = RankGroup::new(
        places.at[..inner_size].iter().map(|&position| group.ranks()[position as usize]).collect(),
        group.ranks_per_chip(),
        fabric.chips(),
    )?;
    let cycles = if is_ring { ring::orders(fabric, &inner_group) } else { vec![(0..inner_size as u32).collect()] };
    let channels = if is_ring { cycles.len().max(2) as u32 } else { 1 };
    let stage = |level: usize, name: &'static str, pattern: StepPattern, is_mirrored: bool| {
        let is_innermost = level + 1 == places.sizes.len();
        let lanes = (0..channels).flat_map(|channel| {
            let mut order: Vec<usize> = if is_innermost {
                cycles[channel as usize % cycles.len()].iter().map(|&place| place as usize).collect()
            } else if channel % 2 == 0 {
                (0..places.sizes[level]).collect()
            } else {
                (0..places.sizes[level]).rev().collect()
            };
            if is_mirrored && is_ring {
                order.reverse();
            }
            places.lanes(level, &order, channel, channels)
        });
        Stage { name, pattern, is_mirrored, lanes: lanes.collect() }
    };
    let build = |is_mirrored: bool| {
        let mut stages = Vec::new();
        for (level, &size) in places.sizes.iter().enumerate() {
            if is_ring {
                stages.push(stage(level, "ring of a level", StepPattern::Ring, is_mirrored));
            } else if level + 1 < places.sizes.len() {
                stages.push(stage(level, "mesh of a level", StepPattern::Exchange, is_mirrored));
            } else {
                let per_chip = group.members_per_chip().filter(|count| size % count == 0).unwrap_or(1) as u32;
                stages.push(stage(level, "across chips", StepPattern::MeshAcross { per_chip }, is_mirrored));
                stages.push(stage(level, "within chips", StepPattern::MeshWithin { per_chip }, is_mirrored));
            }
        }
        if is_mirrored {
            stages.reverse();
        }
        stages
    };
    Ok((build(false), build(true), channels))
}

fn places(fabric: &Fabric, group: &RankGroup) -> Result<Places> {
    let chips = group.chips();
    let refuse = |why: String| {
        Err(Error::Value(format!("algorithm \"hierarchical\" {why}; \"ring\" and \"mesh\" take any group")))
    };
    let values = match grid(fabric, &chips) {
        Some(values) if group.members_per_chip().is_some() => values,
        _ => return refuse("needs the same chips and the same number of ranks in every part of the system".to_owned()),
    };
    let count = |axes: &Vec<usize>| axes.iter().map(|&axis| values[axis].len()).product::<usize>();
    let parts = levels(fabric);
    let mut sizes: Vec<usize> = parts.iter().map(count).collect();
    let chips_inside = sizes.pop().unwrap_or(1);
    let per_chip = group.members_per_chip().unwrap_or(1);
    // Levels that the group does not span have nothing to do.
    sizes.retain(|&size| size > 1);
    let inner = chips_inside * per_chip;
    if sizes.is_empty() || (sizes.len() == 1 && inner == 1) {
        let all: Vec<&str> = fabric.id_parts().iter().map(String::as_str).collect();
        return refuse(format!("needs a group that spans two levels or more of {}", all.join(", ")));
    }
    if inner > 1 {
        sizes.push(inner);
    }
    // Chips ascend with their coordinates, the last axis fastest, so places are in that order already.
    let locals = |members: &super::group::ChipMembers| -> Vec<u32> {
        members.positions.iter().map(|&position| group.ranks()[position as usize] % group.ranks_per_chip()).collect()
    };
    if chips.iter().any(|members| locals(members) != locals(&chips[0])) {
        return refuse("needs the same ranks of each chip".to_owned());
    }
    let at = chips.iter().flat_map(|members| members.positions.iter().copied()).collect();
    Ok(Places { sizes, at })
}

impl Places {
    /// For each choice of the other levels' places, the members along one level and what they hold when its turn comes:
    /// everything of the outer levels, and their own of the inner ones.
    fn lanes(&self, level: usize, order: &[usize], channel: u32, channels: u32) -> Vec<Lane> {
        let inner: usize = self.sizes[level + 1..].iter().product();
        let outer: usize = self.sizes[..level].iter().product();
        let size = self.sizes[level];
        let place = |o: usize, along: usize, i: usize| self.at[(o * size + along) * inner + i];
        let mut lanes = BTreeMap::new();
        for o in 0..outer {
            for i in 0..inner {
                let members = order.iter().map(|&along| place(o, along, i)).collect();
                let pieces = order
                    .iter()
                    .flat_map(|&along| (0..outer).map(move |any| place(any, along, i) * channels + channel))
                    .collect();
                lanes.insert((o, i), Lane { members, pieces, width: outer as u32, channel });
            }
        }
        lanes.into_values().collect()
    }
}
