//! Grids of elements: where whole numbers on one have the same steps, and how it is cut into rectangles that
//! instructions can take.

use std::ops::Range;

/// The first number and the steps along each axis, of numbers in C order; None if there are no such steps.
///
/// An axis of length 1 has a step of 0.
///
/// # Panics
/// Where there are fewer numbers than the shape has places.
///
/// ```
/// use trn3_machine::view::grid::even_steps;
///
/// assert_eq!(even_steps(&[3, 2], &[7, 8, 11, 12, 15, 16]), Some((7, vec![4, 1])));
/// assert_eq!(even_steps(&[4], &[0, 0, 1, 1]), None);
/// ```
pub fn even_steps(shape: &[usize], numbers: &[i64]) -> Option<(i64, Vec<i64>)> {
    let &start = numbers.first()?;
    let strides = strides(shape);
    let steps: Vec<i64> = shape
        .iter()
        .zip(&strides)
        .map(|(&length, &stride)| if length > 1 { numbers[stride].wrapping_sub(start) } else { 0 })
        .collect();
    let whole: Vec<Range<usize>> = shape.iter().map(|&length| 0..length).collect();
    let mut even = true;
    visit(&whole, &strides, |position, offset| {
        let steps = position.iter().zip(&steps).map(|(&at, &step)| (at as i64).wrapping_mul(step));
        even &= steps.fold(start, i64::wrapping_add) == numbers[offset];
    });
    even.then_some((start, steps))
}

/// Rectangles that together hold the grid's elements where a mask is true; None: everywhere. All arrays are in C order
/// and of the grid's shape.
///
/// Within each rectangle, numbers of `even` have the same steps along each axis, from 0; those of `constant` are one
/// number.
///
/// # Panics
/// Where an array is smaller than the grid.
///
/// ```
/// use trn3_machine::view::grid::boxes;
///
/// let triangle = [true, false, true, true];
/// assert_eq!(boxes(&[2, 2], Some(&triangle), &[], &[]), [[0..1, 0..1], [1..2, 0..2]]);
/// assert_eq!(boxes(&[4], None, &[&[0, 1, 5, 6]], &[]), [[0..2], [2..4]]);
/// ```
pub fn boxes(shape: &[usize], mask: Option<&[bool]>, even: &[&[i64]], constant: &[&[i64]]) -> Vec<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let cutter = Cutter { strides: strides(shape), mask, even, constant };
    cutter.split(shape.iter().map(|&length| 0..length).collect(), &mut found);
    found
}

struct Cutter<'a> {
    strides: Vec<usize>,
    mask: Option<&'a [bool]>,
    even: &'a [&'a [i64]],
    constant: &'a [&'a [i64]],
}

impl Cutter<'_> {
    fn split(&self, mut region: Vec<Range<usize>>, found: &mut Vec<Vec<Range<usize>>>) {
        let Some(is_full) = self.tighten(&mut region) else { return };
        let uneven: Vec<&[i64]> = self.even.iter().copied().filter(|numbers| !self.is_even(&region, numbers)).collect();
        let varying: Vec<&[i64]> =
            self.constant.iter().copied().filter(|numbers| !self.is_constant(&region, numbers)).collect();
        if is_full && uneven.is_empty() && varying.is_empty() {
            found.push(region);
            return;
        }
        let cut = (0..region.len()).find_map(|axis| {
            let cuts = self.cuts(axis, &region, &uneven, &varying);
            (!cuts.is_empty()).then_some((axis, cuts))
        });
        let (axis, cuts) = cut.unwrap_or_else(|| {
            // Coupled along several axes: one by one along the longest, of equal ones the first.
            let longest = (0..region.len()).rev().max_by_key(|&axis| region[axis].len()).unwrap_or(0);
            (longest, (1..region[longest].len()).collect())
        });
        let Range { start, end } = region[axis];
        let bounds: Vec<usize> = [start].into_iter().chain(cuts.iter().map(|cut| start + cut)).chain([end]).collect();
        for pair in bounds.windows(2) {
            let mut part = region.clone();
            part[axis] = pair[0]..pair[1];
            self.split(part, found);
        }
    }

    /// Shrinks a region to where the mask is true at all; whether it then is everywhere, or None if it is nowhere.
    fn tighten(&self, region: &mut [Range<usize>]) -> Option<bool> {
        let Some(mask) = self.mask else {
            return region.iter().all(|range| !range.is_empty()).then_some(true);
        };
        let mut tight: Vec<Range<usize>> = region.iter().map(|range| range.end..range.start).collect();
        let mut count = 0;
        visit(region, &self.strides, |position, offset| {
            if mask[offset] {
                count += 1;
                for (range, &at) in tight.iter_mut().zip(position) {
                    *range = range.start.min(at)..range.end.max(at + 1);
                }
            }
        });
        if count == 0 {
            return None;
        }
        region.clone_from_slice(&tight);
        Some(count == region.iter().map(ExactSizeIterator::len).product::<usize>())
    }

    fn is_even(&self, region: &[Range<usize>], numbers: &[i64]) -> bool {
        (0..region.len()).filter(|&axis| region[axis].len() > 1).all(|axis| {
            let (rows, stride) = (self.rows(axis, region), self.strides[axis]);
            let step = numbers[rows[0] + stride].wrapping_sub(numbers[rows[0]]);
            step >= 0
                && rows.iter().all(|&row| {
                    let along = (1..region[axis].len()).map(|at| row + at * stride);
                    along.into_iter().all(|at| numbers[at].wrapping_sub(numbers[at - stride]) == step)
                })
        })
    }

    fn is_constant(&self, region: &[Range<usize>], numbers: &[i64]) -> bool {
        let mut first = None;
        let mut constant = true;
        visit(region, &self.strides, |_, offset| constant &= *first.get_or_insert(numbers[offset]) == numbers[offset]);
        constant
    }

    /// Offsets of the elements of a region that are the first along an axis.
    fn rows(&self, axis: usize, region: &[Range<usize>]) -> Vec<usize> {
        let mut across = region.to_vec();
        across[axis] = region[axis].start..region[axis].start + 1;
        let mut rows = Vec::new();
        visit(&across, &self.strides, |_, offset| rows.push(offset));
        rows
    }

    /// Where an axis must be cut, from the region's start: the mask or an operand's pattern changes there.
    fn cuts(&self, axis: usize, region: &[Range<usize>], uneven: &[&[i64]], varying: &[&[i64]]) -> Vec<usize> {
        let (rows, stride, length) = (self.rows(axis, region), self.strides[axis], region[axis].len());
        let differ = |numbers: &[i64], place: usize| {
            rows.iter().any(|row| numbers[row + place * stride] != numbers[row + (place - 1) * stride])
        };
        let mut found = vec![false; length];
        for (place, cut) in found.iter_mut().enumerate().skip(1) {
            *cut = varying.iter().any(|numbers| differ(numbers, place))
                || self.mask.is_some_and(|mask| {
                    rows.iter().any(|row| mask[row + place * stride] != mask[row + (place - 1) * stride])
                });
        }
        for numbers in uneven {
            let step = |row: usize, place: usize| {
                numbers[row + (place + 1) * stride].wrapping_sub(numbers[row + place * stride])
            };
            let mut start = 0;
            for place in 0..length - 1 {
                // Access patterns run forwards.
                found[place + 1] |= rows.iter().any(|&row| step(row, place) < 0);
                if place > start && rows.iter().any(|&row| step(row, place) != step(row, place - 1)) {
                    // A new run begins after the last element of this one.
                    start = place + 1;
                    found[if start < length { start } else { place }] = true;
                }
            }
        }
        (1..length).filter(|&place| found[place]).collect()
    }
}

/// Distances along each axis of arrays in C order.
pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Calls `each` with the position and the offset of every element of a region, in C order.
pub(super) fn visit(region: &[Range<usize>], strides: &[usize], mut each: impl FnMut(&[usize], usize)) {
    if region.iter().any(Range::is_empty) {
        return;
    }
    let mut position: Vec<usize> = region.iter().map(|range| range.start).collect();
    let mut offset: usize = position.iter().zip(strides).map(|(at, stride)| at * stride).sum();
    loop {
        each(&position, offset);
        let Some(axis) = (0..region.len()).rev().find(|&axis| position[axis] + 1 < region[axis].end) else { return };
        position[axis] += 1;
        offset += strides[axis];
        for inner in axis + 1..region.len() {
            offset -= (position[inner] - region[inner].start) * strides[inner];
            position[inner] = region[inner].start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(shape: &[usize], found: &[Vec<Range<usize>>]) -> Vec<usize> {
        let mut counts = vec![0; shape.iter().product()];
        for region in found {
            visit(region, &strides(shape), |_, offset| counts[offset] += 1);
        }
        counts
    }

    #[test]
    fn test_boxes_hold_every_mask_of_a_small_grid_once() {
        for bits in 0u32..1 << 12 {
            let mask: Vec<bool> = (0..12).map(|bit| bits >> bit & 1 == 1).collect();
            let wanted: Vec<usize> = mask.iter().map(|&inside| usize::from(inside)).collect();
            assert_eq!(covered(&[3, 4], &boxes(&[3, 4], Some(&mask), &[], &[])), wanted);
        }
    }

    #[test]
    fn test_numbers_in_a_box_are_even_or_constant() {
        for code in 0u32..3u32.pow(8) {
            let numbers: Vec<i64> = (0..8).map(|place| i64::from(code / 3u32.pow(place) % 3)).collect();
            let within = |region: &[Range<usize>]| {
                let mut inside = Vec::new();
                visit(region, &[4, 1], |_, offset| inside.push(numbers[offset]));
                (region.iter().map(ExactSizeIterator::len).collect::<Vec<_>>(), inside)
            };
            let even = boxes(&[2, 4], None, &[&numbers], &[]);
            assert_eq!(covered(&[2, 4], &even), [1; 8]);
            for (shape, inside) in even.iter().map(|region| within(region)) {
                let (_, steps) = even_steps(&shape, &inside).expect("steps");
                assert!(steps.iter().all(|&step| step >= 0), "{numbers:?}");
            }
            let constant = boxes(&[2, 4], None, &[], &[&numbers]);
            assert_eq!(covered(&[2, 4], &constant), [1; 8]);
            assert!(constant.iter().all(|region| within(region).1.windows(2).all(|pair| pair[0] == pair[1])));
        }
    }
}
