//! Cycles through the chips of a group, on which rings run.

use crate::fabric::{Fabric, LevelKind};

use super::group::{ChipMembers, RankGroup};

/// The values that a group's chips have on each axis, if they are all combinations of them.
pub(super) fn grid(fabric: &Fabric, chips: &[ChipMembers]) -> Option<Vec<Vec<u32>>> {
    let mut values: Vec<Vec<u32>> = vec![Vec::new(); fabric.axes().len()];
    for members in chips {
        for (axis, &coordinate) in fabric.nodes()[members.chip as usize].coordinates.iter().enumerate() {
            values[axis].push(coordinate);
        }
    }
    for axis in &mut values {
        axis.sort_unstable();
        axis.dedup();
    }
    let is_distinct = chips.windows(2).all(|pair| pair[0].chip < pair[1].chip);
    (is_distinct && values.iter().map(Vec::len).product::<usize>() == chips.len()).then_some(values)
}

/// Whether an axis is a ring.
pub(super) fn is_ring(fabric: &Fabric, axis: usize) -> bool {
    fabric.levels().iter().any(|level| level.kind == LevelKind::Ring && level.over.contains(&axis))
}

/// Cycles through chips as indices into `chips`: each one followed by its reverse. On a square torus two that share no
/// link, else one; along axes, so that neighbours of a cycle are neighbours in the fabric wherever that is possible.
pub(super) fn cycles(fabric: &Fabric, chips: &[ChipMembers]) -> Vec<Vec<usize>> {
    let count = chips.len();
    if count <= 2 {
        return vec![(0..count).collect()];
    }
    let mut found = match grid(fabric, chips) {
        Some(values) => through_grid(fabric, &values),
        None => vec![(0..count).collect()],
    };
    let mut all = Vec::new();
    for cycle in found.drain(..) {
        let back = cycle.iter().rev().copied().collect();
        all.extend([cycle, back]);
    }
    all
}

/// Chips of a grid are numbered with the last axis fastest, as the group lists them.
fn through_grid(fabric: &Fabric, values: &[Vec<u32>]) -> Vec<Vec<usize>> {
    let strides: Vec<usize> = (0..values.len()).map(|axis| values[axis + 1..].iter().map(Vec::len).product()).collect();
    let is_whole_ring = |axis: usize| {
        values[axis].len() >= 3 && values[axis].len() == fabric.axes()[axis].size as usize && is_ring(fabric, axis)
    };
    let rings: Vec<usize> = (0..values.len()).rev().filter(|&axis| is_whole_ring(axis)).collect();
    let square = rings.iter().enumerate().find_map(|(i, &fast)| {
        rings[i + 1..].iter().find(|&&slow| values[slow].len() == values[fast].len()).map(|&slow| (slow, fast))
    });
    // A base that is a cycle already, then the other axes there and back.
    let (mut bases, used): (Vec<Vec<usize>>, Vec<usize>) = match square {
        Some((slow, fast)) => {
            let n = values[fast].len();
            let along = |major: usize, minor: usize| {
                (0..n * n).map(|k| (k / n) * major + (k % n + n - (k / n) % n) % n * minor).collect::<Vec<_>>()
            };
            let mut second = along(strides[fast], strides[slow]);
            // Other places to leave for further axes than those of the first.
            second.rotate_left(2);
            (vec![along(strides[slow], strides[fast]), second], vec![slow, fast])
        }
        None => match rings.first() {
            Some(&ring) => (vec![(0..values[ring].len()).map(|i| i * strides[ring]).collect()], vec![ring]),
            None => (vec![vec![0]], vec![]),
        },
    };
    for axis in (0..values.len()).rev().filter(|axis| !used.contains(axis)) {
        if axis == 0 && square.is_some() && fabric.network().is_some() && values[0].len() > 1 {
            bases = leaving_everywhere(bases);
        }
        for base in &mut bases {
            let once = std::mem::take(base);
            for value in 0..values[axis].len() {
                let offset = value * strides[axis];
                if value % 2 == 0 {
                    base.extend(once.iter().map(|chip| chip + offset));
                } else {
                    base.extend(once.iter().rev().map(|chip| chip + offset));
                }
            }
        }
    }
    bases
}

/// Cycles that begin at other places of the same ones, so that a network is entered and left from every chip: two cycles
/// that begin at opposite ends of every fourth link do.
fn leaving_everywhere(bases: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let turned = |base: &Vec<usize>, by: usize| {
        let mut base = base.clone();
        base.rotate_left(by);
        base
    };
    bases.iter().flat_map(|base| (0..base.len()).step_by(4).map(|by| turned(base, by)).collect::<Vec<_>>()).collect()
}

/// The levels at which a fabric falls apart into equal parts, as lists of axes, the outermost first. Axes of one torus
/// stay together.
pub(super) fn levels(fabric: &Fabric) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    for (axis, described) in fabric.axes().iter().enumerate() {
        let joins = found.last().is_some_and(|last| {
            let same_part = last.iter().any(|&other| fabric.axes()[other].part == described.part);
            let same_torus = fabric.levels().iter().any(|level| {
                level.kind == LevelKind::Ring
                    && level.over.contains(&axis)
                    && last.iter().any(|other| level.over.contains(other))
            });
            same_part || same_torus
        });
        match found.last_mut() {
            Some(last) if joins => last.push(axis),
            _ => found.push(vec![axis]),
        }
    }
    found
}

/// All positions of a group, chip by chip.
pub(super) fn by_chip(group: &RankGroup) -> Vec<u32> {
    group.chips().into_iter().flat_map(|members| members.positions).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fabric::LinkProfile;

    fn cycles_of(name: &str, ranks: Vec<u32>) -> (Fabric, Vec<ChipMembers>, Vec<Vec<usize>>) {
        let fabric = Fabric::built_in(name, LinkProfile::Docs).expect("fabric");
        let chips = RankGroup::new(ranks, 1, fabric.chips()).expect("group").chips();
        let found = cycles(&fabric, &chips);
        (fabric, chips, found)
    }

    fn edges(cycle: &[usize]) -> BTreeSet<(usize, usize)> {
        (0..cycle.len()).map(|i| (cycle[i], cycle[(i + 1) % cycle.len()])).collect()
    }

    #[test]
    fn test_tori_have_two_cycles_that_share_no_link() {
        for (name, count) in [("trn2_instance", 16), ("trn2_ultraserver", 64), ("trn1_32xlarge", 16)] {
            let (fabric, _, cycles) = cycles_of(name, (0..count).collect());
            assert_eq!(cycles.len(), 4, "{name}");
            let mut all = BTreeSet::new();
            for cycle in &cycles {
                assert_eq!(cycle.iter().collect::<BTreeSet<_>>().len(), count as usize);
                for (from, to) in edges(cycle) {
                    assert_eq!(fabric.hops(from, to).expect("joined"), 1, "{name}: {from} to {to}");
                    assert!(all.insert((from, to)), "{name}: {from} to {to} twice");
                }
            }
        }
    }

    #[test]
    fn test_racks_are_crossed_between_twins() {
        let (fabric, chips, cycles) = cycles_of("trn3_gen2", (0..144).collect());
        assert_eq!(cycles.len(), 2);
        for (from, to) in edges(&cycles[0]) {
            let hops = fabric.hops(chips[from].chip as usize, chips[to].chip as usize).expect("joined");
            assert_eq!(hops, 1, "{from} to {to}");
        }
    }

    #[test]
    fn test_parts_of_a_torus_are_walked_along_links() {
        for ranks in [vec![4, 5, 6, 7], vec![0, 1, 2, 3, 4, 5, 6, 7], vec![0, 4, 8, 12]] {
            let (fabric, chips, cycles) = cycles_of("trn2_instance", ranks);
            for (from, to) in edges(&cycles[0]) {
                assert_eq!(fabric.hops(chips[from].chip as usize, chips[to].chip as usize).expect("joined"), 1);
            }
        }
    }

    #[test]
    fn test_levels_keep_a_torus_together() {
        let of = |name: &str| levels(&Fabric::built_in(name, LinkProfile::Docs).expect("fabric"));
        assert_eq!(of("trn2_instance"), [vec![0, 1]]);
        assert_eq!(of("trn2_ultraserver"), [vec![0], vec![1, 2]]);
        assert_eq!(of("trn3_gen2"), [vec![0], vec![1], vec![2]]);
        assert_eq!(of("trn3_gen1"), [vec![0], vec![1], vec![2, 3]]);
    }
}
