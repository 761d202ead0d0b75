//! How work falls into shares: which things to do, along which axis.

use std::ops::Range;

use trn3_machine::view::View;

/// The part of some work that one core does.
#[derive(Clone, Debug)]
pub(crate) struct CoreShare {
    /// Whose it is; None where the work is not divided.
    pub(crate) core: Option<usize>,
    /// Which of the things to do.
    pub(crate) items: Range<usize>,
}

/// On which core instructions are issued.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CorePlace {
    /// Its number.
    pub(crate) core: usize,
    /// Whether what is issued is a share already, which is not divided again.
    pub(crate) is_share: bool,
}

/// The axis of `lengths` that falls into equal parts best: the first one that is even or long, else the longest.
pub(crate) fn even_axis(lengths: &[usize]) -> Option<usize> {
    let even = |&axis: &usize| lengths[axis] > 0 && (lengths[axis].is_multiple_of(2) || lengths[axis] >= LONG);
    let longest = || (0..lengths.len()).max_by_key(|&axis| lengths[axis]).filter(|&axis| lengths[axis] > 1);
    (0..lengths.len()).find(even).or_else(longest)
}

/// Things from which on one more on a core makes no difference **(choice)**.
pub(crate) const LONG: usize = 8;

/// Part of a view along an axis.
pub(crate) fn along(view: &View, axis: usize, items: &Range<usize>) -> View {
    let mut part = view.clone();
    part.offset += items.start as i64 * view.strides[axis];
    part.shape[axis] = items.len();
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_axes_fall_into_equal_parts_where_they_can() {
        assert_eq!(even_axis(&[3, 512]), Some(1));
        assert_eq!(even_axis(&[2, 512]), Some(0));
        assert_eq!(even_axis(&[9, 512]), Some(0));
        assert_eq!(even_axis(&[3, 7, 5]), Some(1));
        assert_eq!(even_axis(&[1, 1]), None);
        assert_eq!(even_axis(&[]), None);
    }
}
