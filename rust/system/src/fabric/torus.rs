//! Rings along axes: the tori of Trn1, Trn2 and TPU pods.

use super::graph::Fabric;

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
            fabric.add_shift(level, *classes, |coordinates| coordinates[axis] = (coordinates[axis] + step) % size);
            *classes += 1;
        }
    }
}
