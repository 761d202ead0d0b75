//! Rings along axes: the tori of Trn1, Trn2 and TPU pods.

use super::graph::{Fabric, Link};

/// Joins each chip with its neighbours along each axis of a ring level, cyclically; two chips share one bundle.
pub(super) fn add_rings(fabric: &mut Fabric, level: usize, classes: &mut u32) {
    let of = fabric.levels[level].clone();
    for &axis in &of.over {
        let size = fabric.axes[axis].size;
        let steps: &[u32] = match size {
            1 => &[],
            2 => &[1],
            _ => &[1, size - 1],
        };
        for &step in steps {
            for chip in 0..fabric.chips {
                let mut coordinates = fabric.nodes[chip].coordinates.clone();
                coordinates[axis] = (coordinates[axis] + step) % size;
                let to = fabric.at(&coordinates);
                fabric.links.push(Link {
                    from: chip as u32,
                    to,
                    rate: of.rate,
                    latency: of.latency,
                    level: level as u32,
                    links: of.links,
                    class: *classes,
                });
            }
            *classes += 1;
        }
    }
}
