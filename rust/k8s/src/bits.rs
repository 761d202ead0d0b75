//! Sets of devices of one node, a bit each.

use smallvec::SmallVec;

const WIDTH: usize = u64::BITS as usize;

/// A set of small numbers; sets that meet are made for as many numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bits(SmallVec<[u64; 2]>);

impl Bits {
    /// The empty set of numbers below `count`.
    pub(crate) fn none(count: usize) -> Self {
        Self(SmallVec::from_elem(0, count.div_ceil(WIDTH)))
    }

    /// The numbers of which something is true.
    pub(crate) fn of(count: usize, has: impl Fn(usize) -> bool) -> Self {
        let mut bits = Self::none(count);
        (0..count).filter(|number| has(*number)).for_each(|number| bits.insert(number));
        bits
    }

    pub(crate) fn insert(&mut self, number: usize) {
        self.0[number / WIDTH] |= 1 << (number % WIDTH);
    }

    pub(crate) fn take_out(&mut self, number: usize) {
        self.0[number / WIDTH] &= !(1 << (number % WIDTH));
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        self.0[number / WIDTH] >> (number % WIDTH) & 1 == 1
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The smallest number.
    pub(crate) fn first(&self) -> Option<usize> {
        let (place, word) = self.0.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(place * WIDTH + word.trailing_zeros() as usize)
    }

    /// The numbers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(place, word)| {
            let rest = std::iter::successors(Some(*word), |word| Some(word & word.wrapping_sub(1)));
            rest.take_while(|word| *word != 0).map(move |word| place * WIDTH + word.trailing_zeros() as usize)
        })
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, others)| *word |= others);
    }

    pub(crate) fn remove(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, others)| *word &= !others);
    }

    pub(crate) fn keep(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, others)| *word &= others);
    }

    /// What is in both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut bits = self.clone();
        bits.keep(other);
        bits
    }

    /// Whether something is in both.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(word, others)| word & others != 0)
    }

    /// Whether all is in the other.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(word, others)| word & !others == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn test_bits_are_sets(
            left in proptest::collection::btree_set(0usize..200, 0..20),
            right in proptest::collection::btree_set(0usize..200, 0..20),
        ) {
            let (a, b) = (Bits::of(200, |n| left.contains(&n)), Bits::of(200, |n| right.contains(&n)));
            let listed = |bits: &Bits| bits.iter().collect::<BTreeSet<_>>();
            prop_assert_eq!(listed(&a), left.clone());
            prop_assert_eq!((a.count(), a.first()), (left.len(), left.first().copied()));
            prop_assert_eq!(listed(&a.and(&b)), &left & &right);
            prop_assert_eq!((a.meets(&b), a.is_within(&b)), (!left.is_disjoint(&right), left.is_subset(&right)));
            let (mut sum, mut rest) = (a.clone(), a.clone());
            sum.add(&b);
            rest.remove(&b);
            prop_assert_eq!((listed(&sum), listed(&rest)), (&left | &right, &left - &right));
        }
    }
}
